"""Energies of several ordered labels that one cut minimises exactly.

    E(y) = sum_t u_t(y_t) + sum_e V_e(y_i, y_j),    y in {0, .., L-1}^n

with submodular tables: V(a, b) + V(a+1, b+1) <= V(a, b+1) + V(a+1, b) for all labels a, b below
the last. Each pixel becomes L - 1 binary nodes [y_t >= k] in the core (cpp/energy/engine.hpp). The
score of antoniuk2012 (supermodular, maximised) is the negative of E. `value` evaluates E from what
was given and shares no code with `minimize`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn import _core
from cutlearn.arrays import Floats
from cutlearn.checks import (
    MOST_NODES,
    edge_array,
    finite,
    float_array,
    given_shape,
    listed,
    ordered_labels,
    shape_of,
)
from cutlearn.energy.problem import Problem
from cutlearn.energy.solver import NO_EDGES, Cut, certified
from cutlearn.errors import InputError
from cutlearn.grid import edge_ends, grid_edges, grid_slices


@dataclass(frozen=True, eq=False)
class LabelSums:
    """Sums over the labellings argmin_dk of least energy with node d at label k, less the cut y's.

    Attributes
    ----------
    node : (n, L) float64, sum over d, k of c_dk ([argmin_dk(i) = l] - [y_i = l])
    edge : (m, L, L) float64, likewise for pairs of labels at the ends of edges
    """

    node: NDArray[np.float64]
    edge: NDArray[np.float64]


MOST_LABELS = 255  # 255 itself is void
NONE, UNARY, TABLE, NOT_SUBMODULAR, RANGE = range(5)  # OrderedFault::What of the core


class OrderedEnergy:
    """An energy of ordered labels over a list of edges; `OrderedEnergy.grid` makes one of an image.

    Parameters
    ----------
    unary : (n, L) array
        The cost of every label at every node.
    edges : (m, 2) int array, optional
        Pairs of nodes; parallel edges are fine.
    tables : (L, L) or (m, L, L) array
        Submodular costs, indexed by the labels of both ends: one table for all edges or one each.

    Examples
    --------
    >>> import numpy as np
    >>> import cutlearn as cl
    >>> steps = np.abs(np.subtract.outer(np.arange(3), np.arange(3)))
    >>> e = cl.OrderedEnergy([[0, 2, 4], [3, 1, 2], [5, 2, 0]], [[0, 1], [1, 2]], steps)
    >>> cut = e.minimize()
    >>> cut.labels.tolist(), cut.value, cut.lower_bound
    ([0, 1, 2], 3.0, 3.0)
    """

    def __init__(
        self, unary: ArrayLike, edges: ArrayLike | None = None, tables: ArrayLike | None = None
    ) -> None:
        u = label_costs(unary, (2,))
        pairs = edge_array(edges, len(u))
        table, each = cost_tables("tables", tables, (len(pairs),), u.shape[1])
        self._set(u, 0, (table,), (each,), pairs.astype(np.int32).ravel())

    @classmethod
    def grid(
        cls, unary: ArrayLike, tables: ArrayLike | Sequence[ArrayLike], connectivity: int = 4
    ) -> Self:
        """Return an energy over the pixels of an image or a volume.

        Parameters
        ----------
        unary : (rows, columns, L) or (slices, rows, columns, L) array
        tables : (L, L) array, or one array for each direction of `grid_edges`
            Each is (L, L), or one table for each edge: the image's shape, cropped to the first ends
            of the edges, then (L, L).
        connectivity : 4 or 8 in two dimensions, 6, 10, 18 or 26 in three

        Examples
        --------
        >>> import cutlearn as cl
        >>> steps = [[0, 1, 2], [1, 0, 1], [2, 1, 0]]
        >>> e = cl.OrderedEnergy.grid([[[0, 3, 4], [3, 2, 0]]], steps)
        >>> e.minimize().labels.tolist()
        [[0, 2]]
        """
        u = label_costs(unary, (3, 4))
        L = u.shape[-1]
        slices = grid_slices(u.shape[:-1], connectivity)
        given = listed("tables", tables)
        if all(np.shape(row) == (L,) for row in given):  # the rows of one table
            given = [tables] * len(slices)
        if len(given) != len(slices):
            raise InputError(
                f"tables has {len(given)} arrays, but this grid has {len(slices)} directions of "
                f"edges. Give one array for each direction, or one table of shape {(L, L)}."
            )
        flat, each = [], []
        for k, ((tail, _), table) in enumerate(zip(slices, given)):
            box = tuple(s.stop - s.start for s in tail)
            f, e = cost_tables(f"tables[{k}]", table, box, L)
            flat.append(f)
            each.append(e)
        return cls.unchecked(u, connectivity, tuple(flat), tuple(each))

    @classmethod
    def of(cls, problem: Problem, w: ArrayLike) -> "OrderedEnergy":
        """Return the energy of a problem under weights w learned with `Model(labels="ordered")`.

        E(y; w) = sum_i w_node[y_i] . f_i + sum_e sum_g g_eg T_g[y_i, y_j]
        """
        from cutlearn.energy.model import Model

        energy: OrderedEnergy = Model(labels="ordered").for_weights(problem, w).energy(problem, w)
        return energy

    @classmethod
    def unchecked(
        cls,
        unary: Floats,
        connectivity: int,
        tables: tuple[Floats, ...],
        each: tuple[bool, ...],
        edges: NDArray[np.int32] = NO_EDGES,
    ) -> Self:
        """Return the energy of arrays that were checked.

        Parameters
        ----------
        unary : the labels' shape + (L,)
        connectivity : int
            0 for a list of edges.
        tables : for each direction, or for the list, (k, L, L)
        each : for each of them, whether every edge has its own table
        edges : (2m,) tails and heads of a list
        """
        self = cls.__new__(cls)
        self._set(unary, connectivity, tables, each, edges)
        return self

    def _set(
        self,
        unary: Floats,
        connectivity: int,
        tables: tuple[Floats, ...],
        each: tuple[bool, ...],
        edges: NDArray[np.int32],
    ) -> None:
        self.shape: tuple[int, ...] = unary.shape[:-1]
        self.n_labels: int = unary.shape[-1]
        self._unary, self._connectivity, self._edges = unary, connectivity, edges
        self._tables, self._each = tables, each

    def value(self, labels: ArrayLike) -> float:
        """Return E of a labelling, evaluated term by term."""
        y = self._labels("labels", labels, 0)
        total = float(np.take_along_axis(self._unary, y[..., None].astype(np.intp), -1).sum())
        for (tail, head), table, each in zip(self._ends(y), self._tables, self._each):
            which = np.arange(tail.size) if each else 0
            total += float(table[which, tail, head].sum())
        return total

    def minimize(self, fixed: ArrayLike | None = None) -> Cut:
        """Return the minimum over all labellings, or over those that agree with `fixed`.

        Among all minimisers the one with the lowest labels at every node. `fixed` has the labels'
        shape: -1 leaves a node free, else it is its label.
        """
        flow = self._flow(fixed)
        flow.solve()
        return Cut(flow.labels(list(self.shape)), *certified(flow))

    def min_marginals(self, fixed: ArrayLike | None = None, threads: int = 1) -> Floats:
        """Return Phi[..., l] = the least energy with that node at label l; inf against `fixed`.

        One thread is used, whatever `threads` says.
        """
        return self._flow(fixed).min_marginals([*self.shape, self.n_labels])

    def argmin_sums(self, weights: ArrayLike, fixed: ArrayLike | None = None) -> "LabelSums":
        """Return sums over the labellings that attain the min-marginals; none of them is made.

        Parameters
        ----------
        weights : the labels' shape + (L,)
            c_dk, one for each node and label; those against `fixed` do not count.
        """
        c = finite("weights", float_array("weights", weights))
        shape_of("weights", c, (*self.shape, self.n_labels), "the labels' shape + (L,)")
        ends: NDArray[np.int32] = self._edges
        if self._connectivity:
            joined = grid_edges(self.shape, self._connectivity)
            ends = np.concatenate(joined, dtype=np.int32).ravel()
        node, edge = self._flow(fixed).argmin_sums(np.ascontiguousarray(c).ravel(), ends)
        L = self.n_labels
        return LabelSums(node.reshape(-1, L), edge.reshape(-1, L, L))

    def _flow(self, fixed: ArrayLike | None) -> _core.Ordered:
        given = np.empty(0, np.int16)
        if fixed is not None:
            given = self._labels("fixed", fixed, -1).ravel()
        try:
            flow = _core.ordered(
                self._unary.ravel(), self.n_labels, list(self.shape), self._connectivity,
                self._edges, [table.ravel() for table in self._tables], list(self._each), given,
            )  # fmt: skip
        except MemoryError:
            nodes = self._unary.size
            raise MemoryError(
                f"energy: no memory for a network of {nodes} nodes, about {nodes * 200 / 1e9:.1f} "
                "GB. Close other programs, or solve it in parts."
            ) from None
        except ValueError as error:
            raise InputError(f"energy: {error}. Split it into parts.") from None
        if flow.fault.what != NONE:
            self._refuse(flow.fault)
        return flow

    def _refuse(self, fault: _core.OrderedFault) -> NoReturn:
        if fault.what == UNARY:
            place = tuple(map(int, np.unravel_index(fault.index, self._unary.shape)))
            value = self._unary[place]
            raise InputError(f"unary{list(place)} is {value}, but every number must be finite.")
        if fault.what == RANGE:
            raise InputError(
                "energy is too large: the sum of all numbers exceeds the range of float64. Scale "
                "them down."
            )
        name = self._edge_name(fault.direction, fault.index)
        a, b = fault.a, fault.b
        if fault.what == TABLE:
            raise InputError(
                f"table of {name} is {fault.amount} at labels ({a}, {b}), but every number must be "
                "finite."
            )
        raise InputError(
            f"table of {name} has V({a},{b + 1}) + V({a + 1},{b}) - V({a},{b}) - V({a + 1},{b + 1})"
            f" = {fault.amount:g}, the worst of all, but this must be >= 0 everywhere, else the "
            "energy is not submodular and no cut solves it. Change the table or the order of the "
            "labels, or use expand."
        )

    def _edge_name(self, direction: int, edge: int) -> str:
        if self._connectivity:
            if not self._each[direction]:
                return f"direction {direction}"
            ends = edge_ends(self.shape, self._connectivity, direction, edge)
            return f"edge {edge} of direction {direction} (nodes {ends[0]} and {ends[1]})"
        tail, head = map(int, self._edges[2 * edge : 2 * edge + 2])
        return f"edge {edge} (nodes {tail} and {head})"

    def _labels(self, name: str, labels: ArrayLike, lowest: int) -> NDArray[np.int16]:
        y = ordered_labels(name, labels, lowest, self.n_labels - 1)
        shape_of(name, y, self.shape, "the shape of the nodes")
        return y

    def _ends(self, y: NDArray[np.int16]) -> list[tuple[NDArray[np.int16], NDArray[np.int16]]]:
        if not self._connectivity:
            return [(y[self._edges[::2]], y[self._edges[1::2]])]
        slices = grid_slices(self.shape, self._connectivity)
        return [(y[tail].ravel(), y[head].ravel()) for tail, head in slices]


def label_costs(unary: ArrayLike, dimensions: tuple[int, ...] = (2, 3, 4)) -> Floats:
    """Return the cost of every label at every node, the labels last."""
    count = math.prod(given_shape("unary", unary))
    if count > MOST_NODES:
        raise InputError(
            f"unary has {count} costs, but at most {MOST_NODES} are possible. Split it into parts."
        )
    u = float_array("unary", unary)
    wanted = "shape (n, L)" if dimensions == (2,) else "the image's shape + (L,)"
    if u.ndim not in dimensions or not u.size or not 2 <= u.shape[-1] <= MOST_LABELS:
        raise InputError(
            f"unary has shape {u.shape}, but must have {wanted}, for at least one node and 2 to "
            f"{MOST_LABELS} labels."
        )
    return u


def cost_tables(
    name: str, tables: ArrayLike | None, box: tuple[int, ...], L: int
) -> tuple[Floats, bool]:
    """Tables as (1, L, L), one for all edges, or (m, L, L), and whether there is one each."""
    m = int(np.prod(box))
    if tables is None and m:
        raise InputError(f"{name} must be given: one for each of the {m} edges, or one for all.")
    array = float_array(name, np.zeros((L, L)) if tables is None else tables)
    if array.shape not in ((L, L), (*box, L, L)):
        raise InputError(
            f"{name} has shape {array.shape}, but must have shape {(L, L)} or {(*box, L, L)}, for "
            f"{L} labels."
        )
    if 2 * m * (L - 1) ** 2 > MOST_NODES:
        raise InputError(
            f"{name}: {m} edges with {L} labels are too many for 32-bit indices. Split the energy "
            "into parts, or use fewer labels."
        )
    return array.reshape(-1, L, L), array.ndim > 2
