"""How neighbours of several labels are joined: whom an edge joins, and what labels cost there.

    EdgeList, GridEdges      the ends of all edges, sums of edges at nodes, and the energy of a move
    Tables, LinearTables     V_e(a, b): one table for all edges or one each; or sum_g g_e T_g(a, b)

Grids keep no list of ends, and linear tables none of the m L^2 numbers that they stand for. Edges
come in parts, the directions of a grid, which are small enough to stay in a cache.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cutlearn import _core
from cutlearn.arrays import Floats
from cutlearn.energy.energy import Energy
from cutlearn.energy.envelope import Envelope
from cutlearn.grid import grid_edge_counts, grid_edges, grid_slices

Labels = NDArray[np.intp]


class Part(NamedTuple):
    """Edges that lie together: their places among all edges, and how to find their ends."""

    at: slice
    tail: Any
    head: Any


class Binary(NamedTuple):
    """Edges whose ends choose by z: cost + tail z_i + head z_j + half [z_i != z_j], half >= 0."""

    half: Floats
    tail: Floats
    head: Floats


class Joins(Protocol):
    """The edges of a graph, in the order of their costs."""

    parts: list[Part]
    shape: tuple[int, ...]

    def energy(self, unary: Floats, weights: list[Floats], envelopes: Sequence[Envelope]) -> Energy:
        """Give the energy u . z + sum_e weight_e [z_i != z_j] + envelopes of a choice z."""

    def add(self, total: Floats, part: Part, edges: Binary) -> None:
        """Add to total, an array over the nodes, what edges of a part cost their ends."""

    def name(self, edge: int) -> str:
        """Give the nodes that an edge joins, for messages."""


class EdgeList:
    """Edges that are listed.

    Parameters
    ----------
    edges : (m, 2) int array
    n : int
        The number of nodes.
    """

    def __init__(self, edges: NDArray[np.int64], n: int) -> None:
        self.edges = edges
        self.shape: tuple[int, ...] = (n,)
        self.parts = [Part(slice(0, len(edges)), edges[:, 0], edges[:, 1])]

    def energy(self, unary: Floats, weights: list[Floats], envelopes: Sequence[Envelope]) -> Energy:
        """Give the energy of a choice."""
        joined = weights[0] > 0
        return Energy(unary, self.edges[joined], weights[0][joined], envelopes)

    def add(self, total: Floats, part: Part, edges: Binary) -> None:
        """Add what the edges cost their ends."""
        total += np.bincount(part.tail, edges.tail, total.size)
        total += np.bincount(part.head, edges.head, total.size)

    def name(self, edge: int) -> str:
        """Give the nodes that an edge joins."""
        return f"nodes {self.edges[edge, 0]} and {self.edges[edge, 1]}"


class GridEdges:
    """All edges of a grid, direction by direction, as `grid_edges` would list them.

    Parameters
    ----------
    shape : tuple of int
    connectivity : int
    """

    def __init__(self, shape: tuple[int, ...], connectivity: int) -> None:
        self.shape, self.connectivity = shape, connectivity
        ends = [0, *np.cumsum(grid_edge_counts(shape, connectivity)).tolist()]
        places = (slice(i, j) for i, j in pairwise(ends))
        self.parts = [Part(at, *two) for at, two in zip(places, grid_slices(shape, connectivity))]

    def energy(self, unary: Floats, weights: list[Floats], envelopes: Sequence[Envelope]) -> Energy:
        """Give the energy of a choice."""
        boxes = [w.reshape(_box(part)) for w, part in zip(weights, self.parts)]
        return Energy.grid(unary, boxes, self.connectivity, envelopes)

    def add(self, total: Floats, part: Part, edges: Binary) -> None:
        """Add what the edges cost their ends."""
        total[part.tail] += edges.tail.reshape(_box(part))
        total[part.head] += edges.head.reshape(_box(part))

    def name(self, edge: int) -> str:
        """Give the nodes that an edge joins."""
        tail, head = np.concatenate(grid_edges(self.shape, self.connectivity))[edge]
        return f"nodes {tail} and {head}"


def _box(part: Part) -> tuple[int, ...]:
    return tuple(along.stop - along.start for along in part.tail)


class Tables:
    """One table of costs for all edges, or one for each.

    Parameters
    ----------
    tables : (1, L, L) or (m, L, L) array
    each : bool
        Whether every edge has its own.
    """

    def __init__(self, tables: Floats, each: bool) -> None:
        self.tables, self.each, self.n_labels = tables, each, tables.shape[-1]

    def between(self, at: slice, a: Labels, b: Labels) -> Floats:
        """Give V_e(a_e, b_e) of some edges."""
        costs: Floats = self.tables[np.arange(at.start, at.stop) if self.each else 0, a, b]
        return costs

    def choice(self, at: slice, a: Labels, b: Labels, lower: Labels, upper: Labels) -> Binary:
        """Give what edges cost whose ends choose between two labels that a and b lead to."""
        a0, a1, b0, b1 = lower[a], upper[a], lower[b], upper[b]
        return _binary(*(self.between(at, i, j) for i in (a0, a1) for j in (b0, b1)))

    def within(self) -> Floats:
        """Give tables (k, L, L) of whose sums with weights >= 0 every edge's is one."""
        return self.tables

    def dense(self) -> Floats:
        """Give the table of every edge, (m, L, L), or the one of all."""
        return self.tables


