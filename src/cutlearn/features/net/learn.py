"""Nets of every fold, trained at the same time; their logits of images that they did not see.

In: images, masks of several questions, folds. Out: `Nets`, whose mean answers for new images, and
the logits of every training image by the net that never saw it or its group. Nothing is refitted:
the out-of-fold logits come free, and new images get the mean of nets that are each as good. A model
file has the nets as plain arrays under "net0.", "net1.", .., and a short description.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from cutlearn.arrays import VOID, Float32, Image, Mask
from cutlearn.checks import whole_number
from cutlearn.errors import InputError
from cutlearn.features.describe import Bank, Picture
from cutlearn.features.net.body import NetShape, Pass, Weights
from cutlearn.features.net.crops import Crops, Lesson, Sight, canvas_of, turned, turned_back
from cutlearn.features.net.train import NetTrainer, Restorer, unannotated_lessons
from cutlearn.images.resize import resize_channels
from cutlearn.loaded import chained, mapped, taken
from cutlearn.run.cache import Cache, Entry, Form, map_cached
from cutlearn.run.executor import ONE_THREAD, Executor, one_thread
from cutlearn.run.progress import KEPT, Counter
from cutlearn.store import Arrays

# Micrographs, and photographs with one more level and the mean over the picture.
WIDTHS = {"microscopy": (16, 32, 64, 64), "photograph": (16, 32, 64, 64, 64)}
# Steps between two reports of progress.
ROUND = 10


def _logits(_: dict[str, Any], arrays: Arrays) -> Float32:
    return arrays["logits"]


def _lesson(_: dict[str, Any], arrays: Arrays) -> Lesson:
    ones = tuple(arrays[f"ones{k}"] for k in range(len(arrays) - 2))
    return Lesson(arrays["planes"], arrays["labels"], ones)


# What a description may ask for; the arrays must be in the file, too.
MOST = {"count": 1000, "outputs": 65_536, "levels": 8, "width": 65_536, "inputs": 65_536}
# How the out-of-fold logits of an image are kept; and what a net sees of it, if that is larger than
# memory.
LOGITS: Form[int, Float32] = Form(
    lambda i: f"logits{i}",
    lambda found: ({}, {"logits": found}),
    _logits,
)
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

    def reports(self, nets: int, images: int, color: bool) -> int:
        """Return the number of progress reports of so many nets."""
        rounds = nets * -(-self.steps // ROUND) + (-(-self.restore // ROUND) if color else 0)
        return rounds + images


@dataclass(frozen=True)
class Nets:
    """Trained nets of one shape, and what they look at."""

    sight: Sight
    shape: NetShape
    weights: tuple[Weights, ...]

    def logits(self, image: Image, extra: Float32 | None = None) -> Float32:
        """Return the mean of all nets' logits of a new image, (T, h, w) float32."""
        return answer_of(self.sight, self.shape, self.weights, image, extra)

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return arrays by name, and what they do not contain, as JSON can hold it."""
        sight, shape = self.sight, self.shape
        arrays: Arrays = {"sight.mean": sight.mean, "sight.deviation": sight.deviation}
        for k, weights in enumerate(self.weights):
            arrays |= {f"net{k}.{name}": array for name, array in weights.items()}
        plain = {
            "count": len(self.weights),
            "outputs": shape.outputs,
            "widths": list(shape.widths),
            "whole": shape.whole,
            "color": sight.color,
        }
        return arrays, {"net_shape": plain}

    @staticmethod
    def of_arrays(arrays: Arrays, described: dict[str, Any], bank: Bank) -> "Nets":
        """Invert `to_arrays`; damage is refused."""

        def checked(name: str, size: tuple[int, ...]) -> Float32:
            array = arrays.get(name)
            if array is None or array.shape != size or array.dtype != np.float32:
                raise InputError(
                    f"nets: the array {name!r} is missing or not of shape {size} in float32. "
                    "Refit the model."
                )
            if not np.isfinite(array).all():
                raise InputError(f"nets: {name!r} holds a number that is not finite. Refit.")
            return np.ascontiguousarray(array)

        plain = described["net_shape"]
        count = whole_number("nets: count", plain["count"], 1, MOST["count"])
        widths = tuple(whole_number("nets: width", w, 1, MOST["width"]) for w in plain["widths"])
        whole_number("nets: levels", len(widths), 1, MOST["levels"])
        mean, deviation = (
            checked(name, arrays[name].shape) for name in ("sight.mean", "sight.deviation")
        )
        if mean.ndim != 1 or deviation.shape != mean.shape or not (deviation > 0).all():
            raise InputError("nets: the scale of their inputs is damaged. Refit the model.")
        sight = Sight(bank, bool(plain["color"]), mean, deviation)
        outputs = whole_number("nets: outputs", plain["outputs"], 1, MOST["outputs"])
        whole_number("nets: inputs", sight.inputs, 1, MOST["inputs"])
        shape = NetShape(sight.inputs, outputs, widths, bool(plain["whole"]))
        sizes = shape.sizes(folded=True)
        weights = (
            {name: checked(f"net{k}.{name}", size) for name, size in sizes.items()}
            for k in range(count)
        )
        return Nets(sight, shape, tuple(weights))


def answer_of(
    sight: Sight,
    shape: NetShape,
    nets: Sequence[Weights],
    image: Image,
    extra: Float32 | None,
) -> Float32:
    """Return the mean logits of some nets over mirrored or turned views of an image, (T, h, w)."""
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
    masks: Sequence[Mask],
    extras: Sequence[Float32 | None],
    bank: Bank,
    recipe: NetRecipe,
    fold: npt.NDArray[np.intp],
    seed: int = 0,
    place: Executor = ONE_THREAD,
    progress: Callable[[int, int, str], None] | None = None,
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
    counter = Counter(progress, recipe.reports(nets, len(images), sight.color))
    first = None
    if sight.color and recipe.restore:
        pictures = chained(lessons, unannotated_lessons(sight, unannotated, shape.outputs))
        restorer = Restorer(
            shape, sight, pictures, canvas, recipe.crops, recipe.restore, (seed, 5, nets)
        )
        work = "restore pictures"
        (first,) = _trained([restorer], recipe.restore, place, parts, counter, "restorer", work)
    # Slices without annotation are context of others only.
    teaches = np.array([bool((mask != VOID).any()) for mask in masks])
    trainers = []
    for k in range(nets):
        others = np.flatnonzero((fold != k) & teaches)
        chosen = others if len(others) else np.flatnonzero(fold != k)
        crops = Crops(sight, taken(lessons, chosen.tolist()), canvas, recipe.crops)
        trainers.append(NetTrainer(shape, crops, recipe.steps, (seed, 5, k), first))
    weights = _trained(trainers, recipe.steps, place, parts, counter, "net", "train nets")
    every, what, held = range(len(images)), "predict out of fold", place.hold(weights)
    seen, more = place.by_reference(images), place.by_reference(extras)
    maps = map_cached(
        partial(_out_of_fold, sight, shape), lambda i: (held[fold[i]], seen[i], more[i]),
        every, place, parts, LOGITS, counter, what,
    )  # fmt: skip
    return Nets(sight, shape, tuple(weights)), maps


def _out_of_fold(sight: Sight, shape: NetShape, given: Any) -> Float32:
    weights, image, extra = given
    return answer_of(sight, shape, [weights], image, extra)


def _trained(
    trainers: Sequence[NetTrainer],
    steps: int,
    place: Executor,
    cache: Cache,
    counter: Counter,
    name: str,
    work: str,
) -> list[Weights]:
    """Take all steps of all nets, some of one at a time; return their last weights.

    What changes in a net comes back after every round and is kept under its name and number; no
    net waits for another.
    """
    ends = [*range(ROUND, steps, ROUND), steps]
    for k, trainer in enumerate(trainers):
        if (found := cache.find(f"{name}{k}")) is not None:
            trainer.restore(*found)
            for _ in range(sum(end <= trainer.optimiser.step for end in ends)):
                counter.add(KEPT)
    held = place.hold(trainers)
    late = [k for k, trainer in enumerate(trainers) if trainer.optimiser.step < steps]

    def job(k: int) -> Job:
        step = trainers[k].optimiser.step
        return held[k], trainers[k].state(), next(end for end in ends if end > step) - step

    def took(index: int, state: Entry) -> Job | None:
        k = late[index]
        trainers[k].restore(*state)
        cache.keep(f"{name}{k}", *trainers[k].state())
        counter.add(work)
        return job(k) if trainers[k].optimiser.step < steps else None

    place.rounds(_advanced, [job(k) for k in late], took, patient=False)
    states = [trainer.state() for trainer in trainers]
    return place.map(_settled, zip(held, states), patient=False)


# A trainer where it is, its state, and the steps that it takes next.
Job = tuple[Any, Entry, int]


def _advanced(given: Job) -> Entry:
    trainer, state, steps = given
    trainer.restore(*state)
    trainer.advance(steps)
    new: Entry = trainer.state()
    return new


def _settled(given: tuple[Any, Entry]) -> Weights:
    trainer, state = given
    trainer.restore(*state)
    weights: Weights = trainer.settled()
    return weights
