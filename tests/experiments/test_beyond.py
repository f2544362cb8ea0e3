"""Compositions in brief; shapes in an energy against enumeration."""

from itertools import product

import numpy as np
import pytest

from cutlearn.experiments import beyond
from cutlearn.experiments.beyond_shapes import Small, labels_of, machine_of, shifted
from cutlearn.shape.generative import train_layers
from cutlearn.shape.journal import Journal


def test_every_composition_stands_beside_its_parts(quick):
    told = quick("beyond")
    for name in beyond.SETS:
        parts = told["figures"][name]
        for model in beyond.FITS:
            figures = parts[0][model]
            assert list(figures) == list(beyond.MEASURES), name
            assert 0 <= figures["iou"] <= 1
            assert figures["likely"] <= 0
    assert len(told["claims"]) == 2 * 8 + 2
    assert all(c["paper"] == beyond.NEW for c in told["claims"])


def test_logits_are_shifted_to_the_best_threshold():
    rng = np.random.default_rng(1)
    train = []
    for _ in range(4):
        mask = rng.integers(0, 2, (4, 5)).astype(np.uint8)
        train.append(Small(6.0 + 2 * mask + rng.uniform(-0.5, 0.5, (4, 5)), np.zeros(31), mask))
    (moved,) = shifted(train)
    right = [((one.logits > 0) == (one.mask == 1)).mean() for one in moved]
    assert np.mean(right) > 0.9


@pytest.fixture
def one():
    rng = np.random.default_rng(0)
    return Small(rng.normal(0, 1, (2, 3)), rng.uniform(0, 1, 7), np.zeros((2, 3), np.uint8))


def test_logits_and_edges_alone_are_an_exact_cut(one):
    machine = machine_of(one, None, 1.0, 0.7)
    best = min(product((0, 1), repeat=6), key=lambda y: machine.energy(np.array(y), [0]))
    assert labels_of(one, None, 1.0, 0.7).ravel().tolist() == list(best)


def test_shapes_move_labels_that_logits_leave_open(one):
    masks = np.zeros((30, 2, 3), np.uint8)
    masks[:, :, 0] = 1
    shapes = train_layers(masks, (4,), (60,), Journal(0))
    blind = Small(np.zeros((2, 3)), one.contrast, one.mask)
    assert labels_of(blind, shapes, 1.0, 0.0).tolist() == [[1, 0, 0], [1, 0, 0]]
