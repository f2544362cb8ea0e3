"""What a wrong labelling costs in training: Hamming, count, and non-negative sums of them.

A loss bound to one image gives Delta(y) and the form that the oracle needs: -Delta(y) is the
lowest of a few functions that are linear in y, -Delta(y) = min_k (constant_k + unary_k . y), so
min_y [E(y) - Delta(y)] is the least of K cuts with shifted unaries. Hamming has one piece; a count
is a convex function of s = sum_i m_i y_i, hence two or three (pletscher2012, section 4).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.errors import InputError

Vector = NDArray[np.float64]

MOST_PIECES = 16
SIDES = ("both", "over", "under")


@dataclass(frozen=True, eq=False)
class ImageLoss:
    """A loss bound to one image: Delta(y) = -min_k (constant_k + unary_k . y).

    Attributes
    ----------
    constant : (K,) float64
    unary : (K, n) float64
    largest : float
        No labelling costs more.
    """

    constant: Vector
    unary: NDArray[np.float64]
    largest: float

    def value(self, labels: ArrayLike) -> float:
        """Give Delta(y) of a labelling of the image's nodes."""
        y = np.asarray(labels).reshape(-1).astype(bool)
        return float(-np.min(self.constant + self.unary[:, y].sum(axis=1)))


class Loss(ABC):
    """The cost of a labelling in training. Sums and non-negative multiples are losses too."""

    @abstractmethod
    def bind(self, image: int, labels: NDArray[np.uint8], counted: NDArray[np.bool_]) -> ImageLoss:
        """Bind the loss to one image.

        Parameters
        ----------
        image : int
            Number of the image, for weights given image by image.
        labels : (n,) uint8
            True labels, 0 or 1, void ones set to 0.
        counted : (n,) bool
            False where the true label is void: such a node costs nothing.
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
                f"loss: factor {factor} found; a finite number >= 0 wanted, so that the oracle "
                "stays exact. Use a non-negative factor."
            )
        return LossSum(tuple((float(factor) * f, loss) for f, loss in _parts(self)))

    __rmul__ = __mul__


@dataclass(frozen=True)
class LossSum(Loss):
    """A non-negative sum of losses, made by `2 * a + b`."""

    parts: tuple[tuple[float, Loss], ...]

    def bind(self, image: int, labels: NDArray[np.uint8], counted: NDArray[np.bool_]) -> ImageLoss:
        """Bind every part; the pieces of the sum are all sums of the parts' pieces."""
        constant, unary, largest = np.zeros(1), np.zeros((1, labels.size)), 0.0
        for factor, loss in self.parts:
            if factor == 0:
                continue
            part = loss.bind(image, labels, counted)
            constant = (constant[:, None] + factor * part.constant).reshape(-1)
            if len(constant) > MOST_PIECES:
                raise InputError(
                    f"loss: a sum that needs {len(constant)} or more cuts an image found; at most "
                    f"{MOST_PIECES} wanted. Use fewer count losses."
                )
            unary = (unary[:, None] + factor * part.unary[None]).reshape(len(constant), -1)
            largest += factor * part.largest
        return ImageLoss(constant, unary, largest)


class Hamming(Loss):
    """The number of wrong nodes: Delta(y) = sum_i p_i l[y*_i] [y_i != y*_i].

    Parameters
    ----------
    label_weights : pair of numbers >= 0, optional
        Weight l of a mistake where the truth is 0 and where it is 1.
    pixel_weights : sequence of arrays >= 0, optional
        Weights p, one array for each image, in the order of the images.
    """

    def __init__(
        self,
        label_weights: Sequence[float] | None = None,
        pixel_weights: Sequence[ArrayLike] | None = None,
    ) -> None:
        self.label_weights = label_weights
        self.pixel_weights = pixel_weights
        if label_weights is not None:
            given = np.asarray(label_weights, dtype=np.float64)
            if given.shape != (2,) or not (np.isfinite(given).all() and (given >= 0).all()):
                raise InputError(
                    f"label_weights: {label_weights} found; two finite numbers >= 0 wanted, for "
                    "truth 0 and truth 1. Correct the pair."
                )

    def __repr__(self) -> str:
        return f"Hamming({self.label_weights!r}, {_digest(self.pixel_weights)})"

    def bind(self, image: int, labels: NDArray[np.uint8], counted: NDArray[np.bool_]) -> ImageLoss:
        """Bind to one image: one piece, +weight where the truth is 1 and -weight where it is 0."""
        weight = _image_weights("pixel_weights", self.pixel_weights, image, counted)
        if self.label_weights is not None:
            weight = weight * np.asarray(self.label_weights, dtype=np.float64)[labels]
        ones = labels == 1
        unary = np.where(ones, weight, -weight)
        total = float(weight[ones].sum())
        return ImageLoss(np.array([-total]), unary[None], float(weight.sum()))


