"""Images and masks at another size: one length for the smaller side, and the way back.

Objects of one kind should have one size in pixels for the features, and large images cost time.
An image is averaged (no aliasing); labels are taken from the nearest pixel, so that no label
appears that was not there. At the size that it has already, nothing is changed.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from cutlearn.errors import InputError, quoted

Shape = tuple[int, int]
MOST_SIDE = 4096
# An image is not enlarged beyond this, whatever a model asks for: features need much memory.
MOST_MADE = 1 << 22


def side_shape(shape: Shape, min_side: int) -> Shape:
    """Return rows and columns with the smaller one of `min_side` pixels, 1 to 4096, in proportion.

    Examples
    --------
    >>> from cutlearn.images.resize import side_shape
    >>> side_shape((480, 640), 240)
    (240, 320)
    """
    if type(min_side) is not int or not 1 <= min_side <= MOST_SIDE:
        raise InputError(
            f"min_side is {quoted(min_side)}, but must be a whole number of pixels from 1 to "
            f"{MOST_SIDE}. Use a number such as 240."
        )
    factor = min_side / min(shape)
    rows, columns = max(1, round(shape[0] * factor)), max(1, round(shape[1] * factor))
    if rows * columns > max(MOST_MADE, shape[0] * shape[1]):
        raise InputError(
            f"min_side: at {min_side}, an image of {shape[1]} x {shape[0]} pixels would become "
            f"{columns} x {rows}, but at most {MOST_MADE} pixels are allowed. "
            "Use a smaller number."
        )
    return rows, columns


def resize_image(image: npt.NDArray[np.float32], shape: Shape) -> npt.NDArray[np.float32]:
    """Return an image, (h, w) or (h, w, k) in [0, 1], with other numbers of rows and columns.

    Examples
    --------
    >>> import numpy as np
    >>> from cutlearn.images.resize import resize_image
    >>> resize_image(np.ones((4, 6, 3), np.float32), (2, 3)).shape
    (2, 3, 3)
    """
    if image.shape[:2] == tuple(shape):
        return image
    whole = np.clip(resize_channels(np.atleast_3d(image), shape), 0, 1)
    return np.asarray(whole if image.ndim == 3 else whole[..., 0], np.float32)


def resize_channels(channels: npt.NDArray[np.float32], shape: Shape) -> npt.NDArray[np.float32]:
    """Return channels of any numbers, (h, w, k), with another number of rows and columns.

    Examples
    --------
    >>> import numpy as np
    >>> from cutlearn.images.resize import resize_channels
    >>> resize_channels(np.full((4, 6, 1), -7, np.float32), (1, 2)).tolist()
    [[[-7.0], [-7.0]]]
    """
    if channels.shape[:2] == tuple(shape):
        return channels
    planes = np.moveaxis(channels, -1, 0)
    # Pillow widens the filter when it reduces, so fine texture is averaged and not sampled.
    made = [_resample(plane, shape, Image.Resampling.BILINEAR) for plane in planes]
    return np.asarray(np.stack(made, axis=-1), np.float32)


def resize_labels(labels: npt.NDArray[np.uint8], shape: Shape) -> npt.NDArray[np.uint8]:
    """Return labels with other numbers of rows and columns: each pixel takes the nearest label.

    Examples
    --------
    >>> import numpy as np
    >>> from cutlearn.images.resize import resize_labels
    >>> resize_labels(np.array([[0, 1]], np.uint8), (1, 4)).tolist()
    [[0, 0, 1, 1]]
    """
    if labels.shape == tuple(shape):
        return labels
    return np.asarray(_resample(labels, shape, Image.Resampling.NEAREST), np.uint8)


def _resample(plane: npt.NDArray[Any], shape: Shape, way: Image.Resampling) -> npt.NDArray[Any]:
    picture = Image.fromarray(np.ascontiguousarray(plane))
    return np.asarray(picture.resize((shape[1], shape[0]), way))
