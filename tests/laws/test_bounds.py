"""Lower bounds never exceed the exact minimum, in exact rational arithmetic over all labellings."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.energy.energy import minimize_strips
from cutlearn.grid import grid_edges

LARGE = 2**1200  # times this every float64 is whole


def whole(values):
    """The numbers, times LARGE, as Python's integers."""
    flat = [int(Fraction(float(x)) * LARGE) for x in np.ravel(values)]
    return np.array(flat, object).reshape(np.shape(values))


def exact_minimum(unaries, edges, weights):
    """The least of sum (u + u' + ..) y + sum w [y_i != y_j], times LARGE."""
    u = sum(whole(part) for part in unaries)
    y = np.array(list(product((0, 1), repeat=len(u))), object)
    cut = y[:, edges[:, 0]] != y[:, edges[:, 1]] if len(edges) else np.zeros((len(y), 0), bool)
    return int((y @ u + cut.astype(object) @ whole(weights)).min())


def drawn(rng, size):
    """Numbers over many magnitudes."""
    return rng.normal(size=size) * 10.0 ** rng.integers(-6, 7, size)


@pytest.mark.parametrize("grid", [False, True])
def test_of_an_energy_plus_unaries(grid):
    rng = np.random.default_rng([7, grid])
    proved = 0
    for _ in range(400):
        shape = (2, 3) if grid else (int(rng.integers(1, 6)),)
        n = int(np.prod(shape))
        u, parts = drawn(rng, n), [drawn(rng, n) for _ in range(rng.integers(1, 4))]
        if grid:
            strength = float(rng.random())
            edges = np.concatenate(grid_edges(shape, 4))
            weights = np.full(len(edges), strength)
            energy = cl.Energy.grid(u.reshape(shape), strength)
        else:
            edges = np.array([rng.permutation(n)[:2] for _ in range(n)] if n > 1 else [], int)
            edges = edges.reshape(-1, 2)
            weights = np.abs(drawn(rng, len(edges)))
            energy = cl.Energy(u, edges, weights)
        for part in parts:
            energy = energy.plus(part.reshape(shape))
        cut = energy.minimize()
        least = exact_minimum([u, *parts], edges, weights)
        assert Fraction(cut.lower_bound) * LARGE <= least
        assert cut.value - cut.lower_bound <= 1e-12 * (1 + np.abs(u).sum() + np.abs(parts).sum())
        proved += cut.lower_bound < cut.value
    assert proved > 100, "some of the sums are rounded"


def test_sums_that_are_exact_keep_an_exact_bound():
    rng = np.random.default_rng(8)
    for _ in range(50):
        u, more = rng.integers(-99, 99, (2, 6)) / 8
        cut = cl.Energy(u, [[0, 1], [2, 3]], [1.0, 2.5]).plus(more).minimize()
        assert cut.lower_bound == cut.value


@pytest.mark.parametrize("overlap", [2, 4, 6])
@pytest.mark.parametrize("kind", ["real", "large", "whole"])
def test_of_strips(overlap, kind):
    rng = np.random.default_rng([9, overlap, len(kind)])
    shape = (12, 1)
    edges = np.concatenate(grid_edges(shape, 4))
    strips = 0
    for _ in range(60):
        u = drawn(rng, 12) if kind == "large" else rng.normal(size=12)
        w = np.abs(rng.normal(size=11))
        if kind == "whole":  # the cuts are exact, the shares of a third are not
            u, w = rng.integers(-9, 10, 12) * 1.0, rng.integers(0, 9, 11) * 1.0

        def terms(first, last, u=u, w=w):
            return u[first:last, None], [np.zeros((last - first, 0)), w[first : last - 1, None]]

        made = minimize_strips(shape, 4, terms, 4, overlap)
        least = exact_minimum([u], edges, w)
        assert Fraction(made.lower_bound) * LARGE <= least
        strips = max(strips, made.strips)
    assert strips > 1


def test_the_sum_over_strips_is_rounded_down():
    u = np.zeros((12, 1))
    u[0], u[11] = -(2.0**53), -1.0  # a sum that no float64 is

    def terms(first, last):
        return u[first:last], [np.zeros((last - first, 0)), np.zeros((last - first - 1, 1))]

    made = minimize_strips((12, 1), 4, terms, 4, 2)
    assert made.strips > 1
    assert made.labels.ravel().tolist() == [1, *[0] * 10, 1]
    assert int(made.lower_bound) <= -(2**53) - 1


def test_strips_of_whole_numbers_have_an_exact_bound():
    u = np.where(np.arange(12) < 6, -4.0, 4.0)[:, None]

    def terms(first, last):
        return u[first:last], [np.zeros((last - first, 0)), np.ones((last - first - 1, 1))]

    made = minimize_strips((12, 1), 4, terms, 4, 4)
    assert made.strips > 1
    assert made.lower_bound == made.value == -23.0


@pytest.mark.parametrize("threads", [-5, 0, 2**31, "2", 1.5, None, True])
def test_threads_are_a_whole_number_from_one(threads):
    energy = cl.Energy([1.0, -1.0], [[0, 1]], [0.5])
    solver = energy.solver()
    for asked in (
        energy.minimize,
        energy.min_marginals,
        lambda threads: energy.argmin_sums(weights=[0.0, 0.0], threads=threads),
        solver.minimize,
        solver.min_marginals,
    ):
        with pytest.raises(cl.InputError, match=r"^threads must be a whole number from 1"):
            asked(threads=threads)
    assert energy.minimize(threads=np.int64(2)).value == solver.minimize(threads=2).value == -0.5
