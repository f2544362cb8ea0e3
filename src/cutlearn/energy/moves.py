"""Unordered labels by moves, each of them an exact cut (expansion and swap; gould2011, section 6).

    E(y) = sum_i u_i(y_i) + sum_e V_e(y_i, y_j) + sum_c psi_c(s_c),
    s_c = sum_{i in c} m_i [y_i = l_c]

with concave psi_c: envelopes on how much of a region has one label. A move chooses between two
labels at every node, y0_i or y1_i (z_i = 0 or 1), and finds the best of all 2^n choices:

    expansion of a label A   y0 = y, y1 = A everywhere;
    swap of A and B          y0 = A, y1 = B where y is one of them, else y0 = y1 = y.

An edge's table in z is submodular if V(a,A) + V(A,b) >= V(a,b) + V(A,A) for all labels (expansion),
or V(A,B) + V(B,A) >= V(A,A) + V(B,B) (swap). In both kinds of moves no region gains its label at
some nodes and loses it at others: s_c is a constant plus or minus a sum of m_i z_i, and a concave
function of that stays an envelope. So every envelope is exact, robust P^n potentials among them.

`EdgeList` and `GridEdges` hold the ends of all edges, `EdgeTables` and `LinearTables` their costs.
Grids keep no list of ends, and linear tables none of the m L^2 numbers that they stand for. Edges
come in parts, the directions of a grid, which are small enough to stay in a cache.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, cycle, pairwise
from typing import (
    Any,
    NamedTuple,
    Self,
)

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn import _core
from cutlearn.arrays import Bits, Floats
from cutlearn.checks import (
    edge_array,
    finite,
    listed,
    ordered_labels,
    shape_of,
)
from cutlearn.energy.energy import Energy
from cutlearn.energy.envelopes import Envelope
from cutlearn.energy.ordered import cost_tables, label_costs
from cutlearn.energy.problem import Problem
from cutlearn.errors import InputError
from cutlearn.grid import grid_edge_counts, grid_edges, grid_slices
from cutlearn.run.executor import executor_of

Labels = NDArray[np.intp]


class Part(NamedTuple):
    """Edges that lie together: their places among all edges, and how to find their ends."""

    at: slice
    tail: Any
    head: Any


class ChoiceCosts(NamedTuple):
    """Edges whose ends choose by z: cost + tail z_i + head z_j + half [z_i != z_j], half >= 0."""

    half: Floats
    tail: Floats
    head: Floats


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
        """Return the energy of a choice."""
        joined = weights[0] > 0
        return Energy(unary, self.edges[joined], weights[0][joined], envelopes)

    def add(self, total: Floats, part: Part, edges: ChoiceCosts) -> None:
        """Add what the edges cost their ends."""
        total += np.bincount(part.tail, edges.tail, total.size)
        total += np.bincount(part.head, edges.head, total.size)

    def name(self, edge: int) -> str:
        """Return the nodes that an edge joins."""
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
        """Return the energy of a choice."""
        boxes = [w.reshape(_box(part)) for w, part in zip(weights, self.parts)]
        return Energy.grid(unary, boxes, self.connectivity, envelopes)

    def add(self, total: Floats, part: Part, edges: ChoiceCosts) -> None:
        """Add what the edges cost their ends."""
        total[part.tail] += edges.tail.reshape(_box(part))
        total[part.head] += edges.head.reshape(_box(part))

    def name(self, edge: int) -> str:
        """Return the nodes that an edge joins."""
        tail, head = np.concatenate(grid_edges(self.shape, self.connectivity))[edge]
        return f"nodes {tail} and {head}"


LabelEdges = EdgeList | GridEdges


def _box(part: Part) -> tuple[int, ...]:
    return tuple(along.stop - along.start for along in part.tail)


class EdgeTables:
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
        """Return V_e(a_e, b_e) of some edges."""
        costs: Floats = self.tables[np.arange(at.start, at.stop) if self.each else 0, a, b]
        return costs

    def choice(self, at: slice, a: Labels, b: Labels, lower: Labels, upper: Labels) -> ChoiceCosts:
        """Return what edges cost whose ends choose between two labels that a and b lead to."""
        a0, a1, b0, b1 = lower[a], upper[a], lower[b], upper[b]
        return _binary(*(self.between(at, i, j) for i in (a0, a1) for j in (b0, b1)))

    def within(self) -> Floats:
        """Return tables (k, L, L) of whose sums with weights >= 0 every edge's is one."""
        return self.tables

    def dense(self) -> Floats:
        """Return the table of every edge, (m, L, L), or the one of all."""
        return self.tables


