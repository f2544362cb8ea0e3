"""How far areas are off: true and predicted masks in, the error of their pixel counts out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy.typing as npt

from cutlearn.arrays import VOID
from cutlearn.metrics.masks import confusions, mean_known


def count_error(
    truths: Sequence[npt.ArrayLike],
    predictions: Sequence[npt.ArrayLike],
    label: int = 1,
    relative: bool = False,
    void: int = VOID,
) -> float:
    """Mean over images of |predicted area - true area|, in pixels or as a part of the true area.

    Examples
    --------
    >>> from cutlearn.metrics import count_error
    >>> count_error([[[0, 1, 1]]], [[[0, 0, 1]]], relative=True)
    0.5
    """
    tables = confusions(truths, predictions, None, void)
    return mean_known(t.count_error(label, relative) for t in tables if t.n_pixels)
