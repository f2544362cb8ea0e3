"""The model of the objective, its minimum and its bound; masters, and the bundle master.

The model is lambda/2 |w|^2 + sum_g max(0, max_{p in g} b_p + a_p . w) over G w >= h. Planes come in
groups of images: one group is one-slack, a group for each image is n-slack. As a program it is

    minimise lambda/2 |w|^2 + sum_g xi_g  over  xi_g >= b_p + a_p . w (p in g), xi_g >= 0, G w >= h

which daqp solves for lambda > 0, and HiGHS for lambda = 0. Multipliers are clean: alpha >= 0 with a
sum of at most 1 in each group, mu >= 0. So their dual value is a lower bound for every w, whatever
the solver did and however sums are rounded. A master computes where to cut next (`solve`).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import daqp
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from cutlearn.arrays import Bits, Matrix, Vector
from cutlearn.errors import InputError

# A QP solution whose own gap is above this, relative to the objective, is tried again.
INEXACT = 1e-7
SOLVED = 1
# Slopes below this share of the steepest count as rounding.
FLAT = 1e-12
# The relative error of one operation.
EPS = float(np.finfo(float).eps)
# Multipliers are corrected by at most so much, and may be wrong by so much afterwards.
SMALLEST_FACTOR, MAX_SHIFT = 0.5, 0.1
# Rows of constraints with a smaller common ball, in units of w, count as equalities.
FEASIBLE = 1e-9
# How far left-out planes may lie above the solution, relative to the objective.
VIOLATION = 1e-9
# The point of the next cuts between the best weights (0) and those of the master (1).
HALF = 0.5
# How regularisers follow each other in the search for short weights, and how many.
SOFTER, MAX_SOFTER = 4.0, 60
# Planes for each variable of the program, above which idle ones are left out.
CROWDED = 5


@dataclass(frozen=True, eq=False)
class Program:
    """Planes, constraints and the regulariser of a model.

    Attributes
    ----------
    lam : float >= 0
    b, a : (P,) and (P, d) float64
        The planes.
    group : (P,) int
        Each plane's group, below n_groups.
    n_groups : int
    rows, rhs : (r, d) and (r,) float64
        G and h.
    """

    lam: float
    b: Vector
    a: Matrix
    group: NDArray[np.int32]
    n_groups: int
    rows: Matrix
    rhs: Vector

    def subset(self, at: NDArray[np.intp]) -> "Program":
        """Return the program over some of the planes."""
        return replace(self, b=self.b[at], a=self.a[at], group=self.group[at])

    def at(self, origin: Vector) -> "Program":
        """Return the same planes and constraints, w counted from `origin`."""
        return replace(self, b=self.b + self.a @ origin, rhs=self.rhs - self.rows @ origin)

    def slacks(self, w: Vector) -> Vector:
        """Return the model of every group's risk at w: the largest plane, or zero."""
        out = np.zeros(self.n_groups)
        np.maximum.at(out, self.group, self.b + self.a @ w)
        return out

    def value(self, w: Vector) -> float:
        """Return the model of the objective at w."""
        return 0.5 * self.lam * float(w @ w) + float(self.slacks(w).sum())

    def dual_value(self, alpha: Vector, mu: Vector, box: Vector) -> float:
        """Return the model's lower bound by clean multipliers, computed without rounding errors.

        It is alpha . b + mu . h - |v|^2 / (2 lambda) with v = sum_p alpha_p a_p - G' mu; at
        lambda = 0, where v is small, - sum_j box_j |v_j|, and holds for every |w_j| <= box_j only.
        """
        pull = alpha @ self.a - mu @ self.rows
        if self.lam > 0:
            loss = float(pull @ pull) / (2 * self.lam)
        else:
            loss = float(np.abs(pull) @ box)
        return float(alpha @ self.b + mu @ self.rhs) - loss

    def bound(self, alpha: Vector, mu: Vector, rounding: Vector) -> float:
        """Return a lower bound of the objective for every w, in spite of rounding.

        -inf if these multipliers prove none.

        Parameters
        ----------
        alpha, mu : (P,) and (r,) float64
            Clean multipliers.
        rounding : (1 + d,) float64
            The errors of b and a of a plane: the sum of one plane of every group is right to these.
        """
        planes, walls = np.flatnonzero(alpha), np.flatnonzero(mu)
        heights = np.concatenate([alpha[planes] * self.b[planes], mu[walls] * self.rhs[walls]])
        slopes = np.concatenate(
            [alpha[planes, None] * self.a[planes], -mu[walls, None] * self.rows[walls]]
        )
        shift = 0.0
        if self.lam == 0:
            moved = _cancelled(slopes, rounding[1:])
            if moved is None:
                return -np.inf
            factors, shift = moved
            heights, slopes = heights * factors, slopes * factors[:, None]
            alpha = alpha.copy()
            alpha[planes] *= factors[: len(planes)]
        # Errors of the sums here, and of the planes.
        share = EPS * (len(heights) + 4)
        size = float(np.abs(heights).sum())
        value = float(heights.sum()) - rounding[0] - (share + shift) * size
        if self.lam > 0:
            off = np.abs(slopes.sum(axis=0)) + share * np.abs(slopes).sum(axis=0) + rounding[1:]
            value -= (1 + share) * float(off @ off) / (2 * self.lam)
        most = np.bincount(self.group, alpha, self.n_groups).max(initial=0.0) * (1 + shift + share)
        return float(value / max(most, 1.0) if value > 0 else value)

    def clean(self, alpha: Vector) -> Vector:
        """Return alpha >= 0 with at most 1 in each group (the zero plane takes the rest)."""
        alpha = np.maximum(alpha, 0.0)
        return alpha / np.maximum(np.bincount(self.group, alpha, self.n_groups), 1.0)[self.group]


