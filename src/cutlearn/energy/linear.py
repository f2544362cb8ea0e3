"""Energies that are linear in the weights: E(y; w) = w . psi(y).

w comes in the order node, edge, with named slices; psi(y) sums the node features over the ones
and the edge features over the edges whose ends differ:
psi_node = sum_i y_i f_i,  psi_edge = sum_e [y_i != y_j] g_e.
Since g_e >= 0, w_edge >= 0 keeps every edge submodular: these rows are G w >= h.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.energy.energy import Energy
from cutlearn.errors import InputError
from cutlearn.features.problem import Problem, grid_offsets

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Layout:
    """Where each potential's weights lie in w.

    Attributes
    ----------
    node, edge : slice
    size : int
        Length of w.
    """

    node: slice
    edge: slice
    size: int

    def split(self, w: ArrayLike) -> dict[str, Vector]:
        """Give the named parts of w."""
        checked = checked_weights(w, self.size)
        return {"node": checked[self.node], "edge": checked[self.edge]}


def layout_of(problem: Problem) -> Layout:
    """Give the slices of w for a problem."""
    nodes = problem.n_node_features
    return Layout(slice(0, nodes), slice(nodes, problem.n_weights), problem.n_weights)


def checked_weights(w: ArrayLike, size: int) -> Vector:
    """Check w (finite, of the right length) and give it as float64."""
    array = np.asarray(w, dtype=np.float64)
    if array.shape != (size,) or not np.isfinite(array).all():
        raise InputError(
            f"w: shape {array.shape} found; {size} finite weights wanted, node then edge. "
            "Use the weights learned from problems with these features."
        )
    return array


def unary_of(problem: Problem, w: ArrayLike) -> Vector:
    """Give the unary terms u_i = w_node . f_i, (n,)."""
    layout = layout_of(problem)
    weights = checked_weights(w, layout.size)[layout.node]
    return _product(problem.node_features, weights)


def weights_of(problem: Problem, w: ArrayLike) -> Vector:
    """Give the edge weights w_edge . g_e, (m,), each the cost of two ends that differ."""
    layout = layout_of(problem)
    weights = checked_weights(w, layout.size)[layout.edge]
    if weights.size and weights.min() < 0:
        raise InputError(
            f"w: edge weight {weights.min():g} found; values >= 0 wanted, so that the cut is "
            "exact. Train with the default constraints."
        )
    return _product(problem.edge_features, weights)


def energy_of(problem: Problem, w: ArrayLike) -> Energy:
    """Give the energy E(y; w) of a problem, on its grid when it has one.

    Fixed nodes are no part of an energy: pass `problem.fixed` to `minimize`, in the energy's shape.

    Examples
    --------
    >>> p = Problem([[1.0], [-3.0]], edges=[[0, 1]])
    >>> energy_of(p, [1.0, 2.0]).minimize().labels.tolist()
    [1, 1]
    """
    unary, weights = unary_of(problem, w), weights_of(problem, w)
    if problem.shape is None:
        return Energy(unary, problem.edges, weights)
    if problem.n_edges == 0:
        return Energy.grid(unary.reshape(problem.shape), 0.0, int(problem.connectivity or 0))
    parts, begin = [], 0
    for step in grid_offsets(len(problem.shape), int(problem.connectivity or 0)):
        box = [max(size - abs(s), 0) for size, s in zip(problem.shape, step)]
        count = int(np.prod(box))
        parts.append(weights[begin : begin + count].reshape(box))
        begin += count
    return Energy.grid(unary.reshape(problem.shape), parts, int(problem.connectivity or 0))


def psi(problem: Problem, labels: ArrayLike) -> Vector:
    """Give the joint features of a labelling, (F + G,), with E(y; w) = w . psi(y).

    Parameters
    ----------
    labels : (n,) array of 0 and 1, or in the grid's shape
    """
    y = np.asarray(labels).reshape(-1)
    if y.size != problem.n_nodes:
        raise InputError(
            f"labels: {y.size} found for {problem.n_nodes} nodes; one a node wanted. "
            "Use the labelling of this problem."
        )
    y = y.astype(bool)
    nodes = problem.node_features[y].sum(axis=0, dtype=np.float64)
    features = problem.edge_features
    assert features is not None
    ends = problem.edge_ends()
    edges = features[y[ends[:, 0]] != y[ends[:, 1]]].sum(axis=0, dtype=np.float64)
    return np.concatenate([nodes, edges])


def constraints_of(problem: Problem) -> tuple[NDArray[np.float64], Vector]:
    """Give the rows (G, h) with G w >= h that keep the energy submodular: w_edge >= 0."""
    layout = layout_of(problem)
    rows = np.eye(layout.size)[layout.edge]
    return rows, np.zeros(len(rows))


def _product(features: NDArray[Any] | None, weights: Vector) -> Vector:
    assert features is not None
    # Column by column, so that the sum's order does not depend on a BLAS or its threads.
    out = np.zeros(features.shape[0])
    for column, weight in enumerate(weights):
        out += features[:, column] * weight
    return out
