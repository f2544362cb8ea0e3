"""What to annotate next: images, and windows in them, by the information of their labels.

The doubt of the model alone is no guide while few images are annotated: it is largest where nothing
can be learned, and an odd image teaches little about the others (docs/results/probabilities.md).
What counts is what labels tell of all images. Let the labels of window u tell those of window v if
the two are alike enough, K_uv > t_v, and else nothing, where nobody knows t_v: any value from 0 to
1 is as likely as any other. With

    K_uv = exp(-|c_u - c_v|^2 / (2 (R m)^2)),

c_u the mean node features of window u, m^2 the median square distance of all pairs and R = REACH,
the labels of a set A of windows have with those of all windows the mutual information

    I(A) = sum_v b_v max over u in A of K_uv,

for the nearest window of A passes t_v with just that probability. b_v is what there is to learn
about window v: its part of its image times DOUBTLESS + H_v, with H_v the mean entropy of its pixels
in bits, all of them brought to sum 1, so that clear sky is worth little however much there is of
it; a model without probabilities has its part of its image alone. I is the expected part of what is
open that is told. A begins with the images that the model was fitted on; then comes always the
image whose windows add most. What an image adds never grows while A does (I is submodular), so k
images in this order add at least 1 - 1/e of what the best k could.
"""

import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import Floats
from cutlearn.features.nodes import window_means, windows
from cutlearn.metrics import entropy

# How far labels reach, in units of the median distance.
REACH = 0.3
# What is open in a window that the model has no doubt of, in bits: it may be wrong all the same.
DOUBTLESS = 0.02
# Windows, evenly drawn, that tell the median distance.
MOST_WINDOWS = 1000


@dataclass(frozen=True)
class Window:
    """A part of an image, `image[top:bottom, left:right]`, and what its labels alone would add."""

    top: int
    bottom: int
    left: int
    right: int
    score: float

    def at(self, old: tuple[int, int], new: tuple[int, int]) -> "Window":
        """Give the window of an image of one shape in pixels of the same image at another."""
        down, across = new[0] / old[0], new[1] / old[1]
        top, bottom = round(self.top * down), round(self.bottom * down)
        left, right = round(self.left * across), round(self.right * across)
        return Window(top, bottom, left, right, self.score)


@dataclass(frozen=True)
class Ranked:
    """An image that is worth annotating.

    Attributes
    ----------
    image : int
        Its place in the list that was given.
    score : float
        What its labels add to I when its turn comes: the part of all images that they tell.
    windows : tuple of Window
        Its parts, the most telling first.
    """

    image: int
    score: float
    windows: tuple[Window, ...]

    def at(self, old: tuple[int, int], new: tuple[int, int]) -> "Ranked":
        """Give the image with its windows in pixels of another size, as `Window.at`."""
        return replace(self, windows=tuple(window.at(old, new) for window in self.windows))


@dataclass(frozen=True, eq=False)
class Described:
    """An image as it is ranked: its shape (h, w), c of its windows, (windows, F), and H of them."""

    shape: tuple[int, int]
    centers: Floats
    doubts: Floats | None = None


def describe(
    node_features: NDArray[np.floating],
    shape: tuple[int, int],
    probabilities: NDArray[np.floating] | None = None,
) -> Described:
    """Give the windows of an image from node features (h * w, F) and probabilities (h, w, L)."""
    doubts = None
    if probabilities is not None:
        doubts = window_means(entropy(probabilities).reshape(-1, 1), shape)[:, 0]
    return Described(shape, window_means(node_features, shape), doubts)


def worth(image: Described) -> Floats:
    """Give what there is to learn about every window of an image, b before it is brought to sum."""
    part = areas(image.shape)
    return part if image.doubts is None else part * (DOUBTLESS + image.doubts)


def rank(images: Sequence[Described], annotated: NDArray[np.floating]) -> list[Ranked]:
    """Order images by what their labels add to I, the most telling first.

    Parameters
    ----------
    images : sequence of Described
    annotated : (k, F)
        c of the windows that have been annotated.
    """
    n = len(images)
    centers = np.concatenate([image.centers for image in images])
    unit = REACH**2 * median_square(np.concatenate([annotated, centers]))
    weight = np.concatenate([worth(image) for image in images])
    weight /= weight.sum()
    # near[i, v] is the largest K of the windows of image i with v.
    near = np.stack([likeness(image.centers, centers, unit).max(axis=0) for image in images])
    covered = np.zeros(len(centers))
    for c in annotated:
        covered = np.maximum(covered, likeness(c[None], centers, unit)[0])

    def added(alike: Floats) -> float:
        return float(weight @ np.maximum(alike - covered, 0.0))

    # What an image added earlier is a bound of what it adds now, so few are asked again.
    heap = [(-added(near[i]), i) for i in range(n)]
    heapq.heapify(heap)
    ranked = []
    while heap:
        i = heap[0][1]
        score = added(near[i])
        if len(heap) > 1 and (-score, i) > min(heap[1:3]):
            heapq.heapreplace(heap, (-score, i))
            continue
        heapq.heappop(heap)
        alone = [added(alike) for alike in likeness(images[i].centers, centers, unit)]
        ranked.append(Ranked(i, score, _sorted(images[i].shape, alone)))
        covered = np.maximum(covered, near[i])
    return ranked


def median_square(centers: NDArray[np.floating]) -> float:
    """Give m^2, or 1 where all windows are the same."""
    drawn = centers[np.linspace(0, len(centers) - 1, min(len(centers), MOST_WINDOWS)).astype(int)]
    pairs = _squares(drawn, drawn)[np.triu_indices(len(drawn), 1)]
    return float(np.median(pairs)) or 1.0 if len(pairs) else 1.0


def likeness(
    some: NDArray[np.floating], others: NDArray[np.floating], unit: float
) -> NDArray[np.float64]:
    """Give K of all pairs, for unit = (R m)^2."""
    return np.asarray(np.exp(-_squares(some, others) / (2 * unit)))


def areas(shape: tuple[int, int]) -> Floats:
    """Give the part of its image that every window has; they sum to 1."""
    rows, columns = windows(shape)
    return np.asarray(np.outer(np.diff(rows), np.diff(columns)).ravel() / (shape[0] * shape[1]))


def _squares(some: NDArray[np.floating], others: NDArray[np.floating]) -> Floats:
    a, b = np.asarray(some, np.float64), np.asarray(others, np.float64)
    square = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T
    return np.asarray(np.maximum(square, 0.0))


def _sorted(shape: tuple[int, int], scores: Sequence[float]) -> tuple[Window, ...]:
    """The windows of an image, the most telling first."""
    rows, columns = (ends.tolist() for ends in windows(shape))
    places = [
        (top, bottom, left, right)
        for top, bottom in itertools.pairwise(rows)
        for left, right in itertools.pairwise(columns)
    ]
    found = [Window(*place, score) for place, score in zip(places, scores)]
    return tuple(sorted(found, key=lambda window: -window.score))