def _cancelled(slopes: Matrix, rounding: Vector) -> tuple[Vector, float] | None:
    """Return factors of the rows so that their sum is zero, and how far off these can be.

    With lambda = 0 multipliers prove a bound for every w only if what they weigh sums to zero
    exactly. Computed sums cannot show that. But where the rows can be corrected in any direction,
    there are exact multipliers near the computed ones, and this returns how near. A direction that
    the rows have by rounding alone is left out, as of features that depend linearly on others.
    None if no such multipliers are near.
    """
    terms = np.abs(slopes).sum(axis=0)
    live = terms > 0
    shares = (slopes[:, live] / terms[live]).T
    error = rounding[live] / terms[live] + EPS * (len(slopes) + 4)
    noise = float(np.linalg.norm(error))
    if not len(slopes) or not live.any():
        return np.ones(len(slopes)), 0.0
    left, sizes, right = np.linalg.svd(shares, full_matrices=False)
    left, sizes, right = left[:, sizes > noise], sizes[sizes > noise], right[sizes > noise]
    factors = 1.0 - right.T @ ((left.T @ shares.sum(axis=1)) / sizes)
    if factors.min() < SMALLEST_FACTOR:
        return None
    sums = shares @ factors
    outside = sums - left @ (left.T @ sums)
    if np.linalg.norm(outside) > noise:
        return None
    # What is left is corrected likewise; the factors and errors in the rows cost a factor of two
    # each, at most.
    leftover = np.abs(left @ (left.T @ sums)) + error
    shift = 2.0 / SMALLEST_FACTOR * float(np.linalg.norm(np.abs(left.T) @ leftover / sizes))
    return (factors, shift) if shift <= MAX_SHIFT else None


@dataclass(frozen=True, eq=False)
class ProgramSolution:
    """A point w and the multipliers of planes and constraints."""

    w: Vector
    alpha: Vector
    mu: Vector


def solve_quadratic(
    program: Program, upper: float, alpha: Vector, mu: Vector
) -> ProgramSolution | None:
    """Solve the QP from the last multipliers, in units of its size `upper`.

    Nearly linear programs (a very large C) and features of very different sizes make daqp cycle
    or lose digits: then units of every weight, proximal steps and looser tolerances are tried.
    That may cost a little of the bound, never its truth. None if all of them fail.
    """
    d = program.a.shape[1]
    # |w| of the optimum is below sqrt(2) times this.
    ball = np.full(d, np.sqrt(upper / program.lam))
    near = np.minimum(ball, units_of(program, upper))
    middle = np.sqrt(ball * near)
    smallest = np.inf
    found: ProgramSolution | None = None
    for unit, tolerance, options in (
        (ball, 1e-10, {"zero_tol": 1e-9}),
        (ball, 1e-9, {}),
        (near, 1e-8, {"eps_prox": 1e-3}),
        (middle, 1e-8, {"eps_prox": 1.0}),
        (ball, 1e-7, {"eps_prox": 1.0}),
        (ball, 1e-5, {}),
        (near, 1e-5, {"eps_prox": 1.0}),
    ):
        start = (alpha, mu) if tolerance == 1e-10 else None
        solution = _attempt(program, upper, unit, start, tolerance, options)
        if solution is None:
            continue
        bound = program.dual_value(solution.alpha, solution.mu, np.zeros(0))
        error = program.value(solution.w) - bound
        if error < smallest:
            smallest, found = error, solution
        if error <= INEXACT * upper:
            break
    return found


