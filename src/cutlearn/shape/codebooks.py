"""Codebooks: descriptors and colours become words, and words histograms.

A descriptor x is written as a combination of the few words nearest to it (locality-constrained
linear coding): the code a of K words B minimises |x - a'B|^2 under sum a = 1.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from cutlearn.features.filters import blurred, orientations
from cutlearn.features.planes import whole

Float32 = NDArray[np.float32]
NEAREST = 5
RIDGE = 1e-4
MOST_ROWS = 30_000
ROUNDS = 15
CELLS = 4  # a descriptor has so many cells a side
SIDE = 4  # pixels a side of a cell
STEP = 2  # pixels between descriptors


def descriptors(planes: Float32) -> tuple[Float32, tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Dense descriptors: 4 x 4 cells of 8 orientations each, normalised, clipped, normalised.

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
    """A codebook by k-means, (count, d) float32; all distinct rows where they are no more.

    Lloyd's steps as matrix products of fixed shapes: independent of the number of threads.
    """
    rng = np.random.default_rng([seed, 2])
    if len(rows) > MOST_ROWS:
        rows = rows[np.sort(rng.permutation(len(rows))[:MOST_ROWS])]
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
    """Squared distances less what is the same for all words of a row."""
    return np.asarray((words * words).sum(axis=1) - 2 * (rows @ words.T), np.float32)


def codes(rows: Float32, words: Float32) -> tuple[NDArray[np.intp], Float32]:
    """The locality-constrained codes: indices (k, K) of words and their coefficients (k, K)."""
    count = min(NEAREST, len(words))
    near = np.argpartition(distances(rows, words), count - 1, axis=1)[:, :count]
    near.sort(axis=1)
    away = words[near] - rows[:, None]
    gram = np.einsum("rik,rjk->rij", away, away).astype(np.float64)
    trace = np.einsum("rii->r", gram)
    gram += (RIDGE * trace + 1e-9)[:, None, None] * np.eye(count)
    solved = np.linalg.solve(gram, np.ones((len(rows), count, 1)))[..., 0]
    return near, (solved / solved.sum(axis=1, keepdims=True)).astype(np.float32)
