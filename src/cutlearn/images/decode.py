"""Bytes in, pixels out: every format that is read, the limits before it, the turn after it.

The content decides the format, not the name: PNG, JPEG, TIFF, BMP, GIF, WebP, and the arrays of
numpy (.npy, and .npz with one array). What a decoder raises on damaged bytes becomes one sentence.

A few kilobytes can promise gigabytes, or give them without a promise: a deflated strip may inflate
to a thousand times its length whatever the header says, and every further scan of a progressive
JPEG costs as much as all of its pixels. Both are refused before decoding. Large numpy files and
uncompressed TIFFs stay on disk (`memory_mapped`) and need no limit.
"""

import io
import logging
import math
import os
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
from PIL import Image, ImageOps, UnidentifiedImageError

from cutlearn.arrays import AnyArray
from cutlearn.checks import path_of, whole_number
from cutlearn.errors import InputError, clean, shown

FORMATS = ("PNG", "JPEG", "TIFF", "BMP", "GIF", "WEBP")
ENDINGS = (
    ".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".gif", ".webp", ".npy", ".npz",
)  # fmt: skip
JPEG, NPY, NPZ = b"\xff\xd8\xff", b"\x93NUMPY", b"PK\x03\x04"
ORIENTATION, PHOTOMETRIC = 0x0112, 0x0106
NO_CHANNELS = (
    "there are several channels, but only files of one channel, or of RGB colours, are supported. "
    "Save one channel of each as a file of its own (in Fiji: Image > Color > Split Channels); if "
    "these are slices, save them with the axes ZYX."
)
# Kinds of extra samples of a TIFF that are opacity: associated, unassociated.
OPACITY = (1, 2)
# Cameras and editors write about ten scans; a hundred is beyond every optimiser.
MOST_SCANS = 100
# Pixels of a tile that every image may have, however small it is.
LARGE_TILE = 2**22
PIECE = 2**20
# A marker of a JPEG: no stuffed zero, no restart within a scan, no filling.
MARKER = re.compile(rb"\xff([^\x00\x01\xd0-\xd8\xff])")
END_OF_IMAGE, START_OF_SCAN = 0xD9, 0xDA
# Files of so many bytes are not read at once.
MAPPED = 1 << 26
MOST_PIXELS = 1 << 30
# Uncompressed and deflated, which tifffile reads without a further package.
DEFLATED = (1, 8, 32946)
# Voxels of a file, at most.
MOST_VOXELS = 2_000_000_000
TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
# What tifffile remarks on damaged files is for those who ask for logs; the user gets one sentence.
logging.getLogger("tifffile").addHandler(logging.NullHandler())


def content(
    source: str | os.PathLike[str] | bytes, where: str | None, max_bytes: int
) -> tuple[bytes, str]:
    """Return the bytes of a file and its name in messages; the size is checked before reading."""
    whole_number("max_bytes", max_bytes, 0, 2**63)
    if isinstance(source, bytes):
        name, size = where or "image", len(source)
    else:
        path = path_of("image", source)
        name = where or shown(path)
        if not path.is_file():
            raise InputError(f"{name}: there is no such file. Give the path of an image file.")
        size = path.stat().st_size
    if size > max_bytes:
        raise InputError(
            f"{name}: the file has {size} bytes, but at most {max_bytes} are allowed. "
            "Make the image smaller, or raise max_bytes."
        )
    if isinstance(source, bytes):
        return source, name
    try:
        return path.read_bytes(), name
    except OSError as error:
        raise InputError(
            f"{name}: it could not be read ({error.strerror}). It must be an image file that you "
            "may read. Check its permissions."
        ) from error


@contextmanager
def decoding(name: str) -> Iterator[None]:
    """Turn whatever a decoder raises on damaged bytes into one sentence."""
    try:
        # Warnings of theirs, on odd metadata, pass: muting them is not safe between threads.
        yield
    except InputError:
        raise
    except Exception as error:  # decoders raise nearly every type there is
        reason = clean(str(error), 120).rstrip(".") or type(error).__name__
        raise InputError(
            f"{name}: it could not be decoded ({reason}). It must be a whole PNG, JPEG or TIFF "
            "image. Open it in an image viewer, and export it again."
        ) from error


