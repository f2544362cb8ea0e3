"""Windows of an image: nearly square parts by which images are compared and ranked.

In: the shape of an image and its features, pixel by pixel. Out: where the windows lie, and the mean
features of each.
"""

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import Floats

# Windows along the shorter side of an image, and at most along the longer one.
SHORTER, LONGER = 4, 16


def windows(shape: tuple[int, int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give the rows and the columns at which windows begin, and as last the image's end.

    Examples
    --------
    >>> from cutlearn.features.windows import windows
    >>> [ends.tolist() for ends in windows((40, 60))]
    [[0, 10, 20, 30, 40], [0, 10, 20, 30, 40, 50, 60]]
    """
    side = max(min(shape) / SHORTER, max(shape) / LONGER, 1.0)
    counts = [max(round(n / side), 1) for n in shape]
    rows, columns = (np.arange(k + 1) * n // k for n, k in zip(shape, counts))
    return rows, columns


def window_means(features: NDArray[np.floating], shape: tuple[int, int]) -> Floats:
    """Give the mean features of every window, row by row, (windows, F).

    Parameters
    ----------
    features : (h * w, F), row-major
    shape : h, w
    """
    rows, columns = windows(shape)
    grid = features.reshape(*shape, -1)
    down = np.add.reduceat(grid, rows[:-1], axis=0, dtype=np.float64)
    sums = np.add.reduceat(down, columns[:-1], axis=1)
    means = sums / np.outer(np.diff(rows), np.diff(columns))[..., None]
    return np.asarray(means.reshape(-1, grid.shape[2]))
