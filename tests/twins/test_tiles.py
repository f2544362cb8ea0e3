"""Large grids are cut tile by tile, on any number of threads: the cut is that of a list of edges.

A list of edges is never cut into tiles.
"""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

import cutlearn as cl
from cutlearn.grid import grid_edges, grid_slices

# At least eight tiles each; rows and columns that end in the middle of one.
GRIDS = [((390, 401), 4), ((257, 513), 8), ((70, 66, 9), 6), ((66, 65, 9), 26), ((2, 1100), 4)]


def scene(shape, connectivity, width, whole, seed):
    """Unaries in blobs of a width, which flow has to cross, and weights for every edge."""
    rng = np.random.default_rng(seed)
    field = gaussian_filter(rng.standard_normal(shape), width)
    unary = 8 * field / field.std() + rng.standard_normal(shape)
    sizes = [unary[tail].shape for tail, _ in grid_slices(shape, connectivity)]
    weights = [rng.uniform(0, 24 / connectivity, size) for size in sizes]
    if whole:
        unary, weights = np.rint(16 * unary), [np.rint(16 * w) for w in weights]
    return unary, weights


def listed(unary, weights, connectivity):
    edges = np.concatenate(grid_edges(unary.shape, connectivity))
    return cl.Energy(unary.ravel(), edges, np.concatenate([w.ravel() for w in weights]))


@pytest.mark.parametrize("width", [0, 6])
@pytest.mark.parametrize(("shape", "connectivity"), GRIDS)
def test_tiles_give_the_cut_of_a_list_of_edges(shape, connectivity, width):
    whole = width == 6
    unary, weights = scene(shape, connectivity, width, whole, [1, connectivity, width])
    energy = cl.Energy.grid(unary, weights, connectivity)
    expected = listed(unary, weights, connectivity).minimize()
    for threads in (1, 2, 3):
        cut = energy.minimize(threads=threads)
        assert (cut.labels.ravel() == expected.labels).all()
        assert cut.lower_bound <= cut.value
        assert cut.value == (expected.value if whole else pytest.approx(expected.value, rel=1e-12))
    assert 0 < cut.labels.mean() < 1


def test_a_solver_goes_on_from_tiles():
    shape = (390, 401)
    unary, weights = scene(shape, 4, 6, True, 2)
    solver = cl.Energy.grid(unary, weights, 4).solver()
    rng = np.random.default_rng(3)
    for threads in (2, 1, 1):
        solver.minimize(threads)
        solver.prove()
        at = rng.choice(unary.size, 2000, replace=False)
        unary.ravel()[at] += np.rint(100 * rng.standard_normal(at.size))
        solver.set_unary(at, unary.ravel()[at])
        solver.set_fixed([0, unary.size - 1], [0, 1])
    fixed = np.full(shape, -1)
    fixed[0, 0], fixed[-1, -1] = 0, 1
    cut = solver.minimize()
    assert (cut.labels == cl.Energy.grid(unary, weights, 4).minimize(fixed).labels).all()


def test_strokes_alone_are_searched_as_a_whole():
    """Few nodes have a unary: long paths, and no tile decides anything."""
    shape = (300, 420)
    _, weights = scene(shape, 8, 4, True, 4)
    unary = np.zeros(shape)
    unary[20:25, 30:60], unary[250:255, 350:380] = 10_000, -10_000
    cut = cl.Energy.grid(unary, weights, 8).minimize(threads=2)
    expected = listed(unary, weights, 8).minimize()
    assert (cut.labels.ravel() == expected.labels).all()
    assert cut.value == expected.value
