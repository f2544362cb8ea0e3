"""Potentials of several labels, in the places of those of two.

With y_i in 0 .. L - 1:

    PerLabel(p)   psi = psi_p(y == 0), psi_p(y == 1), ..    a slice v for each label
    Tables        psi_gab = sum_e g_e [y_i = a, y_j = b]    a table T_g (L, L) for each edge feature

and where more than a few labels have no order, with fewer weights than L F + G L^2:

    Own           psi_s = sum_i f_i[column s of y_i]        a bias a label, weights that all share
    Borders       psi_gk = sum_e g_e [k at one end only]    a cost v_gk of the border of each label

Since g >= 0, rows on the tables alone keep every cut exact: submodular tables for ordered labels,
and for unordered ones what expansion moves need, T(a,c) + T(c,b) >= T(a,b) + T(c,c). With an
indicator of each direction as edge features (`direction_features`) unaries and tables are the model
of antoniuk2012, 10 L + 2 L^2 weights.
"""

from abc import abstractmethod
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import Matrix, Vector
from cutlearn.energy.joins import LinearTables
from cutlearn.energy.ordered import LabelSums
from cutlearn.energy.potentials import (
    BLOCK,
    Coordinates,
    FeatureNames,
    Potential,
    Summands,
    edge_features,
    features_of,
    terms_of,
)
from cutlearn.energy.problem import Problem
from cutlearn.errors import InputError
from cutlearn.graph.marginals import ArgminSums

Labels = NDArray[np.intp]
# With more labels than this images rarely tell of all pairs of them, nor which logits of others
# speak for a label (docs/decisions/0024).
FEW = 3


class LabelPotential(Potential):
    """A potential whose labellings are arrays of 0 .. L - 1."""

    n_labels: int

    @abstractmethod
    def psi(self, problem: Problem, y: Labels) -> Vector:  # type: ignore[override]
        """The features of a labelling."""

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
class Own(LabelPotential):
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
class Borders(LabelPotential):
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
