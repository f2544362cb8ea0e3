"""Images as colours for a screen, and masks painted over them.

Hits are green, extra pixels orange, missed ones blue.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cutlearn.arrays import VOID
from cutlearn.images.write import PALETTE

Picture = npt.NDArray[np.float64]

HIT, EXTRA, MISSED, UNKNOWN = (0, 158, 115), (230, 110, 0), (60, 140, 230), (128, 128, 128)
COLORS = {"hit": HIT, "extra": EXTRA, "missed": MISSED}
# How strongly a colour covers the image: right pixels stay see-through, wrong ones stand out.
COVER = {"hit": 0.45, "extra": 0.85, "missed": 0.85}


def rgb(image: npt.NDArray[Any]) -> Picture:
    """Give an image as colours for a screen, with its own darkest and brightest values.

    Parameters
    ----------
    image : (h, w) or (h, w, 3) array

    Returns
    -------
    (h, w, 3) float64 array in [0, 1]
    """
    values = np.asarray(image, np.float64)
    # A few hot pixels must not darken all others.
    low, high = np.quantile(values, [0.002, 0.998])
    values = np.clip((values - low) / max(high - low, 1e-9), 0, 1)
    return np.repeat(values[..., None], 3, axis=2) if values.ndim == 2 else values[..., :3]


def borders_over(
    image: npt.NDArray[Any], mask: npt.NDArray[Any], numbers: npt.NDArray[Any] | None = None
) -> Picture:
    """Draw the borders of the labels of a mask over an image, each label in its own colour.

    Parameters
    ----------
    image : (h, w) or (h, w, 3) array
    mask : (h, w) labels, 0 for the background
    numbers : (h, w) integers, optional
        The map of objects: borders are those of objects, also where two objects touch. Pixels of
        no object are tinted, without a border.

    Returns
    -------
    (h, w, 3) float64 array in [0, 1]
    """
    painted = rgb(image)
    parts = mask if numbers is None else numbers
    padded, inner = np.pad(parts, 1, mode="edge"), np.ones(mask.shape, bool)
    for rows, columns in ((0, 1), (2, 1), (1, 0), (1, 2)):
        inner &= padded[rows:, columns:][: mask.shape[0], : mask.shape[1]] == parts
    inner |= parts == 0
    for label in np.unique(mask[mask > 0]):
        where, color = mask == label, np.array(PALETTE[1 + (int(label) - 1) % 7]) / 255
        painted[where & inner] = 0.75 * painted[where & inner] + 0.25 * color
        painted[where & ~inner] = color
    return painted


def labels_over(
    image: Picture, labels: npt.NDArray[Any], colors: Sequence[tuple[int, int, int]]
) -> Picture:
    """Paint every label over an image in its colour.

    Parameters
    ----------
    image : (h, w, 3) float array in [0, 1]
    labels : (h, w) labels
        Void pixels are greyed.
    colors : of every label, in red, green and blue up to 255

    Returns
    -------
    (h, w, 3) float64 array in [0, 1]
    """
    painted = np.array(image, np.float64)
    for label in np.unique(labels):
        color = UNKNOWN if label == VOID else colors[int(label)]
        where = labels == label
        painted[where] = 0.35 * painted[where] + 0.65 * np.array(color) / 255
    return painted


def errors_over(
    image: Picture, truth: npt.NDArray[Any], predicted: npt.NDArray[Any], label: int = 1
) -> Picture:
    """Paint right, extra and missed pixels of a label over an image.

    Parameters
    ----------
    image : (h, w, 3) float array in [0, 1]
    truth, predicted : (h, w) arrays
        Void pixels of the truth are greyed.

    Returns
    -------
    (h, w, 3) float64 array in [0, 1]
    """
    kept = truth != VOID
    true, found = kept & (truth == label), kept & (predicted == label)
    painted = np.array(image, np.float64)
    kinds = {"hit": true & found, "extra": found & ~true, "missed": true & ~found}
    for kind, where in kinds.items():
        color = np.array(COLORS[kind]) / 255
        painted[where] = (1 - COVER[kind]) * painted[where] + COVER[kind] * color
    painted[~kept] = 0.5 * painted[~kept] + 0.5 * np.array(UNKNOWN) / 255
    return painted
