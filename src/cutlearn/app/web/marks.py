"""Marks of the user on an image: strokes and a box, with undo and redo, kept as drafts on the disk.

Marks come from a browser or from a file that anybody may have changed, so all of them are checked.
Coordinates are those of the image: x to the right, y down, the pixel (row i, column j) covers j <=
x < j + 1 and i <= y < i + 1.

A draft is a small JSON file per image and tab, so that a crash or a reload loses no mark. A tab
reads its own marks again. A new tab that opens the image starts with a copy of the newest ones; its
marks then go to a file of its own, so two tabs never mix.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.app.web.security import LIMITS, PageLimits
from cutlearn.arrays import Floats
from cutlearn.errors import InputError
from cutlearn.store import atomic_write

Seeds = NDArray[np.int16]
Corners = tuple[int, int, int, int]
# The label of a stroke that takes marks away, and of pixels without a mark.
NONE = -1
# The key of a tab, and the files of one image that are kept; the oldest are removed.
TAB, KEPT_FILES = re.compile("[0-9a-f]{32}"), 4


@dataclass(frozen=True, eq=False)
class Stroke:
    """A line drawn with a round brush: marks every pixel whose centre it comes near enough to.

    Parameters
    ----------
    label : int
        -1: marks are taken away.
    radius : float
    points : (n, 2) float array
        x and y.
    """

    label: int
    radius: float
    points: Floats

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        flat = self.points.ravel().tolist()
        return {"kind": "stroke", "label": self.label, "radius": self.radius, "points": flat}

    def paint(self, seeds: Seeds) -> None:
        """Put the label into every pixel whose centre is within the radius of the line."""
        first = self.points[:-1] if len(self.points) > 1 else self.points
        second = self.points[1:] if len(self.points) > 1 else self.points
        # However small the brush is, it marks the pixel that it is in.
        reach = max(self.radius, math.sqrt(0.5))
        for a, b in zip(first, second):
            rows, columns = self.window(a, b, reach, seeds.shape)
            y = np.arange(rows.start, rows.stop)[:, None] + 0.5 - a[1]
            x = np.arange(columns.start, columns.stop) + 0.5 - a[0]
            dx, dy = b - a
            length = dx * dx + dy * dy
            along = np.clip((x * dx + y * dy) / length, 0, 1) if length > 0 else 0.0
            near = (x - along * dx) ** 2 + (y - along * dy) ** 2 <= reach * reach
            seeds[rows, columns][near] = self.label

    @staticmethod
    def window(a: Floats, b: Floats, reach: float, shape: tuple[int, ...]) -> tuple[slice, slice]:
        """Return the rows and columns that a part of the line can mark."""
        low, high = np.minimum(a, b) - reach, np.maximum(a, b) + reach
        ends = [(max(0, math.floor(low[k])), min(shape[1 - k], math.ceil(high[k]))) for k in (1, 0)]
        rows, columns = (slice(start, max(start, stop)) for start, stop in ends)
        return rows, columns

    def ink(self, shape: tuple[int, int]) -> int:
        """Return how many pixels `paint` compares."""
        ends = zip(self.points[:-1], self.points[1:]) if len(self.points) > 1 else ()
        spans = (self.window(a, b, max(self.radius, 1.0), shape) for a, b in ends)
        return sum((r.stop - r.start) * (c.stop - c.start) for r, c in spans)


@dataclass(frozen=True)
class Box:
    """A box around the object, (top, left, bottom, right) and half-open; None: there is none."""

    corners: Corners | None

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {"kind": "box", "box": None if self.corners is None else list(self.corners)}


Mark = Stroke | Box


@dataclass
class Marks:
    """The marks of an image, of which the first `position` count: the others can be redone.

    Parameters
    ----------
    shape : (int, int)
    marks : list of Stroke and Box
    position : int
    """

    shape: tuple[int, int]
    marks: list[Mark] = field(default_factory=list)
    position: int = 0
    _painted: tuple[int, Seeds] | None = field(default=None, repr=False, compare=False)

    @property
    def current(self) -> list[Mark]:
        """The marks that count."""
        return self.marks[: self.position]

    @property
    def box(self) -> Corners | None:
        """The last box."""
        boxes = [mark for mark in self.current if isinstance(mark, Box)]
        return boxes[-1].corners if boxes else None

    def grown_box(self, seeds: Seeds) -> Corners | None:
        """The last box, grown around what was marked as object outside of it."""
        if self.box is None:
            return None
        rows, columns = (np.flatnonzero((seeds > 0).any(axis=axis)) for axis in (1, 0))
        top, left, bottom, right = self.box
        if not rows.size:
            return self.box
        return (min(top, int(rows[0])), min(left, int(columns[0])),
                max(bottom, int(rows[-1]) + 1), max(right, int(columns[-1]) + 1))  # fmt: skip

    def seeds(self) -> Seeds:
        """Return the label of every pixel, -1 without a mark; later strokes cover earlier ones."""
        # Earlier marks stay painted; only after an undo all are painted again.
        begin, seeds = self._painted or (0, np.full(self.shape, NONE, np.int16))
        for mark in self.marks[begin : self.position]:
            if isinstance(mark, Stroke):
                mark.paint(seeds)
        self._painted = self.position, seeds
        return seeds.copy()

    def add(self, new: list[Mark], limits: PageLimits = LIMITS) -> None:
        """Add marks; those that were undone are dropped."""
        if self.position + len(new) > limits.marks:
            raise InputError(
                f"marks: there are {self.position + len(new)}, but at most {limits.marks} are kept "
                "of an image. Undo some, or accept the mask."
            )
        self.marks = [*self.current, *new]
        self._go(len(self.marks))

    def with_more(self, new: list[Mark]) -> "Marks":
        """Return other marks: these, and some more."""
        more = Marks(self.shape, [*self.current, *new], self.position + len(new))
        more._painted = self.position, self.seeds()
        return more

    def steps(self, begin: int) -> "Iterator[Marks]":
        """Return the first begin + 1 of these marks, then one more each time, and these at last.

        All of them are painted in one pass.
        """
        growing = Marks(self.shape, self.marks, begin)
        if self._painted is not None and self._painted[0] <= begin:
            growing._painted = self._painted[0], self._painted[1].copy()
        while growing.position < self.position - 1:
            growing.move(1)
            yield growing
        self._painted = self._painted or growing._painted
        yield self

    def move(self, steps: int) -> None:
        """Undo (-1) or redo (1); nothing happens where there is nothing to."""
        self._go(min(max(self.position + steps, 0), len(self.marks)))

    def clear(self) -> None:
        """Undo all; redo brings them back one by one."""
        self._go(0)

    def _go(self, position: int) -> None:
        if position < self.position:
            self._painted = None
        self.position = position

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {"marks": [mark.to_json() for mark in self.marks], "position": self.position}


def parse(data: bytes) -> dict[str, Any]:
    """Return a JSON object; raise one sentence where it is none."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise InputError("request: the body is not JSON. Reload the page.") from None
    if not isinstance(found, dict):
        raise InputError("request: the body is not a JSON object. Reload the page.")
    return found


