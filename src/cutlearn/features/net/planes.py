"""Flat padded planes, and the layers between them, with their gradients: doors to the C++ core.

A batch of n pictures of h x w pixels and c channels is one matrix (c, length). Each row of pixels
is followed by one zero, each picture by one row of zeros, and the whole has a rim of zeros on both
ends. A pixel's neighbour in any of the nine directions is then a fixed number of columns away, also
at the border, so that the nine shifted copies that a 3 x 3 convolution multiplies are contiguous.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from cutlearn import _core

# float32 in use; float64 where gradients are checked.
Matrix: TypeAlias = npt.NDArray[Any]
# Added to the variance of a channel, so that a constant one stays finite.
LEAST = 1e-5


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

    @property
    def size(self) -> tuple[int, int, int]:
        """The numbers that the core asks for."""
        return self.n, self.h, self.w

    def empty(self, channels: int, dtype: Any) -> Matrix:
        """Planes that are to be written."""
        return np.empty((channels, self.span + 2 * self.rim), dtype)

    def inner(self, planes: Matrix) -> Matrix:
        """All columns between the rims, zeros after rows and pictures included."""
        return planes[:, self.rim : self.rim + self.span]

    def view(self, planes: Matrix) -> Matrix:
        """The pixels of planes as (c, n, h, w), not copied."""
        shape = (len(planes), self.n, self.h + 1, self.stride)
        return self.inner(planes).reshape(shape)[:, :, : self.h, : self.w]

    def put(self, pixels: Matrix) -> Matrix:
        """Planes with these pixels, (c, n, h, w)."""
        planes = np.zeros((len(pixels), self.span + 2 * self.rim), pixels.dtype)
        self.view(planes)[...] = pixels
        return planes

    def halved(self) -> "Layout":
        """The layout after pooling 2 x 2 pixels."""
        return Layout(self.n, self.h // 2, self.w // 2)


def convolve(planes: Matrix, kernel: Matrix, layout: Layout) -> Matrix:
    """Convolve by 3 x 3: out[o] = sum over k, i of kernel[o, k c + i] planes[i, shifted by k].

    Parameters
    ----------
    planes : (c, length)
    kernel : (o, 9 c), direction by direction, each with all channels

    Returns
    -------
    (o, length)
    """
    out = layout.empty(len(kernel), planes.dtype)
    _core.net_convolve(planes, kernel, layout.size, out)
    return out


def convolve_back(slope: Matrix, kernel: Matrix, layout: Layout) -> Matrix:
    """Give the gradient of `convolve` by its planes; slope, (o, length), is that by its output."""
    o, c = len(kernel), kernel.shape[1] // 9
    turned = kernel.reshape(o, 9, c)[:, ::-1].transpose(2, 1, 0).reshape(c, 9 * o)
    return convolve(slope, np.ascontiguousarray(turned), layout)


def kernel_back(slope: Matrix, planes: Matrix, layout: Layout) -> Matrix:
    """Give the gradient of `convolve` by its kernel; slope as in `convolve_back`."""
    by_kernel = np.empty((len(slope), 9 * len(planes)), planes.dtype)
    _core.net_kernel_back(slope, planes, layout.size, by_kernel)
    return by_kernel


def normalise(
    planes: Matrix, gain: Matrix, shift: Matrix, layout: Layout
) -> tuple[Matrix, Matrix, Matrix]:
    """max(0, gain (u - mean) / sqrt(variance + `LEAST`) + shift) of each channel u over the batch.

    Returns
    -------
    the planes, and mean and variance of every channel
    """
    out = layout.empty(len(planes), planes.dtype)
    mean, variance = np.empty_like(gain), np.empty_like(gain)
    _core.net_normalise(planes, gain, shift, LEAST, layout.size, out, mean, variance)
    return out, mean, variance


def normalise_back(
    slope: Matrix,
    planes: Matrix,
    out: Matrix,
    moments: tuple[Matrix, Matrix],
    gain: Matrix,
    layout: Layout,
) -> tuple[Matrix, Matrix]:
    """Make slope, the gradient by `out` of `normalise`, that by its planes, in place.

    With v = (u - mean) / s, z = gain v + shift: dL/du = gain / s (dz - mean dz - v mean(v dz)).

    Returns
    -------
    the gradient by the shift, and that by the gain
    """
    mean, variance = moments
    inverse = (1 / np.sqrt(variance + LEAST)).astype(planes.dtype)
    by_shift, by_gain = np.empty_like(gain), np.empty_like(gain)
    _core.net_normalise_back(
        planes, out, mean, inverse, gain, layout.size, slope, by_shift, by_gain
    )
    return by_shift, by_gain


def rectify(planes: Matrix, shift: Matrix, layout: Layout) -> None:
    """Make planes max(0, planes + shift), in place."""
    _core.net_rectify(planes, shift, layout.size)


def pool(planes: Matrix, layout: Layout) -> Matrix:
    """The largest of every 2 x 2 pixels, in the halved layout."""
    pooled = layout.halved().empty(len(planes), planes.dtype)
    _core.net_pool(planes, layout.size, pooled)
    return pooled


def pool_back(low: Matrix, pooled: Matrix, planes: Matrix, slope: Matrix, layout: Layout) -> None:
    """Add the gradient of `pool` by its planes to slope; `low` is that by the pooled ones.

    All that are largest get it: ties are zeros of a rectifier, whose own gradient is zero.
    """
    _core.net_pool_back(planes, pooled, low, layout.size, slope)


def enlarge(low: Matrix, skip: Matrix, layout: Layout) -> Matrix:
    """Every pixel of the halved layout's planes four times, plus skip."""
    out = layout.empty(len(skip), skip.dtype)
    _core.net_enlarge(low, skip, layout.size, out)
    return out


def enlarge_back(slope: Matrix, layout: Layout) -> Matrix:
    """Give the gradient of `enlarge` by its small planes."""
    low = layout.halved().empty(len(slope), slope.dtype)
    _core.net_enlarge_back(slope, layout.size, low)
    return low


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
