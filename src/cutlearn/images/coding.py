"""What the values of masks mean, decided once over all of them: files and arrays by one rule.

A single mask of {0, 255} may be "background and object" or "background and void", and only its
neighbours can tell. The rule, in this order:

1. What the user states holds: a threshold, colours, the object's value, a void value.
2. A model reads masks as it read those of its training: a value keeps its meaning, whatever else
   the masks hold. Two labels may also come as 0 and 1, or as 0 and 255, if that cannot be meant
   otherwise: 1, or 255, had no meaning in the training. Other values are refused.
3. 0 and 255 alone: background and object.
4. 0 and 255 alone in some masks, labels and no 255 in the others: 255 may be either. Refused.
5. Whole numbers below 255 are labels, in their order, and 255 is void. Holes are closed, and named.
   Numbers above 63 together with 255 look like grey levels: refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from cutlearn.arrays import VOID, AnyArray, Mask
from cutlearn.errors import InputError, plural
from cutlearn.images.listing import some

# Masks with more values than this hold a photograph or smoothed edges, not labels.
MOST_LABELS = 64
# The highest value that is a label without doubt where 255 is there as well.
LARGEST_ID = 63
# A grey of 1 as a packed colour.
GREY = 0x010101
# Larger values are packed colours.
LARGEST_GREY = 2**16 - 1
KEPT = ("kind", "object_value", "void_value", "values", "threshold")
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
Kind = Literal["ids", "binary", "object", "nonzero", "threshold", "colors"]


@dataclass(frozen=True)
class Coding:
    """What the values of masks mean.

    Parameters
    ----------
    kind : {"ids", "binary", "object", "nonzero", "threshold", "colors"}
        "ids": `values[k]` is label k; "binary": 0 and 255 are labels 0 and 1; "object": one value
        is label 1 and all others 0; "nonzero": 0 is label 0 and all others 1; "threshold": values
        from it upwards are label 1; "colors": `values[k]`, a packed colour, is label k.
    object_value : int or None
        The value of the object, where one is needed.
    void_value : int or None
        The value that means void; None if the masks have none.
    values : tuple of int
        The value of every label, where each has one.
    threshold : float or None
    doubt : str
        A warning for the user, if the masks could have been read in another way.
    """

    kind: Kind
    object_value: int | None = None
    void_value: int | None = None
    values: tuple[int, ...] = ()
    threshold: float | None = None
    doubt: str = field(default="", compare=False)

    @classmethod
    def of_values(cls, values: Sequence[int]) -> Coding:
        """Return the coding whose labels have these values in masks."""
        known = tuple(map(int, values))
        if known == (0, VOID):
            return cls("binary", VOID, None, known)
        return cls("colors" if max(known) > LARGEST_GREY else "ids", None, None, known)

    def to_plain(self) -> dict[str, Any]:
        """Return what a model file keeps."""
        return {name: getattr(self, name) for name in KEPT}

    @classmethod
    def from_plain(cls, plain: Any) -> Coding:
        """Read what `to_plain` gave; raise ValueError, KeyError or TypeError if it cannot be."""
        made = cls(*(plain[name] for name in KEPT))
        made = replace(made, values=tuple(made.values))
        numbers = [v for v in (made.object_value, made.void_value, *made.values) if v is not None]
        good = made.kind in get_args(Kind) and all(type(v) is int for v in numbers)
        good = good and all(-(2**31) <= v < 2**31 for v in numbers) and len(made.values) <= 256
        needs = {
            "ids": len(made.values) > 1, "colors": len(made.values) > 1,
            "threshold": type(made.threshold) in (int, float),
            "binary": made.object_value is not None, "object": made.object_value is not None,
        }  # fmt: skip
        if not good or not needs.get(made.kind, True):
            raise ValueError("a coding of masks that cannot be")
        return made

    @property
    def n_labels(self) -> int:
        """The number of labels, at least two."""
        return max(2, len(self.values))

    def labels(self, values: AnyArray) -> Mask:
        """Labels of the values of a mask: uint8, void is 255."""
        if self.kind == "threshold":
            found = np.asarray(gray(values) >= self.threshold, np.uint8)
        elif self.kind in ("colors", "ids"):
            found = self._numbered(packed(values) if self.kind == "colors" else values)
        elif self.kind == "nonzero":
            found = np.asarray(values != 0, np.uint8)
        else:
            found = np.asarray(values == self.object_value, np.uint8)
        if self.void_value is not None:
            found[values == self.void_value] = VOID
        return found

    def _numbered(self, values: AnyArray) -> Mask:
        """Return the index of every value among those of the labels; void for all others."""
        order = np.argsort(self.values, kind="stable")
        known = np.array(self.values)[order]
        at = np.minimum(np.searchsorted(known, values), len(known) - 1)
        return np.where(known[at] == values, order[at], VOID).astype(np.uint8)

    def told(self) -> str:
        """Return in one line what the values mean; nothing where values are labels already."""
        return _joined(self._meaning(), self.doubt)

    def _meaning(self) -> str:
        void = f"{self.void_value} is not annotated" if self.void_value is not None else ""
        if self.kind == "threshold":
            return f"mask values from {self.threshold:g} upwards are the object"
        if self.kind == "nonzero":
            return "mask values other than 0 are the object"
        if self.kind == "binary":
            return "mask values 0 and 255 are read as background and object"
        if self.kind == "object":
            return _joined(f"mask value {self.object_value} is the object", void)
        if self.kind == "colors":
            named = ", ".join(f"{k} = {hex_of(v)}" for k, v in enumerate(self.values))
            return f"colours of the masks are read as labels: {named}"
        if self.values == tuple(range(len(self.values))):
            return ""
        return _joined(
            f"mask values {_few(self.values)} are labels 0 to {len(self.values) - 1} in this order",
            void,
        )


ZERO_ONE = Coding("ids", values=(0, 1))


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def packed(values: AnyArray) -> npt.NDArray[np.int64]:
    """Return the values of a mask as integers; a colour is red, green and blue in one number."""
    if values.ndim == 2:
        return values.astype(np.int64) * GREY
    red, green, blue = (values[..., k].astype(np.int64) for k in range(3))
    return (red << 16) | (green << 8) | blue


def gray(values: AnyArray) -> AnyArray:
    """Return one number per pixel: the mean of the colours."""
    return values if values.ndim == 2 else values[..., :3].mean(axis=-1)


def hex_of(color: int) -> str:
    """Write a packed colour as #rrggbb."""
    return f"#{color:06x}"


