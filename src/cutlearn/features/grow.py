"""Growing trees out of fold: honest node features from a handful of images.

In: images, masks (0, 1, 255 = void), a `Bank`. Out: `Boosted` (refitted on all images, for new
ones) and, for each training image, the logits of trees that never saw it. Rows are drawn
class-balanced in each image; the prior comes back as one shift of the logit. An image is described
once in every pass over the images: before the first trees, and after those of each stage. Only the
drawn rows need be in memory: images may be loaded one by one, and logits stay on a cache then.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from cutlearn.checks import instance, whole_number
from cutlearn.features.boosted import Answers, Boosted, Recipe
from cutlearn.features.columns import Stack, sampled
from cutlearn.features.context import add_context
from cutlearn.features.describe import Bank, Image, Picture, shrink
from cutlearn.features.filters import enlarge
from cutlearn.features.folds import make_folds
from cutlearn.features.planes import Float32
from cutlearn.features.together import Together, grow_on
from cutlearn.features.trees import Trees, logits_of
from cutlearn.loaded import mapped, taken
from cutlearn.run.cache import Cache, Entry, Form, map_cached
from cutlearn.run.executor import ONE_THREAD, Executor
from cutlearn.run.progress import Counter

Progress = Callable[[int, int, str], None]
Labels = npt.NDArray[np.uint8]
# Seconds of 100 trees on 60,000 rows: this times 5 + T for T questions; and of the columns of a
# pixel. Measured, rounded up.
GROW = 0.09
DESCRIBE = {"photograph": 2e-6, "microscopy": 1.2e-6}
# The logits of an item, (T, h, w), and its rows of their context for the next stage.
Guess = tuple[Float32, Float32 | None]


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
    instance("recipe", recipe, Recipe)
    whole_number("random_state", seed, 0, 2**32 - 1)  # scikit-learn's own bound
    small = partial(shrink, scale=bank.scale)
    items = make_items(
        mapped(small, images),
        mapped(partial(shrink_labels, scale=bank.scale), masks),
        mapped(small, extras),
        [None] * len(images) if guesses is None else mapped(small, guesses),
        make_folds(groups, recipe.folds, seed),
        recipe.copies,
        seed,
    )
    run = _Growing(items, bank, recipe, seed)
    model = run.fit(place, Counter(progress, run.steps), cache or Cache())
    # Masks have the shape of their images, and are smaller.
    shapes = [(mask.shape[0], mask.shape[1]) for mask in masks]
    first = [None] * len(images) if guesses is None else guesses
    originals = range(0, len(items), run.each)
    stages = [run.logits(stage, originals) for stage in range(recipe.stages)]
    return model, mapped(partial(_answers, bank.scale), shapes, first, *stages)


@dataclass(frozen=True)
class Drawn:
    """What stays in memory of an item: where its rows are, their answers, and a few facts."""

    index: npt.NDArray[np.int64]
    answers: Labels  # (rows, questions)
    counts: npt.NDArray[np.int64]  # of all pixels, (questions, 2)
    fold: int
    original: bool
    pixels: int

    @staticmethod
    def of(item: Item, quota: int) -> "Drawn":
        """Draw up to `quota` rows of an item."""
        index = draw_rows(item.labels, quota, item.seed)
        answers = item.labels.reshape(-1, item.labels.shape[2])[index]
        pixels = item.labels.shape[0] * item.labels.shape[1]
        return Drawn(index, answers, _count(item.labels), item.fold, item.original, pixels)


class _Growing:
    """Trees of all questions, stage by stage. Lists are by item."""

    def __init__(self, items: Sequence[Item], bank: Bank, recipe: Recipe, seed: int) -> None:
        self.items, self.bank, self.recipe, self.seed = items, bank, recipe, seed
        quota = max(2, recipe.rows // len(items))
        self.drawn = [Drawn.of(item, quota) for item in items]
        self.n_folds = 1 + max(one.fold for one in self.drawn)
        self.each = 1 + recipe.copies  # items of an image, the original first
        # What each stage has found: the place of an item, and logits by place.
        self.found: list[tuple[dict[int, int], Sequence[Float32]]] = []

    @property
    def weight(self) -> int:
        """How many images could be described while the trees of a fold grow, about."""
        pixels = sum(one.pixels for one in self.drawn)
        image = DESCRIBE[self.bank.kind] * pixels / len(self.drawn)
        questions = self.drawn[0].answers.shape[1]
        return max(1, round(forest_seconds(self.recipe, pixels, questions) / image))

    @property
    def steps(self) -> int:
        """Finished images, and trees by their weight, that `fit` will tell of."""
        originals = sum(one.original for one in self.drawn)
        trees = self.recipe.stages * (self.n_folds + 1)
        return self.recipe.stages * len(self.items) + originals + self.weight * trees

    def fit(self, place: Executor, counter: Counter, cache: Cache) -> Boosted:
        """Grow all stages; `logits` then gives those out of fold."""
        drawn = self.drawn
        grower = Together(
            [one.answers for one in drawn], [one.counts for one in drawn], self.recipe
        )
        every = list(range(len(drawn)))
        what = "describe images"
        # Images are looked at once before the first trees, and once in every stage.
        held = place.hold(self.items)

        def seen(i: int) -> Seen:
            return held[i], [said[places[i]] for places, said in known], drawn[i].index

        known: list[tuple[dict[int, int], Sequence[Any]]] = []  # as it travels
        rows_of = partial(_first_rows, self.bank)
        threads = place.threads
        rows_seen = map_cached(rows_of, seen, every, place, cache, ROWS, counter, what)
        grower.add(list(rows_seen), threads)
        stages: list[Trees] = []
        for stage in range(self.recipe.stages):
            (rows,) = place.hold([grower])

            def without(fold: int, rows: Any = rows, seed: int = self.seed + stage) -> Any:
                return rows, [i for i in every if drawn[i].fold != fold], seed

            folds = list(range(-1, self.n_folds))  # -1 leaves none out
            here, what = cache.within(f"stage{stage + 1}"), f"grow trees, stage {stage + 1}"
            trees = map_cached(
                grow_on, without, folds, place, here, FOREST, counter, what, self.weight
            )
            grown = dict(zip(folds, place.hold(trees)))
            last = stage + 1 == self.recipe.stages

            def with_trees(i: int, grown: dict[int, Any] = grown) -> Any:
                return *seen(i), grown[drawn[i].fold]

            wanted = [i for i in every if drawn[i].original or not last]
            what = "predict out of fold"
            guess = partial(_guess, self.bank, self.recipe.step, last)
            found = map_cached(guess, with_trees, wanted, place, here, GUESS, counter, what)
            logits, places = mapped(itemgetter(0), found), {i: at for at, i in enumerate(wanted)}
            self.found.append((places, logits))
            known.append((places, place.by_reference(logits)))
            stages.append(trees[0])
            if not last:
                grower.add([new for _, new in found if new is not None], threads)
        return Boosted(self.bank, self.recipe.step, tuple(stages))

    def logits(self, stage: int, items: Sequence[int]) -> Sequence[Float32]:
        """Out-of-fold logits of some items in a stage, (T, h, w) each."""
        places, found = self.found[stage]
        return taken(found, [places[item] for item in items])


# What is done with an item, its logits beside the guess and the places of its rows, anywhere.
Seen = tuple[Item, list[Float32], npt.NDArray[np.int64]]


def _answers(
    scale: int, shape: tuple[int, int], guess: Float32 | None, *stages: Float32
) -> Answers:
    """The logits of an image at its size, by question and stage; a guess, as it came, is first."""
    made = [enlarge(logits, scale, shape) for logits in stages]
    if guess is not None:
        made.insert(0, np.moveaxis(guess, -1, 0))
    return [list(each) for each in zip(*made)]


def _first_rows(bank: Bank, given: Seen) -> Float32:
    item, maps, index = given
    picture, base = _described(bank, item)
    return sampled(base, [_context(bank, _first(item) + maps, picture)], [index])[0]


def _guess(bank: Bank, step: int, last: bool, given: Any) -> Guess:
    """The item's logits, and its rows of their context for the next stage."""
    item, maps, index, trees = given
    picture, base = _described(bank, item)
    context = _context(bank, _first(item) + maps, picture)
    (logits,) = logits_of([trees], base, [context], step)
    if last:
        return logits, None
    return logits, _context(bank, [logits], picture).rows(index)


