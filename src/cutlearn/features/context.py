"""Auto-context: what a first guess looks like around a pixel, as columns for a second one.

In: a map of logits (h, w), out of fold in training. Out: further planes of a `Stack`: the logit,
its probability blurred, seen at offsets and on rings, averaged over row, column and image,
and the size of, and the distance within, the connected piece that the pixel lies in.
"""

import numpy as np
from scipy import ndimage

from cutlearn.features.describe import Picture, Stack
from cutlearn.features.filters import Float32, blur, rings

CLIP = 8.0


def probability(logit: Float32) -> Float32:
    """1 / (1 + exp(-logit)), the logit clipped to [-30, 30]."""
    return (1 / (1 + np.exp(-np.clip(logit, -30, 30), dtype=np.float64))).astype(np.float32)


def add_context(stack: Stack, logit: Float32, picture: Picture, kind: str) -> None:
    """Append the context planes of one map of logits to a stack of the same shape."""
    p = probability(logit)
    stack.add("logit", np.clip(logit, -CLIP, CLIP))
    near = {sigma: blur(p, sigma) for sigma in (2, 4, 8, 16, 32)}
    numbers = {sigma: stack.add(f"p{sigma}", plane) for sigma, plane in near.items()}
    shape = p.shape
    stack.add("prow", np.broadcast_to(p.mean(axis=1, keepdims=True), shape))
    stack.add("pcolumn", np.broadcast_to(p.mean(axis=0, keepdims=True), shape))
    stack.add("pimage", np.broadcast_to(p.mean(dtype=np.float64), shape))
    stack.add("piece", pieces(p > 0.5))
    # What pixels of like colour were taken for, in the image and nearby: its own colour model.
    stack.add("plike", picture.palette(kind).mean(p))
    stack.add("plike nearby", picture.palette(kind, 6).mean(p))
    if kind == "photograph":
        for radius, sigma in ((8, 2), (16, 4), (34, 8), (60, 16)):
            stack.offsets(f"p{sigma}", numbers[sigma], radius)
    else:
        for radius, sigma in ((5, 2), (10, 2), (16, 4), (24, 4), (36, 8), (60, 16)):
            stack.add(f"pring{radius}", rings(near[sigma], radius))


def pieces(labels: np.ndarray[tuple[int, int], np.dtype[np.bool_]]) -> Float32:
    """Of every pixel: root of its piece's area, and its depth in it, both signed; (2, h, w).

    A piece is a 4-connected set of one label. Object pixels count positive, others negative;
    depth is the distance in pixels to the other label, the image's diagonal where there is none.
    """
    size = np.zeros(labels.shape, np.float32)
    depth = np.zeros(labels.shape, np.float32)
    far = float(np.hypot(*labels.shape))
    for label, sign in ((True, 1), (False, -1)):
        inside = labels == label
        if not inside.any():
            continue
        number, _ = ndimage.label(inside)
        area = np.sqrt(np.bincount(number.reshape(-1))).astype(np.float32)
        size += np.where(inside, sign * area[number], 0).astype(np.float32)
        away = ndimage.distance_transform_edt(inside) if not inside.all() else inside * far
        depth += (sign * away).astype(np.float32)
    return np.stack([size, depth])
