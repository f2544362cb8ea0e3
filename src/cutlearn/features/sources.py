"""Sources of logits: what plugs in between images and node features.

A source is fitted on images and masks (`Task`), returns for every training image the logits of
models that never saw it, answers for new images, and is stored as plain arrays. Trees, nets, a net
as the first stage of trees, and both side by side are sources. `SOURCES` names them, and a name
from there is what `Featurizer(features=...)` takes: adding one means one class and one entry.

Costs are estimated before any work, in seconds of one core, from numbers of pixels, rows and steps,
never from a clock: the same images get the same work on a busy machine, too.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from cutlearn.arrays import AnyArray, Float32, Image, Mask
from cutlearn.errors import InputError, MissingBackboneError, clean
from cutlearn.features.backbone import MAPS, Backbone, Installed, backbone_of
from cutlearn.features.boosted import (
    DESCRIBE,
    Boosted,
    answer,
    fit_trees,
    forest_seconds,
    read_questions,
)
from cutlearn.features.describe import Bank, ImageStatistics, Picture
from cutlearn.features.folds import Answers, in_quarters, make_folds, quarter_numbers
from cutlearn.features.net.crops import CANVAS, SIDE, SQUARE
from cutlearn.features.net.learn import (
    NetRecipe,
    Nets,
    fit_nets,
)
from cutlearn.features.pretrained import PASSES, Head, fit_head, head_seconds
from cutlearn.features.trees import Recipe
from cutlearn.loaded import Loaded, mapped
from cutlearn.plugins import Registry
from cutlearn.run.cache import Cache
from cutlearn.run.executor import ONE_THREAD, Executor
from cutlearn.run.progress import Counter

Progress = Callable[[int, int, str], None]
Arrays = dict[str, AnyArray]
# Steps of progress of sources that are fitted one after the other, together.
STEPS = 1000
# Columns that a tree over nets draws: with fewer, most trees see none of the nets' context.
SHARE = 0.15
# Seconds of a step for each pixel of its crops; of a look at a pixel; of reading it. Measured on a
# busy machine, rounded up.
STEP = {"photograph": 0.62e-6, "microscopy": 0.52e-6}
LOOK, READ = 0.25e-6, 1e-6
# Folds of the head over a pretrained network; seconds in which a network sees an image, an
# installed one and another.
HEAD_FOLDS = 5
INSTALLED_SEES, OTHER_SEES = 0.35, 1.0


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
    backbone: Backbone | None = None
    whole: "Task | None" = None  # of quarters, the task of the images that they are parts of

    def __post_init__(self) -> None:
        if not self.shapes:
            shapes = tuple((image.shape[0], image.shape[1]) for image in self.images)
            object.__setattr__(self, "shapes", shapes)

    @property
    def pixels(self) -> float:
        """Pixels of all images, as the bank sees them."""
        return float(sum(rows * columns for rows, columns in self.shapes) / self.bank.scale**2)


class Parts:
    """A task for several sources that are fitted one after the other.

    They share its progress by what each may cost. What is finished of each is kept under its
    number.
    """

    def __init__(self, task: Task, costs: Sequence[float]) -> None:
        self.task, self.costs, self.begun = task, costs, 0

    def next(self) -> Task:
        """Return the task of the next part."""
        begin, own = sum(self.costs[: self.begun]), self.costs[self.begun]
        self.begun += 1
        return replace(
            self.task,
            progress=lambda done, total, what: self._report(begin + own * done / total, what),
            cache=self.task.cache.within(f"source{self.begun}"),
        )

    def report(self, what: str, last: bool) -> None:
        """Report something between two parts, or after the last one."""
        self._report(sum(self.costs if last else self.costs[: self.begun]), what)

    def _report(self, spent: float, what: str) -> None:
        if self.task.progress is not None:
            self.task.progress(round(STEPS * spent / max(sum(self.costs), 1e-9)), STEPS, what)


def net_seconds(task: Task, steps: int) -> float:
    """Return what nets of so many steps may cost."""
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
    return float(learn + views * looks / task.bank.scale**2 * LOOK + READ * task.pixels)


def tree_seconds(task: Task, recipe: Recipe) -> float:
    """Return what trees of a recipe may cost."""
    items = task.pixels * (1 + recipe.copies)
    fits = 1 + min(recipe.folds, len(set(task.groups)))
    questions, describe = task.labels[0].shape[2], DESCRIBE[task.bank.kind] * items
    # Several questions share their trees, and each has a context of its own in a later stage.
    contexts = (recipe.stages - 1) * (questions - 1) * describe
    grown = fits * forest_seconds(recipe, items, questions)
    return float(recipe.stages * (grown + describe) + contexts)


class Source(ABC):
    """A fitted source of logits. A value: nothing changes it.

    A plugin implements the abstract methods and may override the others. Logits are "answers":
    lists by question, then by stage, of (h, w) float32 arrays.

    Attributes
    ----------
    uses_unlabelled : bool, default False
        Whether it learns from images without masks.
    needs_whole : bool, default False
        Whether it sees only whole images, and no tiles of them.
    """

    uses_unlabelled: ClassVar[bool] = False
    needs_whole: ClassVar[bool] = False

    @classmethod
    def extra_channels(cls, bank: Bank) -> tuple[str, ...]:
        """Return the channels that are node features in addition to the logits.

        Parameters
        ----------
        bank : Bank
            The kind of the images.

        Returns
        -------
        tuple of str, names in `cutlearn.features.nodes.CHANNELS`; by default "raw"
        """
        return ("raw",)

    @property
    def edges(self) -> float:
        """The weight of edges for new images, as a part of that for logits out of fold.

        Less than 1 if the mean of several models answers for new images: it needs less smoothing
        than the one model that answers out of fold (docs/decisions/0051-a-cut-over-good-nets.md).
        """
        return 1.0

    @classmethod
    @abstractmethod
    def fit(cls, task: Task) -> tuple[Self, Sequence[Answers]]:
        """Learn from images and masks.

        Parameters
        ----------
        task : Task
            Images, masks and groups; how to run, report progress and keep finished work.

        Returns
        -------
        source : Source
        answers : one for each image, of models that saw neither the image nor its group
        """

    @classmethod
    def seconds(cls, task: Task) -> float:
        """Return what `fit` may cost, in seconds of one core; by default nothing.

        Parameters
        ----------
        task : Task

        Returns
        -------
        float
        """
        return 0.0

    @property
    @abstractmethod
    def stages(self) -> tuple[str, ...]:
        """The name of each stage, in the order of the answers; the last is the best."""

    @abstractmethod
    def answers(self, picture: Picture, extra: Float32 | None) -> Answers:
        """Return the logits of a new image.

        Parameters
        ----------
        picture : Picture
        extra : (h, w, e) float32 array, or None
            The arrays that the user brings.

        Returns
        -------
        list by question of lists by stage of (h, w) float32 arrays
        """

    @property
    def context_passes(self) -> int:
        """The number of receptive fields on top of each other; tiles are padded by so many."""
        return 1

    def image_statistics(self, picture: Picture) -> ImageStatistics | None:
        """Return what a tile of a picture needs of the whole, if anything.

        Parameters
        ----------
        picture : Picture
            The whole image.

        Returns
        -------
        ImageStatistics or None
        """
        return None

    @abstractmethod
    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return arrays and a JSON-able description, of which `read` makes the source again.

        Returns
        -------
        arrays : dict of arrays
        described : dict
        """

    @classmethod
    @abstractmethod
    def read(cls, arrays: Arrays, described: dict[str, Any], bank: Bank, step: int) -> Self:
        """Invert `to_arrays`; damage is an `InputError` or what Python raises.

        Parameters
        ----------
        arrays, described : dict
            All arrays and values that the model file has of the features.
        bank : Bank
        step : int
            Of the recipe of trees.

        Returns
        -------
        Source
        """


