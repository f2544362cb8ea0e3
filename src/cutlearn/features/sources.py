"""Sources of logits: what plugs in between images and node features.

A source is fitted on images and masks, gives every training image the logits of models that never
saw it, answers for new images, and is stored as plain arrays. Trees, nets, a net as the first stage
of trees, and both side by side are sources; `SOURCES` names them, and a name from there is what
`Featurizer(features=...)` takes. Adding one means one class and one entry (and a line of help in
`modes`).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from cutlearn.features.boosted import Answers, Boosted, Recipe, answer, read_questions
from cutlearn.features.describe import Bank, Picture
from cutlearn.features.filters import Float32
from cutlearn.features.folds import make_folds
from cutlearn.features.grow import fit_questions
from cutlearn.features.micrographs import Light
from cutlearn.features.net.file import arrays_of_nets, described_nets, read_nets
from cutlearn.features.net.learn import Nets, fit_nets
from cutlearn.features.task import Task, net_seconds, tree_seconds
from cutlearn.loaded import mapped

Arrays = dict[str, npt.NDArray[Any]]
# Columns that a tree over nets draws: with fewer, most trees see nothing of what the net says.
SHARE = 0.15


class Source(ABC):
    """A fitted source of logits. A value: nothing changes it."""

    restores: ClassVar[bool] = False  # whether images without masks teach it something

    @classmethod
    def beside(cls, bank: Bank) -> tuple[str, ...]:
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
    def looks(self) -> int:
        """How many looks at what lies around a pixel follow each other."""
        return 1

    def light(self, picture: Picture) -> Light | None:
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
    def looks(self) -> int:
        return len(self.models[0].stages)

    def light(self, picture: Picture) -> Light | None:
        return self.models[0].bank.light(picture)

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
    restores: ClassVar[bool] = True
    nets: Nets

    @classmethod
    def beside(cls, bank: Bank) -> tuple[str, ...]:
        return () if bank.kind == "microscopy" else super().beside(bank)

    @property
    def edges(self) -> float:
        # The mean of k independent nets has 1 / k of the noise of one, which edges smooth.
        return 1 / len(self.nets.weights)

    @classmethod
    def fit(cls, task: Task) -> tuple[Self, Sequence[Answers]]:
        nets, maps = fit_nets(
            task.images, task.labels, task.extras, task.bank, task.net,
            make_folds(task.groups, task.net.folds, task.seed), task.seed, task.place,
            task.progress, task.shelf, task.unannotated,
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

    restores: ClassVar[bool] = True
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
    def looks(self) -> int:
        return self.trees.looks

    def light(self, picture: Picture) -> Light | None:
        return self.trees.light(picture)

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
    def looks(self) -> int:
        return self.trees.looks + self.net.looks

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


def source_of(mode: str) -> type[Source]:
    """The source that a mode of features needs."""
    return SOURCES.get(mode, NoLogits)


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
    return fit_questions(
        task.images, task.labels, task.extras, task.bank, task.recipe, task.groups, task.seed,
        task.place, task.progress, guesses, task.shelf,
    )  # fmt: skip


def _guesses(maps: Sequence[Answers]) -> Sequence[Float32]:
    """The last logits of every question, an (h, w, T) array an image."""
    return mapped(_last, maps)


# -- what it costs ---------------------------------------------------------------------------
