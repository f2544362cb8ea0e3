"""Logits of boosted trees (`Boosted`), and the trees out of fold (`fit_trees`).

In: images, masks (0, 1, 255 = void) of several questions, a `Bank`. Out: `Boosted`, refitted on all
images, for new ones; and for each training image the logits of trees that never saw it, by question
and stage. A second stage sees the first one's logits around each pixel (auto-context). Several
labels are several questions ("label 2 or higher?", "label 2 or another?"), which the same trees
answer; files of older versions have trees for each.

Rows are drawn class-balanced in each image; the prior comes back as one shift of the logit. An
image is described before the first trees and after those of each stage. Only the drawn rows need be
in memory: images may be loaded one by one, and logits stay on a cache then.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from cutlearn.arrays import AnyArray, Bits, Float32, Image, Indices, Mask
from cutlearn.features.columns import Stack, sampled
from cutlearn.features.describe import Bank, Picture, shrink
from cutlearn.features.filters import Planes, bands, blur, blurred, enlarge, middle, rings, whole
from cutlearn.features.folds import Answers, make_folds
from cutlearn.features.trees import MultiTargetTrees, Recipe, Trees, grow_on, logits_of
from cutlearn.loaded import mapped, taken
from cutlearn.run.cache import Cache, Form, map_cached
from cutlearn.run.executor import ONE_THREAD, Executor
from cutlearn.run.progress import Counter
from cutlearn.store import Arrays

# Log-odds are clipped to these in the context of the next stage.
CLIP = 8.0
# Seconds of 100 trees on 60,000 rows: this times 5 + T for T questions; and of the columns of a
# pixel. Measured, rounded up.
GROW = 0.09
DESCRIBE = {"photograph": 2e-6, "microscopy": 1.2e-6}
Progress = Callable[[int, int, str], None]
# The logits of an item, (T, h, w), and its rows of their context for the next stage.
Guess = tuple[Float32, Float32 | None]


@dataclass(frozen=True)
class Boosted:
    """The bank and the trees of every stage, refitted on all images, for one question or more."""

    bank: Bank
    step: int
    stages: tuple[Trees, ...]

    def logits(self, image: Image, extra: Float32 | None = None) -> list[Float32]:
        """Return the logits of the first question at a new image, (h, w) for each stage."""
        return answer([self], Picture(image), extra)[0]

    @property
    def questions(self) -> int:
        """Number of questions that the trees answer."""
        return self.stages[0].questions


def answer(
    models: Sequence[Boosted],
    picture: Picture,
    extra: Float32 | None = None,
    guess: Float32 | None = None,
) -> Answers:
    """Return the logits of a new image for several questions, whose models share a bank.

    With a first guess, (h, w, T) logits from elsewhere, the trees see its context from their first
    stage on, and it comes before their own logits.
    """
    bank, shape = models[0].bank, picture.shape
    small = picture.shrunk(bank.scale)
    base = bank.stack(small, shrink(extra, bank.scale))
    ends = np.cumsum([0, *(model.questions for model in models)]).tolist()
    places = [slice(*ends[k : k + 2]) for k in range(len(models))]
    first = None if guess is None else np.moveaxis(shrink(guess, bank.scale), -1, 0)
    # Of each model its logits by stage, (T, h, w).
    maps: list[list[Float32]] = [[] if first is None else [first[at]] for at in places]
    own = [Stack(small.shape) for _ in models]
    for stage in range(len(models[0].stages)):
        for stack, logits in zip(own, maps):
            for logit in logits[-1] if logits else ():
                add_context(stack, logit, small, bank.kind)
        found = logits_of([model.stages[stage] for model in models], base, own, models[0].step)
        for logits, new in zip(maps, found):
            logits.append(new)
    answers: Answers = []
    for at, logits in zip(places, maps):
        given = None if guess is None else guess[..., at]
        answers += _at_full_size(bank.scale, shape, given, *logits[guess is not None :])
    return answers


def read_questions(
    arrays: dict[str, AnyArray], described: dict[str, Any], bank: Bank, step: int
) -> tuple[Boosted, ...]:
    """Read the trees of a model file: "stages" of all ensembles together, numbered from 0.

    "questions" counts the ensembles, since once each question had its own.
    """
    count = int(described["stages"])
    # Files from before there were several questions do not have it.
    ensembles = int(described.get("questions", min(count, 1)))
    parts: dict[str, dict[str, AnyArray]] = {}
    for name, array in arrays.items():
        stage, _, part = name.partition(".")
        parts.setdefault(stage, {})[part] = array
    stages = [
        Trees.of_arrays(parts.get(f"stage{k}", {}), f"features stage {k}") for k in range(count)
    ]
    if ensembles < 0 or count % max(ensembles, 1) or (ensembles > 0) != (count > 0):
        raise ValueError(f"{count} stages for {ensembles} ensembles")
    each = count // max(ensembles, 1)
    grown = [tuple(stages[t * each : (t + 1) * each]) for t in range(ensembles)]
    if any(trees.questions != part[0].questions for part in grown for trees in part):
        raise ValueError("stages of different numbers of questions")
    return tuple(Boosted(bank, step, part) for part in grown)


def probability(logit: Float32) -> Float32:
    """Return 1 / (1 + exp(-logit)), the logit clipped to [-30, 30]."""
    return (1 / (1 + np.exp(-np.clip(logit, -30, 30), dtype=np.float64))).astype(np.float32)


def add_context(stack: Stack, logit: Float32, picture: Picture, kind: str) -> None:
    """Append the context planes of one map of logits to a stack of the same shape."""
    h, w = stack.shape
    p = whole(logit).each(probability).all()[0]
    likely = whole(p)
    stack.add("logit", whole(logit).each(lambda part: np.clip(part, -CLIP, CLIP)))
    near = {sigma: blurred(likely, sigma) for sigma in (4, 8, 16, 32)}
    near = {2: whole(blur(p, 2))} | near
    numbers = {sigma: stack.add(f"p{sigma}", plane) for sigma, plane in near.items()}
    across, down = p.mean(axis=1, keepdims=True), p.mean(axis=0, keepdims=True)
    mean = np.float32(p.mean(dtype=np.float64))

    def means(first: int, last: int) -> Float32:
        made = np.empty((3, last - first, w), np.float32)
        made[0], made[1], made[2] = across[first:last], down, mean
        return made

    stack.add(["prow", "pcolumn", "pimage"], Planes(3, (h, w), means))
    stack.add("piece", pieces(p > 0.5))
    # What pixels of like colour were taken for, in the image and nearby: its own colour model.
    for name, palette in (
        ("plike", picture.palette(kind)),
        ("plike nearby", picture.palette(kind, 6)),
    ):
        stack.add(name, palette.look_up(palette.mean_tables(likely)))
    if kind == "photograph":
        for radius, sigma in ((8, 2), (16, 4), (34, 8), (60, 16)):
            stack.offsets(f"p{sigma}", numbers[sigma], radius)
    else:
        centres = {sigma: middle(near[sigma]) for sigma in (2, 4, 8, 16)}
        for radius, sigma in ((5, 2), (10, 2), (16, 4), (24, 4), (36, 8), (60, 16)):
            stack.add(f"pring{radius}", rings(near[sigma], radius, centres[sigma]))


def pieces(labels: Bits) -> Float32:
    """Return the root of the area of each pixel's piece, and its depth in it, signed; (2, h, w).

    A piece is a 4-connected set of one label. Object pixels count positive, others negative;
    depth is the distance in pixels to the other label, the image's diagonal where there is none.
    """
    made = np.zeros((2, *labels.shape), np.float32)
    size, depth = made
    far = np.float32(np.hypot(*labels.shape))
    for label, sign in ((True, 1), (False, -1)):
        inside = labels == label
        if not inside.any():
            continue
        number, count = ndimage.label(inside)
        area = np.zeros(count + 1, np.int64)
        for first, last in bands(len(labels)):
            area += np.bincount(number[first:last].reshape(-1), minlength=count + 1)
        root = sign * np.sqrt(area).astype(np.float32)
        root[0] = 0
        for first, last in bands(len(labels)):
            size[first:last] += root[number[first:last]]
        del number
        if inside.all():
            depth += sign * far
            continue
        # The nearest pixel of the other label, whole numbers: the distance is taken by bands.
        place = ndimage.distance_transform_edt(inside, return_distances=False, return_indices=True)
        x = np.arange(labels.shape[1])
        for first, last in bands(len(labels)):
            dy = (place[0, first:last] - np.arange(first, last)[:, None]).astype(np.float64)
            dx = (place[1, first:last] - x).astype(np.float64)
            depth[first:last] += sign * np.sqrt(dy * dy + dx * dx).astype(np.float32)
    return made


@dataclass(frozen=True)
class Item:
    """One image to learn from: an original, or a copy in the fold of its original."""

    image: Image
    labels: Mask  # (h, w, questions)
    extra: Float32 | None
    guess: Float32 | None  # (h, w, questions) logits from elsewhere
    fold: int
    seed: tuple[int, ...]  # the last number is that of the copy, 0 for the original


def fit_trees(
    images: Sequence[Image],
    masks: Sequence[Mask],
    extras: Sequence[Float32 | None],
    bank: Bank,
    recipe: Recipe,
    groups: Sequence[Any],
    seed: int = 0,
    place: Executor = ONE_THREAD,
    progress: Progress | None = None,
    guesses: Sequence[Float32] | None = None,
    cache: Cache | None = None,
) -> tuple[Boosted, Sequence[Answers]]:
    """Fit the trees of all stages for T questions.

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
    cache : Cache, optional
        Keeps the rows and logits of every image, and the trees of every fold.

    Returns
    -------
    Boosted of all questions, and for each image its out-of-fold logits by question and stage,
    (h, w) float32; guesses come before those of the first stage
    """
    cache, small = cache or Cache(), partial(shrink, scale=bank.scale)
    items = make_items(
        mapped(small, images),
        mapped(partial(shrink_labels, scale=bank.scale), masks),
        mapped(small, extras),
        [None] * len(images) if guesses is None else mapped(small, guesses),
        make_folds(groups, recipe.folds, seed),
        recipe.copies,
        seed,
    )
    quota = max(2, recipe.rows // len(items))
    drawn = [DrawnRows.of(item, quota) for item in items]
    every, folds = range(len(items)), range(-1, 1 + max(one.fold for one in drawn))  # -1: none
    originals = every[:: 1 + recipe.copies]
    # Steps of progress: one for each image, and for trees as many as images take the same time.
    pixels = sum(one.pixels for one in drawn)
    each = DESCRIBE[bank.kind] * pixels / len(drawn)
    weight = max(1, round(forest_seconds(recipe, pixels, masks[0].shape[2]) / each))
    steps = recipe.stages * (len(items) + weight * len(folds)) + len(originals)
    counter = Counter(progress, steps)

    held = place.hold(items)
    # Of each stage: the place of an item, and logits by place, as they travel.
    known: list[tuple[dict[int, int], Sequence[Any]]] = []

    def seen(i: int) -> tuple[Any, ...]:
        return held[i], [logits[places[i]] for places, logits in known], drawn[i].index

    rows = map_cached(
        partial(_first_rows, bank), seen, every, place, cache, ROWS, counter, "describe images"
    )
    grower = MultiTargetTrees([one.answers for one in drawn], [one.counts for one in drawn], recipe)
    grower.add(list(rows), place.threads)
    stages: list[Trees] = []
    maps: list[Sequence[Float32]] = []  # logits of the originals, by stage
    for stage in range(recipe.stages):
        (sent,) = place.hold([grower])

        def without(fold: int, sent: Any = sent, seed: int = seed + stage) -> Any:
            return sent, [i for i in every if drawn[i].fold != fold], seed

        here, what = cache.within(f"stage{stage + 1}"), f"grow trees, stage {stage + 1}"
        trees = map_cached(grow_on, without, folds, place, here, FOREST, counter, what, weight)
        grown = dict(zip(folds, place.hold(trees)))

        def with_trees(i: int, grown: dict[int, Any] = grown) -> Any:
            return *seen(i), grown[drawn[i].fold]

        last = stage + 1 == recipe.stages
        wanted = originals if last else every
        guess = partial(_guess, bank, recipe.step, last)
        what = "predict out of fold"
        found = map_cached(guess, with_trees, wanted, place, here, GUESS, counter, what)
        places, logits = {i: at for at, i in enumerate(wanted)}, mapped(itemgetter(0), found)
        known.append((places, place.by_reference(logits)))
        maps.append(taken(logits, [places[i] for i in originals]))
        stages.append(trees[0])
        if not last:
            grower.add([new for _, new in found if new is not None], place.threads)
    shapes = [mask.shape[:2] for mask in masks]  # masks are smaller than their images
    first = [None] * len(images) if guesses is None else guesses
    answers = mapped(partial(_at_full_size, bank.scale), shapes, first, *maps)
    return Boosted(bank, recipe.step, tuple(stages)), answers


@dataclass(frozen=True)
class DrawnRows:
    """What stays in memory of an item: where its rows are, their answers, and a few facts."""

    index: Indices
    answers: Mask  # (rows, questions)
    counts: Indices  # pixels with the answers 0 and 1, (questions, 2)
    fold: int
    pixels: int

    @staticmethod
    def of(item: Item, quota: int) -> "DrawnRows":
        """Draw up to `quota` rows of an item."""
        labels = item.labels
        index = draw_rows(labels, quota, item.seed)
        answers = labels.reshape(-1, labels.shape[2])[index]
        counts = np.stack([(labels == k).sum(axis=(0, 1)) for k in (0, 1)], axis=1)
        return DrawnRows(index, answers, counts, item.fold, labels.shape[0] * labels.shape[1])


def _at_full_size(
    scale: int, shape: tuple[int, int], guess: Float32 | None, *stages: Float32
) -> Answers:
    """Return the logits of an image at its size; a guess comes first, as it was given."""
    made = [enlarge(logits, scale, shape) for logits in stages]
    if guess is not None:
        made.insert(0, np.moveaxis(guess, -1, 0))
    return [list(each) for each in zip(*made)]


def _first_rows(bank: Bank, given: Any) -> Float32:
    item, maps, index = given
    _, base, context = _described(bank, item, maps)
    return sampled(base, [context], [index])[0]


def _guess(bank: Bank, step: int, last: bool, given: Any) -> Guess:
    """Return the item's logits, and its rows of their context for the next stage."""
    item, maps, index, trees = given
    picture, base, context = _described(bank, item, maps)
    (logits,) = logits_of([trees], base, [context], step)
    if last:
        return logits, None
    return logits, _context(bank, [logits], picture).rows(index)


