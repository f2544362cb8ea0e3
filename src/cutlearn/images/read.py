"""Images from files, bytes or arrays in one canonical form.

An image is a float32 array in [0, 1], (h, w) for grey and (h, w, 3) for colour: 8-bit values are
divided by 255 and 16-bit ones by 65535 (never stretched by their own range, which would make
equal pixels of two images differ); floats must already lie in [0, 1]. Transparency is laid over
white, and the camera's rotation tag is applied. Masks are read by `read_values`: the integers of
the file, where a palette keeps its indices. Bytes and pixels are limited before decoding.
"""

import os
import warnings
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

from cutlearn.arrays import AnyArray, Float32
from cutlearn.checks import as_array
from cutlearn.errors import InputError, InputWarning
from cutlearn.images.decode import (
    JPEG,
    content,
    decode,
    decoding,
    orientation_of,
    plain,
)

MAX_BYTES = 512 * 2**20
MAX_PIXELS = 64_000_000
TRANSPARENT = (
    "has transparent pixels, which are shown as white. If its alpha channel is a mask, the model "
    "would see the answer: leave the channel out, as in image[..., :3]."
)


def as_image(image: npt.ArrayLike | Image.Image, where: str = "image") -> Float32:
    """Return an array, or a Pillow picture, in the canonical form.

    Parameters
    ----------
    image : (h, w), (h, w, 1), (h, w, 3) or (h, w, 4) array
        bool, uint8, uint16, or a float type within [0, 1]. A fourth channel is opacity: the
        colour is laid over white. A Pillow picture is taken as if it were read from its file.
    where : str
        How to call the image in an error.

    Returns
    -------
    (h, w) or (h, w, 3) float32 array, C-contiguous, in [0, 1]
        Memory is shared with an array that is in this form already.

    Examples
    --------
    >>> import numpy as np
    >>> from cutlearn.images import as_image
    >>> as_image(np.array([[0, 255]], dtype=np.uint8)).tolist()
    [[0.0, 1.0]]
    """
    if isinstance(image, Image.Image):
        image = np.asarray(plain(ImageOps.exif_transpose(image)))
    found, clear = _canonical(as_array(where, image), where)
    if clear:
        warnings.warn(f"An image {TRANSPARENT}", InputWarning, stacklevel=2)
    return found


def _canonical(array: AnyArray, where: str) -> tuple[Float32, bool]:
    """Return an array in the canonical form, and whether anything of it was transparent."""
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))) or not array.size:
        raise InputError(
            f"{where}: the array has shape {array.shape}, but must have (h, w), (h, w, 3) or "
            "(h, w, 4), with at least one pixel. Put rows first and channels last."
        )
    unit, clear = _unit_range(array, where), False
    if unit.ndim == 3 and unit.shape[2] == 4:
        opacity = unit[:, :, 3:]
        clear = bool((opacity < 1).any())
        unit = unit[:, :, :3] * opacity + (np.float32(1) - opacity)
        unit = np.minimum(unit, np.float32(1))  # rounding can pass 1 by one bit
    return np.ascontiguousarray(unit), clear


def _unit_range(array: AnyArray, where: str) -> Float32:
    """Return the values of an array as float32 in [0, 1], by the type alone."""
    kind, width = array.dtype.kind, array.dtype.itemsize  # whatever the order of the bytes
    if kind == "b" or (kind == "u" and width <= 2):
        top = 1 if kind == "b" else np.iinfo(array.dtype).max
        unit = array.astype(np.float32)
        unit /= np.float32(top)  # in place: an image may be large
        return unit
    if kind != "f":
        raise InputError(
            f"{where}: the values are of type {array.dtype}, but must be uint8, uint16, or floats "
            "in [0, 1]. Convert with .astype(np.uint8) if the values lie in 0..255."
        )
    if not np.isfinite(array).all():
        raise InputError(
            f"{where}: some values are NaN or infinite, but all must be numbers in [0, 1]. "
            "Replace them, or leave the image out."
        )
    low, high = float(array.min()), float(array.max())
    if low < 0 or high > 1:
        raise InputError(
            f"{where}: the floats run from {low:g} to {high:g}, but must lie in [0, 1]. Divide by "
            "one number for all images (255 or 65535, say), not by each image's own maximum."
        )
    return np.asarray(array, np.float32)


