"""Loss and steps: cross-entropy and Dice, orthogonalised momentum (Muon) and Adam, averaging."""

import numpy as np

from cutlearn.features.net.body import Weights
from cutlearn.features.net.planes import Matrix

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
    """Mean cross-entropy plus half of the mean Dice loss, and its gradient by the logits.

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
    """A matrix with the same singular vectors and singular values near 1 (Newton-Schulz).

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
    """The share of the highest rate in a step: a rise, times half a cosine down to `LAST`."""
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
        """All that changes from step to step, but for their number."""
        return {
            f"{group}.{name}": value
            for group in CHANGING
            for name, value in getattr(self, group).items()
        }

    def restore(self, step: int, state: Weights) -> None:
        """Take back what `state` gave after so many steps."""
        self.step = step
        for group in CHANGING:
            for name, value in getattr(self, group).items():
                value[...] = state[f"{group}.{name}"]


def is_kernel(name: str) -> bool:
    """Whether weights are the kernel of a unit."""
    return name.endswith(".kernel") and name != "out.kernel"
