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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, cycle
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.checks import edge_array, finite, listed, ordered_labels, shape_of
from cutlearn.energy.energy import Energy
from cutlearn.energy.envelope import Envelope
from cutlearn.energy.ordered import cost_tables, label_costs
from cutlearn.errors import InputError

Floats = NDArray[np.float64]
Labels = NDArray[np.intp]
Envelopes = Sequence[tuple[int, Envelope]]
# A labelling in, the two labellings out between which the move chooses.
Move = Callable[[Labels], tuple[Labels, Labels]]

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
    return field.descend([partial(_swap, a=a, b=b) for a, b in pairs], start, fixed)


def _expansion(y: Labels, label: int) -> tuple[Labels, Labels]:
    return y, np.full_like(y, label)


def _swap(y: Labels, a: int, b: int) -> tuple[Labels, Labels]:
    either = (y == a) | (y == b)
    return np.where(either, a, y), np.where(either, b, y)


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
        self.shape = u.shape[:-1]
        self.n_labels = L = int(u.shape[-1])
        self.unary = u.reshape(-1, L)
        self.edges = edge_array(edges, len(self.unary))
        self.tables, self.each = cost_tables("tables", tables, (len(self.edges),), L)
        finite("tables", self.tables)
        pairs = listed("envelopes", envelopes)
        self.envelopes = [_checked(c, pair, L, len(self.unary)) for c, pair in enumerate(pairs)]

    def value(self, y: Labels) -> float:
        """E of a labelling, evaluated term by term."""
        total = float(self.unary[np.arange(y.size), y].sum())
        total += float(self._costs(y[self.edges[:, 0]], y[self.edges[:, 1]]).sum())
        for label, e in self.envelopes:
            total += e.value(float(e.weights @ (y[e.members] == label)))
        return total

    def minimize(self, fixed: ArrayLike | None = None, start: ArrayLike | None = None) -> Moved:
        """Lower the energy by expansion moves until none helps."""
        self.check_expansion()
        moves = [partial(_expansion, label=a) for a in range(self.n_labels)]
        return self.descend(moves, start, fixed)

    def descend(
        self, moves: Sequence[Move], start: ArrayLike | None, fixed: ArrayLike | None
    ) -> Moved:
        """Make the moves in turn until each has been tried in vain since the last that helped."""
        y, free = self._begin(start, fixed)
        value = self.value(y)
        helped = cuts = vain = 0
        for move in cycle(moves):
            if vain == len(moves):
                break
            y0, y1 = (np.where(free, choice, y) for choice in move(y))
            found = self.best_choice(y0, y1)
            lower = self.value(found)
            cuts += 1
            vain += 1
            if lower < value:
                # Made again at once, the same move finds nothing better.
                y, value, helped, vain = found, lower, helped + 1, 1
        return Moved(y.astype(np.uint8).reshape(self.shape), value, helped, cuts)

    def best_choice(self, y0: Labels, y1: Labels) -> Labels:
        """The best labelling that has y0_i or y1_i at every node, by one cut."""
        free = y0 != y1
        nodes = np.flatnonzero(free)
        if not nodes.size:
            return y0
        tail, head = self.edges.T
        t00, t01 = self._costs(y0[tail], y0[head]), self._costs(y0[tail], y1[head])
        t10, t11 = self._costs(y1[tail], y0[head]), self._costs(y1[tail], y1[head])
        # t = t00 + (t10 - t00) z_i + (t01 - t00) z_j - c z_i z_j, and
        # -c z_i z_j = c/2 [z_i != z_j] - c/2 (z_i + z_j).
        half = np.maximum(0.5 * ((t01 + t10) - (t00 + t11)), 0.0)
        every = np.arange(y0.size)
        unary = self.unary[every, y1] - self.unary[every, y0]
        unary += np.bincount(tail, t10 - t00 - half, y0.size)
        unary += np.bincount(head, t01 - t00 - half, y0.size)
        number = np.cumsum(free) - 1
        joined = half > 0
        energy = Energy(
            unary[nodes], number[self.edges[joined]], half[joined],
            self._envelopes(y0, y1, number),
        )  # fmt: skip
        chosen = y0.copy()
        chosen[nodes] = np.where(energy.minimize().labels == 1, y1[nodes], y0[nodes])
        return chosen

    def _envelopes(self, y0: Labels, y1: Labels, number: NDArray[np.int64]) -> list[Envelope]:
        """The envelopes as functions of z: s = s0 + sign * sum of m_i z_i over what changes."""
        out = []
        for label, e in self.envelopes:
            before, after = y0[e.members] == label, y1[e.members] == label
            changing = before != after
            s0 = float(e.weights @ before)
            sign = -1.0 if (before & changing).any() else 1.0
            members = number[e.members[changing]]
            lines = sign * e.slopes, e.slopes * s0 + e.intercepts
            out.append(Envelope(members, *lines, e.weights[changing]))
        return out

    def check_expansion(self) -> None:
        """Refuse tables with V(a,c) + V(c,b) < V(a,b) + V(c,c)."""
        V = self.tables
        for c in range(self.n_labels):
            room = (V[:, :, c, None] + V[:, None, c, :]) - (V + V[:, c, c, None, None])
            self._refuse(room, f"V(a,{c}) + V({c},b) - V(a,b) - V({c},{c})", "expansion", "swap")

    def check_swap(self) -> None:
        """Refuse tables with V(a,b) + V(b,a) < V(a,a) + V(b,b)."""
        V = self.tables
        same = np.diagonal(V, axis1=1, axis2=2)
        room = (V + V.transpose(0, 2, 1)) - (same[:, :, None] + same[:, None, :])
        self._refuse(room, "V(a,b) + V(b,a) - V(a,a) - V(b,b)", "swap", "other tables")

    def _refuse(self, room: Floats, formula: str, move: str, instead: str) -> None:
        size = np.abs(self.tables).sum(axis=(1, 2))
        if not room.size or (room >= -ROUNDING * size[:, None, None]).all():
            return
        e, a, b = np.unravel_index(int(room.argmin()), room.shape)
        where = f" of edge {e} (nodes {self.edges[e, 0]} and {self.edges[e, 1]})"
        raise InputError(
            f"table{where if self.each else ''} has {formula} = {room[e, a, b]:g} for a = {a}, "
            f"b = {b}, but a cut makes the {move} move only if this is >= 0 for all labels. "
            f"Use {instead}."
        )

    def _costs(self, a: Labels, b: Labels) -> Floats:
        costs: Floats = self.tables[np.arange(a.size) if self.each else 0, a, b]
        return costs

    def _begin(
        self, start: ArrayLike | None, fixed: ArrayLike | None
    ) -> tuple[Labels, NDArray[np.bool_]]:
        highest = self.n_labels - 1
        y = self.unary.argmin(axis=1)
        if start is not None:
            given = ordered_labels("start", start, 0, highest)
            shape_of("start", given, self.shape, "the shape of the nodes")
            y = given.astype(np.intp).ravel()
        if fixed is None:
            return y, np.ones(y.size, np.bool_)
        held = ordered_labels("fixed", fixed, -1, highest)
        shape_of("fixed", held, self.shape, "the shape of the nodes")
        flat = held.astype(np.intp).ravel()
        return np.where(flat < 0, y, flat), flat < 0


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
