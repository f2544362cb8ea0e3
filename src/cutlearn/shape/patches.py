"""Overlapping patches of a mask: which labels each group of hidden units sees.

Every patch has the same size, so that all can share one matrix of weights W (labels of a patch x
units of a patch). A machine without patches is the case of one patch as large as the mask.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[Any]
# Two neighbouring patches share so many rows or columns, or a quarter of a small mask.
OVERLAP = 8
# From this ratio of the sides on, all patches lie along the longer one (a person, upright).
LONG = 1.5


@dataclass(frozen=True)
class Patches:
    """Where the patches of a mask are.

    Parameters
    ----------
    shape : (rows, columns) of the mask
    size : (rows, columns) of a patch
    corners : ((row, column), ...) of the patches
    """

    shape: tuple[int, int]
    size: tuple[int, int]
    corners: tuple[tuple[int, int], ...]

    @classmethod
    def whole(cls, shape: Sequence[int]) -> "Patches":
        """One patch: every hidden unit sees every label."""
        side = (int(shape[0]), int(shape[1]))
        return cls(side, side, ((0, 0),))

    @classmethod
    def layout(cls, shape: Sequence[int]) -> "Patches":
        """Four patches: two by two, or in a line along a side that is much the longer one.

        Examples
        --------
        >>> Patches.layout((32, 32)).size, Patches.layout((64, 64)).size
        ((20, 20), (36, 36))
        >>> Patches.layout((64, 32)).corners
        ((0, 0), (14, 0), (28, 0), (42, 0))
        """
        rows, columns = int(shape[0]), int(shape[1])
        counts = (2, 2)
        if max(rows, columns) >= LONG * min(rows, columns):
            counts = (4, 1) if rows > columns else (1, 4)
        (height, tops), (width, lefts) = (_line(n, k) for n, k in zip((rows, columns), counts))
        corners = tuple((top, left) for top in tops for left in lefts)
        return cls((rows, columns), (height, width), corners)

    @property
    def index(self) -> NDArray[np.intp]:
        """(patches, labels of a patch): flat places in the mask."""
        places = np.arange(self.shape[0] * self.shape[1]).reshape(self.shape)
        (h, w) = self.size
        return np.stack([places[t : t + h, s : s + w].ravel() for t, s in self.corners])

    def gather(self, y: Floats) -> Floats:
        """(rows, n) labels -> (rows, patches, labels of a patch)."""
        if len(self.corners) == 1:
            return y[:, None]
        return y[:, self.index]

    def scatter(self, parts: Floats) -> Floats:
        """The transpose of `gather`: what overlapping patches say is added."""
        if len(self.corners) == 1:
            return parts[:, 0]
        whole = np.zeros((len(parts), self.shape[0] * self.shape[1]), parts.dtype)
        for k, index in enumerate(self.index):
            whole[:, index] += parts[:, k]
        return whole

    def expand(self, W: Floats) -> Floats:
        """The shared W as one matrix (n, patches x units), zero where a unit does not see."""
        if len(self.corners) == 1:
            return W
        wide = np.zeros((self.shape[0] * self.shape[1], len(self.corners), W.shape[1]), W.dtype)
        for k, index in enumerate(self.index):
            wide[index, k] = W
        return wide.reshape(len(wide), -1)

    def up(self, y: Floats, W: Floats) -> Floats:
        """y' W of all patches: (rows, n) -> (rows, patches x units)."""
        parts = self.gather(y)
        return (parts.reshape(-1, parts.shape[-1]) @ W).reshape(len(y), -1)

    def down(self, h: Floats, W: Floats) -> Floats:
        """W h of all patches, added where they overlap: (rows, units) -> (rows, n)."""
        units = h.reshape(len(h) * len(self.corners), W.shape[1]) @ W.T
        return self.scatter(units.reshape(len(h), len(self.corners), -1))

    def outer(self, y: Floats, h: Floats, size: int) -> Floats:
        """The sum of y h' over rows and patches: the gradient of `y' W h` in the shared W."""
        parts = self.gather(y)
        rows = len(y) * len(self.corners)
        total: Floats = parts.reshape(rows, -1).T @ h.reshape(rows, size)
        return total


def _line(length: int, count: int) -> tuple[int, list[int]]:
    """Size and starts of `count` overlapping intervals that cover a length."""
    if count == 1:
        return length, [0]
    overlap = min(OVERLAP, length // 4)
    size = -(-(length + (count - 1) * overlap) // count)
    return size, [round(k * (length - size) / (count - 1)) for k in range(count)]
