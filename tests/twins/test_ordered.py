"""Ordered energies against enumeration, on 2,000 random ones with 2 to 5 labels: equal on whole
numbers, within the recorded bound on floats of mixed scale."""

import numpy as np
import pytest

import cutlearn as cl
import ordered_worlds as worlds

GRIDS = [((2, 2), 4), ((1, 4), 4), ((2, 2), 8), ((3, 1), 8), ((2, 1, 2), 6), ((1, 2, 2), 26)]


@pytest.mark.parametrize("chunk", range(10))
def test_cut_of_whole_numbers_is_the_lowest_minimiser(chunk):
    rng = np.random.default_rng([1, chunk])
    for _ in range(100):
        p = worlds.parts(rng, whole=True)
        n, L = p["unary"].shape
        Y = worlds.labelings(n, L, p["fixed"])
        values = worlds.energies(p, Y)
        energy = worlds.energy_of(p)
        cut = energy.minimize(p["fixed"])
        assert cut.value == cut.lower_bound == values.min()
        assert cut.labels.tolist() == Y[values == values.min()].min(axis=0).tolist()
        row = rng.integers(len(Y))
        assert energy.value(Y[row]) == values[row]
        found = energy.min_marginals(p["fixed"])
        assert (found == worlds.min_marginals(Y, values, L)).all()


@pytest.mark.parametrize("chunk", range(10))
def test_cut_of_floats_is_within_its_bound(chunk):
    rng = np.random.default_rng([2, chunk])
    for _ in range(100):
        p = worlds.parts(rng, whole=False)
        n, L = p["unary"].shape
        Y = worlds.labelings(n, L, p["fixed"])
        values = worlds.energies(p, Y)
        digits = 2.0**-50 * worlds.size(p)
        energy = worlds.energy_of(p)
        cut = energy.minimize(p["fixed"])
        bound = cut.value - cut.lower_bound
        assert bound <= 1e-12 * worlds.size(p)
        assert cut.lower_bound <= values.min() + digits
        assert (
            worlds.energies(p, cut.labels[None].astype(int))[0] <= values.min() + 2 * bound + digits
        )
        expected = worlds.min_marginals(Y, values, L)
        found = energy.min_marginals(p["fixed"])
        there = np.isfinite(expected)
        assert (np.isfinite(found) == there).all()
        assert (np.abs(found[there] - expected[there]) <= 1e-12 * worlds.size(p)).all()


@pytest.mark.parametrize(("shape", "connectivity"), GRIDS)
@pytest.mark.parametrize("L", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("kind", ["one", "directions", "each", "each linear"])
def test_grids_are_lists_of_their_edges(shape, connectivity, L, kind):
    rng = np.random.default_rng([3, L, connectivity])
    edges = cl.grid_edges(shape, connectivity)
    n = int(np.prod(shape))
    for _ in range(5 if L < 5 else 2):
        unary = worlds.numbers(rng, (n, L), True)
        one = worlds.table(rng, L, True)
        if kind == "one":
            tables = [one] * len(edges)
        elif kind == "directions":
            tables = [worlds.table(rng, L, True) for _ in edges]
        elif kind == "each":
            tables = [
                np.array([worlds.table(rng, L, True) for _ in e]).reshape(-1, L, L) for e in edges
            ]
        else:
            steps = np.abs(np.subtract.outer(np.arange(L), np.arange(L)))
            tables = [rng.integers(0, 4, (len(e), 1, 1)) * steps.astype(float) for e in edges]
        each = [np.broadcast_to(t, (len(e), L, L)) for t, e in zip(tables, edges)]
        slices = cl.grid.grid_slices(shape, connectivity)
        boxes = [tuple(s.stop - s.start for s in tail) for tail, _ in slices]
        given = [t.reshape(*b, L, L) if "each" in kind else t for t, b in zip(tables, boxes)]
        grid = cl.OrderedEnergy.grid(
            unary.reshape(*shape, L), one if kind == "one" else given, connectivity
        )
        p = {"unary": unary, "edges": np.concatenate(edges), "tables": np.concatenate(each)}
        twin = worlds.energy_of(p)
        cut, other = grid.minimize(), twin.minimize()
        assert cut.labels.ravel().tolist() == other.labels.tolist()
        assert cut.value == other.value
        Y = worlds.labelings(n, L, np.full(n, -1))
        assert cut.value == worlds.energies(p, Y).min() == grid.value(cut.labels)
        assert (grid.min_marginals().reshape(n, L) == twin.min_marginals()).all()


def as_list(unary, tables, connectivity):
    """The energy of a grid with one array of tables a direction, as a list of edges."""
    L = unary.shape[-1]
    edges = np.concatenate(cl.grid_edges(unary.shape[:-1], connectivity))
    each = np.concatenate([t.reshape(-1, L, L) for t in tables])
    return cl.OrderedEnergy(unary.reshape(-1, L), edges, each)


@pytest.mark.parametrize("connectivity", [4, 8])
@pytest.mark.parametrize("L", [3, 4, 5])
def test_one_number_that_needs_all_bits(L, connectivity):
    # All others are whole, also those that the core looks at to guess.
    rng = np.random.default_rng([4, L])
    shape = (16, 16)
    unary = worlds.numbers(rng, (*shape, L), True)
    one = worlds.table(rng, L, True)
    slices = cl.grid.grid_slices(shape, connectivity)
    tables = [np.broadcast_to(one, (*unary[tail].shape[:2], L, L)).copy() for tail, _ in slices]
    for place in (unary, tables[-1]):
        place[7, 5].flat[1] += 1 / 3
        cut = cl.OrderedEnergy.grid(unary, tables, connectivity).minimize()
        twin = as_list(unary, tables, connectivity).minimize()
        assert cut.labels.ravel().tolist() == twin.labels.tolist()
        assert (cut.value, cut.lower_bound) == (twin.value, twin.lower_bound)
        assert cut.lower_bound < cut.value


@pytest.mark.parametrize("shape", [(600, 90), (90, 600)])
def test_a_grid_of_several_bands(shape):
    rng = np.random.default_rng(5)
    unary = rng.integers(0, 9, (*shape, 4)).astype(float)
    jump = np.subtract.outer(np.arange(4), np.arange(4)).astype(float)
    tables = [
        rng.integers(0, 4, unary[tail].shape[:2])[..., None, None] * jump**2
        for tail, _ in cl.grid.grid_slices(shape, 4)
    ]
    cut = cl.OrderedEnergy.grid(unary, tables).minimize()
    twin = as_list(unary, tables, 4).minimize()
    assert cut.labels.ravel().tolist() == twin.labels.tolist()
    assert cut.value == cut.lower_bound == twin.value
