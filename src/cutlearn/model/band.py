"""A mask that was found on a smaller image, made sharp: one more cut in a band along its border.

Only pixels within a few of the enlarged border are open; their costs are those of the smaller
image, interpolated, and the edges between them are those of the full image. So a large image costs
what its border is long.
"""

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import Floats
from cutlearn.energy.energy import Energy
from cutlearn.features.planes import Float32
from cutlearn.images.resize import resize_labels

# Width of the band on each side of the border, in pixels of the smaller image.
WIDTH = 2
STEPS = ((0, 1), (1, 0), (1, 1), (1, -1), (0, -1), (-1, 0), (-1, -1), (-1, 1))


class Band:
    """What making masks sharp needs of an image, computed once.

    Parameters
    ----------
    image : (H, W) or (H, W, 3)
    """

    def __init__(self, image: Float32) -> None:
        self.shape = image.shape[0], image.shape[1]
        grid = image.reshape(*self.shape, -1)
        parts = [np.diff(grid, axis=axis) for axis in (0, 1)]
        total = sum(float(np.einsum("ijk,ijk->", d, d, dtype=np.float64)) for d in parts)
        # Of a flat image it may be anything; of a dark one it is small.
        self.beta = total / max(sum(d.shape[0] * d.shape[1] for d in parts), 1) or 1.0
        self.pixels = grid.reshape(-1, grid.shape[2])
        # The number of a pixel in the band; -1 between two calls.
        self._number = np.full(len(self.pixels), -1, np.int32)

    def sharpened(
        self,
        labels: NDArray[np.uint8],
        unary: Floats,
        fixed: NDArray[np.int16],
        strength: tuple[float, float],
    ) -> NDArray[np.uint8]:
        """Give the labels at the size of the image.

        Parameters
        ----------
        labels, unary : (h, w)
            Of the smaller image: its mask, and what label 1 costs more than label 0.
        fixed : (H, W), -1 where a pixel is free
        strength : weights of the edge features "bias" and "contrast"
        """
        large = np.where(fixed >= 0, fixed, resize_labels(labels, self.shape)).ravel()
        near = resize_labels(_border(labels), self.shape).ravel() > 0
        nodes = np.flatnonzero(near & (fixed.ravel() < 0))
        if len(nodes):
            self._number[nodes] = np.arange(len(nodes), dtype=np.int32)
            costs = self._interpolated(unary, nodes)
            edges, weights = self._edges(nodes, large, costs, strength)
            self._number[nodes] = -1
            large[nodes] = Energy(costs, edges, weights).minimize().labels
        return large.reshape(self.shape).astype(np.uint8)

    def _edges(
        self,
        nodes: NDArray[np.int64],
        large: NDArray[np.int16],
        costs: Floats,
        strength: tuple[float, float],
    ) -> tuple[NDArray[np.int64], Floats]:
        """Edges within the band; those that leave it become costs of their node alone."""
        edges, weights = [], []
        rows, columns = np.divmod(nodes, self.shape[1])
        for down, across in STEPS:
            y, x = rows + down, columns + across
            inside = (y >= 0) & (y < self.shape[0]) & (x >= 0) & (x < self.shape[1])
            forward = down > 0 or (down == 0 and across > 0)
            other = np.where(inside, y * self.shape[1] + x, nodes)
            within = self._number[other] >= 0
            # An edge within the band is met from both of its ends; one is enough.
            used = np.flatnonzero(inside & (~within | forward))
            other, within = other[used], within[used]
            difference = self.pixels[nodes[used]] - self.pixels[other]
            square = np.einsum("ij,ij->i", difference, difference)
            contrast = np.exp(-square / (2 * self.beta)) / np.hypot(down, across)
            weight = strength[0] + strength[1] * contrast.astype(np.float64)
            outer = ~within
            # A neighbour outside of the band has its label already. Each node occurs once.
            costs[used[outer]] += np.where(large[other[outer]] == 1, -weight[outer], weight[outer])
            if forward:
                edges.append(np.stack([used[within], self._number[other[within]]], axis=1))
                weights.append(weight[within])
        return np.concatenate(edges), np.concatenate(weights)

    def _interpolated(self, unary: Floats, nodes: NDArray[np.int64]) -> Floats:
        """Costs at some pixels of the large image.

        Costs are areas and edges are lengths: n times as fine, there are n^2 times the pixels but n
        times the border. Divided by n, costs keep their proportion.
        """
        row, column = (
            np.clip((place + 0.5) * (small / large) - 0.5, 0, small - 1)
            for place, small, large in zip(np.divmod(nodes, self.shape[1]), unary.shape, self.shape)
        )
        top, left = row.astype(np.int64), column.astype(np.int64)
        bottom, right = (
            np.minimum(top + 1, len(unary) - 1),
            np.minimum(left + 1, unary.shape[1] - 1),
        )
        down, across = row - top, column - left
        above = (1 - across) * unary[top, left] + across * unary[top, right]
        below = (1 - across) * unary[bottom, left] + across * unary[bottom, right]
        found = (1 - down) * above + down * below
        return np.asarray(found * np.sqrt(unary.size / (self.shape[0] * self.shape[1])), np.float64)


def _border(labels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """1 within WIDTH pixels of a border of the mask, else 0."""
    low = high = labels
    for axis in (0, 1):
        low, high = _around(low, axis, np.minimum), _around(high, axis, np.maximum)
    return high - low


def _around(plane: NDArray[np.uint8], axis: int, which: np.ufunc) -> NDArray[np.uint8]:
    """The least or largest value within WIDTH pixels along an axis."""
    wide = np.moveaxis(plane, axis, 0)
    padded = np.pad(wide, [(WIDTH, WIDTH), (0, 0)], "edge")
    found = which.reduce([padded[k : k + len(wide)] for k in range(2 * WIDTH + 1)])
    return np.asarray(np.moveaxis(found, 0, axis), np.uint8)
