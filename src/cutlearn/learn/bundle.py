"""Masters of max-margin training, and the bundle master: planes in, the next weights out.

The model of the objective is lambda/2 |w|^2 + sum_g max(0, max_{p in g} b_p + a_p . w) over
G w >= h. Planes come in groups of images: one group is one-slack, a group for each image is
n-slack. A master computes where to ask next (`solve`); its lower bound is the dual value of
multipliers, which holds for every w, whatever the solvers did and however sums are rounded.
"""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import Matrix, Vector
from cutlearn.errors import InputError
from cutlearn.learn.programs import Program, feasible_radius, solve_linear, solve_quadratic

# How far left-out planes may lie above the solution, relative to the objective.
VIOLATION = 1e-9
# Where to ask between the best weights (0) and those of the master (1).
HALF = 0.5
# How regularisers follow each other in the search for short weights, and how many.
SOFTER, MAX_SOFTER = 4.0, 60
# Planes for each variable of the program, above which idle ones are left out.
CROWDED = 5


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
        # The rounding errors of the planes, of b and of every slope; whoever makes them sets it.
        self.rounding = np.zeros(1 + n_weights)
        # Weights that are thought near the optimum: the LP counts from there.
        self.at = np.zeros(n_weights)

    @abstractmethod
    def solve(self, best: float, target_gap: float, no_new_plane: bool = False) -> Vector | None:
        """Return the weights to ask next, and raise the lower bound; None when there is nothing
        left to ask within rounding.

        Parameters
        ----------
        best : float > 0
            The best objective so far.
        target_gap : float
            The gap at which the run ends.
        no_new_plane : bool
            Whether the oracle knew nothing that the model did not.
        """

    @abstractmethod
    def planes_agree(self, known: float, best: float, target_gap: float) -> bool:
        """Whether the oracle should be asked at weights where known planes give `known`."""

    def point(self, w: Vector, best_w: Vector) -> Vector:
        """Return the point to ask: between the best weights and those of the master."""
        return best_w + HALF * (w - best_w)

    def add(self, b: Vector, a: Matrix, new: NDArray[np.bool_]) -> None:
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
        """Return the shortest w with G w >= h, where training begins; refuses rows without any.

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
        """Return what a checkpoint must hold beside the planes."""
        return {
            "alpha": self.alpha,
            "mu": self.mu,
            "working": self.working,
            "lower_bound": np.array([self.lower_bound]),
        }

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Take back a state; the planes must have been added before."""
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
        """Raise the lower bound to what these multipliers of all planes and constraints prove."""
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
