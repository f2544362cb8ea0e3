"""Nets of every fold, trained side by side; what they say of images that they did not see.

In: images, masks of several questions, folds. Out: `Nets`, whose mean answers for new images, and
the logits of every training image by the net that never saw it or its group. Nothing is refitted:
the out-of-fold logits come free, and new images get the mean of nets that are each as good.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from cutlearn.arrays import VOID, AnyArray, Float32, Image
from cutlearn.checks import whole_number
from cutlearn.errors import InputError
from cutlearn.features.describe import Bank, Picture
from cutlearn.features.net.body import NetShape, Pass, Weights
from cutlearn.features.net.crops import Crops, Labels, Lesson, Sight, canvas_of, turned, turned_back
from cutlearn.features.net.train import Restorer, Trainer, unannotated_lessons
from cutlearn.images.resize import resize_channels
from cutlearn.loaded import chained, mapped, taken
from cutlearn.run.cache import Cache, Entry, Form, map_cached
from cutlearn.run.executor import ONE_THREAD, Executor, one_thread
from cutlearn.run.progress import KEPT, Counter

Progress = Callable[[int, int, str], None]
# Micrographs, and photographs with one more level and the mean over the picture.
WIDTHS = {"microscopy": (16, 32, 64, 64), "photograph": (16, 32, 64, 64, 64)}
# Steps after which progress is told.
ROUND = 10


def _logits(_: dict[str, Any], arrays: dict[str, Any]) -> Float32:
    found: Float32 = arrays["logits"]
    return found


def _lesson(_: dict[str, Any], arrays: dict[str, Any]) -> Lesson:
    ones = tuple(arrays[f"ones{k}"] for k in range(len(arrays) - 2))
    return Lesson(arrays["planes"], arrays["labels"], ones)


# How the out-of-fold logits of an image are kept.
LOGITS: Form[int, Float32] = Form(
    lambda i: f"logits{i}",
    lambda found: ({}, {"logits": found}),
    _logits,
)
# How what a net sees of an image is kept, where it is larger than memory.
LESSONS: Form[int, Lesson] = Form(
    lambda i: f"lesson{i}",
    lambda lesson: ({}, {"planes": lesson.planes, "labels": lesson.labels}
                    | {f"ones{k}": ones for k, ones in enumerate(lesson.ones)}),
    _lesson,
)  # fmt: skip


@dataclass(frozen=True)
class NetRecipe:
    """How nets are trained; the figures of docs/decisions/0016-a-net-without-a-framework.md.

    Attributes
    ----------
    steps : int
        Batches that a net learns from.
    crops : int
        Crops in a batch.
    folds : int
        Parts of the images, and nets; at most one for each group.
    restore : int
        Batches that are restored before that, once for all nets, where pictures have colours.
    """

    steps: int = 300
    crops: int = 4
    folds: int = 3
    restore: int = 300

    def __post_init__(self) -> None:
        for name, least, most in (("steps", 1, 100_000), ("crops", 1, 1024), ("folds", 2, 1000),
                                  ("restore", 0, 100_000)):  # fmt: skip
            whole_number(f"net: {name}", getattr(self, name), least, most)

    def told(self, nets: int, images: int, color: bool) -> int:
        """Steps of the progress of so many nets."""
        rounds = nets * -(-self.steps // ROUND) + (-(-self.restore // ROUND) if color else 0)
        return rounds + images


@dataclass(frozen=True)
class Nets:
    """Trained nets of one shape, and what they look at."""

    sight: Sight
    shape: NetShape
    weights: tuple[Weights, ...]

    def logits(self, image: Image, extra: Float32 | None = None) -> Float32:
        """The mean of all nets' logits of a new image, (T, h, w) float32."""
        return answer_of(self.sight, self.shape, self.weights, image, extra)


