"""Sources of logits: what plugs in between images and node features.

A source is fitted on images and masks, gives every training image the logits of models that never
saw it, answers for new images, and is stored as plain arrays. Trees, nets, a net as the first stage
of trees, and both side by side are sources; `SOURCES` names them, and a name from there is what
`Featurizer(features=...)` takes. Adding one means one class and one entry (and a line of help in
`modes`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from cutlearn.arrays import AnyArray, Float32, Image, Mask
from cutlearn.features.boosted import (
    DESCRIBE,
    Boosted,
    answer,
    fit_trees,
    forest_seconds,
    read_questions,
)
from cutlearn.features.describe import Bank, ImageStatistics, Picture
from cutlearn.features.folds import Answers, make_folds
from cutlearn.features.net.crops import CANVAS, SIDE, SQUARE
from cutlearn.features.net.learn import (
    NetRecipe,
    Nets,
    arrays_of_nets,
    described_nets,
    fit_nets,
    read_nets,
)
from cutlearn.features.trees import Recipe
from cutlearn.loaded import mapped
from cutlearn.run.cache import Cache
from cutlearn.run.executor import ONE_THREAD, Executor

Progress = Callable[[int, int, str], None]
# Steps that sources which are fitted one after the other tell of, together.
STEPS = 1000
# Seconds of a step for each pixel of its crops; of a look at a pixel; of reading it. Measured where
# other work ran beside, rounded up.
STEP = {"photograph": 0.62e-6, "microscopy": 0.52e-6}
LOOK, READ = 0.25e-6, 1e-6


@dataclass(frozen=True)
class Task:
    """What a source learns from: checked images and masks of T questions, and how."""

    images: Sequence[Image]
    labels: Sequence[Mask]  # (h, w, T) each
    extras: Sequence[Float32 | None]
    groups: Sequence[int]
    bank: Bank
    recipe: Recipe
    net: NetRecipe
    seed: int = 0
    place: Executor = ONE_THREAD
    progress: Progress | None = None
    cache: Cache = field(default_factory=Cache)  # keeps what is finished
    shapes: tuple[tuple[int, int], ...] = ()  # of the images, looked at once
    unannotated: Sequence[tuple[Image, Float32 | None]] = ()  # images without labels

    def __post_init__(self) -> None:
        if not self.shapes:
            shapes = tuple((image.shape[0], image.shape[1]) for image in self.images)
            object.__setattr__(self, "shapes", shapes)

    def parts(self, costs: Sequence[float]) -> "Parts":
        """Tasks like this one, for sources that are fitted one after the other."""
        return Parts(self, costs)


class Parts:
    """Gives the same task again and again; their progress is that of all, by what each may cost.

    What is finished of each is kept under its number.
    """

    def __init__(self, task: Task, costs: Sequence[float]) -> None:
        self.task, self.costs, self.given = task, costs, 0

    def next(self) -> Task:
        """Give the task of the next part."""
        begin, whole = sum(self.costs[: self.given]), max(sum(self.costs), 1e-9)
        own, told = self.costs[self.given], self.task.progress
        self.given += 1

        def progress(done: int, total: int, what: str) -> None:
            if told is not None:
                told(round(STEPS * (begin + own * done / total) / whole), STEPS, what)

        cache = self.task.cache.within(f"source{self.given}")
        return replace(self.task, progress=progress, cache=cache)

    def tell(self, what: str, last: bool) -> None:
        """Tell something between two parts, or after the last one."""
        if self.task.progress is not None:
            share = 1.0 if last else sum(self.costs[: self.given]) / max(sum(self.costs), 1e-9)
            self.task.progress(round(STEPS * share), STEPS, what)


def net_seconds(task: Task, steps: int) -> float:
    """What nets of so many steps may cost."""
    photograph = task.bank.kind == "photograph"
    nets = min(task.net.folds, len(set(task.groups)))
    rows, columns = CANVAS if photograph else SQUARE
    sides = np.max(task.shapes, axis=0) / task.bank.scale
    area = min(rows * columns, (float(sides.max()) + 32) ** 2)  # a crop is no larger than needed
    colored = photograph or task.images[0].ndim == 3
    restored = min(steps, task.net.restore) if colored else 0
    learn = (nets * (steps + 4) + restored) * task.net.crops * area * STEP[task.bank.kind]
    seen = [min(1.0, (SIDE / min(shape)) ** 2) if photograph else 1.0 for shape in task.shapes]
    looks = sum(s * rows * columns for s, (rows, columns) in zip(seen, task.shapes))
    views = 2 if photograph else 4
    return float(learn + views * looks / task.bank.scale**2 * LOOK + READ * pixels_of(task))


def tree_seconds(task: Task, recipe: Recipe) -> float:
    """What trees of a recipe may cost."""
    items = pixels_of(task) * (1 + recipe.copies)
    fits = 1 + min(recipe.folds, len(set(task.groups)))
    questions, describe = task.labels[0].shape[2], DESCRIBE[task.bank.kind] * items
    # Several questions share their trees, and each has a context of its own in a later stage.
    contexts = (recipe.stages - 1) * (questions - 1) * describe
    grown = fits * forest_seconds(recipe, items, questions)
    return float(recipe.stages * (grown + describe) + contexts)


def pixels_of(task: Task) -> float:
    """Pixels of all images, as the bank sees them."""
    return float(sum(rows * columns for rows, columns in task.shapes) / task.bank.scale**2)


Arrays = dict[str, AnyArray]
# Columns that a tree over nets draws: with fewer, most trees see nothing of what the net says.
SHARE = 0.15


class Source(ABC):
    """A fitted source of logits. A value: nothing changes it."""

    uses_unlabelled: ClassVar[bool] = False  # whether images without masks teach it something

    @classmethod
    def extra_channels(cls, bank: Bank) -> tuple[str, ...]:
        """Give the channels that are node features beside the logits."""
        return ("raw",)

    @property
    def edges(self) -> float:
        """What edges count for new images, of what they weigh on the logits out of fold.

        Less than 1 where the mean of several models answers for new images: it needs less smoothing
        than the one model that answers out of fold (docs/decisions/0051-a-cut-over-good-nets.md).
        """
        return 1.0

    @classmethod
    @abstractmethod
    def fit(cls, task: Task) -> tuple[Self, Sequence[Answers]]:
        """Learn; give the source, and each image's out-of-fold logits by question and stage."""

    @classmethod
    def seconds(cls, task: Task) -> float:
        """What `fit` may cost, in seconds of one core; nothing that counts unless it says so."""
        return 0.0

    @property
    @abstractmethod
    def stages(self) -> tuple[str, ...]:
        """The name of each stage, in the order of the answers; the last is the best."""

    @abstractmethod
    def answers(self, picture: Picture, extra: Float32 | None) -> Answers:
        """Give the logits of a new image by question and stage, (h, w) float32 each."""

    @property
    def context_passes(self) -> int:
        """How many looks at what lies around a pixel follow each other."""
        return 1

    def image_statistics(self, picture: Picture) -> ImageStatistics | None:
        """Give what a part of a picture must know of all of it, if anything."""
        return None

    @abstractmethod
    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Arrays and a JSON-able description, from which `read` makes the source again."""

    @classmethod
    @abstractmethod
    def read(cls, arrays: Arrays, described: dict[str, Any], bank: Bank, step: int) -> Self:
        """The inverse of `to_arrays`; damage is an `InputError` or what Python raises."""


@dataclass(frozen=True)
class NoLogits(Source):
    """No logits at all: raw channels, or arrays that the user brings, speak for themselves."""

    stages: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def fit(cls, task: Task) -> tuple[Self, Sequence[Answers]]:
        return cls(), [[] for _ in range(len(task.images))]

    def answers(self, picture: Picture, extra: Float32 | None) -> Answers:
        return []

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        return {}, {"stages": 0, "questions": 0}

    @classmethod
    def read(cls, arrays: Arrays, described: dict[str, Any], bank: Bank, step: int) -> Self:
        if read_questions(arrays, described, bank, step):
            raise ValueError("it has trees, but features of this kind have none")
        return cls()


@dataclass(frozen=True)
class TreeLogits(Source):
    """Boosted trees on a bank of channels, the second stage on the first one's context."""

    # One for all questions; one for each in files of older versions.
    models: tuple[Boosted, ...]

    @classmethod
    def fit(cls, task: Task) -> tuple[Self, Sequence[Answers]]:
        model, maps = _grown(task)
        return cls((model,)), maps

    @classmethod
    def seconds(cls, task: Task) -> float:
        return tree_seconds(task, task.recipe)

    @property
    def stages(self) -> tuple[str, ...]:
        return tuple(f"logit{k + 1}" for k in range(len(self.models[0].stages)))

    def answers(self, picture: Picture, extra: Float32 | None) -> Answers:
        return answer(self.models, picture, extra)

    @property
    def context_passes(self) -> int:
        return len(self.models[0].stages)

    def image_statistics(self, picture: Picture) -> ImageStatistics | None:
        return self.models[0].bank.statistics(picture)

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        arrays: Arrays = {}
        stages = [trees for part in self.models for trees in part.stages]
        for k, trees in enumerate(stages):
            arrays |= {f"stage{k}.{name}": a for name, a in trees.arrays().items()}
        return arrays, {"stages": len(stages), "questions": len(self.models)}

    @classmethod
    def read(cls, arrays: Arrays, described: dict[str, Any], bank: Bank, step: int) -> Self:
        models = read_questions(arrays, described, bank, step)
        if not models:
            raise ValueError("no trees")
        return cls(models)


