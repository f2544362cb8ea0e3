"""What the net sees: pictures at its size, standardised, and random crops of them to learn from.

Photographs are brought to a shorter side of 128 pixels and seen in CIE Lab, with row and distance
from the middle column; micrographs in their intensity (in Lab if they have colours), at the size
that the bank works at. Arrays that the user brings are further channels.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cutlearn.arrays import VOID, Float32, Floats, Image, Mask
from cutlearn.features.describe import Bank, Picture, is_grey
from cutlearn.images.resize import Shape, resize_channels, resize_image, side_shape
from cutlearn.loaded import mapped

# Photographs: the shorter side, and rows and columns of a crop. Micrographs: of a crop.
SIDE, CANVAS, SQUARE = 128, (128, 160), (160, 160)


@dataclass(frozen=True)
class Sight:
    """How a picture becomes the channels of the net; plain values, for a model file.

    Attributes
    ----------
    bank : Bank
        Its kind, position and scale.
    color : bool
        Whether colours are seen.
    mean, deviation : (c,) float32
        Of the training images' channels, before row and column are added.
    """

    bank: Bank
    color: bool
    mean: Float32
    deviation: Float32

    @staticmethod
    def of(bank: Bank, images: Sequence[Image], extras: Sequence[Float32 | None]) -> "Sight":
        """Return the sight of training images: colours unless all are grey, and the moments."""
        color = bank.kind == "photograph" or not all(is_grey(image) for image in images)
        blind = Sight(bank, color, np.zeros(0, np.float32), np.ones(0, np.float32))
        seen = mapped(lambda i, e: blind.channels(Picture(i), e), images, extras)
        count = sum(planes[0].size for planes in seen)
        mean = sum(planes.sum(axis=(1, 2), dtype=np.float64) for planes in seen) / count
        square = (
            sum(((planes - mean[:, None, None]) ** 2).sum(axis=(1, 2)) for planes in seen) / count
        )
        deviation = np.sqrt(np.maximum(square, 1e-6))
        return Sight(bank, color, mean.astype(np.float32), deviation.astype(np.float32))

    @property
    def turns(self) -> bool:
        """Whether pictures may be turned, since no side is up."""
        return self.bank.kind == "microscopy"

    @property
    def inputs(self) -> int:
        """Channels of a picture."""
        return len(self.mean) + (2 if self.bank.position else 0)

    def shape(self, shape: Shape) -> Shape:
        """Return the rows and columns at which a picture is seen."""
        if self.bank.kind == "photograph":
            return side_shape(shape, min(SIDE, *shape))
        return -(-shape[0] // self.bank.scale), -(-shape[1] // self.bank.scale)

    def channels(self, picture: Picture, extra: Float32 | None) -> Float32:
        """Return colours or intensity and extra arrays, not standardised, (c, h, w) float32."""
        shape = self.shape(picture.shape)
        small = picture
        if shape != picture.shape:
            small = Picture(resize_image(picture.image, shape))
        planes = small.lab if self.color else small.grey[None]
        if extra is not None:
            planes = np.concatenate([planes, np.moveaxis(resize_channels(extra, shape), -1, 0)])
        return planes

    def see(self, picture: Picture, extra: Float32 | None) -> Float32:
        """Return all channels of a picture, standardised, (inputs, h, w) float32."""
        planes = self.channels(picture, extra)
        planes = (planes - self.mean[:, None, None]) / self.deviation[:, None, None]
        if self.bank.position:
            planes = np.concatenate([planes, _place(*planes.shape[1:])])
        return planes.astype(np.float32)


def _place(h: int, w: int) -> Float32:
    """Return row in [-1, 1] and distance from the middle column in [0, 1], (2, h, w) float32."""
    y = 2 * (np.arange(h) + 0.5) / h - 1
    x = abs(2 * (np.arange(w) + 0.5) / w - 1)
    return np.stack(np.broadcast_arrays(y[:, None], x[None, :])).astype(np.float32)


@dataclass(frozen=True)
class Lesson:
    """One image to learn from, as the net sees it.

    Attributes
    ----------
    planes : (c, h, w) float32
    labels : (2 T, h, w) float32
        The share of label 1 of each question, times what is known; then what is known.
    ones : pixels (row-major) of label 1, for every question that has any
    """

    planes: Float32
    labels: Float32
    ones: tuple[npt.NDArray[np.intp], ...]

    @staticmethod
    def of(sight: Sight, image: Image, labels: Mask, extra: Float32 | None) -> "Lesson":
        """Return the lesson of an image and its labels, (h, w, T) of 0, 1 and 255."""
        planes = sight.see(Picture(image), extra)
        known = (labels != VOID).astype(np.float32)
        both = np.concatenate([known * (labels == 1), known], axis=-1)
        seen = np.moveaxis(resize_channels(both, sight.shape(labels.shape[:2])), -1, 0)
        found = (np.flatnonzero(part > 0.5) for part in seen[: labels.shape[2]])
        return Lesson(planes, np.ascontiguousarray(seen), tuple(k for k in found if len(k)))


def canvas_of(sight: Sight, lessons: Sequence[Lesson], block: int) -> Shape:
    """Return rows and columns of a crop, no larger than the largest image needs."""
    most = CANVAS if not sight.turns else SQUARE
    sides = np.max([lesson.planes.shape[1:] for lesson in lessons], axis=0)
    if sight.turns:
        sides[:] = sides.max()  # a square may be turned
    rows, columns = (min(m, int(-(-s // block) * block)) for m, s in zip(most, sides))
    return rows, columns


@dataclass(frozen=True)
class Crops:
    """Draws batches of crops: zoomed, mirrored, turned where there is no up, other colours."""

    sight: Sight
    lessons: Sequence[Lesson]
    canvas: Shape
    size: int = 8

    def draw(self, rng: np.random.Generator) -> tuple[Float32, Float32, Float32]:
        """Return pictures (c, n, h, w), shares of label 1 and weights (T, n, h, w)."""
        drawn = [self._crop(k, rng) for k in range(self.size)]
        planes = np.stack([part[0] for part in drawn], axis=1)
        labels = np.stack([part[1] for part in drawn], axis=1)
        t = len(labels) // 2
        weights = labels[t:]
        share = np.asarray(labels[:t] / np.maximum(weights, np.float32(1e-6)), np.float32)
        return planes, share, weights

    def _crop(self, k: int, rng: np.random.Generator) -> tuple[Float32, Float32]:
        lesson = self.lessons[int(rng.integers(len(self.lessons)))]
        turns, colored = self.sight.turns, len(self.sight.mean)
        zoom = rng.uniform(-0.3, 0.3)
        squash = 0.0 if turns else rng.uniform(-0.1, 0.1)
        steps = np.exp([squash / 2 - zoom, -squash / 2 - zoom])
        shape = np.array(lesson.planes.shape[1:])
        centre = rng.uniform(0, 1, 2) * shape
        if k % 2 and lesson.ones:  # half of the crops are near an object
            ones = lesson.ones[int(rng.integers(len(lesson.ones)))]
            at = np.array(divmod(ones[rng.integers(len(ones))], shape[1]))
            centre = at + rng.uniform(-0.25, 0.25, 2) * self.canvas * steps
        room = shape - 1 - (np.array(self.canvas) - 1) * steps
        start = centre - (np.array(self.canvas) - 1) / 2 * steps
        start = np.clip(start, np.minimum(room, 0), np.maximum(room, 0))
        places = [s + d * np.arange(n) for s, d, n in zip(start, steps, self.canvas)]
        planes, labels = _sampled(lesson.planes, places), _sampled(lesson.labels, places)
        inside = [(p > -0.5) & (p < n - 0.5) for p, n in zip(places, shape)]
        labels = labels * (inside[0][:, None] & inside[1])
        spread = (0.25, 0.25) if turns else (0.22, 0.3)
        gain = np.exp(rng.uniform(-spread[0], spread[0], colored)).astype(np.float32)
        shift = rng.uniform(-spread[1], spread[1], colored).astype(np.float32)
        planes[:colored] = planes[:colored] * gain[:, None, None] + shift[:, None, None]
        quarter, mirror = (int(rng.integers(4)) if turns else 0), bool(rng.integers(2))
        return turned(planes, quarter, mirror), turned(labels, quarter, mirror)


def turned(planes: Float32, quarter: int, mirror: bool) -> Float32:
    """Return planes (.., h, w) mirrored left to right, then turned by quarters."""
    seen = planes[..., ::-1] if mirror else planes
    return np.rot90(seen, quarter, axes=(-2, -1))


def turned_back(planes: Float32, quarter: int, mirror: bool) -> Float32:
    """Invert `turned`."""
    seen = np.rot90(planes, -quarter, axes=(-2, -1))
    return seen[..., ::-1] if mirror else seen


def _sampled(planes: Float32, places: Sequence[Floats]) -> Float32:
    """Return planes (c, h, w) interpolated at rows and columns, reflected beyond the border."""
    for axis, place in ((1, places[0]), (2, places[1])):
        last = planes.shape[axis] - 1
        inside = last - abs(last - abs(place) % (2 * last)) if last else 0 * place
        low = np.minimum(inside.astype(np.intp), max(last - 1, 0))
        part = (inside - low).astype(np.float32)
        part = part[:, None] if axis == 1 else part
        first = planes.take(low, axis=axis)
        planes = first + part * (planes.take(np.minimum(low + 1, last), axis=axis) - first)
    return planes
