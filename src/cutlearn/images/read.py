"""One door for images: files, bytes or arrays in; one canonical form out.

An image is a float32 array in [0, 1], (h, w) for grey and (h, w, 3) for colour: 8-bit values are
divided by 255 and 16-bit ones by 65535 (never stretched by their own range, which would make
equal pixels of two images differ); floats must already lie in [0, 1]. Transparency is laid over
white, and the camera's rotation tag is applied. Masks are read by `read_values`: the integers of
the file, where a palette keeps its indices. Bytes and pixels are limited before decoding.
"""

import io
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import tifffile
from PIL import Image, ImageOps, UnidentifiedImageError

from cutlearn.checks import as_array, path_of, whole_number
from cutlearn.errors import InputError, clean, shown
from cutlearn.images.limits import (
    check_inflated,
    check_pages,
    check_scans,
    check_size,
    check_tiles,
    too_many,
)

MAX_BYTES = 512 * 2**20
MAX_PIXELS = 64_000_000
FORMATS = ("PNG", "JPEG", "TIFF")
JPEG = b"\xff\xd8\xff"
# What tifffile remarks on damaged files is for those who ask for logs; the user gets one sentence.
logging.getLogger("tifffile").addHandler(logging.NullHandler())

Array = npt.NDArray[Any]
FloatImage = npt.NDArray[np.float32]


def as_image(image: npt.ArrayLike | Image.Image, where: str = "image") -> FloatImage:
    """Bring an array, or a Pillow picture, to the canonical form.

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
        image = np.asarray(_plain(ImageOps.exif_transpose(image)))
    array = as_array(where, image)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))) or not array.size:
        raise InputError(
            f"{where}: an array of shape {array.shape} found; (h, w), (h, w, 3) or (h, w, 4) with "
            "at least one pixel was wanted. Put rows first and channels last."
        )
    unit = _unit_range(array, where)
    if unit.ndim == 3 and unit.shape[2] == 4:
        opacity = unit[:, :, 3:]
        unit = unit[:, :, :3] * opacity + (np.float32(1) - opacity)
        unit = np.minimum(unit, np.float32(1))  # rounding can pass 1 by one bit
    return np.ascontiguousarray(unit)


def _unit_range(array: Array, where: str) -> FloatImage:
    """The values of an array as float32 in [0, 1], by the type alone."""
    if array.dtype in (np.uint8, np.uint16, np.bool_):
        top = 1 if array.dtype == np.bool_ else np.iinfo(array.dtype).max
        return np.asarray(array, np.float32) / np.float32(top)
    if array.dtype.kind != "f":
        raise InputError(
            f"{where}: values of type {array.dtype} found; uint8, uint16, or floats in [0, 1] were "
            "wanted. Convert with .astype(np.uint8) if the values lie in 0..255."
        )
    if not np.isfinite(array).all():
        raise InputError(
            f"{where}: NaN or infinite values found; numbers in [0, 1] were wanted. "
            "Replace them, or leave the image out."
        )
    low, high = float(array.min()), float(array.max())
    if low < 0 or high > 1:
        raise InputError(
            f"{where}: floats from {low:g} to {high:g} found; [0, 1] was wanted. Divide by one "
            "number for all images (255 or 65535, say), not by each image's own maximum."
        )
    return np.asarray(array, np.float32)


def read_image(
    source: str | os.PathLike[str] | bytes,
    where: str | None = None,
    max_bytes: int = MAX_BYTES,
    max_pixels: int = MAX_PIXELS,
) -> FloatImage:
    """Read a PNG, JPEG or TIFF image: 8 or 16 bit, grey, colour, transparent or palette.

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
    data, name = _content(source, where, max_bytes)
    with _decoding(name):
        array = _decode(data, name, max_pixels, colors=True)
    return as_image(array, name)


