"""One net while it is trained: its loss, its steps, and pre-training without labels.

`Optimiser` takes steps: orthogonalised momentum (Muon) for kernels of units, Adam for the rest, and
averages the weights. `NetTrainer` learns from crops of pictures and their labels.

`Restorer` comes before it: a net learns to restore pictures, their colours and what is in holes.
Labels play no part, so all images may take part in all folds, and images without masks too. In a
crop x both colours are taken away, and all channels in some squares; the net gives y(x), and the
loss is the mean square of y(x) - x over the channels that are seen. Colours depend on what a thing
is: nets that begin here need half as many steps with labels
(docs/decisions/0045-nets-that-have-looked-at-pictures.md).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cutlearn.arrays import VOID, Float32, Image
from cutlearn.features.net.body import Matrix, NetShape, Pass, Weights, folded
from cutlearn.features.net.crops import Crops, Lesson, Sight
from cutlearn.images.resize import Shape
from cutlearn.loaded import evenly_spaced, mapped, taken
from cutlearn.store import Arrays

# The polynomial that drives all singular values towards 1, applied so many times.
ODD, TIMES = (3.4445, -4.7750, 2.0315), 4
MUON_RATE, MOMENTUM, DECAY = 0.03, 0.9, 0.01
ADAM_RATE, FIRST, SECOND = 4e-3, 0.9, 0.98
# Of all steps: the share in which the rate rises. The last rate, of the highest one.
WARM, LAST = 0.1, 0.01
MOST_KEPT = 0.98
# What a step changes: attributes of an optimiser, weights by name each.
CHANGING = ("weights", "average", "first", "second")


def loss_of(logits: Matrix, share: Matrix, weights: Matrix) -> tuple[float, Matrix]:
    """Return mean cross-entropy plus half of the mean Dice loss, and its gradient by the logits.

    Dice of a question: 1 - (2 sum_i v_i p_i y_i + 1) / (sum_i v_i (p_i + y_i) + 1), over the batch.

    Parameters
    ----------
    logits, share, weights : (T, n, h, w)
        z; y, the share of label 1 in [0, 1]; v >= 0.
    """
    count = max(float(weights.sum(dtype=np.float64)), 1e-6)
    small = np.exp(-abs(logits))
    p = np.where(logits >= 0, 1, small) / (1 + small)
    cross = np.maximum(logits, 0) - logits * share + np.log1p(small)
    value = float((cross * weights).sum(dtype=np.float64)) / count
    slope = weights * (p - share) / np.asarray(count, logits.dtype)
    for t in range(len(logits)):
        v, y = weights[t], share[t]
        top = 2 * float((v * p[t] * y).sum(dtype=np.float64)) + 1
        bottom = float((v * (p[t] + y)).sum(dtype=np.float64)) + 1
        value += 0.5 * (1 - top / bottom) / len(logits)
        by_p = v * (top / bottom**2 - 2 / bottom * y)
        slope[t] += (0.5 / len(logits)) * by_p * p[t] * (1 - p[t])
    return value, slope.astype(logits.dtype, copy=False)


def orthogonal(matrix: Matrix) -> Matrix:
    """Return a matrix with the same singular vectors and singular values near 1 (Newton-Schulz).

    With S = X X' and M = a + b S + c S S, a round is X <- M X and S <- M S M. The rounds are done
    on the small square matrices, and X, which has nine times as many columns, is multiplied once.
    """
    x = matrix / (np.linalg.norm(matrix) + 1e-12)
    a, b, c = ODD
    square = x @ x.T
    one = np.eye(len(x), dtype=x.dtype)
    whole = one
    for k in range(TIMES):
        factor = a * one + b * square + c * (square @ square)
        whole = factor @ whole
        if k + 1 < TIMES:
            square = factor @ square @ factor
    return np.asarray(whole @ x, matrix.dtype)


def rate_at(step: int, steps: int) -> float:
    """Return the rate of a step over the highest: a rise, times half a cosine down to `LAST`."""
    rise = min(1.0, (step + 1) / max(1.0, WARM * steps))
    fall = LAST + (1 - LAST) * 0.5 * (1 + np.cos(np.pi * step / steps))
    return float(rise * fall)


class Optimiser:
    """Changes weights step by step, and averages them.

    Kernels of units take orthogonalised steps; all other weights take Adam's.
    """

    def __init__(self, weights: Weights, steps: int) -> None:
        self.weights, self.steps, self.step = weights, steps, 0
        self.average = {name: value.copy() for name, value in weights.items()}
        self.first = {name: np.zeros_like(value) for name, value in weights.items()}
        self.second = {n: np.zeros_like(v) for n, v in weights.items() if not is_kernel(n)}

    def take(self, gradient: Weights) -> None:
        """Take one step along a gradient."""
        rate = rate_at(self.step, self.steps)
        self.step += 1
        kept = min(MOST_KEPT, 1 - 1 / (self.step / 4 + 1))
        for name, value in self.weights.items():
            slope, first = gradient[name], self.first[name]
            if is_kernel(name):
                first *= MOMENTUM
                first += slope
                value *= 1 - rate * MUON_RATE * DECAY
                value -= rate * MUON_RATE * orthogonal(slope + MOMENTUM * first)
            else:
                second = self.second[name]
                first += (1 - FIRST) * (slope - first)
                second += (1 - SECOND) * (slope * slope - second)
                even = np.sqrt(second / (1 - SECOND**self.step)) + 1e-8
                value -= rate * ADAM_RATE * (first / (1 - FIRST**self.step)) / even
            self.average[name] += (1 - kept) * (value - self.average[name])

    def state(self) -> Weights:
        """Return all that changes from step to step, but for their number."""
        return {
            f"{group}.{name}": value
            for group in CHANGING
            for name, value in getattr(self, group).items()
        }

    def restore(self, step: int, state: Weights) -> None:
        """Restore what `state` returned after so many steps."""
        self.step = step
        for group in CHANGING:
            for name, value in getattr(self, group).items():
                value[...] = state[f"{group}.{name}"]


def is_kernel(name: str) -> bool:
    """Return whether weights are the kernel of a unit."""
    return name.endswith(".kernel") and name != "out.kernel"


# Batches for the last statistics.
SETTLE = 8


class NetTrainer:
    """One net while it is trained.

    Parameters
    ----------
    shape : NetShape
    crops : Crops
        What it learns from.
    steps : int
    seed : sequence of int
    first : arrays by name, optional
        Weights to begin with; those that are not there are drawn.
    """

    def __init__(
        self,
        shape: NetShape,
        crops: Crops,
        steps: int,
        seed: Sequence[int],
        first: Weights | None = None,
    ) -> None:
        self.shape, self.crops, self.rng = shape, crops, np.random.default_rng(list(seed))
        # Pixels of label 1, and known pixels, of each question.
        sums = (lesson.labels.sum(axis=(1, 2), dtype=np.float64) for lesson in crops.lessons)
        ones, known = np.sum([part.reshape(2, -1) for part in sums], axis=0)
        share = (ones + 1) / (known + 2)
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
        """Return all that training changes, as an entry of a cache."""
        values = {"step": self.optimiser.step, "random": self.rng.bit_generator.state}
        return values, dict(self.optimiser.state())

    def restore(self, values: dict[str, Any], arrays: Arrays) -> None:
        """Resume from a state."""
        self.rng.bit_generator.state = values["random"]
        self.optimiser.restore(int(values["step"]), arrays)

    def settled(self) -> Weights:
        """Return the averaged weights, with statistics of fresh batches folded in."""
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


# The channels of the two colours, after that of brightness.
COLORS = slice(1, 3)
# Squares that are taken out of a crop, and their side as a part of its shorter side.
HOLES, PART = 4, 0.25
# Pixels, as the net sees them, of all images without masks together: more would fill the memory.
PIXELS = 10_000_000


class Restorer(NetTrainer):
    """A net that learns to restore pictures, instead of to answer questions."""

    def __init__(
        self,
        shape: NetShape,
        sight: Sight,
        lessons: Sequence[Lesson],
        canvas: Shape,
        size: int,
        steps: int,
        seed: Sequence[int],
    ) -> None:
        self.channels = len(sight.mean)
        self.shape = replace(shape, outputs=self.channels)
        # Crops are not centred on objects: where objects are is a label, too.
        self.crops = Crops(sight, mapped(_blind, lessons), canvas, size)
        self.rng = np.random.default_rng(list(seed))
        even = np.full(self.channels, 0.5)
        self.optimiser = Optimiser(self.shape.begin(even, self.rng), steps)

    def advance(self, steps: int) -> None:
        """Take some steps."""
        for _ in range(steps):
            planes, _, _ = self.crops.draw(self.rng)
            one = Pass(self.shape, self.optimiser.weights)
            wrong = one.logits(damaged(planes, self.channels, self.rng)) - planes[: self.channels]
            self.optimiser.take(one.gradient(wrong * np.float32(2 / wrong.size)))

    def settled(self) -> Weights:
        """Return the averaged weights of all layers but the last."""
        average = self.optimiser.average
        return {name: value for name, value in average.items() if not name.startswith("out.")}


def unannotated_lessons(
    sight: Sight, pairs: Sequence[tuple[Image, Float32 | None]], questions: int
) -> list[Lesson]:
    """Return lessons of images without masks, of some of them if they are large."""
    if not pairs:
        return []
    rows, columns = sight.shape(pairs[0][0].shape[:2])
    few = evenly_spaced(len(pairs), max(1, PIXELS // (rows * columns)))
    return [
        Lesson.of(sight, image, np.full((*image.shape[:2], questions), VOID, np.uint8), extra)
        for image, extra in taken(pairs, few)
    ]


def _blind(lesson: Lesson) -> Lesson:
    return replace(lesson, ones=())


def damaged(planes: Float32, channels: int, rng: np.random.Generator) -> Float32:
    """Return pictures (c, n, h, w) without colours, and with holes in their first channels.

    Zero is the mean of a channel.
    """
    made = planes.copy()
    made[COLORS] = 0
    n, h, w = planes.shape[1:]
    side = max(1, round(PART * min(h, w)))
    for k in range(n):
        for _ in range(HOLES):
            top, left = rng.integers(h - side + 1), rng.integers(w - side + 1)
            made[:channels, k, top : top + side, left : left + side] = 0
    return made