def decode(
    data: bytes,
    name: str,
    max_pixels: int,
    colors: bool,
    page: int | None = None,
    turned: bool = True,
) -> AnyArray:
    """Return the pixels of a file, (h, w) or (h, w, channels), turned as its tag says.

    `page` chooses one of several images of a file; None: there must be one only. Without `turned`
    the rows and columns are as they are stored. With `colors` pixels are what a viewer displays;
    without, they are stored numbers: indices of a palette, and the values below an inverting lookup
    table (`white_is_zero`).
    """
    whole_number("max_pixels", max_pixels, 0, 2**63)
    if data[: len(NPY)] == NPY or data[: len(NPZ)] == NPZ:
        return _page_of_array(_array(data, name, max_pixels), name, page)
    if data[:4] in TIFF:
        found = _decode_tiff(data, name, max_pixels, colors, page, turned)
        if found is not None:
            return found
    if data[: len(JPEG)] == JPEG:
        check_scans(name, data)
    with _opened(data, name, max_pixels) as picture:
        check_size(name, picture.height, picture.width, max_pixels)
        if page is None:
            check_pages(name, getattr(picture, "n_frames", 1))
        else:
            picture.seek(page)
            check_size(name, picture.height, picture.width, max_pixels)
        upright = ImageOps.exif_transpose(picture) if turned else picture
        array = np.asarray(plain(upright) if colors else upright)
        tags: Any = getattr(picture, "tag_v2", {})
        inverted = picture.mode in ("L", "I;16") and tags.get(PHOTOMETRIC) == 0
        if inverted and colors != (picture.mode == "L"):
            array = np.iinfo(array.dtype).max - array  # Pillow inverts up to 8 bits only
    if picture.format == "PNG" and array.dtype == np.int32:
        return array.astype(np.uint16)  # older Pillows widen the 16 bits of a grey PNG
    return array


def pages_of(data: bytes, name: str, max_pixels: int) -> int:
    """Return the number of images in a file: pages of a TIFF, frames, slices of an array."""
    with decoding(name):
        if data[: len(NPY)] == NPY or data[: len(NPZ)] == NPZ:
            array = _array(data, name, max_pixels)
            return 1 if is_one(array) else len(array)
        if data[:4] in TIFF:
            with tifffile.TiffFile(io.BytesIO(data)) as file:
                check_axes(file, name)
                series = _one_page_series(file, name)
                rows = 0 if series is None else series.axes.find("Y")
                return math.prod(series.shape[:rows]) if rows else len(file.pages)
        with _opened(data, name, max_pixels) as picture:
            return int(getattr(picture, "n_frames", 1))


def voxels_of(
    data: bytes, name: str, max_pixels: int, colors: bool, turned: bool
) -> AnyArray | None:
    """Return the slices (d, h, w) or (d, h, w, 3) that a file stores as one array; else None."""
    if data[:4] in TIFF:
        with tifffile.TiffFile(io.BytesIO(data)) as file:
            slices = _slices_in_page(file, data, name, max_pixels)
            if slices is None:
                return None
            return np.stack([_displayed(file.pages.first, z, colors, turned) for z in slices])
    if data[: len(NPY)] != NPY and data[: len(NPZ)] != NPZ:
        return None
    array = _array(data, name, max_pixels)
    if array.ndim == 2:
        raise InputError(
            f"{name}: the array has shape {array.shape}, but a volume has slices, rows and "
            "columns. Save all slices in one array."
        )
    return array


def orientation_of(data: bytes, name: str, max_pixels: int) -> int:
    """Return the tag that says how to turn an image, 1 to 8; 1: it is upright as it is stored."""
    if data[: len(NPY)] == NPY or data[: len(NPZ)] == NPZ:
        return 1
    with _opened(data, name, max_pixels) as picture:
        return int(picture.getexif().get(ORIENTATION, 1) or 1)


def _opened(data: bytes, name: str, max_pixels: int) -> Image.Image:
    try:
        return Image.open(io.BytesIO(data), formats=FORMATS)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise too_many(name, f"the image is too large ({error})", max_pixels) from error
    except UnidentifiedImageError as error:
        raise InputError(
            f"{name}: this is not an image that can be read. It must be a PNG, JPEG or TIFF. "
            "Convert it to PNG."
        ) from error


