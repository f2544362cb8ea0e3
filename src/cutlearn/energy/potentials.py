"""Potentials: the summands of an energy that is linear in the weights, E(y; w) = w . psi(y).

A potential owns a slice v of w. It knows how long the slice is and what its weights are called, psi
of a labelling, the terms that v makes of a problem (unaries, weights of edges, envelopes), the rows
G v >= 0 that keep the cut exact, and the way back into that cone from where a solver's rounding has
left it. Everything else (`Model`, oracles, learners, files) asks the potential; one from outside is
as good as these, which are for two labels:

    Unary       psi = sum_i y_i f_i                      u_i = v . f_i
    Contrast    psi = sum_e [y_i != y_j] g_e             weight of edge e: v . g_e, v >= 0 (g >= 0)
    Enveloped   psi = sum_c r_c spec.features(p_c)       an envelope of p_c, the fraction of ones

With several labels each of them says what stands in its place (`label_potentials`).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import Bits, Matrix, Vector
from cutlearn.checks import as_array, whole_number
from cutlearn.energy.envelopes import EnvelopeSpec
from cutlearn.energy.moves import LinearTables
from cutlearn.energy.ordered import LabelSums
from cutlearn.energy.problem import Problem
from cutlearn.energy.solver import ArgminSums
from cutlearn.errors import InputError, quoted

# Rows of features that are copied at a time; few enough to stay in a cache.
BLOCK = 4096
# Directions of the node features with less than this share of the mean square stay as they are.
RIDGE = 1e-6


@dataclass
class Summands:
    """The terms that a potential adds to the energy of a problem.

    Attributes
    ----------
    unary : (n,) float64, or None
        With several labels (n, L): the cost of each.
    edges : (m,) or (m, 2) float64, or None
        One number for each edge of the problem: the cost of ends that differ, or p and q. With
        several labels (m, L, L), a table for each edge, or LinearTables that stand for them.
    envelopes : list of Envelope
        With several labels pairs of a label and the envelope of its fraction.
    """

    unary: Vector | None = None
    edges: Any = None
    envelopes: list[Any] = field(default_factory=list)


class FeatureNames(NamedTuple):
    """What the features of a problem are called."""

    node: list[str]
    edge: list[str]
    region: list[str]


class Coordinates(NamedTuple):
    """Coordinates z in which a potential is easy to learn: v = A z with z_i >= 0 where bounded."""

    A: Matrix
    bounded: Bits


class Potential(ABC):
    """One kind of summand of the energy.

    Its edges are those of `problem.edge_ends()`, its regions those of `problem.regions`: in
    training both leave out what is void. What it says of void nodes does not count (`Model.terms`).

    Subclasses are values: two that are equal make the same energies, and their repr tells them
    apart (a frozen dataclass does both).
    """

    name: str  # of its slice of w

    @abstractmethod
    def count(self, problem: Problem) -> int:
        """Return the number of its weights."""

    @abstractmethod
    def psi(self, problem: Problem, y: Bits) -> Vector:
        """Return the features of a labelling: v . psi is what the potential adds to its energy."""

    @abstractmethod
    def terms(self, problem: Problem, v: Vector) -> Summands:
        """What it adds to the energy; refuses v for which no cut is exact."""

    def constraints(self, problem: Problem) -> Matrix:
        """Return G of the rows G v >= 0 that keep the cut exact; by default there are none."""
        return np.zeros((0, self.count(problem)))

    def inside(self, v: Vector) -> Vector:
        """v moved into that cone, if rounding has left it outside."""
        return v

    def names(self, features: FeatureNames, count: int) -> list[str]:
        """What its weights are called."""
        return [f"{self.name} {k}" for k in range(count)]

    def shaped(self, v: Vector) -> Vector:
        """Return the weights as a person would look at them: (L, ..) with several labels."""
        return v

    def coordinates(self, problem: Problem, second: Matrix) -> Coordinates:
        """Return coordinates for quasi-Newton steps; `second` is the mean of f f'."""
        count = self.count(problem)
        return Coordinates(np.eye(count), np.zeros(count, bool))

    def smoothing(self, problem: Problem) -> Vector:
        """Return weights by which ends that differ cost the sum of edge features; or zeros."""
        return np.zeros(self.count(problem))

    def for_labels(self, n_labels: int, ordered: bool) -> "LabelPotential":
        """What stands in its place with several labels: by default a slice v for each of them."""
        return PerLabel(self, n_labels)

    def argmin_sums(self, problem: Problem, sums: ArgminSums, begin: int) -> Vector:
        """sum_d c_d [psi(argmin_d) - psi(y)], for the gradient of a likelihood.

        `begin` is the number of regions that potentials before it have named.
        """
        raise InputError(
            f"potential {self.name!r} cannot be learned by a likelihood, because it has no method "
            "argmin_sums. Choose learner='bundle', which does not need it, or write the method."
        )

    def regions(self, problem: Problem) -> list[NDArray[np.int32]]:
        """Return the regions whose counts `argmin_sums` asks for."""
        return []


