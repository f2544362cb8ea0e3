"""Auto-context: what a first guess looks like around a pixel, as columns for a second one.

In: a map of logits (h, w), out of fold in training. Out: further planes of a `Stack`: the logit,
its probability blurred, seen at offsets and on rings, averaged over row, column and image,
and the size of, and the distance within, the connected piece that the pixel lies in.
"""

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from cutlearn.features.columns import Stack
from cutlearn.features.describe import Picture
from cutlearn.features.filters import blur, blurred, middle, rings
from cutlearn.features.planes import Float32, Planes, bands, whole

CLIP = 8.0


def probability(logit: Float32) -> Float32:
    """1 / (1 + exp(-logit)), the logit clipped to [-30, 30]."""
    return (1 / (1 + np.exp(-np.clip(logit, -30, 30), dtype=np.float64))).astype(np.float32)


def add_context(stack: Stack, logit: Float32, picture: Picture, kind: str) -> None:
    """Append the context planes of one map of logits to a stack of the same shape."""
    h, w = stack.shape
    p = whole(logit).each(probability).all()[0]
    likely = whole(p)
    stack.add("logit", whole(logit).each(lambda part: np.clip(part, -CLIP, CLIP)))
    near = {sigma: blurred(likely, sigma) for sigma in (4, 8, 16, 32)}
    near = {2: whole(blur(p, 2))} | near
    numbers = {sigma: stack.add(f"p{sigma}", plane) for sigma, plane in near.items()}
    across, down = p.mean(axis=1, keepdims=True), p.mean(axis=0, keepdims=True)
    mean = np.float32(p.mean(dtype=np.float64))

    def means(first: int, last: int) -> Float32:
        made = np.empty((3, last - first, w), np.float32)
        made[0], made[1], made[2] = across[first:last], down, mean
        return made

    stack.add(["prow", "pcolumn", "pimage"], Planes(3, (h, w), means))
    stack.add("piece", pieces(p > 0.5))
    # What pixels of like colour were taken for, in the image and nearby: its own colour model.
    for name, palette in (
        ("plike", picture.palette(kind)),
        ("plike nearby", picture.palette(kind, 6)),
    ):
        stack.add(name, palette.look_up(palette.mean_tables(likely)))
    if kind == "photograph":
        for radius, sigma in ((8, 2), (16, 4), (34, 8), (60, 16)):
            stack.offsets(f"p{sigma}", numbers[sigma], radius)
    else:
        centres = {sigma: middle(near[sigma]) for sigma in (2, 4, 8, 16)}
        for radius, sigma in ((5, 2), (10, 2), (16, 4), (24, 4), (36, 8), (60, 16)):
            stack.add(f"pring{radius}", rings(near[sigma], radius, centres[sigma]))


def pieces(labels: npt.NDArray[np.bool_]) -> Float32:
    """Of every pixel: root of its piece's area, and its depth in it, both signed; (2, h, w).

    A piece is a 4-connected set of one label. Object pixels count positive, others negative;
    depth is the distance in pixels to the other label, the image's diagonal where there is none.
    """
    made = np.zeros((2, *labels.shape), np.float32)
    size, depth = made
    far = np.float32(np.hypot(*labels.shape))
    for label, sign in ((True, 1), (False, -1)):
        inside = labels == label
        if not inside.any():
            continue
        number, count = ndimage.label(inside)
        area = np.zeros(count + 1, np.int64)
        for first, last in bands(len(labels)):
            area += np.bincount(number[first:last].reshape(-1), minlength=count + 1)
        root = sign * np.sqrt(area).astype(np.float32)
        root[0] = 0
        for first, last in bands(len(labels)):
            size[first:last] += root[number[first:last]]
        del number
        if inside.all():
            depth += sign * far
            continue
        # The nearest pixel of the other label, whole numbers: the distance is taken by bands.
        place = ndimage.distance_transform_edt(inside, return_distances=False, return_indices=True)
        x = np.arange(labels.shape[1])
        for first, last in bands(len(labels)):
            dy = (place[0, first:last] - np.arange(first, last)[:, None]).astype(np.float64)
            dx = (place[1, first:last] - x).astype(np.float64)
            depth[first:last] += sign * np.sqrt(dy * dy + dx * dx).astype(np.float32)
    return made
