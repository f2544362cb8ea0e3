"""From min-marginals to probabilities that hold on images which the weights have not seen.

Phi_d(k), the least energy with pixel d at label k, says which labels are close, in units that
training chose for its own ends. Held-out images give them a scale:

    temperature   q_d = softmax(-s Phi_d + b), with s > 0, and b_0 = 0
    isotonic      q_dk ~ f_k(min over j != k of Phi_d(j) - Phi_d(k)), f_k rising, brought to sum 1
    None          q_d = softmax(-Phi_d)

b is there because a bias may be shifted for IoU or trained for areas. Images weigh alike, whatever
their size; a pixel that a person has settled has probability 1 of its label.

The area of label k has the expectation A = sum_d q_dk. Were all pixels right or wrong together,
its deviation would be S = sum_d sqrt(q_dk (1 - q_dk)), were they independent far less. Held-out
images say which part of S is true. With z = (true area - A) / S, whose mean is near 0 because b was
fitted to them, and g groups of images that vary together, r^2 = (mean of z^2) (g + 1) / (g - 1), as
for any prediction from g draws, and the interval is A +- t r S with t of Student's law of g - 1
degrees. One group tells nothing: r = 1.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.features.problem import VOID

Floats = NDArray[np.float64]
Mask = NDArray[np.uint8]

CALIBRATIONS = ("temperature", "isotonic", None)
# Numbers of an image that are kept for the fit: so many pixels for each of its labels.
MOST_NUMBERS = 100_000
# The surest that isotonic steps can be: what held-out pixels never showed may still happen.
EDGE = 1e-4
# How far the scale and the offsets may go where the held-out labels are separated perfectly.
FARTHEST = 10.0


@dataclass(frozen=True, eq=False)
class Rows:
    """Pixels of one held-out image, evenly drawn.

    Parameters
    ----------
    least : (n, L) min-marginals
    labels : (n,) true labels
    share : float
        The part of the image's labelled pixels that was drawn.
    """

    least: Floats
    labels: Mask
    share: float


def drawn(least: Floats, mask: Mask, most: int | None = None) -> Rows:
    """Draw pixels evenly from those with a label that were not settled beforehand."""
    table, truth = least.reshape(-1, least.shape[-1]), mask.reshape(-1)
    most = MOST_NUMBERS // least.shape[-1] if most is None else most
    known = np.flatnonzero((truth != VOID) & np.isfinite(table).all(axis=1))
    kept = known
    if len(known) > most:
        kept = known[np.linspace(0, len(known) - 1, most).astype(np.int64)]
    return Rows(table[kept], truth[kept], len(kept) / max(len(known), 1))


@dataclass(frozen=True, eq=False)
class Calibration:
    """The map from min-marginals to probabilities, and how far areas stray from them.

    Parameters
    ----------
    kind : "temperature", "isotonic" or None
    n_images, n_groups : int
        Images it was fitted on, and groups of such that vary together; 0: none, the map is the
        plain softmax.
    held_out : bool
        Whether the weights that gave the min-marginals had not seen those images.
    scale, offsets : float, (L,)
        s and b.
    steps : L arrays (2, m)
        The points of every f_k: margins and probabilities.
    spread : (L,)
        r of the areas of every label.
    """

    kind: str | None
    n_images: int
    n_groups: int
    held_out: bool
    scale: float
    offsets: Floats
    steps: tuple[Floats, ...]
    spread: Floats

    def probabilities(self, least: Floats) -> Floats:
        """Give the probabilities of min-marginals, (..., L); they sum to 1."""
        if self.kind == "isotonic":
            parts = [np.interp(margin_of(least, k), *f) for k, f in enumerate(self.steps)]
            q = np.where(np.isinf(least), 0.0, np.stack(parts, axis=-1))
        else:
            q = _softmax(self.offsets - self.scale * _relative(least))
        return np.asarray(q / q.sum(axis=-1, keepdims=True))

    def area(self, q: NDArray[np.floating], label: int, level: float) -> tuple[float, float, float]:
        """Give the expected area of a label and the ends of its interval."""
        from scipy.stats import t

        part = q[..., label].astype(np.float64).ravel()
        value = float(part.sum())
        degrees = max(self.n_groups - 1, 1)
        half = float(t.ppf((1 + level) / 2, degrees)) * self.spread[label] * _stray(part)
        return value, max(value - half, 0.0), min(value + half, float(part.size))

    def to_header(self) -> tuple[dict[str, Any], dict[str, Floats]]:
        """Give what a model file keeps: plain values, and tensors by name."""
        plain = {
            "kind": self.kind, "n_images": self.n_images, "n_groups": self.n_groups,
            "held_out": self.held_out, "scale": self.scale, "offsets": self.offsets.tolist(),
            "spread": self.spread.tolist(),
        }  # fmt: skip
        return plain, {str(k): step for k, step in enumerate(self.steps)}

    @classmethod
    def from_header(
        cls, plain: dict[str, Any], arrays: dict[str, Floats], n_labels: int
    ) -> "Calibration":
        """Read what `to_header` gave; a file may say anything, so all of it is checked."""
        kind, held_out = plain["kind"], plain["held_out"]
        n_images, n_groups = plain["n_images"], plain["n_groups"]
        scale, offsets, spread = (np.array(plain[name]) for name in ("scale", "offsets", "spread"))
        steps = tuple(arrays[str(k)] for k in range(len(arrays)))
        good = kind in CALIBRATIONS and type(n_images) is type(n_groups) is int
        good = good and 0 <= n_groups <= n_images < 2**53 and (n_groups > 0) == (n_images > 0)
        good &= {scale.dtype, offsets.dtype, spread.dtype} == {np.dtype(np.float64)}
        good &= type(held_out) is bool and scale.shape == () and bool(0 < scale < math.inf)
        good &= offsets.shape == spread.shape == (n_labels,) and bool((spread >= 0).all())
        good &= bool(np.isfinite(offsets).all() and np.isfinite(spread).all())
        good &= len(steps) == (n_labels if kind == "isotonic" else 0)
        for step in steps:
            shaped = step.dtype == np.float64 and step.ndim == 2 and len(step) == 2 and step.size
            good &= bool(shaped) and bool(np.isfinite(step).all() and (np.diff(step) >= 0).all())
            good &= bool(shaped) and bool((step[1] > 0).all() and (step[1] < 1).all())
        if not good:
            raise ValueError("a calibration that cannot be used")
        return cls(kind, n_images, n_groups, held_out, float(scale), offsets, steps, spread)


def uncalibrated(n_labels: int) -> Calibration:
    """Give the map of a model that no held-out image was shown to: softmax(-Phi)."""
    return Calibration(None, 0, 0, False, 1.0, np.zeros(n_labels), (), np.zeros(n_labels))


def calibrate(
    rows: Sequence[Rows],
    kind: str | None,
    held_out: bool,
    groups: Sequence[Any] | None = None,
) -> Calibration:
    """Fit the map on the pixels of held-out images, then the spread of their areas.

    Parameters
    ----------
    rows : sequence of Rows
        One for each image; those without a pixel do not count.
    kind : "temperature", "isotonic" or None
    held_out : bool
        As in `Calibration`.
    groups : n hashables, optional
        Images of one group vary together; by default each is its own.
    """
    names = range(len(rows)) if groups is None else groups
    g = len({name for name, part in zip(names, rows) if len(part.labels)})
    rows = [part for part in rows if len(part.labels)]
    n_labels = rows[0].least.shape[1]
    scale, offsets = 1.0, np.zeros(n_labels)
    steps: tuple[Floats, ...] = ()
    least = np.concatenate([part.least for part in rows])
    labels = np.concatenate([part.labels for part in rows])
    weight = np.concatenate([np.full(len(p.labels), 1 / len(p.labels)) for p in rows]) / len(rows)
    if kind == "temperature":
        scale, offsets = _temperature(_relative(least), labels, weight)
    elif kind == "isotonic":
        steps = tuple(_isotonic(margin_of(least, k), labels == k, weight) for k in range(n_labels))
    none = np.zeros(n_labels)
    made = Calibration(kind, len(rows), g, held_out, scale, offsets, steps, none)
    strayed = []
    for part in rows:
        q = made.probabilities(part.least)
        true = np.bincount(part.labels, minlength=n_labels)
        strayed.append([(true[k] - q[:, k].sum()) / part.share
                        / _stray(q[:, k], part.share) for k in range(n_labels)])  # fmt: skip
    spread = np.ones(n_labels)
    if g > 1:
        spread = np.sqrt(np.mean(np.square(strayed), axis=0) * (g + 1) / (g - 1))
    return replace(made, spread=spread)


def margin_of(least: Floats, label: int) -> Floats:
    """Give min over j != label of Phi(j) - Phi(label): how clearly the label wins."""
    others = np.delete(least, label, axis=-1).min(axis=-1)
    return np.asarray(others - least[..., label])


def _relative(least: Floats) -> Floats:
    return np.asarray(least - least.min(axis=-1, keepdims=True))


def _softmax(logits: Floats) -> Floats:
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


def _stray(part: Floats, share: float = 1.0) -> float:
    """S, and one pixel for rounding."""
    return 1.0 + float(np.sqrt(part * (1 - part)).sum()) / share


def _temperature(relative: Floats, labels: Mask, weight: Floats) -> tuple[float, Floats]:
    """The s and b of the largest likelihood."""
    from scipy.optimize import minimize

    n_labels = relative.shape[1]
    # In units of the typical distance between labels the search does not depend on scales.
    unit = 1.0 / (float(weight @ relative.max(axis=1)) or 1.0)
    hit = labels[:, None] == np.arange(n_labels)

    def cost(x: Floats) -> tuple[float, Floats]:
        s = unit * math.exp(x[0])
        logits = np.concatenate([[0.0], x[1:]]) - s * relative
        q = _softmax(logits)
        loss = -float(weight @ np.log(np.maximum(q[hit], 1e-300)))
        residual = weight[:, None] * (q - hit)
        return loss, np.concatenate([[-s * (residual * relative).sum()], residual[:, 1:].sum(0)])

    start = np.zeros(n_labels)
    found = minimize(cost, start, jac=True, method="L-BFGS-B",
                     bounds=[(-FARTHEST, FARTHEST)] * n_labels).x  # fmt: skip
    return unit * math.exp(found[0]), np.concatenate([[0.0], found[1:]])


def _isotonic(margin: Floats, hit: NDArray[np.bool_], weight: Floats) -> Floats:
    """The points of the rising function that is nearest to the labels."""
    from sklearn.isotonic import IsotonicRegression

    model = IsotonicRegression(y_min=EDGE, y_max=1 - EDGE).fit(margin, hit, weight)
    return np.stack([model.X_thresholds_, model.y_thresholds_]).astype(np.float64)