@dataclass(frozen=True)
class Unary(Potential):
    """A cost of label 1 at every node, linear in its features."""

    name: str = "node"

    def count(self, problem: Problem) -> int:
        return int(problem.node_features.shape[1])

    def psi(self, problem: Problem, y: Bits) -> Vector:
        return np.asarray(problem.node_features[y].sum(axis=0, dtype=np.float64))

    def terms(self, problem: Problem, v: Vector) -> Summands:
        return Summands(unary=scores(problem.node_features, v))

    def names(self, features: FeatureNames, count: int) -> list[str]:
        return [f"node {name}" for name in features.node]

    def coordinates(self, problem: Problem, second: Matrix) -> Coordinates:
        # Decorrelated features: A A' is the inverse of their second moment.
        mean = float(np.trace(second)) / len(second) or 1.0
        factor = np.linalg.cholesky(second + RIDGE * mean * np.eye(len(second)))
        return Coordinates(np.linalg.inv(factor).T, np.zeros(len(second), bool))

    def argmin_sums(self, problem: Problem, sums: ArgminSums, begin: int) -> Vector:
        return weighted(sums.node, problem.node_features)


@dataclass(frozen=True)
class OwnUnary(Unary):
    """A unary of several labels to each of which some of the features belong; see `SharedUnary`.

    Parameters
    ----------
    columns : tuple of L tuples of S int
        The node features that speak of each label.
    """

    columns: tuple[tuple[int, ...], ...] = ()

    def for_labels(self, n_labels: int, ordered: bool) -> "LabelPotential":
        few = ordered or n_labels <= FEW
        return PerLabel(Unary(), n_labels) if few else SharedUnary(self.columns)


@dataclass(frozen=True)
class Contrast(Potential):
    """A cost of different labels at the ends of every edge, linear in its features >= 0."""

    name: str = "edge"

    def count(self, problem: Problem) -> int:
        assert problem.edge_features is not None
        return int(problem.edge_features.shape[1])

    def psi(self, problem: Problem, y: Bits) -> Vector:
        ends = problem.edge_ends()
        cut = y[ends[:, 0]] != y[ends[:, 1]]
        return np.asarray(edge_features(problem)[cut].sum(axis=0, dtype=np.float64))

    def check(self, problem: Problem, v: Vector) -> float:
        """Raise InputError for weights for which no cut is exact; the constant is 0."""
        if v.size and v.min() < 0:
            raise InputError(
                f"w has an edge weight of {v.min():g}, but the cut is exact only for edge weights "
                ">= 0. Train with the default constraints, which keep them so."
            )
        return 0.0

    def terms(self, problem: Problem, v: Vector) -> Summands:
        self.check(problem, v)
        return Summands(edges=scores(edge_features(problem), v))

    def constraints(self, problem: Problem) -> Matrix:
        return np.eye(self.count(problem))

    def inside(self, v: Vector) -> Vector:
        return np.maximum(v, 0.0)

    def names(self, features: FeatureNames, count: int) -> list[str]:
        return [f"edge {name}" for name in features.edge]

    def coordinates(self, problem: Problem, second: Matrix) -> Coordinates:
        count = self.count(problem)
        return Coordinates(np.eye(count), np.ones(count, bool))

    def smoothing(self, problem: Problem) -> Vector:
        return np.ones(self.count(problem))

    def for_labels(self, n_labels: int, ordered: bool) -> "LabelPotential":
        few = ordered or n_labels <= FEW
        return Tables(n_labels, ordered) if few else LabelContrast(n_labels)

    def argmin_sums(self, problem: Problem, sums: ArgminSums, begin: int) -> Vector:
        return weighted(sums.edge[: problem.n_edges], edge_features(problem))


