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
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, cycle
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.arrays import Bits, Floats
from cutlearn.checks import edge_array, finite, listed, ordered_labels, shape_of
from cutlearn.energy.energy import Energy
from cutlearn.energy.envelope import Envelope
from cutlearn.energy.joins import EdgeList, GridEdges, Joins, LinearTables, Part, Tables
from cutlearn.energy.ordered import cost_tables, label_costs
from cutlearn.energy.problem import Problem
from cutlearn.errors import InputError
from cutlearn.run.executor import executor_of

Labels = NDArray[np.intp]
Envelopes = Sequence[tuple[int, Envelope]]
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
    envelopes: Envelopes = (),
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
    envelopes: Envelopes = (),
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
    """Give the move in which every node keeps its label or takes this one."""
    return np.arange(n_labels), np.full(n_labels, label)


def swapping(a: int, b: int, n_labels: int) -> Move:
    """Give the move in which nodes of two labels choose again between them."""
    every = np.arange(n_labels)
    return np.where(every == b, a, every), np.where(every == a, b, every)


class UnorderedEnergy:
    """An energy of unordered labels, checked; see `expand`."""

    def __init__(
        self,
        unary: ArrayLike,
        edges: ArrayLike | None,
        tables: ArrayLike | None,
        envelopes: Envelopes,
    ) -> None:
        u = finite("unary", label_costs(unary))
        n, L = int(np.prod(u.shape[:-1])), int(u.shape[-1])
        pairs = edge_array(edges, n)
        costs = Tables(*cost_tables("tables", tables, (len(pairs),), L))
        finite("tables", costs.tables)
        self._set(u, EdgeList(pairs, n), costs, envelopes)

    @classmethod
    def of(
        cls, problem: Problem, unary: Floats, costs: LinearTables | Floats, envelopes: Envelopes
    ) -> Self:
        """Give the energy of a problem with costs (n, L) of labels and tables of its edges."""
        if problem.shape is None or not problem.n_edges:
            given = costs.dense() if isinstance(costs, LinearTables) else costs
            return cls(unary, problem.edge_ends(), given, envelopes)
        self = cls.__new__(cls)
        finite("unary", unary)
        joins = GridEdges(problem.shape, int(problem.connectivity or 0))
        tables = costs if isinstance(costs, LinearTables) else Tables(costs, each=True)
        finite("tables", tables.within())
        self._set(unary, joins, tables, envelopes)
        return self

    def _set(
        self, unary: Floats, joins: Joins, costs: Tables | LinearTables, envelopes: Envelopes
    ) -> None:
        self.shape = unary.shape[:-1]
        self.n_labels = L = int(unary.shape[-1])
        self.unary = unary.reshape(-1, L)
        self.joins, self.costs = joins, costs
        pairs = listed("envelopes", envelopes)
        self.envelopes = [_checked(c, pair, L, len(self.unary)) for c, pair in enumerate(pairs)]

    def value(self, labels: ArrayLike) -> float:
        """E of a labelling, evaluated term by term."""
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
        """Give the best labelling that a move leads to, by one cut; held nodes keep their label."""
        y0, y1, energy = self._choice(y, move, held)
        return np.where(energy.minimize().labels.ravel() == 1, y1, y0)

    def min_marginals(self, fixed: ArrayLike | None = None, threads: int = 1) -> Floats:
        """Give what stands for the least energy with each node at each label, (n, L).

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
        """The labels of both ends of all edges, part by part."""
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
        """Refuse tables with V(a,c) + V(c,b) < V(a,b) + V(c,c)."""

        def room(V: Floats, c: int) -> Floats:
            left: Floats = V[:, :, c, None] + V[:, None, c, :]
            return left - (V + V[:, c, c, None, None])

        for c in range(self.n_labels):
            formula = f"V(a,{c}) + V({c},b) - V(a,b) - V({c},{c})"
            self._refuse(partial(room, c=c), formula, "expansion", "swap")

    def check_swap(self) -> None:
        """Refuse tables with V(a,b) + V(b,a) < V(a,a) + V(b,b)."""

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
        """The first labels, and where they are held; None: nowhere."""
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
    """Whether the room of no table is below 0, but for rounding."""
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