@dataclass(frozen=True)
class NoLogits(Source):
    """No logits: the features are channels, or arrays that the user brings."""

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
        return cls(nets), mapped(_one_stage, maps)

    @classmethod
    def seconds(cls, task: Task) -> float:
        return net_seconds(task, task.net.steps)

    def answers(self, picture: Picture, extra: Float32 | None) -> Answers:
        return [[logit] for logit in self.nets.logits(picture.image, extra)]

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        return self.nets.to_arrays()

    @classmethod
    def read(cls, arrays: Arrays, described: dict[str, Any], bank: Bank, step: int) -> Self:
        return cls(Nets.of_arrays(arrays, described, bank))


@dataclass(frozen=True)
class BothLogits(Source):
    """Trees and nets side by side; the cut learns how to weigh them."""

    uses_unlabelled: ClassVar[bool] = True
    trees: TreeLogits
    net: NetLogits

    @classmethod
    def fit(cls, task: Task) -> tuple[Self, Sequence[Answers]]:
        net_cost = NetLogits.seconds(task)
        parts = Parts(task, [net_cost, cls.seconds(task) - net_cost])
        net, first = NetLogits.fit(parts.next())
        return cls.over(parts.next(), net, first)

    @classmethod
    def over(
        cls, task: Task, net: NetLogits, first: Sequence[Answers]
    ) -> tuple[Self, Sequence[Answers]]:
        """Grow the trees next to nets that are fitted already, `first` their logits out of fold."""
        trees, second = TreeLogits.fit(task)
        return cls(trees, net), mapped(_side_by_side, first, second)

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

    @staticmethod
    def recipe(task: Task) -> Recipe:
        """Return the recipe of its trees: one stage, and no more folds than the nets had."""
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
        grown = replace(task, recipe=cls.recipe(task))
        model, maps = _grown(grown, mapped(_last_logits, first))
        return cls(TreeLogits((model,)), net), maps

    @property
    def stages(self) -> tuple[str, ...]:
        return self.net.stages + self.trees.stages

    @property
    def context_passes(self) -> int:
        return self.trees.context_passes + self.net.context_passes

    def answers(self, picture: Picture, extra: Float32 | None) -> Answers:
        first = self.net.answers(picture, extra)
        return answer(self.trees.models, picture, extra, _last_logits(first))


