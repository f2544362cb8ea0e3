"""Scores of masks, areas and probabilities, and how much they depend on which images were drawn.

Masks: `iou`, `pooled_iou`, `mean_iou`, `pixel_error` and `count_error`. They derive from one
additive value, the confusion table of an image: `counts[t, p]` is the number of pixels with the
true label t and the predicted label p, void pixels left out. Pooled scores are scores of the sum of
tables. With row sum T, column sum P and diagonal D of a label: IoU = D / (T + P - D), pixel error =
1 - trace / total, count error = |P - T|.

Probabilities: `beliefs` and `entropy`. Pixels are counted by the probability of a label, in few
bins for the calibration error and in many for the ROC curve; these counts add up over images too.
With n_b pixels, mean probability p_b and true share t_b in bin b, the expected calibration error is
sum_b n_b |p_b - t_b| / sum_b n_b.

Intervals: `bootstrap` and `left_out`. A figure is a function of sums over images: a mean of a sum
and a number of images, a pooled IoU of added tables. With V the values of the images, one row each,
and T how often each draw has each image, all draws are one matrix product T V.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cutlearn.arrays import VOID, AnyArray, Floats
from cutlearn.checks import as_array, float_array
from cutlearn.errors import InputError

__all__ = [
    "VOID",
    "Beliefs",
    "Confusion",
    "Figure",
    "Spread",
    "beliefs",
    "bootstrap",
    "calibration_error_of",
    "confusion",
    "confusions",
    "count_error",
    "entropy",
    "iou",
    "iou_of",
    "left_out",
    "mean_iou",
    "mean_iou_of",
    "means",
    "pixel_error",
    "pooled_iou",
    "ratio",
    "stack_tables",
    "total",
]

# From sums over images, (r, ...), to r numbers.
Figure = Callable[[Floats], Floats]

BINS = 15
# Bins of the ROC curve are bins of logits, so that tiny probabilities differ too.
FINE, FARTHEST = 2000, 14.0
# A label that was given no chance at all counts as this probable, so that means exist.
LEAST = 1e-12
# Numbers of T that are in memory at a time.
BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class Confusion:
    """How often each true label was given each predicted label; tables add up over images.

    Parameters
    ----------
    counts : (n_labels, n_labels) int64 array
        Rows are true labels, columns predicted ones; void pixels are in no cell.

    Examples
    --------
    >>> from cutlearn.metrics import confusion
    >>> a = confusion([[0, 1, 1, 255]], [[0, 1, 0, 1]])
    >>> a.iou(1), a.pixel_error()
    (0.5, 0.3333333333333333)
    >>> (a + a).counts.tolist()
    [[2, 0], [2, 2]]
    """

    counts: npt.NDArray[np.int64]

    def __add__(self, other: Confusion) -> Confusion:
        if not isinstance(other, Confusion):
            return NotImplemented
        small, large = sorted((self.counts, other.counts), key=len)
        counts = large.copy()
        counts[: len(small), : len(small)] += small
        return Confusion(counts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Confusion) and np.array_equal(self.counts, other.counts)

    __hash__ = None  # type: ignore[assignment]  # holds an array

    @property
    def n_pixels(self) -> int:
        """The number of pixels that are not void."""
        return int(self.counts.sum())

    def area(self, label: int = 1) -> tuple[int, int]:
        """Return the pixels of a label in the truth and in the prediction."""
        if not 0 <= label < len(self.counts):
            return 0, 0
        return int(self.counts[label].sum()), int(self.counts[:, label].sum())

    def iou(self, label: int = 1) -> float:
        """Return the IoU of one label; 1 where it is neither true nor predicted."""
        return float(iou_of(self.counts, label))

    def mean_iou(self) -> float:
        """Return the mean IoU of labels that are true or predicted; nan if all pixels are void."""
        return float(mean_iou_of(self.counts))

    def pixel_error(self) -> float:
        """Return the fraction of pixels with a wrong label; nan if all pixels are void."""
        n = self.n_pixels
        return (n - int(np.trace(self.counts))) / n if n else float("nan")

    def count_error(self, label: int = 1, relative: bool = False) -> float:
        """Return |predicted area - true area| of a label, in pixels or as a part of the true area.

        The relative error of an area that is truly 0 is 0 if 0 was predicted, else inf.
        """
        true, predicted = self.area(label)
        difference = float(abs(predicted - true))
        if not relative or difference == 0:
            return difference
        return difference / true if true else float("inf")


def iou_of(counts: AnyArray, label: int = 1) -> Floats:
    """Return the intersection over union of one label in tables (..., L, L), as `Confusion.iou`."""
    if not 0 <= label < counts.shape[-1]:
        return np.ones(counts.shape[:-2])
    both = counts[..., label, label]
    union = counts[..., label, :].sum(axis=-1) + counts[..., :, label].sum(axis=-1) - both
    return np.asarray(np.where(union > 0, both / np.maximum(union, 1), 1.0))


def mean_iou_of(counts: AnyArray) -> Floats:
    """Return the mean IoU over the labels of tables (..., L, L), as `Confusion.mean_iou`."""
    each = np.stack([iou_of(counts, label) for label in range(counts.shape[-1])], axis=-1)
    present = counts.sum(axis=-1) + counts.sum(axis=-2) > 0
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(present, each, 0.0).sum(axis=-1) / present.sum(axis=-1))


def stack_tables(tables: Sequence[Confusion]) -> Floats:
    """Return the tables of images as one array (n, L, L), which adds up over images."""
    size = max(len(table.counts) for table in tables)
    out = np.zeros((len(tables), size, size))
    for row, table in zip(out, tables):
        row[: len(table.counts), : len(table.counts)] = table.counts
    return out


def confusion(
    truth: npt.ArrayLike, predicted: npt.ArrayLike, n_labels: int | None = None, void: int = VOID
) -> Confusion:
    """Count the pairs of true and predicted labels of one image.

    Parameters
    ----------
    truth, predicted : integer or bool arrays of one shape
        Labels. Pixels whose true label is `void` are left out, whatever was predicted there.
    n_labels : int, optional
        Number of labels; by default the largest label found + 1, and at least 2.
    void : int, default 255
        The value of `truth` that means "not annotated".

    Returns
    -------
    Confusion
        Its table has shape (n_labels, n_labels).

    Examples
    --------
    >>> from cutlearn.metrics import confusion
    >>> confusion([[0, 0, 1, 255]], [[0, 1, 1, 1]]).counts.tolist()
    [[1, 1], [0, 1]]
    """
    true, guess = _integers(truth, "truth"), _integers(predicted, "prediction")
    if true.shape != guess.shape:
        raise InputError(
            f"prediction has shape {guess.shape}, but the truth has shape {true.shape}. Compare "
            "masks of the same image."
        )
    kept = true != void
    true, guess = true[kept], guess[kept]
    found = max(int(true.max(initial=0)), int(guess.max(initial=0)))
    n = max(2, found + 1) if n_labels is None else n_labels
    low = min(int(true.min(initial=0)), int(guess.min(initial=0)))
    if low < 0 or found >= n or (n_labels is None and found >= VOID):
        top = n - 1 if n_labels is not None else VOID - 1
        raise InputError(
            f"masks have labels from {low} to {found}, but labels run from 0 to {top}, and {void} "
            "means void in the truth only. Map the values of the masks to labels first."
        )
    # Labels are small: one histogram of t * n + p makes the table in a single pass.
    pairs = np.bincount(true * n + guess, minlength=n * n)
    return Confusion(pairs.reshape(n, n).astype(np.int64))


def confusions(
    truths: Sequence[npt.ArrayLike],
    predictions: Sequence[npt.ArrayLike],
    n_labels: int | None = None,
    void: int = VOID,
) -> list[Confusion]:
    """Return the table of every image: the values that the scores are made of.

    Parameters
    ----------
    truths, predictions : sequences of (h_i, w_i) arrays
        One mask for each image; images may differ in size.
    n_labels, void
        As in `confusion`.

    Returns
    -------
    list of Confusion

    Examples
    --------
    >>> from cutlearn.metrics import confusions, total
    >>> tables = confusions([[[0, 1]], [[1, 1]]], [[[0, 1]], [[0, 1]]])
    >>> total(tables).iou(1)
    0.6666666666666666
    """
    if len(truths) != len(predictions) or not len(truths):
        raise InputError(
            f"predictions has {len(predictions)} masks, but there are {len(truths)} true masks. "
            "Give two lists of the same length, with at least one mask each."
        )
    return [confusion(t, p, n_labels, void) for t, p in zip(truths, predictions)]


def coded_confusions(
    truths: Sequence[npt.ArrayLike],
    predictions: Sequence[npt.ArrayLike],
    n_labels: int | None = None,
    void: int = VOID,
) -> list[Confusion]:
    """Return the table of every image; refuse truths of 0 and 255 alone, which may be an object.

    With `n_labels` it is known that the truths hold labels.
    """
    tables = confusions(truths, predictions, n_labels, void)
    if n_labels is None and void == VOID and not any(table.counts[1:].any() for table in tables):
        values = set().union(*(np.unique(np.asarray(truth)).tolist() for truth in truths))
        if values == {0, VOID}:
            raise InputError(
                "truth holds only 0 and 255, and 255 means void: no pixel is labelled as object. "
                "If 255 is the object, compare truth == 255. If it is void, use confusion() or "
                "mean_iou(n_labels=2)."
            )
    return tables


def total(tables: Iterable[Confusion]) -> Confusion:
    """Add up the tables of images.

    Examples
    --------
    >>> from cutlearn.metrics import confusion, total
    >>> total([confusion([0, 1], [0, 1]), confusion([1], [0])]).counts.tolist()
    [[1, 0], [1, 1]]
    """
    return functools.reduce(operator.add, tables, Confusion(np.zeros((2, 2), np.int64)))


def iou(truth: npt.ArrayLike, predicted: npt.ArrayLike, label: int = 1, void: int = VOID) -> float:
    """Return the intersection over union of one label in one image, void pixels left out.

    Examples
    --------
    >>> from cutlearn.metrics import iou
    >>> iou([[0, 1, 1, 255]], [[0, 1, 0, 0]])
    0.5
    """
    return coded_confusions([truth], [predicted], None, void)[0].iou(label)


def pooled_iou(
    truths: Sequence[npt.ArrayLike],
    predictions: Sequence[npt.ArrayLike],
    label: int = 1,
    void: int = VOID,
) -> float:
    """Return the sum of intersections over sum of unions of one label: large objects weigh more.

    Examples
    --------
    >>> from cutlearn.metrics import pooled_iou
    >>> pooled_iou([[[1, 1, 1]], [[1]]], [[[1, 1, 1]], [[0]]])
    0.75
    """
    return total(coded_confusions(truths, predictions, None, void)).iou(label)


def mean_iou(
    truths: Sequence[npt.ArrayLike],
    predictions: Sequence[npt.ArrayLike],
    n_labels: int | None = None,
    void: int = VOID,
) -> float:
    """Return the mean over images of the mean IoU of their labels: the score of a model.

    A label that an image neither has nor was given does not count there; an image that is all
    void does not count at all.

    Examples
    --------
    >>> from cutlearn.metrics import mean_iou
    >>> mean_iou([[[0, 1]], [[1, 1]]], [[[0, 1]], [[0, 1]]])
    0.625
    """
    tables = coded_confusions(truths, predictions, n_labels, void)
    return _mean_known(t.mean_iou() for t in tables)


def pixel_error(
    truths: Sequence[npt.ArrayLike], predictions: Sequence[npt.ArrayLike], void: int = VOID
) -> float:
    """Return the fraction of wrong pixels of each image, averaged over images.

    Examples
    --------
    >>> from cutlearn.metrics import pixel_error
    >>> pixel_error([[[0, 1]], [[1]]], [[[0, 0]], [[1]]])
    0.25
    """
    tables = coded_confusions(truths, predictions, None, void)
    return _mean_known(t.pixel_error() for t in tables)


def count_error(
    truths: Sequence[npt.ArrayLike],
    predictions: Sequence[npt.ArrayLike],
    label: int = 1,
    relative: bool = False,
    void: int = VOID,
) -> float:
    """Return the mean over images of |predicted area - true area|.

    In pixels, or with `relative` as a part of the true area.

    Examples
    --------
    >>> from cutlearn.metrics import count_error
    >>> count_error([[[0, 1, 1]]], [[[0, 0, 1]]], relative=True)
    0.5
    """
    tables = coded_confusions(truths, predictions, None, void)
    return _mean_known(t.count_error(label, relative) for t in tables if t.n_pixels)


def _integers(mask: npt.ArrayLike, name: str) -> npt.NDArray[np.int64]:
    """Return an array of labels as int64; refuse what is none."""
    array = as_array(name, mask)
    if array.dtype.kind not in "iub":
        raise InputError(
            f"{name} has values of type {array.dtype}, but labels must be integers. Threshold "
            "probabilities first, or convert with .astype(int)."
        )
    return array.astype(np.int64)


def _mean_known(figures: Iterable[float]) -> float:
    """Return the mean of the figures of the images that have any."""
    known = [figure for figure in figures if not np.isnan(figure)]
    if not known:
        raise InputError(
            "masks have only void pixels, but at least one annotated pixel is needed. Check the "
            "value that means void."
        )
    return float(np.mean(known))


def entropy(probabilities: npt.ArrayLike) -> Floats:
    """Return the entropy of every pixel in bits: 0 is sure, 1 is a fair coin.

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
        """Return the expected calibration error; nan if all pixels are void."""
        return float(calibration_error_of(self.bins))

    def mean_log_likelihood(self) -> float:
        """Return the mean of log q of the true label; nan if all pixels are void."""
        return self.log_likelihood / self.n_pixels if self.n_pixels else float("nan")

    def roc(self) -> tuple[Floats, Floats]:
        """Return false and true positive rates, from the strictest threshold to the loosest."""
        from sklearn.metrics import roc_curve

        labels, score, weight = self._weighted()
        false, true, _ = roc_curve(labels, score, sample_weight=weight)
        return false, true

    def auc(self) -> float:
        """Return the area under the ROC curve; nan if the label or its absence is missing."""
        from sklearn.metrics import roc_auc_score

        if (self.curve.sum(axis=1) == 0).any():
            return float("nan")
        labels, score, weight = self._weighted()
        return float(roc_auc_score(labels, score, sample_weight=weight))

    def _weighted(self) -> tuple[npt.NDArray[np.int64], Floats, Floats]:
        """Return the bins as samples: labels, scores, weights."""
        label, bin_ = np.nonzero(self.curve)
        return label, bin_.astype(np.float64), self.curve[label, bin_]


