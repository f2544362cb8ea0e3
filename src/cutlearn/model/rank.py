"""What to annotate next: images, and windows in them, by the information of their labels.

The entropy of an image alone is no guide: it counts doubt that no annotation removes, and an odd
image teaches little about the others. What counts is what its labels tell of all images. Image j
is in doubt by B_j bits a pixel (the entropy of its calibrated probabilities). Let the labels of
image i settle image j if the two are alike enough, K_ij > u_j, and else tell nothing of it, where
nobody knows u_j: any value from 0 to 1 is as likely as any other. With

    K_ij = exp(-|c_i - c_j|^2 / (2 m^2))

c_i the mean of the node features of image i, and m^2 the median square distance of all pairs, the
labels of a set A of images have with those of all n images the mutual information

    I(A) = sum_j B_j max over i in A of K_ij,

since the reach u_j is passed by the nearest image of A with just that probability. A begins with
the images that the model was fitted on; then comes always the image that adds most to I. What an
image adds never grows while A does (I is submodular), so k images taken in this order add at least
1 - 1/e of what the best k could add. A window has the part of its image's score that it has of the
image's bits.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Window:
    """A part of an image, `image[top:bottom, left:right]`, and what its labels would tell.

    The mean score of the pixels of all windows of an image is the score of the image.
    """

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
        What its labels add to I / n when its turn comes: bits a pixel, mean over all images.
    entropy : float
        Its own doubt B, bits a pixel.
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
    return Doubt(entropy(probabilities), node_features.mean(axis=0, dtype=np.float64))


def rank(doubts: Sequence[Doubt], annotated: Floats, window: int) -> list[Ranked]:
    """Order images by what their labels add to I, the most telling first.

    Parameters
    ----------
    doubts : sequence of Doubt, one for each image
    annotated : (k, F)
        c of the images that have been annotated.
    window : int
        The side of the windows, pixels; the last of a row or column may be smaller.
    """
    bits = np.array([doubt.bits.mean() for doubt in doubts])
    near = likeness(np.concatenate([annotated, np.stack([doubt.center for doubt in doubts])]))
    k, n = len(annotated), len(doubts)
    settled = near[:k, k:].max(axis=0, initial=0.0)
    near = near[k:, k:]

    def added(i: int) -> float:
        return float(bits @ np.maximum(near[i] - settled, 0.0)) / n

    # What an image added earlier is a bound of what it adds now, so few are asked again.
    heap = [(-added(i), i) for i in range(n)]
    heapq.heapify(heap)
    ranked = []
    while heap:
        _, i = heap[0]
        score = added(i)
        if len(heap) > 1 and (-score, i) > min(heap[1:3]):
            heapq.heapreplace(heap, (-score, i))
            continue
        heapq.heappop(heap)
        settled = np.maximum(settled, near[i])
        ranked.append(Ranked(i, score, float(bits[i]), windows_of(doubts[i].bits, score, window)))
    return ranked


def likeness(centers: Floats) -> Floats:
    """Give K of all pairs; without any distance all are alike."""
    norm = (centers**2).sum(axis=1)
    square = np.maximum(norm[:, None] + norm - 2 * centers @ centers.T, 0.0)
    np.fill_diagonal(square, 0.0)
    pairs = square[np.triu_indices(len(centers), 1)]
    unit = float(np.median(pairs)) if len(pairs) else 0.0
    return np.asarray(np.exp(-square / (2 * unit or 1.0)))


def windows_of(bits: Floats, score: float, side: int) -> tuple[Window, ...]:
    """Cut an image into windows that share its score by their bits, the most telling first."""
    h, w = bits.shape
    scale = score / (float(bits.mean()) or 1.0)
    found = []
    for top in range(0, h, side):
        for left in range(0, w, side):
            bottom, right = min(top + side, h), min(left + side, w)
            part = float(bits[top:bottom, left:right].mean()) * scale
            found.append(Window(top, bottom, left, right, part))
    return tuple(sorted(found, key=lambda part: -part.score))
