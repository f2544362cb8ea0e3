"""The bundle master: planes in, next w and a certified lower bound out.

Minimises lambda/2 |w|^2 + sum_g xi_g subject to xi_g >= b_p + a_p . w for every plane p of group g,
xi_g >= 0 (the zero plane) and G w >= h, over all planes ever seen. One group is BMRM (one-slack),
a group for each image is n-slack. The lower bound is the dual value of the multipliers alpha, mu,
alpha . b + mu . h - |sum_p alpha_p a_p - G' mu|^2 / (2 lambda): it holds whatever the solver did.
"""

from typing import Any

import daqp
import numpy as np
from numpy.typing import NDArray

from cutlearn.errors import InputError

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

# How far left-out planes may lie above the solution, relative to the objective.
VIOLATION = 1e-9
# A QP solution whose own gap is above this, relative to the objective, is tried again.
INEXACT = 1e-7
INFEASIBLE = -1
# Planes for each variable of the QP, above which idle ones are left out.
CROWDED = 5


class _InfeasibleError(Exception):
    """No weights satisfy the rows."""


class Bundle:
    """The quadratic master over groups of planes.

    Parameters
    ----------
    n_weights, n_groups : int
    lam : float > 0
        The regulariser lambda = 1 / C.
    rows, least : (r, d) and (r,) float64
        Constraints rows @ w >= least on w.
    """

    def __init__(
        self, n_weights: int, n_groups: int, lam: float, rows: Matrix, least: Vector
    ) -> None:
        if not 0 < lam < np.inf:
            raise InputError(
                f"C: lambda = 1/C = {lam:g} found; a finite number > 0 wanted by the bundle. "
                "Choose a finite C."
            )
        self.lam = lam
        self.rows, self.least = rows, least
        self.n_groups = n_groups
        self.group = np.zeros(0, np.int32)
        self.b = np.zeros(0)
        self.a = np.zeros((0, n_weights))
        self.alpha = np.zeros(0)
        self.mu = np.zeros(len(least))
        self.working = np.zeros(0, bool)
        self.lower_bound = -np.inf

    def add(self, b: Vector, a: Matrix, new: NDArray[np.bool_]) -> None:
        """Add a plane xi_g >= b_g + a_g . w for every group where `new` is true."""
        self.group = np.append(self.group, np.flatnonzero(new).astype(np.int32))
        self.b = np.append(self.b, b[new])
        self.a = np.concatenate([self.a, a[new]])
        count = int(new.sum())
        self.alpha = np.append(self.alpha, np.zeros(count))
        self.working = np.append(self.working, np.ones(count, bool))

    def start(self, unit: float) -> Vector:
        """Give the shortest w with G w >= h, where training begins.

        Parameters
        ----------
        unit : float > 0
            The size of the objective.
        """
        if (self.least <= 0).all():
            self.lower_bound = 0.0
            return np.zeros(self.a.shape[1])
        try:
            return self.solve(unit or 1.0)[0]
        except _InfeasibleError:
            raise InputError(
                "constraints: no weights satisfy G w >= h; rows that agree wanted (the edge "
                "weights are >= 0 beside them). Correct the pair (G, h)."
            ) from None

    def state(self) -> dict[str, NDArray[Any]]:
        """Give what a checkpoint must hold beside the planes."""
        return {"alpha": self.alpha, "mu": self.mu, "working": self.working,
                "lower_bound": np.array([self.lower_bound])}  # fmt: skip

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Take back a state; the planes must have been added before."""
        if state["alpha"].shape != self.alpha.shape or state["mu"].shape != self.mu.shape:
            raise InputError(
                "checkpoint: multipliers that do not fit the planes found; those of the same run "
                "wanted. Remove the checkpoint to start anew."
            )
        self.alpha, self.mu = state["alpha"], state["mu"]
        self.working = state["working"].astype(bool)
        self.lower_bound = float(state["lower_bound"][0])

    def slacks(self, w: Vector) -> Vector:
        """Give the model of every group's risk at w: the largest plane, or zero."""
        out = np.zeros(self.n_groups)
        np.maximum.at(out, self.group, self.b + self.a @ w)
        return out

    def value(self, w: Vector) -> float:
        """Give the model of the objective at w."""
        return 0.5 * self.lam * float(w @ w) + float(self.slacks(w).sum())

    def solve(self, upper: float) -> tuple[Vector, float]:
        """Give the minimiser of the model and the certified lower bound of the objective.

        Parameters
        ----------
        upper : float > 0
            The best objective so far: the unit in which the QP is stated, since optima can be
            tiny.
        """
        while True:
            w, slack = self._solve_working(upper)
            over = self.b + self.a @ w - slack[self.group]
            missing = (over > VIOLATION * upper) & ~self.working
            if not missing.any():
                break
            self.working |= missing
        self.lower_bound = max(self.lower_bound, self.dual_value())
        # When there are many, planes that carry no weight leave the QP; the check above brings
        # them back when needed.
        if self.working.sum() > CROWDED * (self.a.shape[1] + self.n_groups):
            self.working = (self.alpha > 0) | (over > -1e-2 * upper / self.n_groups)
        return w, self.lower_bound

    def dual_value(self) -> float:
        """Give the dual value of the multipliers: a lower bound of the objective everywhere."""
        pull = self.alpha @ self.a - self.mu @ self.rows
        return float(self.alpha @ self.b + self.mu @ self.least - pull @ pull / (2 * self.lam))

    def _solve_working(self, upper: float) -> tuple[Vector, Vector]:
        """Solve the QP over the working planes from the last active set; gives w and the slacks.

        Nearly linear programs (a very large C) make daqp cycle or lose digits: then looser
        tolerances and other units of w are tried. That may cost a little of the bound, never its
        truth.
        """
        at = np.flatnonzero(self.working)
        ball = np.sqrt(upper / self.lam)  # |w| of the optimum is below sqrt(2) times this
        slope = float(np.sqrt((self.a[at] ** 2).sum(axis=1).max())) if len(at) else 0.0
        near = min(ball, upper / slope) if slope > 0 else ball
        start = (self.alpha.copy(), self.mu.copy())
        least = np.inf
        found: tuple[Vector, Vector, Vector, Vector] | None = None
        flag = 0
        middle = np.sqrt(ball * near)
        for unit, tolerance, options in (
            (ball, 1e-10, {"zero_tol": 1e-9}),
            (ball, 1e-9, {}),
            (middle, 1e-8, {"eps_prox": 1.0}),
            (near, 1e-8, {"eps_prox": 1e-3}),
            (ball, 1e-7, {"eps_prox": 1.0}),
            (ball, 1e-5, {}),
            (near, 1e-5, {"eps_prox": 1.0}),
        ):
            warm = start if tolerance == 1e-10 else None
            w, slack, flag = self._attempt(at, upper, float(unit), warm, tolerance, options)
            if flag != 1:
                continue
            error = 0.5 * self.lam * float(w @ w) + float(slack.sum()) - self.dual_value()
            if error < least:
                least, found = error, (w, slack, self.alpha, self.mu)
            if error <= INEXACT * upper:
                break
        if found is None:
            if flag == INFEASIBLE:
                raise _InfeasibleError
            raise RuntimeError(f"the master's QP with {len(at)} planes was not solved ({flag})")
        w, slack, self.alpha, self.mu = found
        return w, slack

    def _attempt(
        self,
        at: NDArray[np.intp],
        upper: float,
        unit: float,
        start: tuple[Vector, Vector] | None,
        tolerance: float,
        options: dict[str, Any],
    ) -> tuple[Vector, Vector, int]:
        """Solve once, w in `unit` and slacks in `upper`; sets alpha and mu."""
        d, k, p, r = self.a.shape[1], self.n_groups, len(at), len(self.least)
        hessian = np.zeros((d + k, d + k))
        hessian[range(d), range(d)] = self.lam * unit**2 / upper
        linear = np.concatenate([np.zeros(d), np.ones(k)])
        matrix = np.zeros((p + k + r, d + k))
        matrix[:p, :d] = self.a[at] * (unit / upper)
        matrix[np.arange(p), d + self.group[at]] = -1.0
        matrix[range(p, p + k), range(d, d + k)] = -1.0
        matrix[p + k :, :d] = -self.rows
        bound = np.concatenate([-self.b[at] / upper, np.zeros(k), -self.least / unit])
        if start is not None:
            alpha, mu = start
            rest = np.maximum(1 - np.bincount(self.group, alpha, k), 0)
            first = np.concatenate([alpha[at], rest, mu * (unit / upper)])
            options = {**options, "dual_start": first}
        x, _, flag, info = daqp.solve(
            hessian, linear, matrix, bound, np.full(len(bound), -1e30), None,
            primal_tol=tolerance, **options,
        )  # fmt: skip
        dual = np.maximum(info["lam"], 0.0)
        self.alpha = np.zeros(len(self.b))
        self.alpha[at] = dual[:p]
        # A group's multipliers sum to at most 1 (the zero plane takes the rest); rounding may not.
        self.alpha /= np.maximum(np.bincount(self.group, self.alpha, k), 1.0)[self.group]
        self.mu = dual[p + k :] * (upper / unit)
        w = np.asarray(x[:d]) * unit
        heights = self.b[at] + self.a[at] @ w
        slack = np.zeros(k)
        np.maximum.at(slack, self.group[at], heights)
        return w, slack, int(flag)
