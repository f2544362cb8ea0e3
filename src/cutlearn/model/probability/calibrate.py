"""From min-marginals to probabilities that hold on images which the weights have not seen.

Phi_d(k), the least energy with pixel d at label k, says which labels are close, in units that
training chose for its own ends. Held-out images give them a scale: `calibrations` has the maps.
Before that the costs U_d of a pixel alone (`evidence`) are mixed in: the map sees

    Psi_d = (1 - c) Phi_d + c U_d,    c in [0, 1],

c = v / (s + v) of the largest likelihood of softmax(-s Phi_d - v U_d + b), which is concave in s,
v >= 0 and b. Images weigh alike, whatever their size; a pixel that a box or a seed fixes has
probability 1 of its label.

The area of label k is expected to be A = sum_d q_dk, and the mask has B pixels of it. A suffers
where one map cannot serve all pixels: a min-marginal of a smooth background hardly exceeds what its
edges carry, so its q stays near some 0.01, and a million such pixels are a cell too many. B suffers
where masks are trained for something else. Held-out images say whom to believe: the area is
A + a (B - A), with a in [0, 1] of the least squares of z below, 0 with fewer than four groups.

Were all pixels right or wrong together, the deviation of the area would be
S = sum_d sqrt(q_dk (1 - q_dk)), were they independent far less. Held-out images measure which part
of S is true. With z = (true area - area) / S and g groups of images that vary together, the
interval is the area +- t r S: a prediction from g draws, whose mean the map has fitted. Here
r^2 = (mean of z^2) (g + 1) / d, and t is of Student's law of d degrees, d = g - 1, less one if
a > 0. Fewer than four groups give no interval (docs/decisions/0054).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import VOID, Floats, Mask
from cutlearn.errors import InputError, counted
from cutlearn.model.probability.calibrations import CALIBRATIONS, Map, Softmax, share_of_second
from cutlearn.run.executor import executor_of

# Numbers of an image that are kept for the fit: so many pixels for each of its labels.
MOST_NUMBERS = 100_000
# Numbers of all images together: of thousands of images there are fewer pixels of each.
MOST_OF_ALL = 16_000_000
# Pixels of all images together that the map is fitted on: what images differ by counts for more.
MOST_ROWS = 200_000
# Fewer groups of held-out images give areas no interval: t and r would make it useless.
ENOUGH_GROUPS = 4


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
        """Give at most so many of the pixels, evenly drawn."""
        if len(self.labels) <= most:
            return self
        kept = np.linspace(0, len(self.labels) - 1, most).astype(np.int64)
        own = None if self.alone is None else self.alone[kept]
        share = self.share * most / len(self.labels)
        return Rows(self.min_marginals[kept], self.labels[kept], share, own)


def most_of(n_images: int, n_labels: int) -> int:
    """Give how many pixels of each of so many images are drawn.

    Examples
    --------
    >>> most_of(20, 2), most_of(2000, 2)
    (50000, 4000)
    """
    return max(1, min(MOST_NUMBERS, MOST_OF_ALL // n_images) // n_labels)


def drawn(
    min_marginals: Floats, mask: Mask, most: int | None = None, alone: Floats | None = None
) -> Rows:
    """Draw pixels evenly from those with a label that no box or seed fixes."""
    table, truth = min_marginals.reshape(-1, min_marginals.shape[-1]), mask.reshape(-1)
    most = MOST_NUMBERS // min_marginals.shape[-1] if most is None else most
    known = np.flatnonzero((truth != VOID) & np.isfinite(table).all(axis=1))
    kept = known
    if len(known) > most:
        kept = known[np.linspace(0, len(known) - 1, most).astype(np.int64)]
    own = None if alone is None else alone.reshape(table.shape)[kept]
    return Rows(table[kept], truth[kept], len(kept) / max(len(known), 1), own)


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
        Whether what gave the min-marginals had not seen those images: the logits, if there are any,
        else the weights.
    spread : (L,)
        r of the areas of every label.
    lean : (L,) or None
        a of every label: how much of its area is that of the mask. None: 0.
    mixed : float
        c: how much of what the map sees is a pixel's own costs.
    degrees : (L,) or None
        d of every label. None: as files of earlier versions had it.
    """

    map: Map
    n_images: int
    n_groups: int
    held_out: bool
    spread: Floats
    lean: Floats | None = None
    mixed: float = 0.0
    degrees: Floats | None = None

    @property
    def has_intervals(self) -> bool:
        """Whether areas have intervals: whether there were enough groups of held-out images."""
        return self.n_groups >= ENOUGH_GROUPS

    @property
    def without_intervals(self) -> str:
        """Why areas have no intervals, as a sentence; empty where they have."""
        if self.has_intervals:
            return ""
        return (
            f"areas have no intervals, because the model was calibrated on held-out images of only "
            f"{counted(self.n_groups, 'group')}, and intervals need {ENOUGH_GROUPS} groups. Fit it "
            "on images of more groups, or calibrate it on such images."
        )

    @property
    def kind(self) -> str | None:
        """The name of the map, such as "temperature"."""
        return self.map.name

    def probabilities(self, min_marginals: Floats, alone: Floats | None = None) -> Floats:
        """Give the probabilities of min-marginals and a pixel's own costs, (..., L); they sum to 1.

        The costs may be left out where none were mixed in.
        """
        return self.map.probabilities(self.seen(min_marginals, alone))

    def seen(self, min_marginals: Floats, alone: Floats | None) -> Floats:
        """Give Psi, what the map sees, (..., L)."""
        if not self.mixed:
            return min_marginals
        if alone is None:
            raise InputError(
                "probabilities: this calibration has seen what each label costs a pixel alone. "
                "Give these costs beside the min-marginals."
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
        lean = 0.0 if self.lean is None else float(self.lean[label])
        value = (1 - lean) * float(part.sum()) + lean * float((labels == label).sum())
        if not self.has_intervals:
            return value, np.nan, np.nan
        old = self.n_groups - (1 if self.lean is None else 2)
        degrees = old if self.degrees is None else float(self.degrees[label])
        half = float(t.ppf((1 + level) / 2, degrees)) * self.spread[label] * _stray(part)
        return value, max(value - half, 0.0), min(value + half, float(part.size))

    def to_header(self) -> tuple[dict[str, Any], dict[str, Floats]]:
        """Give what a model file keeps: plain values, and tensors by name."""
        plain, arrays = self.map.to_plain()
        plain |= {
            "kind": self.kind, "n_images": self.n_images, "n_groups": self.n_groups,
            "held_out": self.held_out, "spread": self.spread.tolist(),
            "lean": None if self.lean is None else self.lean.tolist(), "mixed": self.mixed,
            "degrees": None if self.degrees is None else self.degrees.tolist(),
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
        lean = plain.get("lean")  # models of old files have none
        if lean is not None:
            lean = np.array(lean)
            if lean.dtype != np.float64 or lean.shape != (n_labels,):
                raise ValueError("areas that lean on something else")
            if not ((lean >= 0) & (lean <= 1)).all():
                raise ValueError("areas that lean too far")
        mixed = plain.get("mixed", 0.0)  # old ones see min-marginals only
        if type(mixed) is not float or not 0 <= mixed <= 1:
            raise ValueError("a mixture of more than all")
        degrees = plain.get("degrees")  # old ones count them from the groups
        if degrees is not None:
            degrees = np.array(degrees)
            if degrees.dtype != np.float64 or degrees.shape != (n_labels,):
                raise ValueError("degrees of something else")
            if not (degrees >= 1).all():
                raise ValueError("fewer degrees than one")
        found = CALIBRATIONS[kind].from_plain(plain, arrays, n_labels)
        return cls(found, n_images, n_groups, held_out, spread, lean, mixed, degrees)


def uncalibrated(n_labels: int) -> Calibration:
    """Give the map of a model that no held-out image was shown to: softmax(-Phi)."""
    none = np.zeros(n_labels)
    return Calibration(Softmax(1.0, none), 0, 0, False, none)


def calibrate(
    rows: Sequence[Rows],
    kind: str | None,
    held_out: bool,
    groups: Sequence[Any] | None = None,
    threads: int = 1,
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
    threads : int
        That look at the areas of images; the result does not depend on it.
    """
    names = range(len(rows)) if groups is None else groups
    g = len({name for name, part in zip(names, rows) if len(part.labels)})
    rows = [part for part in rows if len(part.labels)]
    made = _fitted(rows, kind, g, held_out)
    if not made.has_intervals:
        return made
    strays = executor_of(threads).map(partial(_strays, made), rows)
    off, gain = (np.array(part) for part in zip(*strays))
    lean = np.clip((off * gain).sum(axis=0) / np.maximum((gain**2).sum(axis=0), 1e-12), 0, 1)
    left = np.mean((off - lean * gain) ** 2, axis=0)
    degrees = np.where(lean > 0, g - 2.0, g - 1.0)
    return replace(made, spread=np.sqrt(left * (g + 1) / degrees), lean=lean, degrees=degrees)


def _fitted(rows: Sequence[Rows], kind: str | None, g: int, held_out: bool) -> Calibration:
    """Mix and map of the largest likelihood; nothing is known of areas yet."""
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


def _strays(made: Calibration, part: Rows) -> tuple[Floats, Floats]:
    """(true area - A) / S and (B - A) / S of every label of a held-out image."""
    n_labels = part.min_marginals.shape[1]
    q = made.probabilities(part.min_marginals, part.alone)
    found = part.min_marginals.argmin(axis=1)
    true, own = (np.bincount(x, minlength=n_labels) for x in (part.labels, found))
    scale = np.array([part.share * _stray(q[:, k], part.share) for k in range(n_labels)])
    return (true - q.sum(axis=0)) / scale, (own - q.sum(axis=0)) / scale


def _stray(part: Floats, share: float = 1.0) -> float:
    """S, and one pixel for rounding."""
    return 1.0 + float(np.sqrt(part * (1 - part)).sum()) / share
