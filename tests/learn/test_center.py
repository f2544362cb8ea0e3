"""The centre master alone: the centre itself, the bound it proves, planes that leave and return."""

import numpy as np
import pytest
from scipy.optimize import minimize

from cutlearn.errors import InputError
from cutlearn.learn import center
from cutlearn.learn.bundle import Program, solve_linear, solve_quadratic
from cutlearn.learn.center import KEPT, LEVEL, Center, find_centre
from tiny_problems import full_optimum

D, K = 3, 2


def random_program(rng, lam, planes=12):
    group = np.sort(rng.integers(0, K, planes)).astype(np.int32)
    b, a = rng.uniform(0.5, 1, planes), rng.normal(size=(planes, D))
    return Program(lam, b, a, group, K, np.eye(D)[:1], np.array([-0.2]))


def barrier(program, level, box, x):
    """-nu log(level - objective) - sum log of every other slack, in plain words."""
    w, xi = x[:D], x[D:]
    slacks = [xi[g] - b - a @ w for b, a, g in zip(program.b, program.a, program.group)]
    slacks += [*xi, *(program.rows @ w - program.rhs)]
    if program.lam == 0:
        slacks += [*(box - w), *(box + w)]
    room = level - 0.5 * program.lam * w @ w - xi.sum()
    if min(room, *slacks) <= 0:
        return np.inf
    return -LEVEL * (D + K) * np.log(room) - np.log(slacks).sum()


