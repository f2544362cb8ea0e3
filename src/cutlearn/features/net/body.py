"""The net: its layers on flat padded planes, its shape, its logits, and their gradient.

A batch of n pictures of h x w pixels and c channels is one matrix (c, length). Each row of pixels
is followed by one zero, each picture by one row of zeros, and the whole has a rim of zeros on both
ends. A pixel's neighbour in any of the nine directions is then a fixed number of columns away, also
at the border, so that the nine shifted copies that a 3 x 3 convolution multiplies are contiguous.
The layers are loops of the C++ core.

2 x 2 pixels become channels. On every level there are two units (3 x 3 convolution, batch
normalisation, rectifier), and the largest of 2 x 2 pixels is passed down. On the way up: a matrix
on the channels, every pixel four times, the sum with the planes of this level on the way down, one
unit. At the end a 3 x 3 convolution, and channels become 2 x 2 pixels again. With `whole`, a matrix
times the mean over the picture is added on the lowest level.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from cutlearn import _core
from cutlearn.arrays import AnyArray

# float32 in use; float64 where gradients are checked.
Matrix: TypeAlias = AnyArray
# Added to the variance of a channel, so that a constant one stays finite.
LEAST = 1e-5


@dataclass(frozen=True)
class PlaneLayout:
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
        """Pictures, rows and columns, for the core."""
        return self.n, self.h, self.w

    def empty(self, channels: int, dtype: Any) -> Matrix:
        """Return planes that are to be written."""
        return np.empty((channels, self.span + 2 * self.rim), dtype)

    def inner(self, planes: Matrix) -> Matrix:
        """Return all columns between the rims, zeros after rows and pictures included."""
        return planes[:, self.rim : self.rim + self.span]

    def view(self, planes: Matrix) -> Matrix:
        """Return the pixels of planes as (c, n, h, w), not copied."""
        shape = (len(planes), self.n, self.h + 1, self.stride)
        return self.inner(planes).reshape(shape)[:, :, : self.h, : self.w]

    def put(self, pixels: Matrix) -> Matrix:
        """Return planes with these pixels, (c, n, h, w)."""
        planes = np.zeros((len(pixels), self.span + 2 * self.rim), pixels.dtype)
        self.view(planes)[...] = pixels
        return planes

    def halved(self) -> "PlaneLayout":
        """Return the layout after pooling 2 x 2 pixels."""
        return PlaneLayout(self.n, self.h // 2, self.w // 2)


def convolve(planes: Matrix, kernel: Matrix, layout: PlaneLayout) -> Matrix:
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


def convolve_back(slope: Matrix, kernel: Matrix, layout: PlaneLayout) -> Matrix:
    """Return the gradient of `convolve` by its planes; slope is that by its output."""
    o, c = len(kernel), kernel.shape[1] // 9
    turned = kernel.reshape(o, 9, c)[:, ::-1].transpose(2, 1, 0).reshape(c, 9 * o)
    return convolve(slope, np.ascontiguousarray(turned), layout)


def kernel_back(slope: Matrix, planes: Matrix, layout: PlaneLayout) -> Matrix:
    """Return the gradient of `convolve` by its kernel; slope as in `convolve_back`."""
    by_kernel = np.empty((len(slope), 9 * len(planes)), planes.dtype)
    _core.net_kernel_back(slope, planes, layout.size, by_kernel)
    return by_kernel


def normalise(
    planes: Matrix, gain: Matrix, shift: Matrix, layout: PlaneLayout
) -> tuple[Matrix, Matrix, Matrix]:
    """Return max(0, gain (u - mean) / sqrt(variance + `LEAST`) + shift), u a channel of the batch.

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
    layout: PlaneLayout,
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


def rectify(planes: Matrix, shift: Matrix, layout: PlaneLayout) -> None:
    """Make planes max(0, planes + shift), in place."""
    _core.net_rectify(planes, shift, layout.size)


def pool(planes: Matrix, layout: PlaneLayout) -> Matrix:
    """Return the largest of every 2 x 2 pixels, in the halved layout."""
    pooled = layout.halved().empty(len(planes), planes.dtype)
    _core.net_pool(planes, layout.size, pooled)
    return pooled


def pool_back(
    low: Matrix, pooled: Matrix, planes: Matrix, slope: Matrix, layout: PlaneLayout
) -> None:
    """Add the gradient of `pool` by its planes to slope; `low` is that by the pooled ones.

    All that are largest get it: ties are zeros of a rectifier, whose own gradient is zero.
    """
    _core.net_pool_back(planes, pooled, low, layout.size, slope)


def enlarge(low: Matrix, skip: Matrix, layout: PlaneLayout) -> Matrix:
    """Return every pixel of the halved layout's planes four times, plus skip."""
    out = layout.empty(len(skip), skip.dtype)
    _core.net_enlarge(low, skip, layout.size, out)
    return out


