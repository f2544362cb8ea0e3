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

from cutlearn.arrays import VOID
from cutlearn.errors import InputError

# Masks with more values than this hold a photograph or smoothed edges, not labels.
MOST_LABELS = 64
# The highest value that is a label without doubt where 255 is there as well.
LARGEST_ID = 63
# A grey of 1 as a packed colour.
GREY = 0x010101
# Larger values are packed colours.
LARGEST_GREY = 2**16 - 1
KEPT = ("kind", "object_value", "void_value", "values", "threshold")
LabelMap = npt.NDArray[np.uint8]
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

    def labels(self, values: npt.NDArray[Any]) -> LabelMap:
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

    def _numbered(self, values: npt.NDArray[Any]) -> LabelMap:
        """The place of every value among those of the labels; void for all others."""
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


def packed(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Give the values of a mask as integers; a colour is red, green and blue in one number."""
    if values.ndim == 2:
        return values.astype(np.int64) * GREY
    red, green, blue = (values[..., k].astype(np.int64) for k in range(3))
    return (red << 16) | (green << 8) | blue


def gray(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Give one number a pixel: the mean of the colours."""
    return values if values.ndim == 2 else values[..., :3].mean(axis=-1)


def hex_of(color: int) -> str:
    """Write a packed colour as #rrggbb."""
    return f"#{color:06x}"


@dataclass(frozen=True)
class Stated:
    """What the user states about the values of masks.

    Parameters
    ----------
    object_value : int, "nonzero" or None
    void_value : int or None
    n_labels : int or None
        How many labels there must be.
    threshold : float or None
    colors : sequence of packed colours, or None
        In the order of the labels.
    known : Coding or None
        How a model read the masks of its training.
    """

    object_value: int | Literal["nonzero"] | None = None
    void_value: int | None = None
    n_labels: int | None = None
    threshold: float | None = None
    colors: Sequence[int] | None = None
    known: Coding | None = None

    @property
    def in_colors(self) -> bool:
        """Whether masks are colour pictures because the user says so."""
        return self.colors is not None


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
    """Give what the values mean, or refuse what may mean several things.

    Parameters
    ----------
    seen : mapping
        Every value in the masks, with the first mask that has it.
    sets : iterable of sets
        The values of each mask.
    stated : Stated
    where, advice : str
        How to call the masks in a refusal, and what to do about it.
    color : bool
        Whether the values are packed colours.
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
