"""A cheap look at what trees would say: small ones, on drawn pixels only.

In: images and masks. Out: `Pilot`: drawn pixels of every image, each with the number of pixels that
it stands for, and the logits of small trees that did not see the image. Other logits are compared
at the same pixels. An image is described once and only a few thousand rows are kept of it, so that
this costs a fraction of fitting trees.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from cutlearn.features.boosted import Answers, Recipe
from cutlearn.features.columns import Stack, sampled
from cutlearn.features.describe import Bank, Picture, shrink
from cutlearn.features.folds import make_folds
from cutlearn.features.grow import draw_rows, shrink_labels
from cutlearn.features.planes import Float32
from cutlearn.features.task import Task
from cutlearn.features.together import Together, grow_on
from cutlearn.features.trees import Trees
from cutlearn.loaded import mapped
from cutlearn.metrics import Figure, iou_of, left_out
from cutlearn.run.progress import Counter
from cutlearn.run.shelf import Form, each_kept

# No more than these of a recipe.
MOST = {"stages": 1, "rows": 20_000, "copies": 0, "folds": 3}
# Logits of drawn pixels, by image, then by question.
Said = list[list[Float32]]
Tables = npt.NDArray[np.float64]
K = TypeVar("K")
WHAT = "try trees"
# How the work is kept: rows of an image by question, trees of a question without a fold.
ROWS: Form[int, list[Float32]] = Form(
    lambda i: f"rows{i}",
    lambda rows: ({}, {f"rows{t}": part for t, part in enumerate(rows)}),
    lambda _, arrays: [arrays[f"rows{t}"] for t in range(len(arrays))],
)
FOREST: Form[tuple[int, int], Trees] = Form(
    lambda job: f"trees{job[0]}-{job[1]}",
    lambda trees: ({}, trees.arrays()),
    lambda _, arrays: Trees.of_arrays(arrays),
)


def small_recipe(recipe: Recipe) -> Recipe:
    """The small trees: no larger in anything than those of the recipe."""
    return replace(recipe, **{k: min(v, getattr(recipe, k)) for k, v in MOST.items()})


@dataclass(frozen=True)
class Drawn:
    """Pixels of an image for one question: where, their labels, what each stands for."""

    index: npt.NDArray[np.int64]
    labels: npt.NDArray[np.uint8]
    weights: npt.NDArray[np.float64]

    @staticmethod
    def of(labels: npt.NDArray[np.uint8], quota: int, seed: Sequence[int]) -> "Drawn":
        """Draw up to `quota` pixels of (h, w) labels, as many of each label as there are."""
        index = draw_rows(labels[..., None], quota, seed)
        seen = labels.reshape(-1)[index]
        weights = np.zeros(len(index))
        for label in (0, 1):
            of_label = seen == label
            weights[of_label] = (labels == label).sum() / max(1, int(of_label.sum()))
        return Drawn(index, seen, weights)


@dataclass(frozen=True)
class Pilot:
    """Drawn pixels by image and question, and what small trees say of them out of fold."""

    drawn: list[list[Drawn]]
    trees: Said
    scale: int

    @staticmethod
    def fit(task: Task) -> "Pilot":
        """Draw pixels and grow small trees on them, without each fold in turn."""
        recipe, scale = small_recipe(task.recipe), task.bank.scale
        quota = max(2, recipe.rows // len(task.images))
        questions = range(task.labels[0].shape[2])
        small = mapped(lambda labels: shrink_labels(labels, scale), task.labels)
        drawn = [
            [Drawn.of(labels[..., t], quota, (task.seed, 7, i, t)) for t in questions]
            for i, labels in enumerate(small)
        ]
        fold = make_folds(task.groups, recipe.folds, task.seed)
        every = range(len(task.images))
        jobs = [(t, k) for t in questions for k in range(1 + int(fold.max()))]
        counter, shelf = Counter(task.progress, len(every) + len(jobs)), task.shelf
        images, extras = (task.place.by_reference(one) for one in (task.images, task.extras))
        rows = each_kept(
            partial(_rows_of, task.bank),
            lambda i: (images[i], extras[i], [part.index for part in drawn[i]]),
            every, task.place, shelf, ROWS, counter, WHAT,
        )  # fmt: skip

        growers = []
        for t in questions:
            counts = [np.array([[(y[..., t] == v).sum() for v in (0, 1)]]) for y in small]
            growers.append(Together([part[t].labels[:, None] for part in drawn], counts, recipe))
            growers[t].add([part[t] for part in rows], task.place.threads)
        held = task.place.hold(growers)

        def without(job: tuple[int, int]) -> Any:
            return held[job[0]], [i for i in every if fold[i] != job[1]], task.seed

        trees = each_kept(grow_on, without, jobs, task.place, shelf, FOREST, counter, WHAT)
        grown = dict(zip(jobs, trees))
        said = [
            [grown[t, int(fold[i])].evaluate_rows(rows[i][t])[0].astype(np.float32)
             for t in questions]
            for i in every
        ]  # fmt: skip
        return Pilot(drawn, said, scale)

    def seen(self, maps: Sequence[Answers]) -> Said:
        """The last logits of each image and question at the drawn pixels."""
        return [
            [
                np.asarray(shrink(logits[-1], self.scale)).reshape(-1)[part.index]
                for logits, part in zip(answers, drawn)
            ]
            for answers, drawn in zip(maps, self.drawn)
        ]

    def mean_with(self, said: Said) -> Said:
        """The mean of other logits and of the trees' own."""
        half = np.float32(0.5)
        return [[half * a + half * b for a, b in zip(*pair)] for pair in zip(said, self.trees)]

    def tables(self, said: Said, groups: Sequence[int]) -> Tables:
        """True and found labels at the best threshold of a question, (groups, T, 2, 2)."""
        made = np.zeros((len(said), len(said[0]), 2, 2))
        for t in range(len(said[0])):
            parts = [drawn[t] for drawn in self.drawn]
            threshold = best_threshold(
                [logits[t] for logits in said],
                [part.labels for part in parts],
                [part.weights for part in parts],
            )
            for i, part in enumerate(parts):
                place = (part.labels, (said[i][t] >= threshold).astype(np.uint8))
                np.add.at(made[i, t], place, part.weights)
        number = np.asarray(groups)
        return np.stack([made[number == g].sum(axis=0) for g in np.unique(number)])