def enlarge_back(slope: Matrix, layout: PlaneLayout) -> Matrix:
    """Return the gradient of `enlarge` by its small planes."""
    low = layout.halved().empty(len(slope), slope.dtype)
    _core.net_enlarge_back(slope, layout.size, low)
    return low


def to_depth(pixels: Matrix) -> Matrix:
    """Return pictures (c, n, h, w) as (4 c, n, h / 2, w / 2): 2 x 2 pixels become channels."""
    c, n, h, w = pixels.shape
    parts = pixels.reshape(c, n, h // 2, 2, w // 2, 2)
    return np.ascontiguousarray(parts.transpose(3, 5, 0, 1, 2, 4)).reshape(4 * c, n, h // 2, w // 2)


def from_depth(pixels: Matrix) -> Matrix:
    """Invert `to_depth`."""
    c, n, h, w = len(pixels) // 4, *pixels.shape[1:]
    parts = pixels.reshape(2, 2, c, n, h, w).transpose(2, 3, 4, 0, 5, 1)
    return np.ascontiguousarray(parts).reshape(c, n, 2 * h, 2 * w)


Weights: TypeAlias = dict[str, Matrix]
# Largest log-odds of a label in the first output.
MOST_ODDS = 2.5


@dataclass(frozen=True)
class NetShape:
    """The shape of a net.

    Attributes
    ----------
    inputs, outputs : int
        Channels of a picture, and logits of a pixel.
    widths : channels on every level, from the finest
    whole : bool
        Whether the mean over the picture is added on the lowest level.
    """

    inputs: int
    outputs: int
    widths: tuple[int, ...]
    whole: bool

    @property
    def block(self) -> int:
        """Rows and columns of a picture must be multiples of this."""
        return int(2 ** len(self.widths))

    def units(self) -> Iterator[tuple[str, int, int]]:
        """Yield name, channels in and channels out of every unit."""
        before = 4 * self.inputs
        for level, width in enumerate(self.widths):
            yield f"down{level}.0", before, width
            yield f"down{level}.1", width, width
            before = width
        for level, width in enumerate(self.widths[:-1]):
            yield f"up{level}", width, width

    def sizes(self, folded: bool = False) -> dict[str, tuple[int, ...]]:
        """Return the shape of every array of weights; folded ones have no gain."""
        found: dict[str, tuple[int, ...]] = {}
        for name, c, o in self.units():
            found[f"{name}.kernel"] = (o, 9 * c)
            found[f"{name}.shift"] = (o,)
            if not folded:
                found[f"{name}.gain"] = (o,)
        for level, width in enumerate(self.widths[:-1]):
            found[f"join{level}"] = (width, self.widths[level + 1])
        if self.whole:
            found["whole"] = (self.widths[-1], self.widths[-1])
        found["out.kernel"] = (4 * self.outputs, 9 * self.widths[0])
        found["out.shift"] = (4 * self.outputs,)
        return found

    def begin(self, shares: Matrix, rng: np.random.Generator) -> Weights:
        """Draw the first weights; `shares` are those of label 1, one for each output."""
        weights: Weights = {}
        for name, size in self.sizes().items():
            if name.endswith("gain"):
                made = np.ones(size)
            elif name.endswith("shift"):
                made = np.zeros(size)
            elif name == "out.kernel":
                made = rng.normal(0, 0.3 / np.sqrt(size[1]), size)
            else:
                made = rng.normal(0, 1 / np.sqrt(3 * size[1]), size)
            weights[name] = made.astype(np.float32)
        odds = np.clip(np.log(shares / (1 - shares)), -MOST_ODDS, MOST_ODDS)
        weights["out.shift"] = np.tile(odds, 4).astype(np.float32)  # outputs vary fastest
        return weights


class Pass:
    """One batch through the net; `logits` first, then `gradient` once.

    Parameters
    ----------
    shape : NetShape
    weights : arrays by name, as `NetShape.sizes` has them
    folded : bool
        Whether batch statistics are already in the weights: no gradient then.
    """

    def __init__(self, shape: NetShape, weights: Weights, folded: bool = False) -> None:
        self.shape, self.weights, self.folded = shape, weights, folded
        # What the gradient needs of every step, by its name.
        self.kept: dict[str, Any] = {}
        self.layouts: list[PlaneLayout] = []
        # Mean and variance of the channels of every unit.
        self.statistics: dict[str, tuple[Matrix, Matrix]] = {}

    def logits(self, pictures: Matrix) -> Matrix:
        """Return logits (outputs, n, h, w) of pictures (inputs, n, h, w)."""
        pixels = to_depth(pictures)
        layout = PlaneLayout(*pixels.shape[1:])
        planes, skips, last = layout.put(pixels), [], len(self.shape.widths) - 1
        for level in range(last + 1):
            self.layouts.append(layout)
            planes = self._unit(f"down{level}.0", planes, layout)
            planes = self._unit(f"down{level}.1", planes, layout)
            if level < last:
                skips.append(planes)
                pooled = pool(planes, layout)
                self._keep(f"pool{level}", planes, pooled)
                planes, layout = pooled, layout.halved()
        if self.shape.whole:
            planes = self._whole(planes, layout)
        for level in reversed(range(last)):
            layout = self.layouts[level]
            self._keep(f"join{level}", planes)
            planes = enlarge(self.weights[f"join{level}"] @ planes, skips.pop(), layout)
            planes = self._unit(f"up{level}", planes, layout)
        self._keep("out", planes)
        out = convolve(planes, self.weights["out.kernel"], layout)
        out += self.weights["out.shift"][:, None]
        return from_depth(np.ascontiguousarray(layout.view(out)))

    def gradient(self, slope: Matrix) -> Weights:
        """Return the gradient by all weights, of a loss whose gradient by the logits is `slope`."""
        found: Weights = {}
        layout = self.layouts[0]
        steep = layout.put(to_depth(slope))
        found["out.shift"] = steep.sum(axis=1)
        (planes,) = self.kept.pop("out")
        found["out.kernel"] = kernel_back(steep, planes, layout)
        back = convolve_back(steep, self.weights["out.kernel"], layout)
        skips: list[Matrix] = []
        for level in range(len(self.layouts) - 1):
            back = self._unit_back(f"up{level}", back, self.layouts[level], found)
            back = convolve_back(back, self.weights[f"up{level}.kernel"], self.layouts[level])
            skips.append(back)
            (below,) = self.kept.pop(f"join{level}")
            low = enlarge_back(back, self.layouts[level])
            found[f"join{level}"] = low @ below.T
            back = self.weights[f"join{level}"].T @ low
        if self.shape.whole:
            back = self._whole_back(back, self.layouts[-1], found)
        for level in reversed(range(len(self.layouts))):
            layout = self.layouts[level]
            if level < len(skips):
                planes, pooled = self.kept.pop(f"pool{level}")
                pool_back(back, pooled, planes, skips[level], layout)
                back = skips[level]
            back = self._unit_back(f"down{level}.1", back, layout, found)
            back = convolve_back(back, self.weights[f"down{level}.1.kernel"], layout)
            back = self._unit_back(f"down{level}.0", back, layout, found)
            if level:  # the gradient by the pictures is not needed
                back = convolve_back(back, self.weights[f"down{level}.0.kernel"], layout)
        return found

    def _keep(self, name: str, *values: Any) -> None:
        if not self.folded:
            self.kept[name] = values

    def _unit(self, name: str, planes: Matrix, layout: PlaneLayout) -> Matrix:
        made = convolve(planes, self.weights[f"{name}.kernel"], layout)
        shift = self.weights[f"{name}.shift"]
        if self.folded:
            rectify(made, shift, layout)
            return made
        out, *moments = normalise(made, self.weights[f"{name}.gain"], shift, layout)
        self.statistics[name] = (moments[0], moments[1])
        self._keep(name, planes, made, out)
        return out

    def _unit_back(self, name: str, slope: Matrix, layout: PlaneLayout, found: Weights) -> Matrix:
        """Make slope the gradient by what a unit's convolution gives; its weights' in `found`."""
        planes, made, out = self.kept.pop(name)
        found[f"{name}.shift"], found[f"{name}.gain"] = normalise_back(
            slope, made, out, self.statistics[name], self.weights[f"{name}.gain"], layout
        )
        found[f"{name}.kernel"] = kernel_back(slope, planes, layout)
        return slope

    def _whole(self, planes: Matrix, layout: PlaneLayout) -> Matrix:
        mean = layout.view(planes).mean(axis=(2, 3))  # (c, n)
        self._keep("whole", mean)
        return layout.put(layout.view(planes) + (self.weights["whole"] @ mean)[:, :, None, None])

    def _whole_back(self, slope: Matrix, layout: PlaneLayout, found: Weights) -> Matrix:
        (mean,) = self.kept.pop("whole")
        view = layout.view(slope)
        steep = view.sum(axis=(2, 3))  # (c, n)
        found["whole"] = steep @ mean.T
        back = (self.weights["whole"].T @ steep) / (layout.h * layout.w)
        return layout.put(view + back[:, :, None, None])


def folded(
    shape: NetShape, weights: Weights, statistics: dict[str, tuple[Matrix, Matrix]]
) -> Weights:
    """Return the weights with mean and variance of every channel folded into kernels and shifts."""
    made = {name: weights[name] for name in shape.sizes(folded=True)}
    for name, _, _ in shape.units():
        mean, variance = statistics[name]
        scale = weights[f"{name}.gain"] / np.sqrt(variance + LEAST)
        made[f"{name}.kernel"] = (weights[f"{name}.kernel"] * scale[:, None]).astype(np.float32)
        made[f"{name}.shift"] = (weights[f"{name}.shift"] - mean * scale).astype(np.float32)
    return made
