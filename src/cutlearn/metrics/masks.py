"""True and predicted masks in, numbers for people out: IoU and pixel error.

Everything derives from one additive value: the table of an image, `counts[t, p]` = how many
pixels have the true label t and the predicted label p, void pixels left out. Tables of images
add up, so pooled figures are figures of the sum. With row sum T, column sum P and diagonal D of
a label: IoU = D / (T + P - D), pixel error = 1 - trace / total, count error = |P - T|.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cutlearn.arrays import VOID
from cutlearn.checks import as_array
from cutlearn.errors import InputError

Labels = npt.NDArray[Any]


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
        """Pixels of a label in the truth and in the prediction."""
        if not 0 <= label < len(self.counts):
            return 0, 0
        return int(self.counts[label].sum()), int(self.counts[:, label].sum())

    def iou(self, label: int = 1) -> float:
        """Intersection over union of one label; 1 where it is neither there nor predicted."""
        return float(iou_of(self.counts, label))

    def mean_iou(self) -> float:
        """Mean IoU over the labels that are there or predicted; nan if all pixels are void."""
        return float(mean_iou_of(self.counts))

    def pixel_error(self) -> float:
        """Fraction of pixels with a wrong label; nan if all pixels are void."""
        n = self.n_pixels
        return (n - int(np.trace(self.counts))) / n if n else float("nan")

    def count_error(self, label: int = 1, relative: bool = False) -> float:
        """|predicted area - true area| of a label, in pixels or as a part of the true area.

        The relative error of an area that is truly 0 is 0 if 0 was predicted, else inf.
        """
        true, predicted = self.area(label)
        difference = float(abs(predicted - true))
        if not relative or difference == 0:
            return difference
        return difference / true if true else float("inf")


def iou_of(counts: npt.NDArray[Any], label: int = 1) -> npt.NDArray[np.float64]:
    """Intersection over union of one label in tables (..., L, L), as `Confusion.iou`."""
    if not 0 <= label < counts.shape[-1]:
        return np.ones(counts.shape[:-2])
    both = counts[..., label, label]
    union = counts[..., label, :].sum(axis=-1) + counts[..., :, label].sum(axis=-1) - both
    return np.asarray(np.where(union > 0, both / np.maximum(union, 1), 1.0))


def mean_iou_of(counts: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Mean IoU over the labels of tables (..., L, L), as `Confusion.mean_iou`."""
    each = np.stack([iou_of(counts, label) for label in range(counts.shape[-1])], axis=-1)
    present = counts.sum(axis=-1) + counts.sum(axis=-2) > 0
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(present, each, 0.0).sum(axis=-1) / present.sum(axis=-1))


def stack_tables(tables: Sequence[Confusion]) -> npt.NDArray[np.float64]:
    """Give the tables of images as one array (n, L, L), which adds up over images."""
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
    true, guess = integers(truth, "truth"), integers(predicted, "prediction")
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
    """Make the table of every image: the values that the other figures are made of.

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
    """Intersection over union of one label in one image, void pixels left out.

    Examples
    --------
    >>> from cutlearn.metrics import iou
    >>> iou([[0, 1, 1, 255]], [[0, 1, 0, 0]])
    0.5
    """
    return confusion(truth, predicted, None, void).iou(label)


def pooled_iou(
    truths: Sequence[npt.ArrayLike],
    predictions: Sequence[npt.ArrayLike],
    label: int = 1,
    void: int = VOID,
) -> float:
    """Sum of intersections over sum of unions of one label: large objects weigh more.

    Examples
    --------
    >>> from cutlearn.metrics import pooled_iou
    >>> pooled_iou([[[1, 1, 1]], [[1]]], [[[1, 1, 1]], [[0]]])
    0.75
    """
    return total(confusions(truths, predictions, None, void)).iou(label)


def mean_iou(
    truths: Sequence[npt.ArrayLike],
    predictions: Sequence[npt.ArrayLike],
    n_labels: int | None = None,
    void: int = VOID,
) -> float:
    """Mean IoU over the labels within each image, then over images: the score of a model.

    A label that an image neither has nor was given does not count there; an image that is all
    void does not count at all.

    Examples
    --------
    >>> from cutlearn.metrics import mean_iou
    >>> mean_iou([[[0, 1]], [[1, 1]]], [[[0, 1]], [[0, 1]]])
    0.625
    """
    return mean_known(t.mean_iou() for t in confusions(truths, predictions, n_labels, void))


def pixel_error(
    truths: Sequence[npt.ArrayLike], predictions: Sequence[npt.ArrayLike], void: int = VOID
) -> float:
    """Fraction of wrong pixels of each image, averaged over images.

    Examples
    --------
    >>> from cutlearn.metrics import pixel_error
    >>> pixel_error([[[0, 1]], [[1]]], [[[0, 0]], [[1]]])
    0.25
    """
    return mean_known(t.pixel_error() for t in confusions(truths, predictions, None, void))


def integers(mask: npt.ArrayLike, name: str) -> Labels:
    """Return an array of labels as int64; refuse what is none."""
    array = as_array(name, mask)
    if array.dtype.kind not in "iub":
        raise InputError(
            f"{name} has values of type {array.dtype}, but labels must be integers. Threshold "
            "probabilities first, or convert with .astype(int)."
        )
    return array.astype(np.int64)


def mean_known(figures: Iterable[float]) -> float:
    """Give the mean of the figures of the images that have any."""
    known = [figure for figure in figures if not np.isnan(figure)]
    if not known:
        raise InputError(
            "masks have only void pixels, but at least one annotated pixel is needed. Check the "
            "value that means void."
        )
    return float(np.mean(known))