def _array(data: bytes, name: str, max_pixels: int) -> AnyArray:
    """Return the array of a .npy file, or the only one of a .npz; nothing in it is executed."""
    file = io.BytesIO(data)
    if data[: len(NPZ)] == NPZ:
        with zipfile.ZipFile(file) as parts:
            names = [part for part in parts.infolist() if part.filename.endswith(".npy")]
            if len(names) != 1:
                raise InputError(
                    f"{name}: the file holds {len(names)} arrays, but must hold one. Save each "
                    "array in a file of its own, with numpy.save."
                )
            # Channels of doubles at most: what is larger is refused before it is inflated.
            if names[0].file_size > 4 * 8 * max_pixels + 4096:
                raise too_many(name, f"the array has {names[0].file_size} bytes", max_pixels)
            file = io.BytesIO(parts.read(names[0]))
    form = np.lib.format
    version = form.read_magic(file)
    read = form.read_array_header_1_0 if version == (1, 0) else form.read_array_header_2_0
    shape, _, dtype = read(file)
    if dtype.hasobject or dtype.itemsize * math.prod(shape) > len(file.getbuffer()):
        raise InputError(
            f"{name}: the file should hold an array of {dtype}, but its numbers are not there. "
            "Save it again with numpy.save."
        )
    colored = len(shape) > 2 and shape[-1] in (1, 3, 4)
    height, width = (1, 1, *shape)[-3 if colored else -2 :][:2]
    check_size(name, height, width, max_pixels)
    file.seek(0)
    return np.asarray(np.load(file, allow_pickle=False))


def is_one(array: AnyArray) -> bool:
    """Return whether an array is one image or mask, not a stack of them."""
    return array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (1, 3, 4))


def _page_of_array(array: AnyArray, name: str, page: int | None) -> AnyArray:
    if is_one(array):
        return array
    if array.ndim not in (3, 4):
        raise InputError(
            f"{name}: the array has shape {array.shape}, but must be an image or a stack of "
            "images. Put rows before columns, and colours last."
        )
    if page is None:
        check_pages(name, len(array))
    return np.asarray(array[page or 0])


def plain(picture: Image.Image) -> Image.Image:
    """Return a picture in grey, RGB or RGBA: palettes looked up, other colour spaces converted."""
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


def _decode_tiff(
    data: bytes, name: str, max_pixels: int, colors: bool, number: int | None, turned: bool
) -> AnyArray | None:
    """Return the pixels of a TIFF, or None if Pillow is to read it.

    Pillow would cut 16-bit colour to 8 bits, and read the first slice only where one page holds
    several; tifffile does not. Pillow in turn knows compressions for which tifffile needs a further
    package.
    """
    with tifffile.TiffFile(io.BytesIO(data)) as file:
        slices = _slices_in_page(file, data, name, max_pixels)
        if slices is not None:
            if number is None:
                check_pages(name, len(slices))
            return _displayed(file.pages.first, slices[number or 0], colors, turned)
        if number is None:
            check_axes(file, name)
            check_pages(name, len(file.pages))
        page: Any = file.pages[number or 0]
        check_tiles(name, page, max_pixels)
        if page.bitspersample <= 8 or page.compression not in DEFLATED:
            return None
        if page.axes not in ("YX", "YXS", "SYX") or page.photometric not in (0, 1, 2):
            raise InputError(
                f"{name}: the TIFF has the colour space {page.photometric!s} and the axes "
                f"{page.axes}, but must be a grey or RGB image. Export it as PNG or TIFF."
            )
        check_inflated(name, data, page)
        array: AnyArray = page.asarray()
        if page.axes == "SYX":
            array = np.moveaxis(array, 0, 2)
        return _displayed(page, array, colors, turned)


def _displayed(page: Any, array: AnyArray, colors: bool, turned: bool) -> AnyArray:
    """Return stored pixels as a viewer displays them, with `colors`; turned as their tag says."""
    if page.photometric == 0 and colors:  # white is zero
        array = np.iinfo(array.dtype).max - array if array.dtype.kind == "u" else 1 - array
    tag = page.tags.get("Orientation")
    return _turn(array, int(tag.value) if tag is not None and turned else 1)