@dataclass(frozen=True)
class Enveloped(Potential):
    """A concave function of the fraction of ones in every region of a family.

    Parameters
    ----------
    spec : EnvelopeSpec
    family : int
        Which of the problem's families of regions.
    """

    spec: EnvelopeSpec = field(default_factory=EnvelopeSpec)
    family: int = 0
    name: str = "envelope"

    def count(self, problem: Problem) -> int:
        if self.family >= len(problem.regions):
            raise InputError(
                f"envelope belongs to family {self.family} of regions (counted from 0), but the "
                f"problem has {len(problem.regions)} families. Give the Problem these regions, or "
                "leave out the envelope."
            )
        return self.spec.lines + 1

    def psi(self, problem: Problem, y: Bits) -> Vector:
        family = problem.regions[self.family]
        weigh = family.sizes if self.spec.per == "node" else np.ones(len(family))
        return np.asarray(weigh @ self.spec.features(family.counts(y) / family.sizes))

    def check(self, problem: Problem, v: Vector) -> float:
        """Raise InputError for weights for which no cut is exact; return the cost of label 0."""
        if not self.spec.is_concave(v):
            raise InputError(
                f"w gives family {self.family} of regions an envelope that is not concave, but the "
                "cut is exact only for concave ones. Train with the default constraints, which "
                "keep them so."
            )
        family = problem.regions[self.family]
        weights = family.members.size if self.spec.per == "node" else len(family)
        return float(v[0]) * weights

    def terms(self, problem: Problem, v: Vector) -> Summands:
        self.check(problem, v)
        vector = self.spec.inside(v)
        return Summands(envelopes=[self.spec.envelope(vector, m) for m in self.regions(problem)])

    def constraints(self, problem: Problem) -> Matrix:
        return self.spec.constraints()

    def inside(self, v: Vector) -> Vector:
        return self.spec.inside(v)

    def names(self, features: FeatureNames, count: int) -> list[str]:
        parts = ["constant", "slope", *(f"bend{k}" for k in range(1, self.spec.lines))]
        return [f"envelope {features.region[self.family]} {part}" for part in parts]

    def coordinates(self, problem: Problem, second: Matrix) -> Coordinates:
        # Curvatures, in which concavity is a matter of signs.
        bends = EnvelopeSpec(self.spec.lines, "curvatures")
        signs = np.where(np.arange(self.spec.lines + 1) < 2, 1.0, -1.0)
        columns = [bends.convert(row, self.spec.form) for row in np.diag(signs)]
        return Coordinates(np.stack(columns, axis=1), signs < 0)

    def regions(self, problem: Problem) -> list[NDArray[np.int32]]:
        return list(problem.regions[self.family])

    def argmin_sums(self, problem: Problem, sums: ArgminSums, begin: int) -> Vector:
        total = np.zeros(self.spec.lines + 1)
        sizes = problem.regions[self.family].sizes
        for size, counts in zip(sizes, sums.region[begin : begin + len(sizes)]):
            weigh = size if self.spec.per == "node" else 1
            total += weigh * (counts @ self.spec.features(np.arange(size + 1) / size))
        return total


