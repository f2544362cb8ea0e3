"""Growing trees out of fold: honest node features from a handful of images.

In: images, masks (0, 1, 255 = void), a `Bank`. Out: `Boosted` (refitted on all images, for new
ones) and, for each training image, the logits of trees that never saw it. Rows are drawn
class-balanced in each image; the prior comes back as one shift of the logit. An image is described
once in every pass over the images, for all questions together: before the first trees, and after
those of each stage.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from cutlearn.checks import instance, whole_number
from cutlearn.features.boosted import Answers, Boosted, Recipe
from cutlearn.features.context import add_context
from cutlearn.features.describe import Bank, Image, Picture, Stack, shrink
from cutlearn.features.filters import Float32, enlarge
from cutlearn.features.folds import make_folds
from cutlearn.features.trees import Trees

Progress = Callable[[int, int, str], None]
Labels = npt.NDArray[np.uint8]
S = TypeVar("S")
T = TypeVar("T")
# Rows on which extracted trees are compared with scikit-learn's own.
CHECKED = 100
# Questions whose rows are in memory together; each has up to 100 MB of them.
AT_ONCE = 4


@dataclass(frozen=True)
class Item:
    """One image to learn from: an original, or a copy in the fold of its original."""

    image: Image
    labels: Labels  # (h, w, questions)
    extra: Float32 | None
    guess: Float32 | None  # (h, w, questions) logits from elsewhere
    fold: int
    original: bool
    seed: tuple[int, ...]


def fit_questions(
    images: Sequence[Image],
    masks: Sequence[Labels],
    extras: Sequence[Float32 | None],
    bank: Bank,
    recipe: Recipe,
    groups: Sequence[Any],
    seed: int = 0,
    n_jobs: int = 1,
    progress: Progress | None = None,
    guesses: Sequence[Float32] | None = None,
) -> tuple[tuple[Boosted, ...], list[Answers]]:
    """Fit the trees of all stages for each of T questions on its own.

    Parameters
    ----------
    images : n images, (h, w, 3) or (h, w) float32
    masks : n arrays (h, w, T) uint8 of 0, 1 and 255 (void: excluded)
    extras : n arrays (h, w, e) float32, or None each
    groups : n hashables; images of one group (slices of a stack) share a fold
    seed : int
        All draws depend on it and on the position of an image, never on threads.
    guesses : n arrays (h, w, T) float32, optional
        Out-of-fold logits from elsewhere: the trees see their context from their first stage on.

    Returns
    -------
    T of Boosted, and for each image its out-of-fold logits by question and stage, (h, w) float32;
    guesses come before those of the first stage
    """
    instance("recipe", recipe, Recipe)
    whole_number("random_state", seed, 0, 2**32 - 1)  # scikit-learn's own bound
    items = make_items(
        [shrink(image, bank.scale) for image in images],
        [shrink_labels(mask, bank.scale) for mask in masks],
        [shrink(extra, bank.scale) for extra in extras],
        [None] * len(images) if guesses is None else [shrink(g, bank.scale) for g in guesses],
        make_folds(groups, recipe.folds, seed),
        recipe.copies,
        seed,
    )
    questions = range(masks[0].shape[2])
    parts = [questions[t : t + AT_ONCE] for t in questions[::AT_ONCE]]
    runs = [_Growing(items, part, bank, recipe, seed) for part in parts]
    tick = _Counter(progress, sum(run.steps for run in runs))
    models: list[Boosted] = []
    maps: list[Answers] = [[] for _ in images]
    for run in runs:
        models += run.fit(n_jobs, tick)
        for image, answers, found in zip(images, maps, run.answers()):
            shape = (image.shape[0], image.shape[1])
            answers += [[enlarge(z, bank.scale, shape) for z in logits] for logits in found]
    if guesses is not None:  # as they came, not made small and large again
        for guess, answers in zip(guesses, maps):
            for t, logits in enumerate(answers):
                logits[0] = guess[..., t]
        run.forget()
    return tuple(models), maps


class _Growing:
    """Trees of a few questions, stage by stage. Lists are by question, then by item."""

    def __init__(
        self, items: Sequence[Item], questions: range, bank: Bank, recipe: Recipe, seed: int
    ) -> None:
        self.items, self.questions, self.bank, self.recipe = items, questions, bank, recipe
        self.seed, self.quota = seed, max(2, recipe.rows // len(items))
        self.n_folds = 1 + max(item.fold for item in items)
        self.maps: list[Answers] = []
        self.index: list[list[npt.NDArray[np.int64]]] = []

    @property
    def steps(self) -> int:
        """Finished images and trees that `fit` will tell of."""
        originals = sum(item.original for item in self.items)
        trees = self.recipe.stages * len(self.questions) * (self.n_folds + 1)
        return self.recipe.stages * len(self.items) + originals + trees

    def fit(self, n_jobs: int, tick: "_Counter") -> list[Boosted]:
        """Grow all stages; the out-of-fold logits are then in `maps`."""
        items, count = self.items, range(len(self.questions))
        self.maps = [[_first(item, t) for item in items] for t in self.questions]
        self.index = [
            [draw_rows(item.labels[..., t], self.quota, item.seed) for item in items]
            for t in self.questions
        ]
        labels = [
            [item.labels[..., t].reshape(-1)[k] for item, k in zip(items, index)]
            for t, index in zip(self.questions, self.index)
        ]
        priors = [[_count(item.labels[..., t]) for item in items] for t in self.questions]
        every = list(range(len(items)))
        found = _each(self._first_rows, every, n_jobs, tick, "describe images")
        rows = [[part[t] for part in found] for t in count]
        stages: list[list[Trees]] = [[] for _ in count]
        for stage in range(self.recipe.stages):

            def grow_without(job: tuple[int, int], seed: int = self.seed + stage) -> Trees:
                t, k = job
                chosen = [i for i in every if items[i].fold != k]
                return grow(
                    [(rows[t][i], labels[t][i], priors[t][i]) for i in chosen], self.recipe, seed
                )

            # -1 leaves none out.
            jobs = [(t, k) for t in count for k in range(-1, self.n_folds)]
            what = f"grow trees, stage {stage + 1}"
            grown = dict(zip(jobs, _each(grow_without, jobs, n_jobs, tick, what)))
            last = stage + 1 == self.recipe.stages

            def predict(
                i: int, grown: dict[tuple[int, int], Trees] = grown, last: bool = last
            ) -> list[tuple[Float32, Float32 | None]]:
                return self._predict(i, [grown[t, items[i].fold] for t in count], last)

            wanted = [i for i in every if items[i].original or not last]
            guesses = _each(predict, wanted, n_jobs, tick, "predict out of fold")
            for t in count:
                stages[t].append(grown[t, -1])
                for i, guess in zip(wanted, guesses):
                    logit, new = guess[t]
                    self.maps[t][i].append(logit)
                    if new is not None:
                        rows[t][i] = np.hstack([rows[t][i], new])
        return [Boosted(self.bank, self.recipe.step, tuple(trees)) for trees in stages]

    def answers(self) -> list[Answers]:
        """Out-of-fold logits of the originals, by image, question and stage."""
        originals = [i for i, item in enumerate(self.items) if item.original]
        return [[maps[i] for maps in self.maps] for i in originals]

    def forget(self) -> None:
        """Give the memory back before the next questions."""
        self.maps, self.index = [], []

    def _first_rows(self, i: int) -> list[Float32]:
        item = self.items[i]
        picture = Picture(item.image)
        stack = self.bank.stack(picture, item.extra)
        if item.guess is None:
            columns = stack.columns()
            return [columns.rows(index[i]) for index in self.index]
        rows = []
        for maps, index in zip(self.maps, self.index):
            own = stack.copy()
            add_context(own, maps[i][0], picture, self.bank.kind)
            rows.append(own.columns().rows(index[i]))
        return rows

    def _predict(
        self, i: int, grown: Sequence[Trees], last: bool
    ) -> list[tuple[Float32, Float32 | None]]:
        """Of each question: the item's logits, and its rows of their context for the next stage."""
        item, kind = self.items[i], self.bank.kind
        picture = Picture(item.image)
        stack = self.bank.stack(picture, item.extra)
        plain = None if self.maps[0][i] else stack.columns()
        out: list[tuple[Float32, Float32 | None]] = []
        for trees, maps, index in zip(grown, self.maps, self.index):
            own = stack.copy()
            for logit in maps[i]:
                add_context(own, logit, picture, kind)
            logit = trees.evaluate(plain or own.columns(), self.recipe.step)
            new = None
            if not last:
                context = Stack(picture.shape)
                add_context(context, logit, picture, kind)
                new = context.columns().rows(index[i])
            out.append((logit, new))
        return out