class LinearTables:
    """Tables that are linear in edge features, V_e = sum_g g_e T_g.

    Parameters
    ----------
    features : (m, G) array, >= 0
    weights : (G, L, L) array
    """

    ndim = 3  # of what it stands for
    each = True
    __array_ufunc__ = None  # an array to which it is added asks it, and not its own elements

    def __init__(self, features: NDArray[Any], weights: Floats) -> None:
        self.features, self.weights, self.n_labels = features, weights, weights.shape[-1]
        self.shape = (len(features), *weights.shape[1:])

    def between(self, at: slice, a: Labels, b: Labels) -> Floats:
        """Give V_e(a_e, b_e) of some edges."""
        costs: Floats = _looked_up(self.features[at], [self.weights], a * self.n_labels + b)[0]
        return costs

    def choice(self, at: slice, a: Labels, b: Labels, lower: Labels, upper: Labels) -> Binary:
        """Give what edges cost whose ends choose between two labels that a and b lead to.

        The terms of an edge are linear in its features too: they are looked up, not computed.
        """
        ends = lower, upper
        tables = _binary(*(self.weights[:, i[:, None], j] for i in ends for j in ends))
        pairs, features = a * lower.size + b, self.features[at]
        return Binary(*_looked_up(features, tables, pairs))

    def within(self) -> Floats:
        """Give tables (k, L, L) of whose sums with weights >= 0 every edge's is one."""
        return self.weights

    def dense(self) -> Floats:
        """Give the table of every edge, (m, L, L)."""
        return np.tensordot(self.features.astype(np.float64), self.weights, axes=1)

    def __add__(self, other: Any) -> Floats:
        """Give the sum with tables from elsewhere, edge by edge."""
        more = other.dense() if isinstance(other, LinearTables) else other
        return np.asarray(self.dense() + more)

    __radd__ = __add__


def _binary(t00: Floats, t01: Floats, t10: Floats, t11: Floats) -> Binary:
    """The terms of tables in z_i, z_j.

    t = t00 + (t10 - t00) z_i + (t01 - t00) z_j - c z_i z_j, and
    -c z_i z_j = c/2 [z_i != z_j] - c/2 (z_i + z_j).
    """
    half = 0.5 * ((t01 + t10) - (t00 + t11))
    return Binary(half, t10 - t00 - half, t01 - t00 - half)


def _looked_up(features: NDArray[Any], tables: Sequence[Floats], pairs: Labels) -> Floats:
    """sum_g g_e tables_g[pair_e] of one table or three, (G, L, L) each, and every edge."""
    numbers = np.stack(tables, axis=-1).transpose(1, 2, 0, 3)  # label, label, g, table
    by_pair = np.ascontiguousarray(numbers).reshape(-1, *numbers.shape[2:])
    return _core.looked_up(features, by_pair, pairs.astype(np.int64, copy=False))
