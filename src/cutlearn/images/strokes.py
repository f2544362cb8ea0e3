"""A file of strokes in, seeds out.

Two ways of marking are read: numbers (0 unmarked, 1 object, 2 background), or colours over anything
(red object, blue background), as any paint program draws them.
"""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.errors import InputError
from cutlearn.images.decode import content, decode, decoding
from cutlearn.images.read import MAX_BYTES, MAX_PIXELS
from cutlearn.images.sample import FREE

# A stroke is red or blue if that channel is at least so bright and both others at most so.
BRIGHT, DARK = 0.6, 0.35


def read_strokes(path: str | os.PathLike[str], shape: tuple[int, int]) -> NDArray[np.int16]:
    """Read the strokes of a person as seeds: -1 unmarked, 1 object, 0 background.

    Parameters
    ----------
    path : file
        Grey or palette: 0 is unmarked, 1 object, 2 background. Colour: red is object, blue is
        background, everything else (and what is transparent) unmarked. No JPEG, which smears
        strokes.
    shape : rows and columns of the image
    """
    data, name = content(path, None, MAX_BYTES)
    if data[:3] == b"\xff\xd8\xff":
        raise InputError(
            f"{name}: the strokes are a JPEG, which smears their values, but must be a PNG or "
            "TIFF. Export them again as PNG."
        )
    with decoding(name):
        array = decode(data, name, MAX_PIXELS, False)
    if array.shape[:2] != shape:
        raise InputError(
            f"{name}: the strokes have {array.shape[0]} rows and {array.shape[1]} columns, but "
            f"the image has {shape[0]} and {shape[1]}. Draw them at the size of the image."
        )
    colored = array.ndim == 3 and array.shape[2] >= 3
    if colored and not (array[:, :, :3] == array[:, :, :1]).all():
        return _of_colors(array)
    values = array if array.ndim == 2 else array[:, :, 0]
    if not np.isin(values, (0, 1, 2)).all():
        raise InputError(
            f"{name}: the strokes have values up to {values.max()}, but must be 0 (unmarked), 1 "
            "(object) and 2 (background), or red and blue. Save them so."
        )
    return np.choose(values.astype(np.intp), [FREE, 1, 0]).astype(np.int16)


def _of_colors(array: NDArray[Any]) -> NDArray[np.int16]:
    top = np.iinfo(array.dtype).max if array.dtype.kind == "u" else 1
    unit = array.astype(np.float32) / np.float32(top)
    red, green, blue = (unit[:, :, k] for k in range(3))
    shown = unit[:, :, 3] > 0.5 if unit.shape[2] == 4 else np.ones(red.shape, bool)
    seeds = np.full(red.shape, FREE, np.int16)
    seeds[shown & (red >= BRIGHT) & (green <= DARK) & (blue <= DARK)] = 1
    seeds[shown & (blue >= BRIGHT) & (green <= DARK) & (red <= DARK)] = 0
    return seeds
