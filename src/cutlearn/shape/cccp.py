"""Max-margin learning of a conditional machine: CCCP by stochastic gradient (Algorithm 2).

    min_w  gamma/2 |w|^2 + sum_i max_(y, H) [ margin(y, H) - E(y, H, x_i) + E(y_i, H_i, x_i) ],
    H_i = argmin_H E(y_i, H, x_i)

One image at a time: H_i, then the state that violates the margin most, both by iterated modes, then
one step along the difference of their joint features. Void labels are hidden too.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import VOID
from cutlearn.shape.conditional import Conditional, Margin
from cutlearn.shape.describe import View

# Weights of the output and of the hidden margin: cases 1 to 4 of yang2014.
MARGINS = {"none": (0.0, 0.0), "output": (1.0, 0.0), "hidden": (0.0, 1.0), "both": (1.0, 1.0)}


@dataclass(frozen=True)
class Learning:
    """How a conditional machine is trained.

    Parameters
    ----------
    margin : "none", "output", "hidden" or "both"
    hidden_weight : float
        The margin of a hidden unit where that of a label is 1.
    rate, gamma : float
        The first step; the weight of the regulariser.
    starts : int
        Starts of the iterated modes.
    """

    margin: str = "both"
    hidden_weight: float = 1.0
    rate: float = 0.001
    gamma: float = 0.01
    starts: int = 4

    def cycle(
        self,
        model: Conditional,
        views: Sequence[View],
        labels: Sequence[NDArray[np.uint8]],
        rng: np.random.Generator,
        number: int,
    ) -> float:
        """Go once through the images, in place; gives the mean of their violated margins.

        The step of the t-th update is rate / (1 + t / images): halved after one cycle.
        """
        total = 0.0
        for k, i in enumerate(rng.permutation(len(views))):
            rate = self.rate / (1 + number + k / len(views))
            total += self.update(model, views[i], labels[i], rate, rng)
        return total / len(views)

    def update(
        self,
        model: Conditional,
        view: View,
        labels: NDArray[np.uint8],
        rate: float,
        rng: np.random.Generator,
    ) -> float:
        """One step for one image; gives by how much its margin is violated."""
        void = labels.ravel() == VOID
        fixed = np.where(void, np.int8(-1), labels.ravel().astype(np.int8))
        machine = model.given(view)
        truth, best = machine.best(model.starts(machine, self.starts, rng), fixed=fixed)
        output, latent = MARGINS[self.margin]
        margin = Margin.of(truth, best, output, latent * self.hidden_weight, void)
        rival = model.given(view, margin)
        # The truth is among the starts, so that the violation is never below zero.
        starts = np.concatenate([model.starts(rival, self.starts, rng), best[0][None]])
        y, hidden = rival.best(starts)
        violated = margin.constant - rival.energy(y, *hidden) + machine.energy(truth, *best)
        for array in model.w.values():
            array *= np.float32(1 - rate * self.gamma)
        model.add(model.w, rate, view, (truth, best), (y, hidden))
        np.maximum(model.w["v"], 0, out=model.w["v"])
        return violated
