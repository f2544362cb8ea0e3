"""Superpixels: maps of connected regions of similar colour, for envelopes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.arrays import AnyArray, Float32
from cutlearn.checks import real_number
from cutlearn.errors import InputError, quoted

KINDS = ("slic", "felzenszwalb")
# Mean number of pixels of a superpixel: about 1200 regions on 640 x 480, as gould2011 used.
SIZE = 256
MOST_SIZE, MOST_FAMILIES = 1e9, 16
# Felzenszwalb's scale for a wanted mean size depends on the image: it is looked for between these
# multiples of the size, in so many steps, to within this factor.
SCALES = (1e-3, 4.0)
TRIES, NEAR = 6, 1.25


def superpixels(image: ArrayLike, kind: str = "slic", size: float = SIZE) -> NDArray[np.int32]:
    """Return a label map of superpixels of about this many pixels, numbered from 0.

    Parameters
    ----------
    image : (h, w) or (h, w, 3) array
        As for `cutlearn.images.as_image`; colours count as the eye sees them.
    kind : "slic" (compact and even) or "felzenszwalb" (follows what is uniform, sizes vary)
    size : number >= 1

    Examples
    --------
    >>> import numpy as np
    >>> from cutlearn.features.superpixels import (superpixels)
    >>> superpixels(np.zeros((20, 30)), size=100).max() + 1
    np.int32(6)
    """
    from cutlearn.images.read import as_image  # Pillow, which `import cutlearn` can do without

    checked_families([(kind, size)])
    picture = as_image(image)
    colour = picture.ndim == 3
    if not colour:
        picture = picture[..., None]
    wanted = max(1, round(picture.shape[0] * picture.shape[1] / size))
    if kind == "slic":
        from skimage.segmentation import slic

        # In double, as the features: colours that differ in the last bit would move borders.
        found = slic(
            picture.astype(np.float64), n_segments=wanted, compactness=10 if colour else 0.1,
            convert2lab=colour, start_label=0,
        )  # fmt: skip
    else:
        found = _felzenszwalb(picture, size)
    _, numbered = np.unique(found, return_inverse=True)
    return numbered.reshape(picture.shape[:2]).astype(np.int32)


def _felzenszwalb(picture: Float32, size: float) -> AnyArray:
    from skimage.segmentation import felzenszwalb

    low, high = (factor * size for factor in SCALES)
    for _ in range(TRIES):
        scale = (low * high) ** 0.5
        found = felzenszwalb(picture, scale=scale, sigma=0.8, min_size=max(1, round(size / 4)))
        mean = found.size / (found.max() + 1)
        if size / NEAR <= mean <= size * NEAR:
            break
        low, high = (scale, high) if mean < size else (low, scale)
    return np.asarray(found)


def checked_families(families: Sequence[Any]) -> list[tuple[str, float]]:
    """Check pairs of a kind and a size of superpixels."""
    if not isinstance(families, list | tuple) or len(families) > MOST_FAMILIES:
        raise InputError(
            f"superpixels must be a list of at most {MOST_FAMILIES} pairs of a kind and a size, "
            f"such as [('slic', {SIZE})], not {quoted(families)}."
        )
    for family in families:
        paired = isinstance(family, list | tuple) and len(family) == 2
        kind, size = family if paired else (None, None)
        if not isinstance(kind, str) or kind not in KINDS:
            raise InputError(
                f"superpixels must be pairs of a kind (one of {KINDS}) and a size, such as "
                f"('slic', {SIZE}), not {quoted(family)}."
            )
        real_number("superpixels: size", size, 1, MOST_SIZE)
    return [(kind, size) for kind, size in families]
