"""What a small net says of an image with a box or seeds; its weights come with the package.

The net looks at the box with some room around it, at 128 x 128 pixels: Lab colours, where the box
and the seeds are, and what mixtures of colours say. Its logits tell object from background for
objects of any kind; `scripts/learn_defaults.py` trains it. After a stroke it is asked again in a
window around the stroke, where it sees more, with what it said before as one more plane.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cutlearn.arrays import AnyArray, Bits, Float32
from cutlearn.features.mixtures import Palette, log_odds, odds_of, relabelled
from cutlearn.features.net.body import NetShape, Pass, Weights
from cutlearn.run.executor import one_thread

Box = tuple[int, int, int, int]

SIDE = 128
CHANNELS = 9
# The channel of the log-odds that are known best, and that of what the net said before.
ODDS, BEFORE = 5, 8
# Room around the box that the net sees, in parts of the box's own height and width.
ROOM = 0.2
# How far a seed is felt, in pixels of the net.
REACH = 8.0
# How far a stroke speaks for pixels of its colour, and how far colours (of `lab_planes`) may be.
NEAR, ALIKE = 16.0, 0.6
MOST_ODDS = 5.0


@dataclass(frozen=True)
class View:
    """The part of an image that the net sees, `image[top:bottom, left:right]`, at its size."""

    top: int
    left: int
    bottom: int
    right: int

    @staticmethod
    def of(box: Box | None, shape: tuple[int, int], room: float = ROOM) -> "View":
        """Return the view of a box in an image of this shape; without a box, of all of it."""
        if box is None:
            return View(0, 0, *shape)
        down, across = room * (box[2] - box[0]), room * (box[3] - box[1])
        return View(
            max(0, round(box[0] - down)), max(0, round(box[1] - across)),
            min(shape[0], round(box[2] + down)), min(shape[1], round(box[3] + across)),
        )  # fmt: skip

    @property
    def part(self) -> tuple[slice, slice]:
        """The rows and columns of the image that the net sees."""
        return slice(self.top, self.bottom), slice(self.left, self.right)

    def small(self, plane: AnyArray, side: int = SIDE) -> Float32:
        """Return a plane (h, w) of the image at the net's size: means over what a pixel covers."""
        picture = Image.fromarray(np.ascontiguousarray(plane[self.part], np.float32))
        return np.asarray(picture.resize((side, side), Image.Resampling.BILINEAR))

    def large(self, plane: Float32, shape: tuple[int, int], fill: float) -> Float32:
        """Invert `small` by interpolation; `fill` outside of the view."""
        size = (self.right - self.left, self.bottom - self.top)
        found = np.full(shape, fill, np.float32)
        part = Image.fromarray(plane).resize(size, Image.Resampling.BILINEAR)
        found[self.part] = np.asarray(part)
        return found


def mixture_odds(
    palette: Palette, fixed: NDArray[np.int16], boxed: bool
) -> tuple[Float32, Float32]:
    """Return log-odds of colours in every cell, before and after relabelling; (K,) each.

    With a box, open pixels begin as object; else only seeds count at first. Without any background
    there is nothing to compare with, and both are 0.
    """
    zeros, ones, free = (palette.counts(fixed == label) for label in (0, 1, -1))
    if not zeros.any() or not (ones.any() or (boxed and free.any())):
        none = np.zeros(len(palette.colors), np.float32)
        return none, none
    begin = free
    if not boxed:
        seeded = log_odds(palette, (palette.fit(zeros), palette.fit(ones)))
        begin = np.where(seeded > 0, free, 0.0)
    first, last = relabelled(palette, (zeros, ones), free, begin)
    both = np.stack([first if boxed else seeded, last])
    both = np.clip(both, -MOST_ODDS, MOST_ODDS).astype(np.float32)
    return both[0], both[1]


def colors_of(palette: Palette, mask: Bits) -> Float32:
    """Return log-odds of the colours inside of a mask to those outside, (h, w)."""
    return odds_of(palette, mask, MOST_ODDS).astype(np.float32)


def lab_planes(palette: Palette) -> Float32:
    """Return the colours of all pixels, (3, h, w), of about the same size; a, b of grey are 0."""
    scaled = np.zeros((3, len(palette.colors)), np.float32)
    scaled[0] = 4 * palette.colors[:, 0] - 2
    scaled[1:] = 5 * palette.colors[:, 1:].T if palette.colors.shape[1] == 3 else 0
    return np.asarray(scaled[:, palette.index])