@dataclass(frozen=True)
class NetLogits(Source):
    """The mean of small nets, one for each fold."""

    stages: ClassVar[tuple[str, ...]] = ("net",)
    uses_unlabelled: ClassVar[bool] = True
    nets: Nets

    @classmethod
    def extra_channels(cls, bank: Bank) -> tuple[str, ...]:
        return () if bank.kind == "microscopy" else super().extra_channels(bank)

    @property
    def edges(self) -> float:
        # The mean of k independent nets has 1 / k of the noise of one, which edges smooth.
        return 1 / len(self.nets.weights)

    @classmethod
    def fit(cls, task: Task) -> tuple[Self, Sequence[Answers]]:
        nets, maps = fit_nets(
            task.images, task.labels, task.extras, task.bank, task.net,
            make_folds(task.groups, task.net.folds, task.seed), task.seed, task.place,
            task.progress, task.cache, task.unannotated,
        )  # fmt: skip
        return cls(nets), mapped(_alone, maps)

    @classmethod
    def seconds(cls, task: Task) -> float:
        return net_seconds(task, task.net.steps)

    def answers(self, picture: Picture, extra: Float32 | None) -> Answers:
        return [[logit] for logit in self.nets.logits(picture.image, extra)]

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        return arrays_of_nets(self.nets), described_nets(self.nets)

    @classmethod
    def read(cls, arrays: Arrays, described: dict[str, Any], bank: Bank, step: int) -> Self:
        return cls(read_nets(arrays, described, bank))


