"""What the labels of a model are: the one place where their masks and min-marginals part.

A kind knows the names of the weights and goes from a problem and weights to the best labels or to
the least energy of every label; what training makes of it is `learn.kinds`. Nodes that a person has
settled keep their labels. Estimator, files and the choice of C know no more than that.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.energy.energy import Energy
from cutlearn.energy.forms import EnvelopeSpec
from cutlearn.energy.linear_labels import label_costs_of
from cutlearn.energy.moves import expand
from cutlearn.energy.ordered import OrderedEnergy
from cutlearn.energy.surrogate import surrogate_min_marginals
from cutlearn.features.featurizer import Featurizer
from cutlearn.features.problem import VOID, Problem
from cutlearn.learn.learners import LEARNERS

Mask = NDArray[np.uint8]
Floats = NDArray[np.float64]

MOST_LABELS = 126


@dataclass(frozen=True)
class Kind:
    """What a model asks of its labels.

    Parameters
    ----------
    n_labels : int
    envelope : EnvelopeSpec, optional
        The form of the envelopes, if the model has any.
    edges : bool
        Whether neighbours are joined.
    """

    n_labels: int = 2
    envelope: EnvelopeSpec | None = None
    edges: bool = True

    name: ClassVar[str]
    most: ClassVar[int] = MOST_LABELS  # labels
    has_margin: ClassVar[bool] = True  # whether max-margin learners can learn it
    has_likelihood: ClassVar[bool] = False  # whether likelihood learners can
    takes_envelopes: ClassVar[bool] = False
    has_order: ClassVar[bool] = True  # whether losses may ask for it
    believes: ClassVar[bool] = True  # whether there are min-marginals

    @classmethod
    def learners(cls) -> tuple[str, ...]:
        """Give the names of the learners that can learn it."""
        return tuple(
            name for name, one in LEARNERS.items()
            if one.for_masks and (cls.has_margin if one.margin else cls.has_likelihood)
        )  # fmt: skip

    def questions(self, mask: Mask) -> Mask:
        """Give the answers, (h, w, T) of 0, 1 and 255, that boosted features learn to give.

        Here one question a label, but for two of them: this one or another?
        """
        asked = range(self.n_labels) if self.n_labels > 2 else (1,)
        return _answers(mask, [mask == k for k in asked])

    def names(self, featurizer: Featurizer) -> list[str]:
        """Give the names of the weights, in the order of w."""
        raise NotImplementedError

    def mask(self, problem: Problem, w: ArrayLike) -> Mask:
        """Give the best labels, in the image's shape."""
        raise NotImplementedError

    def least(self, problem: Problem, w: ArrayLike) -> Floats:
        """Give the min-marginals, the image's shape + (L,); infinite against a settled label."""
        raise NotImplementedError


class Binary(Kind):
    """Labels 0 and 1: one exact cut."""

    name = "binary"
    most = 2
    has_likelihood = True
    takes_envelopes = True

    def questions(self, mask: Mask) -> Mask:
        """One question: label 1?"""
        return mask[..., None]

    def names(self, featurizer: Featurizer) -> list[str]:
        """Node, edge and envelope weights."""
        return field_names(featurizer, self)

    def mask(self, problem: Problem, w: ArrayLike) -> Mask:
        """The labels of the minimum cut."""
        return _cut(Energy.of(problem, w, self.envelope), problem)

    def least(self, problem: Problem, w: ArrayLike) -> Floats:
        """The min-marginals of the cut."""
        return Energy.of(problem, w, self.envelope).min_marginals(_settled(problem))


class Ordered(Kind):
    """Labels 0 < 1 < .. < L - 1 with a table of costs for each edge feature: one exact cut."""

    name = "ordered"

    def questions(self, mask: Mask) -> Mask:
        """One question a threshold: this label or a higher one?"""
        return _answers(mask, [mask >= k for k in range(1, self.n_labels)])

    def names(self, featurizer: Featurizer) -> list[str]:
        """Node weights label by label, then the tables row by row."""
        return table_names(featurizer, self)

    def mask(self, problem: Problem, w: ArrayLike) -> Mask:
        """The labels of the minimum cut."""
        return _cut(OrderedEnergy.of(problem, w), problem)

    def least(self, problem: Problem, w: ArrayLike) -> Floats:
        """The min-marginals of the cut."""
        return OrderedEnergy.of(problem, w).min_marginals(_settled(problem))