def marks_of(
    found: Any, shape: tuple[int, int], n_labels: int, limits: PageLimits = LIMITS
) -> list[Mark]:
    """Return marks from JSON; refuse what is out of bounds."""
    if not isinstance(found, list) or len(found) > limits.marks:
        raise InputError(f"marks: a list of at most {limits.marks} marks was wanted.")
    return [_mark(one, shape, n_labels, limits) for one in found]


def _mark(one: Any, shape: tuple[int, int], n_labels: int, limits: PageLimits) -> Mark:
    kind = one.get("kind") if isinstance(one, dict) else None
    if kind == "box":
        return Box(_corners(one.get("box"), shape))
    if kind == "stroke":
        return _stroke(one, shape, n_labels, limits)
    raise InputError("marks: each must be an object of the kind stroke or box.")


def _corners(found: Any, shape: tuple[int, int]) -> Corners | None:
    if found is None:
        return None
    if not (isinstance(found, list) and len(found) == 4 and all(type(v) is int for v in found)):
        raise InputError("box: four whole numbers were wanted: top, left, bottom, right.")
    top, left, bottom, right = found
    if not (0 <= top < bottom <= shape[0] and 0 <= left < right <= shape[1]):
        raise InputError(
            f"box: the corners must lie in order within {shape[0]} rows and {shape[1]} columns, "
            "with at least one pixel between them."
        )
    return top, left, bottom, right


