"""Programs and the bundle master alone: planes in, minimiser and bound out."""

import numpy as np
import pytest

from cutlearn.errors import InputError
from cutlearn.learn.bundle import Bundle, Program, solve_linear
from tiny_problems import full_optimum

NONE = (np.zeros((0, 2)), np.zeros(0))


def solved(master, upper):
    return master.solve(upper, 0.0), master.lower_bound


def test_one_plane_by_hand():
    # lambda/2 w^2 + max(0, 1 - w): with lambda = 0.5 the kink w = 1 is the minimum, value 1/4.
    master = Bundle(1, 1, 0.5, np.zeros((0, 1)), np.zeros(0))
    master.add(np.array([1.0]), np.array([[-1.0]]), np.array([True]))
    w, bound = solved(master, 1.0)
    assert w == pytest.approx([1.0])
    assert bound == pytest.approx(0.25)
    assert master.value(w) == pytest.approx(0.25)


def test_constraints_hold():
    master = Bundle(2, 1, 1.0, np.eye(2), np.array([0.0, 2.0]))
    assert master.start(1.0) == pytest.approx([0.0, 2.0])
    assert master.lower_bound == pytest.approx(2.0)


def test_constraints_that_contradict_each_other():
    rows = np.array([[1.0, 0.0], [-1.0, 0.0]])
    with pytest.raises(InputError, match=r"constraints .* no weights satisfy"):
        Bundle(2, 1, 1.0, rows, np.array([1.0, 1.0])).start(1.0)


@pytest.mark.parametrize("lam", [np.nan, np.inf, -1.0])
def test_lambda_out_of_range(lam):
    with pytest.raises(InputError, match=r"^C "):
        Bundle(2, 1, lam, *NONE)


@pytest.mark.parametrize("power", [-8, -4, 0, 4])
@pytest.mark.parametrize("seed", range(5))
def test_same_optimum_as_the_second_solver_whatever_the_scale(seed, power):
    """Planes added a few at a time, in any unit: the optimum over all of them."""
    rng = np.random.default_rng(seed)
    d, k, size = 6, 4, 10.0**power
    master = Bundle(d, k, 1.0, np.eye(d)[:2], np.zeros(2))
    lists = [(np.zeros(1), np.zeros((1, d))) for _ in range(k)]
    for _ in range(12):
        b = rng.uniform(0, 1, k) * size
        a = rng.normal(size=(k, d)) * np.sqrt(size)
        new = rng.random(k) < 0.8
        master.add(b, a, new)
        for g in np.flatnonzero(new):
            lists[g] = (np.append(lists[g][0], b[g]), np.vstack([lists[g][1], a[g]]))
        w, bound = solved(master, size * k)
        # piqp gets the problem in unit size: w = sqrt(size) v.
        unit = [(k * x / size, k * y / np.sqrt(size)) for x, y in lists]
        wanted, _ = full_optimum(unit, 1.0, np.eye(d)[:2], np.zeros(2))
        assert bound == pytest.approx(wanted * size, rel=1e-6)
        assert master.value(w) == pytest.approx(wanted * size, rel=1e-6)


def test_the_bound_holds_for_any_multipliers():
    rng = np.random.default_rng(0)
    master = Bundle(3, 2, 2.0, np.eye(3)[:1], np.zeros(1))
    for _ in range(5):
        master.add(rng.uniform(0, 1, 2), rng.normal(size=(2, 3)), np.ones(2, bool))
    for _ in range(50):
        raw = rng.uniform(0, 1, 10)
        for g in range(2):
            raw[master.group == g] /= raw[master.group == g].sum() * rng.uniform(1, 2)
        bound = master.program().dual_value(raw, rng.uniform(0, 1, 1), np.zeros(0))
        w = rng.normal(size=3)
        w[0] = abs(w[0])
        assert bound <= master.value(w) + 1e-12


def test_duplicated_planes_do_no_harm():
    master = Bundle(2, 1, 1.0, *NONE)
    for _ in range(30):
        master.add(np.array([1.0]), np.array([[-1.0, 0.5]]), np.array([True]))
        w, bound = solved(master, 1.0)
    # max over alpha in [0, 1] of alpha - |alpha a|^2 / 2, |a|^2 = 1.25: alpha = 0.8, value 0.4.
    assert bound == pytest.approx(0.4)
    assert w == pytest.approx([0.8, -0.4])


@pytest.mark.parametrize("seed", range(10))
def test_planes_from_afar_do_not_spoil_the_minimum(seed):
    """Slopes from 1e-4 to 1e6: those near the optimum must not count as zeros."""
    rng = np.random.default_rng(seed)
    d, planes = 4, 40
    v, c = rng.normal(size=d), 10.0 ** rng.uniform(-1, 1, d)
    u = rng.normal(size=(planes, d)) * 10.0 ** rng.uniform(-5, 5, (planes, 1))
    # Tangents at v + u of sum c (w - v)^2: the model is below it, and above some at v + u.
    b, a = -(c * u**2).sum(axis=1) - (2 * c * u) @ v, 2 * c * u
    program = Program(0.0, b, a, np.zeros(planes, np.int32), 1, np.zeros((0, d)), np.zeros(0))
    near = v + 1e-3 * rng.normal(size=d)
    upper = program.value(near)
    found = solve_linear(program, upper, near)
    assert upper > 0
    # Between zero and what the function is at its best, which is zero too.
    assert program.value(found.w) <= 1e-6 * upper
