"""Trees of several questions at once: the same splits for all, a value a question in each leaf.

In: rows of several images, their answers (0 or 1) to T questions. Out: `Trees` of T logits. The
core grows them (cpp/trees/grow.hpp has the formulas) from rows that are told by bins: between which
quantiles of all rows a number lies. One set of rows and bins serves all questions and all folds, so
T questions cost little more than one.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from cutlearn import _core
from cutlearn.features.boosted import Recipe
from cutlearn.features.filters import Float32
from cutlearn.features.trees import Trees
from cutlearn.run.executor import executor_of

Answers = npt.NDArray[np.uint8]
# Quantiles are those of about so many rows.
LOOKED_AT = 20_000


class Together:
    """Rows of some images as bins, and the trees that are grown on a part of the images.

    Parameters
    ----------
    answers : of every image (rows, T) uint8 of 0 and 1
    counts : of every image (T, 2) int, all its pixels with the answers 0 and 1
    recipe : Recipe
    """

    def __init__(
        self, answers: Sequence[Answers], counts: Sequence[npt.NDArray[np.int64]], recipe: Recipe
    ) -> None:
        self.answers, self.counts, self.recipe = answers, counts, recipe
        self.edges: list[Float32] = []
        self.bins: list[Answers] = []

    def add(self, rows: Sequence[Float32], threads: int = 1) -> None:
        """Take columns of every image's rows, (rows, f) float32, beside those there are.

        The bins' edges are quantiles over all images: of held-out ones they know numbers, but
        no answers.
        """
        whole, ends = np.concatenate(rows), np.cumsum([len(part) for part in rows])[:-1]
        table = np.empty((whole.shape[1], len(whole)), np.uint8)

        def bin_column(column: int) -> Float32:
            edges, table[column] = binned(whole, column)
            return edges

        self.edges += executor_of(threads).map(bin_column, range(whole.shape[1]))
        made = np.split(table, ends, axis=1)
        self.bins = [np.concatenate(pair) for pair in zip(self.bins, made)] or made

    def grow(self, images: Sequence[int], seed: int) -> Trees:
        """Boost trees on the rows of some images.

        Rows were drawn in equal parts from what answers there are, so the odds of all pixels come
        back as one shift of each question's logit.
        """
        recipe, columns = self.recipe, len(self.edges)
        answers = np.concatenate([self.answers[i] for i in images])
        count = np.sum([self.counts[i] for i in images], axis=0) + 1.0
        wanted = np.log(count[:, 1] / count[:, 0])
        if not len(answers):
            return Trees.constant(*wanted)
        ones = answers.sum(axis=0, dtype=np.int64)
        first = np.log((ones + 0.5) / (len(answers) - ones + 0.5))
        rng = np.random.default_rng([seed, 5])
        tried = max(1, round(recipe.share * columns))
        drawn = [np.sort(rng.permutation(columns)[:tried]) for _ in range(recipe.trees)]
        feature, split, left, right, value, roots = _core.grow_trees(
            np.concatenate([self.bins[i] for i in images], axis=1),
            answers,
            np.array(drawn, np.int32),
            first,
            recipe.leaves,
            max(1, min(recipe.min_leaf, len(answers) // 50)),
            recipe.rate,
            max(recipe.l2, 1e-3),
        )
        threshold = [self.edges[f][b] if f >= 0 else 0.0 for f, b in zip(feature, split)]
        return Trees(
            feature, np.array(threshold, np.float32), left, right, value, roots, wanted
        )  # fmt: skip


def grow_on(given: tuple[Together, Sequence[int], int]) -> Trees:
    """Grow trees on some images of a set of rows, with a seed."""
    rows, images, seed = given
    return rows.grow(images, seed)


def binned(rows: Float32, column: int) -> tuple[Float32, Answers]:
    """The bins of a column of (n, f) numbers: their upper ends but the last, and that of each.

    Equal ends are one. A bin is the number of ends below: x <= ends[b] where bin <= b, which is
    the comparison of a tree.
    """
    numbers = np.ascontiguousarray(rows[:, column])
    some = np.sort(numbers[:: max(1, len(numbers) // LOOKED_AT)])
    if not len(some):
        return np.zeros(1, np.float32), np.zeros(0, np.uint8)
    ends = np.unique(some[np.arange(1, _core.TREE_BINS) * len(some) // _core.TREE_BINS])
    return ends, np.searchsorted(ends, numbers).astype(np.uint8)