def calibration_error_of(bins: Floats) -> Floats:
    """Return the expected calibration error of bins (..., 3, 15), as `Beliefs` has them."""
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
    mask, q = _integers(truth, "truth"), float_array("probability", probability)
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


@dataclass(frozen=True)
class Spread:
    """A figure with the interval in which other draws of images would put it.

    Parameters
    ----------
    value, low, high : float
        The figure of all images, and the ends of its bootstrap interval.
    deviation : float
        The standard deviation over the bootstrap draws.
    """

    value: float
    low: float
    high: float
    deviation: float

    def plain(self) -> dict[str, float]:
        """Return the figure and its interval as JSON can hold them."""
        return {"value": self.value, "low": self.low, "high": self.high}


def means(values: npt.ArrayLike) -> Floats:
    """Return the values of images and ones, (n, 2), whose sums have the mean as their `ratio`."""
    column = np.asarray(values, np.float64)
    return np.stack([column, np.ones_like(column)], axis=-1)


def ratio(sums: Floats) -> Floats:
    """Return the first of the last axis over the second; 0 / 0 is 0.

    Examples
    --------
    >>> import numpy as np
    >>> from cutlearn.metrics import ratio
    >>> ratio(np.array([[3.0, 4.0], [0.0, 0.0], [1.0, 0.0]])).tolist()
    [0.75, 0.0, inf]
    """
    above, below = sums[..., 0], sums[..., 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((above == 0) & (below == 0), 0.0, above / below)


def bootstrap(
    values: npt.ArrayLike,
    figure: Figure | None = None,
    draws: int = 1000,
    level: float = 0.95,
    random_state: int = 0,
) -> Spread:
    """Estimate how much a figure depends on which images were drawn.

    Images, not pixels, are drawn again with replacement: pixels of one image are not independent.
    The draws depend on `random_state`, their number and the number of images only, so that figures
    of the same images are drawn together.

    Parameters
    ----------
    values : (n, ...) array
        What adds up over images, such as tables of labels; or (n,) numbers for their mean.
    figure : callable, optional
        From sums over images, (r, ...), to r numbers; the mean by default.
    draws : int, default 1000
        Number of draws.
    level : float, default 0.95
        Part of the draws inside the interval.
    random_state : int, default 0
        Seed of the draws.

    Returns
    -------
    Spread

    Examples
    --------
    >>> from cutlearn.metrics import bootstrap, ratio
    >>> spread = bootstrap([0.7, 0.8, 0.9])
    >>> spread.low <= spread.value <= spread.high
    True
    >>> bootstrap([[1, 1], [1, 2]], ratio, draws=100).value
    0.6666666666666666
    """
    table = np.asarray(values, np.float64)
    if not table.size:
        raise InputError("values is empty, but must hold one value or row for each image.")
    if draws < 1 or not 0 < level < 1:
        raise InputError(
            f"bootstrap needs at least 1 draw and a level between 0 and 1, not draws={draws} and "
            f"level={level}. Use draws=1000, level=0.95."
        )
    if figure is None:
        table, figure = means(table), ratio
    flat = table.reshape(len(table), -1)
    n, found = len(table), []
    rng, rows = np.random.default_rng(random_state), max(1, BLOCK // n)
    for first in range(0, draws, rows):  # some draws at a time
        picks = rng.integers(n, size=(min(rows, draws - first), n))
        place = picks + n * np.arange(len(picks))[:, None]
        # How often each draw has each of the images.
        times = np.bincount(place.ravel(), minlength=place.size).reshape(place.shape).astype(float)
        found.append(figure((times @ flat).reshape(-1, *table.shape[1:])))
    figures = np.concatenate(found)
    with np.errstate(invalid="ignore"):  # infinite figures have no interval
        low, high = np.quantile(figures, [(1 - level) / 2, (1 + level) / 2])
        deviation = figures.std()
    return Spread(float(figure(table.sum(axis=0)[None])[0]), float(low), float(high),
                  float(deviation))  # fmt: skip


def left_out(values: Floats, figure: Figure) -> Floats:
    """Return the figure without each of the images in turn, (n,).

    Examples
    --------
    >>> from cutlearn.metrics import left_out, means, ratio
    >>> left_out(means([1.0, 2.0, 6.0]), ratio).tolist()
    [4.0, 3.5, 1.5]
    """
    return figure(values.sum(axis=0) - values)
