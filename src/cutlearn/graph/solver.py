"""A live handle over the C++ core: build once, change a little, solve again from the last flow.

The terms that come in are E(y) = constant + sum_i u_i y_i + sum_e [p (1-y_i) y_j + q y_i (1-y_j)]
plus hinges over regions; what they mean to anybody is the caller's affair. `Terms` holds arrays
that were checked; the numbers in them are surveyed by the core on the way in.
"""

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn import _core
from cutlearn.arrays import Floats
from cutlearn.checks import (
    as_array,
    finite,
    fixed_labels,
    float_array,
    index_array,
    label_array,
    spread,
    thread_number,
)
from cutlearn.errors import InputError
from cutlearn.graph.cut import Cut
from cutlearn.graph.marginals import min_marginals
from cutlearn.grid import edge_ends, grid_edge_counts

SCALAR, SYMMETRIC, PAIR = range(3)  # Weights::Kind of the core
T = TypeVar("T")


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
    edges: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    weights: tuple[Floats, ...] = ()
    kinds: tuple[int, ...] = ()
    regions: _core.Regions | None = None
    constant: float = 0.0
    slack: float = 0.0

    def flow(self, fixed: NDArray[np.int8]) -> _core.Flow:
        """The network of these terms in the core; refuses faulty numbers by name."""
        return self._of_core(_core.flow, fixed)

    def solved(self, fixed: NDArray[np.int8], threads: int = 1) -> _core.Solved:
        """The answer alone, in the cheapest way there is; refuses faulty numbers by name."""
        return self._of_core(_core.solved, fixed, threads)

    def _of_core(self, make: Callable[..., T | None], fixed: NDArray[np.int8], *rest: int) -> T:
        try:
            made = make(*self.numbers(fixed), *rest)
        except MemoryError:
            raise MemoryError(self._too_large()) from None
        except ValueError as error:
            raise InputError(f"energy: {error}. Split it into parts.") from None
        if made is None:
            self._refuse(_core.survey(*self.numbers(fixed)))
        return made

    def numbers(self, fixed: NDArray[np.int8]) -> tuple[Any, ...]:
        """The arguments of the core's functions."""
        arguments = (self.constant, self.unary, self._core_shape(), self.connectivity, self.edges)
        return (*arguments, list(self.weights), list(self.kinds), self.regions, fixed)

    def with_pairs(self) -> "Terms":
        """The same terms on arrays of their own, every weight as a pair p, q."""
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

    def _core_shape(self) -> list[int]:
        return list(self.shape) if self.connectivity else [self.unary.size]

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
        self._flow = self._terms.flow(self._fixed)
        self._one_at_a_time = threading.Lock()

    def set_unary(self, index: ArrayLike, values: ArrayLike) -> None:
        """Replace u at flat indices, or where a boolean mask in the labels' shape is true."""
        at = self._nodes(index)
        new = finite("values", spread("values", float_array("values", values), at.shape))
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
        new = spread("pq", new, (at.size, 1 if new.shape[-1] == 1 else 2))
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
        new = spread("labels", label_array("labels", labels, -1), at.shape)
        with self._alone():
            self._flow.change_fixed(at, new, self._fixed)

    def minimize(self, threads: int = 1) -> Cut:
        """The minimum cut of the energy as it is now; threads serve a first cut of a large grid."""
        threads = thread_number(threads)
        with self._alone():
            return self._minimize(threads)

    def _minimize(self, threads: int) -> Cut:
        before = None
        if self._flow.outgrown:
            before = self._flow.labels([self._terms.unary.size])
            self._flow = self._terms.flow(self._fixed)
        self._flow.solve(threads)
        cut = read_cut(self._flow, self._terms)
        if before is None:
            return cut
        return replace(cut, _changed=np.flatnonzero(cut.labels.ravel() != before))

    def min_marginals(self, threads: int = 1) -> Floats:
        """Least energy with each node at label 0 and 1, in the labels' shape + (2,)."""
        threads = thread_number(threads)
        with self._alone():
            self._minimize(threads)
            return min_marginals(self._flow, self._terms.shape, threads)

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
    """The row of pq, (k, 1) or (k, 2), with the least p + q, if that is truly below zero."""
    if pq.shape[1] == 1:
        return int(pq.argmin()) if pq.size and pq.min() < 0 else None
    low = pq.sum(axis=1) < -1e-9 * np.abs(pq).sum(axis=1)
    return int(np.argmin(pq.sum(axis=1))) if low.any() else None


def minimize(terms: Terms, fixed: NDArray[np.int8], threads: int) -> Cut:
    """Build, solve, read: the cut without a handle, in the cheapest way there is."""
    answer = terms.solved(fixed, threads)
    return Cut(answer.labels(list(terms.shape)), *certified(answer, terms.slack))


def solved(terms: Terms, fixed: NDArray[np.int8], threads: int = 1) -> _core.Flow:
    """A network of these terms, solved."""
    flow = terms.flow(fixed)
    flow.solve(threads)
    return flow


def read_cut(flow: _core.Flow, terms: Terms) -> Cut:
    """The answer of a solved network, with its certified lower bound."""
    value, bound = certified(flow, terms.slack)
    changed = flow.changed() if flow.resumed else None
    return Cut(flow.labels(list(terms.shape)), value, bound, changed)


class Solved(Protocol):
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


def certified(flow: Solved, slack: float = 0.0) -> tuple[float, float]:
    """The value of a solved network and its lower bound; slack: what the preparation rounded."""
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