# What the core knows, in the order of its weights.
CORE_KINDS: tuple[type[Potential], ...] = (Unary, Contrast, Enveloped)


def features_of(potential: Potential, problem: Problem, y: NDArray[Any]) -> Vector:
    """Return psi of a labelling; refuse what is not a finite number for each weight."""
    count, name = count_of(potential, problem), f"potential {potential.name!r}: psi"
    psi = as_array(name, potential.psi(problem, y))
    _need(name, psi, psi.shape, [(count,)])
    return psi


def count_of(potential: Potential, problem: Problem) -> int:
    """Return the number of weights of a potential; refuse what is no whole number."""
    return whole_number(f"potential {potential.name!r}: count", potential.count(problem), 0, 2**31)


def constraints_of(potential: Potential, problem: Problem) -> Matrix:
    """Return the rows G of a potential; refuse what has not a column for each weight."""
    count, name = count_of(potential, problem), f"potential {potential.name!r}: constraints"
    rows = as_array(name, potential.constraints(problem))
    _need(name, rows, rows.shape, [(len(rows) if rows.ndim else 0, count)])
    return rows


def terms_of(potential: Potential, problem: Problem, v: Vector, n_labels: int) -> Summands:
    """Return the terms of weights v; refuse other shapes and what is not finite.

    Parameters
    ----------
    n_labels : int
        0 for a potential of two labels, which has no place for the costs of each.
    """
    name, part = f"potential {potential.name!r}: terms", potential.terms(problem, v)
    if not isinstance(part, Summands):
        raise InputError(
            f"{name} returns {quoted(part)}, but must return Summands. Correct this method of the "
            "potential."
        )
    n, m, L = problem.n_nodes, problem.n_edges, n_labels
    if part.unary is not None:
        part.unary = as_array(f"{name}, unary", part.unary)
        _need(f"{name}, unary", part.unary, part.unary.shape, [(n, L) if L else (n,)])
    if isinstance(part.edges, LinearTables):
        _need(f"{name}, edges", part.edges.weights, part.edges.shape, [(m, L, L)])
    elif part.edges is not None:
        part.edges = as_array(f"{name}, edges", part.edges)
        allowed: list[tuple[int, ...]] = [(m, L, L)] if L else [(m,), (m, 2)]
        _need(f"{name}, edges", part.edges, part.edges.shape, allowed)
    return part


def _need(
    name: str, numbers: NDArray[Any], shape: tuple[int, ...], allowed: list[tuple[int, ...]]
) -> None:
    """Raise InputError for an array of another shape, or with NaN or infinity in it."""
    if shape in allowed and numbers.dtype.kind in "fiub":
        with np.errstate(over="ignore", invalid="ignore"):
            total = numbers.sum()  # finite for most arrays, and sooner known than of each number
        if np.isfinite(total) or np.isfinite(numbers).all():
            return
    found = f"shape {shape}" if shape not in allowed else "numbers that are not finite"
    raise InputError(
        f"{name} has {found}, but must have finite numbers in shape "
        f"{' or '.join(map(str, allowed))}. Correct this method of the potential."
    )


def edge_features(problem: Problem) -> NDArray[Any]:
    """Return the edge features, which every problem has, if only (0, 0) of them."""
    assert problem.edge_features is not None
    return problem.edge_features


def scores(features: NDArray[Any], v: Vector) -> Vector:
    """features @ v, not by a BLAS, whose order of sums may depend on its threads; read-only."""
    made = np.asarray(np.einsum("ij,j->i", features, v))
    made.flags.writeable = False  # so that an energy need not copy it
    return made


