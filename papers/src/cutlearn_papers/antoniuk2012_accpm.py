"""ACCPM to the letter of antoniuk2012, section 3: the paper's algorithm 1 as it is written.

The localisation set is a polyhedron {x : A x <= b}: the constraints of the weights, the box
|x_j| <= B at every lambda, and one deep cut a round on the whole objective f, the regulariser
linearised with the risk (eq. 7): a = f'(x_t), b = f_best - f(x_t) + a . x_t. The next query is the
analytic centre, found by Newton steps from an infeasible start with backtracking; 3 n cuts are
kept. Where `learn.center` differs: it keeps the regulariser as it is, needs no box above
lambda = 0, and makes old cuts deeper when a better point is found.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

from cutlearn.arrays import Matrix, Vector

# B; "a conservatively large value" in the paper. Features here are in [0, 1].
BOX = 1e3
# Cuts kept for each weight.
KEPT = 3
# Newton: share of the expected fall of the residue, how steps shrink and to what, when it ends.
ALPHA, BETA, LEAST = 0.01, 0.5, 1e-12
FOUND, MOST_NEWTON = 1e-6, 300


class Cut(NamedTuple):
    """One evaluation: f(x) >= value + a . x everywhere; a . x <= b where f can be below the best
    value of its round.
    """

    a: Vector
    value: float
    b: float


class Literal:
    """The paper's localisation set.

    Parameters
    ----------
    rows, least : (r, n) and (r,)
        Constraints rows @ x >= least.
    box : float
    """

    def __init__(self, rows: Matrix, least: Vector, box: float = BOX) -> None:
        self.n, self.box = rows.shape[1], box
        ends = np.eye(self.n)
        self.walls = np.concatenate([ends, -ends, -rows])
        self.far = np.concatenate([np.full(2 * self.n, box), -least])
        self.cuts: list[Cut] = []
        self.lower_bound = -np.inf
        # The last query, and how many of the last rows it does not yet obey.
        self.x = np.zeros(self.n)
        self.fresh = len(least)

    def add(self, x: Vector, f: float, slope: Vector, best: float) -> None:
        """Add the deep cut of an evaluation at x (eq. 7)."""
        at = float(slope @ x)
        self.fresh = 1
        self.cuts.append(Cut(slope, f - at, best - f + at))

    def centre(self) -> Vector | None:
        """Give the next query point, and raise the lower bound; None when Newton does not end."""
        A = np.concatenate([self.walls, *(cut.a[None] for cut in self.cuts)])
        b = np.concatenate([self.far, [cut.b for cut in self.cuts]])
        found = analytic_centre(A, b, self.x, len(b) - self.fresh)
        self.fresh = 0
        if found is None:
            return None
        self.x = found
        slack = b - A @ found
        self._bound(1.0 / slack)
        self._prune(A, slack)
        return found

    def _bound(self, z: Vector) -> None:
        """Raise the bound by the centre's multipliers z = 1 / slack.

        With those of the cuts scaled to sum 1, f(x) >= sum_t z_t (value_t + a_t . x) plus what the
        walls add, which is never above 0; what is left of stationarity is paid for in the box.
        """
        if not self.cuts:
            return
        of_walls, of_cuts = np.split(z / z[len(self.far) :].sum(), [len(self.far)])
        slopes = np.array([cut.a for cut in self.cuts])
        rest = of_walls @ self.walls + of_cuts @ slopes
        values = np.array([cut.value for cut in self.cuts])
        proved = float(of_cuts @ values - of_walls @ self.far - self.box * np.abs(rest).sum())
        self.lower_bound = max(self.lower_bound, proved)

    def _prune(self, A: Matrix, slack: Vector) -> None:
        """Keep the 3 n cuts that are nearest in the metric of the centre's Hessian."""
        if len(self.cuts) <= KEPT * self.n:
            return
        scaled = A / slack[:, None]
        hessian = cho_factor(scaled.T @ scaled)
        rows = A[len(self.far) :]
        away = slack[len(self.far) :] / np.sqrt((rows * cho_solve(hessian, rows.T).T).sum(axis=1))
        kept = np.sort(np.argsort(away, kind="stable")[: KEPT * self.n])
        self.cuts = [self.cuts[k] for k in kept]


def analytic_centre(A: Matrix, b: Vector, start: Vector, new: int) -> Vector | None:
    """Minimise -sum log(b - A x) by Newton steps from an x inside all rows but those from `new` on.

    The equations are s + A x = b, v = 1 / s and A' v = 0; s > 0 is kept throughout. What is left
    of them is measured in units of the present s and of its Hessian, so that neither the units of
    the weights nor those of a row matter. New rows begin as far away as the old ones reach.
    """
    x = start.copy()
    s = b - A @ x
    s[new:] = _reach(A, s, new)
    v = 1.0 / s
    for _ in range(MOST_NEWTON):
        off = s + A @ x - b
        scaled = A / s[:, None]
        try:
            root = cholesky(scaled.T @ scaled, lower=True)
        except np.linalg.LinAlgError:
            return None
        right = -scaled.T @ (1.0 + off / s)
        dx = cho_solve((root, True), right)
        ds = -A @ dx - off
        dv = 1.0 / s - ds / s**2 - v
        feasible = float(np.abs(off / s).max()) < FOUND
        if feasible and float(right @ dx) < FOUND:
            return x
        left = partial(_left, A, b, root, s)
        step, now = 1.0, left(x, s, v)
        while (s + step * ds <= 0).any() or (
            left(x + step * dx, s + step * ds, v + step * dv) > (1 - ALPHA * step) * now
        ):
            step *= BETA
            if step < LEAST:
                return x if feasible else None
        x, s, v = x + step * dx, s + step * ds, v + step * dv
    return None


def _left(
    A: Matrix, b: Vector, root: Matrix, unit: Vector, x: Vector, s: Vector, v: Vector
) -> float:
    """Give what is left of the three equations, in units of slacks and of their Hessian's root."""
    flat = solve_triangular(root, A.T @ v, lower=True)
    parts = (flat, unit * (v - 1.0 / s), (s + A @ x - b) / unit)
    return float(np.linalg.norm(np.concatenate(parts)))


def _reach(A: Matrix, slack: Vector, new: int) -> Vector:
    """How far the old rows let x move in the direction of each new one: sqrt(a' H^-1 a)."""
    scaled = A[:new] / slack[:new, None]
    hessian = cho_factor(scaled.T @ scaled)
    return np.asarray(np.sqrt((A[new:] * cho_solve(hessian, A[new:].T).T).sum(axis=1)))


def minimise(
    oracle: Callable[[Vector], tuple[float, Vector]],
    rows: Matrix,
    least: Vector,
    gap: float,
    most: int,
    note: Callable[[float, float], None],
    box: float = BOX,
) -> tuple[Vector, bool]:
    """Run algorithm 1; the best point, and whether 1 - bound / best <= gap was reached.

    Parameters
    ----------
    oracle : x -> f(x) and a slope of f there
    rows, least : constraints rows @ x >= least
    gap : float
    most : int
        Rounds at most.
    note : called with the best value and the bound after each round
    box : float
    """
    known = Literal(rows, least, box)
    best, best_x = np.inf, known.x
    for _ in range(most):
        x = known.centre()
        if x is None:
            break
        # The centre of what the evaluation before has left also proves that round's bound.
        f, slope = oracle(x)
        if f < best:
            best, best_x = f, x
        note(best, known.lower_bound)
        if 1 - known.lower_bound / best <= gap:
            return best_x, True
        known.add(x, f, slope, best)
    return best_x, False
