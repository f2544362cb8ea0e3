"""What every loss gives the oracle, and non-negative sums of losses.

A loss bound to one image gives Delta(y), y in {0, .., L - 1}^n, in the form that the oracle needs,

    -Delta(y) = min_k (constant_k + sum_i cost_k[i, y_i]) + sum_c psi_c(s_c) - f(s)

with cost_k[i, 0] = 0:

- pieces k: one cut each with shifted unaries. Hamming has one; the count of an image is a convex
  function of s = sum_i m_i y_i, hence two or three (pletscher2012, section 4);
- psi_c, of two labels: concave in a region's count s_c, an envelope in the same cut: counts of many
  regions, for which pieces would multiply;
- f, of two labels: any convex function of the image's plain count, by a scan of nested cuts.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.arrays import Bits, Mask, Vector
from cutlearn.energy.envelopes import Envelope
from cutlearn.errors import InputError
from cutlearn.run.checkpoint import fingerprint

MOST_PIECES = 16


@dataclass(frozen=True, eq=False)
class BoundLoss:
    """A loss bound to one image: -Delta(y) as above.

    Attributes
    ----------
    constant : (K,) float64
    cost : (K, n, L - 1) float64
        What the labels 1, 2, .. cost more than label 0; (K, n) will do for two labels.
    largest : float
        No labelling costs more.
    counts : tuple of Envelope
        psi_c.
    table : (N + 1,) float64, or empty
        f(0) .. f(N) for the number of ones among the N counted nodes.
    counted : (n,) bool
        Which nodes the table counts.
    """

    constant: Vector
    cost: NDArray[np.float64]
    largest: float
    counts: tuple[Envelope, ...] = ()
    table: Vector = field(default_factory=lambda: np.zeros(0))
    counted: Bits = field(default_factory=lambda: np.zeros(0, bool))

    def __post_init__(self) -> None:
        if self.cost.ndim == 2:
            object.__setattr__(self, "cost", self.cost[..., None])

    @classmethod
    def of_costs(cls, constant: Vector, cost: NDArray[np.float64], largest: float) -> "BoundLoss":
        """Bind costs (K, n, L) of all labels, label 0 among them."""
        relative = cost[..., 1:] - cost[..., :1]
        return cls(constant + cost[..., 0].sum(axis=1), relative, largest)

    def value(self, labels: ArrayLike) -> float:
        """Give Delta(y) of a labelling of the image's nodes."""
        y = np.asarray(labels).reshape(-1).astype(np.intp)
        at = np.flatnonzero(y)
        least = float(np.min(self.constant + self.cost[:, at, y[at] - 1].sum(axis=1)))
        for e in self.counts:
            least += e.value(float(e.weights[y[e.members] > 0].sum()))
        if self.table.size:
            least -= float(self.table[np.count_nonzero((y > 0) & self.counted)])
        return 0.0 - least  # never -0

    def plus(self, other: "BoundLoss", factor: float = 1.0) -> "BoundLoss":
        """Give the sum of this and another times a factor: all sums of their pieces."""
        constant = (self.constant[:, None] + factor * other.constant).reshape(-1)
        check_pieces(len(constant))
        cost = (self.cost[:, None] + factor * other.cost[None]).reshape(-1, *self.cost.shape[1:])
        more = tuple(
            Envelope(e.members, factor * e.slopes, factor * e.intercepts, e.weights)
            for e in other.counts
        )
        table, counted = self.table, self.counted
        if other.table.size:
            table = factor * other.table + (table if table.size else 0.0)
            counted = other.counted
        largest = self.largest + factor * other.largest
        return BoundLoss(constant, cost, largest, self.counts + more, table, counted)

    def arrays(self) -> list[NDArray[np.generic]]:
        """Return all that makes the loss, for comparisons and fingerprints."""
        out: list[NDArray[np.generic]] = [self.cost, self.constant, self.table, self.counted]
        for e in self.counts:
            out += [e.members, e.weights, e.slopes, e.intercepts]
        return out


