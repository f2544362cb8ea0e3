"""Calibration: from min-marginals to probabilities that hold on images unseen in training.

Phi_d(k), the least energy with pixel d at label k, says which labels are close, in units that
training chose for its own ends; within a piece of one label it is often the same for all pixels,
however sure the features of each are. So the costs U_d of a pixel alone are mixed in: a map from

    Psi_d = (1 - c) Phi_d + c U_d,    c in [0, 1],

to probabilities is fitted on held-out images, with c = v / (s + v) of the largest likelihood of
softmax(-s Phi_d - v U_d + b), which is concave in s, v >= 0 and b. Images weigh alike, whatever
their size; a pixel that a box or a seed fixes has probability 1 of its label. The maps, by name
(`CALIBRATIONS`):

    temperature   q_d = softmax(-s Psi_d + b), with s > 0, and b_0 = 0
    isotonic      q_dk ~ f_k(min over j != k of Psi_d(j) - Psi_d(k)), f_k rising, brought to sum 1
    None          q_d = softmax(-Phi_d)

b is there because a bias may be shifted for IoU or trained for areas.

The area of label k is expected to be A = sum_d q_dk, and the mask has B pixels of it. A suffers
where one map cannot serve all pixels: a min-marginal of a smooth background hardly exceeds what its
edges carry, so its q stays near some 0.01, and a million such pixels are a cell too many. B suffers
where masks are trained for something else. Held-out images choose: the area is A + a (B - A), with
a in [0, 1] of the least squares of z below, 0 with fewer than four groups.

Were all pixels right or wrong together, the deviation of the area would be
S = sum_d sqrt(q_dk (1 - q_dk)), were they independent far less. Held-out images measure which part
of S is true. With z = (true area - area) / S and g groups of images that vary together, the
interval is the area +- t r S: a prediction from g draws, whose mean the map has fitted. Here
r^2 = (mean of z^2) (g + 1) / d, and t is of Student's law of d degrees, d = g - 1, less one if
a > 0. Fewer than four groups give no interval (docs/decisions/0054).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from sys import float_info
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.arrays import VOID, Bits, Floats, Mask
from cutlearn.energy.model import Model
from cutlearn.energy.potentials import Unary
from cutlearn.energy.problem import Problem
from cutlearn.errors import InputError, plural
from cutlearn.plugins import Registry
from cutlearn.run.executor import executor_of

Plain = dict[str, Any]
Arrays = dict[str, Floats]

# Numbers of an image that are kept for the fit: so many pixels for each of its labels.
MOST_NUMBERS = 100_000
# Numbers of all images together: of thousands of images there are fewer pixels of each.
MOST_OF_ALL = 16_000_000
# Pixels of all images together that the map is fitted on: what images differ by counts for more.
MOST_ROWS = 200_000
# Fewer groups of held-out images give areas no interval: t and r would make it useless.
ENOUGH_GROUPS = 4
# The surest that isotonic steps can be: what held-out pixels never showed may still happen.
EDGE = 1e-4
# How far the scale and the offsets may go where the held-out labels are separated perfectly.
FARTHEST = 10.0
# Pixels of a likelihood that are computed at a time.
BLOCK = 1 << 14
# Numbers of each label in a model file: their name there, least and largest value.
OF_LABELS = {
    "area_scale": ("spread", 0.0, float_info.max),
    "mask_weight": ("lean", 0.0, 1.0),
    "degrees": ("degrees", 1.0, math.inf),
}


class Evidence(NamedTuple):
    """What probabilities of an image are computed from, (h, w, L) each.

    Attributes
    ----------
    min_marginals : least energy with each pixel at each label
    alone : cost of each label at a pixel without its neighbours; None: the model has none
    """

    min_marginals: Floats
    alone: Floats | None = None

    @property
    def labels(self) -> Mask:
        """The labels of least min-marginal, the lower one of two alike: those of the cut."""
        return np.asarray(self.min_marginals.argmin(axis=-1), np.uint8)

    def take(self, rows: slice) -> "Evidence":
        """Return some rows of the image."""
        own = None if self.alone is None else self.alone[rows]
        return Evidence(self.min_marginals[rows], own)


def costs_alone(model: Model, problem: Problem, w: ArrayLike) -> Floats:
    """Return what each label costs at each node by itself, the problem's shape + (L,).

    Of two labels, 0 costs nothing.
    """
    layout = model.layout(problem)
    # A field for each label, or one for all of them.
    fields: list[Floats] = []
    for row in layout.rows(w):
        every = zip(model.potentials, layout.potentials, layout.slices)
        own = [p.terms(problem, row[s]).unary for given, p, s in every if isinstance(given, Unary)]
        fields.append(np.sum([part for part in own if part is not None], axis=0))
    costs = fields[0] if len(fields) == 1 else np.stack(fields, axis=-1)
    if costs.ndim == 1:
        costs = np.stack([np.zeros_like(costs), costs], axis=-1)
    return costs.reshape(*(problem.shape or (-1,)), costs.shape[-1])


class Map(ABC):
    """From min-marginals, (..., L), to probabilities that sum to 1."""

    name: ClassVar[str | None]
    learns: ClassVar[bool] = True  # whether it is fitted on held-out pixels

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
        """Return the probabilities; that of an infinite min-marginal is 0."""

    @abstractmethod
    def to_plain(self) -> tuple[Plain, Arrays]:
        """Return what a model file keeps: plain values, and tensors by name."""

    @classmethod
    @abstractmethod
    def from_plain(cls, plain: Plain, arrays: Arrays, n_labels: int) -> Self:
        """Return the map of `to_plain`; what does not fit raises ValueError or TypeError."""


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

        likelihood, n_labels = (
            MixedLikelihood([min_marginals], labels, weight), min_marginals.shape[1]
        )  # fmt: skip
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
        """Return softmax(-s Phi + b)."""
        from scipy.special import softmax

        relative = min_marginals - min_marginals.min(axis=-1, keepdims=True)
        q = softmax(self.offsets - self.scale * relative, axis=-1)
        return np.asarray(q / q.sum(axis=-1, keepdims=True))

    def to_plain(self) -> tuple[Plain, Arrays]:
        """Return s and b."""
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
        """Return f of the margins, brought to sum 1."""
        parts = [np.interp(margin_of(min_marginals, k), *f) for k, f in enumerate(self.steps)]
        q = np.where(np.isinf(min_marginals), 0.0, np.stack(parts, axis=-1))
        return np.asarray(q / q.sum(axis=-1, keepdims=True))

    def to_plain(self) -> tuple[Plain, Arrays]:
        """Return the points by label."""
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


CALIBRATIONS: Registry[type[Map]] = Registry(
    "calibration", {kind.name: kind for kind in (Temperature, Isotonic, Softmax)}
)


class MixedLikelihood:
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
        """Return the value, and its derivatives by the scales s and the offsets b_1, b_2, ..."""
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
    """Return v / (s + v) of the largest likelihood of softmax(-s first - v second + b).

    Parameters
    ----------
    first, second : (n, L), finite
    labels, weight : (n,)
        As in `Map.fit`.
    """
    from scipy.optimize import minimize

    n_labels, likelihood = first.shape[1], MixedLikelihood([first, second], labels, weight)
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
    """Return min over j != label of Phi(j) - Phi(label): how clearly the label wins."""
    others = np.delete(min_marginals, label, axis=-1).min(axis=-1)
    return np.asarray(others - min_marginals[..., label])


def _isotonic(margin: Floats, hit: Bits, weight: Floats) -> Floats:
    """Return the points of the rising function that is nearest to the labels."""
    from sklearn.isotonic import IsotonicRegression

    model = IsotonicRegression(y_min=EDGE, y_max=1 - EDGE).fit(margin, hit, weight)
    return np.stack([model.X_thresholds_, model.y_thresholds_]).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Rows:
    """Pixels of one held-out image, evenly drawn.

    Parameters
    ----------
    min_marginals : (n, L) min-marginals
    labels : (n,) true labels
    share : float
        The part of the image's labelled pixels that was drawn.
    alone : (n, L) costs of each label without neighbours, or None
    """

    min_marginals: Floats
    labels: Mask
    share: float
    alone: Floats | None = None

    def thinned(self, most: int) -> "Rows":
        """Return at most so many of the pixels, evenly drawn."""
        return drawn(self.min_marginals, self.labels, most, self.alone, self.share)


def most_of(n_images: int, n_labels: int) -> int:
    """Return how many pixels of each of so many images are drawn.

    Examples
    --------
    >>> most_of(20, 2), most_of(2000, 2)
    (50000, 4000)
    """
    return max(1, min(MOST_NUMBERS, MOST_OF_ALL // n_images) // n_labels)


def drawn(
    min_marginals: Floats,
    mask: Mask,
    most: int | None = None,
    alone: Floats | None = None,
    share: float = 1.0,
) -> Rows:
    """Return rows drawn evenly from labelled pixels that no box or seed fixes.

    `share`: the part of the image that the arrays are.
    """
    table, truth = min_marginals.reshape(-1, min_marginals.shape[-1]), mask.reshape(-1)
    most = MOST_NUMBERS // min_marginals.shape[-1] if most is None else most
    known = kept = np.flatnonzero((truth != VOID) & np.isfinite(table).all(axis=1))
    if len(known) > most:
        kept = known[np.linspace(0, len(known) - 1, most).astype(np.int64)]
    own = None if alone is None else alone.reshape(table.shape)[kept]
    return Rows(table[kept], truth[kept], share * len(kept) / max(len(known), 1), own)


@dataclass(frozen=True, eq=False)
class Calibration:
    """The map from min-marginals to probabilities, and the errors of areas.

    Parameters
    ----------
    map : Map
    n_images, n_groups : int
        Images it was fitted on, and groups of such that vary together; 0: none, the map is the
        plain softmax.
    held_out : bool
        Whether what gave the min-marginals had not seen those images: the logits, if there are any,
        else the weights.
    area_scale : (L,)
        r of the areas of every label.
    mask_weight : (L,) or None
        a of every label: how much of its area is that of the mask. None: 0.
    mixed : float
        c: the share of a pixel's own costs.
    degrees : (L,) or None
        d of every label. None: as files of earlier versions had it.
    """

    map: Map
    n_images: int
    n_groups: int
    held_out: bool
    area_scale: Floats
    mask_weight: Floats | None = None
    mixed: float = 0.0
    degrees: Floats | None = None

    @property
    def has_intervals(self) -> bool:
        """Whether areas have intervals: whether there were enough groups of held-out images."""
        return self.n_groups >= ENOUGH_GROUPS

    @property
    def without_intervals(self) -> str:
        """The reason why areas have no intervals, as a sentence; empty where they have."""
        if self.has_intervals:
            return ""
        return (
            f"areas have no intervals, because the model was calibrated on held-out images of only "
            f"{plural(self.n_groups, 'group')}, and intervals need {ENOUGH_GROUPS} groups. Fit it "
            "on images of more groups, or calibrate it on such images."
        )

    @property
    def kind(self) -> str | None:
        """The name of the map, such as "temperature"."""
        return self.map.name

    def probabilities(self, min_marginals: Floats, alone: Floats | None = None) -> Floats:
        """Return the probabilities from min-marginals and a pixel's own costs, (..., L).

        The costs may be left out where none were mixed in.
        """
        return self.map.probabilities(self.seen(min_marginals, alone))

    def seen(self, min_marginals: Floats, alone: Floats | None) -> Floats:
        """Return Psi, (..., L)."""
        if not self.mixed:
            return min_marginals
        if alone is None:
            raise InputError(
                "probabilities: this calibration uses what each label costs a pixel alone. "
                "Pass these costs with the min-marginals."
            )
        # What cannot be stays so, also where nothing of the min-marginals counts.
        mixed, known = np.full(min_marginals.shape, np.inf), np.isfinite(min_marginals)
        np.multiply(1 - self.mixed, min_marginals, out=mixed, where=known)
        np.add(mixed, self.mixed * alone, out=mixed, where=known)
        return mixed

    def area(
        self, q: NDArray[np.floating], labels: Mask, label: int, level: float
    ) -> tuple[float, float, float]:
        """Return the area of a label and the ends of its interval; nan where there is none.

        Parameters
        ----------
        q : (..., L) probabilities
        labels : (...) uint8
            The mask.
        label : int
        level : float
        """
        from scipy.stats import t

        part = q[..., label].astype(np.float64).ravel()
        own = 0.0 if self.mask_weight is None else float(self.mask_weight[label])
        value = (1 - own) * float(part.sum()) + own * float((labels == label).sum())
        if not self.has_intervals:
            return value, np.nan, np.nan
        old = self.n_groups - (1 if self.mask_weight is None else 2)
        degrees = old if self.degrees is None else float(self.degrees[label])
        half = float(t.ppf((1 + level) / 2, degrees)) * self.area_scale[label] * _area_unit(part)
        return value, max(value - half, 0.0), min(value + half, float(part.size))

    def to_header(self) -> tuple[Plain, Arrays]:
        """Return what a model file keeps: plain values, and tensors by name."""
        plain, arrays = self.map.to_plain()
        plain |= {
            "kind": self.kind, "n_images": self.n_images, "n_groups": self.n_groups,
            "held_out": self.held_out, "mixed": self.mixed,
        }  # fmt: skip
        for name, (kept, *_) in OF_LABELS.items():
            numbers = getattr(self, name)
            plain[kept] = None if numbers is None else numbers.tolist()
        return plain, arrays

    @classmethod
    def from_header(cls, plain: Plain, arrays: Arrays, n_labels: int) -> "Calibration":
        """Return the calibration of `to_header`; a file may hold anything, so all is checked."""
        kind, held_out, mixed = plain["kind"], plain["held_out"], plain.get("mixed", 0.0)
        n_images, n_groups = plain["n_images"], plain["n_groups"]
        good = kind in CALIBRATIONS and type(n_images) is type(n_groups) is int
        good = good and 0 <= n_groups <= n_images < 2**53 and (n_groups > 0) == (n_images > 0)
        good = good and type(held_out) is bool and type(mixed) is float and 0 <= mixed <= 1
        numbers: dict[str, Any] = {}
        for name, (kept, least, most) in OF_LABELS.items():
            value = plain["spread"] if name == "area_scale" else plain.get(kept)
            if value is not None:  # files of earlier versions have neither weights nor degrees
                v = numbers[name] = np.array(value)
                good = good and v.dtype == np.float64 and v.shape == (n_labels,)
                good = good and bool(((v >= least) & (v <= most)).all())
        if not good:
            raise ValueError("a calibration that cannot be used")
        made = CALIBRATIONS[kind].from_plain(plain, arrays, n_labels)
        return cls(made, n_images, n_groups, held_out, mixed=mixed, **numbers)


def uncalibrated(n_labels: int) -> Calibration:
    """Return the map of a model without held-out images: softmax(-Phi)."""
    none = np.zeros(n_labels)
    return Calibration(Softmax(1.0, none), 0, 0, False, none)


def calibrate(
    rows: Sequence[Rows],
    kind: str | None,
    held_out: bool,
    groups: Sequence[Any] | None = None,
    threads: int = 1,
) -> Calibration:
    """Fit the map on the pixels of held-out images, then the errors of their areas.

    Parameters
    ----------
    rows : sequence of Rows
        One for each image; those without a pixel do not count.
    kind : a name of `CALIBRATIONS`
    held_out : bool
        As in `Calibration`.
    groups : n hashables, optional
        Images of one group vary together; by default each is its own.
    threads : int
        For the areas of images; the result does not depend on it.
    """
    names = range(len(rows)) if groups is None else groups
    g = len({name for name, part in zip(names, rows) if len(part.labels)})
    rows = [part for part in rows if len(part.labels)]
    made = _fitted(rows, kind, g, held_out)
    if not made.has_intervals:
        return made
    errors = executor_of(threads).map(partial(_area_errors, made), rows)
    off, gain = (np.array(part) for part in zip(*errors))
    a = np.clip((off * gain).sum(axis=0) / np.maximum((gain**2).sum(axis=0), 1e-12), 0, 1)
    left = np.mean((off - a * gain) ** 2, axis=0)
    degrees = np.where(a > 0, g - 2.0, g - 1.0)
    r = np.sqrt(left * (g + 1) / degrees)
    return replace(made, area_scale=r, mask_weight=a, degrees=degrees)


def _fitted(rows: Sequence[Rows], kind: str | None, g: int, held_out: bool) -> Calibration:
    """Return the mix and map of the largest likelihood; areas have no errors yet."""
    few = [part.thinned(max(1, MOST_ROWS // len(rows))) for part in rows]
    min_marginals = np.concatenate([part.min_marginals for part in few])
    labels = np.concatenate([part.labels for part in few])
    weight = np.concatenate([np.full(len(p.labels), 1 / len(p.labels)) for p in few]) / len(few)
    wanted, own = CALIBRATIONS[kind], [part.alone for part in few if part.alone is not None]
    made = uncalibrated(min_marginals.shape[1])
    made = replace(made, n_images=len(rows), n_groups=g, held_out=held_out)
    if wanted.learns and len(own) == len(few):
        alone = np.concatenate(own)
        made = replace(made, mixed=share_of_second(min_marginals, alone, labels, weight))
        min_marginals = made.seen(min_marginals, alone)
    return replace(made, map=wanted.fit(min_marginals, labels, weight))


def _area_errors(made: Calibration, part: Rows) -> tuple[Floats, Floats]:
    """Return (true area - A) / S and (B - A) / S of every label of a held-out image."""
    n_labels = part.min_marginals.shape[1]
    q = made.probabilities(part.min_marginals, part.alone)
    found = part.min_marginals.argmin(axis=1)
    true, own = (np.bincount(x, minlength=n_labels) for x in (part.labels, found))
    scale = np.array([part.share * _area_unit(q[:, k], part.share) for k in range(n_labels)])
    return (true - q.sum(axis=0)) / scale, (own - q.sum(axis=0)) / scale


def _area_unit(part: Floats, share: float = 1.0) -> float:
    """Return S, and one pixel for rounding."""
    return 1.0 + float(np.sqrt(part * (1 - part)).sum()) / share