def _attempt(
    program: Program,
    upper: float,
    unit: Vector,
    start: tuple[Vector, Vector] | None,
    tolerance: float,
    options: dict[str, Any],
) -> ProgramSolution | None:
    """Solve once, w in `unit` and slacks in `upper`; what failed may hold anything."""
    d, k, p = program.a.shape[1], program.n_groups, len(program.b)
    hessian = np.zeros((d + k, d + k))
    hessian[range(d), range(d)] = program.lam * unit**2 / upper
    linear = np.concatenate([np.zeros(d), np.ones(k)])
    matrix, bound, sizes = _inequalities(program, upper, unit)
    if start is not None:
        alpha, mu = start
        unused = np.maximum(1 - np.bincount(program.group, alpha, k), 0)
        first = np.concatenate([alpha, unused, mu * (sizes / upper)])
        options = {**options, "dual_start": first}
    x, _, flag, info = daqp.solve(
        hessian, linear, matrix, bound, np.full(len(bound), -1e30), None,
        primal_tol=tolerance, **options,
    )  # fmt: skip
    if flag != SOLVED:
        return None
    dual = np.maximum(info["lam"], 0.0)
    return ProgramSolution(
        np.asarray(x[:d]) * unit, program.clean(dual[:p]), dual[p + k :] * (upper / sizes)
    )


def solve_linear(program: Program, upper: float, origin: Vector) -> ProgramSolution | None:
    """Solve the LP of lambda = 0, slacks in `upper` and w counted from `origin`.

    The nearer the origin is to the solution, the less is lost where planes cancel. Planes from
    afar can be ten powers of ten steeper than those near the optimum, whose slopes would be
    dropped as zeros in units of the steepest: units are those of the middle slope, and steep
    rows are divided by their size.
    """
    d, k, p = program.a.shape[1], program.n_groups, len(program.b)
    # Weights without a slope are counted from zero, where they stay if constraints let them.
    origin = np.where(np.abs(program.a).max(axis=0, initial=0.0) > 0, origin, 0.0)
    units = _middle_units(program, upper)
    matrix, bound, sizes = _inequalities(program.at(origin), upper, units)
    steep = np.abs(matrix).max(axis=1, initial=0.0)
    steep[steep == 0] = 1.0
    cost = np.concatenate([np.zeros(d), np.ones(k)])
    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    for options in (tight, {}):
        found = linprog(
            cost, matrix / steep[:, None], bound / steep, bounds=(None, None), method="highs",
            options=options,
        )  # fmt: skip
        if found.status == 0:
            break
    else:
        return None
    dual = np.maximum(-found.ineqlin.marginals / steep, 0.0)
    w = origin + found.x[:d] * units
    return ProgramSolution(w, program.clean(dual[:p]), dual[p + k :] * (upper / sizes))


def _inequalities(program: Program, upper: float, units: Vector) -> tuple[Matrix, Vector, Vector]:
    """Return matrix (w / units, xi / upper) <= bound: planes, zero planes, constraints.

    Also gives the sizes by which the rows of constraints were divided.
    """
    d, k, p = program.a.shape[1], program.n_groups, len(program.b)
    matrix = np.zeros((p + k + len(program.rhs), d + k))
    matrix[:p, :d] = program.a * (units / upper)
    matrix[np.arange(p), d + program.group] = -1.0
    matrix[range(p, p + k), range(d, d + k)] = -1.0
    sizes = sizes_of(program.rows, units)
    matrix[p + k :, :d] = -program.rows * units / sizes[:, None]
    bound = np.concatenate([-program.b / upper, np.zeros(k), -program.rhs / sizes])
    return matrix, bound, sizes


def sizes_of(rows: Matrix, units: Vector) -> Vector:
    """Return the lengths of the rows, w in its units; 1 for a row of zeros."""
    sizes = np.sqrt(((rows * units) ** 2).sum(axis=1))
    return np.where(sizes > 0, sizes, 1.0)


def units_of(program: Program, upper: float) -> Vector:
    """Return the size of each weight at which the plane that is steepest in it falls by `upper`."""
    slopes = np.abs(program.a).max(axis=0, initial=0.0)
    steepest = slopes.max(initial=0.0) or 1.0
    return upper / np.where(slopes > FLAT * steepest, slopes, steepest)


