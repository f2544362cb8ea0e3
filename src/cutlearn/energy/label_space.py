"""Label spaces: what the labels of a model are.

    binary      0 and 1: one exact cut, exact min-marginals
    ordered     0 < 1 < .. < L - 1: one exact cut, exact min-marginals
    unordered   tables and expansion moves: a local optimum, min-marginals of one move
    surrogate   a binary field for each label: min-marginals only, for likelihoods

A label space names the potentials that stand in the places of those of two labels and makes the
energy of their terms. `energy/compiled.py` goes from weights to labels, min-marginals and
likelihoods with it; oracles, learners, estimators and files read its attributes.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import VOID, Bits, Mask, Matrix
from cutlearn.energy.energy import Energy
from cutlearn.energy.moves import LinearTables, UnorderedEnergy
from cutlearn.energy.ordered import OrderedEnergy
from cutlearn.energy.potentials import Potential, Summands
from cutlearn.energy.problem import Problem
from cutlearn.energy.solver import SCALAR
from cutlearn.errors import InputError, quoted
from cutlearn.plugins import Registry

MOST_LABELS = 126


@dataclass(frozen=True)
class LabelSpace(ABC):
    """The labels of a model.

    Parameters
    ----------
    n_labels : int, optional
        L; None until the training labels or the length of w decide.
    """

    n_labels: int | None = None

    name: ClassVar[str]
    most: ClassVar[int] = MOST_LABELS
    exact: ClassVar[bool] = True  # whether the best labels are proved to be so
    has_order: ClassVar[bool] = True  # whether losses may use an order
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
        """L; two while it is undecided."""
        return 2 if self.n_labels is None else self.n_labels

    @property
    def blocks(self) -> int:
        """The number of fields with weights of their own in w."""
        return 1

    def questions(self, mask: Mask) -> Mask:
        """Return what logits learn to answer, (h, w, T) of 0, 1 and 255 for void.

        One question per label, but a single one for two labels: this label or another?
        """
        asked = range(self.count) if self.count > 2 else (1,)
        return self._answers(mask, [mask == k for k in asked])

    @staticmethod
    def _answers(mask: Mask, hits: list[Bits]) -> Mask:
        return np.stack([np.where(mask == VOID, VOID, hit) for hit in hits], axis=-1).astype(
            np.uint8
        )

    def expand_for_labels(self, potentials: tuple[Potential, ...]) -> tuple[Potential, ...]:
        """Return the potentials that stand in the places of those of two labels."""
        return potentials

    def labellings(self, y: NDArray[Any]) -> list[NDArray[Any]]:
        """Return the labelling that the potentials of each block of w look at."""
        return [y.astype(np.intp)]

    @abstractmethod
    def energy(self, problem: Problem, terms: Summands) -> Any:
        """Return the energy of terms, on the problem's grid when it has one.

        It has `shape`, `minimize(fixed).labels`, `min_marginals(fixed, threads)` and, for a
        margin, `value(labels)`.
        """

    @abstractmethod
    def with_costs(self, terms: Summands, cost: Matrix) -> Summands:
        """Return terms with costs (n, L - 1) of the labels 1, 2, .. added; label 0 is free."""


@dataclass(frozen=True)
class Binary(LabelSpace):
    """Labels 0 and 1: one exact cut."""

    name = "binary"
    most = 2

    def questions(self, mask: Mask) -> Mask:
        """Return the mask itself: label 1?"""
        return mask[..., None]

    def labellings(self, y: NDArray[Any]) -> list[NDArray[Any]]:
        """Return where the label is 1."""
        return [y.astype(bool)]

    def energy(self, problem: Problem, terms: Summands) -> Energy:
        """Return the energy of terms."""
        unary = np.zeros(problem.n_nodes) if terms.unary is None else terms.unary
        if problem.shape is None:
            edges = np.zeros(problem.n_edges) if terms.edges is None else terms.edges
            return Energy(unary, problem.edges, edges, terms.envelopes)
        grid = problem.shape, int(problem.connectivity or 0)
        if terms.edges is None or not problem.n_edges:
            count = len(problem.edge_counts())
            return Energy.unchecked(
                unary, *grid, (np.zeros(1),) * count, (SCALAR,) * count, terms.envelopes
            )
        parts = tuple(part.ravel() for part in problem.split_edges(terms.edges))
        # One number per edge, SYMMETRIC = 1, or p and q, PAIR = 2.
        kinds = (terms.edges.ndim,) * len(parts)
        return Energy.unchecked(unary, *grid, parts, kinds, terms.envelopes)

    def with_costs(self, terms: Summands, cost: Matrix) -> Summands:
        """Return terms with the cost of label 1 added."""
        unary = cost[:, 0] if terms.unary is None else terms.unary + cost[:, 0]
        return Summands(unary, terms.edges, terms.envelopes)


class _Several(LabelSpace):
    """Labels 0 .. L - 1 joined by tables."""

    ordered: ClassVar[bool]

    def expand_for_labels(self, potentials: tuple[Potential, ...]) -> tuple[Potential, ...]:
        """Return a slice for each label and tables for contrast, or less for many labels."""
        return tuple(p.for_labels(self.count, self.ordered) for p in potentials)

    def with_costs(self, terms: Summands, cost: Matrix) -> Summands:
        """Return terms with costs of the labels 1, 2, .. added."""
        assert terms.unary is not None
        unary = terms.unary.copy()
        unary[:, 1:] += cost
        return Summands(unary, terms.edges, terms.envelopes)


@dataclass(frozen=True)
class Ordered(_Several):
    """Labels 0 < 1 < .. < L - 1 with a table of costs for each edge feature: one exact cut."""

    name = "ordered"
    ordered = True
    takes_envelopes = False

    def questions(self, mask: Mask) -> Mask:
        """Return the answers to one question per threshold: this label or a higher one?"""
        return self._answers(mask, [mask >= k for k in range(1, self.count)])

    def energy(self, problem: Problem, terms: Summands) -> OrderedEnergy:
        """Return the energy of terms; envelopes of single labels have no exact cut."""
        if terms.envelopes:
            raise InputError(
                "envelope: ordered labels take no envelopes, because the fraction of a middle "
                "label has no exact cut. Leave out the envelope, or choose unordered labels."
            )
        given, unary, L = terms.edges, terms.unary, self.count
        assert unary is not None
        tables: Any = given.dense() if isinstance(given, LinearTables) else given
        if problem.shape is None:
            tables = np.zeros((problem.n_edges, L, L)) if tables is None else tables
            return OrderedEnergy(unary, problem.edges, tables)
        counts = problem.edge_counts()
        if given is None or not problem.n_edges:
            parts, each = [np.zeros((1, L, L))] * len(counts), (False,) * len(counts)
        else:
            parts, each = problem.split_edges(tables), (True,) * len(counts)
        unary = unary.reshape(*problem.shape, L)
        return OrderedEnergy.unchecked(unary, int(problem.connectivity or 0), tuple(parts), each)


@dataclass(frozen=True)
class Unordered(_Several):
    """Labels without an order, a table of costs for each edge feature: expansion moves.

    A move is exact, their end a local optimum: nothing is certified. The min-marginals are those of
    one more move from there, which probabilities can be made of, but no likelihood.
    """

    name = "unordered"
    ordered = exact = has_order = has_likelihood = False

    def energy(self, problem: Problem, terms: Summands) -> UnorderedEnergy:
        """Return the energy of terms."""
        assert terms.unary is not None
        tables = terms.edges
        if tables is None:
            tables = np.zeros((problem.n_edges, self.count, self.count))
        return UnorderedEnergy.of(problem, terms.unary, tables, terms.envelopes)


@dataclass(frozen=True)
class Surrogate(LabelSpace):
    """Labels without an order, a binary field each, for likelihoods (tarlow2012 section 6).

    Label k has a binary energy E^k(y; w_k) of its own, y_d = 1 where node d takes the label, and w
    is w_0, w_1, .. end to end. With Phi^k the min-marginals of E^k,

        S_dk = Phi^k_d(1) - Phi^k_d(0),    q_d = softmax over k of -S_dk

    stands for the min-marginals; the best label of a node is the most probable one, since no single
    energy joins the fields.
    """

    name = "surrogate"
    exact = has_energy = False

    @property
    def blocks(self) -> int:
        """One for each label."""
        return self.count

    def labellings(self, y: NDArray[Any]) -> list[NDArray[Any]]:
        """Return where each label is."""
        return [y == k for k in range(self.count)]

    def energy(self, problem: Problem, terms: Summands) -> Any:
        """Raise InputError: there is one energy for each label."""
        raise InputError(
            "labels: surrogate labels have one energy for each label, and none that joins them. "
            "Choose labels='unordered' for one energy of all labels."
        )

    def with_costs(self, terms: Summands, cost: Matrix) -> Summands:
        """Raise InputError likewise."""
        return self.energy(None, terms)  # type: ignore[arg-type,no-any-return]


LABELS: Registry[type[LabelSpace]] = Registry(
    "labels", {kind.name: kind for kind in (Binary, Ordered, Surrogate, Unordered)}
)
# Stands for the label space that suits the number of labels and how they are learned.
AUTO = "auto"


def kind_of(name: str, n_labels: int, margin: bool) -> type[LabelSpace]:
    """Return the label space of a name; "auto": binary for two labels.

    More are unordered, or surrogate where a likelihood is to be learned (not a margin).
    """
    if name != AUTO:
        return LABELS[name]
    several: type[LabelSpace] = Unordered if margin else Surrogate
    return Binary if n_labels == 2 else several


def labels_of(labels: Any, n_labels: int | None = None) -> LabelSpace:
    """Return the label space that a name, or an object, means."""
    if isinstance(labels, LabelSpace):
        return labels
    if not isinstance(labels, str) or labels not in LABELS:
        raise InputError(
            f"The 'labels' parameter must be one of {tuple(LABELS)}. Got {quoted(labels)} instead."
        )
    return LABELS[labels](n_labels)