def _described(bank: Bank, item: Item) -> tuple[Picture, Stack]:
    picture = Picture(item.image)
    return picture, bank.stack(picture, item.extra)


def _context(bank: Bank, maps: Sequence[Float32], picture: Picture) -> Stack:
    """A stack of the context of what is known of an item so far."""
    stack = Stack(picture.shape)
    for logits in maps:
        for logit in logits:
            add_context(stack, logit, picture, bank.kind)
    return stack


def _first(item: Item) -> list[Float32]:
    """The logits of an item before the first stage: the guess, if there is one."""
    return [] if item.guess is None else [np.ascontiguousarray(np.moveaxis(item.guess, -1, 0))]


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
) -> Sequence[Item]:
    """Originals, each followed by its turned and contrast-jittered copies."""
    numbers = [divmod(number, 1 + copies) for number in range(len(images) * (1 + copies))]
    whose = [i for i, _ in numbers]
    given = (taken(part, whose) for part in (images, masks, extras, guesses))
    return mapped(partial(_item, seed), numbers, [int(fold[i]) for i in whose], *given)


def _item(
    seed: int,
    number: tuple[int, int],
    fold: int,
    image: Image,
    labels: Labels,
    extra: Float32 | None,
    guess: Float32 | None,
) -> Item:
    """Copy k of image i; the original is copy 0."""
    i, k = number
    if k == 0:
        return Item(image, labels, extra, guess, fold, True, (seed, 2, i, 0))
    rng = np.random.default_rng([seed, 3, i])
    for _ in range(k):  # the draws of the copies before it come first
        turns, mirror = int(rng.integers(1, 4)), bool(rng.integers(2))
        gain, power = np.exp(rng.uniform(-0.2, 0.2, 2)).astype(np.float32)
    jittered = np.clip(gain * image**power, 0, 1).astype(np.float32)
    a, b, c, d = (_turn(part, turns, mirror) for part in (jittered, labels, extra, guess))
    return Item(a, b, c, d, fold, False, (seed, 2, i, k))