@dataclass(frozen=True)
class BothLogits(Source):
    """Trees and nets side by side; the cut learns how to weigh them."""

    uses_unlabelled: ClassVar[bool] = True
    trees: TreeLogits
    net: NetLogits

    @classmethod
    def fit(cls, task: Task) -> tuple[Self, Sequence[Answers]]:
        parts = task.parts([NetLogits.seconds(task), TreeLogits.seconds(task)])
        net, first = NetLogits.fit(parts.next())
        return cls.over(parts.next(), net, first)

    @classmethod
    def over(
        cls, task: Task, net: NetLogits, first: Sequence[Answers]
    ) -> tuple[Self, Sequence[Answers]]:
        """Grow the trees beside nets that are fitted already, `first` their logits out of fold."""
        trees, second = TreeLogits.fit(task)
        joined = mapped(_side_by_side, first, second)
        return cls(trees, net), joined

    @classmethod
    def seconds(cls, task: Task) -> float:
        return NetLogits.seconds(task) + TreeLogits.seconds(task)

    @property
    def stages(self) -> tuple[str, ...]:
        return self.trees.stages + self.net.stages

    def answers(self, picture: Picture, extra: Float32 | None) -> Answers:
        parts = self.trees.answers(picture, extra), self.net.answers(picture, extra)
        return [a + b for a, b in zip(*parts)]

    @property
    def context_passes(self) -> int:
        return self.trees.context_passes

    def image_statistics(self, picture: Picture) -> ImageStatistics | None:
        return self.trees.image_statistics(picture)

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        parts = self.trees.to_arrays(), self.net.to_arrays()
        return parts[0][0] | parts[1][0], parts[0][1] | parts[1][1]

    @classmethod
    def read(cls, arrays: Arrays, described: dict[str, Any], bank: Bank, step: int) -> Self:
        given = arrays, described, bank, step
        return cls(TreeLogits.read(*given), NetLogits.read(*given))


