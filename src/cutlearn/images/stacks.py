"""Files of volumes in and out: TIFF of several pages, OME-TIFF, numpy arrays, NIfTI.

In: a path. Out: voxels (d, h, w) or (d, h, w, 3) as they are stored, and the distances of slices,
rows and columns where the file tells them. NIfTI stores columns first; here slices come first.
"""

import io
import math
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tifffile

from cutlearn.errors import InputError, shown
from cutlearn.images.decode import (
    TIFF,
    check_axes,
    content,
    decode,
    decoding,
    pages_of,
    voxels_of_array,
)
from cutlearn.images.limits import too_many
from cutlearn.images.mapped import mapped
from cutlearn.images.volume import Spacing
from cutlearn.store import atomic_write

Array = npt.NDArray[Any]
NIFTI = (".nii", ".nii.gz")
# Voxels of a file, at most.
MOST_VOXELS = 2_000_000_000
UNKNOWN: Spacing = (1.0, 1.0, 1.0)


def is_nifti(path: str | os.PathLike[str]) -> bool:
    """Whether a file is NIfTI, by its name."""
    return Path(path).name.lower().endswith(NIFTI)


def read_voxels(
    path: Path, max_bytes: int, max_pixels: int, turned: bool, colors: bool
) -> tuple[Array, Spacing]:
    """Read the voxels of a file as they are stored, and their distances; unknown ones are 1.

    Parameters
    ----------
    max_bytes, max_pixels : int
        Limits for the file, and for each slice.
    turned, colors : bool
        As of `decode`: whether a rotation tag is heeded, and palettes are looked up. Colours are
        those of an image, not of a mask.
    """
    if is_nifti(path):
        return _read_nifti(path, colors)
    large = mapped(path)
    if large is not None and large.ndim >= 3:
        return large, UNKNOWN if path.suffix == ".npy" else _tiff_spacing(path, shown(path))
    data, name = content(path, None, max_bytes)
    with decoding(name):
        whole = voxels_of_array(data, name, max_pixels)
        if whole is not None:
            return whole, UNKNOWN
        pages, spacing = pages_of(data, name, max_pixels), UNKNOWN
        if data[:4] in TIFF:
            spacing = _tiff_spacing(io.BytesIO(data), name)
        if pages == 1:
            raise InputError(
                f"{name}: this is one image, but a volume is a file of several slices. Put slices "
                "into one file, tifffile.imwrite('volume.tif', slices), or leave out volume."
            )
        slices: list[Array] = []
        for k in range(pages):
            slices.append(decode(data, name, max_pixels, colors, k, turned))
            if slices[k].shape != slices[0].shape:
                raise InputError(
                    f"{name}: page 1 has {_size(slices[0])}, but page {k + 1} has "
                    f"{_size(slices[k])}, and the slices of a volume are of one size. Leave out "
                    "pages such as thumbnails."
                )
            if pages * math.prod(slices[0].shape[:2]) > MOST_VOXELS:
                raise too_many(name, f"the volume has {pages} pages", MOST_VOXELS)
        return np.stack(slices), spacing


def write_voxels(path: Path, voxels: Array, source: Path) -> None:
    """Write numbers as a volume like its source: NIfTI with its header, else a TIFF of pages."""
    if not is_nifti(source):
        file = io.BytesIO()
        # Pages one by one: any program reads them, and axes are told to those that ask.
        tifffile.imwrite(
            file, voxels, photometric="minisblack", compression="zlib", metadata={"axes": "ZYX"}
        )
        atomic_write(path, file.getvalue())
        return
    nibabel = _nibabel(source)
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


def _size(array: Array) -> str:
    return f"{array.shape[1]} x {array.shape[0]} pixels (width x height)"


def _tiff_spacing(source: Any, name: str) -> Spacing:
    """Return the distances that a TIFF states; refuse files of several channels or times."""
    with tifffile.TiffFile(source) as file:
        check_axes(file, name)
        axes = file.series[0].axes
        more = [axis for axis in axes if axis not in "YXS"]
        if len(more) > 1:
            raise InputError(
                f"{name}: the file has the axes {axes}, but a volume has slices, rows and columns. "
                "Save each time as a file of its own."
            )
        found: Any = None
        if file.is_ome:
            sizes = re.findall(r'PhysicalSize([XYZ])="([0-9.eE+-]+)"', file.ome_metadata or "")
            found = dict(reversed(sizes))
            found = [found.get(axis) for axis in "ZYX"]
        elif file.is_imagej:
            tags = file.pages.first.tags
            across, down = (tags.get(tag) for tag in ("XResolution", "YResolution"))
            near = (file.imagej_metadata or {}).get("spacing")
            if across is not None and down is not None and near is not None:
                found = [near, *(t.value[1] / max(t.value[0], 1) for t in (down, across))]
        if found is None or any(value is None for value in found):
            return UNKNOWN
        dz, dy, dx = (float(value) for value in found)
        good = all(math.isfinite(value) and value > 0 for value in (dz, dy, dx))
        return (dz, dy, dx) if good else UNKNOWN


def _read_nifti(path: Path, colors: bool) -> tuple[Array, Spacing]:
    name = shown(path)
    nibabel = _nibabel(path)
    if not path.is_file():
        raise InputError(f"{name}: there is no such file. Give the path of a volume.")
    with decoding(name):
        image = nibabel.load(path)
        shape = tuple(n for n in image.shape[:3]) + tuple(n for n in image.shape[3:] if n != 1)
        if len(shape) != 3 or 0 in shape:
            raise InputError(
                f"{name}: the volume has shape {image.shape}, but must have three axes. Save one "
                "channel and one time as a file of its own."
            )
        if math.prod(shape) > MOST_VOXELS:
            raise too_many(name, f"the volume has {math.prod(shape)} voxels", MOST_VOXELS)
        voxels = np.asarray(image.dataobj).reshape(shape)
        zooms = [float(v) for v in image.header.get_zooms()[:3]]
        low, high = float(image.header["cal_min"]), float(image.header["cal_max"])
    good = all(math.isfinite(v) and v > 0 for v in zooms)
    spacing = (zooms[2], zooms[1], zooms[0]) if good else UNKNOWN
    voxels = _in_window(voxels, low, high) if colors else voxels
    return voxels.transpose(2, 1, 0), spacing


def _in_window(voxels: Array, low: float, high: float) -> Array:
    """Voxels of which the header tells a range of display as floats in [0, 1]; others as stored."""
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        return voxels
    scaled = (voxels.astype(np.float32) - np.float32(low)) / np.float32(high - low)
    return np.asarray(np.clip(scaled, 0, 1), np.float32)


def _nibabel(path: Path) -> Any:
    try:
        import nibabel
    except ImportError:
        raise InputError(
            f"{shown(path)}: the package nibabel, which reads NIfTI, is not installed. Install it "
            "with `pip install cutlearn[medical]`, or save the volume as TIFF."
        ) from None
    return nibabel
