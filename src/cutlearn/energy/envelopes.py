"""Envelopes over many regions at once: arrays instead of one object for each region.

`Energy` asks what it is given for three things: the regions as the core wants them, the cost of a
labelling, and single envelopes. A sequence of `Envelope` objects is asked through `Listed`.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn import _core
from cutlearn.arrays import Floats
from cutlearn.checks import MOST_NODES, as_array, finite, float_array, listed
from cutlearn.energy.envelope import SMALLEST, Envelope, lower_lines
from cutlearn.errors import InputError
from cutlearn.graph.rounding import EPSILON, ROUNDINGS, adds_exactly, multiplies_exactly, size_of

Hinges = tuple[Floats, Floats, list[Floats], list[Floats]]  # a_1, b_1, alpha, beta of each region


class CoreRegions(NamedTuple):
    """Regions as the core wants them, their constant, and a bound of the rounding."""

    regions: _core.Regions | None
    constant: float
    slack: float


class RegionCosts(Protocol):
    """What an energy asks of its envelopes; `labels` are 0 or 1, flat."""

    def regions(self, nodes: int) -> CoreRegions: ...
    def cost(self, labels: NDArray[np.int8]) -> float: ...
    def __iter__(self) -> Iterator[Envelope]: ...


class Envelopes(Sequence[Envelope]):
    """One envelope for each region of a label map; the same as a list of `Envelope`, made faster.

    Parameters
    ----------
    label_map : int array in the labels' shape
        The region of each node, from 0 on; nodes below 0 belong to none.
    slopes, intercepts : (regions, K) or (K,) arrays
        The lines a_k s + b_k of each region, or of all; s counts its nodes with label 1.

    Examples
    --------
    >>> import cutlearn as cl
    >>> halves = cl.Envelopes([[0, 0, 1, 1]] * 2, slopes=[1.0, -1.0], intercepts=[0.0, 4.0])
    >>> len(halves), halves[1].members.tolist()
    (2, [2, 3, 6, 7])
    >>> e = cl.Energy.grid([[-1.0, 2.0, -3.0, 1.0]] * 2, 0.25, envelopes=halves)
    >>> e.minimize().labels.tolist()
    [[0, 0, 1, 1], [0, 0, 1, 1]]
    """

    def __init__(self, label_map: ArrayLike, slopes: ArrayLike, intercepts: ArrayLike) -> None:
        labels = as_array("label_map", label_map)
        if labels.dtype.kind not in "iu" or not labels.size:
            raise InputError(
                f"label_map has type {labels.dtype} and shape {labels.shape}. Give the number of "
                "its region for every node, as whole numbers from 0 on, and -1 for none."
            )
        a = finite("slopes", float_array("slopes", slopes))
        b = finite("intercepts", float_array("intercepts", intercepts))
        count = max(int(labels.max()) + 1, 0)
        if a.shape != b.shape or a.ndim not in (1, 2) or not a.shape[-1]:
            raise InputError(
                f"slopes and intercepts have the shapes {a.shape} and {b.shape}. Give both one "
                "number for each line, as (K,) or (regions, K), K >= 1."
            )
        if a.ndim == 2 and len(a) < count:
            raise InputError(
                f"label_map has the region {count - 1}, but slopes and intercepts have {len(a)} "
                "rows. Give one row for each region."
            )
        count = len(a) if a.ndim == 2 else count
        shape = (count, a.shape[-1])
        self.slopes: Floats = np.broadcast_to(a, shape)
        self.intercepts: Floats = np.broadcast_to(b, shape)
        self.label_map: NDArray[np.int64] = labels.astype(np.int64).ravel()
        self._first, self._members = _core.members_of(self.label_map, count)
        self.sizes: NDArray[np.int64] = np.diff(self._first)

    def __len__(self) -> int:
        return len(self.sizes)

    @overload
    def __getitem__(self, index: int) -> Envelope: ...
    @overload
    def __getitem__(self, index: slice) -> list[Envelope]: ...
    def __getitem__(self, index: int | slice) -> Envelope | list[Envelope]:
        if isinstance(index, slice):
            return [self[c] for c in range(*index.indices(len(self)))]
        c = range(len(self))[index]
        members = self._members[self._first[c] : self._first[c + 1]]
        return Envelope(members, self.slopes[c], self.intercepts[c])

    def cost(self, labels: NDArray[np.int8]) -> float:
        """The sum of all envelopes at a labelling."""
        on = self.label_map[(labels != 0) & (self.label_map >= 0)]
        s = np.bincount(on, minlength=len(self))[:, None]
        return float((self.slopes * s + self.intercepts).min(axis=1).sum()) if len(self) else 0.0

    def regions(self, nodes: int) -> CoreRegions:
        """These regions for the core."""
        if self.label_map.size != nodes:
            raise InputError(
                f"label_map has {self.label_map.size} nodes, but the energy has {nodes}. Give the "
                "region of every node."
            )
        if not len(self):
            return CoreRegions(None, 0.0, 0.0)
        hinges = self._hinges()
        rounded: list[int] = []
        if not (adds_exactly(self.intercepts) and multiplies_exactly(self.slopes, _ones(nodes))):
            rounded = [
                c
                for c, (a, b) in enumerate(zip(self.slopes, self.intercepts))
                if not (adds_exactly(b) and multiplies_exactly(a, _ones(int(self.sizes[c]))))
            ]
        ones = np.empty(0)  # every member weighs 1
        return core_regions(self._first, self._members, ones, hinges, self.sizes, rounded)

    def _hinges(self) -> Hinges:
        """The hinges of all regions; only those with lines in no good order are made one by one."""
        a, b = self.slopes, self.intercepts
        alpha, beta = a[:, :-1] - a[:, 1:], b[:, 1:] - b[:, :-1]
        whole = self._in_order(alpha, beta)
        first_a, first_b = a[:, 0].copy(), b[:, 0].copy()
        alphas, betas = list(alpha), list(beta)
        for c in np.flatnonzero(~whole):
            kept = lower_lines(a[c].tolist(), b[c].tolist(), float(self.sizes[c]))
            x, y = a[c][kept], b[c][kept]
            first_a[c], first_b[c] = x[0], y[0]
            alphas[c], betas[c] = x[:-1] - x[1:], y[1:] - y[:-1]
        return first_a, first_b, alphas, betas

    def _in_order(self, alpha: Floats, beta: Floats) -> NDArray[np.bool_]:
        """Where slopes fall and every line is lowest somewhere: what `lower_lines` would keep."""
        a, b = self.slopes, self.intercepts
        whole: NDArray[np.bool_] = np.all(alpha > 0, axis=1) & np.all(beta[:, :1] > 0, axis=1)
        # Each line against the two before it, and at the far end against the one before it.
        pairs = [
            (b[:, 2:] - b[:, :-2], alpha[:, :-1], beta[:, :-1], a[:, :-2] - a[:, 2:]),
            (-beta, np.ones_like(beta), -alpha, np.broadcast_to(self.sizes[:, None], beta.shape)),
        ]
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            for x, y, z, t in pairs:
                left, right = x * y, z * t
                sure = np.minimum(np.abs(left), np.abs(right)) > SMALLEST
                sure &= np.maximum(np.abs(left), np.abs(right)) < math.inf
                whole &= np.all(sure & (left > right), axis=1)
        return whole


def _ones(count: int) -> Floats:
    """Two numbers with the sum and the lowest bit of so many ones."""
    return np.array([count - 1.0, 1.0]) if count else np.empty(0)


class Listed(tuple[Envelope, ...]):
    """A sequence of envelopes that an energy can ask."""

    __slots__ = ()

    def cost(self, labels: NDArray[np.int8]) -> float:
        """The sum of all envelopes at a labelling."""
        total = 0.0
        for e in self:
            total += e.value(float(e.weights @ labels[e.members]))
        return total

    def regions(self, nodes: int) -> CoreRegions:
        """These regions for the core."""
        if not self:
            return CoreRegions(None, 0.0, 0.0)
        for c, e in enumerate(self):
            if not isinstance(e, Envelope):
                raise InputError(f"envelopes[{c}] must be an Envelope, not {type(e).__name__}.")
            if e.members.size and e.members.max() >= nodes:
                raise InputError(
                    f"envelopes[{c}] has member {e.members.max()}, but nodes run from 0 to "
                    f"{nodes - 1}."
                )
        each = [e.hinges() for e in self]
        first_a, first_b, alphas, betas = (list(part) for part in zip(*each))
        rounded = [
            c
            for c, e in enumerate(self)
            if not (adds_exactly(e.intercepts) and multiplies_exactly(e.slopes, e.weights))
        ]
        return core_regions(
            np.cumsum([0] + [e.members.size for e in self]),
            np.concatenate([e.members for e in self]),
            np.concatenate([e.weights for e in self]),
            (np.array(first_a), np.array(first_b), alphas, betas),
            np.array([e.mass for e in self]),
            rounded,
        )


def asked(envelopes: "Sequence[Envelope] | Envelopes") -> RegionCosts:
    """What an energy can ask, from what it was given."""
    return envelopes if isinstance(envelopes, Envelopes) else Listed(listed("envelopes", envelopes))


def core_regions(
    first: NDArray[np.int64],
    members: NDArray[np.int32],
    weights: Floats,
    hinges: Hinges,
    masses: NDArray[np.generic],
    rounded: list[int],
) -> CoreRegions:
    """Regions for the core; `rounded` are those whose hinges or products are not exact."""
    slopes, lowest, alphas, betas = hinges
    counts = np.array([alpha.size for alpha in alphas])
    arcs = int((counts * np.diff(first)).sum())
    if 2 * arcs > MOST_NODES:
        raise InputError(
            f"envelopes have {arcs} lines x members in all, but at most 2^30 are possible. Use "
            "fewer lines or smaller regions."
        )
    regions = _core.Regions(
        first, members, weights, slopes, np.concatenate([[0], np.cumsum(counts)]),
        np.concatenate(alphas), np.concatenate(betas),
    )  # fmt: skip
    slack = 0.0
    for c in rounded:
        alpha, beta = alphas[c], betas[c]
        size = (abs(slopes[c]) + alpha.sum()) * masses[c] + abs(lowest[c]) + beta.sum()
        slack += 8 * (EPSILON * float(size)) * (1 + alpha.size)
        slack += math.ulp(0.0) * int(first[c + 1] - first[c]) * (1 + alpha.size)  # vanished
    if not adds_exactly(lowest):
        slack += ROUNDINGS * EPSILON * size_of(lowest)
    return CoreRegions(regions, float(lowest.sum()), slack)
