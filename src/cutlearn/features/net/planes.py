"""Flat padded planes, and the linear maps between them, with their gradients.

A batch of n pictures of h x w pixels and c channels is one matrix (c, length). Each row of pixels
is followed by one zero, each picture by one row of zeros, and the whole has a rim of zeros on both
ends. A pixel's neighbour in any of the nine directions is then a fixed number of columns away, also
at the border, so that the nine shifted copies that a 3 x 3 convolution multiplies are contiguous.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

# float32 in use; float64 where gradients are checked.
Matrix: TypeAlias = npt.NDArray[Any]
# Columns that are multiplied at a time: their nine copies fit into the cache of a core.
BLOCK = 2048


@dataclass(frozen=True)
class Layout:
    """Where the pixels of n pictures of h x w lie in flat padded planes."""

    n: int
    h: int
    w: int

    @property
    def stride(self) -> int:
        """Columns from a pixel to the one below it."""
        return self.w + 1

    @property
    def rim(self) -> int:
        """Zeros before the first pixel, and after the last row of zeros."""
        return self.stride + 1

    @property
    def span(self) -> int:
        """Columns between the rims."""
        return self.n * (self.h + 1) * self.stride

    @property
    def pixels(self) -> int:
        """Pixels of all pictures."""
        return self.n * self.h * self.w

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Columns from a pixel to its nine neighbours, row by row; the middle one is itself."""
        return tuple(dy * self.stride + dx for dy in (-1, 0, 1) for dx in (-1, 0, 1))

    def empty(self, channels: int, dtype: Any) -> Matrix:
        """Planes of zeros."""
        return np.zeros((channels, self.span + 2 * self.rim), dtype)

    def inner(self, planes: Matrix) -> Matrix:
        """All columns between the rims, zeros after rows and pictures included."""
        return planes[:, self.rim : self.rim + self.span]

    def view(self, planes: Matrix) -> Matrix:
        """The pixels of planes as (c, n, h, w), not copied."""
        shape = (len(planes), self.n, self.h + 1, self.stride)
        return self.inner(planes).reshape(shape)[:, :, : self.h, : self.w]

    def put(self, pixels: Matrix) -> Matrix:
        """Planes with these pixels, (c, n, h, w)."""
        planes = self.empty(len(pixels), pixels.dtype)
        self.view(planes)[...] = pixels
        return planes

    def clear(self, planes: Matrix) -> None:
        """Put back the zeros after rows and pictures."""
        shape = (len(planes), self.n, self.h + 1, self.stride)
        whole = self.inner(planes).reshape(shape)
        whole[:, :, self.h] = 0
        whole[:, :, :, self.w] = 0

    def halved(self) -> "Layout":
        """The layout after pooling 2 x 2 pixels."""
        return Layout(self.n, self.h // 2, self.w // 2)


def _blocks(layout: Layout, channels: int, dtype: Any) -> Any:
    """Give (first column, last, matrix for the nine copies) of every block of columns."""
    room = np.empty((9 * channels, min(BLOCK, layout.span)), dtype)
    for first in range(0, layout.span, BLOCK):
        size = min(BLOCK, layout.span - first)
        yield first + layout.rim, first + layout.rim + size, room[:, :size]


def _gather(planes: Matrix, layout: Layout, first: int, last: int, room: Matrix) -> None:
    """Copy the nine neighbours of columns first to last, direction by direction."""
    c = len(planes)
    for k, offset in enumerate(layout.offsets):
        room[k * c : (k + 1) * c] = planes[:, first + offset : last + offset]


def convolve(planes: Matrix, kernel: Matrix, layout: Layout) -> Matrix:
    """Convolve by 3 x 3: out[o] = sum over k, i of kernel[o, k c + i] planes[i, shifted by k].

    Parameters
    ----------
    planes : (c, length)
    kernel : (o, 9 c), direction by direction, each with all channels

    Returns
    -------
    (o, length); what lies between the pictures is not zero yet: see `Layout.clear`
    """
    out = layout.empty(len(kernel), planes.dtype)
    for first, last, room in _blocks(layout, len(planes), planes.dtype):
        _gather(planes, layout, first, last, room)
        np.matmul(kernel, room, out=out[:, first:last])
    return out


def convolve_back(slope: Matrix, kernel: Matrix, layout: Layout) -> Matrix:
    """Give the gradient of `convolve` by its planes.

    slope : (o, length), the gradient by the output, zero between the pictures.
    """
    o, c = len(kernel), kernel.shape[1] // 9
    turned = kernel.reshape(o, 9, c)[:, ::-1].transpose(2, 1, 0).reshape(c, 9 * o)
    by_planes = convolve(slope, np.ascontiguousarray(turned), layout)
    layout.clear(by_planes)
    return by_planes


def kernel_back(slope: Matrix, planes: Matrix, layout: Layout) -> Matrix:
    """Give the gradient of `convolve` by its kernel; slope as in `convolve_back`."""
    by_kernel = np.zeros((len(slope), 9 * len(planes)), planes.dtype)
    for first, last, room in _blocks(layout, len(planes), planes.dtype):
        _gather(planes, layout, first, last, room)
        by_kernel += slope[:, first:last] @ room.T
    return by_kernel


def pool(planes: Matrix, layout: Layout) -> Matrix:
    """The largest of every 2 x 2 pixels, in the halved layout."""
    view = layout.view(planes)
    tall = np.maximum(view[:, :, 0::2], view[:, :, 1::2])
    return layout.halved().put(np.maximum(tall[..., 0::2], tall[..., 1::2]))


def pool_back(slope: Matrix, pooled: Matrix, planes: Matrix, layout: Layout) -> Matrix:
    """Give the gradient of `pool` by its planes.

    All that are largest get it: ties are zeros of a rectifier, whose own gradient is zero.
    """
    half = layout.halved()
    top, steep = half.view(pooled), half.view(slope)
    out = layout.empty(len(planes), planes.dtype)
    view, made = layout.view(planes), layout.view(out)
    for dy in (0, 1):
        for dx in (0, 1):
            made[:, :, dy::2, dx::2] = (view[:, :, dy::2, dx::2] == top) * steep
    return out


def enlarge(planes: Matrix, layout: Layout) -> Matrix:
    """Give every pixel of the halved layout's planes four times, in the layout."""
    out = layout.empty(len(planes), planes.dtype)
    low, made = layout.halved().view(planes), layout.view(out)
    for dy in (0, 1):
        for dx in (0, 1):
            made[:, :, dy::2, dx::2] = low
    return out


def enlarge_back(slope: Matrix, layout: Layout) -> Matrix:
    """Give the gradient of `enlarge` by its planes, in the halved layout."""
    view = layout.view(slope)
    tall = view[:, :, 0::2] + view[:, :, 1::2]
    return layout.halved().put(tall[..., 0::2] + tall[..., 1::2])


def to_depth(pixels: Matrix) -> Matrix:
    """Pictures (c, n, h, w) as (4 c, n, h / 2, w / 2): 2 x 2 pixels become channels."""
    c, n, h, w = pixels.shape
    parts = pixels.reshape(c, n, h // 2, 2, w // 2, 2)
    return np.ascontiguousarray(parts.transpose(3, 5, 0, 1, 2, 4)).reshape(4 * c, n, h // 2, w // 2)


def from_depth(pixels: Matrix) -> Matrix:
    """The inverse of `to_depth`."""
    c, n, h, w = len(pixels) // 4, *pixels.shape[1:]
    parts = pixels.reshape(2, 2, c, n, h, w).transpose(2, 3, 4, 0, 5, 1)
    return np.ascontiguousarray(parts).reshape(c, n, 2 * h, 2 * w)
