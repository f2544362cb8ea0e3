"""The oracle: weights in, the plane of one image out.

For image n and weights w it finds the labelling y_hat that maximises
r_n Delta_n(y) - s_n (E_n(y; w) - E_n(y_n; w)), with one warm cut for each piece of the loss, and
gives the plane b + a . w, b = r_n Delta_n(y_hat), a = s_n (psi_n(y_n) - psi_n(y_hat)). It never
exceeds the image's risk and touches it at w. r_n and s_n are 1/pixels ("pixels"), 1/pixels and 1
("loss"), or 1 ("none").
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.energy.energy import Energy
from cutlearn.energy.linear import psi, unary_of, weights_of
from cutlearn.errors import InputError
from cutlearn.features.problem import VOID, Problem, checked_labels
from cutlearn.learn.losses import ImageLoss, Loss

Vector = NDArray[np.float64]

NORMALIZE = ("pixels", "loss", "none")


@dataclass(frozen=True, eq=False)
class Plane:
    """An affine lower bound b + a . w of one image's risk."""

    b: float
    a: Vector

    def value(self, w: Vector) -> float:
        """Give the plane's height at w."""
        return self.b + float(self.a @ w)


@dataclass(frozen=True, eq=False)
class Task:
    """What the oracle of one image needs, void nodes removed.

    Attributes
    ----------
    problem : Problem
    labels : (n,) uint8
        The true labels, 0 or 1.
    loss : ImageLoss
    loss_scale, energy_scale : float
        The factors r_n and s_n of the normalisation.
    """

    problem: Problem
    labels: NDArray[np.uint8]
    loss: ImageLoss
    loss_scale: float
    energy_scale: float

    @property
    def largest(self) -> float:
        """The largest possible loss of the image, normalised."""
        return self.loss_scale * self.loss.largest


def task_of(
    problem: Problem, labels: ArrayLike, loss: Loss, image: int = 0, normalize: str = "pixels"
) -> Task:
    """Bind a problem, its labels (255: void) and a loss."""
    if normalize not in NORMALIZE:
        raise InputError(
            f"The 'normalize' parameter must be one of {NORMALIZE}. Got {normalize!r} instead."
        )
    given = checked_labels(problem, labels)
    counted = given != VOID
    bound = loss.bind(image, np.where(counted, given, 0).astype(np.uint8), counted)
    kept, truth = problem.training(given)
    if kept.n_nodes != problem.n_nodes:
        bound = ImageLoss(bound.constant, bound.unary[:, counted], bound.largest)
    share = 1.0 / int(counted.sum())
    return Task(
        kept,
        truth,
        bound,
        1.0 if normalize == "none" else share,
        share if normalize == "pixels" else 1.0,
    )


class Oracle:
    """The oracle of one image. Keeps a solved graph and goes on from it.

    Parameters
    ----------
    task : Task
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        problem = task.problem
        self._truth = psi(problem, task.labels)
        energy = Energy(np.zeros(problem.n_nodes), problem.edge_ends(), np.zeros(problem.n_edges))
        self._solver = energy.solver()
        if problem.fixed is not None:
            held = np.flatnonzero(problem.fixed >= 0)
            self._solver.set_fixed(held, problem.fixed[held])

    def __call__(self, w: Vector) -> Plane:
        """Give the highest plane of the image at w."""
        task = self.task
        problem = task.problem
        unary = unary_of(problem, w)
        pairwise = weights_of(problem, w)
        self._solver.set_weights(np.arange(problem.n_edges), np.stack([pairwise] * 2, axis=1))
        ratio = task.loss_scale / task.energy_scale
        best: Plane | None = None
        for piece in task.loss.unary:
            self._solver.set_unary(np.arange(problem.n_nodes), unary + ratio * piece)
            labels = self._solver.minimize().labels
            plane = Plane(
                task.loss_scale * task.loss.value(labels),
                task.energy_scale * (self._truth - psi(problem, labels)),
            )
            if best is None or plane.value(w) > best.value(w):
                best = plane
        assert best is not None
        return best