class LinearTables:
    """EdgeTables that are linear in edge features, V_e = sum_g g_e T_g.

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
        """Return V_e(a_e, b_e) of some edges."""
        costs: Floats = _looked_up(self.features[at], [self.weights], a * self.n_labels + b)[0]
        return costs

    def choice(self, at: slice, a: Labels, b: Labels, lower: Labels, upper: Labels) -> ChoiceCosts:
        """Return what edges cost whose ends choose between two labels that a and b lead to.

        The terms of an edge are linear in its features too: they are looked up, not computed.
        """
        ends = lower, upper
        tables = _binary(*(self.weights[:, i[:, None], j] for i in ends for j in ends))
        pairs, features = a * lower.size + b, self.features[at]
        return ChoiceCosts(*_looked_up(features, tables, pairs))

    def within(self) -> Floats:
        """Return tables (k, L, L) of whose sums with weights >= 0 every edge's is one."""
        return self.weights

    def dense(self) -> Floats:
        """Return the table of every edge, (m, L, L)."""
        return np.tensordot(self.features.astype(np.float64), self.weights, axes=1)

    def __add__(self, other: Any) -> Floats:
        """Return the sum with tables from elsewhere, edge by edge."""
        more = other.dense() if isinstance(other, LinearTables) else other
        return np.asarray(self.dense() + more)

    __radd__ = __add__


def _binary(t00: Floats, t01: Floats, t10: Floats, t11: Floats) -> ChoiceCosts:
    """Return the terms of tables in z_i, z_j.

    t = t00 + (t10 - t00) z_i + (t01 - t00) z_j - c z_i z_j, and
    -c z_i z_j = c/2 [z_i != z_j] - c/2 (z_i + z_j).
    """
    half = 0.5 * ((t01 + t10) - (t00 + t11))
    return ChoiceCosts(half, t10 - t00 - half, t01 - t00 - half)


def _looked_up(features: NDArray[Any], tables: Sequence[Floats], pairs: Labels) -> Floats:
    """sum_g g_e tables_g[pair_e] of one table or three, (G, L, L) each, and every edge."""
    numbers = np.stack(tables, axis=-1).transpose(1, 2, 0, 3)  # label, label, g, table
    by_pair = np.ascontiguousarray(numbers).reshape(-1, *numbers.shape[2:])
    return _core.looked_up(features, by_pair, pairs.astype(np.int64, copy=False))


LabelEnvelopes = Sequence[tuple[int, Envelope]]
# The two labels between which a node chooses, by its label now.
Move = tuple[Labels, Labels]

ROUNDING = 1e-9  # of the table's size: below it a violation counts as none


@dataclass(frozen=True, eq=False)
class Moved:
    """A local optimum: no single move lowers it. There is no certificate that nothing else does.

    Attributes
    ----------
    labels : uint8 array in the shape of the nodes
    value : float
        The energy of the labels.
    moves : int
        Moves that lowered the energy.
    cuts : int
        Moves that were tried, one exact cut each.
    """

    labels: NDArray[np.uint8]
    value: float
    moves: int
    cuts: int

    @property
    def lower_bound(self) -> float:
        """Minus infinity: nothing is proved."""
        return -math.inf