@dataclass(frozen=True)
class Stated:
    """What the user states of the values of masks; `known`: how a model read its training masks."""

    object_value: int | Literal["nonzero"] | None = None
    void_value: int | None = None
    n_labels: int | None = None
    threshold: float | None = None
    colors: Sequence[int] | None = None
    known: Coding | None = None


FILES = (
    "State which value is the object with object_value=VALUE (or object_value='nonzero' for "
    "numbered objects), which is not annotated with void_value=VALUE, or cut grey levels with "
    "threshold=128."
)


def decide(
    seen: Mapping[int, str],
    sets: Iterable[frozenset[int]],
    stated: Stated,
    where: str = "masks",
    advice: str = FILES,
    color: bool = False,
) -> Coding:
    """Return what the values mean, or refuse what may mean several things.

    `seen`: every value with the first mask that has it; `sets`: the values of each mask.
    """
    if stated.threshold is not None:
        return Coding("threshold", threshold=stated.threshold)
    if color:
        return _colors(seen, sets, stated, where, advice)
    object_value, void_value = stated.object_value, stated.void_value
    if object_value == "nonzero":
        return Coding("nonzero", None, void_value)
    if object_value is not None:
        trained = stated.known is not None and stated.known.object_value == object_value
        if object_value not in seen and not trained:
            raise InputError(
                f"{where}: the masks hold the values {_few(seen)}, but not the object's value "
                f"{object_value}. State another object_value."
            )
        void = VOID if void_value is None and object_value != VOID else void_value
        return Coding("object", object_value, void)
    if stated.known is not None:
        void_value = stated.known.void_value if void_value is None else void_value
        return _as_known(seen, sets, replace(stated.known, void_value=void_value), where, advice)
    named = seen.keys() - {void_value}
    if named <= {0, VOID} and VOID in named and stated.n_labels in (None, 2):
        return Coding("binary", VOID, void_value, (0, VOID))
    if void_value is None:
        _refuse_mixed(sets, where, advice)
    return _ids(seen, stated, where, advice)


