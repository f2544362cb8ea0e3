"""From min-marginals to probabilities that hold on images which the weights have not seen.

Phi_d(k), the least energy with pixel d at label k, says which labels are close, in units that
training chose for its own ends. Held-out images give them a scale: `calibrations` has the maps.
Images weigh alike, whatever their size; a pixel that a box or a seed fixes has probability 1 of its
label.

The area of label k has the expectation A = sum_d q_dk. Were all pixels right or wrong together,
its deviation would be S = sum_d sqrt(q_dk (1 - q_dk)), were they independent far less. Held-out
images say which part of S is true. With z = (true area - A) / S, whose mean is near 0 because the
map was fitted to them, and g groups of images that vary together, r^2 = (mean of z^2) (g + 1) /
(g - 1), as for any prediction from g draws, and the interval is A +- t r S with t of Student's law
of g - 1 degrees. One group tells nothing: r = 1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.features.problem import VOID
from cutlearn.model.probability.calibrations import CALIBRATIONS, Map, Softmax
from cutlearn.run.workers import Workers

Floats = NDArray[np.float64]
Mask = NDArray[np.uint8]

# Numbers of an image that are kept for the fit: so many pixels for each of its labels.
MOST_NUMBERS = 100_000


@dataclass(frozen=True, eq=False)
class Rows:
    """Pixels of one held-out image, evenly drawn.

    Parameters
    ----------
    min_marginals : (n, L) min-marginals
    labels : (n,) true labels
    share : float
        The part of the image's labelled pixels that was drawn.
    """

    min_marginals: Floats
    labels: Mask
    share: float


def drawn(min_marginals: Floats, mask: Mask, most: int | None = None) -> Rows:
    """Draw pixels evenly from those with a label that no box or seed fixes."""
    table, truth = min_marginals.reshape(-1, min_marginals.shape[-1]), mask.reshape(-1)
    most = MOST_NUMBERS // min_marginals.shape[-1] if most is None else most
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
    map : Map
    n_images, n_groups : int
        Images it was fitted on, and groups of such that vary together; 0: none, the map is the
        plain softmax.
    held_out : bool
        Whether the weights that gave the min-marginals had not seen those images.
    spread : (L,)
        r of the areas of every label.
    """

    map: Map
    n_images: int
    n_groups: int
    held_out: bool
    spread: Floats

    @property
    def kind(self) -> str | None:
        """The name of the map, such as "temperature"."""
        return self.map.name

    def probabilities(self, min_marginals: Floats) -> Floats:
        """Give the probabilities of min-marginals, (..., L); they sum to 1."""
        return self.map.probabilities(min_marginals)

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
        plain, arrays = self.map.to_plain()
        plain |= {
            "kind": self.kind, "n_images": self.n_images, "n_groups": self.n_groups,
            "held_out": self.held_out, "spread": self.spread.tolist(),
        }  # fmt: skip
        return plain, arrays

    @classmethod
    def from_header(
        cls, plain: dict[str, Any], arrays: dict[str, Floats], n_labels: int
    ) -> "Calibration":
        """Read what `to_header` gave; a file may say anything, so all of it is checked."""
        kind, held_out = plain["kind"], plain["held_out"]
        n_images, n_groups, spread = plain["n_images"], plain["n_groups"], np.array(plain["spread"])
        good = kind in CALIBRATIONS and type(n_images) is type(n_groups) is int
        good = good and 0 <= n_groups <= n_images < 2**53 and (n_groups > 0) == (n_images > 0)
        good &= type(held_out) is bool and spread.dtype == np.float64
        good = good and spread.shape == (n_labels,) and bool((spread >= 0).all())
        if not good or not np.isfinite(spread).all():
            raise ValueError("a calibration that cannot be used")
        found = CALIBRATIONS[kind].from_plain(plain, arrays, n_labels)
        return cls(found, n_images, n_groups, held_out, spread)


def uncalibrated(n_labels: int) -> Calibration:
    """Give the map of a model that no held-out image was shown to: softmax(-Phi)."""
    none = np.zeros(n_labels)
    return Calibration(Softmax(1.0, none), 0, 0, False, none)


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
    kind : a name of `CALIBRATIONS`
    held_out : bool
        As in `Calibration`.
    groups : n hashables, optional
        Images of one group vary together; by default each is its own.
    """
    names = range(len(rows)) if groups is None else groups
    g = len({name for name, part in zip(names, rows) if len(part.labels)})
    rows = [part for part in rows if len(part.labels)]
    n_labels = rows[0].min_marginals.shape[1]
    min_marginals = np.concatenate([part.min_marginals for part in rows])
    labels = np.concatenate([part.labels for part in rows])
    weight = np.concatenate([np.full(len(p.labels), 1 / len(p.labels)) for p in rows]) / len(rows)
    found = CALIBRATIONS[kind].fit(min_marginals, labels, weight)
    made = Calibration(found, len(rows), g, held_out, np.zeros(n_labels))
    strayed = []
    for part in rows:
        q = made.probabilities(part.min_marginals)
        true = np.bincount(part.labels, minlength=n_labels)
        strayed.append([(true[k] - q[:, k].sum()) / part.share
                        / _stray(q[:, k], part.share) for k in range(n_labels)])  # fmt: skip
    spread = np.ones(n_labels)
    if g > 1:
        spread = np.sqrt(np.mean(np.square(strayed), axis=0) * (g + 1) / (g - 1))
    return replace(made, spread=spread)


def calibrate_held_out(
    parts: Sequence[Sequence[int]],
    min_marginals: Callable[[int, int], Floats],
    masks: Sequence[Mask],
    kind: str | None,
    held_out: bool,
    groups: Sequence[Any],
    threads: int,
) -> Calibration:
    """Calibrate on all images, each seen by what was learned without its part.

    Parameters
    ----------
    parts : sequence of lists of images
        Every image is in one of them.
    min_marginals : callable (part, image)
        Of an image of a part, by what was learned without the part.
    masks : n masks
    kind, held_out, groups
        As in `calibrate`.
    threads : int
    """
    part_of = {i: k for k, part in enumerate(parts) for i in part}
    with Workers(threads) as workers:
        rows = workers.map(
            lambda i: drawn(min_marginals(part_of[i], i), masks[i]), range(len(masks))
        )
    return calibrate(rows, kind, held_out, groups)


def _stray(part: Floats, share: float = 1.0) -> float:
    """S, and one pixel for rounding."""
    return 1.0 + float(np.sqrt(part * (1 - part)).sum()) / share