def _slices_in_page(
    file: tifffile.TiffFile, data: bytes, name: str, max_pixels: int
) -> AnyArray | None:
    """Return the slices (n, h, w) or (n, h, w, 3) of a TIFF with several in its only page.

    ImageJ and tifffile write large stacks so, and volumetric tiles are stored so. None for others.
    """
    if (series := _one_page_series(file, name)) is None:
        return None
    page: Any = file.pages.first
    check_tiles(name, page, max_pixels)
    if math.prod(series.shape) > MOST_VOXELS:
        raise too_many(name, f"the file has slices of shape {series.shape}", MOST_VOXELS)
    if series.dataoffset is None:
        check_inflated(name, data, page)
    elif series.dataoffset + series.nbytes > len(data):
        raise InputError(
            f"{name}: it could not be decoded (the header says {series.shape}, but fewer numbers "
            "are there). Export it again."
        )
    array: AnyArray = series.asarray()
    colored = series.axes.endswith("S")
    return array.reshape(-1, *array.shape[-3 if colored else -2 :])


def _one_page_series(file: tifffile.TiffFile, name: str) -> Any:
    """Return the series of a TIFF whose only page holds several slices; None for others."""
    page: Any = file.pages.first
    if len(file.pages) != 1 or not (file.is_imagej or file.is_shaped or page.imagedepth > 1):
        return None
    series: Any = file.series[0]
    rows = series.axes.find("Y")
    several = rows > 0 and math.prod(series.shape[:rows]) > 1
    if not several or "S" in series.axes[:rows] or series.axes[rows:] not in ("YX", "YXS"):
        return None
    _refuse_channels(series, name)
    return series


class ChannelsError(InputError):
    """A file has several channels: its name, and their number and axes."""

    name, channels = "", ""

    @classmethod
    def of(cls, name: str, channels: str) -> "ChannelsError":
        """Return the error for a file."""
        error = cls(f"{name} ({channels}): {NO_CHANNELS}")
        error.name, error.channels = name, channels
        return error


def check_axes(file: tifffile.TiffFile, name: str) -> None:
    """Refuse a TIFF of several channels, which are neither slices nor colours.

    OME-XML and the metadata of ImageJ name the axes of a series of pages; a page alone has its
    samples, of which some may be opacity.
    """
    page: Any = file.pages.first
    for series in file.series if len(file.pages) > 1 else []:
        _refuse_channels(series, name)
    samples = page.samplesperpixel - sum(kind in OPACITY for kind in page.extrasamples)
    grey, deep = page.photometric in (0, 1), page.bitspersample > 8
    # Three interleaved samples of 16 bits are colours, whatever the file calls them.
    colors = samples in (3, 4) and page.axes == "YXS" and deep
    if samples > 4 or (grey and samples > 1 and not colors):
        raise ChannelsError.of(name, f"{samples} channels, axes {page.axes}")


def _refuse_channels(series: Any, name: str) -> None:
    count = dict(zip(series.axes, series.shape)).get("C", 1)
    if count > 1:
        raise ChannelsError.of(name, f"{count} channels, axes {series.axes}")


def white_is_zero(path: Path) -> int:
    """Return the bits of a pixel in a TIFF whose zero is displayed white; 0 for all other files.

    ImageJ and Fiji write such files for images with an inverting lookup table, which their binary
    masks have by default: 255 is the object there, and displayed black. With one bit a pixel there
    is no lookup table, and programs store what is displayed.
    """
    with path.open("rb") as file:
        if file.read(4) not in TIFF:
            return 0
    with decoding(shown(path)), tifffile.TiffFile(path) as tiff:
        page: Any = tiff.pages.first
        return int(page.bitspersample) if page.photometric == 0 else 0


def _turn(array: AnyArray, orientation: int) -> AnyArray:
    """Rows and columns in the order that a person sees, from the tag of TIFF and EXIF."""
    if orientation in (5, 6, 7, 8):
        array = array.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        array = array[::-1]
    if orientation in (2, 3, 6, 7):
        array = array[:, ::-1]
    return array


