"""An image with its user input: the value at the start of the path of the data.

An image (or a volume: slices of one thing), a box and seeds come in; out comes `Sample` or
`Volume`, checked once and not changed afterwards. Coordinates are rows and columns, in pixels,
half-open, as everywhere in numpy: the box (top, left, bottom, right) is
image[top:bottom, left:right]. `Facts` decide whether a model fits an image.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from cutlearn.checks import as_array
from cutlearn.errors import InputError, quoted
from cutlearn.images.read import as_image
from cutlearn.loaded import Loaded

FREE = -1
# The share of pixels below the brightness that counts as that of an image: a few hot ones do not.
BRIGHT = 0.99
# Pixels along a side that are enough for the brightness and the presence of colour.
ENOUGH = 256
# Rows that are hashed at once.
BAND = 512
Spacing = tuple[float, float, float]


class Facts(NamedTuple):
    """Facts of one image, which a model keeps of its training images and compares with others.

    `color`: whether any pixel is not grey. `bright`: the brightness below which 99 % of its pixels
    lie, in [0, 1]. `digest`: a fingerprint of its pixels in [0, 1], the same for every lossless
    file of them. `depth`: slices of a volume; 1 for an image.
    """

    height: int
    width: int
    color: bool
    bright: float
    digest: str
    depth: int = 1


def facts_of(image: npt.NDArray[np.float32], digest: bool = True) -> Facts:
    """Return the facts of an image, (h, w) or (h, w, 3) in [0, 1]; `digest`: compute it.

    Examples
    --------
    >>> import numpy as np
    >>> from cutlearn.images.sample import facts_of
    >>> facts_of(np.full((2, 3), 0.5, np.float32))[:4]
    (2, 3, False, 0.5)
    """
    height, width = image.shape[:2]
    few = image[:: -(-height // ENOUGH), :: -(-width // ENOUGH)]
    color = few.ndim == 3 and bool((few != few[..., :1]).any())
    brightest = few if few.ndim == 2 else few.max(axis=-1)
    bright = round(float(np.quantile(brightest, BRIGHT)), 4)
    if not digest:
        return Facts(height, width, color, bright, "")
    # The fingerprint of all pixels; grey in three channels is grey.
    grey = image.ndim == 3 and bool((image == image[..., :1]).all())
    plane = image[..., 0] if grey else image
    whole = hashlib.blake2b(repr(plane.shape).encode(), digest_size=16)
    for top in range(0, len(plane), BAND):
        # A float has two zeros; in bands, a large image needs no second copy.
        whole.update(np.abs(plane[top : top + BAND]).tobytes())
    return Facts(height, width, color, bright, whole.hexdigest())


@dataclass(frozen=True, eq=False, init=False)
class Sample:
    """An image with its user input; accepted wherever an image is.

    Parameters
    ----------
    image : (h, w), (h, w, 3) or (h, w, 4) array
        As for `as_image`; kept in its canonical form, float32 in [0, 1].
    box : (top, left, bottom, right), optional
        Half-open, in pixels: every pixel outside of it is label 0.
    seeds : (h, w) integer array, optional
        Pixels that the user has marked: -1 where there is no mark, else the label.
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
        # The class is frozen for everybody else; what is kept is checked and cannot change.
        keep = functools.partial(object.__setattr__, self)
        keep("image", _owned(pixels, image))
        keep("box", None if box is None else _checked_box(box, pixels.shape))
        self._keep_marks(pixels.shape[:2], seeds, extra)
        if self.box is not None and self.seeds is not None:
            outside = np.ones(self.shape, bool)
            outside[self.box[0] : self.box[2], self.box[1] : self.box[3]] = False
            if (self.seeds[outside] > 0).any():
                raise InputError(
                    f"seeds mark an object outside of the box {self.box}, but only label 0 is "
                    "possible there. Enlarge the box, or remove the seed."
                )

    def _keep_marks(self, shape: tuple[int, ...], seeds: Any, extra: Any) -> None:
        keep = functools.partial(object.__setattr__, self)
        keep("seeds", None if seeds is None else _owned(checked_seeds(seeds, shape), seeds))
        keep("extra", None if extra is None else _owned(_checked_extra(extra, shape), extra))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.image.shape[0], self.image.shape[1]

    def fixed(self) -> npt.NDArray[np.int16]:
        """Return the labels that box and seeds fix, (h, w) int16: -1 where the pixel is free."""
        fixed = np.full(self.shape, FREE, np.int16)
        if self.seeds is not None:
            fixed[:] = self.seeds
        if self.box is not None:
            top, left, bottom, right = self.box
            inside = fixed[top:bottom, left:right].copy()
            fixed[:] = 0
            fixed[top:bottom, left:right] = inside
        return fixed

    def facts(self, digest: bool = True) -> Facts:
        """Return what decides whether a model fits the image."""
        return facts_of(self.image, digest)