def _rows_of(bank: Bank, given: Any) -> list[Float32]:
    """Rows of an image with its extra channels, at the drawn places of every question."""
    image, extra, places = given
    picture = Picture(shrink(image, bank.scale))
    base = bank.stack(picture, shrink(extra, bank.scale))
    return sampled(base, [Stack(picture.shape) for _ in places], places)


def best_threshold(
    logits: Sequence[Float32],
    truth: Sequence[npt.NDArray[np.uint8]],
    weights: Sequence[npt.NDArray[np.float64]],
) -> float:
    """The threshold of the best pooled IoU of label 1, of pixels that count by their weights.

    Examples
    --------
    >>> import numpy as np
    >>> z, truth = np.array([0.1, 0.5, 0.4, 0.9], np.float32), np.array([0, 0, 1, 1], np.uint8)
    >>> round(best_threshold([z], [truth], [np.ones(4)]), 3)
    0.4
    """
    z, weight = np.concatenate(list(logits)), np.concatenate(list(weights))
    ones = weight * (np.concatenate(list(truth)) == 1)
    order = np.argsort(-z, kind="stable")
    right, found = np.cumsum(ones[order]), np.cumsum(weight[order])
    either = max(float(ones.sum()), 1e-9) + found - right
    return float(z[order[np.argmax(right / either)]])


def _mean_over_questions(tables: Tables) -> Tables:
    return np.asarray(iou_of(tables).mean(axis=-1))


figure: Figure = _mean_over_questions


def clearly_best(
    values: Mapping[K, Tables],
    default: K,
    figure: Figure,
    least: Callable[[float], float] = float,
) -> K:
    """Return the best choice if it gains more over the default than chance does, else the default.

    Parameters
    ----------
    values : mapping
        Of every choice what adds up over images or groups, (n, ...).
    figure : callable
        What is taken of the sums; more is better.
    least : callable (deviation), default float
        The gain that is too small, by the jackknife deviation of the gain over images. By default
        one deviation.

    Examples
    --------
    >>> from cutlearn.metrics import means, ratio
    >>> values = {"usual": means([0.5, 0.6, 0.7]), "other": means([0.5, 0.9, 0.45])}
    >>> clearly_best(values, "usual", ratio)
    'usual'
    """
    whole = {choice: float(figure(part.sum(axis=0))) for choice, part in values.items()}
    best = max(values, key=lambda choice: whole[choice])
    gains = left_out(values[best], figure) - left_out(values[default], figure)
    n = len(gains)
    deviation = float(np.sqrt((n - 1) / n * np.sum((gains - gains.mean()) ** 2)))
    return best if whole[best] - whole[default] > least(deviation) else default
