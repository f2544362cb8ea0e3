"""Energies of several labels that are linear in the weights: E(y; w) = w . psi(y).

    E(y; w) = sum_i w_node[y_i] . f_i + sum_e sum_g g_eg T_g[y_i, y_j]

w holds w_node (L, F) and then one table T_g (L, L) for each edge feature g: L F + G L^2 weights.
With an indicator of each direction as edge features (`direction_features`) this is the model of
antoniuk2012, 10 L + 2 L^2 weights. psi sums f at each label, and g at each pair of labels. Since
g_eg >= 0, rows G w >= h on the tables alone keep every cut exact: submodular tables for ordered
labels, and for unordered ones what expansion moves need, T(a,c) + T(c,b) >= T(a,b) + T(c,c).
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.checks import as_array, instance
from cutlearn.energy.linear import checked_weights
from cutlearn.energy.ordered import OrderedEnergy
from cutlearn.errors import InputError
from cutlearn.features.problem import Problem
from cutlearn.grid import grid_slices

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class LabelLayout:
    """Where each potential's weights lie in w.

    Attributes
    ----------
    ordered : bool
        Whether the labels have an order; else any two may be neighbours.
    n_labels, n_node_features, n_edge_features : int
        L, F and G.
    """

    ordered: bool
    n_labels: int
    n_node_features: int
    n_edge_features: int

    @property
    def node(self) -> slice:
        """The node weights, L blocks of F."""
        return slice(0, self.n_labels * self.n_node_features)

    @property
    def tables(self) -> slice:
        """The tables, G blocks of L x L."""
        return slice(self.node.stop, self.size)

    @property
    def size(self) -> int:
        """Length of w."""
        L = self.n_labels
        return L * self.n_node_features + self.n_edge_features * L * L

    def split(self, w: ArrayLike) -> dict[str, Vector]:
        """Give the parts of w: node (L, F) and tables (G, L, L)."""
        checked = checked_weights(w, self.size)
        L = self.n_labels
        return {
            "node": checked[self.node].reshape(L, self.n_node_features),
            "tables": checked[self.tables].reshape(self.n_edge_features, L, L),
        }

    def constraints(self) -> tuple[Matrix, Vector]:
        """Give the rows (G, h) with G w >= h that keep every cut, or move, exact."""
        L = self.n_labels
        table = np.array(_submodular(L) if self.ordered else _metric(L)).reshape(-1, L * L)
        rows = np.zeros((self.n_edge_features, len(table), self.size))
        for g, part in enumerate(rows):
            begin = self.tables.start + g * L * L
            part[:, begin : begin + L * L] = table
        flat = rows.reshape(-1, self.size)
        return flat, np.zeros(len(flat))

    def inside(self, w: Vector) -> Vector:
        """Give w moved into the cone G w >= 0 where a solver's rounding left it."""
        out = w.copy()
        T = out[self.tables].reshape(self.n_edge_features, self.n_labels, self.n_labels)  # a view
        if self.ordered:
            c = np.maximum(_second_differences(T), 0.0)
            inner = -np.cumsum(np.cumsum(c, axis=1), axis=2)
            T[:, 1:, 1:] = inner + T[:, 1:, :1] + T[:, :1, 1:] - T[:, :1, :1]
        else:
            rows = np.array(_metric(self.n_labels)).reshape(-1, self.n_labels**2)
            missing = np.maximum(-(T.reshape(len(T), -1) @ rows.T).min(axis=1, initial=0.0), 0.0)
            T += missing[:, None, None] * (1 - np.eye(self.n_labels))
        return out


def label_layout(problem: Problem, n_labels: int, ordered: bool = True) -> LabelLayout:
    """Give the slices of w for a problem."""
    return LabelLayout(ordered, n_labels, problem.n_node_features, problem.n_edge_features)


def n_labels_of(problem: Problem, w: ArrayLike) -> int:
    """Give L, from the length L F + G L^2 of w."""
    instance("problem", problem, Problem)
    size = as_array("w", w).size
    for L in range(2, 256):
        if L * problem.n_node_features + problem.n_edge_features * L * L == size:
            return L
    raise InputError(
        f"w: {size} weights found; L F + G L^2 wanted with F = {problem.n_node_features} node and "
        f"G = {problem.n_edge_features} edge features. Use weights learned from such features."
    )


def label_costs_of(problem: Problem, w: ArrayLike) -> tuple[Matrix, Matrix]:
    """Give the unary costs (n, L) and the table of every edge, (m, L, L)."""
    layout = label_layout(problem, n_labels_of(problem, w))
    parts = layout.split(w)
    unary = problem.node_features.astype(np.float64) @ parts["node"].T
    features = problem.edge_features
    assert features is not None
    return unary, np.tensordot(features.astype(np.float64), parts["tables"], axes=1)


def ordered_energy_of(problem: Problem, w: ArrayLike) -> OrderedEnergy:
    """Give the energy E(y; w) of a problem, on its grid when it has one.

    Fixed nodes are no part of an energy: pass `problem.fixed` to `minimize`, in the energy's shape.
    """
    unary, tables = label_costs_of(problem, w)
    if problem.shape is None:
        return OrderedEnergy(unary, problem.edges, tables)
    L, connectivity = unary.shape[1], int(problem.connectivity or 0)
    slices = grid_slices(problem.shape, connectivity)
    parts: list[Matrix] = [np.zeros((L, L))] * len(slices)
    if problem.n_edges:
        boxes = [[along.stop - along.start for along in first] for first, _ in slices]
        ends = np.cumsum([int(np.prod(box)) for box in boxes])
        split = np.split(tables, ends[:-1])
        parts = [part.reshape(*box, L, L) for part, box in zip(split, boxes)]
    return OrderedEnergy.grid(unary.reshape(*problem.shape, L), parts, connectivity)


def label_psi(problem: Problem, labels: ArrayLike, n_labels: int) -> Vector:
    """Give the joint features of a labelling, in the order of w."""
    y = np.asarray(labels).reshape(-1).astype(np.intp)
    features = np.asarray(problem.edge_features, np.float64)
    nodes = [
        problem.node_features[y == label].sum(axis=0, dtype=np.float64) for label in range(n_labels)
    ]
    ends = problem.edge_ends()
    pairs = y[ends[:, 0]] * n_labels + y[ends[:, 1]]
    tables = [np.bincount(pairs, column, n_labels**2) for column in features.T]
    return np.concatenate([*nodes, *tables])


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
