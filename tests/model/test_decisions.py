"""Decisions against enumeration: every labelling of small sets of pixels."""

from itertools import product

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.model.decisions import (
    best_for_count,
    best_for_iou,
    decision_of,
    expected_iou,
)


def beliefs(rng, n, n_labels):
    """Probabilities of all kinds: sure, unsure, tied, rare labels."""
    kind = rng.integers(4)
    if kind == 0:
        q = rng.dirichlet(np.ones(n_labels), n)
    elif kind == 1:
        q = rng.dirichlet(np.full(n_labels, 0.2), n)
    elif kind == 2:
        q = rng.dirichlet(np.r_[5.0, np.ones(n_labels - 1)], n)
    else:
        q = rng.integers(0, 3, (n, n_labels)) + (np.arange(n_labels) == 0)
        q = q / q.sum(axis=1, keepdims=True)
    return q


def slow_iou(q, y):
    """mean_k I_k / U_k, label by label and pixel by pixel."""
    ratios = []
    for k in range(q.shape[1]):
        both = sum(q[d, k] for d in range(len(q)) if y[d] == k)
        either = sum(1.0 if y[d] == k else q[d, k] for d in range(len(q)))
        ratios.append(both / either if either > 0 else 1.0)
    return float(np.mean(ratios))


def test_the_expected_iou_is_its_definition():
    rng = np.random.default_rng(0)
    for _ in range(100):
        q = beliefs(rng, 5, int(rng.integers(2, 5)))
        y = rng.integers(0, q.shape[1], 5)
        assert abs(expected_iou(q, y) - slow_iou(q, y)) < 1e-12


def test_two_labels_are_the_global_optimum():
    rng = np.random.default_rng(1)
    for _ in range(400):
        n = int(rng.integers(1, 10))
        q = beliefs(rng, n, 2)
        best = max(expected_iou(q, y) for y in product((0, 1), repeat=n))
        assert abs(expected_iou(q, best_for_iou(q)) - best) < 1e-12


def test_the_most_probable_labels_are_not_always_the_optimum():
    q = np.tile([0.55, 0.45], (10, 1))
    assert expected_iou(q, best_for_iou(q)) > expected_iou(q, q.argmax(axis=1)) + 0.05


def test_several_labels_never_lose_and_are_mostly_optimal():
    rng = np.random.default_rng(2)
    hits, lost = 0, []
    for _ in range(150):
        n, n_labels = int(rng.integers(1, 6)), int(rng.integers(3, 5))
        q = beliefs(rng, n, n_labels)
        found = expected_iou(q, best_for_iou(q))
        assert found >= expected_iou(q, q.argmax(axis=1)) - 1e-12
        best = max(expected_iou(q, y) for y in product(range(n_labels), repeat=n))
        hits += found > best - 1e-9
        lost.append(best - found)
    assert hits >= 0.9 * 150
    assert np.mean(lost) < 0.01


def test_several_labels_on_an_image():
    q = np.random.default_rng(3).dirichlet([3.0, 1.0, 0.5], (40, 50))
    found = best_for_iou(q)
    assert found.shape == (40, 50)
    assert expected_iou(q, found) > expected_iou(q, q.argmax(axis=-1))


def test_the_rounded_mean_is_within_a_pixel_of_the_best_count():
    rng = np.random.default_rng(4)
    for _ in range(200):
        q = beliefs(rng, int(rng.integers(1, 12)), 2)
        law = np.ones(1)
        for p in q[:, 1]:
            law = np.convolve(law, [1 - p, p])
        costs = [law @ np.abs(np.arange(len(law)) - m) for m in range(len(law))]
        best = np.flatnonzero(np.asarray(costs) <= min(costs) + 1e-12)
        m = int(best_for_count(q).sum())
        assert np.abs(best - m).min() <= 1
        assert m == np.rint(q[:, 1].sum())


@pytest.mark.parametrize("n_labels", [2, 3, 4])
def test_counts_are_kept_with_the_most_probable_labels(n_labels):
    rng = np.random.default_rng(5)
    for _ in range(100):
        n = int(rng.integers(1, 6))
        q = beliefs(rng, n, n_labels)
        y = best_for_count(q)
        counts = np.bincount(y, minlength=n_labels)
        assert np.abs(counts - q.sum(axis=0)).max() < 1
        worth = [
            q[range(n), z].sum()
            for z in product(range(n_labels), repeat=n)
            if np.array_equal(np.bincount(z, minlength=n_labels), counts)
        ]
        assert abs(q[range(n), y].sum() - max(worth)) < 1e-9


def test_an_order_breaks_ties():
    q = np.tile([0.5, 0.5], (4, 1))
    assert best_for_count(q, np.array([3, 1, 0, 2])).tolist() == [0, 1, 0, 1]
    assert best_for_count(q).tolist() == [1, 1, 0, 0]


def test_unknown_decisions_are_refused():
    with pytest.raises(cl.InputError, match="There is no decision 'best'"):
        decision_of("best")
