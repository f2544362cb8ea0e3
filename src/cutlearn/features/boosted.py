"""Logits of boosted trees: how trees are grown (`Recipe`), what they say of images (`Boosted`).

In: a `Picture`. Out: logits by question and stage. A second stage sees the first one's logits
around each pixel (auto-context). Several labels are several questions ("label 2 or higher?",
"label 2 or another?"), which the same trees answer; files of older versions have trees for each.
`grow` fits them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cutlearn.checks import real_number, whole_number
from cutlearn.features.columns import Stack
from cutlearn.features.context import add_context
from cutlearn.features.describe import Bank, Image, Picture, shrink
from cutlearn.features.filters import enlarge
from cutlearn.features.planes import Float32
from cutlearn.features.trees import Trees, logits_of

# Logits by question, then by stage.
Answers = list[list[Float32]]
# Questions that are worked on together, on planes that are made once for all of them.
AT_ONCE = 4
# What a recipe may ask for; a model file may say anything.
RECIPE_COUNTS = {
    "trees": (1, 100_000), "leaves": (2, 65_536), "min_leaf": (1, 10**9), "rows": (2, 10**9),
    "folds": (2, 1000), "stages": (1, 8), "copies": (0, 64), "step": (1, 256),
}  # fmt: skip
RECIPE_NUMBERS = {"rate": (1e-9, 1e3), "l2": (0.0, 1e12), "share": (1e-9, 1.0)}


@dataclass(frozen=True)
class Recipe:
    """How trees are grown; the figures of docs/decisions/0030-one-kind-of-trees.md.

    Attributes
    ----------
    trees, rate, leaves, min_leaf, l2, share : boosting
        Number of trees, learning rate, leaves a tree, rows a leaf, ridge on leaf values and share
        of the columns that are drawn for each tree.
    rows : int
        Rows drawn from all images together.
    folds : int
        Parts of the images; at most one for each group.
    stages : int
        1, or 2 with auto-context.
    copies : int
        Turned and contrast-jittered copies of each image that join the training.
    step : int
        Trees look at every step-th pixel along both axes; the rest is interpolated.
    """

    trees: int = 100
    rate: float = 0.1
    leaves: int = 31
    min_leaf: int = 60
    l2: float = 5.0
    share: float = 0.05
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


def default_recipe(bank: Bank, questions: int = 1) -> Recipe:
    """The measured default of a kind of image and a number of questions.

    docs/decisions/0030-one-kind-of-trees.md; 0024 for several questions.
    """
    # A second stage sees the context of every label's logits: too much for many labels.
    recipe = Recipe() if questions == 1 else Recipe(stages=1)
    return replace(recipe, copies=1) if bank.kind == "microscopy" else recipe


@dataclass(frozen=True)
class Boosted:
    """The bank and the trees of every stage, refitted on all images, for one question or more."""

    bank: Bank
    step: int
    stages: tuple[Trees, ...]

    def logits(self, image: Image, extra: Float32 | None = None) -> list[Float32]:
        """Logits of the first question at a new image, one (h, w) float32 a stage."""
        return answer([self], Picture(image), extra)[0]

    @property
    def questions(self) -> int:
        """How many questions the trees answer."""
        return self.stages[0].questions


def answer(
    models: Sequence[Boosted],
    picture: Picture,
    extra: Float32 | None = None,
    guess: Float32 | None = None,
) -> Answers:
    """Give the logits of a new image for several questions, whose models share a bank.

    With a first guess, (h, w, T) logits from elsewhere, the trees see its context from their first
    stage on, and it comes before their own logits.
    """
    if not models:
        return []
    bank, step, shape = models[0].bank, models[0].step, picture.shape
    small = picture.shrunk(bank.scale)
    base = bank.stack(small, shrink(extra, bank.scale))
    first = None if guess is None else np.moveaxis(shrink(guess, bank.scale), -1, 0)
    ends = np.cumsum([0, *(model.questions for model in models)]).tolist()
    answers: Answers = []
    for begin in range(0, len(models), AT_ONCE):
        part = models[begin : begin + AT_ONCE]
        places = [slice(*ends[k : k + 2]) for k in range(begin, begin + len(part))]
        # Of each model its logits by stage, (T, h, w).
        maps = [[] if first is None else [first[at]] for at in places]
        own = [Stack(small.shape) for _ in part]
        for stage in range(len(part[0].stages)):
            for stack, logits in zip(own, maps):
                for logit in logits[-1] if logits else ():
                    add_context(stack, logit, small, bank.kind)
            found = logits_of([model.stages[stage] for model in part], base, own, step)
            for logits, new in zip(maps, found):
                logits.append(new)
        del own
        for at, logits in zip(places, maps):
            made = [enlarge(planes, bank.scale, shape) for planes in logits]
            if guess is not None:  # as it came, not made small and large again
                made[0] = np.moveaxis(guess, -1, 0)[at]
            answers += [list(stages) for stages in zip(*made)]
    return answers


def read_questions(
    arrays: dict[str, npt.NDArray[Any]], described: dict[str, Any], bank: Bank, step: int
) -> tuple[Boosted, ...]:
    """Read the trees of a model file: "stages" of all ensembles together, numbered from 0.

    "questions" counts the ensembles, since once each question had its own.
    """
    count = int(described["stages"])
    # Files from before there were several questions do not tell.
    ensembles = int(described.get("questions", min(count, 1)))
    parts: dict[str, dict[str, npt.NDArray[Any]]] = {}
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
