"""The general loss of pletscher2012, eq. 10 and 11: the highest of lines with their own slopes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cutlearn.arrays import Bits, Mask
from cutlearn.checks import finite, float_array
from cutlearn.errors import InputError
from cutlearn.learn.losses import BoundLoss, Loss, check_pieces

# How far from 0 the true labels may cost, as a part of the largest constant or slope.
ROUNDING = 1e-9


class UpperEnvelope(Loss):
    """The highest of several lines: Delta(y) = max_q (constants[q] + sum_i slopes[q, i] y_i).

    The count is such a loss with slopes +1 and -1 everywhere; here every line weighs every node as
    it likes. Each line takes a cut with shifted unaries, so that training stays exact. Two labels.

    Parameters
    ----------
    constants : sequence of (Q,) arrays
        One array for each image, in the order of the images.
    slopes : sequence of (Q, n) arrays
        One value for each line and node of the image; void nodes do not count. The true labels
        must cost nothing.

    Examples
    --------
    Missing a node costs twice as much as a false one, all of them together:

    >>> import numpy as np
    >>> from cutlearn_papers.upper_envelope import UpperEnvelope
    >>> truth = np.array([0, 1, 1], np.uint8)
    >>> missing, false = np.where(truth == 1, -2.0, 0.0), np.where(truth == 0, 1.0, 0.0)
    >>> loss = UpperEnvelope([[2.0 * truth.sum(), 0.0]], [np.stack([missing, false])])
    >>> bound = loss.bind(0, truth, np.ones(3, bool), 2)
    >>> [bound.value(y) for y in ([0, 1, 1], [0, 0, 1], [1, 1, 1])]
    [0.0, 2.0, 1.0]
    """

    def __init__(self, constants: Sequence[ArrayLike], slopes: Sequence[ArrayLike]) -> None:
        self.constants, self.slopes = constants, slopes
        both: tuple[tuple[str, Any], ...] = (("constants", constants), ("slopes", slopes))
        for name, given in both:
            if not isinstance(given, Sequence | np.ndarray) or isinstance(given, str):
                raise InputError(
                    f"{name} must be a list of arrays, one for each image, not "
                    f"{type(given).__name__}."
                )
        if len(constants) != len(slopes):
            raise InputError(
                f"constants are given for {len(constants)} images, but slopes for {len(slopes)}. "
                "Give both for every image."
            )

    def bind(self, image: int, labels: Mask, counted: Bits, n_labels: int) -> BoundLoss:
        """Bind to one image: a piece for each line."""
        if n_labels != 2:
            raise InputError(
                f"loss: UpperEnvelope is for two labels, but there are {n_labels}. Use Hamming, "
                "Absolute, Count or LabelCount."
            )
        if image >= len(self.slopes):
            raise InputError(
                f"slopes has {len(self.slopes)} arrays, but none for image {image}. Give one for "
                "each image, in the order of the images."
            )
        base = finite("constants", float_array("constants", self.constants[image]))
        slopes = finite("slopes", float_array("slopes", self.slopes[image]))
        if base.ndim != 1 or base.size == 0 or slopes.shape != (base.size, labels.size):
            raise InputError(
                f"slopes[{image}] has shape {slopes.shape} and constants[{image}] {base.shape}, "
                f"but (Q, {labels.size}) and (Q,) are needed: a value for each line and node."
            )
        check_pieces(base.size)
        slopes = np.where(counted, slopes, 0.0)
        at_truth = base + slopes @ (labels > 0)
        size = max(float(np.abs(base).max()), float(np.abs(slopes).max()))
        if abs(float(at_truth.max())) > ROUNDING * size * max(labels.size, 1):
            raise InputError(
                f"the lines of image {image} give {at_truth.max():g} for the true labels, but "
                "these must cost nothing. Shift the constants."
            )
        # Rounding must not make the true labels cost anything.
        base = base - at_truth.max()
        largest = float((base + np.maximum(slopes, 0).sum(axis=1)).max())
        return BoundLoss(-base, -slopes, max(largest, 0.0))
