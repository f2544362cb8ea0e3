"""From an image of any size to the model's size, and back.

An image is padded with its own mirror image to the proportions of the model's mask, then resized to
`SCALE` times the mask. What the model says at the mask's size is enlarged, and the padding cut off.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import VOID
from cutlearn.features.describe import as_color
from cutlearn.images.resize import resize_image, resize_labels

Float32 = NDArray[np.float32]
# Pixels of the working image to a side of a mask's pixel: 128 x 128 for masks of 32 x 32.
SCALE = 4


@dataclass(frozen=True)
class Frame:
    """Where an image lies in the model's view of it.

    Parameters
    ----------
    mask : (rows, columns) of the model's masks
    image : (rows, columns) of the image
    """

    mask: tuple[int, int]
    image: tuple[int, int]

    @property
    def padding(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Rows above and below, columns left and right, that are mirrored."""
        h, w = self.image
        rows = max(h, -(-w * self.mask[0] // self.mask[1]))
        columns = max(w, -(-h * self.mask[1] // self.mask[0]))
        top, left = (rows - h) // 2, (columns - w) // 2
        return (top, rows - h - top), (left, columns - w - left)

    def picture(self, image: Float32) -> Float32:
        """The padded image at the working size, in colour."""
        wide = np.pad(as_color(image), (*self.padding, (0, 0)), mode="symmetric")
        return resize_image(wide, (SCALE * self.mask[0], SCALE * self.mask[1]))

    def labels(self, mask: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The padded mask at the model's size: the label of most known pixels of a cell, or void.

        The padding is background: a shape ends where its image does, or feet at the border would
        grow feet of their own.
        """
        wide = np.pad(mask, self.padding)
        known = resize_image((wide != VOID).astype(np.float32), self.mask)
        ones = resize_image((wide == 1).astype(np.float32), self.mask)
        made = (2 * ones > known).astype(np.uint8)
        made[known <= 0.25] = VOID
        return made

    def inside(self) -> NDArray[np.bool_]:
        """Which pixels of the model's mask lie in the image itself, not in its padding."""
        wide = np.pad(np.ones(self.image, np.uint8), self.padding)
        return resize_labels(wide, self.mask).astype(bool)

    def paint(self, values: Float32) -> Float32:
        """Values at the model's size, enlarged linearly to the image's."""
        (top, below), (left, right) = self.padding
        h, w = self.image
        rows, columns = h + top + below, w + left + right
        return _enlarged(values, (rows, columns))[top : top + h, left : left + w]


def _enlarged(values: Float32, shape: tuple[int, int]) -> Float32:
    """Linear interpolation between the centres of the cells."""
    out = np.asarray(values, np.float32)
    for axis, size in enumerate(shape):
        cells = out.shape[axis]
        place = np.clip((np.arange(size) + 0.5) * cells / size - 0.5, 0, cells - 1)
        low = np.minimum(place.astype(np.intp), max(cells - 2, 0))
        part = (place - low).astype(np.float32)
        part = part[:, None] if axis == 0 else part
        high = np.minimum(low + 1, cells - 1)
        out = out.take(low, axis) * (1 - part) + out.take(high, axis) * part
    return out