class Count(Loss):
    """How far the (weighted) number of ones is off: Delta(y) = max(0, |s - s*| - tolerance).

    s = sum_i m_i y_i over the image's labelled nodes, s* the same of the true labels.

    Parameters
    ----------
    weights : sequence of arrays >= 0, optional
        Weights m (areas), one array for each image, in the order of the images; 1 by default.
    side : "both", "over" or "under"
        Count too many and too few, only too many, or only too few.
    tolerance : float >= 0
        Differences up to this cost nothing.
    regions : None
        Counts of regions are not available yet.
    """

    def __init__(
        self,
        weights: Sequence[ArrayLike] | None = None,
        side: str = "both",
        tolerance: float = 0,
        regions: Any = None,
    ) -> None:
        if side not in SIDES:
            raise InputError(
                f"The 'side' parameter of Count must be one of {SIDES}. Got {side!r} instead."
            )
        if not 0 <= tolerance < np.inf:
            raise InputError(
                f"The 'tolerance' parameter of Count must be a finite number >= 0. "
                f"Got {tolerance!r} instead."
            )
        if regions is not None:
            raise InputError(
                "regions: a count loss on regions asked for; only the whole image is counted so "
                "far. Leave out regions."
            )
        self.weights = weights
        self.side = side
        self.tolerance = tolerance

    def __repr__(self) -> str:
        return f"Count({_digest(self.weights)}, {self.side!r}, {self.tolerance!r})"

    def bind(self, image: int, labels: NDArray[np.uint8], counted: NDArray[np.bool_]) -> ImageLoss:
        """Bind to one image: a piece for each line of -Delta that is lowest somewhere."""
        m = _image_weights("weights", self.weights, image, counted)
        truth, total = float(m[labels == 1].sum()), float(m.sum())
        over, under = truth + self.tolerance, truth - self.tolerance
        lines = []
        # s - s* > tolerance happens only below the total, s* - s > tolerance only above zero;
        # a line that is never alone the lowest would only cost a cut.
        has_over = self.side != "under" and over < total
        has_under = self.side != "over" and under > 0
        if has_under:
            lines.append((1.0, -under))
        if not (has_over and has_under and over == under):
            lines.append((0.0, 0.0))
        if has_over:
            lines.append((-1.0, over))
        slope = np.array([a for a, _ in lines])
        largest = max(0.0, total - over if has_over else 0.0, under if has_under else 0.0)
        return ImageLoss(np.array([b for _, b in lines]), slope[:, None] * m, largest)


NAMED: dict[str, type[Hamming] | type[Count]] = {"hamming": Hamming, "count": Count}


def loss_of(loss: str | Loss) -> Loss:
    """Give the loss that a name or a loss means."""
    if isinstance(loss, Loss):
        return loss
    if loss in NAMED:
        return NAMED[loss]()
    raise InputError(
        f"The 'loss' parameter must be one of {tuple(NAMED)} or a Loss. Got {loss!r} instead."
    )


def _parts(loss: Loss) -> tuple[tuple[float, Loss], ...]:
    return loss.parts if isinstance(loss, LossSum) else ((1.0, loss),)


def _digest(weights: Sequence[ArrayLike] | None) -> str:
    """Name the weights in a repr that differs whenever they differ (checkpoints compare it)."""
    if weights is None:
        return "None"
    import hashlib

    digest = hashlib.blake2b(digest_size=8)
    for part in weights:
        digest.update(np.ascontiguousarray(part, dtype=np.float64).tobytes())
    return f"<{len(weights)} arrays {digest.hexdigest()}>"


def _image_weights(
    name: str,
    weights: Sequence[ArrayLike] | None,
    image: int,
    counted: NDArray[np.bool_],
) -> Vector:
    if weights is None:
        return counted.astype(np.float64)
    if image >= len(weights):
        raise InputError(
            f"{name}: {len(weights)} arrays found, none for image {image}; one for each image "
            "wanted. Give them in the order of the images."
        )
    array = np.asarray(weights[image], dtype=np.float64).reshape(-1)
    if array.size != counted.size or not np.isfinite(array).all() or (array < 0).any():
        raise InputError(
            f"{name}[{image}]: {array.size} values found for {counted.size} nodes; one finite "
            "number >= 0 a node wanted. Correct the array."
        )
    return np.where(counted, array, 0.0)