@pytest.mark.parametrize("lam", [0.0, 1e-3, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_no_point_has_a_lower_barrier(seed, lam):
    rng = np.random.default_rng(seed)
    program = random_program(rng, lam)
    box = np.full(D, 5.0)
    level = 1.1 * program.value(np.zeros(D))
    centre = find_centre(program, level, level, rng.normal(size=D), box)
    x = np.concatenate([centre.w, centre.xi])
    found = barrier(program, level, box, x)
    other = minimize(lambda y: barrier(program, level, box, y), x, method="Nelder-Mead",
                     options={"maxiter": 20_000, "maxfev": 20_000, "xatol": 1e-9})  # fmt: skip
    assert np.isfinite(found)
    assert found - other.fun < 0.05, "a small Newton decrement, in units where 1 is far away"


@pytest.mark.parametrize("lam", [0.0, 1e-3, 1.0])
def test_the_centre_follows_the_units(lam):
    """Features in other units and another size of the objective: the same centre in these."""
    program = random_program(np.random.default_rng(7), lam)
    scale, size = np.array([1e-5, 1.0, 1e4]), 1e-6
    other = Program(lam, size * program.b, size * program.a * scale, program.group, K,
                    program.rows * scale, program.rhs)  # fmt: skip
    if lam > 0:
        scale, other = np.full(D, 0.1), Program(
            lam * size * 0.01, size * program.b, size * program.a * 0.1, program.group, K,
            program.rows * 0.1, program.rhs)  # fmt: skip
    box = np.full(D, 5.0)
    one = find_centre(program, 2.0, 1.0, np.zeros(D), box)
    two = find_centre(other, 2.0 * size, size, np.zeros(D), box / scale)
    assert two.w * scale == pytest.approx(one.w, rel=1e-6)
    assert two.alpha == pytest.approx(one.alpha, rel=1e-6)


@pytest.mark.parametrize("lam", [0.0, 1e-4, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_the_bound_of_the_centre_is_true_and_tight(seed, lam):
    rng = np.random.default_rng(seed)
    program = random_program(rng, lam, planes=30)
    groups = [program.subset(np.flatnonzero(program.group == g)) for g in range(K)]
    lists = [(K * np.append(0.0, p.b), K * np.vstack([np.zeros(D), p.a])) for p in groups]
    wanted, w = full_optimum(lists, lam, program.rows, program.rhs)
    box = np.full(D, 10 + np.abs(w).max())
    level = wanted + 0.05
    centre = find_centre(program, level, 0.05, np.zeros(D), box)
    bound = program.dual_value(centre.alpha, centre.mu, box)
    assert bound <= wanted * (1 + 1e-9)
    # s_0 = nu mu, and m mu below the objective: the gap is (1 + m / nu) s_0, and s_0 < 0.05.
    m = 30 + K + 1 + 2 * D
    assert level - bound <= 1.3 * (1 + m / (LEVEL * (D + K))) * 0.05


def test_a_level_below_the_minimum_has_no_centre():
    program = random_program(np.random.default_rng(0), 1.0)
    assert find_centre(program, 1e-3, 1e-3, np.zeros(D), np.ones(D)) is None


def tangents(rng, lam, far):
    """Tangents of sum c (w - v)^2 at distances from 1e-3 to 10^far, and v."""
    d, k, planes = int(rng.integers(2, 10)), int(rng.integers(1, 5)), 40
    v, c = rng.normal(size=d), 10.0 ** rng.uniform(-1, 1, d)
    u = rng.normal(size=(planes, d)) * 10.0 ** rng.uniform(-3, far, (planes, 1))
    b, a = (c * u**2).sum(axis=1) - (2 * c * u) @ v - 2 * (c * u**2).sum(axis=1), 2 * c * u
    group = np.sort(rng.integers(0, k, planes)).astype(np.int32)
    return Program(lam, b, a, group, k, np.zeros((0, d)), np.zeros(0)), v


@pytest.mark.parametrize("far", [0.0, 4.0])
@pytest.mark.parametrize("lam", [0.0, 1e-3])
@pytest.mark.parametrize("seed", range(8))
def test_a_small_gap_has_a_centre_too(seed, lam, far):
    """Slacks from 1e-12 to 1e8 in one set: the centre is found, and the model below the level."""
    rng = np.random.default_rng(seed)
    program, v = tangents(rng, lam, far)
    none, box = np.zeros(len(program.b)), 1e3 * np.ones(len(v))
    if lam == 0:
        least = solve_linear(program, 1e-3, v)
    else:
        least = solve_quadratic(program, program.value(v), none, np.zeros(0))
    low, unit = program.value(least.w), 1e-3 * program.value(np.zeros(len(v)))
    for power in range(1, 10):
        level = low + unit * 10.0**-power
        for start in (least.w, v, np.zeros(len(v))):
            centre = find_centre(program, level, level - low, start, box)
            assert centre is not None, (power, start)
            assert program.value(centre.w) < level


@pytest.mark.parametrize("lam", [0.0, 0.1])
@pytest.mark.parametrize("seed", range(4))
def test_the_model_is_below_the_best_or_nothing_is_left(seed, lam):
    """A run on sum c (w - v)^2 + base, to where rounding ends it."""
    rng = np.random.default_rng([seed, 1])
    d = int(rng.integers(1, 7))
    v, c, base = 2 * rng.normal(size=d), 10.0 ** rng.uniform(-1, 1, d), rng.uniform(0.1, 1)
    wanted = base + float((0.5 * c * lam / (c + 0.5 * lam)) @ v**2)
    master = Center(d, 1, lam, np.zeros((0, d)), np.zeros(0))
    w, best = master.start(1.0), np.inf
    # What the planes' heights are rounded by, all sums over: no gap below it means anything.
    target_gap = 1e-13 * wanted
    while w is not None and best - master.lower_bound > target_gap:
        value = float(base + c @ (w - v) ** 2)
        slope = 2 * c * (w - v)
        assert len(master.b) < 300
        best = min(best, value + 0.5 * lam * float(w @ w))
        master.add(np.array([value - slope @ w]), slope[None], np.array([True]))
        w = master.solve(best, target_gap)
        assert w is None or master.value(w) < best or best - master.lower_bound <= target_gap
    assert best - wanted <= 1e-10 * wanted
    assert master.lower_bound <= wanted * (1 + 1e-13)


def test_a_minimum_that_is_not_below_the_best_is_not_given(monkeypatch):
    """The last resort, the model's own minimum, is looked at before it is given."""
    monkeypatch.setattr(center, "find_centre", lambda *_: None)
    master = Center(1, 1, 0.0, np.zeros((0, 1)), np.zeros(0))
    master.start(1.0)
    master.add(np.array([2.0]), np.array([[-1.0]]), np.array([True]))
    master.add(np.array([-2.0]), np.array([[1.5]]), np.array([True]))
    # max(2 - w, 1.5 w - 2) is least at 1.6, with 0.4.
    assert master.solve(0.5, 0.0) == pytest.approx([1.6])
    assert master.solve(0.4 - 1e-9, 0.0) is None


@pytest.mark.parametrize("lam", [0.0, 0.1])
def test_planes_leave_and_come_back(lam):
    """Tangents of sum c (w - v)^2: only some are kept, none is ever above the centre's level."""
    d = 4
    master = Center(d, 1, lam, np.zeros((0, d)), np.zeros(0))
    w = master.start(1.0)
    v, c = np.array([1.0, -2.0, 0.5, 3.0]), np.array([1.0, 2.0, 5.0, 10.0])
    best, most = np.inf, 0
    for _ in range(40):
        master.add(np.array([c @ v**2 - c @ w**2]), 2 * (c * (w - v))[None], np.array([True]))
        best = min(best, float(0.5 * lam * w @ w + c @ (w - v) ** 2))
        w = master.solve(best, 0.0)
        assert master.value(w) < best
        most = max(most, int(master.kept.sum()))
    assert most == KEPT * (d + 1) < len(master.b)
    master.kept[5:] = False
    assert master.value(master.solve(best, 0.0)) < best, "what the level needs came back"
    assert 5 < master.kept.sum() < len(master.b)
    wanted = float((c * lam / (2 * c + lam)) @ v**2)
    assert master.lower_bound <= wanted <= best <= wanted + 0.5


def test_the_box_grows_when_it_is_in_the_way(monkeypatch):
    """1 - w / 1e5 falls to zero at 1e5, far outside a box of 10."""
    monkeypatch.setattr(center, "BOX", 1e-4)
    master = Center(1, 1, 0.0, np.zeros((0, 1)), np.zeros(0))
    w = master.start(1.0)
    master.add(np.array([1.0]), np.array([[-1e-5]]), np.array([True]))
    boxes = []
    for _ in range(100):
        w = master.solve(max(0.0, 1.0 - 1e-5 * float(w[0])), 1e-6)
        boxes.append(float(master.box()[0]))
        assert abs(w[0]) < boxes[-1]
        if w[0] > 0.999e5:
            break
    assert boxes[0] == pytest.approx(10.0)
    assert boxes[-1] > 0.999e5


def test_the_first_box_is_a_thousand_times_where_the_planes_end():
    """1 - w / 1e5 ends at 1e5; a wider box would send the first centre as far."""
    master = Center(1, 1, 0.0, np.zeros((0, 1)), np.zeros(0))
    master.start(1.0)
    master.add(np.array([1.0]), np.array([[-1e-5]]), np.array([True]))
    w = master.solve(1.0, 1e-6)
    assert master.box() == pytest.approx([1e8])
    assert 0 < w[0] < 1e8


def test_rows_without_room_are_refused_with_the_learner_that_can():
    rows = np.array([[1.0, 1.0], [-1.0, -1.0]])
    with pytest.raises(InputError, match=r"leave no interior.*learner='bundle'"):
        Center(2, 1, 1.0, rows, np.array([0.5, -0.5])).start(1.0)
    with pytest.raises(InputError, match=r"constraints .* no weights satisfy"):
        Center(2, 1, 1.0, rows, np.array([0.5, 0.5])).start(1.0)