def _first(item: Item, question: int) -> list[Float32]:
    """The logits of an item before the first stage: the guess, if there is one."""
    return [] if item.guess is None else [np.ascontiguousarray(item.guess[..., question])]


def shrink_labels(labels: Labels, scale: int) -> Labels:
    """The label in the middle of each scale x scale block; rows and columns as `shrink`."""
    index = [
        np.minimum(np.arange(0, size, scale) + scale // 2, size - 1) for size in labels.shape[:2]
    ]
    return labels[np.ix_(*index)]


def make_items(
    images: Sequence[Image],
    masks: Sequence[Labels],
    extras: Sequence[Float32 | None],
    guesses: Sequence[Float32 | None],
    fold: npt.NDArray[np.intp],
    copies: int,
    seed: int,
) -> list[Item]:
    """Originals first, each followed by its turned and contrast-jittered copies."""
    items = []
    for i, (image, labels, extra, guess) in enumerate(zip(images, masks, extras, guesses)):
        items.append(Item(image, labels, extra, guess, int(fold[i]), True, (seed, 2, i, 0)))
        rng = np.random.default_rng([seed, 3, i])
        for k in range(1, copies + 1):
            turns, mirror = int(rng.integers(1, 4)), bool(rng.integers(2))
            gain, power = np.exp(rng.uniform(-0.2, 0.2, 2)).astype(np.float32)
            jittered = np.clip(gain * image**power, 0, 1).astype(np.float32)
            a, b, c, d = (_turn(part, turns, mirror) for part in (jittered, labels, extra, guess))
            items.append(Item(a, b, c, d, int(fold[i]), False, (seed, 2, i, k)))
    return items


def _turn(array: Any, turns: int, mirror: bool) -> Any:
    if array is None:
        return None
    turned = np.rot90(array, turns)
    return np.ascontiguousarray(turned[::-1] if mirror else turned)


def draw_rows(labels: Labels, quota: int, seed: Sequence[int]) -> npt.NDArray[np.int64]:
    """Row-major indices of up to `quota` pixels, as many of each label as there are; sorted."""
    rng = np.random.default_rng(list(seed))
    flat = labels.reshape(-1)
    sets = [np.flatnonzero(flat == label) for label in (0, 1)]
    ones = min(len(sets[1]), max(quota // 2, quota - len(sets[0])))
    zeros = min(len(sets[0]), quota - ones)
    drawn = [rng.choice(s, k, replace=False) for s, k in zip(sets, (zeros, ones))]
    return np.sort(np.concatenate(drawn)).astype(np.int64)


def grow(
    parts: Sequence[tuple[Float32, Labels, npt.NDArray[np.int64]]],
    recipe: Recipe,
    seed: int,
) -> Trees:
    """Boost trees on (rows, labels, pixel counts by label) of some images.

    Rows are class-balanced, so the prior of the counts is put back as a shift of the logit.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    x = np.concatenate([part[0] for part in parts])
    y = np.concatenate([part[1] for part in parts])
    count = np.sum([part[2] for part in parts], axis=0) + 1.0
    prior = float(np.log(count[1] / count[0]))
    ones = int(y.sum())
    if ones in (0, len(y)):
        # The images left in hold one label only: all that can be said is how often.
        return Trees.constant(prior)
    model = HistGradientBoostingClassifier(
        max_iter=recipe.trees,
        learning_rate=recipe.rate,
        max_leaf_nodes=recipe.leaves,
        min_samples_leaf=max(1, min(recipe.min_leaf, len(y) // 50)),
        l2_regularization=recipe.l2,
        max_features=recipe.share,
        early_stopping=False,
        random_state=seed,
    )
    # Folds run side by side, one thread each: threads that wait for each other inside a fit
    # cost more than they bring once the cores are busy.
    with threadpool_limits(1, user_api="openmp"):
        model.fit(x, y)
        trees = Trees.of_sklearn(model)
        # The trees are read from private parts of scikit-learn: a version that keeps them in
        # another way must be noticed here, not in the masks.
        few = x[:CHECKED]
        if np.abs(trees.evaluate_rows(few) - model.decision_function(few)).max() > 1e-4:
            raise RuntimeError(
                "trees that were read from this version of scikit-learn answer otherwise than "
                "scikit-learn does; install an older version"
            )
    return trees.shifted(prior - float(np.log(ones / (len(y) - ones))))


def _count(labels: Labels) -> npt.NDArray[np.int64]:
    return np.array([(labels == 0).sum(), (labels == 1).sum()], np.int64)


class _Counter:
    """Counts finished steps from any thread and reports them."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def __call__(self, what: str) -> None:
        self.done += 1
        if self.progress is not None:
            self.progress(self.done, self.total, what)


def _each(
    work: Callable[[S], T], jobs: Sequence[S], n_jobs: int, tick: _Counter, what: str
) -> list[T]:
    """work(job) for all jobs, in threads; the results in order. An interrupt cancels what waits."""
    results = []
    pool = ThreadPoolExecutor(n_jobs)
    try:
        for result in pool.map(work, jobs):
            results.append(result)
            tick(what)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return results
