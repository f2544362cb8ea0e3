"""What a source of logits learns from, and how sources that follow each other share it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from cutlearn.features.boosted import Recipe
from cutlearn.features.describe import Bank, Image
from cutlearn.features.filters import Float32
from cutlearn.features.net.learn import NetRecipe
from cutlearn.run.shelf import Shelf
from cutlearn.run.workers import Place

Progress = Callable[[int, int, str], None]
# Steps that sources which are fitted one after the other tell of, together.
STEPS = 1000


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
    place: Place = 1
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
