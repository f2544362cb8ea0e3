"""Logits of boosted trees: how trees are grown (`Recipe`), what they say of images (`Boosted`).

In: a `Picture`. Out: logits by question and stage. A second stage sees the first one's logits
around each pixel (auto-context). Several labels are several questions ("label 2 or higher?",
"label 2 or another?"), each with trees of its own. `grow` fits them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

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
    """How trees are grown; the figures of docs/decisions/0002-default-features.md.

    Attributes
    ----------
    trees, rate, leaves, min_leaf, l2, share : boosting
        Number of trees, learning rate, leaves a tree, rows a leaf, ridge on leaf values and share
        of the columns tried at each split.
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
class Boosted:
    """The bank and the trees of every stage, refitted on all images."""

    bank: Bank
    step: int
    stages: tuple[Trees, ...]

    def logits(self, image: Image, extra: Float32 | None = None) -> list[Float32]:
        """Logits of a new image, one (h, w) float32 a stage."""
        return answer([self], Picture(image), extra)[0]


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
    first = shrink(guess, bank.scale)
    answers: Answers = []
    for begin in range(0, len(models), AT_ONCE):
        part = models[begin : begin + AT_ONCE]
        numbers = range(begin, begin + len(part))
        maps: Answers = [[] if first is None else [first[..., t]] for t in numbers]
        own = [Stack(small.shape) for _ in part]
        for stage in range(len(part[0].stages)):
            for stack, logits in zip(own, maps):
                if logits:
                    add_context(stack, logits[-1], small, bank.kind)
            found = logits_of([model.stages[stage] for model in part], base, own, step)
            for logits, logit in zip(maps, found):
                logits.append(logit)
        del own
        for t, logits in zip(numbers, maps):
            made = [enlarge(logit, bank.scale, shape) for logit in logits]
            answers.append(made if guess is None else [guess[..., t], *made[1:]])
    return answers


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
