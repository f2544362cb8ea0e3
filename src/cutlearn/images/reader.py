"""How the files of a folder are read: as images, page by page, or each as one volume.

A `Reader` returns the pixels of a file for the first look and later once more, its values as a
mask, and the facts of an image. Volumes are TIFFs of several pages, OME-TIFF, numpy arrays and
NIfTI, which stores columns first; here slices come first.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    OpenedImage,
    as_image,
    open_image,
    open_values,
)
from cutlearn.images.sample import Facts, Spacing, Volume, facts_of

NIFTI = (".nii", ".nii.gz")
UNKNOWN: Spacing = (1.0, 1.0, 1.0)


@dataclass(eq=False)
class Reader:
    """The images and masks of files: page by page, or with `volume` each file as one volume.

    `turned`, `spacing` and `empty_void` are those of `read_folder`; `room` is the number of bytes
    of decoded arrays that are kept for the second time that they are needed.
    """

    max_bytes: int = MAX_BYTES
    max_pixels: int = MAX_PIXELS
    turned: bool = True
    room: int = 0
    volume: bool = False
    spacing: Spacing | None = None
    empty_void: bool = False

    def __post_init__(self) -> None:
        self.endings = (*ENDINGS, *NIFTI) if self.volume else ENDINGS
        self._images: dict[tuple[Path, int | None], Any] = {}
        self._masks: dict[tuple[Path, int | None], tuple[AnyArray, bool]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"room": 0, "_images": {}, "_masks": {}}

    def _fits(self, array: AnyArray) -> bool:
        """Return whether there is room to keep an array, and take it."""
        fits = array.nbytes <= self.room
        self.room -= array.nbytes if fits else 0
        return fits

    def images(self, path: Path) -> list[tuple[int | None, OpenedImage]]:
        """Return the images of a file, each with its page; None for one image, or a volume."""
        found = self._opened(path)
        for page, one in found:
            image: Any = one.image
            if self._fits(image.image if self.volume else image):
                self._images[path, page] = image
        return found

    def image(self, path: Path, page: int | None) -> Any:
        """Return an image again; one that was kept is not kept any longer."""
        kept = self._images.pop((path, page), None)
        return self._opened(path, [page])[0][1].image if kept is None else kept

    def _opened(
        self, path: Path, pages: Sequence[int | None] | None = None
    ) -> list[tuple[int | None, OpenedImage]]:
        """Return the images at some pages of a file, by default at all."""
        if self.volume:
            return [(None, OpenedImage(self._read_volume(path), False, 1))]
        large = memory_mapped(path)
        if large is not None and large.ndim > 1 and large.shape[2:] in ((), (3,)):
            return [(None, OpenedImage(as_image(large, shown(path)), False, 1))]
        data, name = content(path, None, self.max_bytes)
        if pages is None:
            count = pages_of(data, name, self.max_pixels)
            pages = [None] if count == 1 else range(count)
        return [(k, open_image(data, name, self.max_pixels, k, self.turned)) for k in pages]

    def _read_volume(self, path: Path) -> Any:
        voxels, spacing = self._voxels(path, True)
        try:
            return Volume(voxels, self.spacing or spacing)
        except InputError as error:
            advice = (
                " A NIfTI file may tell the range that matters in its header, the same for all "
                "volumes: header['cal_min'], header['cal_max'] = -200, 300."
            )
            said = str(error).removeprefix("volume: ")
            raise InputError(
                f"{shown(path)}: {said}" + (advice if is_nifti(path) else "")
            ) from error

    def _voxels(self, path: Path, colors: bool) -> tuple[AnyArray, Spacing]:
        return read_voxels(path, self.max_bytes, self.max_pixels, self.turned, colors)

    def count(self, path: Path) -> int:
        """Return the number of images in a file."""
        data, name = content(path, None, self.max_bytes)
        return pages_of(data, name, self.max_pixels)

    def _stored(self, path: Path, page: int | None) -> tuple[AnyArray, bool]:
        """Return the values of a mask as they are stored, and whether a JPEG has changed them."""
        found = self._masks.get((path, page))
        if found is None:
            if self.volume:
                found = _whole_numbers(self._voxels(path, False)[0], path), False
            else:
                data, name = content(path, None, self.max_bytes)
                values = open_values(data, name, self.max_pixels, page, self.turned)
                found = values, data[: len(JPEG)] == JPEG
            if self._fits(found[0]):
                self._masks[path, page] = found
        return found

    def values(self, path: Path, page: int | None) -> tuple[AnyArray, bool]:
        """Return the values of a mask, (h, w) or (h, w, 3), and whether a JPEG has changed them.

        Those of a volume are one tall image, slice below slice.
        """
        values, jpeg = self._stored(path, page)
        return values.reshape(-1, values.shape[2]) if self.volume else values, jpeg

    def labels(self, path: Path, page: int | None, coding: Coding) -> Mask:
        """Return the labels of a mask, (h, w) or (d, h, w)."""
        stored, _ = self._stored(path, page)
        if not self.volume:
            return coding.labels(stored)
        labels = coding.labels(stored.reshape(-1, stored.shape[2])).reshape(stored.shape)
        if self.empty_void:
            labels[~labels.any(axis=(1, 2))] = VOID
        return labels

    def facts(self, image: Any) -> Facts:
        """Return what decides whether a model fits an image or a volume."""
        found: Facts = image.facts() if self.volume else facts_of(image)
        return found

    def size(self, image: Any) -> tuple[int, int]:
        """Return the rows and columns that a mask's values must have."""
        d, h, w = image.shape if self.volume else (1, *image.shape[:2])
        return d * h, w

    def annotated(self, values: AnyArray, image: Any) -> tuple[AnyArray, bool]:
        """Return the annotated values of a mask, and whether they are colours.

        Slices of a volume come without the empty ones, if these are not annotated.
        """
        if not self.volume:
            return values, values.ndim == 3
        slices = values.reshape(image.shape)
        if self.empty_void and slices.any():
            slices = slices[slices.any(axis=(1, 2))]
        return slices, False

    def size_in_words(self, rows: int, columns: int, image: Any) -> str:
        """Return a size in words; a mask of the same rows and columns has so many slices."""
        high = image.shape[1] if self.volume else rows
        slices = f"{rows // high} slices of " if self.volume and rows % high == 0 else ""
        more = "" if rows % high == 0 else ", all slices below each other"
        return f"{slices}{columns} x {rows if more else high} pixels (width x height{more})"


def _whole_numbers(voxels: AnyArray, path: Path) -> AnyArray:
    """Return the values of a mask in 8 or 16 bits, if they are whole numbers that fit."""
    if voxels.ndim == 4:
        raise InputError(
            f"{shown(path)}: the mask has colours, but that of a volume must hold one integer "
            "a voxel. Save it as grey values."
        )
    if voxels.dtype == np.bool_:
        return voxels.astype(np.uint8)
    if voxels.dtype.kind in "fi" and voxels.min() >= 0 and voxels.max() < 2**16:
        small = voxels.astype(np.uint16)
        return small if (small == voxels).all() else voxels
    return voxels


def read_again(
    reader: Reader, path: Path, page: int | None, digest: str, coding: Coding | None = None
) -> Any:
    """Read an image, or with a coding labels, in another process; refuse those of another file."""
    try:
        found = reader.image(path, page) if coding is None else reader.labels(path, page, coding)
    except (InputError, OSError) as error:
        raise missing_on_worker(path) from error
    if digest != (reader.facts(found).digest if coding is None else label_digest(found)):
        raise missing_on_worker(path)
    return found


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
