"""How far probabilities can be believed: true masks and probabilities in, figures out.

Everything derives from one additive value, so that folders of any length need the memory of one
image: pixels by probability of a label, in few bins for the calibration error and in many for the
ROC curve, and the sum of the log-likelihoods. With n_b pixels, mean probability p_b and true share
t_b in bin b, the expected calibration error is sum_b n_b |p_b - t_b| / sum_b n_b.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cutlearn.arrays import VOID
from cutlearn.checks import float_array
from cutlearn.errors import InputError
from cutlearn.metrics.masks import integers

Floats = npt.NDArray[np.float64]

BINS = 15
# The ROC curve sees probabilities through their logits, so that tiny ones are told apart too.
FINE, FARTHEST = 2000, 14.0
# A label that was given no chance at all counts as this probable, so that means exist.
LEAST = 1e-12


def entropy(probabilities: npt.ArrayLike) -> Floats:
    """Give the entropy of every pixel in bits: 0 is sure, 1 is a fair coin.

    Examples
    --------
    >>> from cutlearn.metrics import entropy
    >>> entropy([[0.5, 0.5], [1.0, 0.0]]).tolist()
    [1.0, 0.0]
    """
    from scipy.special import entr

    return np.asarray(entr(np.asarray(probabilities, np.float64)).sum(axis=-1) / np.log(2))


@dataclass(frozen=True, eq=False)
class Beliefs:
    """Pixels by probability of a label; values of images add up.

    Parameters
    ----------
    bins : (3, 15) array
        Pixels, sum of their probabilities, how many truly have the label; bins of equal width.
    curve : (2, 2000) array
        Pixels without and with the label, by logit.
    log_likelihood : float
        The sum of log q of the true label over all pixels.

    Examples
    --------
    >>> from cutlearn.metrics import beliefs
    >>> a = beliefs([[0, 1, 1, 255]], [[[0.9, 0.1], [0.2, 0.8], [0.2, 0.8], [0.5, 0.5]]])
    >>> a.n_pixels, round(a.calibration_error(), 3), a.auc()
    (3, 0.167, 1.0)
    """

    bins: Floats
    curve: Floats
    log_likelihood: float

    def __add__(self, other: Beliefs) -> Beliefs:
        return Beliefs(
            self.bins + other.bins,
            self.curve + other.curve,
            self.log_likelihood + other.log_likelihood,
        )

    @property
    def n_pixels(self) -> int:
        """The number of pixels that are not void."""
        return int(self.bins[0].sum())

    def calibration_error(self) -> float:
        """Give the expected calibration error; nan if all pixels are void."""
        return float(calibration_error_of(self.bins))

    def mean_log_likelihood(self) -> float:
        """Give the mean of log q of the true label; nan if all pixels are void."""
        return self.log_likelihood / self.n_pixels if self.n_pixels else float("nan")

    def roc(self) -> tuple[Floats, Floats]:
        """Give false and true positive rates, from the strictest threshold to the loosest."""
        from sklearn.metrics import roc_curve

        labels, score, weight = self._weighted()
        false, true, _ = roc_curve(labels, score, sample_weight=weight)
        return false, true

    def auc(self) -> float:
        """Give the area under the ROC curve; nan if the label or its absence is missing."""
        from sklearn.metrics import roc_auc_score

        if (self.curve.sum(axis=1) == 0).any():
            return float("nan")
        labels, score, weight = self._weighted()
        return float(roc_auc_score(labels, score, sample_weight=weight))

    def _weighted(self) -> tuple[npt.NDArray[np.int64], Floats, Floats]:
        """Bins as samples: labels, scores, weights."""
        label, bin_ = np.nonzero(self.curve)
        return label, bin_.astype(np.float64), self.curve[label, bin_]


def calibration_error_of(bins: Floats) -> Floats:
    """Give the expected calibration error of bins (..., 3, 15), as `Beliefs` has them."""
    pixels, believed, true = np.moveaxis(bins, -2, 0)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(believed - true).sum(axis=-1) / pixels.sum(axis=-1))


def beliefs(truth: npt.ArrayLike, probability: npt.ArrayLike, label: int = 1) -> Beliefs:
    """Count the pixels of one image by the probability of a label.

    Parameters
    ----------
    truth : (h, w) labels, 255 is void
    probability : (h, w, L)
    label : int, default 1
    """
    mask, q = integers(truth, "truth"), float_array("probability", probability)
    if q.shape[:-1] != mask.shape or not 0 <= label < q.shape[-1]:
        raise InputError(
            f"probability has shape {q.shape}, but must have the shape {mask.shape} of the truth "
            f"and a last axis of more than {label} labels. Give what predict_proba gave."
        )
    known = mask != VOID
    y, q = mask[known], q[known]
    odd = y[(y < 0) | (y >= q.shape[-1])]
    if odd.size:
        raise InputError(
            f"truth has label {odd[0]}, but there are probabilities of {q.shape[-1]} labels only, "
            "from 0 on. Map the values of the mask to labels first."
        )
    p, hit = np.clip(q[:, label], 0, 1), y == label
    at = np.minimum((p * BINS).astype(np.int64), BINS - 1)
    bins = np.stack([np.bincount(at, part, BINS) for part in (np.ones(len(p)), p, hit)])
    logit = np.log(np.maximum(p, LEAST)) - np.log(np.maximum(1 - p, LEAST))
    place = np.clip((logit / FARTHEST + 1) / 2 * FINE, 0, FINE - 1).astype(np.int64)
    curve = np.stack([np.bincount(place[hit == k], minlength=FINE) for k in (False, True)])
    chance = np.take_along_axis(q, y[:, None], axis=1)[:, 0]
    sum_of_logs = float(np.log(np.maximum(chance, LEAST)).sum())
    return Beliefs(bins.astype(np.float64), curve.astype(np.float64), sum_of_logs)
