"""The maps from min-marginals to probabilities, by name: the one place that knows which there are.

    temperature   q_d = softmax(-s Phi_d + b), with s > 0, and b_0 = 0
    isotonic      q_dk ~ f_k(min over j != k of Phi_d(j) - Phi_d(k)), f_k rising, brought to sum 1
    None          q_d = softmax(-Phi_d)

b is there because a bias may be shifted for IoU or trained for areas. Another map is a class with a
name in `CALIBRATIONS`; parameters, fits and model files ask it.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import Floats, Mask

Plain = dict[str, Any]
Arrays = dict[str, Floats]

# The surest that isotonic steps can be: what held-out pixels never showed may still happen.
EDGE = 1e-4
# How far the scale and the offsets may go where the held-out labels are separated perfectly.
FARTHEST = 10.0
# Pixels of a likelihood that are worked at a time.
BLOCK = 1 << 14


class Map(ABC):
    """From min-marginals, (..., L), to probabilities that sum to 1."""

    name: ClassVar[str | None]
    learns: ClassVar[bool] = True  # whether held-out pixels have a say

    @classmethod
    @abstractmethod
    def fit(cls, min_marginals: Floats, labels: Mask, weight: Floats) -> Self:
        """Learn the map from pixels of held-out images.

        Parameters
        ----------
        min_marginals : (n, L) min-marginals, finite
        labels : (n,) true labels
        weight : (n,)
            What a pixel counts; they sum to 1.
        """

    @abstractmethod
    def probabilities(self, min_marginals: Floats) -> Floats:
        """Give the probabilities; a min-marginal that is infinite has none."""

    @abstractmethod
    def to_plain(self) -> tuple[Plain, Arrays]:
        """Give what a model file keeps: plain values, and tensors by name."""

    @classmethod
    @abstractmethod
    def from_plain(cls, plain: Plain, arrays: Arrays, n_labels: int) -> Self:
        """Read what `to_plain` gave; whatever does not fit raises ValueError or TypeError."""


class Temperature(Map):
    """One scale for all labels, and an offset for each.

    Parameters
    ----------
    scale, offsets : float, (L,)
        s and b.
    """

    name: ClassVar[str | None] = "temperature"

    def __init__(self, scale: float, offsets: Floats) -> None:
        self.scale, self.offsets = scale, offsets

    @classmethod
    def fit(cls, min_marginals: Floats, labels: Mask, weight: Floats) -> Self:
        """Take the s and b of the largest likelihood."""
        from scipy.optimize import minimize

        n_labels, likelihood = min_marginals.shape[1], Likelihood([min_marginals], labels, weight)
        (unit,) = likelihood.units

        def cost(x: Floats) -> tuple[float, Floats]:
            s = unit * math.exp(x[0])
            loss, slopes, residual = likelihood([s], x[1:])
            return loss, np.concatenate([s * slopes, residual])

        start = np.zeros(n_labels)
        found = minimize(cost, start, jac=True, method="L-BFGS-B",
                         bounds=[(-FARTHEST, FARTHEST)] * n_labels).x  # fmt: skip
        return cls(unit * math.exp(found[0]), np.concatenate([[0.0], found[1:]]))

    def probabilities(self, min_marginals: Floats) -> Floats:
        """Give softmax(-s Phi + b)."""
        from scipy.special import softmax

        return _normal(softmax(self.offsets - self.scale * _relative(min_marginals), axis=-1))

    def to_plain(self) -> tuple[Plain, Arrays]:
        """Give s and b."""
        return {"scale": self.scale, "offsets": self.offsets.tolist()}, {}

    @classmethod
    def from_plain(cls, plain: Plain, arrays: Arrays, n_labels: int) -> Self:
        """Read s and b."""
        scale, offsets = np.array(plain["scale"]), np.array(plain["offsets"])
        good = {scale.dtype, offsets.dtype} == {np.dtype(np.float64)} and not arrays
        good = good and scale.shape == () and bool(0 < scale < math.inf)
        if not good or offsets.shape != (n_labels,) or not np.isfinite(offsets).all():
            raise ValueError("a temperature that cannot be used")
        return cls(float(scale), offsets)


class Softmax(Temperature):
    """Nothing is learned: s = 1, b = 0."""

    name = None
    learns = False

    @classmethod
    def fit(cls, min_marginals: Floats, labels: Mask, weight: Floats) -> Self:
        """Leave the min-marginals as they are."""
        return cls(1.0, np.zeros(min_marginals.shape[-1]))


class Isotonic(Map):
    """A rising function of the margin for each label.

    Parameters
    ----------
    steps : L arrays (2, m)
        The points of every f_k: margins and probabilities.
    """

    name = "isotonic"

    def __init__(self, steps: tuple[Floats, ...]) -> None:
        self.steps = steps

    @classmethod
    def fit(cls, min_marginals: Floats, labels: Mask, weight: Floats) -> Self:
        """Take the rising functions that are nearest to the labels."""
        every = range(min_marginals.shape[-1])
        return cls(
            tuple(_isotonic(margin_of(min_marginals, k), labels == k, weight) for k in every)
        )

    def probabilities(self, min_marginals: Floats) -> Floats:
        """Give f of the margins, brought to sum 1."""
        parts = [np.interp(margin_of(min_marginals, k), *f) for k, f in enumerate(self.steps)]
        return _normal(np.where(np.isinf(min_marginals), 0.0, np.stack(parts, axis=-1)))

    def to_plain(self) -> tuple[Plain, Arrays]:
        """Give the points by label."""
        return {}, {str(k): step for k, step in enumerate(self.steps)}

    @classmethod
    def from_plain(cls, plain: Plain, arrays: Arrays, n_labels: int) -> Self:
        """Read the points."""
        good = arrays.keys() == {str(k) for k in range(n_labels)}
        for step in arrays.values():
            shaped = step.dtype == np.float64 and step.ndim == 2 and len(step) == 2 and step.size
            good &= bool(shaped) and bool(np.isfinite(step).all() and (np.diff(step) >= 0).all())
            good &= bool(shaped) and bool((step[1] > 0).all() and (step[1] < 1).all())
        if not good:
            raise ValueError("isotonic steps that cannot be used")
        return cls(tuple(arrays[str(k)] for k in range(n_labels)))


CALIBRATIONS: dict[str | None, type[Map]] = {
    kind.name: kind for kind in (Temperature, Isotonic, Softmax)
}


class Likelihood:
    """Minus the mean log-likelihood of labels under softmax(b - sum_j s_j T_j), b_0 = 0.

    Only differences to label 0 count: with D_jk = T_jk - T_j0 and z_k = b_k - sum_j s_j D_jk, the
    loss of a pixel with label y is log(1 + sum_k exp z_k) - z_y, z_0 = 0. Pixels are gone through
    in blocks that stay in a cache.

    Parameters
    ----------
    tables : of (n, L) arrays, finite
        T_j.
    labels, weight : (n,)
        As in `Map.fit`.
    """

    def __init__(self, tables: Sequence[Floats], labels: Mask, weight: Floats) -> None:
        every = np.stack([table.T[1:] - table.T[:1] for table in tables])
        # In units of the typical distance between labels a search does not depend on scales.
        far = np.maximum(every.max(axis=1), 0.0) - np.minimum(every.min(axis=1), 0.0)
        self.units = np.array([1.0 / (float(one) or 1.0) for one in (weight * far).sum(axis=1)])
        self.blocks: list[tuple[Floats, Floats, Floats]] = []
        for first in range(0, len(labels), BLOCK):
            some = slice(first, first + BLOCK)
            hit = labels[some] == np.arange(1, every.shape[1] + 1)[:, None]
            self.blocks.append(
                (np.ascontiguousarray(every[..., some]), hit.astype(np.float64), weight[some])
            )

    def __call__(
        self, scales: Sequence[float] | Floats, offsets: Floats
    ) -> tuple[float, Floats, Floats]:
        """Give the value, and its derivatives by the scales s and the offsets b_1, b_2, ..."""
        s, b = np.asarray(scales, np.float64), np.asarray(offsets, np.float64)[:, None]
        loss, slopes, residual = 0.0, np.zeros(len(s)), np.zeros(len(b))
        for D, hit, weight in self.blocks:
            z = b - s[0] * D[0]
            for scale, table in zip(s[1:], D[1:]):
                z -= scale * table
            most = np.maximum(z.max(axis=0), 0.0)
            of_label = (hit * z).sum(axis=0) - most
            z -= most
            np.exp(z, out=z)
            total = z.sum(axis=0) + np.exp(-most)
            loss += float((weight * (np.log(total) - of_label)).sum())
            z /= total
            z -= hit
            z *= weight
            slopes -= np.einsum("kn,jkn->j", z, D)
            residual += z.sum(axis=1)
        return loss, slopes, residual


def share_of_second(first: Floats, second: Floats, labels: Mask, weight: Floats) -> float:
    """Give v / (s + v) of the largest likelihood of softmax(-s first - v second + b).

    Parameters
    ----------
    first, second : (n, L), finite
    labels, weight : (n,)
        As in `Map.fit`.
    """
    from scipy.optimize import minimize

    n_labels, likelihood = first.shape[1], Likelihood([first, second], labels, weight)
    units = likelihood.units

    def cost(x: Floats) -> tuple[float, Floats]:
        loss, slopes, residual = likelihood(units * x[:2], x[2:])
        return loss, np.concatenate([units * slopes, residual])

    start = np.concatenate([[0.5, 0.5], np.zeros(n_labels - 1)])
    most = math.exp(FARTHEST)
    bounds = [(0.0, most)] * 2 + [(-FARTHEST, FARTHEST)] * (n_labels - 1)
    s, v = units * minimize(cost, start, jac=True, method="L-BFGS-B", bounds=bounds).x[:2]
    return float(v / (s + v)) if s + v > 0 else 0.0


def margin_of(min_marginals: Floats, label: int) -> Floats:
    """Give min over j != label of Phi(j) - Phi(label): how clearly the label wins."""
    others = np.delete(min_marginals, label, axis=-1).min(axis=-1)
    return np.asarray(others - min_marginals[..., label])


def _normal(q: Floats) -> Floats:
    return np.asarray(q / q.sum(axis=-1, keepdims=True))


def _relative(min_marginals: Floats) -> Floats:
    return np.asarray(min_marginals - min_marginals.min(axis=-1, keepdims=True))


def _isotonic(margin: Floats, hit: NDArray[np.bool_], weight: Floats) -> Floats:
    """The points of the rising function that is nearest to the labels."""
    from sklearn.isotonic import IsotonicRegression

    model = IsotonicRegression(y_min=EDGE, y_max=1 - EDGE).fit(margin, hit, weight)
    return np.stack([model.X_thresholds_, model.y_thresholds_]).astype(np.float64)
