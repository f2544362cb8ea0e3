"""How the files of a folder are read: as images, page by page, or each as one volume.

`Pages` and `Volumes` have the same methods: the pixels of a file for the first look and later once
more, its values as a mask, and the facts of an image. Volumes are TIFFs of several pages, OME-TIFF,
numpy arrays and NIfTI, which stores columns first; here slices come first.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tifffile

from cutlearn.arrays import VOID, AnyArray, Mask
from cutlearn.errors import InputError, missing_on_worker, shown
from cutlearn.images.coding import Coding
from cutlearn.images.decode import (
    ENDINGS,
    JPEG,
    MOST_VOXELS,
    TIFF,
    check_axes,
    content,
    decode,
    decoding,
    memory_mapped,
    pages_of,
    too_many,
    voxels_of,
)
from cutlearn.images.read import (
    MAX_BYTES,
    MAX_PIXELS,
    Opened,
    as_image,
    count_pages,
    open_image,
    open_values,
)
from cutlearn.images.sample import Facts, Spacing, Volume, facts_of

NIFTI = (".nii", ".nii.gz")
UNKNOWN: Spacing = (1.0, 1.0, 1.0)


class Limits(NamedTuple):
    """The most that a file may have."""

    bytes: int = MAX_BYTES
    pixels: int = MAX_PIXELS


class Pages:
    """Files of images; the pages of a file are images of their own.

    Parameters
    ----------
    limits : Limits
    turned : bool
        Whether images and masks are turned as their tags say.
    room : int, default 0
        Bytes of decoded arrays that are kept for the second time that they are needed.
    """

    endings: tuple[str, ...] = ENDINGS

    def __init__(self, limits: Limits, turned: bool, room: int = 0) -> None:
        self.limits, self.turned, self.room = limits, turned, room
        self._images: dict[tuple[Path, int | None], Any] = {}
        self._masks: dict[tuple[Path, int | None], tuple[AnyArray, bool]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"room": 0, "_images": {}, "_masks": {}}

    def _fits(self, array: AnyArray) -> bool:
        """Return whether there is room to keep an array, and take it."""
        fits = array.nbytes <= self.room
        self.room -= array.nbytes if fits else 0
        return fits

    def images(self, path: Path) -> list[tuple[int | None, Opened]]:
        """Return the images of a file, each with its page; None for a file of one image."""
        found = self._open(path)
        self._images |= {(path, k): one.image for k, one in found if self._fits(one.image)}
        return found

    def _open(self, path: Path) -> list[tuple[int | None, Opened]]:
        large = _mapped_image(path)
        if large is not None:
            return [(None, Opened(as_image(large, shown(path)), False, 1))]
        data, name = content(path, None, self.limits.bytes)
        pages = count_pages(data, name, self.limits.pixels)
        numbers: list[int | None] = [None] if pages == 1 else list(range(pages))
        return [(k, open_image(data, name, self.limits.pixels, k, self.turned)) for k in numbers]

    def count(self, path: Path) -> int:
        """Return the number of images in a file."""
        data, name = content(path, None, self.limits.bytes)
        return count_pages(data, name, self.limits.pixels)

    def image(self, path: Path, page: int | None) -> Any:
        """Return an image again; one that was kept is not kept any longer."""
        kept = self._images.pop((path, page), None)
        return self._decoded(path, page) if kept is None else kept

    def _decoded(self, path: Path, page: int | None) -> Any:
        large = _mapped_image(path)
        if large is not None:
            return as_image(large, shown(path))
        data, name = content(path, None, self.limits.bytes)
        return open_image(data, name, self.limits.pixels, page, self.turned).image

    def values(self, path: Path, page: int | None) -> tuple[AnyArray, bool]:
        """Return the values of a mask, (h, w) or (h, w, 3), and whether a JPEG has changed them."""
        if (path, page) in self._masks:
            return self._masks[path, page]
        found = self._decoded_values(path, page)
        if self._fits(found[0]):
            self._masks[path, page] = found
        return found

    def _decoded_values(self, path: Path, page: int | None) -> tuple[AnyArray, bool]:
        data, name = content(path, None, self.limits.bytes)
        found = open_values(data, name, self.limits.pixels, page, self.turned)
        return found, data[: len(JPEG)] == JPEG

    def labels(self, path: Path, page: int | None, coding: Coding) -> Mask:
        """Return the labels of a mask."""
        return coding.labels(self.values(path, page)[0])

    def facts(self, image: Any) -> Facts:
        """Return what decides whether a model fits an image."""
        return facts_of(image)

    def size(self, image: Any) -> tuple[int, int]:
        """Return the rows and columns that a mask's values must have."""
        return image.shape[0], image.shape[1]

    def annotated(self, values: AnyArray, image: Any) -> tuple[AnyArray, bool]:
        """Return what is annotated of a mask's values, and whether they are colours."""
        return values, values.ndim == 3

    def told(self, rows: int, columns: int, image: Any) -> str:
        """Return a size in words."""
        return f"{columns} x {rows} pixels (width x height)"


