"""Windows cover an image once, are nearly square, and know their means."""

import itertools

import numpy as np
import pytest

from cutlearn.features.nodes import LONGER, window_means, windows

SHAPES = [(1, 1), (2, 3), (1, 500), (40, 60), (61, 43), (7, 200)]


@pytest.mark.parametrize("shape", SHAPES)
def test_windows_cover_the_image_once_and_are_not_many(shape):
    for ends, n in zip(windows(shape), shape):
        assert ends[0] == 0
        assert ends[-1] == n
        assert (np.diff(ends) > 0).all()
        assert len(ends) - 1 <= LONGER
        assert np.ptp(np.diff(ends)) <= 1


def test_windows_of_photographs_are_nearly_square():
    rows, columns = windows((61, 43))
    sides = np.concatenate([np.diff(rows), np.diff(columns)])
    assert (len(rows), len(columns)) == (7, 5)
    assert np.ptp(sides) <= 2


@pytest.mark.parametrize("shape", SHAPES)
def test_means_are_those_of_loops(shape):
    x = np.random.default_rng(0).normal(size=(*shape, 3)).astype(np.float32)
    rows, columns = windows(shape)
    wanted = [
        x[a:b, c:d].mean(axis=(0, 1), dtype=float)
        for a, b in itertools.pairwise(rows)
        for c, d in itertools.pairwise(columns)
    ]
    assert window_means(x.reshape(-1, 3), shape) == pytest.approx(np.array(wanted), abs=1e-12)