def _middle_units(program: Program, upper: float) -> Vector:
    """Return the size of each weight at which a plane of mean slope falls by `upper`."""
    slopes = np.abs(program.a)
    steepest = slopes.max(initial=0.0) or 1.0
    known = slopes > FLAT * steepest
    logs = np.log(np.where(known, slopes, 1.0)).sum(axis=0)
    count = known.sum(axis=0)
    middle = np.where(count > 0, np.exp(logs / np.maximum(count, 1)), steepest)
    units: Vector = upper / middle
    return units


def feasible_radius(rows: Matrix, rhs: Vector) -> float:
    """Return the radius, at most 1, of a ball within rows @ w >= rhs; raise if no w is.

    A radius of 0 means that some rows together are equalities.
    """
    norms = np.sqrt((rows**2).sum(axis=1))
    empty = norms == 0
    d = rows.shape[1]
    matrix = np.concatenate([-rows, norms[:, None]], axis=1)[~empty]
    cost = np.zeros(d + 1)
    cost[d] = -1.0
    bounds = [(None, None)] * d + [(None, 1.0)]
    found = linprog(cost, matrix, -rhs[~empty], bounds=bounds, method="highs")
    size = max(1.0, float(np.abs(rhs).max(initial=0.0)))
    if found.status != 0 or found.x[d] < -FEASIBLE * size or (rhs[empty] > 0).any():
        raise InputError(
            "constraints contradict each other, or those of the model (such as edge weights >= 0): "
            "no weights satisfy all of G w >= h. Correct the pair (G, h)."
        )
    radius = float(found.x[d])
    return radius if radius > FEASIBLE * size else 0.0


