"""What to annotate next: images, and windows in them, by what their labels would tell.

A pixel whose calibrated probabilities are q tells -sum_k q_k log2 q_k bits when its label becomes
known, if it told nothing of others. Neighbours do, so an image is worth its mean a pixel, not its
sum: large images would win otherwise. Images that resemble one already ranked are worth less:

    worth_i = entropy_i * min over ranked j of (1 - exp(-|c_i - c_j|^2 / (2 m^2)))

with c_i the mean of the node features where image i is in doubt (weighted by entropy), and m the
median distance of all pairs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Window:
    """A part of an image, `image[top:bottom, left:right]`, with its bits a pixel."""

    top: int
    bottom: int
    left: int
    right: int
    score: float


@dataclass(frozen=True)
class Ranked:
    """An image that is worth annotating.

    Attributes
    ----------
    image : int
        Its place in the list that was given.
    score : float
        Its worth when its turn came.
    entropy : float
        Its bits a pixel.
    windows : tuple of Window
        Its parts, the most telling first.
    """

    image: int
    score: float
    entropy: float
    windows: tuple[Window, ...]


@dataclass(frozen=True, eq=False)
class Doubt:
    """What one image is ranked by: bits of every pixel, (h, w), and c of the node features."""

    bits: Floats
    center: Floats


def entropy(probabilities: ArrayLike) -> Floats:
    """Give the entropy of every pixel in bits: 0 is sure, 1 is a fair coin.

    Examples
    --------
    >>> from cutlearn.model.rank import entropy
    >>> entropy([[0.5, 0.5], [1.0, 0.0]]).tolist()
    [1.0, 0.0]
    """
    q = np.asarray(probabilities, np.float64)
    return np.asarray(-(q * np.log2(np.where(q > 0, q, 1.0))).sum(axis=-1)) + 0.0


def doubt_of(probabilities: Floats, node_features: NDArray[np.floating]) -> Doubt:
    """Give the doubt of an image from its probabilities (h, w, L) and node features (h * w, F)."""
    bits = entropy(probabilities)
    weight = bits.ravel() + 1e-9
    return Doubt(bits, np.asarray(weight @ node_features / weight.sum(), np.float64))


def rank(doubts: Sequence[Doubt], window: int) -> list[Ranked]:
    """Order images by worth, the most telling first.

    Parameters
    ----------
    doubts : sequence of Doubt, one for each image
    window : int
        The side of the windows, pixels; the last of a row or column may be smaller.
    """
    bits = np.array([doubt.bits.mean() for doubt in doubts])
    centers = np.stack([doubt.center for doubt in doubts])
    square = ((centers[:, None] - centers[None]) ** 2).sum(axis=-1)
    pairs = square[np.triu_indices(len(doubts), 1)]
    unit = float(np.median(pairs)) if len(pairs) else 0.0
    new = np.ones(len(doubts))
    left = np.ones(len(doubts), bool)
    ranked = []
    for _ in doubts:
        worth = np.where(left, bits * new, -1.0)
        i = int(np.argmax(worth))
        left[i] = False
        windows = windows_of(doubts[i].bits, window)
        ranked.append(Ranked(i, float(worth[i]), float(bits[i]), windows))
        if unit:
            new = np.minimum(new, -np.expm1(-square[i] / (2 * unit)))
    return ranked


def windows_of(bits: Floats, side: int) -> tuple[Window, ...]:
    """Cut an image into windows, the most telling first."""
    h, w = bits.shape
    found = []
    for top in range(0, h, side):
        for left in range(0, w, side):
            bottom, right = min(top + side, h), min(left + side, w)
            score = float(bits[top:bottom, left:right].mean())
            found.append(Window(top, bottom, left, right, score))
    return tuple(sorted(found, key=lambda part: -part.score))