class Surrogate(Kind):
    """Labels without an order, a binary field each, for likelihoods.

    S_dk = Phi^k_d(1) - Phi^k_d(0) stands for the min-marginals; the best label of a pixel is the
    most probable one, since no single energy joins the fields.
    """

    name = "surrogate"
    has_margin, has_likelihood = False, True
    takes_envelopes = True

    def names(self, featurizer: Featurizer) -> list[str]:
        """The weights of a field, label by label."""
        one = field_names(featurizer, self)
        return [f"label {k} {name}" for k in range(self.n_labels) for name in one]

    def mask(self, problem: Problem, w: ArrayLike) -> Mask:
        """The label of least S at every pixel."""
        return np.asarray(self.least(problem, w).argmin(axis=-1), np.uint8)

    def least(self, problem: Problem, w: ArrayLike) -> Floats:
        """S; a settled pixel has 0 at its label."""
        table = surrogate_min_marginals(problem, w, self.envelope)
        return table.reshape(*(problem.shape or (-1,)), self.n_labels)


class Unordered(Kind):
    """Labels without an order, a table of costs for each edge feature: expansion moves, masks only.

    A move is exact, their end a local optimum: nothing is certified, and there are no min-marginals
    to make probabilities of.
    """

    name = "unordered"
    has_order = believes = False

    def names(self, featurizer: Featurizer) -> list[str]:
        """As those of ordered labels."""
        return table_names(featurizer, self)

    def mask(self, problem: Problem, w: ArrayLike) -> Mask:
        """The labels that no expansion improves."""
        unary, tables = label_costs_of(problem, w)
        found = expand(unary, problem.edge_ends(), tables, fixed=problem.fixed)
        return found.labels.reshape(problem.shape or (-1,))


KINDS: dict[str, type[Kind]] = {kind.name: kind for kind in (Binary, Ordered, Surrogate, Unordered)}
BINARY = Binary()


def field_names(featurizer: Featurizer, kind: Kind) -> list[str]:
    """Give the names of one binary field's weights."""
    names = [f"node {name}" for name in featurizer.node_names_]
    if kind.edges:
        names += [f"edge {name}" for name in featurizer.edge_names_]
    if kind.envelope is not None:
        parts = ["constant", "slope", *(f"bend{k}" for k in range(1, kind.envelope.lines))]
        names += [f"envelope {name} {p}" for name in featurizer.region_names_ for p in parts]
    return names


def table_names(featurizer: Featurizer, kind: Kind) -> list[str]:
    """Give the names of weights with a table of costs for each edge feature."""
    labels = range(kind.n_labels)
    names = [f"label {k} node {name}" for k in labels for name in featurizer.node_names_]
    edges = featurizer.edge_names_ if kind.edges else []
    return names + [f"table {name} {a} {b}" for name in edges for a in labels for b in labels]


def labels_in(names: list[str]) -> int:
    """Give L, from the names of weights; two labels are not named."""
    return max((1 + int(n.split()[1]) for n in names if n.startswith("label ")), default=2)


def _answers(mask: Mask, hits: list[NDArray[np.bool_]]) -> Mask:
    return np.stack([np.where(mask == VOID, VOID, hit) for hit in hits], axis=-1).astype(np.uint8)


def _settled(problem: Problem) -> NDArray[np.int8] | None:
    return None if problem.fixed is None else problem.fixed.reshape(problem.shape or (-1,))


def _cut(energy: Energy | OrderedEnergy, problem: Problem) -> Mask:
    return energy.minimize(_settled(problem)).labels.astype(np.uint8)