def _refuse_mixed(sets: Iterable[frozenset[int]], where: str, advice: str) -> None:
    """Refuse masks of {0, 255} among others with labels, where 255 may be an object or void."""
    known = list(sets)
    full = [part for part in known if VOID in part and part <= {0, VOID}]
    named = [part for part in known if part - {0, VOID}]
    if full and named and not any(VOID in part for part in named):
        labels = sorted(frozenset().union(*named) - {0})
        raise InputError(
            f"{where}: {len(full)} of the masks hold only 0 and 255, but {len(named)} hold "
            f"{_few(labels)} and no 255: 255 may be an object or pixels that are not annotated. "
            f"{advice}"
        )


def _as_known(
    seen: Mapping[int, str],
    sets: Iterable[frozenset[int]],
    known: Coding,
    where: str,
    advice: str,
) -> Coding:
    """Read masks as a model read those of its training, or as the plain forms of two labels."""
    plain = known.n_labels == 2
    if known.kind in ("object", "nonzero"):
        return known
    if known.kind == "threshold":
        dark = known.threshold is not None and known.threshold > 1
        return ZERO_ONE if dark and 1 in seen and seen.keys() <= {0, 1} else known
    strange = seen.keys() - {*known.values, known.void_value}
    if not strange:
        object_, void = known.values[1], known.void_value
        if plain and void == VOID and known.values[0] == 0 and seen.keys() == {0, VOID}:
            doubt = (
                f"255 is not annotated, as in training, and no mask holds the object ({object_})"
            )
            return replace(known, doubt=doubt)
        return known
    if plain and VOID in strange and seen.keys() <= {0, VOID}:
        return Coding("binary", VOID, None, (0, VOID))
    if plain:
        _refuse_mixed(sets, where, advice)
        if 1 in strange and seen.keys() <= {0, 1, VOID}:
            return replace(ZERO_ONE, void_value=VOID if VOID in seen else None)
    if strange == {VOID} and known.void_value is None:
        return replace(known, void_value=VOID)
    value = min(strange)
    raise InputError(
        f"{where}: the masks hold the value {value} (first in {seen[value]}), but the model knows "
        f"{_few(known.values)} from its training. {advice}"
    )


def _ids(seen: Mapping[int, str], stated: Stated, where: str, advice: str) -> Coding:
    void = VOID if stated.void_value is None else stated.void_value
    ids = sorted(seen.keys() - {void})
    n = stated.n_labels
    if n is not None and (not ids or ids[-1] < n <= VOID):
        return Coding("ids", None, void if void in seen else None, tuple(range(n)))
    grey = VOID in seen and stated.void_value is None and ids and ids[-1] > LARGEST_ID
    many = len(ids) > MOST_LABELS or (ids and ids[0] < 0)
    if (n is not None and len(ids) != n) or grey or many or not ids:
        top = ids[-1] if ids else void
        wanted = f"{n} labels are needed" if n else "labels, or 0 and 255, are needed"
        doubt = " They look like grey levels, or smoothed edges." if grey or many else ""
        raise InputError(
            f"{where}: the masks hold the values {_few(seen)} ({top} first in {seen[top]}), but "
            f"{wanted}.{doubt} {advice}"
        )
    alone = len(ids) == 1 and ids[0] != 0  # objects, and nothing beside them
    values = (0, *ids) if alone else tuple(ids)
    return Coding("ids", None, void if void in seen else None, values)


