"""Masks and probabilities out, as PNG or TIFF files that are whole or not there at all."""

import colorsys
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tifffile
from PIL import Image

from cutlearn.checks import as_array, float_array, is_one_of, path_of
from cutlearn.errors import InputError, quoted, shown
from cutlearn.images.reader import is_nifti, open_nibabel
from cutlearn.store import atomic_write

# Colours of labels that are distinct for all kinds of colour vision; label 0 is black.
MOST_NUMBERS = 65_535
PALETTE = (
    (0, 0, 0), (230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66), (0, 114, 178),
    (213, 94, 0), (204, 121, 167), (160, 160, 160), (255, 255, 255),
)  # fmt: skip


def colors_of(values: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return the colours of labels by their values in masks, in red, green and blue up to 255.

    The value 0 alone is black. The first colours are told apart by all kinds of colour vision, and
    further ones have hues that lie far from those before them, dark and light in turn.

    Examples
    --------
    >>> from cutlearn.images.write import colors_of
    >>> colors_of((0, 7)), colors_of((1, 7))[0]
    ([(0, 0, 0), (230, 159, 0)], (230, 159, 0))
    """
    first = 0 if values and values[0] == 0 else 1
    colors = list(PALETTE)
    for k in range(first + len(values) - len(PALETTE)):
        hue, light = (0.07 + 0.618034 * k) % 1.0, (0.55, 0.95, 0.75)[k % 3]
        red, green, blue = (round(255 * part) for part in colorsys.hsv_to_rgb(hue, 0.75, light))
        colors.append((red, green, blue))
    return colors[first : first + len(values)]


def write_mask(
    path: str | os.PathLike[str], labels: npt.ArrayLike, object_value: int | None = None
) -> None:
    """Write labels as a grey 8-bit PNG or TIFF, whole or not at all.

    Parameters
    ----------
    path : path
        The file, ending in .png, .tif or .tiff.
    labels : (h, w) integer or bool array
        0 to 255; 255 is void.
    object_value : int, optional
        For two labels: the value that label 1 is written as, such as 255 so that any viewer
        shows the mask. By default the value is the label.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from cutlearn.images import read_values, write_mask
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_mask(Path(folder) / "a.png", [[0, 1]], object_value=255)
    ...     read_values(Path(folder) / "a.png").tolist()
    [[0, 255]]
    """
    array = as_array(shown(path_of("path", path)), labels)
    fits = array.ndim == 2 and array.size > 0 and array.dtype.kind in "iub"
    if not fits or array.min() < 0 or array.max() > 255:
        raise InputError(
            f"{path}: the labels have shape {array.shape} and type {array.dtype}, but must be "
            "(h, w) integers from 0 to 255. Give one label a pixel."
        )
    if object_value is not None:
        if not is_one_of(object_value, range(1, 256)) or array.max() > 1:
            raise InputError(
                f"{path}: there are labels up to {array.max()} with "
                f"object_value={quoted(object_value)}, but labels must be 0 and 1 without void, "
                "and the value from 1 to 255. Leave object_value out."
            )
        array = array * np.uint8(object_value)
    _write(path, Image.fromarray(array.astype(np.uint8)))


def write_labels(
    path: str | os.PathLike[str], labels: npt.ArrayLike, values: Sequence[int]
) -> None:
    """Write labels as a PNG or TIFF with a palette, for any viewer, whole or not at all.

    `values`: the value from 0 to 255 that each of the labels 0 to L - 1 is written as.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from cutlearn.images import read_values
    >>> from cutlearn.images.write import write_labels
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_labels(Path(folder) / "a.png", [[0, 1]], (1, 7))
    ...     read_values(Path(folder) / "a.png").tolist()
    [[1, 7]]
    """
    array = as_array(shown(path_of("path", path)), labels)
    picture = Image.fromarray(np.asarray(values, np.uint8)[array], "P")
    colors = np.zeros((256, 3), np.uint8)
    colors[list(values)] = colors_of(values)
    picture.putpalette(colors.ravel().tolist())
    _write(path, picture)


def write_probability(path: str | os.PathLike[str], probability: npt.ArrayLike) -> None:
    """Write numbers in [0, 1] as a grey 16-bit PNG or TIFF, whole or not at all.

    Parameters
    ----------
    path : path
        The file, ending in .png, .tif or .tiff.
    probability : (h, w) float array in [0, 1]
        p is stored as round(65535 p), so `read_image` gives it back within 1 / 131070.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from cutlearn.images import read_image, write_probability
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_probability(Path(folder) / "p.png", [[0.0, 1.0]])
    ...     read_image(Path(folder) / "p.png").tolist()
    [[0.0, 1.0]]
    """
    array = float_array(shown(path_of("path", path)), probability)
    # Written so that NaN fails the test as well.
    if array.ndim != 2 or not array.size or not (array.min() >= 0 and array.max() <= 1):
        raise InputError(
            f"{path}: an array of shape {array.shape} was given, but (h, w) numbers in [0, 1] are "
            "needed. Give the probability of one label."
        )
    _write(path, Image.fromarray(np.rint(array * 65535).astype(np.uint16)))


def write_numbers(path: str | os.PathLike[str], numbers: npt.NDArray[Any]) -> None:
    """Write the numbers of objects as a grey 16-bit PNG, whole or not at all; 0 is no object."""
    if numbers.max(initial=0) > MOST_NUMBERS:
        raise InputError(
            f"{path}: the image has {numbers.max()} objects, but a 16-bit file holds at most "
            f"{MOST_NUMBERS}. Leave out small ones with min_area."
        )
    _write(path, Image.fromarray(numbers.astype(np.uint16)))


def lossless_format(path: str | os.PathLike[str]) -> str:
    """Return the format that a file's name asks for; refuse all but PNG and TIFF.

    Examples
    --------
    >>> from cutlearn.images.write import lossless_format
    >>> lossless_format("mask.PNG"), lossless_format("mask.tif")
    ('PNG', 'TIFF')
    """
    kind = {".png": "PNG", ".tif": "TIFF", ".tiff": "TIFF"}.get(
        path_of("path", path).suffix.lower()
    )
    if kind is None:
        raise InputError(
            f"{shown(path)}: masks and probabilities are written as PNG or TIFF, which keep every "
            "value. Name a file that ends in .png or .tif."
        )
    return kind


def _write(path: str | os.PathLike[str], picture: Image.Image) -> None:
    kind, file = lossless_format(path), io.BytesIO()
    picture.save(file, kind, **({"compression": "tiff_adobe_deflate"} if kind == "TIFF" else {}))
    atomic_write(path, file.getvalue())


def write_voxels(path: Path, voxels: npt.NDArray[Any], source: Path) -> None:
    """Write numbers as a volume like its source: NIfTI with its header, else a TIFF of pages."""
    if not is_nifti(source):
        file = io.BytesIO()
        # Pages one by one: any program reads them, and axes are told to those that ask.
        tifffile.imwrite(
            file, voxels, photometric="minisblack", compression="zlib", metadata={"axes": "ZYX"}
        )
        atomic_write(path, file.getvalue())
        return
    nibabel = open_nibabel(source)
    header = nibabel.load(source).header.copy()
    header.set_data_dtype(voxels.dtype)
    header.set_slope_inter(1, 0)
    header["cal_min"], header["cal_max"] = 0, 0
    made = nibabel.Nifti1Image(voxels.transpose(2, 1, 0), None, header)
    data = made.to_bytes()
    if path.name.lower().endswith(".gz"):
        import gzip

        data = gzip.compress(data, 6, mtime=0)
    atomic_write(path, data)


def volume_name(name: str, source: Path) -> str:
    """Return the file name of a result for a volume: NIfTI as its source is, else .tif."""
    # The name of name.nii.gz is name.nii.
    ending = ".gz" if source.name.lower().endswith(".nii.gz") else ".nii"
    return f"{name}{ending if is_nifti(source) else '.tif'}"
