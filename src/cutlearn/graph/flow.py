"""Maximum flow for anybody: arrays of arcs in, the flow and the cut out.

No energies here, only a network with a source and a sink, as in scipy.sparse.csgraph or a
textbook; capacities may be real numbers.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.checks import (
    MOST_EDGES,
    MOST_NODES,
    few_enough,
    float_array,
    index_array,
    whole_number,
)
from cutlearn.errors import InputError
from cutlearn.graph.rounding import EPSILON, ROUNDINGS, adds_exactly, size_of
from cutlearn.graph.solver import PAIR, Terms, read_cut


@dataclass(frozen=True, eq=False)
class MaxFlow:
    """A maximum flow and its minimum cut.

    Attributes
    ----------
    value : float
        The value of the flow, which is the capacity of the cut.
    flow : (m,) float64 array
        Flow along each arc, negative where it runs against it.
    source_side : (n,) bool array
        The nodes that the source still reaches: the smallest minimum cut.
    lower_bound : float
        Equal to `value` where the capacities were represented exactly.
    """

    value: float
    flow: NDArray[np.float64]
    source_side: NDArray[np.bool_]
    lower_bound: float


def max_flow(
    arcs: ArrayLike, capacities: ArrayLike, source: int, sink: int, nodes: int | None = None
) -> MaxFlow:
    """A maximum flow from `source` to `sink`.

    Parameters
    ----------
    arcs : (m, 2) int array
        Tail and head of each arc; parallel arcs and loops are fine.
    capacities : (m,) or (m, 2) array, >= 0
        Capacity along each arc; a second column is that against it.
    source, sink : int
    nodes : int, optional
        Number of nodes, by default just enough for the arcs.

    Examples
    --------
    >>> import cutlearn as cl
    >>> r = cl.max_flow([[0, 1], [0, 2], [1, 2], [1, 3], [2, 3]], [3, 2, 5, 2, 3], 0, 3)
    >>> r.value, r.flow.tolist(), r.source_side.tolist()
    (5.0, [3.0, 2.0, 1.0, 2.0, 3.0], [True, False, False, False])
    """
    few_enough("arcs", arcs, MOST_EDGES, "arcs")
    ends = index_array("arcs", arcs, MOST_NODES)
    if ends.size == 0:
        ends = ends.reshape(0, 2)
    if ends.ndim != 2 or ends.shape[1] != 2:
        raise InputError(
            f"arcs has shape {ends.shape}, but must have shape (m, 2): a tail and a head for each "
            "arc."
        )
    source = whole_number("source", source, 0, MOST_NODES - 1)
    sink = whole_number("sink", sink, 0, MOST_NODES - 1)
    n = max(int(ends.max(initial=-1)), source, sink) + 1
    if nodes is not None:
        n = whole_number("nodes", nodes, 2, MOST_NODES)
    index_array("arcs", ends, n)
    index_array("source and sink", [source, sink], n)
    if source == sink:
        raise InputError(f"source and sink are both node {sink}, but must be two different nodes.")
    return _solve(ends, _both_ways(capacities, len(ends)), source, sink, n)


def _both_ways(capacities: ArrayLike, m: int) -> NDArray[np.float64]:
    caps = float_array("capacities", capacities)
    if caps.shape == (m,):
        caps = np.stack([caps, np.zeros(m)], axis=1)
    if caps.shape != (m, 2):
        raise InputError(
            f"capacities has shape {caps.shape}, but must have shape ({m},) or ({m}, 2): one or "
            "two numbers for each arc."
        )
    if not (caps >= 0).all() or np.isinf(caps).any():
        k = int(np.flatnonzero(~((caps >= 0) & np.isfinite(caps)).all(axis=1))[0])
        raise InputError(f"capacities[{k}] is {caps[k]}, but must be finite and >= 0.")
    return caps


def _solve(
    ends: NDArray[np.int64], caps: NDArray[np.float64], source: int, sink: int, n: int
) -> MaxFlow:
    # Arcs at the terminals become unaries: s -> v costs its capacity at label 0, v -> t at 1.
    # What enters s or leaves t takes no part in a cut with s on and t off.
    inner = ~np.isin(ends, (source, sink)).any(axis=1) & (ends[:, 0] != ends[:, 1])
    half = np.concatenate([ends, ends[:, ::-1]])
    capacity = caps.T.ravel()
    leaves = (half[:, 0] == source) & (half[:, 1] != source)
    enters = (half[:, 1] == sink) & (half[:, 0] != sink)
    direct, leaves, enters = leaves & enters, leaves & ~enters, enters & ~leaves
    from_source = np.bincount(half[leaves, 1], capacity[leaves], n)
    to_sink = np.bincount(half[enters, 0], capacity[enters], n)
    slack = 0.0
    if not adds_exactly(caps):
        # As many roundings in the sum at a node as it has arcs at a terminal.
        most = int(np.bincount(half[leaves | enters].ravel(), minlength=1).max(initial=0))
        slack = (2 + ROUNDINGS + most) * (EPSILON * size_of(caps))
    terms = Terms(
        unary=np.asarray(to_sink - from_source, dtype=np.float64),
        shape=(n,),
        edges=np.ascontiguousarray(ends[inner], dtype=np.int32).ravel(),
        weights=(np.ascontiguousarray(caps[inner][:, ::-1]).ravel(),),  # p is that against it
        kinds=(PAIR,),
        constant=float(from_source.sum() + capacity[direct].sum()),
        slack=slack,
    )
    network = terms.flow(np.empty(0, np.int8))
    network.solve(threads=1)
    cut = read_cut(network, terms)
    excess, difference = network.residuals()
    along = np.where(direct, capacity, 0.0)
    sent = from_source - np.maximum(excess, 0) / network.scale
    got = to_sink - np.maximum(-excess, 0) / network.scale
    along[leaves] = _fill(half[leaves, 1], capacity[leaves], sent)
    along[enters] = _fill(half[enters, 0], capacity[enters], got)
    flow = along[: len(ends)] - along[len(ends) :]
    there, back = np.rint(caps[inner] * network.scale).astype(np.int64).T
    flow[inner] = (there - back - difference) / 2 / network.scale
    side = cut.labels.astype(bool)
    side[source], side[sink] = True, False
    return MaxFlow(cut.value, flow, side, cut.lower_bound)


def _fill(
    node: NDArray[np.int64], capacity: NDArray[np.float64], total: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Share each node's total among its arcs, filling them in order."""
    order = np.argsort(node, kind="stable")
    before = np.cumsum(capacity[order]) - capacity[order]
    starts = np.searchsorted(node[order], node[order])
    flow = np.empty(len(node))
    room = total[node[order]] - (before - before[starts])
    flow[order] = np.clip(room, 0.0, capacity[order])
    return flow
