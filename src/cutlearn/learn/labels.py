"""The oracles of several labels: ordered ones by an exact cut, unordered ones by expansion moves.

As `oracle`, for E(y; w) of `linear_labels`. An expansion ends in a local optimum: its plane is a
lower bound of the risk all the same, but may not touch it, so nothing is certified.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn import _core
from cutlearn.energy.linear_labels import LabelLayout, label_costs_of, label_layout, label_psi
from cutlearn.energy.model import checked_weights
from cutlearn.energy.moves import expand
from cutlearn.features.problem import VOID, Problem, checked_labels
from cutlearn.learn.image_loss import LabelLoss, Loss
from cutlearn.learn.oracle import Plane, failed, shares
from cutlearn.run.workers import Workers

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LabelTask:
    """What the oracle of one image with several labels needs, void nodes removed; see `Task`."""

    problem: Problem
    labels: NDArray[np.uint8]
    loss: LabelLoss
    loss_scale: float
    energy_scale: float
    layout: LabelLayout
    image: int = 0

    @property
    def largest(self) -> float:
        """The largest possible loss of the image, normalised."""
        return self.loss_scale * self.loss.largest

    def arrays(self) -> list[NDArray[Any] | None]:
        """What a fingerprint of the task must see."""
        p = self.problem
        features = [p.node_features, p.edge_features, p.edges, p.fixed]
        return [*features, self.labels, self.loss.cost, self.loss.constant]


def label_task_of(
    problem: Problem,
    labels: ArrayLike,
    loss: Loss,
    image: int,
    normalize: str,
    n_labels: int,
    ordered: bool,
) -> LabelTask:
    """Bind a problem, its labels (255: void) and a loss."""
    given = checked_labels(problem, labels, n_labels)
    counted = given != VOID
    truth = np.where(counted, given, 0).astype(np.uint8)
    bound = loss.bind_labels(image, truth, counted, n_labels)
    kept, truth = problem.training(given, n_labels)
    if kept.n_nodes != problem.n_nodes:
        bound = bound.take(counted)
    layout = label_layout(problem, n_labels, ordered)
    return LabelTask(kept, truth, bound, *shares(counted, normalize), layout, image)


class OrderedOracle:
    """The oracle of one image with ordered labels, in the core."""

    def __init__(self, task: LabelTask) -> None:
        self.task = task
        problem, loss = task.problem, task.loss
        features = problem.edge_features
        assert features is not None
        ends = np.zeros(0, np.int32) if problem.edges is None else problem.edges.reshape(-1)
        fixed = np.zeros(0, np.int16) if problem.fixed is None else problem.fixed.astype(np.int16)
        self.core = _core.OrderedOracle(
            problem.node_features,
            features,
            task.layout.n_labels,
            list(problem.shape or (problem.n_nodes,)),
            problem.connectivity or 0,
            ends,
            fixed,
            task.labels,
            loss.constant,
            loss.cost.reshape(-1),
            task.loss_scale,
            task.energy_scale,
        )

    def __call__(self, w: Vector) -> Plane:
        """Give the highest plane of the image at w."""
        row = ask_ordered([self], w)[0]
        return Plane(float(row[0]), row[1:])


def ask_ordered(oracles: Sequence[OrderedOracle], w: Vector, threads: int = 1) -> Matrix:
    """Ask every oracle at w, in one call of the core; rows b, a of each image's highest plane."""
    checked_weights(w, oracles[0].task.layout.size)
    try:
        return _core.highest_ordered_planes([oracle.core for oracle in oracles], w, threads)
    except (OverflowError, RuntimeError, MemoryError) as error:
        raise failed(error, [oracle.task.image for oracle in oracles], w) from error


class ExpansionOracle:
    """The oracle of one image with unordered labels: a high plane, not always the highest."""

    def __init__(self, task: LabelTask) -> None:
        self.task = task
        self.ends = task.problem.edge_ends()
        self.truth = label_psi(task.problem, task.labels, task.layout.n_labels)

    def __call__(self, w: Vector) -> Plane:
        """Give a high plane of the image at w: the best of an expansion for each piece."""
        task = self.task
        unary, tables = label_costs_of(task.problem, w)
        ratio = task.loss_scale / task.energy_scale
        best: Plane | None = None
        for cost in task.loss.cost:
            y = expand(unary + ratio * cost, self.ends, tables, fixed=task.problem.fixed).labels
            found = label_psi(task.problem, y, task.layout.n_labels)
            plane = Plane(
                task.loss_scale * task.loss.value(y), task.energy_scale * (self.truth - found)
            )
            if best is None or plane.value(w) > best.value(w):
                best = plane
        assert best is not None
        return best


def ask_expansion(oracles: Sequence[ExpansionOracle], w: Vector, threads: int = 1) -> Matrix:
    """Ask every oracle at w; rows b, a of a high plane of each image."""
    checked_weights(w, oracles[0].task.layout.size)
    with Workers(threads) as workers:
        planes = workers.map(lambda oracle: oracle(w), oracles)
    return np.array([[plane.b, *plane.a] for plane in planes])
