"""A live handle over the C++ core: build once, change a little, solve again from the last flow.

The terms that come in are E(y) = constant + sum_i u_i y_i + sum_e [p (1-y_i) y_j + q y_i (1-y_j)]
plus hinges over regions; what they mean to anybody is the caller's affair. `Terms` holds arrays
that were checked; the numbers in them are surveyed by the core on the way in.
"""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import (
    Any,
    NoReturn,
    Protocol,
)

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn import _core
from cutlearn.arrays import VOID, Floats
from cutlearn.checks import (
    MOST_EDGES,
    MOST_NODES,
    as_array,
    broadcast,
    check_length,
    finite,
    fixed_labels,
    float_array,
    index_array,
    label_array,
    shape_of,
    thread_number,
    whole_number,
)
from cutlearn.errors import InputError
from cutlearn.grid import edge_ends, grid_edge_counts

EPSILON = 2.0**-52
# Numpy adds in blocks: the error of a sum is well below this many roundings of all of it.
ROUNDINGS = 64


def size_of(*arrays: Floats) -> float:
    """Return the sum of all absolute values."""
    return math.fsum(float(np.abs(a).sum()) for a in arrays)


def exact_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """a + b, and what rounding took from each sum, exactly."""
    with np.errstate(over="ignore", invalid="ignore"):  # the core names numbers beyond the range
        total = a + b
        of_b = total - a
        lost = (a - (total - of_b)) + (b - of_b)
    return total, np.where(np.isfinite(lost), lost, 0.0)


def bound_of(*errors: float | Floats) -> float:
    """Return no less than the sum of the absolute values of all errors; 0 if there are none."""
    total = math.fsum(size_of(np.atleast_1d(e)) for e in errors)
    return total * (1 + ROUNDINGS * EPSILON)


def adds_exactly(*arrays: Floats) -> bool:
    """Return whether every sum and difference of these numbers, in any order, is exact.

    So it is when all are multiples of a power of two and their sum is below 2^53 times that.
    """
    return _digits(*arrays) <= 53


def multiplies_exactly(factors: Floats, others: Floats) -> bool:
    """Return whether products of factors, or of their differences, with others are exact."""
    lowest = _lowest_bit(factors) + _lowest_bit(others)
    return _digits(factors) + _digits(others) <= 53 and lowest >= -1074


def _digits(*arrays: Floats) -> float:
    """How many binary digits it takes to write any sum of the numbers."""
    size = size_of(*arrays)
    if size == 0:
        return 0
    if not math.isfinite(size):
        return math.inf
    return math.frexp(size)[1] - min(map(_lowest_bit, arrays))


def _lowest_bit(array: Floats) -> float:
    """Return the largest e such that all numbers are multiples of 2^e; infinity if all are zero."""
    numbers = array[array != 0]
    if not numbers.size:
        return math.inf
    mantissa, exponent = np.frexp(numbers)
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    last = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    return int((exponent - 53 + last).min())


@dataclass(frozen=True, eq=False)
class Cut:
    """A minimum cut.

    Attributes
    ----------
    labels : uint8 array in the shape of the labels
        1 on the source side; 0 to L - 1 of an ordered energy. Among all minimisers the one with
        the lowest labels, so that it does not depend on the way it was found.
    value : float
        The minimum.
    lower_bound : float
        No labelling has a smaller energy, and that of `labels` is at most as far above `value` as
        this is below it. Equal to `value` where all the numbers were represented exactly (integers
        and dyadic fractions with room), else below it by a quantum for each one that was rounded,
        and itself rounded down.
    """

    labels: NDArray[np.uint8]
    value: float
    lower_bound: float
    _changed: NDArray[np.int64] | None = None  # None after a first solve

    @property
    def changed(self) -> NDArray[np.int64]:
        """Flat indices of the nodes whose label differs from the previous solve of the same solver;
        after the first solve, those with label 1."""
        return np.flatnonzero(self.labels) if self._changed is None else self._changed


@dataclass(frozen=True, eq=False)
class ArgminSums:
    """Min-marginals and sums over the labellings that attain them, for weights c and the cut y.

    With node features f, edge features g and any function h_c of the number of ones in region c,

        sum_d c_d [psi(argmin_d) - psi(y)] = (node @ f, edge @ g, sum_c region[c] @ h_c)

    Attributes
    ----------
    min_marginals : shape of the labels + (2,)
    node : (n,) float64, sum over d of c_d (argmin_d - y)
    edge : (m,) float64, sum over d of c_d ([argmin_d cuts the edge] - [y cuts it])
    region : one (size + 1,) float64 array for each region, likewise for 0, 1, ... ones in it
    """

    min_marginals: Floats
    node: Floats
    edge: Floats
    region: tuple[Floats, ...]


