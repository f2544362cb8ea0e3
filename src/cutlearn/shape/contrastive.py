"""Contrastive divergence: one layer of a machine learns the masks that it is shown.

Of a layer with labels y and units h, joined by the W of `Patches`, the gradient of the
log-likelihood is  <y h'>_data - <y h'>_model. The second term is taken after a few steps of Gibbs
sampling, from the data (CD) or from chains that go on from batch to batch (persistent CD).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.shape.boltzmann import sigmoid
from cutlearn.shape.patches import Patches

Float32 = NDArray[np.float32]
State = dict[str, NDArray[Any]]
BATCH = 100
NOISE = 2.0  # the largest step times the labels that a unit sees


@dataclass(frozen=True)
class Contrast:
    """How a layer is trained.

    Parameters
    ----------
    patches : Patches
    units : int
        Hidden units of a patch.
    rate : float
        The first step of the mean gradient of a mini-batch of 100; falls linearly. Where a unit
        sees more than 100 labels it is at most 2 / labels: the noise of the chains adds up over
        them, and an RBM of 1024 labels ends in one single shape at 0.02.
    momentum, decay : float
    steps : int
        Steps of Gibbs sampling for the model's part.
    persistent : bool
    gain : (up, down)
        Factors of W on the way up and down. In a stack of two layers the units between them will
        feel both; while one layer is trained alone, it stands for both with a factor of 2.
    """

    patches: Patches
    units: int
    rate: float = 0.02
    momentum: float = 0.9
    decay: float = 1e-4
    steps: int = 1
    persistent: bool = False
    gain: tuple[float, float] = (1.0, 1.0)

    def start(self, data: Float32, rng: np.random.Generator) -> State:
        """Small random weights, and the labels' biases from how often they are 1."""
        labels = self.patches.size[0] * self.patches.size[1]
        hidden = self.units * len(self.patches.corners)
        often = np.clip(data.mean(axis=0), 0.02, 0.98)
        state: State = {
            "W": (0.01 * rng.standard_normal((labels, self.units), np.float32)),
            "b": np.log(often / (1 - often)).astype(np.float32),
            "c": np.zeros(hidden, np.float32),
        }
        state |= {f"{name}.speed": np.zeros_like(state[name]) for name in ("W", "b", "c")}
        if self.persistent:
            first = rng.integers(0, len(data), BATCH)
            state["chains"] = np.asarray(data[first] > 0.5, np.float32)
        return state

    def epoch(
        self, data: Float32, total: int, state: State, rng: np.random.Generator, done: int
    ) -> None:
        """Go once through the data in mini-batches; changes the state in place.

        The rate falls linearly with the epochs done of a total: the noise of the chains must die
        away.
        """
        order = rng.permutation(len(data))
        first = min(self.rate, NOISE / len(state["W"]))
        rate = np.float32(first * (1 - done / total))
        for start in range(0, len(data), BATCH):
            self._update(state, data[order[start : start + BATCH]], rng, rate)

    def hidden(self, state: State, y: Float32) -> Float32:
        """p(h = 1 | y) of every row."""
        fed = self.patches.up(y, state["W"])
        return np.asarray(sigmoid(np.float32(self.gain[0]) * fed + state["c"]))

    def labels(self, state: State, h: Float32) -> Float32:
        """p(y = 1 | h) of every row."""
        fed = self.patches.down(h, state["W"])
        return np.asarray(sigmoid(np.float32(self.gain[1]) * fed + state["b"]))

    def _update(self, state: State, y: Float32, rng: np.random.Generator, rate: np.float32) -> None:
        h = self.hidden(state, y)
        start = h
        if self.persistent:
            start = self.hidden(state, state["chains"])
        for _ in range(self.steps):
            y_model = self.labels(state, draw(start, rng))
            if self.persistent:
                y_model = draw(y_model, rng)
            start = self.hidden(state, y_model)
        if self.persistent:
            state["chains"] = y_model
        rows, seen = np.float32(1 / len(y)), np.float32(1 / len(y_model))
        outer = self.patches.outer
        gradient = {
            "W": outer(y, h, self.units) * rows - outer(y_model, start, self.units) * seen,
            "b": y.mean(axis=0) - y_model.mean(axis=0),
            "c": h.mean(axis=0) - start.mean(axis=0),
        }
        gradient["W"] -= np.float32(self.decay) * state["W"]
        for name, slope in gradient.items():
            speed = state[f"{name}.speed"]
            speed *= np.float32(self.momentum)
            speed += rate * slope
            state[name] += speed


def draw(chance: Float32, rng: np.random.Generator) -> Float32:
    """Binary units with these probabilities, as float32."""
    return (rng.random(chance.shape, np.float32) < chance).astype(np.float32)
