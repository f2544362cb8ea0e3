"""Strips beside one cut of the whole: the bound holds, and where it is tight labels are best."""

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.energy.energy import _share, _strips, minimize_strips
from cutlearn.grid import grid_offsets, grid_slices


def world(shape, connectivity, seed, strength):
    """Random terms of a grid, and what gives those of some rows."""
    rng = np.random.default_rng(seed)
    unary = rng.standard_normal(shape)
    weights = [
        strength * rng.random(tuple(s.stop - s.start for s in tail))
        for tail, _ in grid_slices(shape, connectivity)
    ]

    def terms(first, last):
        moves = grid_offsets(len(shape), connectivity)
        return unary[first:last], [w[first : last - m[0]] for w, m in zip(weights, moves)]

    return unary, weights, terms


@pytest.mark.parametrize(
    ("shape", "connectivity"), [((60, 17), 4), ((60, 17), 8), ((40, 7, 6), 10)]
)
@pytest.mark.parametrize("strength", [0.0, 0.2, 1.0, 4.0])
def test_the_bound_holds_and_proves(shape, connectivity, strength):
    unary, weights, terms = world(shape, connectivity, 0, strength)
    whole = cl.Energy.grid(unary, weights, connectivity)
    best = whole.minimize()
    made = minimize_strips(shape, connectivity, terms, 12, 8)
    assert made.strips > 2
    assert made.lower_bound <= best.value + 1e-6
    assert made.value >= best.value - 1e-6
    assert abs(made.value - whole.value(made.labels)) < 1e-6
    if strength == 0.0:  # the strips agree, and the bound proves it
        assert made.relative_gap < 1e-12
        assert (made.labels == best.labels).all()
    if strength == 0.2:  # paths are short: the strips hardly differ
        assert made.relative_gap < 0.01


def test_fixed_nodes_keep_their_labels():
    unary, weights, terms = world((60, 9), 8, 2, 1.0)
    fixed = np.random.default_rng(3).integers(-1, 2, (60, 9)).astype(np.int16)
    made = minimize_strips((60, 9), 8, terms, 12, 8, fixed)
    assert (made.labels == fixed)[fixed >= 0].all()
    best = cl.Energy.grid(unary, weights, 8).minimize(fixed)
    assert made.lower_bound - 1e-6 <= best.value <= made.value + 1e-6


def test_one_strip_is_the_cut():
    unary, weights, terms = world((30, 8), 8, 1, 1.0)
    made = minimize_strips((30, 8), 8, terms, 30, 8)
    best = cl.Energy.grid(unary, weights, 8).minimize()
    assert made.strips == 1
    assert (made.labels == best.labels).all()
    assert made.lower_bound == best.lower_bound


def test_seams_that_cost_are_told():
    # A long thin thing that one strip sees and the next does not.
    unary = np.full((40, 3), 0.4)
    unary[0] = -30.0
    weights = [np.ones((40, 2)), np.full((39, 3), 9.0)]
    made = minimize_strips((40, 3), 4, lambda a, b: (unary[a:b], [weights[0][a:b],
                           weights[1][a : b - 1]]), 10, 4)  # fmt: skip
    best = cl.Energy.grid(unary, weights).minimize()
    assert made.value > best.value
    assert made.lower_bound < best.value
    assert made.relative_gap > 0.01


@pytest.mark.parametrize(("n", "rows", "half"), [(60, 12, 4), (7, 3, 1), (9, 100, 4), (5, 1, 3)])
def test_shares_sum_to_one_at_every_row_and_edge(n, rows, half):
    strips = list(_strips(n, rows, half))
    for step in (0.0, 0.5):
        total = np.zeros(n)
        for strip in strips:
            places = np.arange(strip.first, strip.last - (step > 0)) + step
            total[strip.first : strip.first + len(places)] += _share(strip, n, half, places)
        assert np.abs(total[: n - (step > 0)] - 1).max() < 1e-12