def read_values(
    source: str | os.PathLike[str] | bytes,
    where: str | None = None,
    max_bytes: int = MAX_BYTES,
    max_pixels: int = MAX_PIXELS,
) -> Array:
    """Read the integers of a mask file as they are stored: no scaling, palette indices kept.

    A grey mask that was saved in colour (three equal channels, opaque) is taken as grey.

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
    data, name = _content(source, where, max_bytes)
    if data[: len(JPEG)] == JPEG:
        raise InputError(
            f"{name}: a JPEG found; a mask in PNG or TIFF was wanted, because JPEG changes values. "
            "Export the mask again as PNG."
        )
    with _decoding(name):
        array = _decode(data, name, max_pixels, colors=False)
    if array.ndim == 3:
        grey = array[:, :, 0]
        opaque = array.shape[2] in (1, 3) or bool(
            (array[:, :, -1] == np.iinfo(array.dtype).max).all()
        )
        if (
            not opaque
            or not (array[:, :, : 3 if array.shape[2] > 2 else 1] == grey[..., None]).all()
        ):
            raise InputError(
                f"{name}: colours or transparency found; one integer a pixel was wanted. "
                "Save the mask as a grey or palette PNG of label ids."
            )
        array = grey
    if array.dtype == np.bool_:
        array = array.astype(np.uint8)
    if array.dtype not in (np.uint8, np.uint16):
        raise InputError(
            f"{name}: values of type {array.dtype} found; integers of 8 or 16 bits were wanted. "
            "Save the mask as PNG."
        )
    if not array.size:
        raise InputError(f"{name}: no pixels found; at least one was wanted. Export it again.")
    return np.ascontiguousarray(array)


def _content(
    source: str | os.PathLike[str] | bytes, where: str | None, max_bytes: int
) -> tuple[bytes, str]:
    """The bytes of a file and how to call it; the size is asked before reading."""
    whole_number("max_bytes", max_bytes, 0, 2**63)
    if isinstance(source, bytes):
        name, size = where or "image", len(source)
    else:
        path = path_of("image", source)
        name = where or shown(path)
        if not path.is_file():
            raise InputError(f"{name}: no such file; an image file was wanted. Check the path.")
        size = path.stat().st_size
    if size > max_bytes:
        raise InputError(
            f"{name}: {size} bytes found; at most {max_bytes} were wanted. "
            "Make the image smaller, or raise max_bytes."
        )
    if isinstance(source, bytes):
        return source, name
    try:
        return path.read_bytes(), name
    except OSError as error:
        raise InputError(
            f"{name}: it could not be read ({error.strerror}); an image file was wanted. "
            "Check its permissions."
        ) from error


@contextmanager
def _decoding(name: str) -> Iterator[None]:
    """Turn whatever a decoder raises on damaged bytes into one sentence."""
    try:
        # Warnings of theirs, on odd metadata, pass: muting them is not safe between threads.
        yield
    except InputError:
        raise
    except Exception as error:  # decoders raise nearly every type there is
        reason = clean(str(error), 120).rstrip(".") or type(error).__name__
        raise InputError(
            f"{name}: it could not be decoded ({reason}); a whole PNG, JPEG or TIFF image was "
            "wanted. Open it in an image viewer, and export it again."
        ) from error


def _decode(data: bytes, name: str, max_pixels: int, colors: bool) -> Array:
    """Pixels of a file, (h, w) or (h, w, channels), rotated as its tag says."""
    whole_number("max_pixels", max_pixels, 0, 2**63)
    if data[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"):
        found = _decode_deep_tiff(data, name, max_pixels)
        if found is not None:
            return found
    if data[: len(JPEG)] == JPEG:
        check_scans(name, data)
    try:
        picture = Image.open(io.BytesIO(data), formats=FORMATS)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise too_many(name, str(error), max_pixels) from error
    except UnidentifiedImageError as error:
        raise InputError(
            f"{name}: no image found; a PNG, JPEG or TIFF was wanted. Convert it to PNG."
        ) from error
    with picture:
        check_size(name, picture.height, picture.width, max_pixels)
        if picture.format == "TIFF":
            check_pages(name, getattr(picture, "n_frames", 1))
        turned = ImageOps.exif_transpose(picture)
        array = np.asarray(_plain(turned) if colors else turned)
    if picture.format == "PNG" and array.dtype == np.int32:
        return array.astype(np.uint16)  # older Pillows widen the 16 bits of a grey PNG
    return array


def _plain(picture: Image.Image) -> Image.Image:
    """A picture in grey, RGB or RGBA: palettes looked up, other colour spaces converted."""
    mode = picture.mode
    clear = "transparency" in picture.info or mode in ("LA", "PA", "La", "RGBa", "RGBA")
    if mode in ("I", "I;16", "I;16B", "I;16L", "F") or (mode in ("L", "1", "RGB") and not clear):
        return picture
    if mode in ("P", "PA"):
        # The palette decides, not the pixels: files of one kind come out in one form.
        palette = np.asarray(picture.getpalette("RGB"), np.uint8).reshape(-1, 3)
        grey = bool((palette == palette[:, :1]).all())
    else:
        grey = mode in ("L", "LA", "La", "1")
    if not clear:
        return picture.convert("L" if grey else "RGB")
    colors = picture.convert("RGBA")
    if not grey:
        return colors
    white = Image.new("RGBA", picture.size, "white")
    return Image.alpha_composite(white, colors).convert("L")


def _decode_deep_tiff(data: bytes, name: str, max_pixels: int) -> Array | None:
    """Pixels of a TIFF with more than 8 bits a value, or None if the other decoder is to read it.

    Pillow would cut 16-bit colour to 8 bits; tifffile does not. Pillow in turn knows compressions
    for which tifffile needs a further package.
    """
    with tifffile.TiffFile(io.BytesIO(data)) as file:
        page = file.pages[0]
        check_pages(name, len(file.pages))
        check_tiles(name, page, max_pixels)
        if page.bitspersample <= 8 or page.compression not in (1, 8, 32946):
            return None
        known = page.axes in ("YX", "YXS", "SYX") and page.photometric in (0, 1, 2)
        if not known or page.samplesperpixel not in (1, 3, 4):
            raise InputError(
                f"{name}: a TIFF with {page.samplesperpixel} channels, axes {page.axes} "
                "found; one grey or colour image was wanted. "
                "Save a single slice, as PNG or TIFF."
            )
        if page.axes == "SYX" and page.photometric != 2:
            check_pages(name, page.shape[0])
        if page.compression != 1:
            check_inflated(name, data, page)
        array: Array = page.asarray()
        if page.axes == "SYX":
            array = np.moveaxis(array, 0, 2)
        if page.photometric == 0:  # white is zero
            array = np.iinfo(array.dtype).max - array if array.dtype.kind == "u" else 1 - array
        tag = page.tags.get("Orientation")
        return _turn(array, int(tag.value) if tag is not None else 1)


def _turn(array: Array, orientation: int) -> Array:
    """Rows and columns in the order that a person sees, from the tag of TIFF and EXIF."""
    if orientation in (5, 6, 7, 8):
        array = array.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        array = array[::-1]
    if orientation in (2, 3, 6, 7):
        array = array[:, ::-1]
    return array
