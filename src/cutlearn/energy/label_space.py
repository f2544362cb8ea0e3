"""What the labels of a model are: each kind is one object from problem to answer.

    binary      0 and 1: one exact cut, exact min-marginals
    ordered     0 < 1 < .. < L - 1: one exact cut, exact min-marginals
    unordered   tables and expansion moves: a local optimum, min-marginals of one move
    surrogate   a binary field for each label: min-marginals only, for likelihoods

A kind of labels says which potentials stand in the places of those of two labels, makes the energy
of their terms, and goes from weights to the best labels, to min-marginals, and to the likelihood of
labels under q_d = softmax of -Phi_d. Model, oracles, learners, estimators and files ask it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    NamedTuple,
)

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.arrays import VOID, Bits, Floats, Mask, Matrix, Vector
from cutlearn.energy.energy import Energy
from cutlearn.energy.moves import LinearTables, UnorderedEnergy
from cutlearn.energy.ordered import OrderedEnergy
from cutlearn.energy.potentials import Potential, Summands, features_of
from cutlearn.energy.problem import Problem
from cutlearn.energy.solver import ArgminSums
from cutlearn.grid import grid_slices
from cutlearn.run.executor import executor_of

if TYPE_CHECKING:
    from cutlearn.energy.model import Model
from cutlearn.errors import InputError, quoted


def softmax(costs: Floats) -> Floats:
    """Give exp(-cost) over its sum along the last axis, a row for each node; inf gives 0."""
    return softened(costs)[0]


def softened(costs: Floats) -> tuple[Floats, Floats]:
    """Give q = softmax(-costs), one row a node, and the soft minimum s = -log sum_k exp(-cost_k).

    log q_k = s - cost_k, also where q_k is too small for a number.
    """
    # Labels in front: numpy is slow along a short last axis.
    table = np.ascontiguousarray(costs.reshape(-1, costs.shape[-1]).T)
    lowest = table.min(axis=0)
    e = np.exp(lowest - table)
    mass = e.sum(axis=0)
    q = np.empty(table.shape[::-1])
    np.divide(e, mass, out=q.T)
    return q, lowest - np.log(mass)


Valued = tuple[float, Vector]

MOST_LABELS = 126


class Posed(NamedTuple):
    """A problem with its weights, ready to be asked once for labels or for min-marginals."""

    mask: Callable[[], Mask]
    min_marginals: Callable[[], Matrix]


@dataclass(frozen=True)
class LabelSpace(ABC):
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


@dataclass(frozen=True)
class Binary(LabelSpace):
    """LabelSpace 0 and 1: one exact cut."""

    name = "binary"
    most = 2

    def questions(self, mask: Mask) -> Mask:
        """One question: label 1?"""
        return mask[..., None]

    def spread(self, potentials: tuple[Potential, ...]) -> tuple[Potential, ...]:
        """As they are."""
        return potentials

    def psi(self, potentials: tuple[Potential, ...], problem: Problem, y: NDArray[Any]) -> Vector:
        """Give the joint features of a labelling."""
        return np.concatenate([features_of(p, problem, y.astype(bool)) for p in potentials])

    def energy(self, problem: Problem, terms: Summands) -> Energy:
        """Give the energy of terms."""
        unary = np.zeros(problem.n_nodes) if terms.unary is None else terms.unary
        edges = np.zeros(problem.n_edges) if terms.edges is None else terms.edges
        if problem.shape is None:
            return Energy(unary, problem.edges, edges, terms.envelopes)
        connectivity = int(problem.connectivity or 0)
        parts = 0.0 if problem.n_edges == 0 else by_direction(problem, edges)
        return Energy.grid(unary.reshape(problem.shape), parts, connectivity, terms.envelopes)

    def with_costs(self, terms: Summands, cost: Matrix) -> Summands:
        """Give terms with the cost of label 1 added."""
        unary = cost[:, 0] if terms.unary is None else terms.unary + cost[:, 0]
        return Summands(unary, terms.edges, terms.envelopes)

    def posed(self, model: "Model", problem: Problem, w: ArrayLike) -> Posed:
        """Give what answers for the problem: its energy, which has no features any more."""
        energy = model.energy(problem, w)
        fixed = fixed_in(problem, energy.shape)
        return Posed(
            lambda: np.asarray(energy.minimize(fixed).labels, np.uint8),
            lambda: np.asarray(energy.min_marginals(fixed)).reshape(-1, 2),
        )

    def min_marginals(
        self, model: "Model", problem: Problem, w: ArrayLike, threads: int = 1
    ) -> Matrix:
        """Give the exact min-marginals."""
        energy = model.energy(problem, w)
        fixed = fixed_in(problem, energy.shape)
        return np.asarray(energy.min_marginals(fixed, threads)).reshape(-1, 2)

    def log_likelihood(
        self, model: "Model", problem: Problem, w: ArrayLike, truth: Mask, known: Bits
    ) -> Valued:
        """D dL/dw = sum_d c_d [psi(argmin_d) - psi(y)], c_d = q_d(1 - y_d) - [y*_d != y_d]."""
        energy = model.energy(problem, w)
        sums = energy.argmin_sums(
            truth=np.where(known, truth, VOID).astype(np.uint8).reshape(energy.shape),
            regions=regions_of(problem, model),
            fixed=fixed_in(problem, energy.shape),
        )
        total = binary_log_likelihood(sums.min_marginals, truth, known)
        return total, feature_sums(problem, model, sums)


def binary_log_likelihood(min_marginals: Matrix, truth: Mask, known: Bits) -> float:
    """Give sum_d log q_d(y_d) over the known labels, q_d = softmax of -Phi_d of two labels."""
    phi = min_marginals.reshape(-1, 2)
    above = phi[:, 1] - phi[:, 0]
    np.negative(above, out=above, where=truth != 1)
    if not known.all():
        above = above[known]
    # log q = -log(1 + exp(a)), a the cost of the true label above the other's.
    return -float((np.maximum(above, 0.0) + np.log1p(np.exp(-np.abs(above)))).sum())


def regions_of(problem: Problem, model: "Model") -> list[NDArray[np.int32]]:
    """Give the regions whose counts the potentials ask for, in their order."""
    return [members for p in model.potentials for members in p.regions(problem)]


def feature_sums(problem: Problem, model: "Model", sums: ArgminSums) -> Vector:
    """Give sum_d c_d [psi(argmin_d) - psi(y)] in the order of w."""
    parts, begin = [], 0
    for p in model.potentials:
        parts.append(p.argmin_sums(problem, sums, begin))
        begin += len(p.regions(problem))
    return np.concatenate(parts)


class Several(LabelSpace):
    """LabelSpace 0 .. L - 1 joined by tables."""

    ordered: ClassVar[bool]

    def spread(self, potentials: tuple[Potential, ...]) -> tuple[Potential, ...]:
        """A slice for each label and tables for contrast, or less for many labels."""
        return tuple(p.for_labels(self.count, self.ordered) for p in potentials)

    def with_costs(self, terms: Summands, cost: Matrix) -> Summands:
        """Give terms with costs of the labels 1, 2, .. added."""
        assert terms.unary is not None
        unary = terms.unary.copy()
        unary[:, 1:] += cost
        return Summands(unary, terms.edges, terms.envelopes)

    def _tables(self, problem: Problem, terms: Summands) -> LinearTables | Matrix:
        L = self.count
        return np.zeros((problem.n_edges, L, L)) if terms.edges is None else terms.edges


@dataclass(frozen=True)
class Ordered(Several):
    """LabelSpace 0 < 1 < .. < L - 1 with a table of costs for each edge feature: one exact cut."""

    name = "ordered"
    ordered = True
    takes_envelopes = False

    def questions(self, mask: Mask) -> Mask:
        """One question a threshold: this label or a higher one?"""
        return answers(mask, [mask >= k for k in range(1, self.count)])

    def energy(self, problem: Problem, terms: Summands) -> OrderedEnergy:
        """Give the energy of terms; envelopes of single labels have no exact cut."""
        if terms.envelopes:
            raise InputError(
                "envelope: ordered labels take no envelopes, because the fraction of a middle "
                "label has no exact cut. Leave out the envelope, or choose unordered labels."
            )
        given, unary = self._tables(problem, terms), terms.unary
        tables = given.dense() if isinstance(given, LinearTables) else given
        assert unary is not None
        if problem.shape is None:
            return OrderedEnergy(unary, problem.edges, tables)
        L, connectivity = self.count, int(problem.connectivity or 0)
        if problem.n_edges:
            parts = by_direction(problem, tables)
        else:
            parts = [np.zeros((L, L))] * len(grid_slices(problem.shape, connectivity))
        return OrderedEnergy.grid(unary.reshape(*problem.shape, L), parts, connectivity)

    def min_marginals(
        self, model: "Model", problem: Problem, w: ArrayLike, threads: int = 1
    ) -> Matrix:
        """Give the exact min-marginals."""
        energy = model.energy(problem, w)
        fixed = fixed_in(problem, energy.shape)
        return np.asarray(energy.min_marginals(fixed)).reshape(-1, self.count)

    def log_likelihood(
        self, model: "Model", problem: Problem, w: ArrayLike, truth: Mask, known: Bits
    ) -> Valued:
        """D dL/dw = sum_dk c_dk psi(argmin_dk), c_dk = q_d(k) - [y*_d = k]; sum_k c_dk = 0."""
        energy = model.energy(problem, w)
        fixed = fixed_in(problem, energy.shape)
        costs = np.asarray(energy.min_marginals(fixed)).reshape(-1, self.count)
        total, c = likelihood_weights(costs, truth, known)
        sums = energy.argmin_sums(c.reshape(*energy.shape, self.count), fixed)
        parts = [p.label_sums(problem, sums) for p in self.spread(model.potentials)]  # type: ignore[attr-defined]
        return total, np.concatenate(parts)


@dataclass(frozen=True)
class Unordered(Several):
    """LabelSpace without an order, a table of costs for each edge feature: expansion moves.

    A move is exact, their end a local optimum: nothing is certified. The min-marginals are those of
    one more move from there, which probabilities can be made of, but no likelihood.
    """

    name = "unordered"
    ordered = exact = has_order = has_likelihood = False

    def energy(self, problem: Problem, terms: Summands) -> UnorderedEnergy:
        """Give the energy of terms."""
        assert terms.unary is not None
        tables = self._tables(problem, terms)
        return UnorderedEnergy.of(problem, terms.unary, tables, terms.envelopes)

    def min_marginals(
        self, model: "Model", problem: Problem, w: ArrayLike, threads: int = 1
    ) -> Matrix:
        """Give the least energies within one expansion of each label from the best labels."""
        energy = model.energy(problem, w)
        return np.asarray(energy.min_marginals(fixed_in(problem, energy.shape), threads))


@dataclass(frozen=True)
class Surrogate(LabelSpace):
    """LabelSpace without an order, a binary field each, for likelihoods (tarlow2012 section 6).

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

    def spread(self, potentials: tuple[Potential, ...]) -> tuple[Potential, ...]:
        """As they are, in every field."""
        return potentials

    def psi(self, potentials: tuple[Potential, ...], problem: Problem, y: NDArray[Any]) -> Vector:
        """Give the joint features of each field's labelling, end to end."""
        fields = [[features_of(p, problem, y == k) for p in potentials] for k in range(self.count)]
        return np.concatenate([part for field in fields for part in field])

    def energy(self, problem: Problem, terms: Summands) -> Any:
        """Refuse: there is one for each label."""
        raise InputError(
            "labels: surrogate labels have one energy for each label, and none that joins them. "
            "Choose labels='unordered' for one energy of all labels."
        )

    def with_costs(self, terms: Summands, cost: Matrix) -> Summands:
        """Refuse likewise."""
        return self.energy(None, terms)  # type: ignore[arg-type,no-any-return]

    def mask(self, model: "Model", problem: Problem, w: ArrayLike) -> Mask:
        """Give the label of least S at every node."""
        return np.asarray(self.min_marginals(model, problem, w).argmin(axis=-1), np.uint8)

    def min_marginals(
        self, model: "Model", problem: Problem, w: ArrayLike, threads: int = 1
    ) -> Matrix:
        """Give S of every node and label, (n, L).

        A node that is fixed to a label is fixed to 1 in its field and to 0 in all others.
        """
        rows, field = model.layout(problem).rows(w), _field(model)
        out = np.empty((problem.n_nodes, len(rows)))

        def fill(k: int) -> None:
            energy = field.energy(problem, rows[k])
            both = energy.min_marginals(_fixed_in_field(problem, energy, k)).reshape(-1, 2)
            np.subtract(both[:, 1], both[:, 0], out=out[:, k])

        executor_of(threads).map(fill, range(len(rows)))
        if problem.fixed is not None:  # -inf for the label itself, which no softmax likes
            fixed = np.flatnonzero(problem.fixed >= 0)
            out[fixed] = np.inf
            out[fixed, problem.fixed[fixed]] = 0.0
        return out

    def log_likelihood(
        self, model: "Model", problem: Problem, w: ArrayLike, truth: Mask, known: Bits
    ) -> Valued:
        """Two passes: the probabilities of all labels give the weights of each label's sums.

        Only one number a node and label is kept between them.
        """
        costs = self.min_marginals(model, problem, w)
        total, c = likelihood_weights(costs, truth, known)
        # S falls with the cost of 1 - y where the field's cut has y = 1.
        c[costs < 0] *= -1.0
        gradient, field = [], _field(model)
        for k, row in enumerate(model.layout(problem).rows(w)):
            energy = field.energy(problem, row)
            sums = energy.argmin_sums(
                weights=c[:, k].reshape(energy.shape),
                regions=regions_of(problem, field),
                fixed=_fixed_in_field(problem, energy, k),
            )
            gradient.append(feature_sums(problem, field, sums))
        return total, np.concatenate(gradient)


