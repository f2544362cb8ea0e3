"""A simulated user: true masks in; the box, and stroke by stroke the seeds, out.

It draws a box with some room around the object, then always marks the middle of the largest part
that is wrong.
"""

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import VOID, Mask

Seeds = NDArray[np.int16]
Box = tuple[int, int, int, int]
# Radius of a stroke, of the diagonal of the image, at most; a part that is narrower gets less.
RADIUS = 0.015


def drawn_box(truth: Mask, room: float | NDArray[np.float64] = 0.05) -> Box:
    """Return a box around label 1; void pixels do not count.

    Parameters
    ----------
    truth : (h, w) labels; 255 is void
    room : float, or one for top, left, bottom, right
        What is left free on every side, in parts of the object's own height or width.

    Examples
    --------
    >>> import numpy as np
    >>> from simulated_user import drawn_box
    >>> truth = np.zeros((30, 40), np.uint8)
    >>> truth[10:20, 10:30] = 1
    >>> drawn_box(truth, 0.1)
    (9, 8, 21, 32)
    """
    rows, columns = (np.flatnonzero((truth == 1).any(axis=axis)) for axis in (1, 0))
    tall, wide = rows[-1] + 1 - rows[0], columns[-1] + 1 - columns[0]
    free = np.rint(np.broadcast_to(room, 4) * [tall, wide, tall, wide]).astype(int)
    h, w = truth.shape
    return (
        max(0, int(rows[0] - free[0])), max(0, int(columns[0] - free[1])),
        min(h, int(rows[-1] + 1 + free[2])), min(w, int(columns[-1] + 1 + free[3])),
    )  # fmt: skip


def next_stroke(truth: Mask, labels: NDArray[np.uint8], seeds: Seeds) -> Seeds:
    """Return the seeds with one stroke more: a disc in the middle of the largest wrong part.

    The middle is the pixel farthest from where the part ends; the disc stays within the part. If
    nothing is wrong, the seeds come back as they are.

    Parameters
    ----------
    truth : (h, w) labels; 255 is void
    labels : (h, w) labels as they are now
    seeds : (h, w) int16, -1 where there is none
    """
    from scipy import ndimage

    wrong = (labels != truth) & (truth != VOID)
    parts, count = ndimage.label(wrong)
    if count == 0:
        return seeds
    largest = 1 + int(np.bincount(parts.ravel())[1:].argmax())
    inside = parts == largest
    depth = ndimage.distance_transform_edt(np.pad(inside, 1))[1:-1, 1:-1]
    row, column = np.unravel_index(int(depth.argmax()), depth.shape)
    radius = min(max(1.0, float(depth.max()) - 1), max(1.0, RADIUS * np.hypot(*truth.shape)))
    y, x = np.ogrid[: truth.shape[0], : truth.shape[1]]
    disc = (y - row) ** 2 + (x - column) ** 2 <= radius**2
    # A part may be wrong in several labels: each pixel of the stroke has its own.
    return np.where(disc & inside, truth, seeds).astype(np.int16)
