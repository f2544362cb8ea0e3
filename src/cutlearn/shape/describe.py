"""Description of an image for a machine: x0 of superpixels for the labels, HOG for hidden layers.

x0 of a superpixel: histograms of dense descriptors (512 words, locality-constrained codes), of
colours (128 words) and of oriented boundary strength. The paper takes superpixels and boundaries
from gPb; here SLIC and gradient orientations at two scales stand for them. x1 and x2 are HOG.

A descriptor x is written as a combination of the few words nearest to it (locality-constrained
linear coding): the code a of K words B minimises |x - a'B|^2 under sum a = 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage, sparse

from cutlearn.arrays import Float32
from cutlearn.features.describe import lab
from cutlearn.features.edges import edge_features
from cutlearn.features.filters import blurred, orientations, reduced, whole
from cutlearn.images.resize import resize_image
from cutlearn.shape.frame import SCALE, Patches

ORIENTATIONS = 9
CELL = 8  # pixels of the working image a side of a HOG cell
SUPERPIXEL = 100  # pixels of the working image
CONNECTIVITY = 8
# Of dense descriptors: cells a side, pixels a side of a cell, pixels between descriptors.
CELLS, SIDE, STEP = 4, 4, 2
# Of codes: words nearest to a descriptor, and the regulariser of their coefficients.
NEAREST, RIDGE = 5, 1e-4
# Of k-means: rows at most, and steps.
MAX_ROWS, ROUNDS = 30_000, 15


@dataclass(frozen=True)
class MachineInput:
    """The features of an image.

    Parameters
    ----------
    x0 : (superpixels, F) float32
        The first column is 1.
    regions : (n,) int32
        The superpixel of every label.
    x1 : (patches, F1) float32
    x2 : (F2,) float32
        HOG of the patches and of the image, less their means over training images.
    edges : (m, G) float32 in [0, 1]
        Features of the edges between labels, in the order of `grid_edges`.
    """

    x0: Float32
    regions: NDArray[np.int32]
    x1: Float32
    x2: Float32
    edges: Float32


@dataclass(frozen=True)
class Describer:
    """Computes views of pictures at the working size.

    Parameters
    ----------
    patches : Patches
        Of the machine's first hidden layer: x1 is the HOG of each.
    words, colors : (k, 128), (l, 3) float32
    mean1, mean2 : (patches, F1), (F2,) float32
        Of the HOG of training pictures.
    """

    patches: Patches
    words: Float32
    colors: Float32
    mean1: Float32
    mean2: Float32

    @classmethod
    def fit(
        cls, pictures: Sequence[Float32], patches: Patches, counts: Sequence[int], seed: int
    ) -> "Describer":
        """Learn the means, and codebooks of `counts` descriptors and colours, of pictures."""
        some = [descriptors(_planes(picture))[0][::3].copy() for picture in pictures]
        words = learn_words(np.concatenate(some), counts[0], seed)
        pixels = np.concatenate([p[::2, ::2].reshape(-1, 3) for p in pictures])
        colors = learn_words(pixels, counts[1], seed)
        mean1 = np.mean([patch_hogs(picture, patches) for picture in pictures], axis=0)
        mean2 = np.mean([hog(picture).ravel() for picture in pictures], axis=0)
        return cls(patches, words, colors, mean1, mean2)

    def view(self, picture: Float32) -> MachineInput:
        """Describe a picture."""
        regions = superpixels(picture)
        centre = regions[SCALE // 2 :: SCALE, SCALE // 2 :: SCALE]
        x0 = self._histograms(picture, regions)
        small = resize_image(picture, self.patches.shape)
        return MachineInput(
            x0, centre.ravel().astype(np.int32), patch_hogs(picture, self.patches) - self.mean1,
            hog(picture).ravel() - self.mean2, edge_features(small, CONNECTIVITY),
        )  # fmt: skip

    def _histograms(self, picture: Float32, regions: NDArray[np.int32]) -> Float32:
        count = int(regions.max()) + 1
        made, (rows, columns) = descriptors(_planes(picture))
        near, share = codes(made, self.words)
        rows_of = np.repeat(regions[rows, columns], near.shape[1])
        texture = _table(rows_of, near.ravel(), share.ravel(), (count, len(self.words)))
        word = distances(picture.reshape(-1, 3), self.colors).argmin(axis=1)
        ones = np.ones(word.size, np.float32)
        color = _table(regions.ravel(), word, ones, (count, len(self.colors)))
        planes = whole(_planes(picture))
        edges = np.concatenate([orientations(blurred(planes, s)).all() for s in (1.0, 2.0)])
        size = np.bincount(regions.ravel(), minlength=count)
        strength = np.stack([
            np.bincount(regions.ravel(), plane.ravel(), minlength=count) / size for plane in edges
        ], axis=1)  # fmt: skip
        bias = np.ones((count, 1), np.float32)
        parts = [bias, _rooted(texture), _rooted(color), np.sqrt(10 * strength)]
        return np.concatenate(parts, axis=1).astype(np.float32)


def superpixels(picture: Float32) -> NDArray[np.int32]:
    """Return SLIC superpixels, numbered from 0 without gaps."""
    from skimage.segmentation import slic

    count = max(2, picture.shape[0] * picture.shape[1] // SUPERPIXEL)
    found = slic(picture, count, compactness=10.0, sigma=1.0, start_label=0)
    return np.unique(found, return_inverse=True)[1].reshape(found.shape).astype(np.int32)


def hog(picture: Float32) -> Float32:
    """Return histograms of oriented gradients of cells of 8 x 8 pixels.

    Each is divided by the root mean square of the nine cells around it, and clipped.

    Returns
    -------
    (9, rows, columns) float32
    """
    cells = reduced(orientations(whole(_planes(picture)), ORIENTATIONS), CELL)
    # The filter adds and takes away along a line, which can leave a trace below 0.
    energy = np.maximum(ndimage.uniform_filter((cells * cells).sum(axis=0), 3, mode="nearest"), 0)
    return np.asarray(np.minimum(cells / (np.sqrt(energy) + 0.007), 1.2), np.float32)


def patch_hogs(picture: Float32, patches: Patches) -> Float32:
    """Return the HOG of every patch of a picture, (patches, F1)."""
    (h, w) = (SCALE * side for side in patches.size)
    corners = [(SCALE * top, SCALE * left) for top, left in patches.corners]
    return np.stack([hog(picture[t : t + h, s : s + w]).ravel() for t, s in corners])


def _planes(picture: Float32) -> Float32:
    return np.ascontiguousarray(lab(picture))


def _table(
    rows: NDArray[np.int32], columns: NDArray[np.intp], weights: Float32, shape: tuple[int, int]
) -> Float32:
    flat = np.bincount(rows * shape[1] + columns, weights, minlength=shape[0] * shape[1])
    return flat.reshape(shape).astype(np.float32)


def _rooted(table: Float32) -> Float32:
    """Return signed square roots of histograms whose absolute values sum to 1."""
    total = np.abs(table).sum(axis=1, keepdims=True)
    return np.asarray(np.sign(table) * np.sqrt(np.abs(table) / np.maximum(total, 1e-6)), np.float32)


def descriptors(planes: Float32) -> tuple[Float32, tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Return dense descriptors: 4 x 4 cells of 8 orientations each, normalised and clipped.

    Parameters
    ----------
    planes : (c, h, w) float32

    Returns
    -------
    (k, 128) float32, and the rows and columns of their centres
    """
    _, h, w = planes.shape
    local = blurred(orientations(whole(planes)), SIDE / 2).all()
    rows, columns = (g.ravel() for g in np.mgrid[STEP // 2 : h : STEP, STEP // 2 : w : STEP])
    reach = CELLS * SIDE // 2
    wide = np.pad(local, ((0, 0), (reach, reach), (reach, reach)), mode="reflect")
    moves = [SIDE * k + SIDE // 2 for k in range(CELLS)]
    parts = [wide[:, rows + dy, columns + dx] for dy in moves for dx in moves]
    made = np.concatenate(parts).T
    for most in (0.2, np.inf):
        size = np.sqrt(np.einsum("ij,ij->i", made, made))[:, None]
        made = np.minimum(made / (size + np.float32(1e-3)), np.float32(most))
    return np.ascontiguousarray(made, np.float32), (rows, columns)


def learn_words(rows: Float32, count: int, seed: int) -> Float32:
    """Return a codebook by k-means, (count, d); all distinct rows where they are no more.

    Lloyd's steps as matrix products of fixed shapes: independent of the number of threads.
    """
    rng = np.random.default_rng([seed, 2])
    if len(rows) > MAX_ROWS:
        rows = rows[np.sort(rng.permutation(len(rows))[:MAX_ROWS])]
    distinct = np.unique(rows, axis=0)
    if len(distinct) <= count:
        return np.asarray(distinct, np.float32)
    words = distinct[rng.permutation(len(distinct))[:count]]
    for _ in range(ROUNDS):
        word = distances(rows, words).argmin(axis=1)
        size = np.bincount(word, minlength=count)
        member = sparse.csr_array((np.ones(len(rows), np.float32), (word, np.arange(len(rows)))),
                                  shape=(count, len(rows)))  # fmt: skip
        kept = size > 0  # a word that nobody uses stays
        words[kept] = (member @ rows)[kept] / size[kept, None].astype(np.float32)
    return words


def distances(rows: Float32, words: Float32) -> Float32:
    """Return squared distances, less the terms that are equal for all words of a row."""
    return np.asarray((words * words).sum(axis=1) - 2 * (rows @ words.T), np.float32)


def codes(rows: Float32, words: Float32) -> tuple[NDArray[np.intp], Float32]:
    """Return locality-constrained codes: indices (k, K) of words and their coefficients."""
    count = min(NEAREST, len(words))
    near = np.argpartition(distances(rows, words), count - 1, axis=1)[:, :count]
    near.sort(axis=1)
    away = words[near] - rows[:, None]
    gram = np.einsum("rik,rjk->rij", away, away).astype(np.float64)
    trace = np.einsum("rii->r", gram)
    gram += (RIDGE * trace + 1e-9)[:, None, None] * np.eye(count)
    solved = np.linalg.solve(gram, np.ones((len(rows), count, 1)))[..., 0]
    return near, (solved / solved.sum(axis=1, keepdims=True)).astype(np.float32)