def _mapped_image(path: Path) -> AnyArray | None:
    """Return the array of a large file that is one image; None for all others."""
    found = memory_mapped(path)
    one = found is not None and (found.ndim == 2 or (found.ndim == 3 and found.shape[2] == 3))
    return found if one else None


class Volumes(Pages):
    """Files of volumes; values of masks come as one tall image, slice below slice.

    Parameters
    ----------
    spacing : three floats, optional
        Distances of slices, rows and columns, if files lack them or have wrong ones.
    empty_void : bool
        Whether slices of a mask that hold nothing but label 0 are not annotated.
    """

    endings = (*ENDINGS, *NIFTI)

    def __init__(
        self,
        limits: Limits,
        turned: bool,
        spacing: tuple[float, float, float] | None = None,
        empty_void: bool = False,
        room: int = 0,
    ) -> None:
        super().__init__(limits, turned, room)
        self.spacing, self.empty_void = spacing, empty_void

    def images(self, path: Path) -> list[tuple[int | None, Opened]]:
        """Return the volume of a file; it has no page."""
        volume = self._decoded(path, None)
        if self._fits(volume.image):
            self._images[path, None] = volume
        return [(None, Opened(volume, False, 1))]

    def _decoded(self, path: Path, page: int | None) -> Any:
        voxels, spacing = read_voxels(path, *self.limits, self.turned, True)
        try:
            return Volume(voxels, self.spacing or spacing)
        except InputError as error:
            advice = (
                " A NIfTI file may tell the range that matters in its header, the same for all "
                "volumes: header['cal_min'], header['cal_max'] = -200, 300."
            )
            said = str(error).removeprefix("volume: ")
            raise InputError(
                f"{shown(path)}: {said}" + (advice if path.name.lower().endswith(NIFTI) else "")
            ) from error

    def values(self, path: Path, page: int | None) -> tuple[AnyArray, bool]:
        """Return the values of a mask as one tall image."""
        voxels, _ = super().values(path, page)
        return voxels.reshape(-1, voxels.shape[2]), False

    def _decoded_values(self, path: Path, page: int | None) -> tuple[AnyArray, bool]:
        voxels, _ = read_voxels(path, *self.limits, self.turned, False)
        if voxels.ndim == 4:
            raise InputError(
                f"{shown(path)}: the mask has colours, but that of a volume must hold one integer "
                "a voxel. Save it as grey values."
            )
        if voxels.dtype == np.bool_:
            return voxels.astype(np.uint8), False
        if voxels.dtype.kind in "fi" and voxels.min() >= 0 and voxels.max() < 2**16:
            small = voxels.astype(np.uint16)
            return (small if (small == voxels).all() else voxels), False
        return voxels, False

    def labels(self, path: Path, page: int | None, coding: Coding) -> Mask:
        """Return the labels of a mask, (d, h, w)."""
        voxels, _ = super().values(path, page)
        found = coding.labels(voxels.reshape(-1, voxels.shape[2])).reshape(voxels.shape)
        if self.empty_void:
            found[~found.any(axis=(1, 2))] = VOID
        return found

    def facts(self, image: Any) -> Facts:
        """Return what decides whether a model fits a volume."""
        found: Facts = image.facts()
        return found

    def size(self, image: Any) -> tuple[int, int]:
        """Return the rows and columns of the slices below each other."""
        d, h, w = image.shape
        return d * h, w

    def annotated(self, values: AnyArray, image: Any) -> tuple[AnyArray, bool]:
        """Return the slices of a mask, without the empty ones if these are not annotated."""
        slices = values.reshape(image.shape)
        if self.empty_void and slices.any():
            slices = slices[slices.any(axis=(1, 2))]
        return slices, False

    def told(self, rows: int, columns: int, image: Any) -> str:
        """Return a size in words; a mask of the same rows and columns has so many slices."""
        high = image.shape[1]
        if rows % high == 0:
            return f"{rows // high} slices of {columns} x {high} pixels (width x height)"
        return f"{columns} x {rows} pixels (width x height, all slices below each other)"