def argmin_sums(
    flow: _core.Flow,
    shape: tuple[int, ...],
    weights: ArrayLike | None,
    truth: ArrayLike | None,
    regions: Sequence[ArrayLike],
    threads: int,
) -> ArgminSums:
    """Return Phi, and sums with the weights given or with those of the likelihood of `truth`."""
    if (weights is None) == (truth is None):
        given = "neither is" if weights is None else "both are"
        raise InputError(f"weights and truth: {given} given. Give one of them.")
    c, y = np.empty(0), np.empty(0, np.uint8)
    if weights is not None:
        c = finite("weights", float_array("weights", weights))
        shape_of("weights", c, shape, "the shape of the labels")
    if truth is not None:
        void = np.asarray(truth) == VOID
        y = label_array("truth", np.where(void, 0, truth)).astype(np.uint8)
        y[void] = VOID
        shape_of("truth", y, shape, "the shape of the labels")
    n = int(np.prod(shape))
    parts = [index_array(f"regions[{k}]", r, n).ravel() for k, r in enumerate(regions)]
    ends = np.cumsum([0] + [p.size for p in parts])
    members = np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int32)
    values, node, edge, region = flow.argmin_sums(
        np.ascontiguousarray(c.ravel()), np.ascontiguousarray(y.ravel()), ends, members,
        threads,
    )  # fmt: skip
    counts = np.split(region, (ends + np.arange(ends.size))[1:-1]) if parts else []
    return ArgminSums(values.reshape(*shape, 2), node, edge, tuple(counts))


SCALAR, SYMMETRIC, PAIR = range(3)  # Weights::Kind of the core
NO_EDGES = np.empty(0, np.int32)
FREE = np.empty(0, np.int8)  # no node is fixed
Bits8 = NDArray[np.int8]


