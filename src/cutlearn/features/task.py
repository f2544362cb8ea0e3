"""What sources of logits learn from, and what that may cost, reckoned before any work.

Seconds are those of one core, from numbers of pixels, rows and steps, never from a clock; so the
same images get the same work on a busy machine, too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from cutlearn.features.boosted import Recipe
from cutlearn.features.describe import Bank, Image
from cutlearn.features.filters import Float32
from cutlearn.features.grow import DESCRIBE, forest_seconds
from cutlearn.features.net.crops import CANVAS, SIDE, SQUARE
from cutlearn.features.net.learn import NetRecipe
from cutlearn.run.executor import ONE_THREAD, Executor
from cutlearn.run.shelf import Shelf

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
    labels: Sequence[npt.NDArray[np.uint8]]  # (h, w, T) each
    extras: Sequence[Float32 | None]
    groups: Sequence[int]
    bank: Bank
    recipe: Recipe
    net: NetRecipe
    seed: int = 0
    place: Executor = ONE_THREAD
    progress: Progress | None = None
    shelf: Shelf = field(default_factory=Shelf)  # keeps what is finished
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

        shelf = self.task.shelf.within(f"source{self.given}")
        return replace(self.task, progress=progress, shelf=shelf)

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
