"""Numbers at some places of a sorted order, of more numbers than memory holds.

In: parts, each an array, and places counted over all of them together, as if they were one sorted
array. Out: the numbers there, exactly. Parts that are loaded are gone through twice: every so
many-th number tells between which two ends the wanted one must lie, then only what lies there is
gathered.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from cutlearn.loaded import Loaded

Vector = NDArray[np.float64]

# Every so many-th number is looked at first.
STEP = 64
# How far the ends lie from where the wanted number is thought to be: a share of all numbers, and
# numbers looked at. A second try goes further.
FAR, FEWEST, FURTHER = 0.0025, 16, 8


def sorted_at(parts: Sequence[Vector], places: Iterable[int]) -> dict[int, float]:
    """Give the numbers at places of the sorted order of all parts.

    Examples
    --------
    >>> sorted_at([np.array([3.0, 1.0]), np.array([2.0])], [0, 2])
    {0: 1.0, 2: 3.0}
    """
    wanted = sorted(places)
    if not isinstance(parts, Loaded):
        whole = np.sort(np.concatenate(list(parts)))
        return {place: float(whole[place]) for place in wanted}
    # Copies: a view would keep all of its part in memory.
    few = np.sort(np.concatenate([part[::STEP].copy() for part in parts]))
    found: dict[int, float] = {}
    far = max(FEWEST, int(FAR * len(few)))
    while left := [place for place in wanted if place not in found]:
        found |= _between(parts, left, [_ends(few, place, far) for place in left])
        far *= FURTHER
    return found


def _ends(few: Vector, place: int, far: int) -> tuple[float, float]:
    """Two numbers between which the one at a place should lie."""
    near = place // STEP
    low = few[near - far] if near >= far else -np.inf
    return float(low), float(few[near + far]) if near + far < len(few) else np.inf


def _between(
    parts: Sequence[Vector], places: Sequence[int], ends: Sequence[tuple[float, float]]
) -> dict[int, float]:
    """The numbers at those places that do lie between their ends."""
    below, inside = [0] * len(places), [[np.zeros(0)] for _ in places]
    for part in parts:
        for k, (low, high) in enumerate(ends):
            below[k] += int(np.count_nonzero(part < low))
            inside[k].append(part[(part >= low) & (part <= high)])
    found = {}
    for place, before, near in zip(places, below, inside):
        whole = np.concatenate(near)
        if 0 <= place - before < len(whole):
            found[place] = float(np.partition(whole, place - before)[place - before])
    return found
