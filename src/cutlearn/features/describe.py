"""Banks of dense channels: an image becomes columns of numbers at every pixel.

In: an image, float32 in [0, 1], (h, w, 3) or (h, w). Out: `Columns`, a padded stack of planes and
a table of starts, so that a channel seen at an offset costs nothing but an entry in the table.
Two recipes, chosen from the training images and recorded: "photograph" (Lab colour, context to
sigma 64, gradient orientations, offsets, position) and "microscopy" (intensity, Hessian, rings).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from cutlearn.errors import InputError
from cutlearn.features.filters import (
    DIRECTIONS,
    Float32,
    blur,
    gradient,
    hessian,
    orientations,
    rings,
)

Image: TypeAlias = npt.NDArray[np.float32]

KINDS = ("photograph", "microscopy")


@dataclass
class Columns:
    """Planes of one image, padded, and where each column starts in them.

    Column f of pixel (y, x) is ``buffer.ravel()[start[f] + y * buffer.shape[2] + x]``.

    Attributes
    ----------
    shape : (h, w) of the image.
    buffer : (c, h + 2 pad, w + 2 pad) float32, borders continued.
    start : (f,) int64.
    names : f names, one a column.
    """

    shape: tuple[int, int]
    buffer: Float32
    start: npt.NDArray[np.int64]
    names: list[str]

    def rows(self, index: npt.NDArray[np.int64]) -> Float32:
        """All columns of the pixels `index` (row-major), (len(index), f) float32."""
        y, x = np.divmod(index, self.shape[1])
        place = y * self.buffer.shape[2] + x
        rows: Float32 = self.buffer.reshape(-1)[self.start[None, :] + place[:, None]]
        return rows


@dataclass
class Stack:
    """Collects planes and their views at offsets, in order, then becomes `Columns`."""

    shape: tuple[int, int]
    planes: list[Float32] = field(default_factory=list)
    seen: list[tuple[int, int, int]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def add(self, name: str, planes: npt.NDArray[Any]) -> range:
        """Append planes, (h, w) or (c, h, w); return their numbers."""
        first = len(self.planes)
        for k, plane in enumerate(np.asarray(planes, np.float32).reshape(-1, *self.shape)):
            self.seen.append((len(self.planes), 0, 0))
            self.planes.append(plane)
            self.names.append(f"{name}.{k}" if np.ndim(planes) == 3 else name)
        return range(first, len(self.planes))

    def offsets(self, name: str, planes: Sequence[int], radius: float) -> None:
        """See the planes (by number) at `radius` pixels in eight directions, too."""
        for dy, dx in DIRECTIONS:
            move = round(radius * dy), round(radius * dx)
            for k, plane in enumerate(planes):
                self.seen.append((plane, *move))
                self.names.append(f"{name}.{k}@{move[0]},{move[1]}")

    def columns(self) -> Columns:
        """Pad all planes by the largest offset and table the starts."""
        h, w = self.shape
        pad = max(max(abs(dy), abs(dx)) for _, dy, dx in self.seen)
        rows = np.clip(np.arange(-pad, h + pad), 0, h - 1)[:, None]
        cols = np.clip(np.arange(-pad, w + pad), 0, w - 1)[None, :]
        buffer = np.empty((len(self.planes), h + 2 * pad, w + 2 * pad), np.float32)
        for plane, target in zip(self.planes, buffer):
            target[...] = plane[rows, cols]
        size, width = buffer[0].size, w + 2 * pad
        start = [k * size + (pad + dy) * width + pad + dx for k, dy, dx in self.seen]
        return Columns(self.shape, buffer, np.array(start, np.int64), list(self.names))


@dataclass(frozen=True)
class Bank:
    """Which channels describe an image; plain values, so a model file can hold it.

    Attributes
    ----------
    kind : "photograph" or "microscopy".
    position : bool
        Whether row and column are columns too. They help where the camera is held by a person
        and ruin stacks of slices.
    """

    kind: str
    position: bool

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"bank: kind {self.kind!r} found; one of {KINDS} was wanted.")

    @staticmethod
    def choose(
        images: Sequence[Image], kind: str = "auto", position: bool | str = "auto"
    ) -> "Bank":
        """Colour images are taken for photographs, all-grey ones for micrographs."""
        if kind == "auto":
            kind = "microscopy" if all(is_grey(image) for image in images) else "photograph"
        if position == "auto":
            position = kind == "photograph"
        return Bank(kind, bool(position))

    def stack(self, image: Image, extra: Float32 | None = None) -> Stack:
        """All planes and offsets of one image; extra (h, w, e) joins as further planes."""
        stack = Stack((image.shape[0], image.shape[1]))
        if self.kind == "photograph":
            _photograph(stack, as_color(image))
        else:
            _microscopy(stack, as_grey(image))
        if self.position:
            stack.add("position", _position(stack.shape))
        if extra is not None:
            stack.add("extra", np.moveaxis(extra, -1, 0))
        return stack

    def raw(self, image: Image) -> tuple[Float32, list[str]]:
        """A few smoothed raw channels beside the logits, (c, h, w) float32, and their names."""
        if self.kind == "photograph":
            return blur(lab(as_color(image)), 1.0), ["L", "a", "b"]
        plane = as_grey(image)
        return np.stack([blur(plane, 1.0), blur(plane, 4.0)]), ["grey1", "grey4"]

    def linear(self, image: Image) -> tuple[Float32, list[str]]:
        """A small bank for features="linear", (c, h, w) float32, and names: colour or intensity at
        three scales, spread, gradient orientations, Hessian; with position also its square.
        """
        stack = Stack((image.shape[0], image.shape[1]))
        color = lab(as_color(image)) if self.kind == "photograph" else as_grey(image)[None]
        for sigma in (1, 4, 16):
            mean = blur(color, sigma)
            stack.add(f"mean{sigma}", mean)
            spread = blur(color[0] ** 2, 2 * sigma) - blur(color[0], 2 * sigma) ** 2
            stack.add(f"spread{2 * sigma}", np.sqrt(np.maximum(spread, 0)))
        stack.add("hog4", blur(orientations(color, 4), 4))
        for sigma in (2, 4):
            stack.add(f"hessian{sigma}", hessian(color[0], sigma))
        if self.position:
            y, x = (2 * grid - 1 for grid in _position(stack.shape))
            for name, plane in (("row", y), ("column", x), ("row2", y * y), ("column2", x * x)):
                stack.add(name, plane)
        return np.stack(stack.planes), stack.names


def _position(shape: tuple[int, int]) -> Float32:
    """Row and column of every pixel centre, in [0, 1], (2, h, w) float32."""
    y, x = np.mgrid[: shape[0], : shape[1]].astype(np.float32)
    return np.stack([(y + 0.5) / shape[0], (x + 0.5) / shape[1]])


def is_grey(image: Image) -> bool:
    """Whether an image has one channel, or three equal ones."""
    if image.ndim == 2 or image.shape[2] == 1:
        return True
    return bool(np.array_equal(image[..., 0], image[..., 1])) and bool(
        np.array_equal(image[..., 0], image[..., 2])
    )


def as_grey(image: Image) -> Float32:
    """(h, w) float32: the image, or its luminance (Rec. 601)."""
    if image.ndim == 2:
        return np.asarray(image, np.float32)
    if image.shape[2] == 1 or is_grey(image):
        return np.ascontiguousarray(image[..., 0], np.float32)
    return (image @ np.array([0.299, 0.587, 0.114], np.float32)).astype(np.float32)


def as_color(image: Image) -> Float32:
    """(h, w, 3) float32: the image, or its grey value three times."""
    if image.ndim == 3 and image.shape[2] == 3:
        return np.asarray(image, np.float32)
    return np.repeat(as_grey(image)[..., None], 3, axis=2)


def lab(image: Image) -> Float32:
    """CIE Lab / 100 of a colour image, (3, h, w) float32."""
    from skimage.color import rgb2lab

    planes: Float32 = np.moveaxis(rgb2lab(image).astype(np.float32), -1, 0) / np.float32(100)
    return planes


def _photograph(stack: Stack, image: Image) -> None:
    color = lab(image)
    stack.add("color", color)
    near: dict[int, range] = {}
    for sigma in (2, 4, 8, 16, 32, 64):
        mean = blur(color, sigma)
        near[sigma] = stack.add(f"mean{sigma}", mean)
        if sigma <= 16:
            spread = blur(color * color, sigma) - mean * mean
            stack.add(f"spread{sigma}", np.sqrt(np.maximum(spread, 0)))
    total = color.mean(axis=(1, 2), dtype=np.float64).astype(np.float32)
    stack.add("contrast", color - total[:, None, None])
    edges = orientations(blur(color, 0.7))
    shape: dict[int, list[int]] = {}
    for sigma in (2, 4, 8):
        local = blur(edges, sigma)
        energy = local.sum(axis=0)
        numbers = stack.add(f"hog{sigma}", local / (energy + np.float32(0.003)))
        shape[sigma] = [*stack.add(f"energy{sigma}", energy), *numbers[::2]]
    for radius, sigma in ((7, 2), (16, 4), (34, 8)):
        stack.offsets(f"near{sigma}", [*near[sigma], *shape[sigma]], radius)


def _microscopy(stack: Stack, plane: Float32) -> None:
    stack.add("grey", plane)
    means: dict[float, Float32] = {}
    for sigma in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0):
        means[sigma] = mean = blur(plane, sigma)
        stack.add(f"mean{sigma:g}", mean)
        spread = blur(plane * plane, sigma) - mean * mean
        stack.add(f"spread{sigma:g}", np.sqrt(np.maximum(spread, 0)))
    for sigma in (1.0, 2.0, 4.0, 8.0):
        stack.add(f"hessian{sigma:g}", hessian(plane, sigma))
    slopes: dict[float, Float32] = {}
    for sigma in (1.0, 2.0, 4.0, 8.0):
        gy, gx = gradient(means[sigma])
        slopes[sigma] = np.sqrt(gy * gy + gx * gx) * np.float32(sigma)
        stack.add(f"slope{sigma:g}", slopes[sigma])
    for radius, sigma in ((3, 1.0), (6, 2.0), (10, 2.0), (16, 4.0), (24, 4.0), (36, 8.0)):
        stack.add(f"ring{radius}", rings(means[sigma], radius))
        stack.add(f"slopering{radius}", rings(slopes[sigma], radius))