@dataclass(frozen=True)
class Terms:
    """The numbers of an energy, checked, contiguous, in the order of the core.

    Attributes
    ----------
    unary : (n,) float64
    shape : shape of the labels; n is its product
    connectivity : 0 for a list of edges, else 4, 8, 6, 10, 18 or 26
    edges : (2m,) int32, tails and heads of the list
    weights : one flat float64 array for each direction of the grid, or one for the list
    kinds : SCALAR, SYMMETRIC (p = q) or PAIR (p, q interleaved) for each of them
    regions : their members and hinges, or None
    slack : bound of the rounding that preparing these numbers took
    """

    unary: Floats
    shape: tuple[int, ...]
    connectivity: int = 0
    edges: NDArray[np.int32] = field(default_factory=lambda: NO_EDGES)
    weights: tuple[Floats, ...] = ()
    kinds: tuple[int, ...] = ()
    regions: _core.Regions | None = None
    constant: float = 0.0
    slack: float = 0.0

    def network(
        self, fixed: Bits8 | None, make: Callable[..., Any] = _core.flow, *rest: int
    ) -> Any:
        """Return the network of these terms in the core; raise InputError for faulty numbers.

        `make` is `_core.flow`; or `_core.solved` for the answer alone, then with threads.
        """
        try:
            made = make(*self.numbers(fixed), *rest)
        except MemoryError:
            raise MemoryError(self._too_large()) from None
        except ValueError as error:
            raise InputError(f"energy: {error}. Split it into parts.") from None
        if made is None:
            self._refuse(_core.survey(*self.numbers(fixed)))
        return made

    def numbers(self, fixed: Bits8 | None) -> tuple[Any, ...]:
        """Return the arguments of the core's functions."""
        return (
            self.constant, self.unary,
            list(self.shape) if self.connectivity else [self.unary.size],
            self.connectivity, self.edges, list(self.weights), list(self.kinds), self.regions,
            FREE if fixed is None else fixed,
        )  # fmt: skip

    def with_pairs(self) -> "Terms":
        """Return the same terms on arrays of their own, every weight as a pair p, q."""
        pairs = []
        for k, (weights, kind) in enumerate(zip(self.weights, self.kinds)):
            if kind == SCALAR:
                weights = np.full(self._edge_count(k), weights[0])
            pairs.append(weights.copy() if kind == PAIR else np.repeat(weights, 2))
        kinds = (PAIR,) * len(pairs)
        return replace(self, unary=self.unary.copy(), weights=tuple(pairs), kinds=kinds)

    def _too_large(self) -> str:
        """What memory the network needs, roughly: 30 bytes a node, 16 or 32 an arc and back."""
        arcs = sum(self._edge_count(k) for k in range(len(self.weights)))
        regions, hinges, members = 1, 0, 0
        if self.regions:
            regions, hinges, members = len(self.regions), self.regions.hinges, self.regions.members
        needed = 30 * (self.unary.size + hinges) + (16 if self.connectivity else 32) * arcs
        needed += 16 * members * max(hinges // regions, 1)
        return (
            f"energy: no memory for a network of {self.unary.size} nodes and {arcs} edges, about "
            f"{needed / 1e9:.1f} GB. Close other programs, or solve it in parts."
        )

    def _edge_count(self, direction: int) -> int:
        if not self.connectivity:
            return self.edges.size // 2
        return grid_edge_counts(self.shape, self.connectivity)[direction]

    def _refuse(self, survey: _core.Survey) -> NoReturn:
        if survey.bad_unary >= 0:
            value = self.unary[survey.bad_unary]
            place = tuple(map(int, np.unravel_index(survey.bad_unary, self.shape)))
            raise InputError(f"unary{list(place)} is {value}, but every number must be finite.")
        if survey.bad_edge >= 0:
            name = self._edge_name(survey.bad_direction, survey.bad_edge)
            raise InputError(
                f"{name} has a weight that is not finite, but every number must be finite."
            )
        if survey.worst_edge >= 0:
            name = self._edge_name(survey.worst_direction, survey.worst_edge)
            raise InputError(
                f"{name} has p + q = {survey.worst:g}, the worst of all edges, but p + q must be "
                ">= 0, else the energy is not submodular and no cut solves it. "
                "Raise the weight, or drop the edge."
            )
        raise InputError(
            "energy is too large: the sum of all numbers exceeds the range of float64. Scale them "
            "down."
        )

    def _edge_name(self, direction: int, edge: int) -> str:
        if not self.connectivity:
            tail, head = map(int, self.edges[2 * edge : 2 * edge + 2])
            return f"edge {edge} (nodes {tail} and {head})"
        ends = edge_ends(self.shape, self.connectivity, direction, edge)
        return f"edge {edge} of direction {direction} (nodes {ends[0]} and {ends[1]})"


class Solver:
    """A solver that stays alive; made by `Energy.solver()`.

    After any change, `minimize` gives the labels and the value that a new solver would. It works
    from the last flow, so that a small change costs little. One solver serves one thread at a
    time: a second one is refused with RuntimeError.
    """

    def __init__(self, terms: Terms, fixed: ArrayLike | None = None) -> None:
        self._terms = terms.with_pairs()
        # One array that the terms view direction by direction, so that edges have one numbering.
        self._pq = np.concatenate([*self._terms.weights, np.empty(0)])
        ends = np.cumsum([w.size for w in self._terms.weights])
        views = tuple(self._pq[e - w.size : e] for w, e in zip(self._terms.weights, ends))
        self._terms = replace(self._terms, weights=views)
        free = np.full(terms.unary.size, -1, np.int8)
        given = fixed_labels(fixed, terms.shape)
        self._fixed = given.copy() if given.size else free
        self._flow: _core.Flow = self._terms.network(self._fixed)
        self._one_at_a_time = threading.Lock()

    def set_unary(self, index: ArrayLike, values: ArrayLike) -> None:
        """Replace u at flat indices, or where a boolean mask in the labels' shape is true."""
        at = self._nodes(index)
        new = finite("values", broadcast("values", float_array("values", values), at.shape))
        with self._alone():
            self._flow.change_unary(at, new, self._terms.unary)

    def set_weights(self, index: ArrayLike, pq: ArrayLike) -> None:
        """Replace the weights of edges: (k,) for p = q, or (k, 2).

        Edges are numbered as they were given; on a grid, in the order of the concatenated
        `grid_edges(shape, connectivity)`.
        """
        at = index_array("index", index, self._pq.size // 2).ravel()
        new = finite("pq", float_array("pq", pq))
        new = new[..., None] if new.ndim < 2 else new
        # Symmetric weights stay one number an edge: twice as many would take twice as long.
        new = broadcast("pq", new, (at.size, 1 if new.shape[-1] == 1 else 2))
        if (k := _not_submodular(new)) is not None:
            raise InputError(
                f"pq[{k}] (edge {at[k]}) has p + q = {2 * new[k].mean():g}, but p + q must be "
                ">= 0, else the energy is not submodular and no cut solves it."
            )
        with self._alone():
            self._flow.change_weights(at, new.ravel(), self._pq)

    def set_fixed(self, index: ArrayLike, labels: ArrayLike) -> None:
        """Fix nodes to labels; -1 frees them."""
        at = self._nodes(index)
        new = broadcast("labels", label_array("labels", labels, -1), at.shape)
        with self._alone():
            self._flow.change_fixed(at, new, self._fixed)

    def minimize(self, threads: int = 1) -> Cut:
        """Return the minimum cut as it is now; threads serve a first cut of a large grid."""
        threads = thread_number(threads)
        with self._alone():
            return self._minimize(threads)

    def _minimize(self, threads: int) -> Cut:
        before = None
        if self._flow.outgrown:
            before = self._flow.labels([self._terms.unary.size])
            self._flow = self._terms.network(self._fixed)
        self._flow.solve(threads)
        cut = read_cut(self._flow, self._terms)
        if before is None:
            return cut
        return replace(cut, _changed=np.flatnonzero(cut.labels.ravel() != before))

    def min_marginals(self, threads: int = 1) -> Floats:
        """Return least energy with each node at label 0 and 1, in the labels' shape + (2,)."""
        threads = thread_number(threads)
        with self._alone():
            self._minimize(threads)
            phi: Floats = self._flow.min_marginals(threads)
            return phi.reshape(*self._terms.shape, 2)

    def prove(self) -> None:
        """Check that the last cut is one: raises AssertionError with the law that is broken.

        The flow keeps to the capacities and is conserved, no residual path leaves the source, the
        labels are all that the source reaches, and the energy of the labels is the flow's value,
        in exact integer arithmetic.
        """
        with self._alone():
            fault = self._flow.disproof(*self._terms.numbers(self._fixed))
        if fault:
            raise AssertionError(fault)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._one_at_a_time.acquire(blocking=False):
            raise RuntimeError(
                "this solver is at work in another thread; give each thread a solver of its own"
            )
        try:
            yield
        finally:
            self._one_at_a_time.release()

    def _nodes(self, index: ArrayLike) -> NDArray[np.int64]:
        array = as_array("index", index)
        if array.dtype == np.bool_:
            if array.shape != self._terms.shape:
                raise InputError(
                    f"index is a mask of shape {array.shape}, but must have shape "
                    f"{self._terms.shape}: the shape of the labels."
                )
            return np.flatnonzero(array)
        return index_array("index", array, self._terms.unary.size).ravel()


def _not_submodular(pq: Floats) -> int | None:
    """Return the row of pq, (k, 1) or (k, 2), with the least p + q, if that is truly below zero."""
    if pq.shape[1] == 1:
        return int(pq.argmin()) if pq.size and pq.min() < 0 else None
    low = pq.sum(axis=1) < -1e-9 * np.abs(pq).sum(axis=1)
    return int(np.argmin(pq.sum(axis=1))) if low.any() else None


def read_cut(flow: _core.Flow, terms: Terms) -> Cut:
    """Return the answer of a solved network, with its certified lower bound."""
    value, bound = certified(flow, terms.slack)
    changed = flow.changed() if flow.resumed else None
    return Cut(flow.labels(list(terms.shape)), value, bound, changed)


class SolvedNetwork(Protocol):
    """A solved network of the core: its minimum is minimum / scale + clipped."""

    @property
    def minimum(self) -> int: ...
    @property
    def scale(self) -> float: ...
    @property
    def inexact(self) -> int: ...
    @property
    def clipped(self) -> float: ...
    @property
    def clipped_error(self) -> float: ...


def certified(flow: SolvedNetwork, slack: float = 0.0) -> tuple[float, float]:
    """Return the value of a solved network and its lower bound less the given slack."""
    minimum = flow.minimum
    least = minimum / flow.scale
    value = least + flow.clipped
    # A quantum for each rounded number, what the preparation and the clipping rounded, and the last
    # digits of `value` itself where a float does not hold them.
    error = flow.inexact / flow.scale + slack + flow.clipped_error
    if int(float(minimum)) != minimum:
        error += math.ulp(least)
    if value - least != flow.clipped or value - flow.clipped != least:
        error += math.ulp(value)
    if error == 0:
        return value, value
    # Rounded outward: the sums above and the difference are floats too.
    return value, math.nextafter(value - error * (1 + 2.0**-48), -math.inf)


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
    """Return a maximum flow from `source` to `sink`.

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
    check_length("arcs", arcs, MOST_EDGES, "arcs")
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
    network = terms.network(None)
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
