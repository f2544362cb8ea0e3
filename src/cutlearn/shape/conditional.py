"""Machines given an image: what an image adds to the biases of every layer, and what is learned.

    E(y, h1, h2, x) = -y'W h1 - h1'W2 h2 - h1'(V1 x1 + c) - h2'(V2 x2 + c2) - y'(V0 x0 + b)
                      + sum_e [y_i != y_j] (v . g_e)

is linear in its numbers w = (W, c, b, W2, c2, V0, V1, V2, v): -E = w . psi(y, h1, h2, x). Given an
image it is a `Boltzmann`, and so is the margin-augmented problem: a margin counts units that differ
from given ones, which only shifts their biases.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.energy.energy import Energy
from cutlearn.grid import grid_slices
from cutlearn.shape.boltzmann import Bits, Boltzmann, sigmoid
from cutlearn.shape.describe import CONNECTIVITY, View
from cutlearn.shape.patches import Patches

Float32 = NDArray[np.float32]
Numbers = dict[str, NDArray[Any]]
Hidden = tuple[Bits, ...]
State = tuple[Bits, Hidden]


@dataclass(frozen=True)
class Conditional:
    """A machine given an image.

    Parameters
    ----------
    patches : Patches
    w : dict of float32 arrays
        W (labels of a patch, units of a patch) and V1 (units of a patch, F1), shared by patches;
        c, b, W2 (m, m2), c2; V0 (F0,), V2 (m2, F2), v (G,) >= 0. Empty arrays where the machine
        has no such part: V1 and V2 of a prior that does not see the image, v without edges.
    """

    patches: Patches
    w: Numbers

    # -- the machine of an image -----------------------------------------------------------------

    def given(self, view: View, margin: "Margin | None" = None) -> Boltzmann:
        """The machine of an image, with a margin added to -E or not."""
        w = self.w
        b = w["b"] + (view.x0 @ w["V0"])[view.regions]
        c = w["c"] + (view.x1[:, : w["V1"].shape[1]] @ w["V1"].T).ravel()
        c2 = w["c2"] + w["V2"] @ view.x2[: w["V2"].shape[1]]
        if margin is not None:
            b, c, c2 = b + margin.y, c + margin.h1, c2 + margin.h2
        return Boltzmann.of(self.patches.expand(w["W"]), c, b, w["W2"], c2, self._pairs(view))

    def starts(self, machine: Boltzmann, count: int, rng: np.random.Generator) -> Bits:
        """h1 to start from: one from what the image says of every unit alone, others random."""
        alone = sigmoid(machine.b) @ machine.W + machine.c > 0
        random = rng.integers(0, 2, (count - 1, machine.c.size), dtype=np.int8)
        return np.concatenate([alone[None].astype(np.int8), random])

    def log_odds(self, view: View, starts: int) -> Float32:
        """The log-odds of the labels, in the mask's shape, given the best hidden state found."""
        machine = self.given(view)
        # A seed of its own, so that an image has one answer in any company.
        _, hidden = machine.best(self.starts(machine, starts, np.random.default_rng(0)))
        return np.asarray(machine.log_odds(hidden[0]).reshape(self.patches.shape), np.float32)

    def _pairs(self, view: View) -> Energy | None:
        if not self.w["v"].size:
            return None
        flat = view.edges.astype(np.float64) @ self.w["v"].astype(np.float64)
        weights, start = [], 0
        for first, _ in grid_slices(self.patches.shape, CONNECTIVITY):
            box = tuple(s.stop - s.start for s in first)
            weights.append(flat[start : start + box[0] * box[1]].reshape(box))
            start += box[0] * box[1]
        return Energy.grid(np.zeros(self.patches.shape), weights, CONNECTIVITY)

    # -- joint features ------------------------------------------------------------------------

    def add(self, total: Numbers, step: float, view: View, plus: State, minus: State) -> None:
        """total += step (psi(plus, x) - psi(minus, x)), in place.

        The two states mostly agree, so V1 and V2 change in the rows of few units only.
        """
        s, units = np.float32(step), self.w["W"].shape[1]
        pairs = [np.stack(both).astype(np.float32) for both in zip(_layers(plus), _layers(minus))]
        y, h1, h2 = pairs
        signed = h1 * np.array([[1], [-1]], np.float32)
        total["W"] += s * self.patches.outer(y, signed, units)
        total["W2"] += s * (signed.T @ h2)
        dy, dh1, dh2 = (layer[0] - layer[1] for layer in pairs)
        total["b"] += s * dy
        total["c"] += s * dh1
        total["c2"] += s * dh2
        count = np.bincount(view.regions, dy, minlength=len(view.x0)).astype(np.float32)
        total["V0"] += s * (count @ view.x0)
        parts = dh1.reshape(len(self.patches.corners), units)
        rows = np.flatnonzero(parts.any(axis=0))
        total["V1"][rows] += s * (parts[:, rows].T @ view.x1[:, : self.w["V1"].shape[1]])
        rows = np.flatnonzero(dh2)
        total["V2"][rows] += s * np.outer(dh2[rows], view.x2[: self.w["V2"].shape[1]])
        if self.w["v"].size:
            differing = self._differing(plus[0]) - self._differing(minus[0])
            total["v"] -= s * (differing @ view.edges)

    def psi(self, view: View, y: Bits, hidden: Hidden) -> Numbers:
        """The joint features of a state, in the shapes of w."""
        made = {name: np.zeros_like(array) for name, array in self.w.items()}
        nothing = (np.zeros_like(y), tuple(np.zeros_like(h) for h in hidden))
        self.add(made, 1.0, view, (y, hidden), nothing)
        return made

    def _differing(self, y: Bits) -> Float32:
        mask = y.reshape(self.patches.shape)
        ends = grid_slices(self.patches.shape, CONNECTIVITY)
        return np.concatenate([(mask[a] != mask[b]).ravel() for a, b in ends]).astype(np.float32)


def _layers(state: State) -> list[Bits]:
    """y, h1 and h2, which is empty where there is none."""
    y, hidden = state
    return [y, *hidden, np.zeros(0, np.int8)][:3]


@dataclass(frozen=True)
class Margin:
    """How much the units of each layer gain by differing from given ones: shifts of biases.

    sum_i [y_i != t_i] = sum_i t_i + sum_i (1 - 2 t_i) y_i; the first sum is `constant`.
    """

    y: Float32
    h1: Float32
    h2: Float32
    constant: float

    @classmethod
    def of(
        cls, truth: NDArray[Any], hidden: Sequence[Bits], output: float, latent: float, void: Any
    ) -> "Margin":
        """Weights `output` and `latent` for every label and hidden unit; void labels weigh 0."""
        h1 = hidden[0]
        h2 = hidden[1] if len(hidden) > 1 else np.zeros(0, np.int8)
        weight = np.where(void, 0, output)
        constant = float((weight * truth).sum() + latent * (h1.sum() + h2.sum()))
        shifts = (weight * (1 - 2 * truth), latent * (1 - 2 * h1), latent * (1 - 2 * h2))
        y, first, second = (np.asarray(s, np.float32) for s in shifts)
        return cls(y, first, second, constant)
