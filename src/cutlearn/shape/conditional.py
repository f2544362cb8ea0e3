"""Machines given an image: the terms that an image adds to each layer, and their training.

    E(y, h1, h2, x) = -y'W h1 - h1'W2 h2 - h1'(V1 x1 + c) - h2'(V2 x2 + c2) - y'(V0 x0 + b)
                      + sum_e [y_i != y_j] (v . g_e)

is linear in its numbers w = (W, c, b, W2, c2, V0, V1, V2, v): -E = w . psi(y, h1, h2, x). Given an
image it is a `Boltzmann`, and so is the margin-augmented problem: a margin counts units that differ
from given ones, which only shifts their biases. Max-margin learning is CCCP by stochastic gradient
(Algorithm 2 of yang2014):

    min_w  gamma/2 |w|^2 + sum_i max_(y, H) [ margin(y, H) - E(y, H, x_i) + E(y_i, H_i, x_i) ],
    H_i = argmin_H E(y_i, H, x_i)

One image at a time: H_i, then the state that violates the margin most, both by iterated modes, then
one step along the difference of their joint features. Void labels are hidden too.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cutlearn.arrays import VOID, AnyArray, Bits, Float32, Mask
from cutlearn.energy.energy import Energy
from cutlearn.features.edges import edge_contrast
from cutlearn.grid import grid_slices
from cutlearn.metrics import pooled_iou
from cutlearn.shape.boltzmann import Boltzmann, Units, sigmoid
from cutlearn.shape.describe import CONNECTIVITY, MachineInput
from cutlearn.shape.frame import Patches

Numbers = dict[str, AnyArray]
State = tuple[Units, tuple[Units, ...]]

# Weights of the output and of the hidden margin: cases 1 to 4 of yang2014.
MARGINS = {"none": (0.0, 0.0), "output": (1.0, 0.0), "hidden": (0.0, 1.0), "both": (1.0, 1.0)}
STRENGTHS = (0.0, 1.0, 3.0, 10.0, 30.0, 100.0)


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

    def given(self, view: MachineInput, margin: "Margin | None" = None) -> Boltzmann:
        """Return the machine of an image, with a margin added to -E or not."""
        w = self.w
        b = w["b"] + (view.x0 @ w["V0"])[view.regions]
        c = w["c"] + (view.x1[:, : w["V1"].shape[1]] @ w["V1"].T).ravel()
        c2 = w["c2"] + w["V2"] @ view.x2[: w["V2"].shape[1]]
        if margin is not None:
            b, c, c2 = b + margin.y, c + margin.h1, c2 + margin.h2
        return Boltzmann.of(self.patches.expand(w["W"]), c, b, w["W2"], c2, self._pairs(view))

    def starts(self, machine: Boltzmann, count: int, rng: np.random.Generator) -> Units:
        """Return h1 to start from: one from the biases of every unit alone, others random."""
        alone = sigmoid(machine.b) @ machine.W + machine.c > 0
        random = rng.integers(0, 2, (count - 1, machine.c.size), dtype=np.int8)
        return np.concatenate([alone[None].astype(np.int8), random])

    def log_odds(self, view: MachineInput, starts: int) -> Float32:
        """Return the log-odds of the labels, in the mask's shape, given the best hidden state."""
        machine = self.given(view)
        # A seed of its own, so that the result of an image does not depend on other images.
        _, hidden = machine.best(self.starts(machine, starts, np.random.default_rng(0)))
        return np.asarray(machine.log_odds(hidden[0]).reshape(self.patches.shape), np.float32)

    def _pairs(self, view: MachineInput) -> Energy | None:
        if not self.w["v"].size:
            return None
        flat = view.edges.astype(np.float64) @ self.w["v"].astype(np.float64)
        return _grid_energy(np.zeros(self.patches.shape), flat)

    # -- joint features ------------------------------------------------------------------------

    def add(
        self, total: Numbers, step: float, view: MachineInput, plus: State, minus: State
    ) -> None:
        """Add step (psi(plus, x) - psi(minus, x)) to a total, in place.

        The two states mostly agree, so V1 and V2 change in the rows of few units only.
        """
        s, units = np.float32(step), self.w["W"].shape[1]
        none = (np.zeros(0, np.int8),)  # h2 of a machine without it
        layers = zip((plus[0], *plus[1], *none), (minus[0], *minus[1], *none))
        pairs = [np.stack(both).astype(np.float32) for both in layers][:3]
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

    def _differing(self, y: Units) -> Float32:
        mask = y.reshape(self.patches.shape)
        ends = grid_slices(self.patches.shape, CONNECTIVITY)
        return np.concatenate([(mask[a] != mask[b]).ravel() for a, b in ends]).astype(np.float32)


@dataclass(frozen=True)
class Margin:
    """The gain of the units of each layer by differing from given ones: shifts of biases.

    sum_i [y_i != t_i] = sum_i t_i + sum_i (1 - 2 t_i) y_i; the first sum is `constant`.
    """

    y: Float32
    h1: Float32
    h2: Float32
    constant: float

    @classmethod
    def of(
        cls, truth: Units, hidden: Sequence[Units], output: float, latent: float, void: Bits
    ) -> "Margin":
        """Weigh every label by `output`, every hidden unit by `latent`, and void labels by 0."""
        h1 = hidden[0]
        h2 = hidden[1] if len(hidden) > 1 else np.zeros(0, np.int8)
        weight = np.where(void, 0, output)
        constant = float((weight * truth).sum() + latent * (h1.sum() + h2.sum()))
        shifts = (weight * (1 - 2 * truth), latent * (1 - 2 * h1), latent * (1 - 2 * h2))
        y, first, second = (np.asarray(s, np.float32) for s in shifts)
        return cls(y, first, second, constant)


@dataclass(frozen=True)
class Learning:
    """The settings of the max-margin training, and its steps.

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
        views: Sequence[MachineInput],
        labels: Sequence[Mask],
        rng: np.random.Generator,
        number: int,
    ) -> float:
        """Make one pass over the images, in place; return their mean violated margin.

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
        view: MachineInput,
        labels: Mask,
        rate: float,
        rng: np.random.Generator,
    ) -> float:
        """Make one step for one image; return by how much its margin is violated."""
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


def refinement(logits: Float32, image: Float32, strength: float) -> Energy:
    """Return E(y) = -sum_i logit_i y_i + strength sum_e [y_i != y_j] contrast_e on the pixels.

    Edges are cheap where colours change.
    """
    contrast = strength * edge_contrast(image, CONNECTIVITY).astype(np.float64)
    return _grid_energy(-logits.astype(np.float64), contrast)


def choose_strength(
    logits: Sequence[Float32], images: Sequence[Float32], masks: Sequence[Mask]
) -> tuple[float, float]:
    """Return the strength with the best pooled IoU (ties: the least), and that IoU."""
    scores = {}
    for strength in STRENGTHS:
        cuts = [refinement(f, i, strength).minimize() for f, i in zip(logits, images)]
        scores[strength] = pooled_iou(masks, [cut.labels for cut in cuts])
    best = max(scores, key=lambda strength: scores[strength])
    return best, scores[best]


def _grid_energy(unary: AnyArray, flat: AnyArray) -> Energy:
    """Return the energy of a grid whose edge weights are in the order of `grid_edges`."""
    weights, start = [], 0
    for first, _ in grid_slices(unary.shape, CONNECTIVITY):
        box = tuple(s.stop - s.start for s in first)
        weights.append(flat[start : start + box[0] * box[1]].reshape(box))
        start += box[0] * box[1]
    return Energy.grid(unary, weights, CONNECTIVITY)