def weighted(weights: Vector, features: NDArray[Any]) -> Vector:
    """weights @ features, in blocks: numpy copies float32 before it sums in float64."""
    total = np.zeros(features.shape[1])
    for begin in range(0, len(weights), BLOCK):
        total += weights[begin : begin + BLOCK] @ features[begin : begin + BLOCK]
    return total


Labels = NDArray[np.intp]
# With more labels than this images rarely tell of all pairs of them, nor which logits of others
# speak for a label (docs/decisions/0024).
FEW = 3


class LabelPotential(Potential):
    """A potential whose labellings are arrays of 0 .. L - 1."""

    n_labels: int

    @abstractmethod
    def psi(self, problem: Problem, y: Labels) -> Vector:  # type: ignore[override]
        """Return the features of a labelling."""

    def label_sums(self, problem: Problem, sums: LabelSums) -> Vector:
        """sum_dk c_dk [psi(argmin_dk) - psi(y)], for the gradient of a likelihood.

        Labels without an order have none.
        """
        raise NotImplementedError(self.name)


@dataclass(frozen=True)
class PerLabel(LabelPotential):
    """A potential of two labels for each label against all others.

    Parameters
    ----------
    one : Potential
    n_labels : int
    """

    one: Potential
    n_labels: int

    @property
    def name(self) -> str:  # type: ignore[override]
        """As that of the potential."""
        return self.one.name

    def count(self, problem: Problem) -> int:
        return self.n_labels * self.one.count(problem)

    def psi(self, problem: Problem, y: Labels) -> Vector:  # type: ignore[override]
        return np.concatenate(
            [features_of(self.one, problem, y == k) for k in range(self.n_labels)]
        )

    def terms(self, problem: Problem, v: Vector) -> Summands:
        total = Summands()
        parts = [terms_of(self.one, problem, row, 0) for row in self.shaped(v)]
        if any(part.edges is not None for part in parts):
            raise InputError(
                f"potential {self.name!r} joins nodes, but says nothing of the labels of several "
                "that may differ there. Write its method for_labels, or use two labels."
            )
        if parts[0].unary is not None:
            total.unary = np.stack([part.unary for part in parts if part.unary is not None], axis=1)
        total.envelopes = [(k, e) for k, part in enumerate(parts) for e in part.envelopes]
        return total

    def constraints(self, problem: Problem) -> Matrix:
        return block_diagonal(self.n_labels, self.one.constraints(problem))

    def inside(self, v: Vector) -> Vector:
        return np.concatenate([self.one.inside(row) for row in self.shaped(v)])

    def names(self, features: FeatureNames, count: int) -> list[str]:
        one = self.one.names(features, count // self.n_labels)
        return [f"label {k} {name}" for k in range(self.n_labels) for name in one]

    def shaped(self, v: Vector) -> Vector:
        return v.reshape(self.n_labels, -1)

    def coordinates(self, problem: Problem, second: Matrix) -> Coordinates:
        A, bounded = self.one.coordinates(problem, second)
        return Coordinates(block_diagonal(self.n_labels, A), np.tile(bounded, self.n_labels))

    def label_sums(self, problem: Problem, sums: LabelSums) -> Vector:
        none = np.zeros(0)
        rows = [ArgminSums(none, np.ascontiguousarray(node), none, ()) for node in sums.node.T]
        return np.concatenate([self.one.argmin_sums(problem, row, 0) for row in rows])


@dataclass(frozen=True)
class SharedUnary(LabelPotential):
    """A cost of every label at every node, linear in node features that speak of that label.

    u_k = b_k + sum_s v_s f[columns[k][s]]: a bias a label, and weights that all labels share. With
    logits of every label as features, that is how far they can be believed. One weight for each
    label and feature, as `PerLabel(Unary())` has them, can learn which logits of *other* labels
    went with the images at hand.

    Parameters
    ----------
    columns : tuple of L tuples of S int
    """

    columns: tuple[tuple[int, ...], ...]
    name: str = "node"

    @property
    def n_labels(self) -> int:  # type: ignore[override]
        """As many as have columns."""
        return len(self.columns)

    def count(self, problem: Problem) -> int:
        return self.n_labels + len(self.columns[0])

    def psi(self, problem: Problem, y: Labels) -> Vector:  # type: ignore[override]
        areas = np.bincount(y, minlength=self.n_labels).astype(np.float64)
        own, every = np.array(self.columns)[y], np.arange(y.size)
        sums = [problem.node_features[every, c].sum(dtype=np.float64) for c in own.T]
        return np.concatenate([areas, sums])

    def terms(self, problem: Problem, v: Vector) -> Summands:
        unary = np.tile(v[: self.n_labels], (problem.n_nodes, 1))
        for columns, weight in zip(zip(*self.columns), v[self.n_labels :]):
            unary += weight * problem.node_features[:, list(columns)]
        return Summands(unary=unary)

    def names(self, features: FeatureNames, count: int) -> list[str]:
        shared = [features.node[c].partition(" of ")[0] for c in self.columns[0]]
        biases = [f"label {k} node {features.node[0]}" for k in range(self.n_labels)]
        return biases + [f"own {name}" for name in shared]


@dataclass(frozen=True)
class Tables(LabelPotential):
    """A cost of every pair of labels at the ends of every edge, linear in its features >= 0.

    Parameters
    ----------
    n_labels : int
    ordered : bool
        Whether the labels have an order; else any two may be neighbours.
    """

    n_labels: int
    ordered: bool = True
    name: str = "tables"

    def count(self, problem: Problem) -> int:
        return problem.n_edge_features * self.n_labels**2

    def psi(self, problem: Problem, y: Labels) -> Vector:  # type: ignore[override]
        ends, features = problem.edge_ends(), np.asarray(edge_features(problem), np.float64)
        pairs = y[ends[:, 0]] * self.n_labels + y[ends[:, 1]]
        sums = [np.bincount(pairs, column, self.n_labels**2) for column in features.T]
        return np.concatenate([np.zeros(0), *sums])

    def terms(self, problem: Problem, v: Vector) -> Summands:
        return Summands(edges=LinearTables(edge_features(problem), self.shaped(v)))

    def constraints(self, problem: Problem) -> Matrix:
        L = self.n_labels
        rows = np.array(_submodular(L) if self.ordered else _metric(L)).reshape(-1, L * L)
        return block_diagonal(problem.n_edge_features, rows)

    def inside(self, v: Vector) -> Vector:
        """v moved into the cone of the constraints, in which it is up to a solver's rounding."""
        out = v.copy()
        T = self.shaped(out)  # a view
        if self.ordered:
            c = np.maximum(_second_differences(T), 0.0)
            inner = -np.cumsum(np.cumsum(c, axis=1), axis=2)
            T[:, 1:, 1:] = inner + T[:, 1:, :1] + T[:, :1, 1:] - T[:, :1, :1]
        else:
            rows = np.array(_metric(self.n_labels)).reshape(-1, self.n_labels**2)
            missing = np.maximum(-(T.reshape(len(T), -1) @ rows.T).min(axis=1, initial=0.0), 0.0)
            T += missing[:, None, None] * (1 - np.eye(self.n_labels))
        return out

    def names(self, features: FeatureNames, count: int) -> list[str]:
        labels = range(self.n_labels)
        return [f"table {name} {a} {b}" for name in features.edge for a in labels for b in labels]

    def shaped(self, v: Vector) -> Vector:
        return v.reshape(-1, self.n_labels, self.n_labels)

    def coordinates(self, problem: Problem, second: Matrix) -> Coordinates:
        """First row and column of a table, and its second differences, which are >= 0."""
        L, G = self.n_labels, problem.n_edge_features
        columns, bounded = [], np.zeros((L, L), bool)
        bounded[1:, 1:] = True
        for a, b in product(range(L), repeat=2):
            T = np.zeros((L, L))
            if a and b:
                T[a:, b:] = -1.0
            elif a or b:
                T[a : a + 1 if a else L, b : b + 1 if b else L] = 1.0
            else:
                T[:] = 1.0
            columns.append(T.ravel())
        A = block_diagonal(G, np.stack(columns, axis=1))
        return Coordinates(A, np.tile(bounded.ravel(), G))

    def smoothing(self, problem: Problem) -> Vector:
        every = np.arange(self.n_labels)
        return np.tile(np.abs(every[:, None] - every).ravel(), problem.n_edge_features).astype(
            float
        )

    def label_sums(self, problem: Problem, sums: LabelSums) -> Vector:
        edges = sums.edge.reshape(-1, self.n_labels**2)
        features = edge_features(problem)
        total = np.zeros((features.shape[1], self.n_labels**2))
        for at in range(0, len(edges), BLOCK):
            total += features[at : at + BLOCK].T @ edges[at : at + BLOCK]
        return total.ravel()


@dataclass(frozen=True)
class LabelContrast(LabelPotential):
    """A cost of the border of every label, v_gk >= 0, linear in the features of the edges there.

    An edge between labels a and b is on the border of both, V_e(a, b) = sum_g g_e (v_ga + v_gb),
    which is a metric whatever v >= 0. There are L weights an edge feature where tables have L^2.

    Parameters
    ----------
    n_labels : int
    """

    n_labels: int
    name: str = "borders"

    def count(self, problem: Problem) -> int:
        return problem.n_edge_features * self.n_labels

    def psi(self, problem: Problem, y: Labels) -> Vector:  # type: ignore[override]
        # Both ends are on the border of their own label.
        pairs = Tables(self.n_labels, False).psi(problem, y)
        T = pairs.reshape(-1, self.n_labels, self.n_labels)
        inside = np.diagonal(T, axis1=1, axis2=2)
        return np.asarray(T.sum(axis=1) + T.sum(axis=2) - 2.0 * inside).ravel()

    def terms(self, problem: Problem, v: Vector) -> Summands:
        rows = self.shaped(v)
        tables = (rows[:, :, None] + rows[:, None, :]) * (1.0 - np.eye(self.n_labels))
        return Summands(edges=LinearTables(edge_features(problem), tables))

    def constraints(self, problem: Problem) -> Matrix:
        return np.eye(self.count(problem))

    def inside(self, v: Vector) -> Vector:
        return np.maximum(v, 0.0)

    def names(self, features: FeatureNames, count: int) -> list[str]:
        return [f"label {k} border {name}" for name in features.edge for k in range(self.n_labels)]

    def shaped(self, v: Vector) -> Vector:
        return v.reshape(-1, self.n_labels)


def block_diagonal(count: int, block: Matrix) -> Matrix:
    """So many copies of a block along the diagonal."""
    return np.asarray(np.kron(np.eye(count), block), np.float64)


def _second_differences(T: Matrix) -> Matrix:
    """T(a,b+1) + T(a+1,b) - T(a,b) - T(a+1,b+1), (G, L-1, L-1)."""
    return (T[:, :-1, 1:] + T[:, 1:, :-1]) - (T[:, :-1, :-1] + T[:, 1:, 1:])


def _submodular(L: int) -> list[Matrix]:
    rows = []
    for a, b in product(range(L - 1), repeat=2):
        row = np.zeros((L, L))
        row[a, b] = row[a + 1, b + 1] = -1.0
        row[a, b + 1] = row[a + 1, b] = 1.0
        rows.append(row)
    return rows


def _metric(L: int) -> list[Matrix]:
    rows = []
    for a, b, c in product(range(L), repeat=3):
        if c in (a, b):
            continue  # holds with equality
        row = np.zeros((L, L))
        row[a, c] += 1.0
        row[c, b] += 1.0
        row[a, b] -= 1.0
        row[c, c] -= 1.0
        rows.append(row)
    return rows