def check_size(name: str, height: int, width: int, max_pixels: int) -> None:
    """Refuse too many pixels."""
    if height * width > max_pixels:
        raise too_many(
            name, f"the image has {width} x {height} pixels (width x height)", max_pixels
        )


def too_many(name: str, found: str, max_pixels: int) -> InputError:
    """Return the error for too many pixels."""
    return InputError(
        f"{name}: {found}, but at most {max_pixels} pixels are allowed. "
        "Make the image smaller or cut it into tiles, or raise max_pixels."
    )


def check_pages(name: str, pages: int) -> None:
    """Refuse a file of several images."""
    if pages != 1:
        raise InputError(
            f"{name}: the file has {pages} pages, but must have one. Save each slice as its own "
            "file."
        )


def check_tiles(name: str, page: Any, max_pixels: int) -> None:
    """Refuse a TIFF whose image is too large, or whose tiles are far larger than its image."""
    area = page.imagelength * page.imagewidth
    check_size(name, page.imagelength, page.imagewidth, max_pixels)
    check_size(name, page.tilelength, page.tilewidth, min(max_pixels, max(LARGE_TILE, 4 * area)))


def check_inflated(name: str, data: bytes, page: Any) -> None:
    """Refuse a deflated TIFF whose parts hold more than its header says; nothing is kept of them.

    The decoder inflates a part as a whole before it looks how much of it is wanted.
    """
    if page.compression == 1:
        return
    high, wide = page.tilelength or page.imagelength, page.tilewidth or page.imagewidth
    deep = page.tiledepth or page.imagedepth
    pixels = -(-page.imagedepth // deep) * deep
    pixels *= -(-page.imagelength // high) * high * -(-page.imagewidth // wide) * wide
    # Twice, since writers may fill up the last strip.
    most = 2 * pixels * page.samplesperpixel * page.bitspersample // 8 + PIECE
    total = 0
    for start, count in zip(page.dataoffsets, page.databytecounts):
        inflater, end = zlib.decompressobj(), min(start + count, len(data))
        for at in range(start, end, PIECE):
            part = data[at : min(at + PIECE, end)]
            while part and not inflater.eof:
                total += len(inflater.decompress(part, PIECE))
                part = inflater.unconsumed_tail
                if total > most:
                    raise InputError(
                        f"{name}: the header says {page.imagewidth} x {page.imagelength} pixels, "
                        "but more are compressed in the file. Open it in an image viewer, and "
                        "export it again."
                    )


def check_scans(name: str, data: bytes) -> None:
    """Refuse a JPEG of very many scans."""
    scans, at = 0, 2
    while (found := MARKER.search(data, at)) is not None:
        if found[1][0] == END_OF_IMAGE:
            break
        scans += found[1][0] == START_OF_SCAN
        at = found.end() + int.from_bytes(data[found.end() : found.end() + 2], "big")
    if scans > MOST_SCANS:
        raise InputError(
            f"{name}: the JPEG has {scans} scans, but at most {MOST_SCANS} are allowed. "
            "Export it again, not progressive, or as PNG."
        )


def memory_mapped(path: Path) -> AnyArray | None:
    """Return the array of a large file without reading it; None for small or compressed ones."""
    if not path.is_file() or path.stat().st_size < MAPPED:
        return None
    name = shown(path)
    with decoding(name):
        found = _disk_array(path)
    if found is not None:
        check_size(name, found.shape[0], int(found.size // max(found.shape[0], 1)), 4 * MOST_PIXELS)
    return found


def _disk_array(path: Path) -> AnyArray | None:
    if path.suffix.lower() == ".npy":
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    with path.open("rb") as file:
        if file.read(4) not in TIFF:
            return None
    with tifffile.TiffFile(path) as tiff:
        page: Any = tiff.pages.first
        series = tiff.series[0]
        plain = page.photometric in (1, 2) and page.tags.get("Orientation") is None
        if len(tiff.series) != 1 or series.dataoffset is None or not plain:
            return None
        if [axis for axis in series.axes if axis not in "YXS"][1:]:
            return None
    return np.asarray(tifffile.memmap(path, mode="r"))
