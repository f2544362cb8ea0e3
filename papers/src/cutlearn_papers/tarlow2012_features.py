"""The features of tarlow2012, as near as its text allows: 84 of nodes, 4 of edges, no position.

Nodes: "simple color-based and texture-based filters, run on patches surrounding the pixel". Here:
means of RGB and Lab, deviations of Lab, edges and bars of six directions, blobs, and what a pixel
has beyond its surroundings, each at several sizes. Edges: 1, and whether the boundary is weaker
than three thresholds; the strength of the gradient of colour stands for the detector pb.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from cutlearn.arrays import Image
from cutlearn.energy.problem import Problem
from cutlearn.features.describe import as_color, lab
from cutlearn.grid import grid_slices

Float32 = NDArray[np.float32]
SIZES, TEXTURES, TURNS = (2.0, 4.0, 8.0), (1.0, 2.0, 4.0), 6
# Parts of the training images' boundary responses that lie below the thresholds.
BELOW = (0.5, 0.75, 0.9)
CONNECTIVITY = 4


def node_columns(image: Image) -> Float32:
    """Give the columns of every pixel, (h, w, 84)."""
    color = as_color(image)
    rgb, Lab = np.moveaxis(color, -1, 0), lab(color)
    every = np.concatenate([rgb, Lab])
    means = {size: _mean(every, size) for size in SIZES}
    planes = [np.ones((1, *image.shape[:2])), every, *means.values()]
    for size in SIZES:
        square = _mean(Lab * Lab, size) - means[size][3:] ** 2
        planes.append(np.sqrt(np.maximum(square, 0)))
    for size in TEXTURES:
        planes.append(_mean(np.abs(_turned(Lab[0], size)), 2 * size))
    blobs = [Lab[0] - _mean(Lab[:1], size)[0] for size in (1.0, *SIZES)]
    planes.append(np.abs(np.stack(blobs)))
    planes += [Lab - _mean(Lab, 2 * size) for size in SIZES]
    planes.append((rgb.max(axis=0) - rgb.min(axis=0))[None])
    return np.ascontiguousarray(np.moveaxis(np.concatenate(planes), 0, -1), np.float32)


def boundary(image: Image) -> Float32:
    """Give the strength of the boundary between both ends of every edge, (m,)."""
    planes = lab(as_color(image))
    strength = sum(
        size * np.sqrt(sum(gaussian_filter(plane, size, order) ** 2
                           for plane in planes for order in ((0, 1), (1, 0))))
        for size in (1.0, 2.0)
    )  # fmt: skip
    ends = grid_slices(image.shape[:2], CONNECTIVITY)
    return np.concatenate([np.maximum(strength[a], strength[b]).ravel() for a, b in ends])


@dataclass(frozen=True, eq=False)
class Filters:
    """What training images tell: mean and deviation of the columns, thresholds of boundaries."""

    mean: Float32
    scale: Float32
    thresholds: NDArray[np.float64]

    @staticmethod
    def fit(images: Sequence[Image]) -> "Filters":
        """Learn from training images."""
        rows = np.concatenate([node_columns(image).reshape(-1, 84)[::7] for image in images])
        mean, scale = rows.mean(axis=0), np.maximum(rows.std(axis=0), 1e-6)
        mean[0], scale[0] = 0, 1
        found = np.concatenate([boundary(image) for image in images])
        return Filters(mean, scale, np.quantile(found, BELOW))

    def problem(self, image: Image) -> Problem:
        """Give the problem of an image."""
        strength = boundary(image)[:, None]
        weak = np.concatenate([np.ones_like(strength), strength < self.thresholds], axis=1)
        return Problem(
            (node_columns(image) - self.mean) / self.scale, edge_features=weak.astype(np.float32),
            shape=image.shape[:2], connectivity=CONNECTIVITY,
        )  # fmt: skip


def _mean(planes: Float32, size: float) -> Float32:
    return np.stack([gaussian_filter(plane, size) for plane in planes])


def _turned(plane: Float32, size: float) -> Float32:
    """Edges and bars of one size in all directions, (2 x TURNS, h, w)."""
    dx, dy, dxx, dxy, dyy = (
        gaussian_filter(plane, size, order)
        for order in ((0, 1), (1, 0), (0, 2), (1, 1), (2, 0))
    )  # fmt: skip
    angles = np.arange(TURNS) * np.pi / TURNS
    cosines, sines = np.cos(angles), np.sin(angles)
    edges = [size * (c * dx + s * dy) for c, s in zip(cosines, sines)]
    bars = [size**2 * (c * c * dxx + 2 * c * s * dxy + s * s * dyy)
            for c, s in zip(cosines, sines)]  # fmt: skip
    return np.asarray(edges + bars, np.float32)
