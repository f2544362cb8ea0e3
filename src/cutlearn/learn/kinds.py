"""What the labels are: binary, ordered or unordered. The one place where their oracles part.

A kind makes the task of an image and its oracle, asks a list of oracles in one round, and gives the
rows G w >= h that keep them exact. Pool, masters and the loop know no more than that.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.checks import is_one_of
from cutlearn.energy.model import ModelLike
from cutlearn.errors import InputError, quoted
from cutlearn.features.problem import Problem
from cutlearn.learn.generic import GenericOracle, ask_generic
from cutlearn.learn.image_loss import Loss
from cutlearn.learn.labels import (
    ExpansionOracle,
    LabelTask,
    OrderedOracle,
    ask_expansion,
    ask_ordered,
    label_task_of,
)
from cutlearn.learn.oracle import Oracle, Task, ask, task_of

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

KINDS = ("binary", "ordered", "unordered")
MOST_LABELS = 126
AnyTask = Task | LabelTask


class Kind(Protocol):
    """What pool and loop ask of the labels."""

    certified: bool

    def task(self, problem: Problem, labels: ArrayLike, image: int) -> AnyTask: ...
    def oracle(self, task: Any) -> Any: ...
    def ask(self, oracles: Sequence[Any], w: Vector, threads: int) -> Matrix: ...
    def constraints(self, task: Any) -> tuple[Matrix, Vector]: ...


class Binary:
    """Labels 0 and 1, with envelopes; exact cuts."""

    certified = True

    def __init__(self, loss: Loss, normalize: str, model: ModelLike) -> None:
        self.loss, self.normalize, self.model = loss, normalize, model

    def oracle(self, task: Task) -> Oracle | GenericOracle:
        """Make the oracle of one image: the core's where it knows all potentials."""
        return Oracle(task) if task.model.in_core else GenericOracle(task)

    def ask(self, oracles: Sequence[Any], w: Vector, threads: int) -> Matrix:
        """Ask every oracle at w."""
        return (ask if isinstance(oracles[0], Oracle) else ask_generic)(oracles, w, threads)

    def task(self, problem: Problem, labels: ArrayLike, image: int) -> Task:
        """Bind one image."""
        return task_of(problem, labels, self.loss, image, self.normalize, self.model)

    def constraints(self, task: Task) -> tuple[Matrix, Vector]:
        """Edge weights >= 0 and concave envelopes."""
        return task.model.constraints(task.problem)


class Labels:
    """Labels 0 to L - 1, ordered (exact cuts) or not (expansion moves)."""

    def __init__(self, loss: Loss, normalize: str, n_labels: int, ordered: bool) -> None:
        self.loss, self.normalize = loss, normalize
        self.n_labels, self.ordered = n_labels, ordered
        self.certified = ordered

    def task(self, problem: Problem, labels: ArrayLike, image: int) -> LabelTask:
        """Bind one image."""
        kind = self.n_labels, self.ordered
        return label_task_of(problem, labels, self.loss, image, self.normalize, *kind)

    def oracle(self, task: LabelTask) -> OrderedOracle | ExpansionOracle:
        """Make the oracle of one image."""
        return OrderedOracle(task) if self.ordered else ExpansionOracle(task)

    def ask(self, oracles: Sequence[Any], w: Vector, threads: int) -> Matrix:
        """Ask every oracle at w."""
        return (ask_ordered if self.ordered else ask_expansion)(oracles, w, threads)

    def constraints(self, task: LabelTask) -> tuple[Matrix, Vector]:
        """Submodular tables, or those that expansion moves need."""
        return task.layout.constraints()


def kind_of(
    kind: str,
    n_labels: int | None,
    loss: Loss,
    normalize: str,
    model: ModelLike,
    labels: Sequence[ArrayLike],
) -> Kind:
    """Give the kind of a name; without n_labels, L is one more than the largest label found."""
    if is_one_of(kind, ("surrogate",)):
        raise InputError(
            "kind: 'surrogate' found with a max-margin learner; a likelihood wanted there. "
            "Choose learner='likelihood', or kind='unordered'."
        )
    if not is_one_of(kind, KINDS):
        raise InputError(
            f"The 'kind' parameter must be one of {KINDS}. Got {quoted(kind)} instead."
        )
    if kind == "binary":
        if not is_one_of(n_labels, (None, 2)):
            raise InputError(
                f"n_labels: {quoted(n_labels)} found with binary labels; 2 wanted. Choose "
                "kind='ordered' or 'unordered'."
            )
        return Binary(loss, normalize, model)
    if model is not None:
        raise InputError(
            f"envelope: found with kind={kind!r}; learned envelopes wanted with binary labels "
            "only. Leave out envelope, or choose kind='binary'."
        )
    if kind == "unordered" and loss.needs_order:
        raise InputError(
            "loss: one that needs ordered labels found with unordered ones; another wanted. Use "
            "Hamming or LabelCount, or kind='ordered'."
        )
    if n_labels is None:
        # What cannot be a label is refused with its image, where the labels are bound.
        known = [np.asarray(y)[np.isin(y, range(MOST_LABELS))] for y in labels]
        n_labels = max(2, 1 + max((int(y.max()) for y in known if y.size), default=1))
    if type(n_labels) is not int or not 2 <= n_labels <= MOST_LABELS:
        raise InputError(
            f"The 'n_labels' parameter must be an integer from 2 to {MOST_LABELS}. "
            f"Got {quoted(n_labels)} instead."
        )
    return Labels(loss, normalize, n_labels, kind == "ordered")