def channels(
    lab: Float32,
    box: Box | None,
    seeds: NDArray[np.int16] | None,
    odds: tuple[Float32, Float32],
    view: View,
    before: Float32 | None = None,
) -> Float32:
    """Return the inputs of the net, (9, SIDE, SIDE) float32; planes have the image's shape.

    `before` are the logits that it gave when it was asked last; none count as undecided.
    """
    shape = lab.shape[1:]
    inside = np.zeros(shape, np.float32)
    if box is not None:
        inside[box[0] : box[2], box[1] : box[3]] = 1
    planes = [view.small(plane) for plane in (*lab, inside, *odds)]
    planes += [_felt(seeds, label, view) for label in (0, 1)]
    planes.append(np.zeros_like(planes[0]) if before is None else view.small(before))
    return np.stack(planes)


def _marked(seeds: NDArray[np.int16] | None, label: int, view: View) -> Bits:
    """Return where the net's pixels hold a seed of a label."""
    if seeds is None or not (seeds == label).any():
        return np.zeros((SIDE, SIDE), bool)
    return view.small(seeds == label) > 0


def _felt(seeds: NDArray[np.int16] | None, label: int, view: View) -> Float32:
    """Return exp(-d^2 / (2 REACH^2)) with the distance d from the next seed of a label."""
    marked = _marked(seeds, label, view)
    if not marked.any():
        return np.zeros((SIDE, SIDE), np.float32)
    return np.asarray(np.exp(nearest(marked)[0] * np.float32(-0.5 / REACH**2)), np.float32)


def nearest(marked: Bits) -> tuple[Float32, NDArray[np.intp], NDArray[np.intp]]:
    """Return square distances from the next marked pixel, and its row and column; exact.

    Within a column the next mark is above or below; then the best of the columns that have marks.
    """
    h, w = marked.shape
    columns = np.flatnonzero(marked.any(axis=0))
    rows, part = np.arange(h)[:, None], marked[:, columns]
    above = np.maximum.accumulate(np.where(part, rows, -2 * h), axis=0)
    below = np.minimum.accumulate(np.where(part, rows, 3 * h)[::-1], axis=0)[::-1]
    row = np.where(rows - above <= below - rows, above, below)
    down = ((rows - row) ** 2).astype(np.float32)
    across = ((np.arange(w)[:, None] - columns) ** 2).astype(np.float32)
    whose = np.empty((h, w), np.intp)
    for k in range(h):
        (down[k] + across).argmin(axis=1, out=whose[k])
    square = np.take_along_axis(down, whose, 1) + across[np.arange(w), whose]
    return square, np.take_along_axis(row, whose, 1), columns[whose]


def spoken(lab: Float32, marked: Bits, view: View) -> Float32:
    """Return how much a stroke counts for pixels near it of its colour, (h, w) in [0, 1].

    exp(-d^2 / (2 NEAR^2)) exp(-|x - c|^2 / (2 ALIKE^2)) with the distance d from the next mark, in
    pixels of the net, its colour c there, and the pixel's own colour x.
    """
    shape = (lab.shape[1], lab.shape[2])
    found = np.zeros(shape, np.float32)
    small = view.small(marked) > 0
    if not small.any():
        return found
    square, y, x = nearest(small)
    near = np.exp(square * np.float32(-0.5 / NEAR**2))
    away = np.float32(0)
    for plane in lab:
        away = away + (plane[view.part] - _enlarged(view.small(plane)[y, x], view)) ** 2
    found[view.part] = view.large(near, shape, 0)[view.part]
    found[view.part] *= np.exp(away * np.float32(-0.5 / ALIKE**2))
    return found


def _enlarged(plane: Float32, view: View) -> Float32:
    """Return a plane of the net at the size of the view, without interpolation."""
    size = (view.right - view.left, view.bottom - view.top)
    return np.asarray(Image.fromarray(plane).resize(size, Image.Resampling.NEAREST))


def net_logits(shape: NetShape, weights: Weights, planes: Float32) -> Float32:
    """Return the net's mean logits over a picture and its mirror image, (SIDE, SIDE) float32."""
    pair = np.stack([planes, planes[..., ::-1]], axis=1)
    with one_thread():
        found = Pass(shape, weights, True).logits(np.ascontiguousarray(pair))[0]
    return np.asarray((found[0] + found[1][..., ::-1]) / 2, np.float32)
