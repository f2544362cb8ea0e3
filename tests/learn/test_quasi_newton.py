"""The moves of likelihood learners alone, on functions in plain words."""

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.energy.potentials import Coordinates
from cutlearn.learn.likelihood import QuasiNewton, likelihood_tasks


def moves(d):
    """Return quasi-Newton moves over d free weights."""
    problems, labels = [cl.Problem(np.ones((1, d)), np.zeros((0, 2), int))], [[1]]
    layout = likelihood_tasks(problems, labels, None)[0].layout
    count = layout.size
    return QuasiNewton(layout, Coordinates(np.eye(count), np.zeros(count, bool))), count


def run(move, function, w, steps):
    """Return the values that the moves ask for."""
    values, best = [], np.inf
    for _ in range(steps):
        value, slope = function(w)
        values.append(value)
        best = min(best, value)
        w = move.next(w, value, slope, best)
    return values


def test_the_first_step_is_that_of_polyak_towards_95_hundredths_of_the_best():
    """tarlow2012, section 7.1: (f - 0.95 f_best) / |g|^2."""
    move, d = moves(3)
    slope = np.array([3.0, 0.0, 4.0] + [0.0] * (d - 3))
    assert move.next(np.zeros(d), 10.0, slope, 10.0) == pytest.approx(-0.5 / 25 * slope)
    move, d = moves(3)
    assert move.next(np.zeros(d), 10.0, slope, 6.0) == pytest.approx(-(10 - 5.7) / 25 * slope)


def test_what_was_learned_in_many_steps_is_kept():
    """A quadratic of ten axes whose curvatures differ by 1e4, at least 1."""
    move, d = moves(10)
    curve = np.zeros(d)
    curve[:10] = np.logspace(0, 4, 10)
    start = np.zeros(d)
    start[:10] = 1.0
    values = run(move, lambda w: (1 + 0.5 * float(curve @ w**2), curve * w), start, 80)
    assert min(values) - 1 <= 1e-6


def test_a_kink_where_the_slope_leads_upwards_is_left():
    """1 + |x| + 3 |y| at (1, 0): no step along the subgradient (1, 3) is an improvement."""
    move, d = moves(2)

    def kinked(w):
        slope = np.zeros(d)
        slope[:2] = np.where(w[0] >= 0, 1.0, -1.0), np.where(w[1] >= 0, 3.0, -3.0)
        return 1 + abs(w[0]) + 3 * abs(w[1]), slope

    start = np.zeros(d)
    start[0] = 1.0
    assert min(run(move, kinked, start, 100)) < 1.9, "it starts from 2"
