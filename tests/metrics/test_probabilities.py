"""Figures of probabilities against their definitions."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from cutlearn.errors import InputError
from cutlearn.metrics import beliefs, entropy
from cutlearn.metrics.probabilities import BINS, LEAST
from drawn_probabilities import drawn


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
    with pytest.raises(InputError, match="truth has label 2"):
        beliefs([[2]], [[[0.5, 0.5]]])


def test_entropy_is_that_of_the_definition():
    q = np.random.default_rng(0).dirichlet(np.ones(3), 50)
    wanted = [-sum(p * np.log2(p) for p in row) for row in q]
    assert np.abs(entropy(q) - wanted).max() < 1e-12
    assert entropy([[1.0, 0.0, 0.0]]).tolist() == [0.0]
