"""Edge features: order of the edges, values by hand, range, one set or one a direction."""

import numpy as np
import pytest

from cutlearn.errors import InputError
from cutlearn.features.edges import edge_contrast, edge_features, edge_names
from cutlearn.grid import grid_offsets


def edges_by_loops(shape, connectivity):
    for offset in grid_offsets(len(shape), connectivity):
        for first in np.ndindex(*shape):
            second = tuple(a + o for a, o in zip(first, offset))
            if all(0 <= b < s for b, s in zip(second, shape)):
                yield first, second


def test_directions_of_the_plane():
    assert grid_offsets(2, 4) == [(0, 1), (1, 0)]
    assert grid_offsets(2, 8) == [(0, 1), (1, 0), (1, 1), (1, -1)]
    assert grid_offsets(3, 6) == [(0, 0, 1), (0, 1, 0), (1, 0, 0)]
    assert len(set(grid_offsets(3, 26))) == 13


@pytest.mark.parametrize(
    ("shape", "connectivity", "channels"),
    [((3, 4), 8, 3), ((5, 2), 4, 1), ((2, 3, 4), 26, 1), ((2, 3, 2), 6, 2), ((1, 1), 8, 3)],
)
def test_values_by_hand(shape, connectivity, channels):
    x = np.random.default_rng(0).uniform(size=(*shape, channels)).astype(np.float32)
    edges = list(edges_by_loops(shape, connectivity))
    square = [float(((x[i] - x[j]) ** 2).sum()) for i, j in edges]
    beta = np.mean(square) if square else 1.0
    wanted = []
    for (i, j), s in zip(edges, square):
        distance = np.linalg.norm(np.subtract(i, j))
        d = np.sqrt(s / channels)
        wanted.append((1.0, np.exp(-s / (2 * beta)) / distance, d, 1 - d))
    found = edge_features(x, connectivity, ndim=len(shape))
    assert found.shape == (len(edges), 4)
    np.testing.assert_allclose(found, np.reshape(wanted, (-1, 4)), rtol=0, atol=1e-5)


def test_range_and_flat_images():
    x = np.random.default_rng(0).integers(0, 2, (6, 7, 3)).astype(np.float32)
    found = edge_features(x, 8)
    assert found.shape[1] == len(edge_names(2, 8)) == 4
    assert found.min() >= 0
    assert found.max() <= 1
    flat = edge_features(np.full((4, 4), 0.3, np.float32), 4)
    np.testing.assert_array_equal(flat, np.tile(np.float32([1, 1, 0, 1]), (24, 1)))


def test_one_set_a_direction():
    x = np.random.default_rng(0).uniform(size=(4, 5)).astype(np.float32)
    one, wide = edge_features(x, 8), edge_features(x, 8, per_direction=True)
    assert wide.shape == (len(one), 16)
    assert len(edge_names(2, 8, per_direction=True)) == 16
    np.testing.assert_array_equal(wide.reshape(-1, 4, 4).sum(axis=1), one)
    assert [int((wide[:, k] > 0).sum()) for k in (0, 4, 8, 12)] == [16, 15, 12, 12]


def test_unknown_connectivity():
    with pytest.raises(InputError, match=r"connectivity must be .*, not 5"):
        grid_offsets(2, 5)


def test_contrast_by_itself_is_the_column():
    image = np.random.default_rng(0).random((5, 7, 3)).astype(np.float32)
    for connectivity in (4, 8):
        column = edge_names(2, connectivity).index("contrast")
        whole = edge_features(image, connectivity)[:, column]
        assert np.array_equal(edge_contrast(image, connectivity), whole)