def check_pieces(count: int) -> None:
    """Refuse a sum whose pieces need too many cuts."""
    if count > MOST_PIECES:
        raise InputError(
            f"loss is a sum that needs {count} or more cuts for each image, but at most "
            f"{MOST_PIECES} are possible. Use fewer counts of the whole image; counts of regions "
            "and one CountFunction need no further cuts."
        )


class Loss(ABC):
    """The cost of a labelling in training. Sums and non-negative multiples are losses too."""

    # Whether several labels must have an order for it to mean anything.
    needs_order = False

    @abstractmethod
    def bind(self, image: int, labels: Mask, counted: Bits, n_labels: int) -> BoundLoss:
        """Bind the loss to one image.

        Parameters
        ----------
        image : int
            Number of the image, for weights given image by image.
        labels : (n,) uint8
            True labels, 0 to n_labels - 1, void ones set to 0.
        counted : (n,) bool
            False where the true label is void: such a node costs nothing.
        n_labels : int
        """

    def __add__(self, other: "Loss") -> "Loss":
        if not isinstance(other, Loss):
            return NotImplemented
        return LossSum(_parts(self) + _parts(other))

    def __mul__(self, factor: float) -> "Loss":
        if isinstance(factor, bool) or not isinstance(factor, int | float | np.number):
            return NotImplemented
        if not 0 <= float(factor) < np.inf:
            raise InputError(
                f"loss has the factor {factor}, but factors must be finite and >= 0, so that "
                "training stays exact. Use a factor that is not negative."
            )
        return LossSum(tuple((float(factor) * f, loss) for f, loss in _parts(self)))

    __rmul__ = __mul__


@dataclass(frozen=True)
class LossSum(Loss):
    """A non-negative sum of losses, made by `2 * a + b`."""

    parts: tuple[tuple[float, Loss], ...]

    @property
    def needs_order(self) -> bool:  # type: ignore[override]
        """Whether a part does."""
        return any(loss.needs_order for _, loss in self.parts)

    def bind(self, image: int, labels: Mask, counted: Bits, n_labels: int) -> BoundLoss:
        """Bind every part; the pieces of the sum are all sums of the parts' pieces."""
        total = BoundLoss(np.zeros(1), np.zeros((1, labels.size, n_labels - 1)), 0.0)
        for factor, loss in self.parts:
            if factor > 0:
                total = total.plus(loss.bind(image, labels, counted, n_labels), factor)
        return total


def _parts(loss: Loss) -> tuple[tuple[float, Loss], ...]:
    return loss.parts if isinstance(loss, LossSum) else ((1.0, loss),)


def digest_of(weights: Sequence[ArrayLike] | None) -> str:
    """Return a name of the arrays for a repr."""
    if weights is None:
        return "None"
    arrays = [np.asarray(part, dtype=np.float64) for part in weights]
    return f"<{len(arrays)} arrays {fingerprint('', arrays)}>"


def image_weights(
    name: str,
    weights: Sequence[ArrayLike] | None,
    image: int,
    counted: NDArray[np.bool_],
) -> Vector:
    """Give the weights of one image's nodes, 0 where nothing is counted; 1 by default."""
    if weights is None:
        return counted.astype(np.float64)
    if image >= len(weights):
        raise InputError(
            f"{name} has {len(weights)} arrays, but none for image {image}. Give one for each "
            "image, in the order of the images."
        )
    array = np.asarray(weights[image], dtype=np.float64).reshape(-1)
    if array.size != counted.size or not np.isfinite(array).all() or (array < 0).any():
        raise InputError(
            f"{name}[{image}] must hold one finite number >= 0 for each of the {counted.size} "
            f"nodes, but has {array.size} values"
            f"{', some of them negative or not finite' if array.size == counted.size else ''}. "
            "Correct the array."
        )
    return np.where(counted, array, 0.0)