def image_again(reader: Pages, path: Path, page: int | None, digest: str) -> Any:
    """Read an image in another process; another one under the same path is refused."""
    try:
        image = reader.image(path, page)
    except (InputError, OSError) as error:
        raise missing_on_worker(path) from error
    if reader.facts(image).digest != digest:
        raise missing_on_worker(path)
    return image


def labels_again(reader: Pages, path: Path, page: int | None, coding: Coding, digest: str) -> Mask:
    """Read the labels of a mask in another process; those of another file are refused."""
    try:
        labels = reader.labels(path, page, coding)
    except (InputError, OSError) as error:
        raise missing_on_worker(path) from error
    if label_digest(labels) != digest:
        raise missing_on_worker(path)
    return labels


def label_digest(labels: Mask) -> str:
    """Return a fingerprint of labels."""
    told = hashlib.blake2b(str(labels.shape).encode(), digest_size=16)
    told.update(np.ascontiguousarray(labels).data)
    return told.hexdigest()


def is_nifti(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is NIfTI, by its name."""
    return Path(path).name.lower().endswith(NIFTI)


def read_voxels(
    path: Path, max_bytes: int, max_pixels: int, turned: bool, colors: bool
) -> tuple[AnyArray, Spacing]:
    """Read the voxels of a file as they are stored, and their distances; unknown ones are 1.

    `max_pixels`: of each slice. `turned`, `colors`: as of `decode`.
    """
    if is_nifti(path):
        return _read_nifti(path, colors)
    large = memory_mapped(path)
    if large is not None and large.ndim >= 3:
        return large, UNKNOWN if path.suffix == ".npy" else _tiff_spacing(path, shown(path))
    data, name = content(path, None, max_bytes)
    with decoding(name):
        spacing = _tiff_spacing(io.BytesIO(data), name) if data[:4] in TIFF else UNKNOWN
        whole = voxels_of(data, name, max_pixels, colors, turned)
        if whole is not None:
            return whole, spacing
        pages = pages_of(data, name, max_pixels)
        if pages == 1:
            raise InputError(
                f"{name}: this is one image, but a volume is a file of several slices. Put slices "
                "into one file, tifffile.imwrite('volume.tif', slices), or leave out volume."
            )
        slices: list[AnyArray] = []
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


def _size(array: AnyArray) -> str:
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


def _read_nifti(path: Path, colors: bool) -> tuple[AnyArray, Spacing]:
    name = shown(path)
    nibabel = open_nibabel(path)
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


def _in_window(voxels: AnyArray, low: float, high: float) -> AnyArray:
    """Return voxels scaled by the range of display in the header; without one, as stored."""
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        return voxels
    scaled = (voxels.astype(np.float32) - np.float32(low)) / np.float32(high - low)
    return np.asarray(np.clip(scaled, 0, 1), np.float32)


def open_nibabel(path: Path) -> Any:
    try:
        import nibabel
    except ImportError:
        raise InputError(
            f"{shown(path)}: the package nibabel, which reads NIfTI, is not installed. Install it "
            "with `pip install cutlearn[medical]`, or save the volume as TIFF."
        ) from None
    return nibabel
