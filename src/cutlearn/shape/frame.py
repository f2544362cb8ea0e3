"""Images, masks and patches at the size of a machine.

An image is padded with its own mirror image to the proportions of the machine's mask, then resized
to `SCALE` times the mask. Log-odds at the mask's size are enlarged, and the padding is cut off. The
patches of a mask all have one size, so that they can share one matrix of weights W (labels of a
patch x units of a patch); a machine without patches has one patch as large as the mask.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from cutlearn.arrays import VOID, AnyArray, Bits, Float32, Mask
from cutlearn.features.describe import as_color
from cutlearn.images.resize import resize_image, resize_labels

# Pixels of the working image to a side of a mask's pixel: 128 x 128 for masks of 32 x 32.
SCALE = 4
# Two neighbouring patches share so many rows or columns, or a quarter of a small mask.
OVERLAP = 8
# From this ratio of the sides on, all patches lie along the longer one (a person, upright).
LONG = 1.5


@dataclass(frozen=True)
class Frame:
    """The place of an image in the working image of a machine.

    Parameters
    ----------
    mask : (rows, columns) of the model's masks
    image : (rows, columns) of the image
    """

    mask: tuple[int, int]
    image: tuple[int, int]

    @property
    def padding(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Mirrored rows above and below, and columns left and right."""
        h, w = self.image
        rows = max(h, -(-w * self.mask[0] // self.mask[1]))
        columns = max(w, -(-h * self.mask[1] // self.mask[0]))
        top, left = (rows - h) // 2, (columns - w) // 2
        return (top, rows - h - top), (left, columns - w - left)

    def picture(self, image: Float32) -> Float32:
        """Return the padded image at the working size, in colour."""
        wide = np.pad(as_color(image), (*self.padding, (0, 0)), mode="symmetric")
        return resize_image(wide, (SCALE * self.mask[0], SCALE * self.mask[1]))

    def labels(self, mask: Mask) -> Mask:
        """Return the padded mask at the model's size: the majority of known pixels, or void.

        The padding is background: a shape ends where its image does, or feet at the border would
        grow feet of their own.
        """
        wide = np.pad(mask, self.padding)
        known = resize_image((wide != VOID).astype(np.float32), self.mask)
        ones = resize_image((wide == 1).astype(np.float32), self.mask)
        made = (2 * ones > known).astype(np.uint8)
        made[known <= 0.25] = VOID
        return made

    def inside(self) -> Bits:
        """Return which pixels of the model's mask lie in the image itself, not in its padding."""
        wide = np.pad(np.ones(self.image, np.uint8), self.padding)
        return resize_labels(wide, self.mask).astype(bool)

    def paint(self, values: Float32) -> Float32:
        """Return values at the model's size, enlarged linearly to the image's size."""
        (top, below), (left, right) = self.padding
        h, w = self.image
        rows, columns = h + top + below, w + left + right
        return _enlarged(values, (rows, columns))[top : top + h, left : left + w]


def _enlarged(values: Float32, shape: tuple[int, int]) -> Float32:
    """Interpolate linearly between the centres of the cells."""
    out = np.asarray(values, np.float32)
    for axis, size in enumerate(shape):
        cells = out.shape[axis]
        at = np.clip((np.arange(size) + 0.5) * cells / size - 0.5, 0, cells - 1)
        low = np.minimum(at.astype(np.intp), max(cells - 2, 0))
        part = (at - low).astype(np.float32)
        part = part[:, None] if axis == 0 else part
        high = np.minimum(low + 1, cells - 1)
        out = out.take(low, axis) * (1 - part) + out.take(high, axis) * part
    return out


@dataclass(frozen=True)
class Patches:
    """Overlapping patches of a mask: the labels that each group of hidden units sees.

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
        """Make one patch: every hidden unit sees every label."""
        side = (int(shape[0]), int(shape[1]))
        return cls(side, side, ((0, 0),))

    @classmethod
    def layout(cls, shape: Sequence[int]) -> "Patches":
        """Make four patches: two by two, or in a line along a side that is much the longer one.

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
        """Flat indices into the mask, (patches, labels of a patch)."""
        flat = np.arange(self.shape[0] * self.shape[1]).reshape(self.shape)
        (h, w) = self.size
        return np.stack([flat[t : t + h, s : s + w].ravel() for t, s in self.corners])

    def gather(self, y: AnyArray) -> AnyArray:
        """Return the labels (rows, n) of every patch, (rows, patches, labels of a patch)."""
        if len(self.corners) == 1:
            return y[:, None]
        return y[:, self.index]

    def scatter(self, parts: AnyArray) -> AnyArray:
        """Return the transpose of `gather`: overlapping patches are added."""
        if len(self.corners) == 1:
            return parts[:, 0]
        whole = np.zeros((len(parts), self.shape[0] * self.shape[1]), parts.dtype)
        for k, index in enumerate(self.index):
            whole[:, index] += parts[:, k]
        return whole

    def expand(self, W: AnyArray) -> AnyArray:
        """Return the shared W as one matrix (n, patches x units), zero outside the patches."""
        if len(self.corners) == 1:
            return W
        wide = np.zeros((self.shape[0] * self.shape[1], len(self.corners), W.shape[1]), W.dtype)
        for k, index in enumerate(self.index):
            wide[index, k] = W
        return wide.reshape(len(wide), -1)

    def up(self, y: AnyArray, W: AnyArray) -> AnyArray:
        """Return y' W of all patches: (rows, n) -> (rows, patches x units)."""
        parts = self.gather(y)
        return (parts.reshape(-1, parts.shape[-1]) @ W).reshape(len(y), -1)

    def down(self, h: AnyArray, W: AnyArray) -> AnyArray:
        """Return W h of all patches, added where they overlap: (rows, units) -> (rows, n)."""
        units = h.reshape(len(h) * len(self.corners), W.shape[1]) @ W.T
        return self.scatter(units.reshape(len(h), len(self.corners), -1))

    def outer(self, y: AnyArray, h: AnyArray, size: int) -> AnyArray:
        """Return the sum of y h' over rows and patches: the gradient of `y' W h` in W."""
        parts = self.gather(y)
        rows = len(y) * len(self.corners)
        total: AnyArray = parts.reshape(rows, -1).T @ h.reshape(rows, size)
        return total


def _line(length: int, count: int) -> tuple[int, list[int]]:
    """Return size and starts of `count` overlapping intervals that cover a length."""
    if count == 1:
        return length, [0]
    overlap = min(OVERLAP, length // 4)
    size = -(-(length + (count - 1) * overlap) // count)
    return size, [round(k * (length - size) / (count - 1)) for k in range(count)]


def filled(mask: Mask) -> Mask:
    """Replace every void label of a mask by the nearest known one."""
    void = mask == VOID
    if not void.any():
        return mask
    if void.all():
        return np.zeros_like(mask)
    nearest = ndimage.distance_transform_edt(void, return_distances=False, return_indices=True)
    return np.asarray(mask[tuple(nearest)], np.uint8)