@dataclass(frozen=True)
class PretrainedLogits(Source):
    """A linear head over the maps of a pretrained network."""

    stages: ClassVar[tuple[str, ...]] = ("pretrained",)
    needs_whole: ClassVar[bool] = True
    backbone: Backbone
    head: Head

    @classmethod
    def fit(cls, task: Task) -> tuple[Self, Sequence[Answers]]:
        network = task.backbone
        if network is None:
            raise InputError("features='pretrained' needs a network. Give backbone='mobile-sam'.")
        # A network sees whole images; only the pixels of the head are held out in quarters.
        whole, place = task.whole or task, task.place.local
        folds: list[AnyArray]
        if task.whole is None:
            folds = list(make_folds(task.groups, HEAD_FOLDS, task.seed))
        else:
            folds = [quarter_numbers(shape) for shape in whole.shapes]
        images, extras = whole.images, whole.extras
        counter = Counter(task.progress, len(images) + len(PASSES))
        place.map(
            lambda i: MAPS.maps(network, images[i]).channels, range(len(images)),
            lambda *_: counter.add(f"see images with {network.name}"),
        )  # fmt: skip
        maps = Loaded(len(images), lambda i: MAPS.maps(network, images[i]).joined(extras[i]))
        head, found = fit_head(maps, whole.labels, folds, whole.bank.position, whole.seed,
                               place.map, counter.add)  # fmt: skip
        logits: Sequence[Float32] = found
        if task.whole is not None:
            logits = in_quarters(found, whole.shapes)
        return cls(network, head), mapped(_by_question, logits)

    @classmethod
    def seconds(cls, task: Task) -> float:
        sees = INSTALLED_SEES if isinstance(task.backbone, Installed) else OTHER_SEES
        whole = task.whole or task
        n, folds = len(whole.images), min(HEAD_FOLDS, len(set(task.groups)))
        return n * sees + head_seconds(n, task.labels[0].shape[2], folds)

    def answers(self, picture: Picture, extra: Float32 | None) -> Answers:
        return _by_question(self.head.logits(MAPS.maps(self.backbone, picture.image).joined(extra)))

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        told = {"backbone": self.backbone.name, "backbone_digest": self.backbone.digest}
        return self.head.to_arrays(), told

    @classmethod
    def read(cls, arrays: Arrays, described: dict[str, Any], bank: Bank, step: int) -> Self:
        network = backbone_of(described["backbone"])
        if described["backbone_digest"] != network.digest:
            raise MissingBackboneError(
                f"the model was fitted with other weights of backbone "
                f"{clean(network.name, 80)}. Install the same weights, or refit the model."
            )
        return cls(network, Head.of_arrays(arrays, bank.position))


# What `features=` may name, in addition to the banks without a source.
SOURCES: Registry[type[Source]] = Registry(
    "source",
    {
        "trees": TreeLogits,
        "net": NetLogits,
        "stacked": StackedLogits,
        "both": BothLogits,
        "pretrained": PretrainedLogits,
    },
)


def _by_question(logits: Float32) -> Answers:
    """Return logits (h, w, T) as answers of one stage."""
    return [[np.ascontiguousarray(logits[..., t])] for t in range(logits.shape[2])]


def _grown(
    task: Task, guesses: Sequence[Float32] | None = None
) -> tuple[Boosted, Sequence[Answers]]:
    return fit_trees(
        task.images, task.labels, task.extras, task.bank, task.recipe, task.groups, task.seed,
        task.place, task.progress, guesses, task.cache,
    )  # fmt: skip


def _one_stage(found: Float32) -> Answers:
    return [[logit] for logit in found]


def _side_by_side(first: Answers, second: Answers) -> Answers:
    return [b + a for a, b in zip(first, second)]


def _last_logits(answers: Answers) -> Float32:
    """Return the last logits of every question, (h, w, T)."""
    return np.stack([z[-1] for z in answers], axis=-1)
