"""Pixels, parts and strokes of masks: what tells how their values were meant.

Values alone do not tell classes from numbered objects, a label from a slip of the brush, or a
background from pixels that nobody has annotated. Both doors of masks, folders and arrays, make a
`Tally` of every mask, and ask here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from cutlearn.arrays import VOID
from cutlearn.errors import counted
from cutlearn.images.coding import Coding, Stated, hex_of
from cutlearn.images.listing import some

# Values of one mask that are kept: more are no labels anyway.
MOST_VALUES = 4096
# Numbered objects: the part of their pixels in one piece, of so many of them; pixels of the median.
IN_ONE, OF_ALL, SUBSTANCE = 0.95, 0.95, 9
# So many objects of one mask need no other evidence; so few do, if masks number from 1 on.
MANY, SEVERAL = 10, 4
# A slip of the brush: of a mask at most this part or so many pixels, of all masks this part, in a
# third of them. The smallest label of a real mask in a measured set has 0.148 % of it.
SLIP, SLIP_PIXELS, SLIP_OF_ALL = 0.0005, 25, 0.001
# Strokes: unpainted pixels, and how much longer than wide. Drawn ones have 22 and more, objects of
# masks 2 to 7.
UNPAINTED, LONG = 0.9, 6.0
# Pixels in which parts are looked for.
LARGE = 1 << 26
# Labels of which the shares are printed.
MOST_SHARES = 24

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Tally:
    """Counts of one mask.

    Parameters
    ----------
    name : str
    values : tuple of int
        Its values, or packed colours, in their order.
    counts : tuple of int
        The pixels of each.
    color : bool
        Whether values are packed colours.
    whole : float
        The share of the values other than 0 and void that are one connected part; 0 where there is
        one value only. In a large mask the first rows or slices decide.
    long : float
        The mean length of its parts over their width, if most of it is 0 and several values are the
        rest; else 0.
    """

    name: str
    values: tuple[int, ...]
    counts: tuple[int, ...]
    color: bool = False
    whole: float = 0.0
    long: float = 0.0

    @property
    def pixels(self) -> int:
        """The number of pixels."""
        return sum(self.counts)

    def ids(self, void: Iterable[int] = ()) -> frozenset[int]:
        """Return the values that are neither 0 nor void; -1 is void in arrays."""
        return frozenset(self.values) - {0, -1, *void}


def tally(name: str, mask: Array, color: bool = False) -> Tally:
    """Count the pixels of a mask, (h, w) or (d, h, w) integers; packed ones if they are colours."""
    if mask.dtype.kind in "bf":
        mask = mask.astype(np.int64)
    if mask.dtype in (np.uint8, np.uint16):
        found = np.bincount(mask.ravel())
        values = np.flatnonzero(found)
        counts = found[values]
    else:
        values, counts = np.unique(mask, return_counts=True)
    whole, length = 0.0, 0.0
    named = [k for k, value in enumerate(values) if value not in (0, VOID, -1)]
    if not color and len(named) > 1:
        part = mask[: max(1, LARGE * len(mask) // mask.size)]
        places = np.searchsorted(values, part).astype(np.int32)
        held = np.bincount(places.ravel(), minlength=len(values))
        named = [k for k in named if held[k]]
        whole = _whole(places, held, named)
        unpainted = counts[values == 0].sum() >= UNPAINTED * mask.size
        if unpainted and 1 < len(named) < MANY:
            length = _length(places, held, named)
    few = slice(None, MOST_VALUES)
    return Tally(name, tuple(values[few].tolist()), tuple(counts[few].tolist()), color, whole,
                 length)  # fmt: skip


def _whole(places: Array, counts: Array, named: Sequence[int]) -> float:
    """Return how many values of all are one connected part, but for crumbs; 0 if too few are."""
    boxes = ndimage.find_objects(places + 1)
    found, failed = 0, 0
    for k in named:
        parts, _ = ndimage.label(places[boxes[k]] == k, np.ones((3,) * places.ndim))
        one = np.bincount(parts.ravel())[1:].max() >= IN_ONE * counts[k]
        found, failed = found + one, failed + (not one)
        if failed > 3 + (1 - OF_ALL) * len(named):
            return 0.0
    return found / max(len(named), 1)


def _length(places: Array, counts: Array, named: Sequence[int]) -> float:
    """Return the mean length of parts over their width, weighted by pixels: 1 for a disc."""
    boxes, total = ndimage.find_objects(places + 1), 0.0
    for k in named:
        inside = np.pad(places[boxes[k]] == k, 1)
        parts, count = ndimage.label(inside, np.ones((3,) * places.ndim))
        radius = ndimage.maximum(ndimage.distance_transform_edt(inside), parts, range(1, count + 1))
        area = np.bincount(parts.ravel())[1:]
        total += float((area**2 / (np.pi * np.maximum(np.asarray(radius) - 0.5, 0.5) ** 2)).sum())
    return total / float(counts[list(named)].sum())


def void_of(tallies: Sequence[Tally], stated: Stated) -> int | None:
    """Return the void value of masks that may number objects; None where 255 is a number."""
    seen = {value for one in tallies for value in one.values}
    alone = VOID in seen and max(seen) == VOID and VOID - 1 not in seen
    return stated.void_value if stated.void_value is not None else VOID if alone else None


def are_numbered(tallies: Sequence[Tally], void: int | None) -> bool:
    """Whether masks number their objects: many ids, each of one part, others in other masks."""
    held = [(one, one.ids(() if void is None else (void,))) for one in tallies]
    held = [(one, ids) for one, ids in held if ids]
    several = [(one, ids) for one, ids in held if len(ids) > 1]
    if not several or any(min(ids) < 0 or one.color for one, ids in held):
        return False
    n_objects = sum(len(ids) for _, ids in several)
    sizes = [n for one, ids in held for v, n in zip(one.values, one.counts) if v in ids]
    whole = sum(one.whole * len(ids) for one, ids in several)
    if whole < OF_ALL * n_objects or np.median(sizes) < SUBSTANCE:
        return False
    most, kinds = max(len(ids) for _, ids in held), {ids for _, ids in held}
    if most >= MANY:
        return len(held) == 1 or len(kinds) > 1  # all masks with the same ids: layers, organs
    counted_on = all(max(ids) == len(ids) for _, ids in held)
    return (
        most >= SEVERAL
        and len(kinds) > 2
        and counted_on
        and all(0 in one.values for one, _ in held)
    )


def as_numbered(tallies: Sequence[Tally], stated: Stated) -> tuple[Stated, str]:
    """Return what is stated of masks, with numbered objects as one label; and a line that says so.

    The line is empty, and what is stated the same, where the user or the training of a model has
    settled what values mean, or where masks do not number their objects.
    """
    settled = (stated.object_value, stated.threshold, stated.colors) != (None, None, None)
    if stated.known is not None:
        # Values of the training masks keep their meaning; other numbers may be objects.
        trained = {*stated.known.values, stated.known.void_value, -1}
        other = any(not trained.issuperset(one.values) for one in tallies)
        settled = settled or stated.known.kind not in ("ids", "binary") or not other
    void = void_of(tallies, stated)
    if settled or stated.n_labels not in (None, 2) or not are_numbered(tallies, void):
        return stated, ""
    most = max(len(one.ids(() if void is None else (void,))) for one in tallies)
    return replace(stated, object_value="nonzero", void_value=void), (
        f"masks number their objects (up to {most} in one of {counted(len(tallies), 'mask')}, each "
        "in one part), and all objects are read as one label. If the numbers are classes, use "
        "labels='unordered'"
    )


@dataclass(frozen=True)
class Share:
    """The pixels of a label in all masks.

    Parameters
    ----------
    value : str
        Its value in the masks, in words.
    pixels, of_all : int
        Its pixels, and those of all labels.
    masks : tuple of str
        The masks that hold it.
    slip : bool
        Whether it is so small, in so few masks, that it may be a slip of the brush.
    """

    value: str
    pixels: int
    of_all: int
    masks: tuple[str, ...]
    slip: bool


def shares_of(tallies: Sequence[Tally], coding: Coding) -> list[Share]:
    """Return the share of every label that the masks hold."""
    counts = np.array([_label_counts(one, coding) for one in tallies]).reshape(len(tallies), -1)
    known = counts.sum(axis=1, keepdims=True)
    total = int(known.sum())
    small = counts <= np.maximum(SLIP_PIXELS, SLIP * known)
    shares = []
    for label in range(counts.shape[1]):
        pixels, holds = int(counts[:, label].sum()), counts[:, label] > 0
        few = 3 * holds.sum() <= len(tallies) and pixels < SLIP_OF_ALL * total
        slip = bool(pixels and few and small[holds, label].all())
        masks = tuple(one.name for one, held in zip(tallies, holds) if held)
        shares.append(Share(_word(coding, label), pixels, total, masks, slip))
    return shares


def _label_counts(one: Tally, coding: Coding) -> list[int]:
    """Return the pixels of every label of one mask."""
    values = np.array(one.values, np.int64)
    labels: Array
    if coding.kind == "threshold":
        labels = values  # cut already
    elif coding.kind == "colors":
        packed = values if one.color else values * 0x010101
        planes = np.stack([packed >> 16, packed >> 8 & 255, packed & 255], axis=-1)
        labels = coding.labels(planes[None])[0]
    else:
        labels = coding.labels(values)
    known = (labels != VOID) & (values != -1)
    found = np.bincount(labels[known], np.array(one.counts)[known], coding.n_labels)
    return [int(count) for count in found]


def _word(coding: Coding, label: int) -> str:
    """Return the value of a label in words."""
    if coding.values:
        value = coding.values[label]
        return hex_of(value) if coding.kind == "colors" else str(value)
    return ("background", "object")[label]


def told_shares(tallies: Sequence[Tally], coding: Coding) -> str:
    """Return one line with the share of every label, and of the pixels that are not annotated.

    Examples
    --------
    >>> mask = np.array([[0, 0, 0, 1, 255]], np.uint8)
    >>> line = told_shares([tally("a", mask)], Coding("ids", void_value=255, values=(0, 1)))
    >>> line.removeprefix("labels by their values, as shares of the ")
    'annotated pixels: 0: 75 %, 1: 25 %; 20 % of all pixels are not annotated'
    """
    shares, pixels = shares_of(tallies, coding), sum(one.pixels for one in tallies)
    parts = [f"{one.value}: {100 * one.pixels / max(one.of_all, 1):.3g} %" for one in shares]
    more = f", and {len(parts) - MOST_SHARES} more" if len(parts) > MOST_SHARES else ""
    listed = ", ".join(parts[:MOST_SHARES]) + more
    known = sum(one.pixels for one in shares) / pixels
    void = f"; {100 * (1 - known):.3g} % of all pixels are not annotated" if known < 1 else ""
    return f"labels by their values, as shares of the annotated pixels: {listed}{void}"


def doubts(tallies: Sequence[Tally], coding: Coding) -> list[tuple[str, str]]:
    """Return sentences on labels that may be none, each with the value in doubt, if it is one."""
    found = []
    if coding.kind == "ids" and 0 in coding.values and _are_strokes(tallies, coding):
        parts = [one.counts[one.values.index(0)] / one.pixels for one in tallies]
        painted = ", ".join(str(value) for value in coding.values if value != 0)
        found.append((
            f"value 0 covers {100 * min(parts):.3g} to {100 * max(parts):.3g} % of every mask, and "
            f"{painted} are thin strokes: 0 seems to mean not annotated, but is read as a label",
            "0",
        ))  # fmt: skip
    slips = [one for one in shares_of(tallies, coding) if one.slip]
    if slips:
        one, *more = slips
        found.append((
            f"value {one.value} is read as a label, but covers {one.pixels} of {one.of_all} "
            f"annotated pixels, in {len(one.masks)} of {counted(len(tallies), 'mask')} "
            f"({some(one.masks)}), as a slip of the brush does"
            + (f"; so do {some(other.value for other in more)}" if more else ""),
            "" if more else one.value,
        ))  # fmt: skip
    return found


def _are_strokes(tallies: Sequence[Tally], coding: Coding) -> bool:
    """Whether most of every mask is 0, and the rest of those with several values are strokes."""
    void = () if coding.void_value is None else (coding.void_value,)
    unpainted = all(
        0 in one.values and one.counts[one.values.index(0)] >= UNPAINTED * one.pixels
        for one in tallies
    )
    lengths = [one.long for one in tallies if len(one.ids(void)) > 1]
    return unpainted and bool(lengths) and float(np.median(lengths)) >= LONG
