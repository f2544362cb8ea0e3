"""Columns of numbers at every pixel: planes, and the same planes seen at offsets, band by band.

In: a `Stack`, which lists planes and offsets. Out: `Columns` of one band of rows after the other, a
padded copy of its planes and a table of starts, so that a plane seen at an offset costs nothing but
an entry in the table. One room serves all bands: planes of a whole image are never in memory.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from cutlearn.arrays import AnyArray, Float32, Floats, Indices, Shape
from cutlearn.features.filters import DIRECTIONS, Planes, bands, whole

# Rows that are standardised in double at a time.
BLOCK = 1 << 14


@dataclass(frozen=True)
class Columns:
    """Planes of some rows, and where each column starts in them.

    Column f of pixel (y, x) is ``buffer[start[f] + y * stride + x]``, y counted from the first row.

    Attributes
    ----------
    shape : (rows, w)
    buffer : flat float32
    stride : numbers from a pixel to the one below it
    start : (f,) int64
    """

    shape: Shape
    buffer: Float32
    stride: int
    start: Indices

    def rows(self, index: Indices) -> Float32:
        """Return all columns of the pixels `index` (row-major), (len(index), f) float32."""
        y, x = np.divmod(index, self.shape[1])
        rows: Float32 = self.buffer[self.start[None, :] + (y * self.stride + x)[:, None]]
        return rows


@dataclass
class _Group:
    """Planes that are made together, and how far from a pixel they are looked at."""

    planes: Planes
    reach: int = 0


@dataclass
class Stack:
    """Collects planes and their views at offsets, in order."""

    shape: Shape
    groups: list[_Group] = field(default_factory=list)
    # Of every plane: its group, and its number in it.
    planes: list[tuple[int, int]] = field(default_factory=list)
    # Of every column: its plane, and the offset at which it is seen.
    seen: list[tuple[int, int, int]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def add(self, names: str | Sequence[str], planes: Planes | AnyArray) -> range:
        """Append planes; return their numbers. One name for several of them is numbered."""
        made = planes if isinstance(planes, Planes) else whole(planes)
        first = len(self.planes)
        if isinstance(names, str):
            names = [names] if made.count == 1 else [f"{names}.{k}" for k in range(made.count)]
        for k, name in enumerate(names):
            self.seen.append((len(self.planes), 0, 0))
            self.planes.append((len(self.groups), k))
            self.names.append(name)
        self.groups.append(_Group(made))
        return range(first, len(self.planes))

    def offsets(self, name: str, planes: Sequence[int], radius: float) -> None:
        """Add the planes (by number) as seen at `radius` pixels in eight directions."""
        for dy, dx in DIRECTIONS:
            move = round(radius * dy), round(radius * dx)
            for k, plane in enumerate(planes):
                group = self.groups[self.planes[plane][0]]
                group.reach = max(group.reach, abs(move[0]), abs(move[1]))
                self.seen.append((plane, *move))
                self.names.append(f"{name}.{k}@{move[0]},{move[1]}")

    @property
    def reach(self) -> int:
        """The largest offset."""
        return max((group.reach for group in self.groups), default=0)

    def rows(self, index: Indices) -> Float32:
        """Return all columns of the sorted row-major pixels `index`, (len(index), f) float32."""
        return sampled(self, [Stack(self.shape)], [index])[0]


class _BandBuffer:
    """Memory for the planes of a band of a stack, from a place on in a buffer."""

    def __init__(self, stack: Stack, height: int, pad: int, place: int = 0) -> None:
        self.stack, self.pad, self.stride = stack, pad, stack.shape[1] + 2 * pad
        self.sizes = [(height + 2 * group.reach) * self.stride for group in stack.groups]
        counts = [group.planes.count for group in stack.groups]
        ends = np.cumsum([place, *(n * size for n, size in zip(counts, self.sizes))])
        self.places, self.end = ends[:-1].tolist(), int(ends[-1])
        start = []
        for plane, dy, dx in stack.seen:
            g, k = stack.planes[plane]
            row = stack.groups[g].reach + dy
            start.append(self.places[g] + k * self.sizes[g] + row * self.stride + pad + dx)
        self.start = np.array(start, np.int64)

    def fill(self, buffer: Float32, first: int, last: int) -> None:
        """Make the rows first to last - 1 of all planes; borders are continued."""
        pad, w = self.pad, self.stack.shape[1]
        for group, place, size in zip(self.stack.groups, self.places, self.sizes):
            made, inside = group.planes.around(first, last, group.reach)
            room = buffer[place : place + len(made) * size].reshape(len(made), -1, self.stride)
            top = group.reach - inside.start
            end = top + made.shape[1]
            room[:, top:end, pad : pad + w] = made
            if group.reach:
                room[:, top:end, :pad] = made[:, :, :1]
                room[:, top:end, pad + w :] = made[:, :, -1:]
                room[:, :top] = room[:, top : top + 1]
                room[:, end : last - first + 2 * group.reach] = room[:, end - 1 : end]


@dataclass(frozen=True)
class RowBand:
    """Some rows of an image with the planes of a stack, to which others' can be added in turn."""

    first: int
    last: int
    base: _BandBuffer
    more: Sequence[_BandBuffer]
    buffer: Float32

    def columns(self, k: int) -> Columns:
        """Return all columns, with those of the k-th further stack; valid until the next call."""
        room = self.more[k]
        room.fill(self.buffer, self.first, self.last)
        start = np.concatenate([self.base.start, room.start])
        shape = (self.last - self.first, room.stack.shape[1])
        return Columns(shape, self.buffer, room.stride, start)


def describe(
    base: Stack, more: Sequence[Stack], multiple: int = 1, index: Sequence[Indices] | None = None
) -> Iterator[RowBand]:
    """Yield the bands of an image; with an index, only those that contain some of its pixels."""
    h, w = base.shape
    pad = max(stack.reach for stack in (base, *more))
    height = max(last - first for first, last in bands(h, multiple))
    room = _BandBuffer(base, height, pad)
    others = [_BandBuffer(stack, height, pad, room.end) for stack in more]
    buffer = np.empty(max(other.end for other in others), np.float32)
    for first, last in bands(h, multiple):
        if index is not None and not any(_between(k, first * w, last * w).size for k in index):
            continue
        room.fill(buffer, first, last)
        yield RowBand(first, last, room, others, buffer)


def sampled(base: Stack, more: Sequence[Stack], index: Sequence[Indices]) -> list[Float32]:
    """Return all columns of some pixels, for each further stack those of its own index (sorted)."""
    w = base.shape[1]
    made = [np.empty((len(k), len(base.seen) + len(s.seen)), np.float32)
            for s, k in zip(more, index)]  # fmt: skip
    done = [0] * len(made)
    for band in describe(base, more, 1, index):
        for t, wanted in enumerate(index):
            here = _between(wanted, band.first * w, band.last * w) - band.first * w
            if here.size:
                made[t][done[t] : done[t] + here.size] = band.columns(t).rows(here)
                done[t] += here.size
    return made


def _between(index: Indices, first: int, last: int) -> Indices:
    begin, end = np.searchsorted(index, [first, last])
    return index[begin:end]


def standardise(rows: Float32, mean: Floats, scale: Floats) -> Float32:
    """Return rows with mean 0 and deviation 1, changed in place; in double, a block at a time."""
    for first in range(0, len(rows), BLOCK):
        part = rows[first : first + BLOCK]
        part[:] = (part - mean) / scale
    return rows