def _described(bank: Bank, item: Item, maps: Sequence[Float32]) -> tuple[Picture, Stack, Stack]:
    """Return the picture of an item, its columns, and those of the context of its logits so far."""
    picture = Picture(item.image)
    if item.guess is not None:
        maps = [np.ascontiguousarray(np.moveaxis(item.guess, -1, 0)), *maps]
    return picture, bank.stack(picture, item.extra), _context(bank, maps, picture)


def _context(bank: Bank, maps: Sequence[Float32], picture: Picture) -> Stack:
    stack = Stack(picture.shape)
    for logits in maps:
        for logit in logits:
            add_context(stack, logit, picture, bank.kind)
    return stack


def shrink_labels(labels: Mask, scale: int) -> Mask:
    """Return the label in the middle of each scale x scale block; rows and columns as `shrink`."""
    index = [
        np.minimum(np.arange(0, size, scale) + scale // 2, size - 1) for size in labels.shape[:2]
    ]
    return labels[np.ix_(*index)]


def make_items(
    images: Sequence[Image],
    masks: Sequence[Mask],
    extras: Sequence[Float32 | None],
    guesses: Sequence[Float32 | None],
    fold: npt.NDArray[np.intp],
    copies: int,
    seed: int,
) -> Sequence[Item]:
    """Return the originals, each followed by its turned and contrast-jittered copies."""
    numbers = [divmod(number, 1 + copies) for number in range(len(images) * (1 + copies))]
    whose = [i for i, _ in numbers]
    given = (taken(part, whose) for part in (images, masks, extras, guesses))
    return mapped(partial(_item, seed), numbers, [int(fold[i]) for i in whose], *given)


def _item(
    seed: int,
    number: tuple[int, int],
    fold: int,
    image: Image,
    labels: Mask,
    extra: Float32 | None,
    guess: Float32 | None,
) -> Item:
    """Return copy k of image i; the original is copy 0."""
    i, k = number
    if k == 0:
        return Item(image, labels, extra, guess, fold, (seed, 2, i, 0))
    rng = np.random.default_rng([seed, 3, i])
    for _ in range(k):  # the draws of the copies before it come first
        turns, mirror = int(rng.integers(1, 4)), bool(rng.integers(2))
        gain, power = np.exp(rng.uniform(-0.2, 0.2, 2)).astype(np.float32)
    jittered = np.clip(gain * image**power, 0, 1).astype(np.float32)
    a, b, c, d = (_turn(part, turns, mirror) for part in (jittered, labels, extra, guess))
    return Item(a, b, c, d, fold, (seed, 2, i, k))


def _turn(array: Any, turns: int, mirror: bool) -> Any:
    if array is None:
        return None
    turned = np.rot90(array, turns)
    return np.ascontiguousarray(turned[::-1] if mirror else turned)


def draw_rows(labels: Mask, quota: int, seed: Sequence[int]) -> Indices:
    """Return row-major indices of up to `quota` pixels of labels (h, w, T), sorted; none is void.

    As many are drawn of each set of answers as there are; what one has too few of, others give.
    """
    rng = np.random.default_rng(list(seed))
    flat = labels.reshape(-1, labels.shape[2])
    known = np.flatnonzero(flat[:, 0] <= 1)
    packed = np.packbits(flat[known], axis=1)
    kinds = np.unique(packed.view(f"V{packed.shape[1]}")[:, 0], return_inverse=True)[1]
    sets = [known[kinds == k] for k in range(kinds.max(initial=-1) + 1)]
    # Sets that are smaller than their share come first: what they do not use, the others share.
    share = -(-quota // max(len(sets), 1))
    order = sorted(range(len(sets)), key=lambda k: (min(len(sets[k]), share), -k))
    counts, left = {}, quota
    for rest, k in zip(range(len(sets), 0, -1), order):
        counts[k] = min(len(sets[k]), left // rest)
        left -= counts[k]
    drawn = [rng.choice(s, counts[k], replace=False) for k, s in enumerate(sets)]
    return np.sort(np.concatenate([*drawn, np.zeros(0, np.int64)])).astype(np.int64)


def forest_seconds(recipe: Recipe, pixels: float, questions: int = 1) -> float:
    """Return what the trees of one fold may cost, on rows of so many pixels."""
    return GROW * (5 + questions) * min(recipe.rows, pixels) / 60_000 * recipe.trees / 100


def _rows(_: dict[str, Any], arrays: Arrays) -> Float32:
    return arrays["rows"]


def _forest(_: dict[str, Any], arrays: Arrays) -> Trees:
    return Trees.of_arrays(arrays)


def _read_guess(_: dict[str, Any], arrays: Arrays) -> Guess:
    return arrays["logits"], arrays.get("rows")


# How the work is kept: rows of an image, trees without a fold, logits of an image. A worker of a
# cluster receives the names of the functions that read them, so these are no lambdas.
ROWS: Form[int, Float32] = Form(lambda i: f"rows{i}", lambda rows: ({}, {"rows": rows}), _rows)
FOREST: Form[int, Trees] = Form(
    lambda fold: f"trees-{'all' if fold < 0 else fold}",
    lambda trees: ({}, trees.arrays()),
    _forest,
)
GUESS: Form[int, Guess] = Form(
    lambda i: f"logits{i}",
    lambda made: ({}, {"logits": made[0]} | ({} if made[1] is None else {"rows": made[1]})),
    _read_guess,
)