def read_image(
    source: str | os.PathLike[str] | bytes,
    where: str | None = None,
    max_bytes: int = MAX_BYTES,
    max_pixels: int = MAX_PIXELS,
) -> Float32:
    """Read an image: 8 or 16 bit, grey, colour, transparent or palette.

    PNG, JPEG, TIFF, BMP, GIF, WebP, and the arrays of numpy (.npy, .npz).

    The format is told by the content, not by the name. Colour at 16 bits keeps all of them in a
    TIFF that is uncompressed or deflated; in a PNG, and in a TIFF with another compression, the
    decoder keeps the upper 8. TIFF floats must lie in [0, 1].

    Parameters
    ----------
    source : path or bytes
        A file, or its content.
    where : str, optional
        How to call the image in an error; by default its path.
    max_bytes, max_pixels : int
        Limits that are checked before anything is decoded. Pillow's own limit on pixels,
        `PIL.Image.MAX_IMAGE_PIXELS`, holds beside them.

    Returns
    -------
    (h, w) or (h, w, 3) float32 array in [0, 1]

    Raises
    ------
    InputError
        If the file is missing, too large, damaged, of another format, or holds several pages.

    Examples
    --------
    >>> import io
    >>> from PIL import Image
    >>> from cutlearn.images import read_image
    >>> file = io.BytesIO()
    >>> Image.new("RGB", (4, 2), "red").save(file, "PNG")
    >>> image = read_image(file.getvalue())
    >>> image.shape, image[0, 0].tolist()
    ((2, 4, 3), [1.0, 0.0, 0.0])
    """
    data, name = content(source, where, max_bytes)
    opened = open_image(data, name, max_pixels)
    if opened.transparent:
        warnings.warn(f"{name} {TRANSPARENT}", InputWarning, stacklevel=2)
    return opened.image


class OpenedImage(NamedTuple):
    """An image of a file, whether pixels were laid over white, and its rotation tag (1: none)."""

    image: Float32
    transparent: bool
    orientation: int


def open_image(
    data: bytes, name: str, max_pixels: int, page: int | None = None, turned: bool = True
) -> OpenedImage:
    """Decode the content of a file; `page` and `turned` as of `decode`."""
    with decoding(name):
        array = decode(data, name, max_pixels, True, page, turned)
        orientation = orientation_of(data, name, max_pixels)
    return OpenedImage(*_canonical(array, name), orientation)


def read_values(
    source: str | os.PathLike[str] | bytes,
    where: str | None = None,
    max_bytes: int = MAX_BYTES,
    max_pixels: int = MAX_PIXELS,
) -> AnyArray:
    """Read the integers of a mask file as they are stored: no scaling, palette indices kept.

    A grey mask that was saved in colour (three equal channels, opaque) is taken as grey. TIFF masks
    with an inverting lookup table (WhiteIsZero) keep their stored values too: the object of Fiji's
    binary masks is 255, displayed black. With one bit per pixel, 1 is what is displayed white.

    Parameters
    ----------
    source, where, max_bytes, max_pixels
        As in `read_image`. JPEG is refused: it changes values.

    Returns
    -------
    (h, w) uint8 or uint16 array

    Examples
    --------
    >>> import io
    >>> import numpy as np
    >>> from PIL import Image
    >>> from cutlearn.images import read_values
    >>> file = io.BytesIO()
    >>> Image.fromarray(np.array([[0, 7]], np.uint8)).save(file, "PNG")
    >>> read_values(file.getvalue()).tolist()
    [[0, 7]]
    """
    data, name = content(source, where, max_bytes)
    if data[: len(JPEG)] == JPEG:
        raise InputError(
            f"{name}: the mask is a JPEG, which changes values, but must be a PNG or TIFF. "
            "Export the mask again as PNG."
        )
    array = open_values(data, name, max_pixels)
    if array.ndim == 3:
        raise InputError(
            f"{name}: the mask has colours, but must hold one integer a pixel. "
            "Save the mask as a grey or palette PNG of label ids."
        )
    if array.dtype not in (np.uint8, np.uint16):
        raise InputError(
            f"{name}: the mask's values are of type {array.dtype}, but must be integers of 8 or "
            "16 bits. Save the mask as PNG."
        )
    return array


def open_values(
    data: bytes, name: str, max_pixels: int, page: int | None = None, turned: bool = True
) -> AnyArray:
    """Decode a mask: integers or floats (h, w), or colours (h, w, 3), as they are stored.

    Colours that are grey, and opaque, are one channel. Whole numbers below 65,536 are 16 bits in
    whatever type they are stored.
    """
    with decoding(name):
        array = decode(data, name, max_pixels, False, page, turned)
    if array.dtype in (np.uint32, np.uint64) and array.size and array.max() < 2**16:
        array = array.astype(np.uint16)
    if array.ndim == 3 and array.shape[2] in (2, 4) and array.dtype.kind == "u":
        if (array[:, :, -1] != np.iinfo(array.dtype).max).any():
            raise InputError(
                f"{name}: the mask has transparency, but must hold one integer a pixel. "
                "Save the mask as a grey or palette PNG of label ids."
            )
        array = array[:, :, :-1]
    if array.ndim == 3 and (array == array[:, :, :1]).all():
        array = array[:, :, 0]
    if array.dtype == np.bool_:
        array = array.astype(np.uint8)
    if array.dtype.kind == "f" and (abs(array) < 2**31).all() and (array == np.rint(array)).all():
        array = array.astype(np.int32)
    if array.dtype.kind == "i" and array.size and array.min() >= 0 and array.max() < 2**16:
        array = array.astype(np.uint16)
    if not array.size:
        raise InputError(
            f"{name}: the mask has no pixels, but needs at least one. Export it again."
        )
    return np.ascontiguousarray(array)
