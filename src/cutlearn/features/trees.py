"""A tree ensemble as plain arrays, grown and evaluated by the core.

logit(x) = baseline + sum over trees of the value of the leaf that x falls into; an ensemble of T
questions has T values a leaf, and T logits. Missing values are refused where columns are made.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from cutlearn import _core
from cutlearn.arrays import AnyArray, Float32, Floats, Indices, Mask
from cutlearn.checks import real_number, whole_number
from cutlearn.errors import InputError
from cutlearn.features.columns import Columns, Stack, describe
from cutlearn.features.describe import Bank
from cutlearn.features.filters import enlarge
from cutlearn.run.executor import executor_of

# What a recipe may ask for; a model file may say anything.
RECIPE_COUNTS = {
    "trees": (1, 100_000), "leaves": (2, 65_536), "min_leaf": (1, 10**9), "rows": (2, 10**9),
    "folds": (2, 1000), "stages": (1, 8), "copies": (0, 64), "step": (1, 256),
}  # fmt: skip
RECIPE_NUMBERS = {"rate": (1e-9, 1e3), "l2": (0.0, 1e12), "share": (1e-9, 1.0)}


@dataclass(frozen=True)
class Recipe:
    """How trees are grown; the figures of docs/decisions/0030-one-kind-of-trees.md.

    Attributes
    ----------
    trees, rate, leaves, min_leaf, l2, share : boosting
        Number of trees, learning rate, leaves a tree, rows a leaf, ridge on leaf values and share
        of the columns that are drawn for each tree.
    rows : int
        Rows drawn from all images together.
    folds : int
        Parts of the images; at most one for each group.
    stages : int
        1, or 2 with auto-context.
    copies : int
        Turned and contrast-jittered copies of each image that join the training.
    step : int
        Trees look at every step-th pixel along both axes; the rest is interpolated.
    """

    trees: int = 100
    rate: float = 0.1
    leaves: int = 31
    min_leaf: int = 60
    l2: float = 5.0
    share: float = 0.05
    rows: int = 60_000
    folds: int = 5
    stages: int = 2
    copies: int = 0
    step: int = 1

    def __post_init__(self) -> None:
        for name, (low, high) in RECIPE_COUNTS.items():
            whole_number(f"recipe: {name}", getattr(self, name), low, high)
        for name, (least, most) in RECIPE_NUMBERS.items():
            real_number(f"recipe: {name}", getattr(self, name), least, most)


def default_recipe(bank: Bank, questions: int = 1) -> Recipe:
    """Return the measured default of a kind of image and a number of questions.

    docs/decisions/0030-one-kind-of-trees.md; 0024 for several questions.
    """
    # A second stage sees the context of every label's logits: too much for many labels.
    recipe = Recipe() if questions == 1 else Recipe(stages=1)
    return replace(recipe, copies=1) if bank.kind == "microscopy" else recipe


DTYPES = {
    "feature": np.int32,
    "threshold": np.float32,
    "left": np.int32,
    "right": np.int32,
    "value": np.float64,
    "roots": np.int32,
    "baseline": np.float64,
}


@dataclass(frozen=True)
class Trees:
    """Arrays of a tree ensemble.

    Attributes
    ----------
    feature : (t,) int32
        Column that node t compares; -1 marks a leaf.
    threshold : (t,) float32
        A row goes left if its column <= threshold.
    left, right : (t,) int32
        Children; always larger than t.
    value : (t, T) float64
        What a leaf adds to the logit of each question.
    roots : (k,) int32
        First node of each tree.
    baseline : (T,) float64
    """

    feature: npt.NDArray[np.int32]
    threshold: Float32
    left: npt.NDArray[np.int32]
    right: npt.NDArray[np.int32]
    value: Floats
    roots: npt.NDArray[np.int32]
    baseline: Floats

    @property
    def questions(self) -> int:
        """How many logits there are."""
        return len(self.baseline)

    @staticmethod
    def constant(*logits: float) -> "Trees":
        """Return an ensemble with the same logits everywhere."""
        arrays = {name: np.zeros(0, dtype) for name, dtype in DTYPES.items()}
        return Trees.of_arrays(arrays | {"baseline": np.array(logits)})

    @staticmethod
    def of_arrays(arrays: dict[str, AnyArray], where: str = "trees") -> "Trees":
        """Invert `arrays`; refuse a damaged set."""
        missing = [name for name in DTYPES if name not in arrays]
        if missing:
            raise InputError(f"{where}: the array {missing[0]!r} is missing. Refit the model.")
        made = {name: np.ascontiguousarray(arrays[name], dtype) for name, dtype in DTYPES.items()}
        questions = made["baseline"].size
        if made["value"].size == made["feature"].size * questions:
            made["value"] = made["value"].reshape(-1, questions or 1)
        if not questions or any(a.ndim != 1 + (name == "value") for name, a in made.items()):
            raise InputError(f"{where}: an array has a wrong shape. Refit the model.")
        if not all(np.isfinite(made[name]).all() for name in ("threshold", "value", "baseline")):
            raise InputError(f"{where}: a number is not finite. Refit the model.")
        _check_walks(made, where)
        return Trees(**made)

    def arrays(self) -> dict[str, AnyArray]:
        """Return arrays by name, for a model file; one question has a plain list of values."""
        every = {item.name: getattr(self, item.name) for item in fields(self)}
        return every | ({"value": self.value[:, 0]} if self.questions == 1 else {})

    def evaluate(self, columns: Columns, step: int = 1) -> Floats:
        """Return the logits of every step-th pixel of every step-th row of a band, (T, .., ..)."""
        h, w = columns.shape
        out: Floats = np.empty((self.questions, -(-h // step), -(-w // step)), np.float64)
        self._run(columns.buffer, columns.start, columns.stride, step, out)
        return out

    def evaluate_rows(self, rows: Float32) -> Floats:
        """Return the logits of the rows of a matrix (n, f) float32, (T, n) float64."""
        n, f = rows.shape
        out: Floats = np.empty((self.questions, 1, n), np.float64)
        buffer = np.ascontiguousarray(rows.T, np.float32).reshape(-1)
        self._run(buffer, np.arange(f, dtype=np.int64) * n, 0, 1, out)
        return out[:, 0]

    def _run(
        self,
        buffer: Float32,
        start: Indices,
        stride: int,
        step: int,
        out: Floats,
    ) -> None:
        _core.evaluate_trees(
            self.feature,
            self.threshold,
            self.left,
            self.right,
            self.value,
            self.roots,
            self.baseline,
            buffer,
            start,
            stride,
            step,
            out,
        )


def logits_of(
    grown: Sequence[Trees], base: Stack, more: Sequence[Stack], step: int = 1
) -> list[Float32]:
    """Return the logits of an image by several ensembles, (T, h, w) float32 each.

    Each sees the columns of `base` and of a further stack of its own. With step > 1 every step-th
    pixel is looked at, and the rest interpolated.
    """
    (h, w), made = base.shape, []
    for trees in grown:
        made.append(np.empty((trees.questions, -(-h // step), -(-w // step)), np.float32))
    for band in describe(base, more, step):
        for k, trees in enumerate(grown):
            found = trees.evaluate(band.columns(k), step)
            made[k][:, band.first // step :][:, : found.shape[1]] = found
    return [enlarge(planes, step, (h, w), centred=False) for planes in made]


def _check_walks(made: dict[str, AnyArray], where: str) -> None:
    """Refuse trees that share nodes or turn back: no row visits more nodes than there are."""
    roots, size = made["roots"].astype(np.int64), len(made["feature"])
    begins = np.concatenate([[0] if size else [], roots[1:], [size]]).astype(np.int64)
    good = all(len(made[name]) == size for name in ("threshold", "left", "right", "value"))
    good &= len(roots) == len(begins) - 1 and bool((np.diff(begins) > 0).all())
    if good and size:
        good = bool(roots[0] == 0)
        inner = np.flatnonzero(made["feature"] >= 0)
        end = np.repeat(begins[1:], np.diff(begins))[inner]
        for name in ("left", "right"):
            child = made[name][inner]
            good &= bool(((inner < child) & (child < end)).all())
    if not good:
        raise InputError(
            f"{where}: the nodes do not make trees, in which children come after their parent. "
            "Refit the model."
        )


Labels = Mask
# Quantiles are those of about so many rows.
LOOKED_AT = 20_000


class MultiTargetTrees:
    """Rows of some images as bins, and the trees that are grown on a part of the images.

    Parameters
    ----------
    answers : of every image (rows, T) uint8 of 0 and 1
    counts : of every image (T, 2) int, all its pixels with the answers 0 and 1
    recipe : Recipe
    """

    def __init__(
        self, answers: Sequence[Labels], counts: Sequence[Indices], recipe: Recipe
    ) -> None:
        self.answers, self.counts, self.recipe = answers, counts, recipe
        self.edges: list[Float32] = []
        self.bins: list[Labels] = []

    def add(self, rows: Sequence[Float32], threads: int = 1) -> None:
        """Append columns of every image's rows, (rows, f) float32.

        The bins' edges are quantiles over all images: of held-out ones they use numbers, but
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


def grow_on(given: tuple[MultiTargetTrees, Sequence[int], int]) -> Trees:
    """Grow trees on some images of a set of rows, with a seed."""
    rows, images, seed = given
    return rows.grow(images, seed)


def binned(rows: Float32, column: int) -> tuple[Float32, Labels]:
    """Return the bins of a column of (n, f) numbers: upper ends but the last, and each one's bin.

    Equal ends are one. A bin is the number of ends below: x <= ends[b] where bin <= b, which is
    the comparison of a tree.
    """
    numbers = np.ascontiguousarray(rows[:, column])
    some = np.sort(numbers[:: max(1, len(numbers) // LOOKED_AT)])
    if not len(some):
        return np.zeros(1, np.float32), np.zeros(0, np.uint8)
    ends = np.unique(some[np.arange(1, _core.TREE_BINS) * len(some) // _core.TREE_BINS])
    return ends, np.searchsorted(ends, numbers).astype(np.uint8)
