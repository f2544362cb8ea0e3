"""A grid too large for one cut: exact cuts of overlapping strips, and what the seams can cost.

In: the terms of any rows of an image (or slices of a volume). Out: labels, their energy, and a
lower bound of the least energy. Where two strips overlap, the energy is shared out between them:
with shares lambda_k(r) >= 0 that sum to 1 over the strips at every row r,

    E(y) = sum_k E_k(y),   E_k: every term of row r times lambda_k(r),
    min E >= sum_k min E_k.

Each min E_k is one exact cut (of unordered labels: moves, and no bound). If the strips agree where
they overlap, the labels minimise E, and the bound proves it; if not, the difference tells how far
from the least energy they can be at most.
A share falls evenly from 1 to 0 across the overlap, so that a strip has little to say at its ends,
where it sees little. A row takes its labels from the strip that has the larger share.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import Mask
from cutlearn.energy.energy import Energy
from cutlearn.graph.rounding import EPSILON, bound_of, multiplies_exactly
from cutlearn.grid import grid_offsets

SMALLEST = 2.0**-1074  # what a product too small for all its digits may lose
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
        Gives unaries and weights as `Energy.grid` takes them, of some rows. One strip is asked for
        at a time.
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
    """A strip's part of every term, and a bound of what rounding took from them."""
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
            errors.append(2 * EPSILON * np.asarray(made[inside], np.float64).ravel() + SMALLEST)
        return made

    parts = [scaled(unary, 0), *(scaled(part, move[0]) for part, move in zip(weights, moves))]
    return parts[0], parts[1:], bound_of(*errors)
