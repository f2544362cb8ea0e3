"""What is asked of a kind of labels, and what the kinds share."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.arrays import VOID, Bits, Mask, Matrix, Vector
from cutlearn.energy.potentials import Potential, Summands, features_of
from cutlearn.energy.problem import Problem
from cutlearn.energy.softmax import softened
from cutlearn.errors import InputError, quoted
from cutlearn.grid import grid_slices

if TYPE_CHECKING:
    from cutlearn.energy.model import Model

Valued = tuple[float, Vector]

MOST_LABELS = 126


class Posed(NamedTuple):
    """A problem with its weights, ready to be asked once for labels or for min-marginals."""

    mask: Callable[[], Mask]
    min_marginals: Callable[[], Matrix]


@dataclass(frozen=True)
class Labels(ABC):
    """A kind of labels.

    Parameters
    ----------
    n_labels : int, optional
        L; None while nobody has told.
    """

    n_labels: int | None = None

    name: ClassVar[str]
    most: ClassVar[int] = MOST_LABELS
    exact: ClassVar[bool] = True  # whether the best labels are proved to be so
    has_order: ClassVar[bool] = True  # whether losses may ask for it
    has_energy: ClassVar[bool] = True  # whether one energy joins all labels, as margins need it
    has_likelihood: ClassVar[bool] = True  # whether it has a gradient to learn by
    takes_envelopes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        n = self.n_labels
        if n is not None and (type(n) is not int or not 2 <= n <= self.most):
            allowed = "2" if self.most == 2 else f"an integer from 2 to {self.most}"
            raise InputError(
                f"The 'n_labels' parameter of {self.name} labels must be {allowed}. "
                f"Got {quoted(n)} instead."
            )

    @property
    def count(self) -> int:
        """L; an unbound kind has two."""
        return 2 if self.n_labels is None else self.n_labels

    @property
    def blocks(self) -> int:
        """How many fields of their own there are in w."""
        return 1

    def questions(self, mask: Mask) -> Mask:
        """Give the answers, (h, w, T) of 0, 1 and 255, that logits learn to give.

        Here one question a label, but for two of them: this one or another?
        """
        asked = range(self.count) if self.count > 2 else (1,)
        return answers(mask, [mask == k for k in asked])

    @abstractmethod
    def spread(self, potentials: tuple[Potential, ...]) -> tuple[Potential, ...]:
        """Give the potentials that stand in the places of those of two labels."""

    @abstractmethod
    def energy(self, problem: Problem, terms: Summands) -> Any:
        """Give the energy of terms, on the problem's grid when it has one."""

    @abstractmethod
    def with_costs(self, terms: Summands, cost: Matrix) -> Summands:
        """Give terms with costs (n, L - 1) of the labels 1, 2, .. added; label 0 costs nothing."""

    def psi(self, potentials: tuple[Potential, ...], problem: Problem, y: NDArray[Any]) -> Vector:
        """Give the joint features of a labelling."""
        labels = y.astype(np.intp)
        return np.concatenate([features_of(p, problem, labels) for p in self.spread(potentials)])

    def mask(self, model: "Model", problem: Problem, w: ArrayLike) -> Mask:
        """Give the best labels."""
        energy = model.energy(problem, w)
        return np.asarray(energy.minimize(fixed_in(problem, energy.shape)).labels, np.uint8)

    def posed(self, model: "Model", problem: Problem, w: ArrayLike) -> Posed:
        """Give what answers for the problem; it may let go of its features, which are large."""
        return Posed(
            lambda: self.mask(model, problem, w), lambda: self.min_marginals(model, problem, w)
        )

    @abstractmethod
    def min_marginals(
        self, model: "Model", problem: Problem, w: ArrayLike, threads: int = 1
    ) -> Matrix:
        """Give the least energy with each node at each label, (n, L); infinite if it is fixed."""

    def log_likelihood(
        self, model: "Model", problem: Problem, w: ArrayLike, truth: Mask, known: Bits
    ) -> Valued:
        """Give sum_d log q_d(y_d) over known labels, and its gradient with respect to w."""
        raise InputError(
            f"labels: {self.name} labels have no likelihood to learn by, because expansion moves "
            "end in local optima. Choose labels='surrogate', which takes any labels."
        )


def answers(mask: Mask, hits: list[Bits]) -> Mask:
    """Give the answers to questions, (h, w, T): 1 where they hit, 255 where nobody knows."""
    return np.stack([np.where(mask == VOID, VOID, hit) for hit in hits], axis=-1).astype(np.uint8)


def fixed_in(problem: Problem, shape: tuple[int, ...]) -> NDArray[np.int8] | None:
    """Give the fixed nodes of a problem in the shape of its energy."""
    return None if problem.fixed is None else problem.fixed.reshape(shape)


def by_direction(problem: Problem, edges: Matrix) -> list[Matrix]:
    """Give what edges have, (m, ..), as one array for each direction of the problem's grid."""
    assert problem.shape is not None
    parts, begin = [], 0
    for first, _ in grid_slices(problem.shape, int(problem.connectivity or 0)):
        box = [along.stop - along.start for along in first]
        count = int(np.prod(box))
        parts.append(edges[begin : begin + count].reshape(*box, *edges.shape[1:]))
        begin += count
    return parts


def likelihood_weights(costs: Matrix, truth: Mask, known: Bits) -> tuple[float, Matrix]:
    """Give sum_d log q_d(y_d) and its weights c_dk = q_d(k) - [y_d = k], 0 where nobody knows."""
    q, soft = softened(costs)
    at = np.flatnonzero(known)
    total = float((soft[at] - costs[at, truth[at]]).sum())
    q[at, truth[at]] -= 1.0
    q[~known] = 0.0
    return total, q