def _stroke(
    one: dict[str, Any], shape: tuple[int, int], n_labels: int, limits: PageLimits
) -> Stroke:
    label, radius, flat = one.get("label"), one.get("radius"), one.get("points")
    if type(label) is not int or not NONE <= label < n_labels:
        raise InputError(f"stroke: the label must be a whole number from -1 to {n_labels - 1}.")
    if type(radius) not in (int, float) or not 0 < radius <= limits.radius:  # type: ignore[operator]
        raise InputError(f"stroke: the radius must be a number above 0, at most {limits.radius:g}.")
    if not isinstance(flat, list) or not 2 <= len(flat) <= 2 * limits.points or len(flat) % 2:
        raise InputError(f"stroke: 1 to {limits.points} points were wanted, as x, y, x, y, ..")
    if not all(type(v) in (int, float) and abs(v) <= 1e6 for v in flat):
        raise InputError("stroke: the coordinates must be numbers within the image.")
    # Rounded as in the file, so that a stroke marks the same pixels after a reload.
    points = np.round(np.array(flat, np.float64), 2).reshape(-1, 2)
    stroke = Stroke(label, float(radius), points)  # type: ignore[arg-type]
    if stroke.ink(shape) > limits.ink * max(shape[0] * shape[1], 10_000):
        raise InputError("stroke: it is too long for its width. Draw it in parts.")
    return stroke


class Drafts:
    """The marks of all images in a folder.

    Parameters
    ----------
    folder : path
        Made when the first marks come.
    limits : PageLimits
    """

    def __init__(self, folder: Path, limits: PageLimits = LIMITS) -> None:
        self.folder, self.limits = folder, limits

    def write(self, name: str, tab: str, marks: Marks) -> None:
        """Keep the marks that a tab has made on the image of a name."""
        if not TAB.fullmatch(tab):
            raise InputError("tab: 32 hexadecimal digits were wanted. Reload the page.")
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"image": name, "shape": marks.shape, **marks.to_json()})
        atomic_write(self.folder / f"{_key(name)}-{tab}.json", text.encode())
        for old in self._of(name)[KEPT_FILES:]:
            old.unlink(missing_ok=True)

    def read(self, name: str, tab: str, shape: tuple[int, int], n_labels: int) -> Marks:
        """Return the marks of a tab, else the newest of the image, else none."""
        own = self.folder / f"{_key(name)}-{tab}.json"
        for path in [own, *self._of(name)]:
            found = self._opened(path, shape, n_labels)
            if found is not None:
                return found
        return Marks(shape)

    def since(self, name: str, tab: str, path: Path) -> bool:
        """Return whether the marks that a tab would read are younger than a file."""
        own = self.folder / f"{_key(name)}-{tab}.json"
        found = [own] if own.is_file() else self._of(name)[:1]
        return any(one.stat().st_mtime_ns > path.stat().st_mtime_ns for one in found)

    def begun(self, names: Iterable[str]) -> set[str]:
        """Return those of the names on whose images something was drawn."""
        keys = {path.name.split("-")[0] for path in self.folder.glob("*.json")}
        return {name for name in names if _key(name) in keys} if keys else set()

    def _of(self, name: str) -> list[Path]:
        """Return the files of an image, the newest first."""
        found = self.folder.glob(f"{_key(name)}-*.json")
        return sorted(found, key=lambda path: path.stat().st_mtime_ns, reverse=True)

    def _opened(self, path: Path, shape: tuple[int, int], n_labels: int) -> Marks | None:
        """Return the marks of a file; None where it is missing, damaged, or of another image."""
        try:
            found = parse(path.read_bytes())
            marks = marks_of(found.get("marks"), shape, n_labels, self.limits)
        except (OSError, InputError):
            return None
        position = found.get("position")
        if type(position) is not int or not 0 <= position <= len(marks):
            return None
        return Marks(shape, marks, position) if found.get("shape") == [*shape] else None


def _key(name: str) -> str:
    """Return the file name for an image name of any length and letters."""
    return hashlib.blake2b(name.encode(errors="surrogateescape"), digest_size=12).hexdigest()
