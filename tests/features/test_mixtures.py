"""Mixtures of colours: beside scikit-learn's, on few pixels, and what relabelling finds."""

import numpy as np
import pytest
from skimage.color import rgb2lab
from sklearn.mixture import GaussianMixture

import cutlearn as cl
from cutlearn.features.mixtures import (
    ANY_COLOR,
    LEAST_DEVIATION,
    SUREST,
    fit_mixture,
    log_odds,
    odds_of,
    palette,
    relabelled,
    srgb_to_lab,
)


def drawn(rng, n=400):
    """Two clusters, well apart, of different sizes."""
    one = rng.normal([0.2, 0.1, -0.1], 0.05, (n, 3))
    two = rng.normal([0.7, -0.2, 0.2], 0.08, (3 * n, 3))
    return np.concatenate([one, two])


def test_reaches_the_mixture_of_scikit_learn():
    x = drawn(np.random.default_rng(0))
    ours = fit_mixture(x, np.ones(len(x)), components=2)
    peer = GaussianMixture(2, reg_covar=LEAST_DEVIATION**2, tol=1e-9, random_state=0).fit(x)
    order, theirs = np.argsort(ours.weights), np.argsort(peer.weights_)
    assert ours.weights[order] == pytest.approx(peer.weights_[theirs], abs=1e-6)
    assert ours.means[order] == pytest.approx(peer.means_[theirs], abs=1e-6)
    assert ours.covariances[order] == pytest.approx(peer.covariances_[theirs], abs=1e-6)
    density = np.exp(ours.log_density(x))
    expected = (1 - ANY_COLOR) * np.exp(peer.score_samples(x)) + ANY_COLOR
    assert density == pytest.approx(expected, rel=1e-4)


def test_a_count_is_as_good_as_so_many_pixels():
    rng = np.random.default_rng(1)
    x, counts = drawn(rng, 30), rng.integers(1, 4, 120)
    once = fit_mixture(np.repeat(x, counts, axis=0), np.ones(counts.sum()), components=1)
    counted = fit_mixture(x, counts, components=1)
    assert counted.means == pytest.approx(once.means, abs=1e-12)
    assert counted.covariances == pytest.approx(once.covariances, abs=1e-12)


@pytest.mark.parametrize("n", [1, 2, 5, 13])
def test_few_pixels_make_few_components(n):
    x = np.random.default_rng(n).random((n, 3))
    mixture = fit_mixture(x, np.ones(n))
    assert 1 <= len(mixture.weights) <= max(1, n // 12 + 1)
    assert mixture.weights.sum() == pytest.approx(1)
    assert np.isfinite(mixture.log_density(x)).all()


def test_one_color_has_a_finite_density_everywhere():
    mixture = fit_mixture([[0.5, 0.0, 0.0]], [1000])
    near, far = mixture.log_density([[0.5, 0.0, 0.0], [1.0, 1.0, 1.0]])
    assert near > 5
    assert far == pytest.approx(np.log(ANY_COLOR), abs=1e-6)


def test_counts_that_make_no_sense_are_refused():
    with pytest.raises(cl.InputError, match="sum above 0"):
        fit_mixture([[0.0, 0.0, 0.0]], [0])


@pytest.mark.parametrize("shape", [(7, 9), (7, 9, 3)])
def test_the_palette_holds_the_colors_of_all_pixels(shape):
    image = np.random.default_rng(0).random(shape).astype(np.float32)
    found = palette(image)
    assert found.index.shape == (7, 9)
    assert found.counts(np.ones((7, 9), bool)).sum() == 63
    if len(shape) == 2:
        assert found.colors[found.index, 0] == pytest.approx(image, abs=1 / 256)
    else:
        from skimage.color import rgb2lab

        assert found.colors[found.index] == pytest.approx(rgb2lab(image) / 100, abs=0.05)


def test_weights_of_pixels_are_summed_in_their_cells():
    found = palette(np.array([[0.0, 1.0, 1.0]], np.float32))
    assert found.counts(np.array([[0.5, 0.25, 0.5]])).tolist() == [0.5, 0.75]


def test_relabelling_gives_the_background_inside_of_a_box_back():
    """A box of which half shows the background's colour: all of that turns to label 0."""
    rng = np.random.default_rng(0)
    image = np.full((40, 40, 3), (0.2, 0.5, 0.2)) + rng.normal(0, 0.02, (40, 40, 3))
    image[15:25, 15:25] = (0.8, 0.3, 0.2)
    found = palette(np.clip(image, 0, 1))
    inside = np.zeros((40, 40), bool)
    inside[10:30, 10:30] = True
    zeros, free = found.counts(~inside), found.counts(inside)
    none = np.zeros_like(zeros)
    first, last = (odds[found.index] for odds in relabelled(found, (zeros, none), free, free))
    truth = np.zeros((40, 40), bool)
    truth[15:25, 15:25] = True
    assert ((last > 0) == truth).all()
    # The background's own colour is now far less likely to be the object's than at first.
    assert last[~truth].mean() < first[~truth].mean() - 1


def test_log_odds_compare_two_mixtures():
    found = palette(np.array([[0.0] * 20 + [1.0] * 20], np.float32))
    mixtures = [found.fit(np.array(counts, float)) for counts in ([20, 0], [0, 20])]
    low, high = log_odds(found, mixtures)
    assert low < -5 < 5 < high


def test_odds_of_a_mask():
    image = np.zeros((20, 30, 3))
    image[..., 1] = 0.8
    image[5:15, 10:20] = (0.9, 0.1, 0.1)
    mask = np.zeros((20, 30), bool)
    mask[6:14, 11:22] = True  # a little beside
    odds = odds_of(palette(image), mask)
    assert odds[5:15, 10:20].min() > 1
    assert odds[:, :9].max() < -1
    assert abs(odds).max() <= SUREST
    for even in (mask & False, mask | True):
        assert not odds_of(palette(image), even).any()


def test_colors_are_those_of_scikit_image():
    colors = np.concatenate(
        [np.random.default_rng(0).random((200, 3)), np.eye(3) * 0.02, np.eye(3)]
    )
    assert srgb_to_lab(colors) == pytest.approx(rgb2lab(colors[None])[0] / 100, abs=1e-9)