def _turn(array: Any, turns: int, mirror: bool) -> Any:
    if array is None:
        return None
    turned = np.rot90(array, turns)
    return np.ascontiguousarray(turned[::-1] if mirror else turned)


def draw_rows(labels: Labels, quota: int, seed: Sequence[int]) -> npt.NDArray[np.int64]:
    """Row-major indices of up to `quota` pixels of labels (h, w, T), sorted; none is void.

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
    """What the trees of one fold may cost, on rows of so many pixels."""
    return GROW * (5 + questions) * min(recipe.rows, pixels) / 60_000 * recipe.trees / 100


def _count(labels: Labels) -> npt.NDArray[np.int64]:
    """Pixels with the answers 0 and 1 to each question, (T, 2)."""
    return np.stack([(labels == k).sum(axis=(0, 1)) for k in (0, 1)], axis=1)


def _guess_kept(guess: Guess) -> Entry:
    logits, new = guess
    return {}, {"logits": logits} | ({} if new is None else {"rows": new})


def _rows_again(_: dict[str, Any], arrays: dict[str, Any]) -> Float32:
    rows: Float32 = arrays["rows"]
    return rows


def _trees_again(_: dict[str, Any], arrays: dict[str, Any]) -> Trees:
    return Trees.of_arrays(arrays)


def _guess_again(_: dict[str, Any], arrays: dict[str, Any]) -> Guess:
    return arrays["logits"], arrays.get("rows")


# How the work is kept: rows of an image, trees without a fold, logits of an image.
ROWS: Form[int, Float32] = Form(
    lambda i: f"rows{i}", lambda rows: ({}, {"rows": rows}), _rows_again
)
FOREST: Form[int, Trees] = Form(
    lambda fold: f"trees-{'all' if fold < 0 else fold}",
    lambda trees: ({}, trees.arrays()),
    _trees_again,
)
GUESS: Form[int, Guess] = Form(lambda i: f"logits{i}", _guess_kept, _guess_again)
