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
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import Bits, Matrix, Vector
from cutlearn.checks import as_array, whole_number
from cutlearn.energy.forms import EnvelopeSpec
from cutlearn.energy.joins import LinearTables
from cutlearn.energy.problem import Problem
from cutlearn.errors import InputError, quoted
from cutlearn.graph.marginals import ArgminSums

if TYPE_CHECKING:
    from cutlearn.energy.label_potentials import LabelPotential


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
        """The number of its weights."""

    @abstractmethod
    def psi(self, problem: Problem, y: Bits) -> Vector:
        """The features of a labelling: v . psi is what the potential adds to its energy."""

    @abstractmethod
    def terms(self, problem: Problem, v: Vector) -> Summands:
        """What it adds to the energy; refuses v for which no cut is exact."""

    def constraints(self, problem: Problem) -> Matrix:
        """G of the rows G v >= 0 that keep the cut exact; by default there are none."""
        return np.zeros((0, self.count(problem)))

    def inside(self, v: Vector) -> Vector:
        """v moved into that cone, if rounding has left it outside."""
        return v

    def names(self, features: FeatureNames, count: int) -> list[str]:
        """What its weights are called."""
        return [f"{self.name} {k}" for k in range(count)]

    def shaped(self, v: Vector) -> Vector:
        """The weights as a person would look at them: (L, ..) with several labels."""
        return v

    def coordinates(self, problem: Problem, second: Matrix) -> Coordinates:
        """Coordinates for quasi-Newton steps; `second` is the mean of f f' over the nodes."""
        count = self.count(problem)
        return Coordinates(np.eye(count), np.zeros(count, bool))

    def smoothing(self, problem: Problem) -> Vector:
        """Weights with which ends that differ cost the sum of their edge's features; or zeros."""
        return np.zeros(self.count(problem))

    def for_labels(self, n_labels: int, ordered: bool) -> "LabelPotential":
        """What stands in its place with several labels: by default a slice v for each of them."""
        from cutlearn.energy.label_potentials import PerLabel

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
        """The regions whose counts `argmin_sums` asks for."""
        return []


@dataclass(frozen=True)
class Unary(Potential):
    """A cost of label 1 at every node, linear in its features."""

    name: str = "node"

    def count(self, problem: Problem) -> int:
        return problem.n_node_features

    def psi(self, problem: Problem, y: Bits) -> Vector:
        return np.asarray(problem.node_features[y].sum(axis=0, dtype=np.float64))

    def terms(self, problem: Problem, v: Vector) -> Summands:
        return Summands(unary=product(problem.node_features, v))

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
    """A unary of several labels to each of which some of the features belong; see `Own`.

    Parameters
    ----------
    columns : tuple of L tuples of S int
        The node features that speak of each label.
    """

    columns: tuple[tuple[int, ...], ...] = ()

    def for_labels(self, n_labels: int, ordered: bool) -> "LabelPotential":
        from cutlearn.energy.label_potentials import FEW, Own, PerLabel

        few = ordered or n_labels <= FEW
        return PerLabel(Unary(), n_labels) if few else Own(self.columns)


@dataclass(frozen=True)
class Contrast(Potential):
    """A cost of different labels at the ends of every edge, linear in its features >= 0."""

    name: str = "edge"

    def count(self, problem: Problem) -> int:
        return problem.n_edge_features

    def psi(self, problem: Problem, y: Bits) -> Vector:
        ends = problem.edge_ends()
        cut = y[ends[:, 0]] != y[ends[:, 1]]
        return np.asarray(edge_features(problem)[cut].sum(axis=0, dtype=np.float64))

    def terms(self, problem: Problem, v: Vector) -> Summands:
        if v.size and v.min() < 0:
            raise InputError(
                f"w has an edge weight of {v.min():g}, but the cut is exact only for edge weights "
                ">= 0. Train with the default constraints, which keep them so."
            )
        return Summands(edges=product(edge_features(problem), v))

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
        from cutlearn.energy.label_potentials import FEW, Borders, Tables

        few = ordered or n_labels <= FEW
        return Tables(n_labels, ordered) if few else Borders(n_labels)

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

    def terms(self, problem: Problem, v: Vector) -> Summands:
        if not self.spec.is_concave(v):
            raise InputError(
                f"w gives family {self.family} of regions an envelope that is not concave, but the "
                "cut is exact only for concave ones. Train with the default constraints, which "
                "keep them so."
            )
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
    """Refuse an array of another shape, or with NaN or infinity in it."""
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
    """The edge features, which every problem has, if only (0, 0) of them."""
    assert problem.edge_features is not None
    return problem.edge_features


def product(features: NDArray[Any], v: Vector) -> Vector:
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
