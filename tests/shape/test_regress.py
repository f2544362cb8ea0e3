"""What the image says by regressions, against slow refits."""

import numpy as np
import pytest

from cutlearn.shape.generative import fit_shapes
from cutlearn.shape.training import RIDGES, fit_unary, ridge, see_image
from shape.tiny_views import view


def slow_ridge(x, y, k):
    """R and the error of every row left out, by refits with the others' own mean."""

    def fit(keep):
        mean_x, mean_y = x[keep].mean(axis=0), y[keep].mean(axis=0)
        a, b = x[keep] - mean_x, y[keep] - mean_y
        return np.linalg.solve(a.T @ a + k * np.eye(x.shape[1]), a.T @ b).T, mean_x, mean_y

    total = far = 0.0
    for r in range(len(x)):
        R, mean_x, mean_y = fit(np.arange(len(x)) != r)
        total += ((y[r] - mean_y - R @ (x[r] - mean_x)) ** 2).sum()
        far += ((y[r] - mean_y) ** 2).sum()
    return fit(np.ones(len(x), bool))[0], 1 - total / far


@pytest.mark.parametrize("noise", [0.1, 1.0, 10.0])
def test_ridge_is_the_best_of_slow_refits(noise):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 4))
    y = x @ rng.normal(size=(4, 3)) + noise * rng.normal(size=(30, 3)) + 5
    length = x.var(axis=0).sum()
    slow = [slow_ridge(x, y, k * length) for k in RIDGES]
    R, explained = max(slow, key=lambda found: found[1])
    made, told = ridge(x[:, None].astype("f4"), y[:, None].astype("f4"))
    assert told == pytest.approx(explained, abs=1e-4)
    assert made == pytest.approx(R, abs=1e-4)


def test_means_of_patches_are_not_explained_by_the_regression():
    """Two patches of other means and no relation inside: nothing to trust."""
    rng = np.random.default_rng(1)
    shift = np.array([0.0, 10.0])[:, None]
    x, y = (rng.normal(size=(40, 2, k)) + shift for k in (3, 2))
    assert ridge(x, y)[1] < 0.1
    assert ridge(x, np.concatenate([x[..., :1] + 7, -x[..., 1:2]], axis=2))[1] > 0.95


def test_features_or_masks_that_never_vary_say_nothing():
    x, y = np.ones((4, 1, 3), np.float32), np.eye(4, dtype=np.float32)[:, None]
    for R, explained in (ridge(x, y), ridge(y, x)):
        assert explained == 0
        assert not R.any()


def test_the_unary_model_leaves_to_the_place_what_the_place_tells():
    """The label is the place; a feature that goes with it gets next to no weight."""
    views = [view(k) for k in range(60)]
    rng = np.random.default_rng(3)
    truth = np.arange(6) % 2
    for seen in views:
        seen.regions[:] = rng.permutation(6) % 4
        seen.x0[:] = rng.normal(size=seen.x0.shape)
    labels = [np.where(rng.random(6) < 0.9, truth, 1 - truth).astype(np.uint8) for _ in views]
    V0, b = fit_unary(views, labels)
    assert np.array_equal(b > 0, truth.astype(bool))
    assert np.abs(V0).max() < 0.3 * np.abs(b).min()
    for seen, mask in zip(views, labels):
        told = rng.integers(0, 2, len(seen.x0))
        seen.x0[:, 0] = told - 0.5
        mask[:] = told[seen.regions]
    V0, b = fit_unary(views, labels)
    assert V0[0] > 5 * np.abs(V0[1:]).max()
    assert V0[0] > 5 * np.abs(b).max()


@pytest.mark.parametrize("hidden", [(8,), (8, 4)])
def test_units_hear_of_an_image_what_they_would_hear_of_the_mask_it_tells(hidden):
    """HOG that holds the mask itself: every unit hears a multiple of W'(y - mean y)."""
    rng = np.random.default_rng(2)
    masks = rng.integers(0, 2, (40, 8, 8)).astype(np.uint8)
    shapes = fit_shapes(masks, hidden, (30, 30))
    y = shapes.patches.gather(masks.reshape(40, -1).astype(np.float32))
    h1 = shapes.hidden(masks)
    x1, x2 = y - y.mean(axis=0), h1 - h1.mean(axis=0)
    views = [view(k) for k in range(40)]
    seen = [type(v)(v.x0, v.regions, x1[k], x2[k], v.edges) for k, v in enumerate(views)]
    made = see_image(shapes, seen, masks)
    heard, wanted = x1 @ made["V1"].T, x1 @ shapes.W
    assert np.corrcoef(heard.ravel(), wanted.ravel())[0, 1] > 0.95
    assert made["V2"].shape == (shapes.c2.size, h1.shape[1])
    if len(hidden) == 2:
        above, wanted = x2 @ made["V2"].T, x2 @ shapes.W2
        assert np.corrcoef(above.ravel(), wanted.ravel())[0, 1] > 0.95
