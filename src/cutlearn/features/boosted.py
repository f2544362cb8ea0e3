"""Out-of-fold logits of boosted trees: honest node features from a handful of images.

In: images, masks (0, 1, 255 = void), a `Bank`. Out: `Boosted` (refitted on all images, for new
ones) and, for each training image, the logits of trees that never saw it. Rows are drawn
class-balanced in each image; the prior comes back as one shift of the logit. A second stage sees
the first one's out-of-fold logits around each pixel (auto-context). Several labels are several such
questions ("label 2 or higher?", "label 2 or another?"), each with trees of its own.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

from cutlearn.checks import instance, real_number, whole_number
from cutlearn.features.context import add_context
from cutlearn.features.describe import Bank, Image, Stack
from cutlearn.features.filters import Float32, enlarge, reduce
from cutlearn.features.folds import make_folds
from cutlearn.features.trees import Trees

Progress = Callable[[int, int, str], None]
Labels = npt.NDArray[np.uint8]
# Logits by question, then by stage.
Answers = list[list[Float32]]
T = TypeVar("T")
# What a recipe may ask for; a model file may say anything.
RECIPE_COUNTS = {
    "trees": (1, 100_000), "leaves": (2, 65_536), "min_leaf": (1, 10**9), "rows": (2, 10**9),
    "folds": (2, 1000), "stages": (1, 8), "copies": (0, 64), "step": (1, 256),
}  # fmt: skip
RECIPE_NUMBERS = {"rate": (1e-9, 1e3), "l2": (0.0, 1e12), "share": (1e-9, 1.0)}


@dataclass(frozen=True)
class Recipe:
    """How trees are grown; the figures of docs/decisions/0002-default-features.md.

    Attributes
    ----------
    trees, rate, leaves, min_leaf, l2, share : boosting
        Number of trees, learning rate, leaves a tree, rows a leaf, ridge on leaf values and share
        of the columns tried at each split.
    rows : int
        Rows drawn from all images together.
    folds : int
        Parts of the images; at most one a group.
    stages : int
        1, or 2 with auto-context.
    copies : int
        Turned and contrast-jittered copies of each image that join the training.
    step : int
        Trees look at every step-th pixel along both axes; the rest is interpolated.
    """

    trees: int = 60
    rate: float = 0.15
    leaves: int = 31
    min_leaf: int = 60
    l2: float = 5.0
    share: float = 0.15
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


def default_recipe(bank: Bank) -> Recipe:
    """The measured default of a kind of image; docs/decisions/0002-default-features.md."""
    recipe = Recipe()
    return replace(recipe, copies=1) if bank.kind == "microscopy" else recipe


@dataclass(frozen=True)
class Item:
    """One image to learn from: an original, or a copy in the fold of its original."""

    image: Image
    labels: Labels
    extra: Float32 | None
    fold: int
    original: bool
    seed: tuple[int, ...]


@dataclass(frozen=True)
class Boosted:
    """The bank and the trees of every stage, refitted on all images."""

    bank: Bank
    step: int
    stages: tuple[Trees, ...]

    def logits(self, image: Image, extra: Float32 | None = None) -> list[Float32]:
        """Logits of a new image, one (h, w) float32 a stage."""
        return answer([self], image, extra)[0]


def answer(models: Sequence[Boosted], image: Image, extra: Float32 | None = None) -> Answers:
    """Give the logits of a new image for several questions, whose models share a bank."""
    if not models:
        return []
    bank, shape = models[0].bank, (image.shape[0], image.shape[1])
    image, extra = shrink(image, bank.scale), shrink(extra, bank.scale)
    stack = bank.stack(image, extra)
    columns, answers = stack.columns(), []
    for model in models:
        own, maps = stack.copy(), [model.stages[0].evaluate(columns, model.step)]
        for trees in model.stages[1:]:
            add_context(own, maps[-1], image, bank.kind)
            maps.append(trees.evaluate(own.columns(), model.step))
        answers.append([enlarge(logit, bank.scale, shape) for logit in maps])
    return answers


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
) -> tuple[tuple[Boosted, ...], list[Answers]]:
    """Fit trees for each of T questions on its own, as `fit_boosted` does for one.

    Parameters
    ----------
    masks : n arrays (h, w, T) uint8 of 0, 1 and 255

    Returns
    -------
    T of Boosted, and for each image its out-of-fold logits by question and stage
    """
    instance("recipe", recipe, Recipe)
    whole_number("random_state", seed, 0, 2**32 - 1)  # scikit-learn's own bound
    questions = masks[0].shape[2]
    models: list[Boosted] = []
    maps: list[Answers] = [[] for _ in images]

    def told(done: int, total: int, what: str) -> None:
        if progress is not None:
            progress(len(models) * total + done, questions * total, what)

    for t in range(questions):
        one = [np.ascontiguousarray(mask[..., t]) for mask in masks]
        model, found = fit_boosted(images, one, extras, bank, recipe, groups, seed, n_jobs, told)
        models.append(model)
        for answers, logits in zip(maps, found):
            answers.append(logits)
    return tuple(models), maps


def read_questions(
    arrays: dict[str, npt.NDArray[Any]], described: dict[str, Any], bank: Bank, step: int
) -> tuple[Boosted, ...]:
    """Read the trees of a model file: "stages" of all "questions" together, numbered from 0."""
    count = int(described["stages"])
    # Files from before there were several questions do not tell.
    questions = int(described.get("questions", min(count, 1)))
    parts: dict[str, dict[str, npt.NDArray[Any]]] = {}
    for name, array in arrays.items():
        stage, _, part = name.partition(".")
        parts.setdefault(stage, {})[part] = array
    stages = [
        Trees.of_arrays(parts.get(f"stage{k}", {}), f"features stage {k}") for k in range(count)
    ]
    if questions < 0 or count % max(questions, 1) or (questions > 0) != (count > 0):
        raise ValueError(f"{count} stages for {questions} questions")
    each = count // max(questions, 1)
    asked = [tuple(stages[t * each : (t + 1) * each]) for t in range(questions)]
    return tuple(Boosted(bank, step, part) for part in asked)


@overload
def shrink(image: Image, scale: int) -> Image: ...
@overload
def shrink(image: None, scale: int) -> None: ...
def shrink(image: Image | None, scale: int) -> Image | None:
    """Means over scale x scale pixels of an (h, w) or (h, w, c) array."""
    if image is None or scale == 1:
        return image
    planes = np.moveaxis(image[..., None] if image.ndim == 2 else image, -1, 0)
    small = np.moveaxis(reduce(planes, scale), 0, -1)
    return np.ascontiguousarray(small[..., 0] if image.ndim == 2 else small)


def fit_boosted(
    images: Sequence[Image],
    masks: Sequence[Labels],
    extras: Sequence[Float32 | None],
    bank: Bank,
    recipe: Recipe,
    groups: Sequence[Any],
    seed: int = 0,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> tuple[Boosted, list[list[Float32]]]:
    """Fit all stages; return the model and, for each image, its out-of-fold logits by stage.

    Parameters
    ----------
    images : n images, (h, w, 3) or (h, w) float32
    masks : n arrays (h, w) uint8 of 0, 1 and 255 (void: excluded)
    extras : n arrays (h, w, e) float32, or None each
    groups : n hashables; images of one group (slices of a stack) share a fold
    seed : int
        All draws depend on it and on the position of an image, never on threads.

    Returns
    -------
    Boosted, list of [stage 1 (h, w) float32, stage 2 ...]
    """
    fold = make_folds(groups, recipe.folds, seed)
    shapes = [(m.shape[0], m.shape[1]) for m in masks]
    items = make_items(
        [shrink(image, bank.scale) for image in images],
        [_shrink_labels(mask, bank.scale) for mask in masks],
        [shrink(extra, bank.scale) for extra in extras],
        fold,
        recipe.copies,
        seed,
    )
    n_folds = int(fold.max()) + 1
    tick = _Counter(progress, recipe.stages * (2 * len(items) + n_folds + 1))
    quota = max(2, recipe.rows // len(items))
    index = [draw_rows(item.labels, quota, item.seed) for item in items]
    labels = [item.labels.reshape(-1)[k] for item, k in zip(items, index)]
    priors = [_count(item.labels) for item in items]
    rows: list[Float32] = []
    maps: list[list[Float32]] = [[] for _ in items]
    final: list[Trees] = []
    for stage in range(recipe.stages):

        def gather(i: int) -> Float32:
            return _rows(items[i], maps[i], bank, index[i])

        new = _each(gather, range(len(items)), n_jobs, tick, "describe images")
        rows = [np.hstack(pair) for pair in zip(rows, new)] if rows else new

        def fit_without(k: int, rows: list[Float32] = rows, seed: int = seed + stage) -> Trees:
            chosen = [i for i, item in enumerate(items) if item.fold != k]
            return grow([(rows[i], labels[i], priors[i]) for i in chosen], recipe, seed)

        what = f"grow trees, stage {stage + 1}"
        grown = _each(fit_without, range(-1, n_folds), n_jobs, tick, what)  # -1: leaves none out
        final.append(grown[0])

        def predict(i: int, grown: list[Trees] = grown) -> Float32:
            stack = bank.stack(items[i].image, items[i].extra)
            for logit in maps[i]:
                add_context(stack, logit, items[i].image, bank.kind)
            return grown[items[i].fold + 1].evaluate(stack.columns(), recipe.step)

        last = stage + 1 == recipe.stages
        wanted = [i for i, item in enumerate(items) if item.original or not last]
        for i, logit in zip(wanted, _each(predict, wanted, n_jobs, tick, "predict out of fold")):
            maps[i].append(logit)
    model = Boosted(bank, recipe.step, tuple(final))
    kept = [maps[i] for i, item in enumerate(items) if item.original]
    return model, [[enlarge(z, bank.scale, s) for z in found] for found, s in zip(kept, shapes)]


def _shrink_labels(labels: Labels, scale: int) -> Labels:
    """The label in the middle of each scale x scale block; (rows, cols) as `shrink`."""
    index = [np.minimum(np.arange(0, size, scale) + scale // 2, size - 1) for size in labels.shape]
    return labels[np.ix_(*index)]


def make_items(
    images: Sequence[Image],
    masks: Sequence[Labels],
    extras: Sequence[Float32 | None],
    fold: npt.NDArray[np.intp],
    copies: int,
    seed: int,
) -> list[Item]:
    """Originals first, each followed by its turned and contrast-jittered copies."""
    items = []
    for i, (image, labels, extra) in enumerate(zip(images, masks, extras)):
        items.append(Item(image, labels, extra, int(fold[i]), True, (seed, 2, i, 0)))
        rng = np.random.default_rng([seed, 3, i])
        for k in range(1, copies + 1):
            turns, mirror = int(rng.integers(1, 4)), bool(rng.integers(2))
            gain, power = np.exp(rng.uniform(-0.2, 0.2, 2)).astype(np.float32)
            jittered = np.clip(gain * image**power, 0, 1).astype(np.float32)
            a, b, c = (_turn(part, turns, mirror) for part in (jittered, labels, extra))
            items.append(Item(a, b, c, int(fold[i]), False, (seed, 2, i, k)))
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
    return Trees.of_sklearn(model).shifted(prior - float(np.log(ones / (len(y) - ones))))


def _rows(item: Item, maps: Sequence[Float32], bank: Bank, index: npt.NDArray[np.int64]) -> Float32:
    """Rows of the newest columns only: the bank's, or the context of the last logits."""
    if maps:
        stack = Stack((item.labels.shape[0], item.labels.shape[1]))
        add_context(stack, maps[-1], item.image, bank.kind)
    else:
        stack = bank.stack(item.image, item.extra)
    return stack.columns().rows(index)


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
    work: Callable[[int], T], numbers: Iterable[int], n_jobs: int, tick: _Counter, what: str
) -> list[T]:
    """work(i) for all i, in threads; the results in order. An interrupt cancels what waits."""
    results = []
    pool = ThreadPoolExecutor(n_jobs)
    try:
        for result in pool.map(work, numbers):
            results.append(result)
            tick(what)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return results
