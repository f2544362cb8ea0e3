"""Banks of dense channels: an image becomes columns of numbers at every pixel.

In: a `Picture`, an image while it is worked on. Out: `Columns`, a padded stack of planes and a
table of starts, so that a channel seen at an offset costs nothing but an entry in the table.
Two recipes, chosen from the training images and recorded: "photograph" (Lab colour, context to
sigma 64, colour against the image's own, gradient orientations at offsets, position) and
"microscopy" (intensity, Hessian, rings, orientations, openings).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from cutlearn.checks import one_of
from cutlearn.errors import InputError
from cutlearn.features.filters import (
    DIRECTIONS,
    Float32,
    Palette,
    blur,
    gradient,
    hessian,
    orientations,
    reduce,
    rings,
)

Image: TypeAlias = npt.NDArray[np.float32]

KINDS = ("photograph", "microscopy")
SIDE = 300
PIXELS = 400_000


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

    def copy(self) -> "Stack":
        """Give a stack that can be added to alone; the planes are shared."""
        return Stack(self.shape, list(self.planes), list(self.seen), list(self.names))

    def columns(self) -> Columns:
        """Pad all planes by the largest offset and table the starts."""
        h, w = self.shape
        pad = max(max(abs(dy), abs(dx)) for _, dy, dx in self.seen)
        buffer = np.empty((len(self.planes), h + 2 * pad, w + 2 * pad), np.float32)
        for plane, target in zip(self.planes, buffer):
            inside = target[pad : pad + h]
            inside[:, pad : pad + w] = plane
            inside[:, :pad] = plane[:, :1]
            inside[:, pad + w :] = plane[:, -1:]
            target[:pad] = inside[0]
            target[pad + h :] = inside[-1]
        size, width = buffer[0].size, w + 2 * pad
        start = [k * size + (pad + dy) * width + pad + dx for k, dy, dx in self.seen]
        return Columns(self.shape, buffer, np.array(start, np.int64), list(self.names))


class Picture:
    """One image while it is worked on: what several features need of it is computed once.

    It is not kept any longer, since the planes of a bank are a hundred times the image.

    Parameters
    ----------
    image : (h, w, 3) or (h, w) float32 in [0, 1]
    """

    def __init__(self, image: Image) -> None:
        self.image = image
        self.shape: tuple[int, int] = (image.shape[0], image.shape[1])
        self._palettes: dict[tuple[str, int], Palette] = {}
        self._smaller: dict[int, Picture] = {1: self}

    @cached_property
    def grey(self) -> Float32:
        """Intensity, (h, w) float32."""
        return as_grey(self.image)

    @cached_property
    def lab(self) -> Float32:
        """CIE Lab / 100, (3, h, w) float32."""
        return lab(as_color(self.image))

    def palette(self, kind: str, cells: int = 1) -> Palette:
        """Pixels of like colour, or of like intensity and spread, within one of cells^2 places."""
        if (kind, cells) not in self._palettes:
            self._palettes[kind, cells] = _palette(self, kind, cells)
        return self._palettes[kind, cells]

    def shrunk(self, scale: int) -> "Picture":
        """The picture of means over scale x scale pixels."""
        if scale not in self._smaller:
            self._smaller[scale] = Picture(shrink(self.image, scale))
        return self._smaller[scale]


@dataclass(frozen=True)
class Bank:
    """Which channels describe an image; plain values, so a model file can hold it.

    Attributes
    ----------
    kind : "photograph" or "microscopy".
    position : bool
        Whether row and column are columns too. They help where the camera is held by a person
        and ruin stacks of slices.
    scale : int
        Images are described after averaging scale x scale pixels: the filters' sizes fit pictures
        of some 300 pixels, and time and memory stay bounded.
    """

    kind: str
    position: bool
    scale: int = 1

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"bank: the kind must be one of {KINDS}, not {self.kind!r}.")
        if self.scale < 1:
            raise InputError(f"bank: the scale must be at least 1, not {self.scale}.")

    @staticmethod
    def choose(
        images: Sequence[Image], kind: str = "auto", position: bool | str = "auto"
    ) -> "Bank":
        """Colour images are taken for photographs, all-grey ones for micrographs.

        The scale brings the median photograph's shorter side near 300 pixels, the median
        micrograph to 400,000 pixels or fewer.
        """
        one_of("kind", kind, ("auto", *KINDS))
        one_of("position", position, ("auto", True, False))
        if kind == "auto":
            kind = "microscopy" if all(is_grey(image) for image in images) else "photograph"
        if position == "auto":
            position = kind == "photograph"
        sides = np.array([image.shape[:2] for image in images], float)
        if kind == "photograph":
            scale = round(float(np.median(sides.min(axis=1))) / SIDE)
        else:
            scale = int(np.ceil(np.sqrt(np.median(sides.prod(axis=1)) / PIXELS)))
        return Bank(kind, bool(position), max(1, scale))

    def stack(self, picture: Picture, extra: Float32 | None = None) -> Stack:
        """All planes and offsets of one image; extra (h, w, e) joins as further planes."""
        stack = Stack(picture.shape)
        if self.kind == "photograph":
            _photograph(stack, picture)
        else:
            _microscopy(stack, picture.grey)
        if self.position:
            stack.add("position", _position(stack.shape))
        if extra is not None:
            stack.add("extra", np.moveaxis(extra, -1, 0))
        return stack

    def raw(self, picture: Picture) -> tuple[Float32, list[str]]:
        """A few smoothed raw channels beside the logits, (c, h, w) float32, and their names."""
        if self.kind == "photograph":
            return blur(picture.lab, 1.0), ["L", "a", "b"]
        plane = picture.grey
        return np.stack([blur(plane, 1.0), blur(plane, 4.0)]), ["grey1", "grey4"]

    def linear(self, picture: Picture) -> tuple[Float32, list[str]]:
        """A small bank for features="linear", (c, h, w) float32, and names: colour or intensity at
        three scales, spread, gradient orientations, Hessian; with position also its square.
        """
        stack = Stack(picture.shape)
        color = picture.lab if self.kind == "photograph" else picture.grey[None]
        for sigma in (1, 4, 16):
            stack.add(f"mean{sigma}", blur(color, sigma))
            stack.add(f"spread{2 * sigma}", _spread(color[0], 2 * sigma))
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


@overload
def shrink(image: Image, scale: int) -> Image: ...
@overload
def shrink(image: None, scale: int) -> None: ...
def shrink(image: Image | None, scale: int) -> Image | None:
    """Means over scale x scale pixels of an (h, w) or (h, w, c) array."""
    if image is None or scale == 1:
        return image
    planes = np.moveaxis(image[..., None] if image.ndim == 2 else image, -1, 0)
    small = np.moveaxis(reduce(planes, scale), 0, -1)
    return np.ascontiguousarray(small[..., 0] if image.ndim == 2 else small)


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
    # In double and rounded once: what the processor's own code for products makes of the last
    # bits does not get into the features. The same holds for `lab`, angles and exponentials.
    grey: Float32 = (image @ np.array([0.299, 0.587, 0.114])).astype(np.float32)
    return grey


def as_color(image: Image) -> Float32:
    """(h, w, 3) float32: the image, or its grey value three times."""
    if image.ndim == 3 and image.shape[2] == 3:
        return np.asarray(image, np.float32)
    return np.repeat(as_grey(image)[..., None], 3, axis=2)


def lab(image: Image) -> Float32:
    """CIE Lab / 100 of a colour image, (3, h, w) float32."""
    from skimage.color import rgb2lab

    planes: Float32 = np.moveaxis(rgb2lab(image.astype(float)), -1, 0).astype(np.float32)
    return planes / np.float32(100)


def _palette(picture: Picture, kind: str, cells: int) -> Palette:
    if kind == "photograph":
        planes = picture.lab
        low, high, bins = [0.0, -0.45, -0.45], [1.0, 0.8, 0.8], [12, 24, 24]
    else:
        plane = blur(picture.grey, 1.0)
        planes = np.stack([plane, _spread(plane, 4.0)])
        low, high, bins = [0.0, 0.0], [1.0, 0.25], [32, 12]
    if cells > 1:
        planes = np.concatenate([planes, _position(picture.shape)])
        low, high = low + [0.0, 0.0], high + [1.0, 1.0]
        bins = [n // 2 for n in bins] + [cells, cells]
    return Palette(planes, low, high, bins)


def _spread(plane: Float32, sigma: float) -> Float32:
    """Deviation under a Gaussian window, of a plane or stack."""
    mean = blur(plane, sigma)
    root: Float32 = np.sqrt(np.maximum(blur(plane * plane, sigma) - mean * mean, 0))
    return root


def _photograph(stack: Stack, picture: Picture) -> None:
    color = picture.lab
    stack.add("color", color)
    for sigma in (2, 4, 8, 16, 32, 64):
        mean = blur(color, sigma)
        stack.add(f"mean{sigma}", mean)
        if sigma <= 16:
            spread = blur(color * color, sigma) - mean * mean
            stack.add(f"spread{sigma}", np.sqrt(np.maximum(spread, 0)))
    _relative(stack, picture)
    edges = orientations(blur(color, 0.7))
    for radius, sigma in ((7, 2), (16, 4), (34, 8)):
        local = blur(edges, sigma)
        energy = local.sum(axis=0)
        numbers = stack.add(f"hog{sigma}", local / (energy + np.float32(0.003)))
        seen = [*stack.add(f"energy{sigma}", energy), *numbers[::2]]
        stack.offsets(f"near{sigma}", seen, radius)


def _relative(stack: Stack, picture: Picture) -> None:
    """Colours against the image's own: its mean, its border, and where like colours lie.

    What is an object's colour differs from photograph to photograph; that it is rare at the
    border and gathered in one place does not.
    """
    (h, w), color = stack.shape, picture.lab
    flat = color.reshape(3, -1).astype(np.float64)
    mean, scale = flat.mean(axis=1), flat.std(axis=1)
    stack.add("contrast", color - mean[:, None, None])
    stack.add("score", (color - mean[:, None, None]) / (scale[:, None, None] + 0.02))
    border = np.ones((h, w), bool)
    rim = max(1, round(0.08 * min(h, w)))
    border[rim:-rim, rim:-rim] = False
    stack.add("border", color - color[:, border].mean(axis=1)[:, None, None])
    like = picture.palette("photograph")
    y, x = _position(stack.shape) - np.float32(0.5)
    away = np.maximum(abs(y), abs(x))
    first = [like.mean(y), like.mean(x), like.mean(away), like.mean(border.astype(np.float32))]
    second = [like.mean(y * y) - first[0] ** 2, like.mean(x * x) - first[1] ** 2]
    stack.add("palette", np.stack([*first, *second, like.share()]))


def _microscopy(stack: Stack, plane: Float32) -> None:
    stack.add("grey", plane)
    means: dict[float, Float32] = {}
    for sigma in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0):
        means[sigma] = blur(plane, sigma)
        spread = _spread(plane, sigma)
        stack.add(f"mean{sigma:g}", means[sigma])
        stack.add(f"spread{sigma:g}", spread)
        if sigma >= 8:
            stack.add(f"local{sigma:g}", (means[1.0] - means[sigma]) / (spread + 0.02))
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
    edges = orientations(means[1.0][None])
    for scale in (2, 4, 8):
        local = blur(edges, scale)
        local /= local.sum(axis=0) + np.float32(0.003)
        stack.add(f"hog{scale}", local)
        stack.add(f"coherence{scale}", np.sort(local, axis=0)[[0, 3, 5, 7]])
    mean, deviation = float(plane.mean(dtype=np.float64)), float(plane.std(dtype=np.float64))
    stack.add("score", (means[4.0] - mean) / (deviation + 0.01))
    dark = (means[1.0] < np.quantile(plane, 0.3)).astype(np.float32)
    stack.add("dark", np.stack([blur(dark, sigma) for sigma in (8.0, 24.0)]))
    for size in (9, 21):
        opened = ndimage.grey_opening(means[1.0], size=(size, size))
        closed = ndimage.grey_closing(means[1.0], size=(size, size))
        stack.add(f"shape{size}", np.stack([opened, closed, means[1.0] - opened]))