@dataclass(frozen=True)
class StackedLogits(BothLogits):
    """Nets as the first stage: one stage of trees sees the context of their logits."""

    @classmethod
    def fit(cls, task: Task) -> tuple[Self, Sequence[Answers]]:
        grown = replace(task, recipe=cls.recipe(task))
        parts = task.parts([NetLogits.seconds(task), TreeLogits.seconds(grown)])
        net, first = NetLogits.fit(parts.next())
        return cls.over(parts.next(), net, first)

    @staticmethod
    def recipe(task: Task) -> Recipe:
        """How its trees are grown: one stage, and no more folds than the nets had."""
        folds, share = min(task.recipe.folds, task.net.folds), max(task.recipe.share, SHARE)
        return replace(task.recipe, stages=1, folds=folds, share=share)

    @classmethod
    def seconds(cls, task: Task) -> float:
        return super().seconds(replace(task, recipe=cls.recipe(task)))

    @classmethod
    def over(
        cls, task: Task, net: NetLogits, first: Sequence[Answers]
    ) -> tuple[Self, Sequence[Answers]]:
        """Grow the trees over nets that are fitted already, `first` their logits out of fold."""
        model, maps = _grown(replace(task, recipe=cls.recipe(task)), _guesses(first))
        return cls(TreeLogits((model,)), net), maps

    @property
    def stages(self) -> tuple[str, ...]:
        return self.net.stages + self.trees.stages

    @property
    def context_passes(self) -> int:
        return self.trees.context_passes + self.net.context_passes

    def answers(self, picture: Picture, extra: Float32 | None) -> Answers:
        first = self.net.answers(picture, extra)
        return answer(self.trees.models, picture, extra, _guesses([first])[0])


# What `features=` may name, beside the banks without a source.
SOURCES: dict[str, type[Source]] = {
    "trees": TreeLogits,
    "net": NetLogits,
    "stacked": StackedLogits,
    "both": BothLogits,
}


def _alone(found: Float32) -> Answers:
    """The answers of one stage."""
    return [[logit] for logit in found]


def _side_by_side(first: Answers, second: Answers) -> Answers:
    """The stages of the second source, then those of the first."""
    return [b + a for a, b in zip(first, second)]


def _last(answers: Answers) -> Float32:
    """The last logits of every question, (h, w, T)."""
    return np.stack([z[-1] for z in answers], axis=-1)


def _grown(
    task: Task, guesses: Sequence[Float32] | None = None
) -> tuple[Boosted, Sequence[Answers]]:
    return fit_trees(
        task.images, task.labels, task.extras, task.bank, task.recipe, task.groups, task.seed,
        task.place, task.progress, guesses, task.cache,
    )  # fmt: skip


def _guesses(maps: Sequence[Answers]) -> Sequence[Float32]:
    """The last logits of every question, an (h, w, T) array an image."""
    return mapped(_last, maps)
