"""How the files of a folder are read: as images, page by page, or each as one volume.

A reader gives what a survey looks at, and later the same pixels again. Both kinds have the same
methods, so that folders and surveys ask, and never know which it is.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cutlearn.arrays import VOID
from cutlearn.errors import InputError, shown, unseen
from cutlearn.images.coding import Coding, LabelMap
from cutlearn.images.decode import ENDINGS, JPEG, content
from cutlearn.images.facts import Facts, facts_of
from cutlearn.images.mapped import mapped
from cutlearn.images.read import (
    MAX_BYTES,
    MAX_PIXELS,
    Opened,
    as_image,
    count_pages,
    open_image,
    open_values,
)
from cutlearn.images.stacks import NIFTI, read_voxels
from cutlearn.images.volume import Volume

Array = npt.NDArray[Any]


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
    """

    endings: tuple[str, ...] = ENDINGS

    def __init__(self, limits: Limits, turned: bool) -> None:
        self.limits, self.turned = limits, turned

    def images(self, path: Path) -> list[tuple[int | None, Opened]]:
        """Give the images of a file, each with its page; None for a file of one image."""
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
        """Return an image again."""
        large = _mapped_image(path)
        if large is not None:
            return as_image(large, shown(path))
        data, name = content(path, None, self.limits.bytes)
        return open_image(data, name, self.limits.pixels, page, self.turned).image

    def values(self, path: Path, page: int | None) -> tuple[Array, bool]:
        """Give the values of a mask, (h, w) or (h, w, 3), and whether a JPEG has changed them."""
        data, name = content(path, None, self.limits.bytes)
        found = open_values(data, name, self.limits.pixels, page, self.turned)
        return found, data[: len(JPEG)] == JPEG

    def labels(self, path: Path, page: int | None, coding: Coding) -> LabelMap:
        """Give the labels of a mask."""
        return coding.labels(self.values(path, page)[0])

    def facts(self, image: Any) -> Facts:
        """Give what decides whether a model fits an image."""
        return facts_of(image)

    def size(self, image: Any) -> tuple[int, int]:
        """Give the rows and columns that a mask's values must have."""
        return image.shape[0], image.shape[1]

    def annotated(self, values: Array, image: Any) -> tuple[Array, bool]:
        """Return what is annotated of a mask's values, and whether they are colours."""
        return values, values.ndim == 3

    def told(self, rows: int, columns: int, image: Any) -> str:
        """Return a size in words."""
        return f"{columns} x {rows} pixels (width x height)"


def _mapped_image(path: Path) -> Array | None:
    """The array of a large file that is one image; None for all others."""
    found = mapped(path)
    one = found is not None and (found.ndim == 2 or (found.ndim == 3 and found.shape[2] == 3))
    return found if one else None


class Volumes(Pages):
    """Files of volumes; values of masks come as one tall image, slice below slice.

    Parameters
    ----------
    spacing : three floats, optional
        Distances of slices, rows and columns, where files do not tell them, or not the right ones.
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
    ) -> None:
        super().__init__(limits, turned)
        self.spacing, self.empty_void = spacing, empty_void

    def images(self, path: Path) -> list[tuple[int | None, Opened]]:
        """Give the volume of a file; it has no page."""
        opened: Any = Opened(self.image(path, None), False, 1)
        return [(None, opened)]

    def image(self, path: Path, page: int | None) -> Any:
        """Give a volume."""
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

    def values(self, path: Path, page: int | None) -> tuple[Array, bool]:
        """Give the values of a mask as one tall image."""
        voxels = self._values(path)
        return voxels.reshape(-1, voxels.shape[2]), False

    def _values(self, path: Path) -> Array:
        voxels, _ = read_voxels(path, *self.limits, self.turned, False)
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

    def labels(self, path: Path, page: int | None, coding: Coding) -> LabelMap:
        """Give the labels of a mask, (d, h, w)."""
        voxels = self._values(path)
        found = coding.labels(voxels.reshape(-1, voxels.shape[2])).reshape(voxels.shape)
        if self.empty_void:
            found[~found.any(axis=(1, 2))] = VOID
        return found

    def facts(self, image: Any) -> Facts:
        """Give what decides whether a model fits a volume."""
        found: Facts = image.facts()
        return found

    def size(self, image: Any) -> tuple[int, int]:
        """Give the rows and columns of the slices below each other."""
        d, h, w = image.shape
        return d * h, w

    def annotated(self, values: Array, image: Any) -> tuple[Array, bool]:
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
        raise unseen(path) from error
    if reader.facts(image).digest != digest:
        raise unseen(path)
    return image


def labels_again(
    reader: Pages, path: Path, page: int | None, coding: Coding, digest: str
) -> LabelMap:
    """Read the labels of a mask in another process; those of another file are refused."""
    try:
        labels = reader.labels(path, page, coding)
    except (InputError, OSError) as error:
        raise unseen(path) from error
    if label_digest(labels) != digest:
        raise unseen(path)
    return labels


def label_digest(labels: LabelMap) -> str:
    """Give a fingerprint of labels."""
    told = hashlib.blake2b(str(labels.shape).encode(), digest_size=16)
    told.update(np.ascontiguousarray(labels).data)
    return told.hexdigest()