def expand(
    unary: ArrayLike,
    edges: ArrayLike | None = None,
    tables: ArrayLike | None = None,
    envelopes: LabelEnvelopes = (),
    *,
    start: ArrayLike | None = None,
    fixed: ArrayLike | None = None,
) -> Moved:
    """Lower an energy of unordered labels by expansion moves until none helps.

    Parameters
    ----------
    unary : (n, L) array, or the image's shape + (L,)
        The cost of every label at every node.
    edges : (m, 2) int array, optional
        Pairs of (flat) node indices.
    tables : (L, L) or (m, L, L) array
        Costs of the labels of both ends; V(a,c) + V(c,b) >= V(a,b) + V(c,c) for all labels, as
        every metric has it.
    envelopes : sequence of (label, Envelope)
        Concave costs of how much of a region has that label.
    start : labels to begin with; by default the cheapest of each node
    fixed : labels that nodes must have; -1 leaves a node free

    Examples
    --------
    >>> import cutlearn as cl
    >>> potts = [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
    >>> cl.expand([[0, 3, 3], [2, 2, 1.5], [3, 3, 0]], [[0, 1], [1, 2]], potts).labels.tolist()
    [0, 2, 2]
    """
    return UnorderedEnergy(unary, edges, tables, envelopes).minimize(fixed, start)


def swap(
    unary: ArrayLike,
    edges: ArrayLike | None = None,
    tables: ArrayLike | None = None,
    envelopes: LabelEnvelopes = (),
    *,
    start: ArrayLike | None = None,
    fixed: ArrayLike | None = None,
) -> Moved:
    """Lower an energy of unordered labels by swap moves until none helps; see `expand`.

    The tables need V(a,b) + V(b,a) >= V(a,a) + V(b,b) only.
    """
    field = UnorderedEnergy(unary, edges, tables, envelopes)
    field.check_swap()
    pairs = combinations(range(field.n_labels), 2)
    return field.descend([swapping(*pair, field.n_labels) for pair in pairs], start, fixed)


def expansion(label: int, n_labels: int) -> Move:
    """Return the move in which every node keeps its label or takes this one."""
    return np.arange(n_labels), np.full(n_labels, label)


def swapping(a: int, b: int, n_labels: int) -> Move:
    """Return the move in which nodes of two labels choose again between them."""
    every = np.arange(n_labels)
    return np.where(every == b, a, every), np.where(every == a, b, every)


