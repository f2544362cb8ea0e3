"""Where edges decide, a cut starts from the flow of a coarser image: it is that of a list of edges.

A list of edges knows no coarser one.
"""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

import cutlearn as cl
from cutlearn.grid import grid_edges, grid_slices

# Sides that are odd, so that blocks end outside.
VOLUMES = [((17, 18, 15), 6), ((2, 47, 45), 6), ((17, 16, 17), 18), ((16, 17, 17), 26)]
IMAGES = [((65, 67), 4), ((64, 71), 8), ((1, 4500), 4)]


def scene(shape, connectivity, whole, seed):
    """Unaries far below what edges hold, in blobs."""
    rng = np.random.default_rng(seed)
    width, size = (2.5, 0.2) if len(shape) == 3 else (8, 0.06)
    field = gaussian_filter(rng.standard_normal(shape), width)
    unary = size * (field - np.median(field)) / field.std() + 0.01 * rng.standard_normal(shape)
    sizes = [unary[tail].shape for tail, _ in grid_slices(shape, connectivity)]
    weights = [4 / connectivity * rng.uniform(0, 1, size) ** 2 for size in sizes]
    if whole:
        unary, weights = np.rint(1024 * unary), [np.rint(1024 * w) for w in weights]
    return unary, weights


def arches(shape, scale, seed):
    """Concave costs of regions that overlap; some members count more than others."""
    rng = np.random.default_rng(seed)
    nodes = np.arange(np.prod(shape))
    parts = [*np.array_split(nodes, 9), nodes[::5], nodes[100:900]]
    x = (np.arange(5) + 0.5) / 5
    for k, members in enumerate(parts):
        masses = rng.integers(1, 4, members.size) if k % 2 else np.ones(members.size)
        top = scale * rng.uniform(0.01, 0.04)
        slopes, intercepts = top * (1 - 2 * x), top * masses.sum() * x * x
        if scale > 1:
            slopes, intercepts = np.rint(slopes), np.rint(intercepts)
        yield cl.Envelope(members, slopes, intercepts, masses)


def listed(unary, weights, connectivity, envelopes=()):
    edges = np.concatenate(grid_edges(unary.shape, connectivity))
    flat = np.concatenate([w.ravel() for w in weights])
    return cl.Energy(unary.ravel(), edges, flat, envelopes=envelopes)


def same(cut, expected, whole):
    assert (cut.labels.ravel() == expected.labels).all()
    assert cut.lower_bound <= cut.value
    assert cut.value == (expected.value if whole else pytest.approx(expected.value, rel=1e-9))
    assert 0 < cut.labels.mean() < 1


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(("shape", "connectivity"), VOLUMES)
def test_a_volume_is_cut_as_a_list_of_edges(shape, connectivity, whole):
    unary, weights = scene(shape, connectivity, whole, [1, connectivity])
    energy = cl.Energy.grid(unary, weights, connectivity)
    same(energy.minimize(), listed(unary, weights, connectivity).minimize(), whole)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(("shape", "connectivity"), IMAGES)
def test_an_image_with_envelopes_is_cut_as_a_list_of_edges(shape, connectivity, whole):
    unary, weights = scene(shape, connectivity, whole, [2, connectivity])
    regions = list(arches(shape, 1024 if whole else 1, 3))
    energy = cl.Energy.grid(unary, weights, connectivity, regions)
    same(energy.minimize(), listed(unary, weights, connectivity, regions).minimize(), whole)


def test_a_solver_goes_on_from_a_coarser_image():
    shape = (64, 71)
    unary, weights = scene(shape, 8, True, 4)
    regions = list(arches(shape, 1024, 5))
    solver = cl.Energy.grid(unary, weights, 8, regions).solver()
    rng = np.random.default_rng(6)
    for _ in range(3):
        solver.minimize()
        solver.prove()
        at = rng.choice(unary.size, 400, replace=False)
        unary.ravel()[at] += np.rint(100 * rng.standard_normal(at.size))
        solver.set_unary(at, unary.ravel()[at])
    same(solver.minimize(), listed(unary, weights, 8, regions).minimize(), True)
