"""Filters on planes: blur, gradient orientations, Hessian, statistics on rings, palettes.

They take and give `Planes`, which are made by rows; distances and sigmas are in pixels. Borders
are mirrored (blur) or continued (shifts). Every filter takes any size down to 1 x 1 and is
deterministic. Wide blurs work on a reduced copy, so their cost does not grow with sigma; only that
copy is kept.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy import ndimage

from cutlearn import _core
from cutlearn.arrays import AnyArray, Float32, Floats, Indices, Shape

# Rows that are made at a time: fewer repeat more of what lies around them, more need more memory.
BAND = 64


@dataclass(frozen=True)
class Planes:
    """Some planes of an image, by rows.

    Attributes
    ----------
    count : number of planes
    shape : (h, w)
    rows : callable (first, last)
        Gives the rows first to last - 1 of all planes, (count, last - first, w) float32.
    """

    count: int
    shape: Shape
    rows: Callable[[int, int], Float32]

    def all(self) -> Float32:
        """Return all rows, (count, h, w) float32."""
        made = np.empty((self.count, *self.shape), np.float32)
        for first, last in bands(self.shape[0]):
            made[:, first:last] = self.rows(first, last)
        return made

    def around(self, first: int, last: int, reach: int) -> tuple[Float32, slice]:
        """Return rows with `reach` more on both sides, within the image, and their slice."""
        top, bottom = max(0, first - reach), min(self.shape[0], last + reach)
        return self.rows(top, bottom), slice(first - top, last - top)

    def each(self, work: Callable[[Float32], Any], count: int | None = None) -> "Planes":
        """Return planes that `work` makes of every row by itself, `count` of them."""
        made = self.count if count is None else count
        return Planes(made, self.shape, lambda first, last: work(self.rows(first, last)))

    def __getitem__(self, plane: int) -> "Planes":
        """Return one of the planes."""
        return self.each(lambda part: part[plane : plane + 1], 1)


def whole(stack: AnyArray) -> Planes:
    """Return planes that are in memory already, (h, w) or (c, h, w)."""
    planes = stack.reshape(-1, *stack.shape[-2:])
    shape = (planes.shape[1], planes.shape[2])
    return Planes(len(planes), shape, lambda first, last: planes[:, first:last])


def bands(height: int, multiple: int = 1) -> Iterator[tuple[int, int]]:
    """Yield first and last row of every band; all but the last end at a multiple.

    Examples
    --------
    >>> from cutlearn.features.filters import (bands)
    >>> list(bands(150, 5))
    [(0, 60), (60, 120), (120, 150)]
    """
    size = max(1, BAND // multiple) * multiple
    for first in range(0, height, size):
        yield first, min(first + size, height)


DIRECTIONS = tuple((np.sin(a), np.cos(a)) for a in np.arange(8) * np.pi / 4)
DENSE_DIRECTIONS = tuple((np.sin(a), np.cos(a)) for a in np.arange(16) * np.pi / 8)


def blur(stack: Float32, sigma: float) -> Float32:
    """Return the Gaussian mean of every plane of a stack, (h, w) or (c, h, w) float32."""
    return blurred(whole(stack), sigma).all().reshape(stack.shape)


def blurred(planes: Planes, sigma: float) -> Planes:
    """Return the Gaussian mean of every plane; sigma: standard deviation in pixels."""
    h, w = planes.shape
    step = 1
    while 2 * step <= sigma / 2 and 2 * step <= min(h, w) / 8:
        step *= 2
    # A mean over step x step pixels is already a blur of variance (step^2 - 1) / 12.
    rest = np.sqrt(sigma**2 - (step**2 - 1) / 12) / step
    kernel = gaussian(float(rest))
    if step > 1:
        small = reduced(planes, step)
        return enlarged(smooth(small, slice(0, small.shape[1]), kernel, kernel), step, (h, w))

    def rows(first: int, last: int) -> Float32:
        part, inside = planes.around(first, last, kernel.reach)
        return smooth(part, inside, kernel, kernel)

    return Planes(planes.count, planes.shape, rows)


class Kernel(NamedTuple):
    """One side of a kernel: weights at distances 0, 1, ..; the other has the same times sign."""

    weights: Floats
    sign: float

    @property
    def reach(self) -> int:
        """Pixels on each side that it looks at."""
        return len(self.weights) - 1


@cache
def gaussian(sigma: float, order: int = 0) -> Kernel:
    """Return a Gaussian, or a derivative of it, up to three deviations."""
    reach = int(3.0 * sigma + 0.5)
    impulse = np.zeros(4 * reach + 3)
    impulse[2 * reach + 1] = 1
    seen = ndimage.gaussian_filter1d(impulse, sigma, order=order, truncate=3.0, mode="constant")
    return Kernel(seen[2 * reach + 1 : 3 * reach + 2].copy(), -1.0 if order % 2 else 1.0)


def smooth(stack: Float32, rows: slice, down: Kernel, across: Kernel) -> Float32:
    """Filter some rows of a stack along columns, then along rows; borders are mirrored."""
    made = np.empty((len(stack), rows.stop - rows.start, stack.shape[2]), np.float32)
    given = np.ascontiguousarray(stack, np.float32)
    _core.smooth(given, rows.start, down.weights, down.sign, across.weights, across.sign, made)
    return made


def reduced(planes: Planes, step: int) -> Float32:
    """Return means over step x step pixels; borders are continued to whole blocks."""
    h, w = planes.shape
    small = np.empty((planes.count, -(-h // step), -(-w // step)), np.float32)
    for first, last in bands(h, step):
        small[:, first // step : -(-last // step)] = reduce(planes.rows(first, last), step)
    return small


def reduce(stack: Float32, step: int) -> Float32:
    """Return means over step x step pixels of a stack (.., h, w), summed along rows first."""
    if step == 1:
        return stack
    h, w = stack.shape[-2:]
    if h % step or w % step:
        pad = [(0, 0)] * (stack.ndim - 2) + [(0, -h % step), (0, -w % step)]
        stack = np.pad(stack, pad, mode="edge")
    parts = [stack[..., k::step] for k in range(step)]
    if step >= 8:  # eight sums side by side, then in pairs, as numpy sums a row
        even = step // 8 * 8
        a, b, c, d, e, f, g, h8 = (_total(parts[k:even:8]) for k in range(8))
        parts = [((a + b) + (c + d)) + ((e + f) + (g + h8)), *parts[even:]]
    across = _total(parts)
    rows = _total([across[..., k::step, :] for k in range(step)])
    mean: Float32 = rows / np.float32(step * step)
    return mean


def _total(parts: Sequence[Float32]) -> Float32:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def enlarged(small: Float32, step: int, shape: Shape, centred: bool = True) -> Planes:
    """Return a reduced stack (c, .., ..) interpolated linearly to (h, w) = shape.

    ``centred``: the stack holds means of blocks (as `reduced`); else it holds every step-th pixel.
    """
    if step == 1:
        return whole(small)
    given = np.ascontiguousarray(small, np.float32)
    left, part = _places(0, shape[1], step, small.shape[2], centred)

    def rows(first: int, last: int) -> Float32:
        above, share = _places(first, last, step, small.shape[1], centred)
        made = np.empty((len(small), last - first, shape[1]), np.float32)
        _core.enlarge(given, above, share, left, part, made)
        return made

    return Planes(len(small), shape, rows)


def enlarge(planes: Float32, step: int, shape: Shape, centred: bool = True) -> Float32:
    """Return reduced planes (.., ..) or (c, .., ..) interpolated as `enlarged`, in memory."""
    if step == 1:
        return planes
    stack = planes.reshape(-1, *planes.shape[-2:])
    return enlarged(stack, step, shape, centred).all().reshape(*planes.shape[:-2], *shape)


def _places(first: int, last: int, step: int, size: int, centred: bool) -> tuple[Indices, Float32]:
    """Return places in a reduced line for those in the enlarged one: index and fraction."""
    place = (np.arange(first, last) - ((step - 1) / 2 if centred else 0.0)) / step
    place = np.clip(place, 0, size - 1)
    low = np.minimum(place.astype(np.int64), max(size - 2, 0))
    return low, (place - low).astype(np.float32)


def slopes(planes: Planes) -> tuple[Planes, Planes]:
    """Return central differences along rows and columns (one-sided at borders, 0 on one pixel)."""

    def down(first: int, last: int) -> Float32:
        part, inside = planes.around(first, last, 1)
        return _difference(part, 1)[:, inside]

    across = planes.each(lambda part: _difference(part, 2))
    return Planes(planes.count, planes.shape, down), across


def _difference(stack: Float32, axis: int) -> Float32:
    made: Float32 = ndimage.correlate1d(stack, [-0.5, 0.0, 0.5], axis=axis, mode="nearest")
    return made


def orientations(planes: Planes, bins: int = 8) -> Planes:
    """Return the gradient magnitude divided over `bins` unsigned orientations.

    Every pixel takes the plane with the strongest gradient there; its magnitude is divided
    linearly between the two nearest orientations. Three numbers a pixel are kept.
    """
    down, across = slopes(planes)
    shape = planes.shape
    near, far = np.empty(shape, np.float32), np.empty(shape, np.float32)
    places = np.empty(shape, np.uint8)
    for begin, end in bands(shape[0]):
        gy, gx = down.rows(begin, end), across.rows(begin, end)
        square = gy * gy + gx * gx
        best = np.argmax(square, axis=0)[None]
        gy, gx = (np.take_along_axis(g, best, axis=0)[0] for g in (gy, gx))
        size = np.sqrt(np.take_along_axis(square, best, axis=0)[0])
        place = (np.arctan2(gy, gx, dtype=np.float64) % np.pi) * (bins / np.pi)
        low = np.floor(place)
        part = (place - low).astype(np.float32)
        places[begin:end] = low.astype(np.intp) % bins
        near[begin:end] = size * (1 - part)
        far[begin:end] = size * part

    def rows(first: int, last: int) -> Float32:
        low = places[first:last].reshape(-1).astype(np.intp)
        made = np.zeros((bins, low.size), np.float32)
        where = np.arange(low.size)
        made[low, where] = near[first:last].reshape(-1)
        made[(low + 1) % bins, where] = far[first:last].reshape(-1)
        return made.reshape(bins, last - first, -1)

    return Planes(bins, shape, rows)


def hessian(plane: Planes, sigma: float) -> Planes:
    """Return the larger and smaller eigenvalue of the Hessian at scale sigma, times sigma^2."""
    kernels = [gaussian(float(sigma), order) for order in range(3)]

    def rows(first: int, last: int) -> Float32:
        part, inside = plane.around(first, last, kernels[0].reach)
        xx, yy, xy = (
            smooth(part, inside, kernels[down], kernels[across])[0] * np.float32(sigma**2)
            for down, across in ((0, 2), (2, 0), (1, 1))
        )
        mean, half = (xx + yy) / 2, (xx - yy) / 2
        root = np.sqrt(half * half + xy * xy)
        return np.stack([mean + root, mean - root])

    return Planes(2, plane.shape, rows)


def middle(plane: Planes) -> np.float32:
    """Return the mean of a plane."""
    return np.float32(plane.all()[0].mean(dtype=np.float64))


def rings(plane: Planes, radius: float, centre: np.float32) -> Planes:
    """Return mean, deviation, minimum and maximum of 16 samples on a circle.

    Deviations from one constant, `centre`, keep the difference of squares exact enough in float32.
    """
    pad = int(np.ceil(radius))
    moves = np.array([np.rint([radius * dy, radius * dx]) for dy, dx in DENSE_DIRECTIONS])
    moves = moves.astype(np.int64)

    def rows(first: int, last: int) -> Float32:
        part, inside = plane.around(first, last, pad)
        more = (pad - inside.start, pad - (part.shape[1] - inside.stop))
        wide = np.pad(part - centre, ((0, 0), more, (pad, pad)), mode="edge")
        made = np.empty((4, last - first, plane.shape[1]), np.float32)
        _core.rings(wide, moves, pad, made)
        total, square, low, high = made
        total /= 16
        square /= 16
        square -= total * total
        np.sqrt(np.maximum(square, 0, out=square), out=square)
        for one in (total, low, high):
            one += centre
        return made

    return Planes(4, plane.shape, rows)


def concatenated(a: Planes, b: Planes) -> Planes:
    """Return the planes of both."""

    def rows(first: int, last: int) -> Float32:
        return np.concatenate([a.rows(first, last), b.rows(first, last)])

    return Planes(a.count + b.count, a.shape, rows)


def mean_and_spread(planes: Planes, sigma: float) -> Planes:
    """Return mean and deviation under a Gaussian window, of all planes."""
    mean, square = blurred(planes, sigma), blurred(planes.each(lambda part: part * part), sigma)

    def rows(first: int, last: int) -> Float32:
        here = mean.rows(first, last)
        spread = np.sqrt(np.maximum(square.rows(first, last) - here * here, 0))
        return np.concatenate([here, spread])

    return Planes(2 * planes.count, planes.shape, rows)


def position(shape: Shape) -> Planes:
    """Return row and column of every pixel centre, in [0, 1]."""
    x = (np.arange(shape[1]).astype(np.float32) + 0.5) / shape[1]

    def rows(first: int, last: int) -> Float32:
        y = (np.arange(first, last).astype(np.float32) + 0.5) / shape[0]
        return np.stack(np.broadcast_arrays(y[:, None], x[None, :]))

    return Planes(2, shape, rows)


class ColorHistogram:
    """A blurred histogram of an image's own colours, to average over pixels of like colour.

    Parameters
    ----------
    planes : Planes
    low, high : floats, one for each plane
        Its range; values outside count as at its ends.
    bins : ints, one for each plane
    """

    def __init__(
        self, planes: Planes, low: Sequence[float], high: Sequence[float], bins: Sequence[int]
    ) -> None:
        self.shape, self.bins = planes.shape, tuple(bins)
        size = int(np.prod(self.bins))
        self.code = np.empty(self.shape, np.uint16 if size <= 2**16 else np.int32)
        count = np.zeros(size, np.int64)
        for first, last in bands(self.shape[0]):
            codes = [
                np.clip((plane - a) * (n / (b - a)), 0, n - 1).astype(np.intp)
                for plane, a, b, n in zip(planes.rows(first, last), low, high, bins)
            ]
            code = np.ravel_multi_index(codes, self.bins)
            count += np.bincount(code.reshape(-1), minlength=size)
            self.code[first:last] = code
        self.count = self._smooth(count)

    def _smooth(self, grid: AnyArray) -> Float32:
        made: Float32 = ndimage.gaussian_filter(
            grid.reshape(self.bins).astype(np.float32), 1.0, mode="constant", truncate=3.0
        )
        return made

    def share_table(self) -> Float32:
        """Return for every colour the share of the image's pixels that are like it."""
        made: Float32 = self.count / np.float32(self.code.size)
        return made

    def mean_tables(self, planes: Planes) -> list[Float32]:
        """Return for every colour the means of planes over the pixels that are like it."""
        sums = np.zeros((planes.count, self.count.size))
        for first, last in bands(self.shape[0]):
            code = self.code[first:last].reshape(-1).astype(np.intp)
            # One addition after the other, so that the sums do not depend on the bands.
            for total, part in zip(sums, planes.rows(first, last)):
                np.add.at(total, code, part.reshape(-1).astype(np.float64))
        return [self._smooth(total) / (self.count + np.float32(1e-6)) for total in sums]

    def look_up(self, tables: Sequence[Float32]) -> Planes:
        """Return for every pixel the values of its colour in the tables."""
        table = np.stack([one.reshape(-1) for one in tables])

        def rows(first: int, last: int) -> Float32:
            return np.asarray(table.take(self.code[first:last], axis=1))

        return Planes(len(table), self.shape, rows)
