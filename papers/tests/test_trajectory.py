"""Paths of decisions, before anything is drawn."""

import numpy as np
import pytest

from cutlearn.errors import InputError
from cutlearn.model.decisions import best_for_iou, expected_iou
from cutlearn_papers.trajectory import TrajectoryDisplay


def beliefs(seed, lean=0.0):
    rng = np.random.default_rng(seed)
    mask = (rng.random((9, 8)) < 0.3).astype(np.uint8)
    p = 1 / (1 + np.exp(-(2.5 * mask - 1.6 + lean + rng.normal(0, 1, mask.shape))))
    return np.stack([1 - p, p], -1), mask


@pytest.mark.parametrize("lean", [-1.0, 0.0, 3.0])
def test_a_decision_goes_up_from_the_most_probable_labels_to_the_best(lean):
    q, mask = zip(*[beliefs(seed, lean) for seed in range(6)])
    shown = TrajectoryDisplay.from_decisions({"mine": q}, mask)
    moved = 0
    for (expected, true), table, y in zip(shown.paths["mine"], q, mask):
        mode, best = table.argmax(-1), best_for_iou(table)
        assert expected[0] == pytest.approx(expected_iou(table, mode), rel=1e-12)
        assert expected[-1] == pytest.approx(expected_iou(table, best), rel=1e-12)
        for labels, found in ((mode, true[0]), (best, true[-1])):
            both = [((labels == k) & (y == k)).sum() / ((labels == k) | (y == k)).sum()
                    for k in (0, 1)]  # fmt: skip
            assert found == pytest.approx(np.mean(both), rel=1e-12)
        assert expected[-1] == expected.max()
        moved += len(expected) > 1
    assert moved >= 4
    assert len(shown.plot().ax_.lines) == 3 * 6


def test_masks_for_all_probabilities():
    q, mask = beliefs(0)
    with pytest.raises(InputError, match="1 of mine for 2 masks, but"):
        TrajectoryDisplay.from_decisions({"mine": [q]}, [mask, mask])
