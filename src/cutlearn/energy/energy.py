"""Binary energies that a cut minimises exactly.

    E(y) = sum_i u_i y_i + sum_(i,j) [ p_ij (1-y_i) y_j + q_ij y_i (1-y_j) ] + sum_c psi_c(s_c)

over y in {0,1}^n, with p + q >= 0 on every edge and concave psi_c. `value` evaluates this from
what was given; `minimize` goes through the core's network. They share no code, so each checks
the other.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import (
    Any,
    NamedTuple,
    Self,
    cast,
)

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn import _core
from cutlearn.arrays import Floats, Mask
from cutlearn.checks import (
    MOST_NODES,
    check_length,
    edge_array,
    finite,
    fixed_labels,
    float_array,
    given_shape,
    label_array,
    shape_of,
    thread_number,
)
from cutlearn.energy.envelopes import Envelope, Envelopes, as_region_costs
from cutlearn.energy.problem import Problem
from cutlearn.energy.solver import (
    EPSILON,
    NO_EDGES,
    PAIR,
    ROUNDINGS,
    SCALAR,
    SYMMETRIC,
    ArgminSums,
    Cut,
    Solver,
    Terms,
    adds_exactly,
    argmin_sums,
    bound_of,
    certified,
    exact_sum,
    multiplies_exactly,
    size_of,
)
from cutlearn.errors import InputError
from cutlearn.grid import check_grid, grid_offsets, grid_slices


class Energy:
    """The cost of every labelling of n nodes with 0 and 1; `minimize` finds the cheapest exactly.

    `Energy.grid` makes one over the pixels of an image.

    Parameters
    ----------
    unary : (n,) or (n, 2) array
        For each node, what label 1 costs more than label 0 (negative if less); or the costs of
        both labels.
    edges : (m, 2) int array, optional
        Pairs of nodes; the same pair may appear several times.
    weights : scalar, (m,), (m, 2) or (m, 2, 2) array
        What it costs if the two nodes of an edge have different labels: one number; or p for the
        labels (0, 1) and q for (1, 0); or the whole table of costs, indexed by both labels.
    envelopes : sequence of Envelope, or Envelopes
        Concave costs of how many nodes of a region have label 1.

    Examples
    --------
    >>> import cutlearn as cl
    >>> e = cl.Energy([-2.0, 1.0, 1.5], edges=[[0, 1], [1, 2]], weights=[1.25, 0.5])
    >>> cut = e.minimize()
    >>> cut.labels.tolist(), cut.value, cut.lower_bound
    ([1, 0, 0], -0.75, -0.75)
    """

    def __init__(
        self,
        unary: ArrayLike,
        edges: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        envelopes: Sequence[Envelope] | Envelopes = (),
    ) -> None:
        u, constant, slack = _unary(unary)
        pairs = edge_array(edges, u.size)
        if weights is None and len(pairs):
            raise InputError(
                f"weights are missing. Give one for each of the {len(pairs)} edges, or one for all."
            )
        w = float_array("weights", 0.0 if weights is None else weights)
        if w.shape == (len(pairs), 2, 2):
            w, u, moved, rounding = _from_tables(w, pairs, u)
            constant, slack = constant + moved, slack + rounding
        flat, kind = _flat(w, (len(pairs),), "weights")
        ends = pairs.astype(np.int32).ravel()
        self._set(u, u.shape, 0, (flat,), (kind,), envelopes, ends, constant, slack)

    def _set(
        self,
        unary: Floats,
        shape: tuple[int, ...],
        connectivity: int,
        weights: tuple[Floats, ...],
        kinds: tuple[int, ...],
        envelopes: Sequence[Envelope] | Envelopes,
        edges: NDArray[np.int32] = NO_EDGES,
        constant: float = 0.0,
        slack: float = 0.0,
    ) -> None:
        self.shape: tuple[int, ...] = shape
        self.envelopes = as_region_costs(envelopes)
        self._constant = constant
        regions, lowest, rounding = self.envelopes.regions(unary.size)
        total = constant + lowest
        if total - constant != lowest or total - lowest != constant:
            slack += EPSILON * abs(total)
        self._terms = Terms(
            unary, shape, connectivity, edges, weights, kinds, regions, total, slack + rounding
        )

    @classmethod
    def unchecked(
        cls,
        unary: Floats,
        shape: tuple[int, ...],
        connectivity: int,
        weights: tuple[Floats, ...],
        kinds: tuple[int, ...],
        envelopes: Sequence[Envelope] | Envelopes = (),
    ) -> Self:
        """Return the energy of a grid from flat arrays that were checked, as `Terms` has them."""
        self = cls.__new__(cls)
        self._set(unary.ravel(), shape, connectivity, weights, kinds, envelopes)
        return self

    @classmethod
    def of_terms(cls, terms: Terms) -> Self:
        """Return the energy of terms, of whose regions `value` has no part."""
        self = cls.__new__(cls)
        self.shape, self.envelopes, self._constant = terms.shape, as_region_costs(()), 0.0
        self._terms = terms
        return self

    @classmethod
    def grid(
        cls,
        unary: ArrayLike,
        weights: ArrayLike | Sequence[ArrayLike],
        connectivity: int = 4,
        envelopes: Sequence[Envelope] | Envelopes = (),
    ) -> Self:
        """Return an energy over the pixels of an image or a volume.

        Parameters
        ----------
        unary : (rows, columns) or (slices, rows, columns) array
            u1 - u0.
        weights : scalar, or one array for each direction of `grid_edges`
            Each in the image's shape cropped to the edges' first ends, with a last axis of 2 for
            p and q; or a scalar.
        connectivity : 4 or 8 in two dimensions, 6, 10, 18 or 26 in three

        Examples
        --------
        >>> import cutlearn as cl
        >>> cl.Energy.grid([[-3.0, 1.0], [1.0, 1.0]], 0.75).minimize().labels.tolist()
        [[1, 0], [0, 0]]
        """
        check_grid(given_shape("unary", unary), connectivity)
        u = float_array("unary", unary)
        slices = grid_slices(u.shape, connectivity)
        directions: list[Any] = [weights] * len(slices)
        if isinstance(weights, Sequence) or np.ndim(weights) > 0:
            directions = list(cast(Sequence[Any], weights))
        if len(directions) != len(slices):
            raise InputError(
                f"weights has {len(directions)} arrays, but this grid has {len(slices)} directions "
                "of edges. Give one array for each direction, or a single number."
            )
        flat, kinds = [], []
        for k, ((tail, _), given) in enumerate(zip(slices, directions)):
            name = f"weights[{k}]"
            f, kind = _flat(float_array(name, given), tuple(s.stop - s.start for s in tail), name)
            flat.append(f)
            kinds.append(kind)
        return cls.unchecked(u, u.shape, connectivity, tuple(flat), tuple(kinds), envelopes)

    @classmethod
    def of(cls, problem: Problem, w: ArrayLike, envelope: Any = None) -> "Energy":
        """Return the energy of a problem under weights w, in the order node, edge, envelope.

        E(y; w) = sum_i y_i (w_node . f_i) + sum_e [y_i != y_j] (w_edge . g_e)
                  + sum_c envelope(fraction of c at 1)

        `envelope` is an EnvelopeSpec, or one for each family of the problem's regions; a `Model`
        in its place has potentials of its own.
        """
        from cutlearn.energy.model import model_of

        energy: Energy = model_of(problem, envelope).energy(problem, w)
        return energy

    def plus(self, unary: ArrayLike) -> "Energy":
        """Return the same energy where label 1 costs so much more at every node.

        Examples
        --------
        >>> import cutlearn as cl
        >>> cl.Energy([-2.0, 1.0]).plus([0.0, -3.0]).minimize().labels.tolist()
        [1, 1]
        """
        more = float_array("unary", unary)
        shape_of("unary", more, self.shape, "the shape of the unaries")
        total, lost = exact_sum(self._terms.unary, more.ravel())
        made = copy(self)
        made._terms = replace(self._terms, unary=total, slack=bound_of(self._terms.slack, lost))
        return made

    def value(self, labels: ArrayLike) -> float:
        """Return E of a labelling, evaluated term by term."""
        y = label_array("labels", labels)
        shape_of("labels", y, self.shape, "the shape of the unaries")
        on = y.astype(bool)
        total = self._constant + float(self._terms.unary @ on.ravel())
        for tail, head, weights, kind in self._edge_labels(on):
            pq = weights.reshape(-1, 2) if kind == PAIR else weights
            p, q = (pq[:, 0], pq[:, 1]) if kind == PAIR else (pq, pq)
            if kind == SCALAR:
                total += float(weights[0]) * np.count_nonzero(tail != head)
            else:
                total += float(p @ (~tail & head)) + float(q @ (tail & ~head))
        return total + self.envelopes.cost(y.ravel())

    def minimize(self, fixed: ArrayLike | None = None, threads: int = 1) -> Cut:
        """Return the minimum over all labellings, or over those that agree with `fixed`.

        `fixed` has the labels' shape: -1 leaves a node free, 0 or 1 is its label. Large grids
        without envelopes are cut on several threads; the result does not depend on their number.
        """
        terms, held = self._terms, fixed_labels(fixed, self.shape)
        answer = terms.network(held, _core.solved, thread_number(threads))
        return Cut(answer.labels(list(self.shape)), *certified(answer, terms.slack))

    def min_marginals(self, fixed: ArrayLike | None = None, threads: int = 1) -> Floats:
        """Return Phi[..., k] = the least energy with that node at label k; inf against `fixed`.

        The result does not depend on the number of threads.
        """
        threads = thread_number(threads)
        return self._solved(fixed, threads).min_marginals(threads).reshape(*self.shape, 2)

    def argmin_sums(
        self,
        weights: ArrayLike | None = None,
        truth: ArrayLike | None = None,
        regions: Sequence[ArrayLike] = (),
        fixed: ArrayLike | None = None,
        threads: int = 1,
    ) -> ArgminSums:
        """Return min-marginals, and sums over all argmins in one pass, without making any of them.

        Parameters
        ----------
        weights : array in the labels' shape
            c_d, one for each node. Either this or `truth`.
        truth : labels, 255 is void
            Takes the weights of the gradient of sum_d log q_d(truth_d), q_d = softmax(-Phi_d):
            c_d = q_d(1 - y_d) - [truth_d != y_d] with the cut y; 0 for void nodes.
        regions : index arrays
            Regions whose numbers of ones are to be summed; see `ArgminSums.region`.
        """
        threads = thread_number(threads)
        return argmin_sums(
            self._solved(fixed, threads), self.shape, weights, truth, regions, threads
        )

    def solver(self, fixed: ArrayLike | None = None) -> Solver:
        """Return a live handle on a copy of this energy, to change and solve again."""
        return Solver(self._terms, fixed)

    def _solved(self, fixed: ArrayLike | None, threads: int) -> _core.Flow:
        flow: _core.Flow = self._terms.network(fixed_labels(fixed, self.shape))
        flow.solve(threads)
        return flow

    def _edge_labels(
        self, on: NDArray[np.bool_]
    ) -> list[tuple[NDArray[np.bool_], NDArray[np.bool_], Floats, int]]:
        terms = self._terms
        if terms.connectivity:
            ends = [
                (on[tail].ravel(), on[head].ravel())
                for tail, head in grid_slices(self.shape, terms.connectivity)
            ]
        else:
            ends = [(on[terms.edges[::2]], on[terms.edges[1::2]])]
        return [(t, h, w, k) for (t, h), w, k in zip(ends, terms.weights, terms.kinds)]


def _unary(unary: ArrayLike) -> tuple[Floats, float, float]:
    """u1 - u0, the sum of u0, and a bound of the rounding."""
    check_length("unary", unary, MOST_NODES, "nodes")
    u = float_array("unary", unary)
    if u.ndim == 2 and u.shape[1] == 2 and u.size:
        finite("unary", u)
        slack = 0.0 if adds_exactly(u) else (1 + ROUNDINGS) * (EPSILON * size_of(u))
        return np.ascontiguousarray(u[:, 1] - u[:, 0]), float(u[:, 0].sum()), slack
    if u.ndim != 1 or not u.size:
        raise InputError(
            f"unary has shape {u.shape}, but must have shape (n,) or (n, 2), for at least one node."
        )
    return u, 0.0, 0.0


def _flat(weights: Floats, shape: tuple[int, ...], name: str) -> tuple[Floats, int]:
    """Return the weights as the core wants them, and their kind."""
    if weights.ndim == 0:
        return weights.reshape(1), SCALAR
    if weights.shape == shape:
        return weights.ravel(), SYMMETRIC
    if weights.shape == (*shape, 2):
        return weights.ravel(), PAIR
    raise InputError(
        f"{name} has shape {weights.shape}, but must have shape {shape} or {(*shape, 2)}, or be a "
        "single number."
    )


def _from_tables(
    tables: Floats, pairs: NDArray[np.int64], u: Floats
) -> tuple[Floats, Floats, float, float]:
    """p = t01 + t10 - t00 - t11, q = 0, u_i += t10 - t00, u_j += t11 - t10, constant t00."""
    finite("weights", tables)
    t00, t01, t10, t11 = tables.reshape(-1, 4).T
    p = (t01 + t10) - (t00 + t11)
    raised = np.where((p < 0) & (p > -1e-9 * np.abs(tables).sum(axis=(1, 2))), -p, 0.0)
    p += raised
    slack = float(raised.sum())
    if not adds_exactly(tables, u):
        # p, and the sums below: as many roundings at a node as it has edges.
        most = int(np.bincount(pairs.ravel(), minlength=1).max())
        slack += (4 + ROUNDINGS + most) * (EPSILON * size_of(tables)) + most * (
            EPSILON * size_of(u)
        )
    u = u.copy()
    np.add.at(u, pairs[:, 0], t10 - t00)
    np.add.at(u, pairs[:, 1], t11 - t10)
    return np.stack([p, np.zeros_like(p)], axis=1), u, float(t00.sum()), slack


SMALLEST_PRODUCT = 2.0**-1074  # what a product too small for all its digits may lose
# Gives unaries of rows first .. last - 1, and the weights of the edges among them, by direction.
RowTerms = Callable[[int, int], tuple[NDArray[Any], list[NDArray[Any]]]]
# Makes an energy of such; it must be linear in both.
EnergyOf = Callable[[NDArray[Any], list[NDArray[Any]]], Any]


class Joined(NamedTuple):
    """Labels of all strips together.

    Parameters
    ----------
    labels : uint8 array in the grid's shape
    value : float
        Their energy.
    lower_bound : float
        No labelling has a lower energy than this; minus infinity where nothing is proved.
    strips : int
    """

    labels: Mask
    value: float
    lower_bound: float
    strips: int

    @property
    def relative_gap(self) -> float:
        """What could be gained at most, over the size of the energy."""
        return max(0.0, self.value - self.lower_bound) / max(abs(self.value), 1e-300)


class _Strip(NamedTuple):
    """Rows first .. last - 1 are seen, those from begin to end - 1 are answered for."""

    first: int
    begin: int
    end: int
    last: int


def minimize_strips(
    shape: tuple[int, ...],
    connectivity: int,
    terms: RowTerms,
    rows: int,
    overlap: int,
    fixed: NDArray[Any] | None = None,
    energy_of: EnergyOf | None = None,
) -> Joined:
    """Minimise an energy over a grid, strip by strip along its first axis.

    Parameters
    ----------
    shape, connectivity
        Of the grid.
    terms : callable (first, last)
        Gives unaries and weights as `Energy.grid` takes them, of some rows. One strip at a
        time is requested.
    rows : int
        Of a strip, beside what it shares with others.
    overlap : int
        Rows that two neighbouring strips share.
    fixed : array in the grid's shape, optional
        -1 leaves a node free, else it is the label.
    energy_of : callable (unaries, weights), optional
        By default `Energy.grid`, of two labels.

    Examples
    --------
    >>> import numpy as np
    >>> unary = np.where(np.arange(40)[:, None] < 21, -1.0, 1.0) * np.ones((40, 5))
    >>> def terms(first, last):
    ...     n = last - first
    ...     return unary[first:last], [np.ones((n, 4)), np.ones((n - 1, 5))]
    >>> made = minimize_strips((40, 5), 4, terms, 15, 6)
    >>> made.strips, made.value, bool(made.value - made.lower_bound < 1e-6)
    (3, -100.0, True)
    """
    strips = list(_strips(shape[0], rows, overlap // 2))
    moves = grid_offsets(len(shape), connectivity)
    labels = np.empty(shape, np.uint8)
    value, bounds = 0.0, []
    pose = energy_of or partial(Energy.grid, connectivity=connectivity)
    before: tuple[_Strip, Any] | None = None
    for strip in strips:
        unary, weights, slack = _shared(strip, shape[0], overlap // 2, terms, moves)
        energy = pose(unary, weights)
        here = None if fixed is None else fixed[strip.first : strip.last]
        cut = energy.minimize(here)
        bounds += [cut.lower_bound, -slack]
        inner = slice(strip.begin - strip.first, strip.end - strip.first)
        labels[strip.begin : strip.end] = cut.labels[inner]
        if before is not None:
            # Only now all the rows that the strip before sees have their labels.
            value += before[1].value(labels[before[0].first : before[0].last])
        before = strip, energy
    assert before is not None
    value += before[1].value(labels[before[0].first : before[0].last])
    bound = math.fsum(bounds)
    # The sum itself is rounded to the nearest number.
    exact = math.fsum([*bounds, -bound]) >= 0 if math.isfinite(bound) else True
    return Joined(labels, value, bound if exact else math.nextafter(bound, -math.inf), len(strips))


def _strips(n: int, rows: int, half: int) -> Iterator[_Strip]:
    """Strips of about equal length; none is shorter than what it shares."""
    count = max(1, min(-(-n // max(rows, 1)), n // max(2 * half, 1)))
    ends = [k * n // count for k in range(count + 1)]
    for begin, end in pairwise(ends):
        yield _Strip(max(0, begin - half), begin, end, min(n, end + half))


def _share(strip: _Strip, n: int, half: int, places: NDArray[Any]) -> NDArray[np.float64]:
    """lambda at places along the first axis, in rows; an edge to the next row lies between two."""
    share = np.ones(len(places))
    if strip.begin > 0:
        share = np.minimum(share, (places - (strip.begin - half) + 0.5) / (2 * half))
    if strip.end < n:
        share = np.minimum(share, (strip.end + half - places - 0.5) / (2 * half))
    return np.clip(share, 0.0, 1.0)


def _shared(
    strip: _Strip,
    n: int,
    half: int,
    terms: RowTerms,
    moves: list[tuple[int, ...]],
) -> tuple[NDArray[Any], list[NDArray[Any]], float]:
    """Return a strip's part of every term, and a bound of what rounding took from them."""
    unary, weights = terms(strip.first, strip.last)
    if strip.begin == 0 and strip.end == n:
        return unary, weights, 0.0
    whole = (
        half & (half - 1) == 0
    )  # then shares are multiples of a power of two, as they were meant
    errors: list[Any] = []

    def scaled(part: NDArray[Any], step: float) -> NDArray[Any]:
        places = strip.first + np.arange(len(part)) + step / 2
        share = _share(strip, n, half, places)
        made = part * share.reshape(-1, *(1,) * (part.ndim - 1))
        if not (whole and multiplies_exactly(np.asarray(part, np.float64), share)):
            # The share and the product are rounded; shares of 0 and 1 are exact.
            inside = (share > 0) & (share < 1)
            errors.append(
                2 * EPSILON * np.asarray(made[inside], np.float64).ravel() + SMALLEST_PRODUCT
            )
        return made

    parts = [scaled(unary, 0), *(scaled(part, move[0]) for part, move in zip(weights, moves))]
    return parts[0], parts[1:], bound_of(*errors)
