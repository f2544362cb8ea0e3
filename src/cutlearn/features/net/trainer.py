"""One net while it is trained: crops of pictures and their labels in, weights out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cutlearn.features.net.body import Pass, Shape, Weights, folded
from cutlearn.features.net.crops import Crops, Lesson
from cutlearn.features.net.optimise import Optimiser, loss_of
from cutlearn.store import Arrays

# Batches for the last statistics.
SETTLE = 8


class Trainer:
    """One net while it is trained.

    Parameters
    ----------
    shape : Shape
    crops : Crops
        What it learns from.
    steps : int
    seed : sequence of int
    first : arrays by name, optional
        Weights to begin with; those that are not there are drawn.
    """

    def __init__(
        self,
        shape: Shape,
        crops: Crops,
        steps: int,
        seed: Sequence[int],
        first: Weights | None = None,
    ) -> None:
        self.shape, self.crops, self.rng = shape, crops, np.random.default_rng(list(seed))
        known = np.sum([_totals(lesson) for lesson in crops.lessons], axis=0)
        share = (known[0] + 1) / (known[1] + 2)
        begin = shape.begin(share, self.rng)
        begin |= {name: value.copy() for name, value in (first or {}).items()}
        self.optimiser = Optimiser(begin, steps)

    def advance(self, steps: int) -> None:
        """Take some steps."""
        for _ in range(steps):
            planes, share, weights = self.crops.draw(self.rng)
            one = Pass(self.shape, self.optimiser.weights)
            _, slope = loss_of(one.logits(planes), share, weights)
            self.optimiser.take(one.gradient(slope))

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """All that training changes, as a part that is kept."""
        told = {"step": self.optimiser.step, "random": self.rng.bit_generator.state}
        return told, dict(self.optimiser.state())

    def take(self, told: dict[str, Any], arrays: Arrays) -> None:
        """Go on from a state."""
        self.rng.bit_generator.state = told["random"]
        self.optimiser.restore(int(told["step"]), arrays)

    def settled(self) -> Weights:
        """The averaged weights, with statistics of fresh batches worked in."""
        weights, seen = self.optimiser.average, []
        for _ in range(SETTLE):
            one = Pass(self.shape, weights)
            one.logits(self.crops.draw(self.rng)[0])
            seen.append(one.statistics)
        mean = {
            name: tuple(np.mean([s[name][k] for s in seen], axis=0) for k in (0, 1))
            for name in seen[0]
        }
        return folded(self.shape, weights, mean)


def _totals(lesson: Lesson) -> npt.NDArray[np.float64]:
    """Pixels of label 1 and known pixels, (2, T)."""
    sums: npt.NDArray[np.float64] = lesson.labels.sum(axis=(1, 2), dtype=np.float64)
    return sums.reshape(2, -1)