def _colors(
    seen: Mapping[int, str],
    sets: Iterable[frozenset[int]],
    stated: Stated,
    where: str,
    advice: str,
) -> Coding:
    """Colours as labels: those that are stated or known, or all that were found, black first."""
    if stated.object_value is not None or stated.void_value is not None:
        raise InputError(
            f"{where}: the masks are colour pictures, so object_value and void_value, which are "
            "grey values, say nothing about them. State the colours of the labels with colors=..."
        )
    colors, known = stated.colors, stated.known
    if colors is None and known is not None and known.kind == "colors":
        colors = known.values
    if colors is not None:
        strange = [v for v in seen if v not in colors]
        if strange:
            named = ", ".join(map(hex_of, colors))
            whose = f"only {named} are stated" if stated.colors else f"the model knows {named}"
            raise InputError(
                f"{where}: the masks hold the colour {hex_of(strange[0])} (first in "
                f"{seen[strange[0]]}), but {whose}. Add it to colors."
            )
        return Coding("colors", values=tuple(colors))
    if known is not None and all(v % GREY == 0 for v in seen):  # grey masks saved in colour
        greys = {v // GREY: name for v, name in seen.items()}
        parts = [frozenset(v // GREY for v in part) for part in sets]
        found = decide(greys, parts, replace(stated, threshold=None), where, advice)
        if found.kind in ("ids", "binary"):
            return Coding("colors", values=tuple(v * GREY for v in found.values))
    if known is not None and len(seen) != known.n_labels:
        raise InputError(
            f"{where}: the masks are pictures of {len(seen)} colours, but the model has "
            f"{known.n_labels} labels. State the colour of every label with colors=..."
        )
    if len(seen) > MOST_LABELS:
        raise InputError(
            f"{where}: the masks are pictures of {len(seen)} colours, but a label is one colour. "
            "Cut light from dark with threshold=128, or state the colours of the labels with "
            "colors=..."
        )
    return Coding("colors", values=tuple(sorted(seen)))


def _few(seen: Iterable[int]) -> str:
    values = sorted(seen)
    text = ", ".join(map(str, values[:6]))
    return text if len(values) <= 6 else f"{text}, ... {values[-1]} ({len(values)} in all)"


@dataclass(frozen=True)
class Tally:
    """Counts of one mask: its values, or packed colours, in their order, and the pixels of each.

    `whole`: the share of the values other than 0 and void that are one connected part; 0 where
    there is one value only. In a large mask the first rows or slices decide. `long`: the mean
    length of its parts over their width, if most of it is 0 and several values are the rest; else
    0.
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

    def ids(self, void: int | None = None) -> frozenset[int]:
        """Return the values that are neither 0 nor void; -1 is void in arrays."""
        return frozenset(value for value in self.values if value not in (0, -1, void))


def tally(name: str, mask: AnyArray, color: bool = False) -> Tally:
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


def _whole(places: AnyArray, counts: AnyArray, named: Sequence[int]) -> float:
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


def _length(places: AnyArray, counts: AnyArray, named: Sequence[int]) -> float:
    """Return the mean length of parts over their width, weighted by pixels: 1 for a disc."""
    boxes, total = ndimage.find_objects(places + 1), 0.0
    for k in named:
        inside = np.pad(places[boxes[k]] == k, 1)
        parts, count = ndimage.label(inside, np.ones((3,) * places.ndim))
        radius = ndimage.maximum(ndimage.distance_transform_edt(inside), parts, range(1, count + 1))
        area = np.bincount(parts.ravel())[1:]
        total += float((area**2 / (np.pi * np.maximum(np.asarray(radius) - 0.5, 0.5) ** 2)).sum())
    return total / float(counts[list(named)].sum())


def are_numbered(tallies: Sequence[Tally], void: int | None) -> bool:
    """Return whether masks number their objects: many ids of one part each, unlike in each mask."""
    held = [(one, one.ids(void)) for one in tallies]
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
    seen = {value for one in tallies for value in one.values}
    settled = (stated.object_value, stated.threshold, stated.colors) != (None, None, None)
    if stated.known is not None:
        # Values of the training masks keep their meaning; other numbers may be objects.
        trained = {*stated.known.values, stated.known.void_value, -1}
        settled |= stated.known.kind not in ("ids", "binary") or seen <= trained
    void = stated.void_value
    if void is None and VOID in seen and max(seen) == VOID and VOID - 1 not in seen:
        void = VOID  # where 254 is a number of an object, so is 255
    if settled or stated.n_labels not in (None, 2) or not are_numbered(tallies, void):
        return stated, ""
    most = max(len(one.ids(void)) for one in tallies)
    return replace(stated, object_value="nonzero", void_value=void), (
        f"masks number their objects (up to {most} in one of {plural(len(tallies), 'mask')}, each "
        "in one part), and all objects are read as one label. If the numbers are classes, use "
        "labels='unordered'"
    )


@dataclass(frozen=True)
class Share:
    """The pixels of a label in all masks, of those of all labels, and the masks that hold it.

    `slip`: whether it is so small, in so few masks, that it may be a slip of the brush.
    """

    value: str
    pixels: int
    of_all: int
    masks: tuple[str, ...]
    slip: bool


def shares_of(tallies: Sequence[Tally], coding: Coding) -> list[Share]:
    """Return the share of every label that the masks hold."""
    counts = np.array([label_counts(one, coding) for one in tallies]).reshape(len(tallies), -1)
    known = counts.sum(axis=1, keepdims=True)
    total = int(known.sum())
    small = counts <= np.maximum(SLIP_PIXELS, SLIP * known)
    shares = []
    for label in range(counts.shape[1]):
        pixels, holds = int(counts[:, label].sum()), counts[:, label] > 0
        few = 3 * holds.sum() <= len(tallies) and pixels < SLIP_OF_ALL * total
        slip = bool(pixels and few and small[holds, label].all())
        masks = tuple(one.name for one, held in zip(tallies, holds) if held)
        value = ("background", "object")[label] if not coding.values else str(coding.values[label])
        value = hex_of(coding.values[label]) if coding.kind == "colors" else value
        shares.append(Share(value, pixels, total, masks, slip))
    return shares


def label_counts(one: Tally, coding: Coding) -> list[int]:
    """Return the pixels of every label of one mask."""
    values = np.array(one.values, np.int64)
    labels: AnyArray
    if coding.kind == "threshold":
        labels = values  # cut already
    elif coding.kind == "colors":
        packed = values if one.color else values * GREY
        planes = np.stack([packed >> 16, packed >> 8 & 255, packed & 255], axis=-1)
        labels = coding.labels(planes[None])[0]
    else:
        labels = coding.labels(values)
    known = (labels != VOID) & (values != -1)
    found = np.bincount(labels[known], np.array(one.counts)[known], coding.n_labels)
    return [int(count) for count in found]


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
            f"annotated pixels, in {len(one.masks)} of {plural(len(tallies), 'mask')} "
            f"({some(one.masks)}), as a slip of the brush does"
            + (f"; so do {some(other.value for other in more)}" if more else ""),
            "" if more else one.value,
        ))  # fmt: skip
    return found


def _are_strokes(tallies: Sequence[Tally], coding: Coding) -> bool:
    """Return whether most of every mask is 0, and the rest, where values differ, are strokes."""
    unpainted = all(
        0 in one.values and one.counts[one.values.index(0)] >= UNPAINTED * one.pixels
        for one in tallies
    )
    lengths = [one.long for one in tallies if len(one.ids(coding.void_value)) > 1]
    return unpainted and bool(lengths) and float(np.median(lengths)) >= LONG
