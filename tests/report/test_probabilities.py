"""Figures and pictures of probabilities against their definitions."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from cutlearn.errors import InputError
from cutlearn.report.displays_probability import ProbabilityDisplay, ReliabilityDisplay, RocDisplay
from cutlearn.report.evaluate import evaluation_of
from cutlearn.report.probabilities import BINS, LEAST, beliefs, entropy


def drawn(rng, shape=(20, 30), honest=True):
    p = rng.random(shape) ** 2
    mask = (rng.random(shape) < p).astype(np.uint8)
    mask[:2] = 255
    q = p if honest else p**3
    return mask, np.stack([1 - q, q], axis=-1)


def test_figures_are_their_definitions():
    rng = np.random.default_rng(0)
    for honest in (True, False):
        mask, q = drawn(rng, honest=honest)
        found = beliefs(mask, q)
        y, p = mask[2:].ravel(), q[2:, :, 1].ravel()
        edges = np.linspace(0, 1, BINS + 1)
        ece = 0.0
        for low, high in pairwise(edges):
            inside = (p >= low) & (p < high)
            if inside.any():
                ece += inside.mean() * abs(p[inside].mean() - y[inside].mean())
        assert found.n_pixels == y.size
        assert found.calibration_error() == pytest.approx(ece, abs=1e-12)
        chance = np.where(y == 1, p, 1 - p)
        assert found.mean_log_likelihood() == pytest.approx(np.log(chance).mean(), abs=1e-12)
        assert found.auc() == pytest.approx(roc_auc_score(y, p), abs=1e-3)


def test_images_add_up():
    rng = np.random.default_rng(1)
    (a, p), (b, q) = drawn(rng), drawn(rng, (7, 30))
    both = beliefs(np.concatenate([a, b]), np.concatenate([p, q]))
    added = beliefs(a, p) + beliefs(b, q)
    assert np.array_equal(added.curve, both.curve)
    assert np.abs(added.bins - both.bins).max() < 1e-9
    assert added.log_likelihood == pytest.approx(both.log_likelihood, abs=1e-9)


def test_sure_and_wrong_is_finite_and_bad():
    found = beliefs([[1]], [[[1.0, 0.0]]])
    assert found.mean_log_likelihood() == np.log(LEAST)
    assert found.calibration_error() == 1
    assert np.isnan(found.auc())
    assert np.isnan(beliefs([[255]], [[[1.0, 0.0]]]).calibration_error())


def test_wrong_shapes_and_labels_are_refused():
    with pytest.raises(InputError, match="Give what predict_proba gave"):
        beliefs([[0, 1]], [[0.5, 0.5]])
    with pytest.raises(InputError, match="label 2 found"):
        beliefs([[2]], [[[0.5, 0.5]]])


def test_evaluation_has_them_only_when_there_are_probabilities():
    from cutlearn.metrics import confusion

    mask, q = drawn(np.random.default_rng(2))
    tables = [confusion(mask, (q[..., 1] > 0.5).astype(int))]
    assert "calibration_error" not in evaluation_of(["a"], tables).to_json()
    found = evaluation_of(["a"], tables, believed=[beliefs(mask, q)])
    assert found.calibration_error.value == beliefs(mask, q).calibration_error()
    assert found.to_json()["log_likelihood"]["value"] == beliefs(mask, q).mean_log_likelihood()


def test_displays_show_the_figures():
    from matplotlib.figure import Figure

    rng = np.random.default_rng(3)
    models = {"honest": beliefs(*drawn(rng)), "bold": beliefs(*drawn(rng, honest=False))}
    left, right = Figure().subplots(1, 2)
    shown = ReliabilityDisplay(models).plot(left)
    assert shown.ax_ is left
    words = [text.get_text() for text in left.get_legend().get_texts()]
    assert words == [f"{n}: error {b.calibration_error():.2%}" for n, b in models.items()]
    x, y = left.lines[1].get_data()
    assert np.abs(y - x).max() < 0.25
    RocDisplay(models).plot(right)
    assert f"{models['bold'].auc():.4f}" in right.get_legend().get_texts()[1].get_text()
    assert right.lines[1].get_ydata()[-1] == 1


def test_maps_show_probability_and_entropy():
    _, q = drawn(np.random.default_rng(4))
    shown = ProbabilityDisplay([q[..., 1]], [q]).plot()
    assert np.array_equal(shown.axes_[0, 1].images[0].get_array(), q[..., 1])
    assert shown.axes_[0, 2].images[0].get_clim() == (0, 1)
    with pytest.raises(InputError, match="one for each"):
        ProbabilityDisplay([q[..., 1]], []).plot()


def test_entropy_is_that_of_the_definition():
    q = np.random.default_rng(0).dirichlet(np.ones(3), 50)
    wanted = [-sum(p * np.log2(p) for p in row) for row in q]
    assert np.abs(entropy(q) - wanted).max() < 1e-12
    assert entropy([[1.0, 0.0, 0.0]]).tolist() == [0.0]