class UnorderedEnergy:
    """An energy of unordered labels, checked; see `expand`."""

    def __init__(
        self,
        unary: ArrayLike,
        edges: ArrayLike | None,
        tables: ArrayLike | None,
        envelopes: LabelEnvelopes,
    ) -> None:
        u = finite("unary", label_costs(unary))
        n, L = int(np.prod(u.shape[:-1])), int(u.shape[-1])
        pairs = edge_array(edges, n)
        costs = EdgeTables(*cost_tables("tables", tables, (len(pairs),), L))
        finite("tables", costs.tables)
        self._set(u, EdgeList(pairs, n), costs, envelopes)

    @classmethod
    def of(
        cls,
        problem: Problem,
        unary: Floats,
        costs: LinearTables | Floats,
        envelopes: LabelEnvelopes,
    ) -> Self:
        """Return the energy of a problem with costs (n, L) of labels and tables of its edges."""
        if problem.shape is None or not problem.n_edges:
            given = costs.dense() if isinstance(costs, LinearTables) else costs
            return cls(unary, problem.edge_ends(), given, envelopes)
        self = cls.__new__(cls)
        finite("unary", unary)
        joins = GridEdges(problem.shape, int(problem.connectivity or 0))
        tables = costs if isinstance(costs, LinearTables) else EdgeTables(costs, each=True)
        finite("tables", tables.within())
        self._set(unary, joins, tables, envelopes)
        return self

    def _set(
        self,
        unary: Floats,
        joins: LabelEdges,
        costs: EdgeTables | LinearTables,
        envelopes: LabelEnvelopes,
    ) -> None:
        self.shape = unary.shape[:-1]
        self.n_labels = L = int(unary.shape[-1])
        self.unary = unary.reshape(-1, L)
        self.joins, self.costs = joins, costs
        pairs = listed("envelopes", envelopes)
        self.envelopes = [_checked(c, pair, L, len(self.unary)) for c, pair in enumerate(pairs)]

    def value(self, labels: ArrayLike) -> float:
        """Return E of a labelling, evaluated term by term."""
        y = np.asarray(labels, np.intp).reshape(-1)
        total = float(self.unary[np.arange(y.size), y].sum())
        for part, a, b in self._ends(y):
            total += float(self.costs.between(part.at, a, b).sum())
        for label, e in self.envelopes:
            total += e.value(float(e.weights @ (y[e.members] == label)))
        return total

    def minimize(self, fixed: ArrayLike | None = None, start: ArrayLike | None = None) -> Moved:
        """Lower the energy by expansion moves until none helps."""
        self.check_expansion()
        moves = [expansion(a, self.n_labels) for a in range(self.n_labels)]
        return self.descend(moves, start, fixed)

    def descend(
        self, moves: Sequence[Move], start: ArrayLike | None, fixed: ArrayLike | None
    ) -> Moved:
        """Make the moves in turn until each has been tried in vain since the last that helped."""
        y, held = self._begin(start, fixed)
        value = self.value(y)
        helped = cuts = vain = 0
        for move in cycle(moves):
            if vain == len(moves):
                break
            found = self.best_choice(y, move, held)
            cuts += 1
            vain += 1
            if np.array_equal(found, y):
                continue
            lower = self.value(found)
            if lower < value:
                # Made again at once, the same move finds nothing better.
                y, value, helped, vain = found, lower, helped + 1, 1
        return Moved(y.astype(np.uint8).reshape(self.shape), value, helped, cuts)

    def best_choice(self, y: Labels, move: Move, held: Bits | None = None) -> Labels:
        """Return the best labelling after a move, by one cut; held nodes keep their label."""
        y0, y1, energy = self._choice(y, move, held)
        return np.where(energy.minimize().labels.ravel() == 1, y1, y0)

    def min_marginals(self, fixed: ArrayLike | None = None, threads: int = 1) -> Floats:
        """Return what stands for the least energy with each node at each label, (n, L).

        At the end y of `minimize`, for a label k: the least energy with node i at k among all
        expansions of k, exact over that move. It is E(y) for k = y_i and never below, is an upper
        bound of the true min-marginal, and equals it with two labels. Infinite where a node is
        fixed to another label.
        """
        best = self.minimize(fixed)
        y, held = self._begin(best.labels, fixed)
        out = np.full(self.unary.shape, best.value)

        def fill(label: int) -> None:
            *_, energy = self._choice(y, expansion(label, self.n_labels), held)
            both = energy.min_marginals().reshape(-1, 2)
            rise = np.maximum(both[:, 1] - both[:, 0], 0.0)
            out[:, label] += np.where(y == label, 0.0, rise)

        executor_of(threads).map(fill, range(self.n_labels))
        if held is not None:
            out[held] = np.inf
            out[held, y[held]] = best.value
        return out

    def _choice(self, y: Labels, move: Move, held: Bits | None) -> tuple[Labels, Labels, Energy]:
        """The two labels of every node, and the energy of choices z between them, less a constant.

        A node that has no choice costs nothing and has no edge in z, so that none need leave the
        graph. Labels of held nodes are raised by L, where both sides of the move keep them.
        """
        lower, upper = move
        if held is not None:
            every = np.arange(self.n_labels)
            lower, upper = np.concatenate([lower, every]), np.concatenate([upper, every])
            y = np.where(held, y + self.n_labels, y)
        y0, y1 = lower[y], upper[y]
        every = np.arange(y.size)
        unary = (self.unary[every, y1] - self.unary[every, y0]).reshape(self.joins.shape)
        weights = []
        for part, a, b in self._ends(y):
            terms = self.costs.choice(part.at, a, b, lower, upper)
            # What rounding left below 0.
            weights.append(np.maximum(terms.half, 0.0))
            self.joins.add(unary, part, terms)
        return y0, y1, self.joins.energy(unary, weights, self._envelopes(y0, y1))

    def _ends(self, y: Labels) -> Iterator[tuple[Part, Labels, Labels]]:
        """Return the labels of both ends of all edges, part by part."""
        nodes = y.reshape(self.joins.shape)
        for part in self.joins.parts:
            yield part, nodes[part.tail].ravel(), nodes[part.head].ravel()

    def _envelopes(self, y0: Labels, y1: Labels) -> list[Envelope]:
        """The envelopes as functions of z: s = s0 + sign * sum of m_i z_i over what changes."""
        out = []
        for label, e in self.envelopes:
            before, after = y0[e.members] == label, y1[e.members] == label
            changing = before != after
            s0 = float(e.weights @ before)
            sign = -1.0 if (before & changing).any() else 1.0
            lines = sign * e.slopes, e.slopes * s0 + e.intercepts
            out.append(Envelope(e.members[changing], *lines, e.weights[changing]))
        return out

    def check_expansion(self) -> None:
        """Raise InputError for tables with V(a,c) + V(c,b) < V(a,b) + V(c,c)."""

        def room(V: Floats, c: int) -> Floats:
            left: Floats = V[:, :, c, None] + V[:, None, c, :]
            return left - (V + V[:, c, c, None, None])

        for c in range(self.n_labels):
            formula = f"V(a,{c}) + V({c},b) - V(a,b) - V({c},{c})"
            self._refuse(partial(room, c=c), formula, "expansion", "swap")

    def check_swap(self) -> None:
        """Raise InputError for tables with V(a,b) + V(b,a) < V(a,a) + V(b,b)."""

        def room(V: Floats) -> Floats:
            same = np.diagonal(V, axis1=1, axis2=2)
            return (V + V.transpose(0, 2, 1)) - (same[:, :, None] + same[:, None, :])

        self._refuse(room, "V(a,b) + V(b,a) - V(a,a) - V(b,b)", "swap", "other tables")

    def _refuse(
        self, room_of: Callable[[Floats], Floats], formula: str, move: str, instead: str
    ) -> None:
        # What holds for tables holds for their sums with weights >= 0.
        if _is_wide(self.costs.within(), room_of):
            return
        tables = self.costs.dense()
        if _is_wide(tables, room_of):
            return
        room = room_of(tables)
        e, a, b = np.unravel_index(int(room.argmin()), room.shape)
        where = f" of edge {e} ({self.joins.name(int(e))})" if self.costs.each else ""
        raise InputError(
            f"table{where} has {formula} = {room[e, a, b]:g} for a = {a}, "
            f"b = {b}, but a cut makes the {move} move only if this is >= 0 for all labels. "
            f"Use {instead}."
        )

    def _begin(
        self, start: ArrayLike | None, fixed: ArrayLike | None
    ) -> tuple[Labels, Bits | None]:
        """Return the first labels, and where they are held; None: nowhere."""
        highest = self.n_labels - 1
        y = self.unary.argmin(axis=1)
        if start is not None:
            given = ordered_labels("start", start, 0, highest)
            shape_of("start", given, self.shape, "the shape of the nodes")
            y = given.astype(np.intp).ravel()
        if fixed is None:
            return y, None
        labels = ordered_labels("fixed", fixed, -1, highest)
        shape_of("fixed", labels, self.shape, "the shape of the nodes")
        flat = labels.astype(np.intp).ravel()
        return np.where(flat < 0, y, flat), flat >= 0


def _is_wide(tables: Floats, room_of: Callable[[Floats], Floats]) -> bool:
    """Return whether the room of no table is below 0, but for rounding."""
    room, size = room_of(tables), np.abs(tables).sum(axis=(1, 2))
    return bool((room >= -ROUNDING * size[:, None, None]).all())


def _checked(c: int, pair: Any, L: int, n: int) -> tuple[int, Envelope]:
    if not (isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[1], Envelope)):
        raise InputError(f"envelopes[{c}] must be a pair (label, Envelope), not {pair!r}.")
    label, envelope = pair
    if isinstance(label, bool) or not isinstance(label, int | np.integer) or not 0 <= label < L:
        raise InputError(f"envelopes[{c}] has label {label!r}, but labels run from 0 to {L - 1}.")
    if envelope.members.size and envelope.members.max() >= n:
        raise InputError(
            f"envelopes[{c}] has member {envelope.members.max()}, but nodes run from 0 to {n - 1}."
        )
    return int(label), envelope