class Master(ABC):
    """The planes of a run and the bound they prove.

    Parameters
    ----------
    n_weights, n_groups : int
    lam : float >= 0
        The regulariser lambda = 1 / C.
    rows, rhs : (r, d) and (r,) float64
        Constraints rows @ w >= rhs on w.
    """

    # Whether some w must satisfy the constraints strictly.
    needs_interior = False

    def __init__(
        self, n_weights: int, n_groups: int, lam: float, rows: Matrix, rhs: Vector
    ) -> None:
        if not 0 <= lam < np.inf:
            raise InputError(
                f"C gives lambda = 1/C = {lam:g}, which must be finite and >= 0. Choose C > 0."
            )
        self.lam = lam
        self.rows, self.rhs = rows, rhs
        self.n_groups = n_groups
        self.group = np.zeros(0, np.int32)
        self.b = np.zeros(0)
        self.a = np.zeros((0, n_weights))
        self.alpha = np.zeros(0)
        self.mu = np.zeros(len(rhs))
        self.working = np.zeros(0, bool)
        self.lower_bound = -np.inf
        # The rounding errors of the planes, of b and of every slope; set by the maker of planes.
        self.rounding = np.zeros(1 + n_weights)
        # Weights near the optimum: the origin of the LP.
        self.at = np.zeros(n_weights)

    @abstractmethod
    def solve(self, best: float, target_gap: float, no_new_plane: bool = False) -> Vector | None:
        """Return the weights of the next cuts, and raise the lower bound.

        None if rounding hides any progress.

        Parameters
        ----------
        best : float > 0
            The best objective so far.
        target_gap : float
            The gap at which the run ends.
        no_new_plane : bool
            Whether the model already had all planes of the last step.
        """

    @abstractmethod
    def planes_agree(self, known: float, best: float, target_gap: float) -> bool:
        """Return whether it is time for cuts, at weights where known planes give `known`."""

    def point(self, w: Vector, best_w: Vector) -> Vector:
        """Return the point of the next cuts: between the best weights and the master's."""
        return best_w + HALF * (w - best_w)

    def add(self, b: Vector, a: Matrix, new: Bits) -> None:
        """Add a plane xi_g >= b_g + a_g . w for every group where `new` is true."""
        self.group = np.append(self.group, np.flatnonzero(new).astype(np.int32))
        self.b = np.append(self.b, b[new])
        self.a = np.concatenate([self.a, a[new]])
        count = int(new.sum())
        self.alpha = np.append(self.alpha, np.zeros(count))
        self.working = np.append(self.working, np.ones(count, bool))

    def program(self) -> Program:
        """Return the model over all planes."""
        return Program(self.lam, self.b, self.a, self.group, self.n_groups, self.rows, self.rhs)

    def start(self, unit: float) -> Vector:
        """Return the shortest w with G w >= h, the start of training; raise if there is none.

        Parameters
        ----------
        unit : float > 0
            The size of the objective.
        """
        nothing = np.zeros(self.a.shape[1])
        if self.needs_interior and feasible_radius(self.rows, self.rhs) == 0:
            raise InputError(
                "constraints leave no interior, as equalities do, but learner='accpm' needs "
                "weights with G w > h in all rows. Choose learner='bundle', which does not."
            )
        if (self.rhs <= 0).all():
            self.lower_bound = 0.0
            return nothing
        feasible_radius(self.rows, self.rhs)
        shortest = Program(
            self.lam or 1.0, self.b, self.a, self.group, self.n_groups, self.rows, self.rhs
        )
        found = solve_quadratic(shortest, unit or 1.0, self.alpha, self.mu)
        if found is None:
            raise InputError(
                "constraints: no solver finds the shortest weights with G w >= h. Scale the rows "
                "of the pair (G, h) to alike sizes."
            )
        self.lower_bound = 0.5 * self.lam * float(found.w @ found.w) * (1 - 1e-9)
        return found.w

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of a checkpoint, besides the planes."""
        return {
            "alpha": self.alpha,
            "mu": self.mu,
            "working": self.working,
            "lower_bound": np.array([self.lower_bound]),
        }

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Restore a state; the planes must have been added before."""
        if state["alpha"].shape != self.alpha.shape or state["mu"].shape != self.mu.shape:
            raise InputError(
                "checkpoint has multipliers that do not fit its planes, so it is not of this run. "
                "Remove it to start anew."
            )
        self.alpha, self.mu = state["alpha"], state["mu"]
        self.working = state["working"].astype(bool)
        self.lower_bound = float(state["lower_bound"][0])

    def value(self, w: Vector) -> float:
        """Return the model of the objective at w."""
        return self.program().value(w)

    def prove(self, alpha: Vector, mu: Vector) -> None:
        """Raise the lower bound by these multipliers of all planes and constraints."""
        bound = self.program().bound(alpha, mu, self.rounding)
        self.lower_bound = max(self.lower_bound, bound)

    def shorter(self, level: float, lam: float) -> tuple[Vector, float] | None:
        """Return nearly the shortest w at which the model is at most `level`.

        It is the minimiser with a regulariser, the largest of lam, lam / SOFTER, .. that reaches
        the level; this one is returned, too. No minimiser of the model is shorter. None if the
        regulariser is lost in rounding before.
        """
        whole = self.program()
        alpha, mu = np.zeros(len(self.b)), np.zeros(len(self.rhs))
        # From there on the weights have hardly moved from the shortest with G w >= h.
        lam = min(lam, float((self.a**2).sum(axis=1).max(initial=0.0)) / level)
        for _ in range(MAX_SOFTER):
            found = solve_quadratic(replace(whole, lam=lam), level, alpha, mu)
            if found is None:
                return None
            if whole.value(found.w) <= level:
                return found.w, lam
            alpha, mu = found.alpha, found.mu
            lam /= SOFTER
        return None

    def minimum(self, upper: float) -> Vector | None:
        """Return the minimiser of the model over all planes, and raise the lower bound.

        None if no solver finds it.

        Parameters
        ----------
        upper : float > 0
            The best objective so far: the unit in which the program is stated, since optima can
            be tiny.
        """
        whole = self.program()
        while True:
            at = np.flatnonzero(self.working)
            part = whole.subset(at)
            if self.lam > 0:
                found = solve_quadratic(part, upper, self.alpha[at], self.mu)
            else:
                found = solve_linear(part, upper, self.at)
            if found is None:
                return None
            self.alpha = np.zeros(len(self.b))
            self.alpha[at], self.mu = found.alpha, found.mu
            over = self.b + self.a @ found.w - part.slacks(found.w)[self.group]
            missing = (over > VIOLATION * upper) & ~self.working
            if not missing.any():
                break
            self.working |= missing
        self.prove(self.alpha, self.mu)
        # When there are many, planes that carry no weight leave the program; the check above
        # brings them back when needed.
        if self.working.sum() > CROWDED * (self.a.shape[1] + self.n_groups):
            self.working = (self.alpha > 0) | (over > -1e-2 * upper / self.n_groups)
        return found.w


class Bundle(Master):
    """The bundle master: the minimum of the model over all planes."""

    def solve(self, best: float, target_gap: float, no_new_plane: bool = False) -> Vector | None:
        """Return the minimum of the model."""
        return self.minimum(best)

    def planes_agree(self, known: float, best: float, target_gap: float) -> bool:
        """Return whether known planes leave less than the gap."""
        return known - max(self.lower_bound, 0.0) <= target_gap