class Volume(Sample):
    """A volume with its user input.

    Parameters
    ----------
    image : (d, h, w), (d, h, w, 3) or (d, h, w, 4) array
        Slices first; values as for `as_image`.
    spacing : (float, float, float)
        Distance of neighbouring slices, rows and columns, in any unit: (50, 5, 5) for sections of
        50 nm with pixels of 5 nm.
    seeds : (d, h, w) integer array, optional
        Voxels that the user has marked: -1 where there is no mark, else the label.
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
        array = as_array("volume", image)
        good = array.ndim == 3 or (array.ndim == 4 and array.shape[3] in (1, 3, 4))
        if not good or not array.size:
            raise InputError(
                f"volume: the array has shape {array.shape}, but must have (d, h, w), "
                "(d, h, w, 3) or (d, h, w, 4), with at least one voxel. Put slices first and "
                "channels last."
            )
        d, h, w = array.shape[:3]
        # One tall image: its values are checked and scaled as those of any other.
        flat = as_image(array.reshape(d * h, w, *array.shape[3:]), "volume")
        keep = functools.partial(object.__setattr__, self)
        keep("image", _owned(flat.reshape(d, h, *flat.shape[1:]), image))
        keep("spacing", checked_spacing(spacing))
        keep("box", None)
        self._keep_marks((d, h, w), seeds, extra)

    @property
    def shape(self) -> tuple[int, int, int]:  # type: ignore[override]
        """Slices, rows and columns."""
        return self.image.shape[0], self.image.shape[1], self.image.shape[2]

    def slices(self) -> list[Sample]:
        """Return every slice as an image."""
        return [Sample(self.image[z], None, *self._marks(z)) for z in range(self.shape[0])]

    def _marks(self, index: int | slice) -> tuple[Any, Any]:
        """Return the seeds and further channels of some slices."""
        return (
            None if self.seeds is None else self.seeds[index],
            None if self.extra is None else self.extra[index],
        )

    def part(self, first: int, last: int) -> Volume:
        """Return the slices first to last - 1 as a volume."""
        some = slice(first, last)
        return Volume(self.image[some], self.spacing, *self._marks(some))

    def facts(self, digest: bool = True) -> Facts:
        """Return what decides whether a model fits the volume."""
        d, h, w = self.shape
        flat = facts_of(self.image.reshape(d * h, w, *self.image.shape[3:]), digest)
        return flat._replace(height=h, width=w, depth=d)


def as_sample(image: Sample | Image.Image | npt.ArrayLike) -> Sample:
    """Return an image as a sample without user input; a sample stays itself.

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


def are_volumes(images: Sequence[Any]) -> bool:
    """Return whether images are volumes, which are never loaded lazily; refuse some of both."""
    if isinstance(images, Loaded):
        return False
    count = sum(isinstance(image, Volume) for image in images)
    if count not in (0, len(images)):
        raise InputError(
            f"images: {count} of {len(images)} are volumes, but either all or none must be. Give "
            "an image of its own as a volume of one slice: Volume(image[None])."
        )
    return count > 0


def of_slices(slices: Sequence[Sample], spacing: Spacing) -> Volume:
    """Return the volume of slices that are images, all with seeds or extra channels, or none."""
    seeds, extra = slices[0].seeds, slices[0].extra
    return Volume(
        np.stack([one.image for one in slices]),
        spacing,
        None if seeds is None else np.stack([one.seeds for one in slices if one.seeds is not None]),
        None if extra is None else np.stack([one.extra for one in slices if one.extra is not None]),
    )


def checked_spacing(spacing: Any) -> Spacing:
    """Return the distances of slices, rows and columns, checked."""
    given = as_array("spacing", spacing)
    if given.shape == (3,) and given.dtype.kind in "iuf":
        dz, dy, dx = (float(v) for v in given)
        if all(math.isfinite(v) and v > 0 for v in (dz, dy, dx)):
            return dz, dy, dx
    raise InputError(
        f"spacing is {quoted(spacing)}, but must be three numbers above 0: the distance of "
        "neighbouring slices, of rows and of columns. Use (50, 5, 5), say."
    )


def checked_seeds(seeds: Any, shape: tuple[int, ...]) -> npt.NDArray[np.int16]:
    """Return marks as int16, checked, in the image's shape."""
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


def _owned(array: npt.NDArray[Any], given: object) -> npt.NDArray[Any]:
    """Return a read-only array; a copy if it shares memory that its giver could still change."""
    if isinstance(given, np.ndarray) and given.flags.writeable:
        array = array.copy() if np.may_share_memory(array, given) else array
    view = array.view()
    view.flags.writeable = False
    return view


def _checked_box(box: Any, shape: tuple[int, ...]) -> tuple[int, int, int, int]:
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


def _checked_extra(extra: Any, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Return further channels as float32, channels last; one channel may go without its axis."""
    array = as_array("extra", extra)
    array = array[..., None] if array.ndim == len(shape) else array
    if array.shape[:-1] != shape or not array.shape[-1] or array.dtype.kind not in "fiub":
        raise InputError(
            f"extra has shape {np.shape(extra)} and type {array.dtype}, but must be numbers of "
            f"shape {(*shape, 'k')}. Put channels last."
        )
    with np.errstate(over="ignore"):  # refused below
        channels = np.ascontiguousarray(array, np.float32)
    if not np.isfinite(channels).all():
        raise InputError(
            "extra has NaN or infinite values, but must hold finite numbers. Clip the logits."
        )
    return channels
