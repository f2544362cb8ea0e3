"""The certificate of a cut, held against exact arithmetic on numbers of any size."""

import math

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.errors import InputError
from exact import (
    certificate_fault,
    energy_of,
    extreme_ordered_parts,
    extreme_parts,
    is_dyadic,
    ordered_fault,
)


@pytest.mark.parametrize("seed", range(20))
def test_no_bound_is_above_the_minimum_and_no_label_worse_than_certified(seed):
    rng = np.random.default_rng([12, seed])
    for _ in range(150):
        p = extreme_parts(rng)
        try:
            cut = energy_of(p).minimize(p["fixed"])
        except InputError:
            assert max(np.abs(p["tables"]).max(initial=0), np.abs(p["unary"]).max()) > 1e300
            continue
        assert certificate_fault(p, cut) == ""
        if is_dyadic(p):
            assert cut.lower_bound == cut.value, "eighths are represented exactly"


@pytest.mark.parametrize("seed", range(5))
def test_the_same_for_ordered_labels(seed):
    rng = np.random.default_rng([13, seed])
    for _ in range(150):
        p = extreme_ordered_parts(rng)
        energy = cl.OrderedEnergy(p["unary"], p["edges"] or None, p["tables"])
        assert ordered_fault(p, energy.minimize()) == ""


def test_costs_that_dwarf_the_tables_keep_their_order():
    """Room above a best label of -3e10 vanished in it, and the lowest label won the tie."""
    u = [[0.0, -2.9e10, -7.0], [1e37, 7.6, 3e40]]
    steps = np.abs(np.subtract.outer(np.arange(3), np.arange(3))) * 2.75
    energy = cl.OrderedEnergy(u, [[0, 1]], steps)
    assert energy.minimize().labels.tolist() == [1, 1]
    assert energy.min_marginals()[0].tolist() == pytest.approx([10.35, -2.9e10 + 7.6, 3.35])


def test_a_constant_beside_nodes_without_edges_costs_no_digit():
    """The constant of an envelope without mass made the unaries look as if they dwarfed edges."""
    envelope = cl.Envelope([2, 1], [948.0], [45 / 1024], [0.0, 0.0])
    cut = cl.Energy([839.0, -208.5, -397.125], envelopes=[envelope]).minimize([-1, 0, 1])
    assert cut.lower_bound == cut.value == -397.125 + 45 / 1024


def test_bounds_are_rounded_outward():
    cut = cl.Energy([-1e-20, -1.0]).minimize()
    assert cut.lower_bound < -1.0
    cut = cl.Energy([1e200, -1e-180]).minimize()
    assert cut.lower_bound < -1e-180


@pytest.mark.parametrize("columns", [1, 2])
def test_sums_before_the_core_are_in_the_bound(columns):
    """u + table in floats loses the table, u1 - u0 the digits of u0: the bound must know."""
    unary = np.array([[1e16, 0.7], [-1e16, 0.3], [0.1, 1e16]])[:, :columns]
    tables = np.array([[[0.0, 1e-3], [1e-3, 0.25e-3]], [[0.2, 0.7], [0.3, 0.1]]])
    p = {"unary": unary, "edges": [(0, 1), (1, 2)], "tables": tables, "envelopes": [],
         "fixed": None}  # fmt: skip
    cut = energy_of(p).minimize()
    assert certificate_fault(p, cut) == ""
    assert cut.lower_bound < cut.value


@pytest.mark.parametrize("scale", [1e-170, 1e170])
def test_envelopes_keep_their_lines_at_any_scale(scale):
    """min(3 s, s + 4, 10) over 10 nodes: three lines, of which products would vanish."""
    e = cl.Envelope(
        range(10), scale * np.array([3.0, 1.0, 0.0]), scale * np.array([0.0, 4.0, 10.0])
    )
    assert len(e.lines()[0]) == 3
    one = cl.Envelope(range(10), [3.0, 1.0, 0.0], [0.0, 4.0, 10.0])
    assert np.array_equal(e.lines()[0] / scale > 0.5, one.lines()[0] > 0.5)


def test_a_power_of_two_times_an_energy_has_the_same_cut():
    rng = np.random.default_rng(3)
    u, w = rng.normal(size=(20, 20)), [np.abs(rng.normal(size=s)) for s in ((20, 19), (19, 20))]
    one = cl.Energy.grid(u, w).minimize()
    for power in (-900, -300, 300, 900):
        factor = math.ldexp(1.0, power)
        other = cl.Energy.grid(u * factor, [x * factor for x in w]).minimize()
        assert (other.labels == one.labels).all()
        assert other.value == one.value * factor


@pytest.mark.parametrize("first", [1e16, -1e16])
def test_warm_is_cold_after_sums_that_cancel(first):
    solver = cl.Energy([first, 1e16, -0.005], [[0, 1], [1, 2]], [0.5e16, 0.001]).solver()
    solver.minimize()
    solver.set_weights([0], [0.25])
    cold = cl.Energy([first, 1e16, -0.005], [[0, 1], [1, 2]], [0.25, 0.001]).minimize()
    warm = solver.minimize()
    assert (warm.labels == cold.labels).all()
    assert (warm.value, warm.lower_bound) == (cold.value, cold.lower_bound)
    solver.prove()
