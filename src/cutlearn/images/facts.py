"""What of an image decides whether a model fits it: size, colour, brightness, and a fingerprint.

A model keeps the facts of its training images, a few bytes each, and compares those of others with
them: an image twice as large, in colour instead of grey, or ten times as dark is another world to
its features, and an image that it was fitted on proves nothing in an evaluation.
"""

import hashlib
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

# The part of pixels below the brightness that counts as that of an image: a few hot ones do not.
BRIGHT = 0.99
# Pixels along a side that are enough to see the brightness and whether there is colour.
ENOUGH = 256
# Rows that are hashed at once.
BAND = 512


class Facts(NamedTuple):
    """Facts of one image.

    Parameters
    ----------
    height, width : int
    color : bool
        Whether any pixel is not grey.
    bright : float
        The brightness below which 99 % of its pixels lie, in [0, 1].
    digest : str
        A fingerprint of its pixels in [0, 1], the same for every lossless file of them.
    depth : int
        Slices of a volume; 1 for an image.
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
    >>> from cutlearn.images.facts import facts_of
    >>> facts_of(np.full((2, 3), 0.5, np.float32))[:4]
    (2, 3, False, 0.5)
    """
    height, width = image.shape[:2]
    few = image[:: -(-height // ENOUGH), :: -(-width // ENOUGH)]
    color = few.ndim == 3 and bool((few != few[..., :1]).any())
    grey = few if few.ndim == 2 else few.max(axis=-1)
    bright = round(float(np.quantile(grey, BRIGHT)), 4)
    return Facts(height, width, color, bright, _digest(image) if digest else "")


def _digest(image: npt.NDArray[np.float32]) -> str:
    """Return the fingerprint of all pixels; grey in three channels is grey."""
    grey = image.ndim == 3 and bool((image == image[..., :1]).all())
    plane = image[..., 0] if grey else image
    whole = hashlib.blake2b(repr(plane.shape).encode(), digest_size=16)
    for top in range(0, len(plane), BAND):
        # A float has two zeros; in bands, a large image needs no second copy.
        whole.update(np.abs(plane[top : top + BAND]).tobytes())
    return whole.hexdigest()
