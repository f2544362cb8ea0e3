"""Filters on stacks of planes: blur, gradient orientations, Hessian, statistics on rings, palettes.

A stack is (c, h, w) float32, a plane (h, w) float32; distances and sigmas are in pixels. Borders
are mirrored (blur) or continued (shifts). Every filter takes any size down to 1 x 1 and is
deterministic. Wide blurs work on a reduced copy, so their cost does not grow with sigma.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import ndimage

Float32: TypeAlias = npt.NDArray[np.float32]

DIRECTIONS = tuple((np.sin(a), np.cos(a)) for a in np.arange(8) * np.pi / 4)
DENSE_DIRECTIONS = tuple((np.sin(a), np.cos(a)) for a in np.arange(16) * np.pi / 8)


def blur(stack: Float32, sigma: float) -> Float32:
    """Gaussian mean of every plane.

    Parameters
    ----------
    stack : (..., h, w) float32
    sigma : float
        Standard deviation in pixels.

    Returns
    -------
    (..., h, w) float32
    """
    h, w = stack.shape[-2:]
    step = 1
    while 2 * step <= sigma / 2 and 2 * step <= min(h, w) / 8:
        step *= 2
    small = reduce(stack, step)
    # A mean over step x step pixels is already a blur of variance (step^2 - 1) / 12.
    rest = np.sqrt(sigma**2 - (step**2 - 1) / 12) / step
    for axis in (-2, -1):
        small = ndimage.gaussian_filter1d(small, rest, axis=axis, truncate=3.0, mode="reflect")
    return enlarge(small, step, (h, w))


def reduce(stack: Float32, step: int) -> Float32:
    """Means over step x step pixels; borders are continued to whole blocks."""
    if step == 1:
        return stack
    h, w = stack.shape[-2:]
    pad = [(0, 0)] * (stack.ndim - 2) + [(0, -h % step), (0, -w % step)]
    full = np.pad(stack, pad, mode="edge")
    rows, cols = full.shape[-2] // step, full.shape[-1] // step
    blocks = full.reshape(*stack.shape[:-2], rows, step, cols, step)
    mean: Float32 = blocks.mean(axis=(-3, -1), dtype=np.float32)
    return mean


def enlarge(stack: Float32, step: int, shape: tuple[int, int], centred: bool = True) -> Float32:
    """Linear interpolation of a reduced stack back to (h, w) = shape.

    ``centred``: the stack holds means of blocks (as `reduce`); else it holds every step-th pixel.
    """
    if step == 1:
        return stack
    for axis, size in ((-1, shape[1]), (-2, shape[0])):
        centre = (step - 1) / 2 if centred else 0.0
        place = (np.arange(size) - centre) / step
        place = np.clip(place, 0, stack.shape[axis] - 1)
        low = np.minimum(place.astype(np.intp), max(stack.shape[axis] - 2, 0))
        high = np.minimum(low + 1, stack.shape[axis] - 1)
        part = (place - low).astype(stack.dtype)
        if axis == -2:
            part = part[:, None]
        start = stack.take(low, axis=axis)
        stack = start + part * (stack.take(high, axis=axis) - start)
    return stack


def gradient(plane: Float32) -> tuple[Float32, Float32]:
    """Central differences along rows and columns (one-sided at borders, 0 on one pixel)."""
    parts = [
        ndimage.correlate1d(plane, [-0.5, 0.0, 0.5], axis=axis, mode="nearest") for axis in (0, 1)
    ]
    return parts[0], parts[1]


def orientations(stack: Float32, bins: int = 8) -> Float32:
    """Gradient magnitude spread over `bins` unsigned orientations, (bins, h, w) float32.

    Every pixel takes the plane of the stack with the strongest gradient there; its magnitude
    is divided linearly between the two nearest orientations.
    """
    pairs = [gradient(plane) for plane in stack]
    gy = np.stack([p[0] for p in pairs])
    gx = np.stack([p[1] for p in pairs])
    square = gy * gy + gx * gx
    best = np.argmax(square, axis=0)[None]
    gy, gx = (np.take_along_axis(g, best, axis=0)[0] for g in (gy, gx))
    size = np.sqrt(np.take_along_axis(square, best, axis=0)[0])
    place = (np.arctan2(gy, gx, dtype=np.float64) % np.pi) * (bins / np.pi)
    low = np.floor(place)
    part = (place - low).astype(np.float32)
    low = low.astype(np.intp) % bins
    spread = np.zeros((bins, *size.shape), np.float32)
    index = np.indices(size.shape, sparse=True)
    spread[(low, *index)] = size * (1 - part)
    spread[((low + 1) % bins, *index)] = size * part
    return spread


def hessian(plane: Float32, sigma: float) -> Float32:
    """Larger and smaller eigenvalue of the Hessian at scale sigma, times sigma^2; (2, h, w)."""
    xx, yy, xy = (
        ndimage.gaussian_filter(plane, sigma, order=order, truncate=3.0) * np.float32(sigma**2)
        for order in ((0, 2), (2, 0), (1, 1))
    )
    mean, half = (xx + yy) / 2, (xx - yy) / 2
    root = np.sqrt(half * half + xy * xy)
    return np.stack([mean + root, mean - root])


def rings(plane: Float32, radius: float) -> Float32:
    """Mean, deviation, minimum and maximum of 16 samples on a circle; (4, h, w) float32."""
    total = np.zeros_like(plane)
    square = np.zeros_like(plane)
    low = np.full_like(plane, np.inf)
    high = np.full_like(plane, -np.inf)
    # Deviations from one constant keep the difference of squares exact enough in float32.
    centre = np.float32(plane.mean(dtype=np.float64))
    h, w = plane.shape
    pad = int(np.ceil(radius))
    wide = np.pad(plane - centre, pad, mode="edge")
    for dy, dx in DENSE_DIRECTIONS:
        top, left = pad + round(radius * dy), pad + round(radius * dx)
        moved = wide[top : top + h, left : left + w]
        total += moved
        square += moved * moved
        np.minimum(low, moved, out=low)
        np.maximum(high, moved, out=high)
    mean = total / 16
    spread = np.sqrt(np.maximum(square / 16 - mean * mean, 0))
    return np.stack([mean + centre, spread, low + centre, high + centre])


class Palette:
    """Pixels of like values: a blurred histogram of an image's own colours, to average over.

    Parameters
    ----------
    stack : (c, h, w) float32
    low, high : c floats
        Range of each plane; values outside count as at its ends.
    bins : c ints
    """

    def __init__(
        self, stack: Float32, low: Sequence[float], high: Sequence[float], bins: Sequence[int]
    ) -> None:
        self.shape, self.bins = stack.shape[1:], tuple(bins)
        codes = [
            np.clip((plane - a) * (n / (b - a)), 0, n - 1).astype(np.intp)
            for plane, a, b, n in zip(stack, low, high, bins)
        ]
        self.code = np.ravel_multi_index(codes, self.bins).reshape(-1)
        self.count = self._histogram(None)

    def _histogram(self, weights: Float32 | None) -> Float32:
        flat = None if weights is None else weights.reshape(-1)
        size = int(np.prod(self.bins))
        grid = np.bincount(self.code, flat, minlength=size).reshape(self.bins)
        smooth: Float32 = ndimage.gaussian_filter(
            grid.astype(np.float32), 1.0, mode="constant", truncate=3.0
        )
        return smooth

    def share(self) -> Float32:
        """Of every pixel: the share of the image's pixels that are like it, (h, w)."""
        return self._spread(self.count / np.float32(self.code.size))

    def mean(self, plane: Float32) -> Float32:
        """Of every pixel: the mean of a plane over the pixels that are like it, (h, w)."""
        return self._spread(self._histogram(plane) / (self.count + np.float32(1e-6)))

    def _spread(self, grid: Float32) -> Float32:
        values: Float32 = grid.reshape(-1)[self.code].reshape(self.shape)
        return values
