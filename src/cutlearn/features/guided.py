"""What a small net says of an image with a box or seeds; its weights come with the package.

The net looks at the box with some room around it, at 128 x 128 pixels: Lab colours, where the box
and the seeds are, and what mixtures of colours say. Its logits tell object from background for
objects of any kind; `scripts/learn_defaults.py` trains it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cutlearn.features.mixtures import Palette, log_odds, relabelled
from cutlearn.features.net.body import Pass, Shape, Weights
from cutlearn.run.single import one_thread

Float32 = NDArray[np.float32]
Box = tuple[int, int, int, int]

SIDE = 128
CHANNELS = 8
# The channel of the log-odds that are known best.
ODDS = 5
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
        """The view of a box in an image of this shape; without a box, of all of it."""
        if box is None:
            return View(0, 0, *shape)
        down, across = room * (box[2] - box[0]), room * (box[3] - box[1])
        return View(
            max(0, round(box[0] - down)), max(0, round(box[1] - across)),
            min(shape[0], round(box[2] + down)), min(shape[1], round(box[3] + across)),
        )  # fmt: skip

    def small(self, plane: NDArray[Any]) -> Float32:
        """A plane (h, w) of the image at the net's size: means over what a pixel covers."""
        part = np.ascontiguousarray(plane[self.top : self.bottom, self.left : self.right])
        picture = Image.fromarray(part.astype(np.float32, copy=False))
        return np.asarray(picture.resize((SIDE, SIDE), Image.Resampling.BOX))

    def large(self, plane: Float32, shape: tuple[int, int], fill: float) -> Float32:
        """The inverse of `small`, interpolated; `fill` outside of the view."""
        size = (self.right - self.left, self.bottom - self.top)
        found = np.full(shape, fill, np.float32)
        part = Image.fromarray(plane).resize(size, Image.Resampling.BILINEAR)
        found[self.top : self.bottom, self.left : self.right] = np.asarray(part)
        return found


def mixture_odds(
    palette: Palette, fixed: NDArray[np.int16], boxed: bool
) -> tuple[Float32, Float32]:
    """Log-odds of colours in every cell, before and after relabelling; (K,) each.

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


def lab_planes(palette: Palette) -> Float32:
    """The colours of all pixels, (3, h, w), of about the same size; grey ones have no a and b."""
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
) -> Float32:
    """What the net sees, (8, SIDE, SIDE) float32; lab and odds are planes in the image's shape."""
    shape = lab.shape[1:]
    inside = np.zeros(shape, np.float32)
    if box is not None:
        inside[box[0] : box[2], box[1] : box[3]] = 1
    planes = [view.small(plane) for plane in (*lab, inside, *odds)]
    planes += [_felt(seeds, label, view) for label in (0, 1)]
    return np.stack(planes)


def _marked(seeds: NDArray[np.int16] | None, label: int, view: View) -> NDArray[np.bool_]:
    """Where the net's pixels hold a seed of a label."""
    if seeds is None or not (seeds == label).any():
        return np.zeros((SIDE, SIDE), bool)
    return view.small(seeds == label) > 0


def _felt(seeds: NDArray[np.int16] | None, label: int, view: View) -> Float32:
    """exp(-d^2 / (2 REACH^2)) with the distance d from the next seed of a label."""
    from scipy import ndimage

    marked = _marked(seeds, label, view)
    if not marked.any():
        return np.zeros((SIDE, SIDE), np.float32)
    distance = ndimage.distance_transform_edt(~marked)
    return np.asarray(np.exp(-0.5 * (distance / REACH) ** 2), np.float32)


def nearby(lab: Float32, seeds: NDArray[np.int16] | None, view: View) -> Float32:
    """What strokes say of pixels that are near and of their colour: B_1 - B_0, (h, w) in [-1, 1].

    B_k = exp(-d^2 / (2 NEAR^2)) exp(-|x - c|^2 / (2 ALIKE^2)) with the distance d from the next
    stroke of label k, in pixels of the net, its mean colour c, and the pixel's own colour x.
    """
    from scipy import ndimage

    shape = (lab.shape[1], lab.shape[2])
    total = np.zeros(shape, np.float32)
    part = np.s_[view.top : view.bottom, view.left : view.right]
    for label, sign in ((0, -1), (1, 1)):
        marked = _marked(seeds, label, view)
        if not marked.any():
            continue
        strokes, count = ndimage.label(marked, np.ones((3, 3)))
        distance, (y, x) = ndimage.distance_transform_edt(~marked, return_indices=True)
        near = np.exp(-0.5 * (distance / NEAR) ** 2).astype(np.float32)
        whose = strokes[y, x] - 1
        square = np.float32(0)
        for plane in lab:
            means = ndimage.mean(view.small(plane), strokes, np.arange(1, count + 1))
            color = _nearest(np.asarray(means, np.float32)[whose], view)
            square = square + (plane[part] - color) ** 2
        spread = view.large(near, shape, 0)[part]
        total[part] += sign * spread * np.exp(square * np.float32(-0.5 / ALIKE**2))
    return total


def _nearest(plane: Float32, view: View) -> Float32:
    """A plane of the net at the size of the view, without interpolation."""
    size = (view.right - view.left, view.bottom - view.top)
    return np.asarray(Image.fromarray(plane).resize(size, Image.Resampling.NEAREST))


def net_logits(shape: Shape, weights: Weights, planes: Float32) -> Float32:
    """The mean logits of the net over a picture and its mirror image, (SIDE, SIDE) float32."""
    pair = np.stack([planes, planes[..., ::-1]], axis=1)
    with one_thread():
        found = Pass(shape, weights, True).logits(np.ascontiguousarray(pair))[0]
    return np.asarray((found[0] + found[1][..., ::-1]) / 2, np.float32)