def answer_of(
    sight: Sight,
    shape: NetShape,
    nets: Sequence[Weights],
    image: Image,
    extra: Float32 | None,
) -> Float32:
    """Mean logits of some nets over mirrored or turned views of an image, (T, h, w) float32."""
    planes = sight.see(Picture(image), extra)
    h, w = planes.shape[1:]
    pad = [(0, 0), (0, -h % shape.block), (0, -w % shape.block)]
    planes = np.pad(planes, pad, mode="symmetric")
    views = [(k, False) for k in range(4)] if sight.turns else [(0, False), (0, True)]
    total = np.zeros((shape.outputs, *planes.shape[1:]), np.float32)
    with one_thread():
        for view in views:
            seen = np.ascontiguousarray(turned(planes, *view))[:, None]
            for weights in nets:
                total += turned_back(Pass(shape, weights, True).logits(seen)[:, 0], *view)
    mean = np.asarray(total[:, :h, :w] / np.float32(len(views) * len(nets)), np.float32)
    enlarged = resize_channels(np.moveaxis(mean, 0, -1), (image.shape[0], image.shape[1]))
    return np.ascontiguousarray(np.moveaxis(enlarged, -1, 0))


def fit_nets(
    images: Sequence[Image],
    masks: Sequence[Labels],
    extras: Sequence[Float32 | None],
    bank: Bank,
    recipe: NetRecipe,
    fold: npt.NDArray[np.intp],
    seed: int = 0,
    place: Executor = ONE_THREAD,
    progress: Progress | None = None,
    cache: Cache | None = None,
    unannotated: Sequence[tuple[Image, Float32 | None]] = (),
) -> tuple[Nets, Sequence[Float32]]:
    """Train a net without each fold.

    Parameters
    ----------
    images : n images, (h, w, 3) or (h, w) float32
    masks : n arrays (h, w, T) uint8 of 0, 1 and 255 (void: without weight)
    extras : n arrays (h, w, e) float32, or None each
    fold : (n,) fold of every image, from 0
    seed : int
        All draws depend on it and on the fold, never on threads.
    cache : Cache, optional
        Keeps every net after each round of steps, and the logits of every image.
    unannotated : pairs of an image and its extra array or None
        Are restored with the others before any net sees a label.

    Returns
    -------
    Nets, and of each image its out-of-fold logits, (T, h, w) float32
    """
    sight = Sight.of(bank, images, extras)
    widths = WIDTHS[bank.kind]
    shape = NetShape(sight.inputs, masks[0].shape[2], widths, bank.kind == "photograph")
    parts = cache or Cache()
    lessons = parts.spilled(mapped(partial(Lesson.of, sight), images, masks, extras), LESSONS)
    if place.remote and place.by_reference(lessons) is lessons:
        lessons = list(lessons)  # trainers travel with what they learn from
    canvas = canvas_of(sight, lessons, shape.block)
    nets = 1 + int(fold.max())
    counter = Counter(progress, recipe.told(nets, len(images), sight.color))
    first = None
    if sight.color and recipe.restore:
        pictures = chained(lessons, unannotated_lessons(sight, unannotated, shape.outputs))
        restorer = Restorer(
            shape, sight, pictures, canvas, recipe.crops, recipe.restore, (seed, 5, nets)
        )
        work = "restore pictures"
        (first,) = _trained([restorer], recipe.restore, place, parts, counter, "restorer", work)
    # Slices that nobody has annotated are looked at from beside, and teach nothing themselves.
    teaches = np.array([bool((mask != VOID).any()) for mask in masks])
    trainers = []
    for k in range(nets):
        others = np.flatnonzero((fold != k) & teaches)
        chosen = others if len(others) else np.flatnonzero(fold != k)
        crops = Crops(sight, taken(lessons, chosen.tolist()), canvas, recipe.crops)
        trainers.append(Trainer(shape, crops, recipe.steps, (seed, 5, k), first))
    weights = _trained(trainers, recipe.steps, place, parts, counter, "net", "train nets")
    every, what, held = range(len(images)), "predict out of fold", place.hold(weights)
    seen, beside = place.by_reference(images), place.by_reference(extras)
    maps = map_cached(
        partial(_out_of_fold, sight, shape), lambda i: (held[fold[i]], seen[i], beside[i]),
        every, place, parts, LOGITS, counter, what,
    )  # fmt: skip
    return Nets(sight, shape, tuple(weights)), maps


def _out_of_fold(sight: Sight, shape: NetShape, given: Any) -> Float32:
    weights, image, extra = given
    return answer_of(sight, shape, [weights], image, extra)


