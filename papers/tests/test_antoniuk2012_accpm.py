"""The paper's ACCPM: centres of known sets, and minima of functions that are known."""

import numpy as np
import pytest
from scipy.optimize import linprog

from cutlearn_papers.antoniuk2012_accpm import KEPT, Literal, analytic_centre, minimise


def test_the_centre_of_a_box_is_its_middle_and_a_cut_moves_it():
    A = np.concatenate([np.eye(2), -np.eye(2)])
    b = np.array([3.0, 1.0, 1.0, 1.0])
    assert analytic_centre(A, b, np.array([0.5, 0.5]), 4) == pytest.approx([1.0, 0.0], abs=1e-5)
    # x_0 <= 1 leaves [-1, 1]; the row x_0 <= 3 still pushes a little.
    cut = analytic_centre(np.vstack([A, [1.0, 0.0]]), np.append(b, 1.0), np.array([1.0, 0.0]), 4)
    x = cut[0]
    assert 1 / (3 - x) + 1 / (1 - x) == pytest.approx(1 / (x + 1), rel=1e-4)


def piecewise(lam, seed=0, n=4, lines=30):
    """f(x) = lam/2 |x|^2 + max_i (c_i + g_i . x), convex and bounded below."""
    rng = np.random.default_rng(seed)
    g = rng.normal(size=(lines, n))
    g -= g.mean(axis=0)
    c = rng.uniform(1, 2, lines)

    def oracle(x):
        heights = c + g @ x
        at = int(heights.argmax())
        return 0.5 * lam * float(x @ x) + float(heights[at]), lam * x + g[at]

    return g, c, oracle


def test_a_linear_program_is_solved_to_its_gap():
    g, c, oracle = piecewise(0.0)
    rows = np.array([[1.0, 0.0, 0.0, 0.0]])
    told = []
    x, done = minimise(oracle, rows, np.zeros(1), 0.001, 200, lambda *pair: told.append(pair), 10.0)
    # min t with t >= c_i + g_i . x, x_0 >= 0 in the box.
    found = linprog(
        [0, 0, 0, 0, 1], np.hstack([g, -np.ones((len(g), 1))]), -c,
        bounds=[(0, 10), *[(-10, 10)] * 3, (None, None)],
    )  # fmt: skip
    assert done
    assert x[0] >= 0
    best, bound = np.array(told).T
    assert (bound <= found.fun + 1e-9).all()
    assert best[-1] == pytest.approx(found.fun, rel=1e-3)
    assert (np.diff(best) <= 0).all()
    assert (np.diff(bound[1:]) >= 0).all()


def test_bounds_hold_with_a_regulariser_and_few_cuts_are_kept():
    _, _, oracle = piecewise(1.0, 1)
    told = []
    x, done = minimise(oracle, np.zeros((0, 4)), np.zeros(0), 0.01, 300,
                       lambda *pair: told.append(pair), 100.0)  # fmt: skip
    assert done
    rng = np.random.default_rng(2)
    near = min(oracle(x + 0.05 * rng.normal(size=4))[0] for _ in range(200))
    assert told[-1][1] <= near
    assert len(told) > KEPT * 4
    known = Literal(np.zeros((0, 4)), np.zeros(0), 100.0)
    for _ in range(30):
        at = known.centre()
        value, slope = oracle(at)
        known.add(at, value, slope, value)
    known.centre()
    assert len(known.cuts) == KEPT * 4
