"""Large files as arrays that stay on disk: numpy files and uncompressed TIFF.

What is read of them is what is asked for, so that no file promises more than it holds: neither the
limit of bytes nor that of pixels is needed.
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tifffile

from cutlearn.errors import shown
from cutlearn.images.decode import TIFF, decoding
from cutlearn.images.limits import check_size

# Files of so many bytes are not read at once.
MAPPED = 1 << 26
MOST_PIXELS = 1 << 30


def mapped(path: Path) -> npt.NDArray[Any] | None:
    """Give the array of a large file without reading it; None for small or compressed ones."""
    if not path.is_file() or path.stat().st_size < MAPPED:
        return None
    name = shown(path)
    with decoding(name):
        found = _array(path)
    if found is not None:
        check_size(name, found.shape[0], int(found.size // max(found.shape[0], 1)), 4 * MOST_PIXELS)
    return found


def _array(path: Path) -> npt.NDArray[Any] | None:
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
