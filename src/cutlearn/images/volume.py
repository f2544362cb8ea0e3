"""A volume: slices of one thing, one image of three axes; accepted wherever an image is.

Slices, rows and columns, in this order, as everywhere in numpy. What is done to slices one by one
(reading, resizing, describing) goes through `slices`; the cut sees all of them together.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cutlearn.checks import as_array
from cutlearn.errors import InputError, quoted
from cutlearn.images.facts import Facts, facts_of
from cutlearn.images.read import as_image
from cutlearn.images.sample import FREE, Sample, checked_seeds, owned

Spacing = tuple[float, float, float]


class Volume(Sample):
    """A volume with what a person gave for it.

    Parameters
    ----------
    image : (d, h, w), (d, h, w, 3) or (d, h, w, 4) array
        Slices first; values as for `as_image`.
    spacing : (float, float, float)
        Distance of neighbouring slices, rows and columns, in any unit: (50, 5, 5) for sections of
        50 nm with pixels of 5 nm.
    seeds : (d, h, w) integer array, optional
        A person's marks: -1 where there is none, else the label.
    extra : (d, h, w) or (d, h, w, k) array, optional
        Further channels for the features, such as the logits of a network.

    Attributes
    ----------
    image : (d, h, w) or (d, h, w, 3) float32 array
    spacing : three floats
    seeds : (d, h, w) int16 array, or None
    extra : (d, h, w, k) float32 array, or None
        All arrays are read-only.

    Examples
    --------
    >>> import numpy as np
    >>> from cutlearn.images import Volume
    >>> volume = Volume(np.zeros((5, 30, 40), np.uint8), spacing=(50, 5, 5))
    >>> volume.shape, len(volume.slices())
    ((5, 30, 40), 5)
    """

    spacing: Spacing

    def __init__(
        self,
        image: npt.ArrayLike,
        spacing: Sequence[float] = (1.0, 1.0, 1.0),
        seeds: npt.ArrayLike | None = None,
        extra: npt.ArrayLike | None = None,
    ) -> None:
        pixels = _as_voxels(image)
        shape = pixels.shape[:3]
        keep = functools.partial(object.__setattr__, self)
        keep("image", owned(pixels, image))
        keep("spacing", checked_spacing(spacing))
        keep("box", None)
        keep("seeds", None if seeds is None else owned(checked_seeds(seeds, shape), seeds))
        keep("extra", None if extra is None else owned(_extra(extra, shape), extra))

    @property
    def shape(self) -> tuple[int, int, int]:  # type: ignore[override]
        """Slices, rows and columns."""
        return self.image.shape[0], self.image.shape[1], self.image.shape[2]

    def fixed(self) -> npt.NDArray[np.int16]:
        """Labels that the person has settled, (d, h, w) int16: -1 where the voxel is free."""
        return np.full(self.shape, FREE, np.int16) if self.seeds is None else self.seeds.copy()

    def slices(self) -> list[Sample]:
        """Give every slice as an image."""
        return [
            Sample(
                self.image[z],
                seeds=None if self.seeds is None else self.seeds[z],
                extra=None if self.extra is None else self.extra[z],
            )
            for z in range(self.shape[0])
        ]

    def part(self, first: int, last: int) -> Volume:
        """Give the slices first to last - 1 as a volume."""
        return Volume(
            self.image[first:last],
            self.spacing,
            None if self.seeds is None else self.seeds[first:last],
            None if self.extra is None else self.extra[first:last],
        )

    def facts(self, digest: bool = True) -> Facts:
        """Give what decides whether a model fits the volume."""
        d, h, w = self.shape
        flat = facts_of(self.image.reshape(d * h, w, *self.image.shape[3:]), digest)
        return flat._replace(height=h, width=w, depth=d)


def of_slices(slices: Sequence[Sample], spacing: Spacing) -> Volume:
    """Give the volume of slices that are images, all with seeds or extra channels, or none."""
    seeds, extra = slices[0].seeds, slices[0].extra
    return Volume(
        np.stack([one.image for one in slices]),
        spacing,
        None if seeds is None else np.stack([one.seeds for one in slices if one.seeds is not None]),
        None if extra is None else np.stack([one.extra for one in slices if one.extra is not None]),
    )


def checked_spacing(spacing: Any) -> Spacing:
    """Check the distances of slices, rows and columns."""
    given = as_array("spacing", spacing)
    if given.shape == (3,) and given.dtype.kind in "iuf":
        dz, dy, dx = (float(v) for v in given)
        if all(math.isfinite(v) and v > 0 for v in (dz, dy, dx)):
            return dz, dy, dx
    raise InputError(
        f"spacing is {quoted(spacing)}, but must be three numbers above 0: the distance of "
        "neighbouring slices, of rows and of columns. Use (50, 5, 5), say."
    )


def _as_voxels(image: npt.ArrayLike) -> npt.NDArray[np.float32]:
    array = as_array("volume", image)
    good = array.ndim == 3 or (array.ndim == 4 and array.shape[3] in (1, 3, 4))
    if not good or not array.size:
        raise InputError(
            f"volume: the array has shape {array.shape}, but must have (d, h, w), (d, h, w, 3) or "
            "(d, h, w, 4), with at least one voxel. Put slices first and channels last."
        )
    d, h, w = array.shape[:3]
    # One tall image: its values are checked and scaled as those of any other.
    flat = as_image(array.reshape(d * h, w, *array.shape[3:]), "volume")
    return flat.reshape(d, h, *flat.shape[1:])


def _extra(extra: Any, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    array = as_array("extra", extra)
    array = array[..., None] if array.ndim == 3 else array
    if array.ndim != 4 or array.shape[:3] != shape or array.dtype.kind not in "fiub":
        raise InputError(
            f"extra has shape {np.shape(extra)} and type {array.dtype}, but must be numbers of "
            f"shape {(*shape, 'k')}. Put channels last."
        )
    channels = np.ascontiguousarray(array, np.float32)
    if not np.isfinite(channels).all():
        raise InputError(
            "extra has NaN or infinite values, but must hold finite numbers. Clip the logits."
        )
    return channels