def _field(model: "Model") -> "Model":
    """The model of a single label's field."""
    return type(model)(model.potentials)


def _fixed_in_field(problem: Problem, energy: Energy, label: int) -> NDArray[np.int8] | None:
    """The fixed nodes of one label's field, in the energy's shape."""
    if problem.fixed is None:
        return None
    fixed = np.where(problem.fixed < 0, -1, problem.fixed == label).astype(np.int8)
    return fixed.reshape(energy.shape)


LABELS: dict[str, type[LabelSpace]] = {
    kind.name: kind for kind in (Binary, Ordered, Surrogate, Unordered)
}


# Stands for the kind that suits the number of labels and how they are learned.
AUTO = "auto"


def kind_of(name: str, n_labels: int, margin: bool) -> type[LabelSpace]:
    """Give the kind of labels of a name; "auto": binary if they are two.

    More are unordered, or surrogate where a likelihood is to be learned (not a margin).
    """
    if name != AUTO:
        return LABELS[name]
    several: type[LabelSpace] = Unordered if margin else Surrogate
    return Binary if n_labels == 2 else several


def labels_of(labels: Any, n_labels: int | None = None) -> LabelSpace:
    """Give the kind of labels that a name, or an object, means."""
    if isinstance(labels, LabelSpace):
        return labels
    if not isinstance(labels, str) or labels not in LABELS:
        raise InputError(
            f"The 'labels' parameter must be one of {tuple(LABELS)}. Got {quoted(labels)} instead."
        )
    return LABELS[labels](n_labels)
