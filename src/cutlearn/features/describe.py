"""Banks of dense channels: an image becomes columns of numbers at every pixel.

In: a `Picture`, an image while it is worked on. Out: a `Stack`: planes that are made by rows, and
the offsets at which they are seen. Two recipes, chosen from the training images and recorded:
"photograph" (Lab colour, context to sigma 64, colour against the image's own, gradient orientations
at offsets, position) and "microscopy" (intensity, Hessian, rings, orientations, openings).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, overload

import numpy as np
from scipy import ndimage

from cutlearn.arrays import AnyArray, Bits, Float32, Image, Shape
from cutlearn.errors import InputError
from cutlearn.features.columns import Stack
from cutlearn.features.filters import (
    ColorHistogram,
    Planes,
    bands,
    blur,
    blurred,
    concatenated,
    hessian,
    mean_and_spread,
    middle,
    orientations,
    position,
    reduced,
    rings,
    slopes,
    whole,
)
from cutlearn.loaded import mapped

KINDS = ("photograph", "microscopy")
SIDE = 300
PIXELS = 400_000
# The part of an image's pixels that may lie beyond either end of the range of intensities: hot
# pixels and specks. Of a large image about so many pixels are looked at.
OUTSIDE = 0.001
MOST_SEEN = 1 << 18


@dataclass(frozen=True)
class Intensities:
    """The range of the training images' intensities, which becomes [0, 1] in every image.

    A 12-bit camera writes 16-bit files that are dark to a bank made for [0, 1]. One range serves
    all images, so that differences in brightness between images stay.

    Attributes
    ----------
    low, high : float
        No training image has more than `OUTSIDE` of its pixels below, or above.
    """

    low: float
    high: float

    @staticmethod
    def of(images: Sequence[Image]) -> "Intensities":
        """Return the range of some images; of constant images, [0, 1]."""
        ends = mapped(_ends, images)
        low, high = min(low for low, _ in ends), max(high for _, high in ends)
        return Intensities(low, high) if low < high else Intensities(0.0, 1.0)

    def scaled(self, image: Image) -> Image:
        """Return an image with the range brought to [0, 1]; what lies outside is clipped."""
        if (self.low, self.high) == (0, 1):
            return image
        made = np.asarray(image - np.float32(self.low), np.float32)
        made /= np.float32(self.high - self.low)
        return np.clip(made, 0, 1, out=made)

    def to_plain(self) -> list[float]:
        """Return what a model file keeps."""
        return [self.low, self.high]

    @classmethod
    def from_plain(cls, plain: Any) -> "Intensities":
        """Read what `to_plain` returned."""
        low, high = plain
        if not (type(low) is type(high) is float and 0 <= low < high <= 1):
            raise InputError("features: the range of intensities is damaged. Refit the model.")
        return cls(low, high)


def _ends(image: Image) -> tuple[float, float]:
    """Return the range of the intensities without the darkest and the brightest pixels."""
    step = int(np.ceil(np.sqrt(image.shape[0] * image.shape[1] / MOST_SEEN)))
    low, high = np.quantile(image[::step, ::step], (OUTSIDE, 1 - OUTSIDE))
    return float(low), float(high)


class ImageStatistics(NamedTuple):
    """What is taken from all of an image.

    Attributes
    ----------
    mean, deviation : float
        Of its intensities.
    dark : float
        Three in ten of its pixels are darker.
    centres : of every deviation, about what means and slopes lie around
        Rings are summed up as differences from these, which changes nothing but roundings.
    """

    mean: float
    deviation: float
    dark: np.floating
    centres: dict[float, tuple[np.float32, np.float32]]


class Picture:
    """One image while it is worked on: what several features need of it is computed once.

    It is not kept any longer, since the planes of a bank are a hundred times the image.

    Parameters
    ----------
    image : (h, w, 3) or (h, w) float32 in [0, 1]
    statistics : ImageStatistics, optional
        That of the image which this one is a part of, at the scale at which both are described.
    """

    def __init__(self, image: Image, statistics: ImageStatistics | None = None) -> None:
        self.image, self.statistics = image, statistics
        self.shape: tuple[int, int] = (image.shape[0], image.shape[1])
        self._palettes: dict[tuple[str, int], ColorHistogram] = {}
        self._smaller: dict[int, Picture] = {}

    @cached_property
    def grey(self) -> Float32:
        """Intensity, (h, w) float32."""
        return as_grey(self.image)

    @cached_property
    def lab(self) -> Float32:
        """CIE Lab / 100, (3, h, w) float32."""
        return lab(as_color(self.image))

    def palette(self, kind: str, cells: int = 1) -> ColorHistogram:
        """Return the histogram of colours (or intensity and spread) in each of cells^2 places."""
        if (kind, cells) not in self._palettes:
            self._palettes[kind, cells] = _palette(self, kind, cells)
        return self._palettes[kind, cells]

    def shrunk(self, scale: int) -> "Picture":
        """Return the picture of means over scale x scale pixels."""
        if scale == 1:
            return self  # and never kept: a picture that held itself would stay in memory
        if scale not in self._smaller:
            self._smaller[scale] = Picture(shrink(self.image, scale), self.statistics)
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

    @staticmethod
    def choose(
        images: Sequence[Image],
        kind: str = "auto",
        position: bool | str = "auto",
        alone: bool = False,
    ) -> "Bank":
        """Choose for training images: colour ones are photographs, all-grey ones micrographs.

        Row and column are columns of photographs, unless there is one group of them `alone`: where
        the object lies in it does not carry over to others.
        The scale brings the median photograph's shorter side near 300 pixels, the median
        micrograph to 400,000 pixels or fewer.
        """
        if kind == "auto":
            kind = "microscopy" if all(is_grey(image) for image in images) else "photograph"
        if position == "auto":
            position = kind == "photograph" and not alone
        sides = np.array([image.shape[:2] for image in images], float)
        if kind == "photograph":
            scale = round(float(np.median(sides.min(axis=1))) / SIDE)
        else:
            scale = int(np.ceil(np.sqrt(np.median(sides.prod(axis=1)) / PIXELS)))
        return Bank(kind, bool(position), max(1, scale))

    def stack(self, picture: Picture, extra: Float32 | None = None) -> Stack:
        """Return all planes and offsets of one image; extra (h, w, e) joins as further planes."""
        stack = Stack(picture.shape)
        if self.kind == "photograph":
            _photograph(stack, picture)
        else:
            microscopy(stack, picture.grey, picture.statistics)
        if self.position:
            stack.add("position", position(stack.shape))
        if extra is not None:
            stack.add("extra", np.moveaxis(extra, -1, 0))
        return stack

    def statistics(self, picture: Picture) -> ImageStatistics | None:
        """Return what a tile of a picture needs of the whole; for photographs nothing."""
        return statistics_of(picture.shrunk(self.scale).grey) if self.kind == "microscopy" else None

    def raw(self, picture: Picture) -> tuple[Float32, list[str]]:
        """Return a few smoothed raw channels, (c, h, w) float32, and their names."""
        if self.kind == "photograph":
            return blur(picture.lab, 1.0), ["L", "a", "b"]
        plane = picture.grey
        return np.stack([blur(plane, 1.0), blur(plane, 4.0)]), ["grey1", "grey4"]

    def linear(self, picture: Picture) -> tuple[Float32, list[str]]:
        """Return a small bank, (c, h, w) float32, and names: colour or intensity at
        three scales, spread, gradient orientations, Hessian; with position also its square.
        """
        parts: list[tuple[str, Planes]] = []
        color = whole(picture.lab if self.kind == "photograph" else picture.grey)
        for sigma in (1, 4, 16):
            parts.append((f"mean{sigma}", blurred(color, sigma)))
            parts.append((f"spread{2 * sigma}", mean_and_spread(color[0], 2 * sigma)[1]))
        parts.append(("hog4", blurred(orientations(color, 4), 4)))
        for sigma in (2, 4):
            parts.append((f"hessian{sigma}", hessian(color[0], sigma)))
        if self.position:
            place = position(picture.shape).each(lambda part: 2 * part - 1)
            square = place.each(lambda part: part * part)
            parts += [("row", place[0]), ("column", place[1])]
            parts += [("row2", square[0]), ("column2", square[1])]
        names = [
            f"{name}.{k}" if name[0] in "mh" else name
            for name, planes in parts
            for k in range(planes.count)
        ]
        return np.concatenate([planes.all() for _, planes in parts]), names


@overload
def shrink(image: Image, scale: int) -> Image: ...
@overload
def shrink(image: None, scale: int) -> None: ...
def shrink(image: Image | None, scale: int) -> Image | None:
    """Return means over scale x scale pixels of an (h, w) or (h, w, c) array."""
    if image is None or scale == 1:
        return image
    planes = np.moveaxis(image[..., None] if image.ndim == 2 else image, -1, 0)
    small = np.moveaxis(reduced(whole(planes), scale), 0, -1)
    return np.ascontiguousarray(small[..., 0] if image.ndim == 2 else small)


def is_grey(image: Image) -> bool:
    """Return whether an image has one channel, or three equal ones."""
    if image.ndim == 2 or image.shape[2] == 1:
        return True
    return bool(np.array_equal(image[..., 0], image[..., 1])) and bool(
        np.array_equal(image[..., 0], image[..., 2])
    )


def one_if_grey(image: AnyArray, axes: int = 2) -> AnyArray:
    """Return the image, or one channel of a grey one; `axes`: those that are not channels."""
    grey = image.ndim > axes and is_grey(image.reshape(-1, 1, image.shape[-1]))
    return image[..., :1] if grey else image


def as_grey(image: Image) -> Float32:
    """Return the image, or its luminance (Rec. 601), (h, w) float32."""
    if image.ndim == 2:
        return np.asarray(image, np.float32)
    if image.shape[2] == 1 or is_grey(image):
        return np.ascontiguousarray(image[..., 0], np.float32)
    # In double and rounded once: what the processor's own code for products makes of the last
    # bits does not get into the features. The same holds for `lab`, angles and exponentials.
    grey = np.empty(image.shape[:2], np.float32)
    for first, last in bands(len(image)):
        grey[first:last] = image[first:last] @ np.array([0.299, 0.587, 0.114])
    return grey


def as_color(image: Image) -> Float32:
    """Return the image, or its grey value three times, (h, w, 3) float32."""
    if image.ndim == 3 and image.shape[2] == 3:
        return np.asarray(image, np.float32)
    return np.repeat(as_grey(image)[..., None], 3, axis=2)


def lab(image: Image) -> Float32:
    """Return CIE Lab / 100 of a colour image, (3, h, w) float32."""
    from skimage.color import rgb2lab

    planes = np.empty((3, *image.shape[:2]), np.float32)
    for first, last in bands(len(image)):
        planes[:, first:last] = np.moveaxis(rgb2lab(image[first:last].astype(float)), -1, 0)
    planes /= np.float32(100)
    return planes


def _palette(picture: Picture, kind: str, cells: int) -> ColorHistogram:
    if kind == "photograph":
        planes = whole(picture.lab)
        low, high, bins = [0.0, -0.45, -0.45], [1.0, 0.8, 0.8], [12, 24, 24]
    else:
        plane = whole(blur(picture.grey, 1.0))
        planes = concatenated(plane, mean_and_spread(plane, 4.0)[1])
        low, high, bins = [0.0, 0.0], [1.0, 0.25], [32, 12]
    if cells > 1:
        planes = concatenated(planes, position(picture.shape))
        low, high = low + [0.0, 0.0], high + [1.0, 1.0]
        bins = [n // 2 for n in bins] + [cells, cells]
    return ColorHistogram(planes, low, high, bins)


def _photograph(stack: Stack, picture: Picture) -> None:
    color = whole(picture.lab)
    stack.add("color", color)
    for sigma in (2, 4, 8, 16):
        names = [f"{what}{sigma}.{k}" for what in ("mean", "spread") for k in range(3)]
        stack.add(names, mean_and_spread(color, sigma))
    for sigma in (32, 64):
        stack.add(f"mean{sigma}", blurred(color, sigma))
    _relative(stack, picture)
    edges = orientations(blurred(color, 0.7))
    for radius, sigma in ((7, 2), (16, 4), (34, 8)):
        names = [*(f"hog{sigma}.{k}" for k in range(8)), f"energy{sigma}"]
        numbers = stack.add(names, blurred(edges, sigma).each(_shares, 9))
        stack.offsets(f"near{sigma}", [numbers[8], *numbers[:8:2]], radius)


def _shares(local: Float32) -> Float32:
    """Return shares of orientations, and their sum."""
    energy = local.sum(axis=0)
    return np.concatenate([local / (energy + np.float32(0.003)), energy[None]])


def _relative(stack: Stack, picture: Picture) -> None:
    """Add colours relative to the image's mean and border, and where like colours lie.

    What is an object's colour differs from photograph to photograph; that it is rare at the
    border and gathered in one place does not.
    """
    (h, w), color = stack.shape, picture.lab
    flat = [plane.reshape(1, -1) for plane in color]
    # In double, one plane at a time.
    mean = np.concatenate([plane.astype(np.float64).mean(axis=1) for plane in flat])[:, None, None]
    scale = np.concatenate([plane.astype(np.float64).std(axis=1) for plane in flat])[:, None, None]
    border = np.ones((h, w), bool)
    rim = max(1, round(0.08 * min(h, w)))
    border[rim:-rim, rim:-rim] = False
    around = color[:, border].mean(axis=1)[:, None, None]

    def against(part: Float32) -> Float32:
        made = np.empty((9, *part.shape[1:]), np.float32)
        away = part - mean
        made[:3], made[3:6], made[6:] = away, away / (scale + 0.02), part - around
        return made

    names = [f"{what}.{k}" for what in ("contrast", "score", "border") for k in range(3)]
    stack.add(names, whole(color).each(against, 9))
    like = picture.palette("photograph")
    *first, yy, xx = like.mean_tables(_places(stack.shape, border))
    second = [yy - first[0] ** 2, xx - first[1] ** 2]
    stack.add("palette", like.look_up([*first, *second, like.share_table()]))


def _places(shape: Shape, border: Bits) -> Planes:
    """Return row and column from the middle, the larger one, whether at the border, and squares."""
    place = position(shape)

    def rows(first: int, last: int) -> Float32:
        y, x = place.rows(first, last) - np.float32(0.5)
        away = np.maximum(abs(y), abs(x))
        return np.stack([y, x, away, border[first:last], y * y, x * x])

    return Planes(6, shape, rows)


# Means and slopes are those of these deviations.
SIGMAS = (1.0, 2.0, 4.0, 8.0)
# The statistics of a larger image are those of about so many pixels, evenly drawn.
STATISTICS_PIXELS = 1 << 22


def statistics_of(grey: Float32) -> ImageStatistics:
    """Return the statistics of a whole image."""
    means = _means(grey) if grey.size <= STATISTICS_PIXELS else {}
    return _statistics(grey, means, _steep(means))


def _statistics(
    grey: Float32, means: dict[float, Planes], steep: dict[float, Planes]
) -> ImageStatistics:
    step = int(np.ceil(np.sqrt(grey.size / STATISTICS_PIXELS)))
    some = grey[::step, ::step]
    mean, deviation = float(some.mean(dtype=np.float64)), float(some.std(dtype=np.float64))
    centres = {sigma: (np.float32(mean), np.float32(0)) for sigma in SIGMAS}
    if step == 1:
        centres = {sigma: (middle(means[sigma]), middle(steep[sigma])) for sigma in SIGMAS}
    return ImageStatistics(mean, deviation, np.quantile(some, 0.3), centres)


def _means(grey: Float32) -> dict[float, Planes]:
    plane = whole(grey)
    fine: dict[float, Planes] = {sigma: whole(blur(grey, sigma)) for sigma in (1.0, 2.0)}
    return fine | {sigma: blurred(plane, sigma) for sigma in SIGMAS if sigma not in fine}


def _steep(means: dict[float, Planes]) -> dict[float, Planes]:
    return {sigma: whole(_slope(mean, sigma).all()) for sigma, mean in means.items()}


def microscopy(stack: Stack, grey: Float32, statistics: ImageStatistics | None = None) -> None:
    """Add all planes of a micrograph to a stack; of a tile with the light of the whole image."""
    plane, means = whole(grey), _means(grey)
    fine = means[1.0]
    stack.add("grey", plane)
    for sigma in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0):
        both = mean_and_spread(plane, sigma)
        names = [f"mean{sigma:g}", f"spread{sigma:g}"]
        if sigma >= 8:
            names.append(f"local{sigma:g}")
            both = concatenated(both, _local(fine, both))
        stack.add(names, both)
    for sigma in SIGMAS:
        stack.add(f"hessian{sigma:g}", hessian(plane, sigma))
    steep = _steep(means)
    for sigma, slope in steep.items():
        stack.add(f"slope{sigma:g}", slope)
    if statistics is None:
        statistics = _statistics(grey, means, steep)
    centres = statistics.centres
    for radius, sigma in ((3, 1.0), (6, 2.0), (10, 2.0), (16, 4.0), (24, 4.0), (36, 8.0)):
        stack.add(f"ring{radius}", rings(means[sigma], radius, centres[sigma][0]))
        stack.add(f"slopering{radius}", rings(steep[sigma], radius, centres[sigma][1]))
    edges = orientations(fine)
    for scale in (2, 4, 8):
        names = [f"hog{scale}.{k}" for k in range(8)] + [f"coherence{scale}.{k}" for k in range(4)]
        stack.add(names, blurred(edges, scale).each(_coherence, 12))
    mean, deviation, quantile, _ = statistics
    stack.add("score", means[4.0].each(lambda part: (part - mean) / (deviation + 0.01)))
    dark = fine.each(lambda part: (part < quantile).astype(np.float32))
    stack.add("dark", concatenated(blurred(dark, 8.0), blurred(dark, 24.0)))
    for size in (9, 21):
        stack.add(f"shape{size}", _opened(fine, size))


def _local(fine: Planes, both: Planes) -> Planes:
    """Return intensity relative to mean and deviation around it."""

    def rows(first: int, last: int) -> Float32:
        mean, spread = both.rows(first, last)
        made: Float32 = (fine.rows(first, last) - mean) / (spread + 0.02)
        return made

    return Planes(1, fine.shape, rows)


def _slope(plane: Planes, sigma: float) -> Planes:
    down, across = slopes(plane)

    def rows(first: int, last: int) -> Float32:
        gy, gx = down.rows(first, last), across.rows(first, last)
        made: Float32 = np.sqrt(gy * gy + gx * gx) * np.float32(sigma)
        return made

    return Planes(1, plane.shape, rows)


# Pairs that sort eight numbers (Batcher's merge exchange).
NETWORK = (
    (0, 4), (1, 5), (2, 6), (3, 7), (0, 2), (1, 3), (4, 6), (5, 7), (2, 4), (3, 5),
    (0, 1), (2, 3), (4, 5), (6, 7), (1, 4), (3, 6), (1, 2), (3, 4), (5, 6),
)  # fmt: skip


def _coherence(local: Float32) -> Float32:
    """Return shares of orientations, and the least, two in the middle and the largest."""
    made = np.empty((12, *local.shape[1:]), np.float32)
    np.divide(local, local.sum(axis=0) + np.float32(0.003), out=made[:8])
    ordered = list(made[:8])
    for low, high in NETWORK:
        one, other = ordered[low], ordered[high]
        ordered[low], ordered[high] = np.minimum(one, other), np.maximum(one, other)
    for k, rank in enumerate((0, 3, 5, 7)):
        made[8 + k] = ordered[rank]
    return made


def _opened(plane: Planes, size: int) -> Planes:
    """Return opening, closing, and what the opening takes away."""

    def rows(first: int, last: int) -> Float32:
        part, inside = plane.around(first, last, 2 * (size // 2))
        opened = ndimage.grey_opening(part[0], size=(size, size))[inside]
        closed = ndimage.grey_closing(part[0], size=(size, size))[inside]
        return np.stack([opened, closed, part[0][inside] - opened])

    return Planes(3, plane.shape, rows)
