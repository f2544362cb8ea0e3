"""The oracle: weights in, the plane of one image out.

For image n and weights w it finds the labelling y_hat that maximises
r_n Delta_n(y) - s_n (E_n(y; w) - E_n(y_n; w)), with one warm cut for each piece of the loss, and
gives the plane b + a . w, b = r_n Delta_n(y_hat), a = s_n (psi_n(y_n) - psi_n(y_hat)). It never
exceeds the image's risk and touches it at w. r_n and s_n are 1/pixels ("pixels"), 1/pixels and 1
("loss"), or 1 ("none").
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn import _core
from cutlearn.energy.linear import checked_weights
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
    """The oracle of one image, in the core.

    Parameters
    ----------
    task : Task
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        problem, loss = task.problem, task.loss
        features = problem.edge_features
        assert features is not None
        ends = np.zeros(0, np.int32) if problem.edges is None else problem.edges.reshape(-1)
        self.core = _core.Oracle(
            problem.node_features,
            features,
            list(problem.shape or (problem.n_nodes,)),
            problem.connectivity or 0,
            ends,
            np.zeros(0, np.int8) if problem.fixed is None else problem.fixed,
            task.labels,
            loss.constant,
            loss.unary.reshape(-1),
            task.loss_scale,
            task.energy_scale,
        )

    def __call__(self, w: Vector) -> Plane:
        """Give the highest plane of the image at w."""
        row = ask([self], w)[0]
        return Plane(float(row[0]), row[1:])


def ask(oracles: Sequence[Oracle], w: Vector, threads: int = 1) -> NDArray[np.float64]:
    """Ask every oracle at w, in one call of the core; the same bits for any number of threads.

    Returns
    -------
    (N, 1 + d) float64
        b, a of each image's highest plane.
    """
    for oracle in oracles[:1]:
        checked_weights(w, oracle.task.problem.n_weights)
    try:
        return _core.oracle_round([oracle.core for oracle in oracles], w, threads)
    except OverflowError as error:
        raise InputError(
            f"w: weights up to {np.abs(w).max():g} found; energies within the range of floating "
            "point wanted. Scale the features, or choose a smaller C."
        ) from error