def _trained(
    trainers: Sequence[Trainer],
    steps: int,
    place: Executor,
    cache: Cache,
    counter: Counter,
    name: str,
    work: str,
) -> list[Weights]:
    """Take all steps of all nets, some of one at a time; give their last weights.

    What changes in a net comes back after every round and is kept under its name and number; no
    net waits for another.
    """
    ends = [*range(ROUND, steps, ROUND), steps]
    for k, trainer in enumerate(trainers):
        if (found := cache.find(f"{name}{k}")) is not None:
            trainer.take(*found)
            for _ in range(sum(end <= trainer.optimiser.step for end in ends)):
                counter.add(KEPT)
    held = place.hold(trainers)
    late = [k for k, trainer in enumerate(trainers) if trainer.optimiser.step < steps]

    def job(k: int) -> Job:
        step = trainers[k].optimiser.step
        return held[k], trainers[k].state(), next(end for end in ends if end > step) - step

    def took(place: int, state: Entry) -> Job | None:
        k = late[place]
        trainers[k].take(*state)
        cache.keep(f"{name}{k}", *trainers[k].state())
        counter.add(work)
        return job(k) if trainers[k].optimiser.step < steps else None

    executor = place
    executor.rounds(_advanced, [job(k) for k in late], took, patient=False)
    states = [trainer.state() for trainer in trainers]
    return executor.map(_settled, zip(held, states), patient=False)


# A trainer where it is, its state, and the steps that it takes next.
Job = tuple[Any, Entry, int]


def _advanced(given: Job) -> Entry:
    trainer, state, steps = given
    trainer.take(*state)
    trainer.advance(steps)
    new: Entry = trainer.state()
    return new


def _settled(given: tuple[Any, Entry]) -> Weights:
    trainer, state = given
    trainer.take(*state)
    weights: Weights = trainer.settled()
    return weights


Arrays = dict[str, AnyArray]
# What a description may ask for; the arrays must be in the file, too.
MOST = {"count": 1000, "outputs": 65_536, "levels": 8, "width": 65_536, "inputs": 65_536}


def arrays_of_nets(nets: Nets) -> Arrays:
    """Name -> array, for a model file."""
    arrays: Arrays = {"sight.mean": nets.sight.mean, "sight.deviation": nets.sight.deviation}
    for k, weights in enumerate(nets.weights):
        arrays |= {f"net{k}.{name}": array for name, array in weights.items()}
    return arrays


def described_nets(nets: Nets) -> dict[str, Any]:
    """What the arrays do not tell, as JSON can hold it."""
    shape = nets.shape
    return {
        "net_shape": {
            "count": len(nets.weights),
            "outputs": shape.outputs,
            "widths": list(shape.widths),
            "whole": shape.whole,
            "color": nets.sight.color,
        }
    }


def read_nets(arrays: Arrays, described: dict[str, Any], bank: Bank) -> Nets:
    """The inverse of `arrays_of_nets` and `described_nets`; damage is refused."""
    told = described["net_shape"]
    count = whole_number("nets: count", told["count"], 1, MOST["count"])
    widths = tuple(whole_number("nets: width", w, 1, MOST["width"]) for w in told["widths"])
    whole_number("nets: levels", len(widths), 1, MOST["levels"])
    mean, deviation = (
        _checked(arrays, f"sight.{name}", arrays[f"sight.{name}"].shape)
        for name in ("mean", "deviation")
    )
    if mean.ndim != 1 or deviation.shape != mean.shape or not (deviation > 0).all():
        raise InputError("nets: the scale of their inputs is damaged. Refit the model.")
    sight = Sight(bank, bool(told["color"]), mean, deviation)
    outputs = whole_number("nets: outputs", told["outputs"], 1, MOST["outputs"])
    whole_number("nets: inputs", sight.inputs, 1, MOST["inputs"])
    shape = NetShape(sight.inputs, outputs, widths, bool(told["whole"]))
    sizes = shape.sizes(folded=True)
    weights = tuple(
        {name: _checked(arrays, f"net{k}.{name}", size) for name, size in sizes.items()}
        for k in range(count)
    )
    return Nets(sight, shape, weights)


def _checked(arrays: Arrays, name: str, size: tuple[int, ...]) -> Float32:
    array = arrays.get(name)
    if array is None or array.shape != size or array.dtype != np.float32:
        raise InputError(
            f"nets: the array {name!r} is missing or not of shape {size} in float32. "
            "Refit the model."
        )
    if not np.isfinite(array).all():
        raise InputError(f"nets: {name!r} holds a number that is not finite. Refit the model.")
    return np.ascontiguousarray(array)
