"""An image with what a person gave for it: the value at the start of the path of the data.

An image, a box and seeds come in; out comes `Sample`, checked once and not changed afterwards.
Coordinates are rows and columns, in pixels, half-open, as everywhere in numpy: the box
(top, left, bottom, right) is image[top:bottom, left:right].
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from cutlearn.checks import as_array
from cutlearn.errors import InputError, quoted
from cutlearn.images.read import as_image

FREE = -1


@dataclass(frozen=True, eq=False, init=False)
class Sample:
    """An image with what a person gave for it; accepted wherever an image is.

    Parameters
    ----------
    image : (h, w), (h, w, 3) or (h, w, 4) array
        As for `as_image`; kept in its canonical form, float32 in [0, 1].
    box : (top, left, bottom, right), optional
        Half-open, in pixels: every pixel outside of it is label 0.
    seeds : (h, w) integer array, optional
        A person's marks: -1 where there is none, else the label.
    extra : (h, w) or (h, w, k) array, optional
        Further channels for the features, such as the logits of a network; any finite numbers.

    Attributes
    ----------
    image : (h, w) or (h, w, 3) float32 array
    box : tuple of four int, or None
    seeds : (h, w) int16 array, or None
    extra : (h, w, k) float32 array, or None
        All arrays are read-only.

    Raises
    ------
    InputError
        If the shapes differ, the box is empty or leaves the image, or a seed of an object lies
        outside of the box.

    Examples
    --------
    >>> import numpy as np
    >>> from cutlearn.images import Sample
    >>> sample = Sample(np.zeros((3, 4), np.uint8), box=(0, 1, 2, 4))
    >>> sample.fixed().tolist()
    [[0, -1, -1, -1], [0, -1, -1, -1], [0, 0, 0, 0]]
    """

    image: npt.NDArray[np.float32]
    box: tuple[int, int, int, int] | None
    seeds: npt.NDArray[np.int16] | None
    extra: npt.NDArray[np.float32] | None

    def __init__(
        self,
        image: npt.ArrayLike | Image.Image,
        box: Sequence[float] | npt.NDArray[Any] | None = None,
        seeds: npt.ArrayLike | None = None,
        extra: npt.ArrayLike | None = None,
    ) -> None:
        pixels = as_image(image)
        shape = (pixels.shape[0], pixels.shape[1])
        # The class is frozen for everybody else; what is kept is checked and cannot change.
        keep = functools.partial(object.__setattr__, self)
        keep("image", owned(pixels, image))
        keep("box", None if box is None else _box(box, shape))
        keep("seeds", None if seeds is None else owned(checked_seeds(seeds, shape), seeds))
        keep("extra", None if extra is None else owned(_extra(extra, shape), extra))
        if self.box is not None and self.seeds is not None:
            outside = np.ones(shape, bool)
            outside[self.box[0] : self.box[2], self.box[1] : self.box[3]] = False
            if (self.seeds[outside] > 0).any():
                raise InputError(
                    f"seeds mark an object outside of the box {self.box}, but only label 0 is "
                    "possible there. Enlarge the box, or remove the seed."
                )

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.image.shape[0], self.image.shape[1]

    def fixed(self) -> npt.NDArray[np.int16]:
        """Labels that the person has settled, (h, w) int16: -1 where the pixel is free."""
        fixed = np.full(self.shape, FREE, np.int16)
        if self.seeds is not None:
            fixed[:] = self.seeds
        if self.box is not None:
            top, left, bottom, right = self.box
            inside = fixed[top:bottom, left:right].copy()
            fixed[:] = 0
            fixed[top:bottom, left:right] = inside
        return fixed


def as_sample(image: Sample | Image.Image | npt.ArrayLike) -> Sample:
    """Take an image as a sample with nothing given; a sample stays itself.

    Parameters
    ----------
    image : Sample or array
        As for `as_image`.

    Returns
    -------
    Sample

    Examples
    --------
    >>> import numpy as np
    >>> from cutlearn.images import as_sample
    >>> as_sample(np.zeros((3, 4))).shape
    (3, 4)
    """
    return image if isinstance(image, Sample) else Sample(image)


def owned(array: npt.NDArray[Any], given: object) -> npt.NDArray[Any]:
    """A read-only array; copied if it shares memory that its giver could still change."""
    if isinstance(given, np.ndarray) and given.flags.writeable:
        array = array.copy() if np.may_share_memory(array, given) else array
    view = array.view()
    view.flags.writeable = False
    return view


def _box(box: Any, shape: tuple[int, int]) -> tuple[int, int, int, int]:
    values = as_array("box", box)
    whole = values.shape == (4,) and values.dtype.kind in "iuf" and bool((values % 1 == 0).all())
    if whole:
        top, left, bottom, right = (int(v) for v in values)
        if 0 <= top < bottom <= shape[0] and 0 <= left < right <= shape[1]:
            return top, left, bottom, right
    raise InputError(
        f"box is {quoted(box)}, but must be whole numbers (top, left, bottom, right) with "
        f"top < bottom and left < right, within {shape[0]} rows and {shape[1]} columns. "
        "Put rows before columns."
    )


def checked_seeds(seeds: Any, shape: tuple[int, ...]) -> npt.NDArray[np.int16]:
    """Check a person's marks; give them as int16 in the image's shape."""
    array = as_array("seeds", seeds)
    if array.shape != shape or array.dtype.kind != "i":
        raise InputError(
            f"seeds has shape {array.shape} and type {array.dtype}, but must be signed integers of "
            f"the image's shape {shape}. Use -1 where there is no seed."
        )
    low, high = int(array.min()), int(array.max())
    if low < FREE or high > 254:
        raise InputError(
            f"seeds has values from {low} to {high}, but must hold labels from 0 to 254 or -1. "
            "Use -1 where there is no seed."
        )
    return array.astype(np.int16)


def _extra(extra: Any, shape: tuple[int, int]) -> npt.NDArray[np.float32]:
    array = as_array("extra", extra)
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[:2] != shape or array.dtype.kind not in "fiub":
        raise InputError(
            f"extra has shape {np.shape(extra)} and type {array.dtype}, but must be numbers of "
            f"shape {(*shape, 'k')}. Put channels last."
        )
    with np.errstate(over="ignore"):  # told below, in words
        channels = np.ascontiguousarray(array, np.float32)
    if not np.isfinite(channels).all():
        raise InputError(
            "extra has NaN or infinite values, but must hold finite numbers. Clip the logits."
        )
    return channels
