"""Potentials of several labels, `PerLabel` and `Tables`, in the places of those of two.

With y_i in 0 .. L - 1:

    PerLabel(p)   psi = psi_p(y == 0), psi_p(y == 1), ..    a slice v for each label
    Tables        psi_gab = sum_e g_e [y_i = a, y_j = b]    a table T_g (L, L) for each edge feature

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

from cutlearn.energy.joins import LinearTables
from cutlearn.energy.ordered import LabelSums
from cutlearn.energy.potentials import (
    BLOCK,
    Coordinates,
    FeatureNames,
    Potential,
    Summands,
    edge_features,
)
from cutlearn.features.problem import Problem
from cutlearn.graph.marginals import ArgminSums

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Labels = NDArray[np.intp]


class LabelPotential(Potential):
    """A potential whose labellings are arrays of 0 .. L - 1."""

    n_labels: int

    @abstractmethod
    def psi(self, problem: Problem, y: Labels) -> Vector:  # type: ignore[override]
        """The features of a labelling."""

    @abstractmethod
    def label_sums(self, problem: Problem, sums: LabelSums) -> Vector:
        """sum_dk c_dk [psi(argmin_dk) - psi(y)], for the gradient of a likelihood."""


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
        return np.concatenate([self.one.psi(problem, y == k) for k in range(self.n_labels)])

    def terms(self, problem: Problem, v: Vector) -> Summands:
        total = Summands()
        parts = [self.one.terms(problem, row) for row in self.shaped(v)]
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
