"""The images that a report shows, chosen as they are predicted: nothing is read or predicted twice.

An image is kept as it will be drawn, with no more rows and columns than a page has room for, and
no more than `MOST_KEPT` of them: the worst, the best, and an even part of all others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cutlearn.arrays import VOID, AnyArray, Mask
from cutlearn.metrics import confusion, entropy
from cutlearn.report.page.html import stride_of

# Images of a report, and images that are kept to choose from.
MOST_SHOWN, MOST_KEPT = 6, 40


@dataclass(frozen=True, eq=False)
class Shown:
    """An image of the page, with its true and its predicted mask.

    All arrays have every few rows and columns only. `truth`, `mask`: where the object is and where
    it was found, 0, 1 and, in the truth, 255 for void. `belief`: the probability of the object.
    `bits`: the mean entropy of a pixel of the whole image. `labels`: all labels, true and found, if
    there are more than two.
    """

    name: str
    verdict: str
    image: AnyArray
    truth: Mask
    mask: Mask
    belief: npt.NDArray[np.float32] | None = None
    bits: float | None = None
    labels: tuple[Mask, Mask] | None = None


def shown_of(
    name: str,
    image: AnyArray,
    truth: AnyArray,
    mask: AnyArray,
    belief: AnyArray | None = None,
    label: int = 1,
    n_labels: int = 2,
) -> Shown:
    """Return an image as a page shows it: one label, the object, against the rest.

    `belief`: (h, w, L) probabilities. With more than two labels the page shows all labels, too.

    Examples
    --------
    >>> import numpy as np
    >>> from cutlearn.report.page import shown_of
    >>> truth, mask = np.array([[0, 2, 255]]), np.array([[2, 2, 1]])
    >>> seen = shown_of("a", np.zeros((1, 3)), truth, mask, label=2)
    >>> seen.truth.tolist(), seen.mask.tolist(), seen.verdict
    ([[0, 1, 255]], [[1, 1, 0]], 'IoU 50.0%, area 2 of 1 pixels, 33% not annotated (grey)')
    """
    right = np.where(truth == VOID, VOID, truth == label).astype(np.uint8)
    found = (mask == label).astype(np.uint8)
    step, bits = stride_of(truth.shape), None
    # Copies, so that the whole arrays are let go.
    seen, *small = (array[::step, ::step].copy() for array in (image, right, found))
    if belief is not None:
        p = belief[..., label].astype(np.float32)
        bits = float(entropy(np.stack([1 - p, p], axis=-1)).mean())
        belief = p[::step, ::step].copy()
    every = None
    if n_labels > 2:
        true, said = (array[::step, ::step].astype(np.uint8) for array in (truth, mask))
        every = true, said
    return Shown(name, _verdict(right, found), seen, small[0], small[1], belief, bits, every)


def _verdict(truth: Mask, mask: Mask) -> str:
    table = confusion(truth, mask)
    true, found = table.area()
    void = float((truth == VOID).mean())
    grey = f", {void:.0%} not annotated (grey)" if void else ""
    return f"IoU {table.iou():.1%}, area {found} of {true} pixels{grey}"


class _Kept(NamedTuple):
    iou: float
    number: int
    shown: Shown


class Gallery:
    """Images as they come; at the end some of them, from the worst to the best.

    Up to `MOST_KEPT` images all are there to choose from; of more, every second, fourth, .. one.
    """

    def __init__(self) -> None:
        self.kept: list[_Kept] = []
        self._seen, self._step = 0, 1

    def add(self, iou: float, make: Callable[[], Shown]) -> None:
        """Add an image by its IoU, nan if it has none; it is made only if it is kept."""
        if math.isnan(iou):
            return
        number = self._seen
        self._seen += 1
        ends = [self.kept[0].iou, self.kept[-1].iou] if self.kept else [math.inf, -math.inf]
        if number % self._step and ends[0] <= iou <= ends[1]:
            return
        self.kept.append(_Kept(iou, number, make()))
        self.kept.sort(key=lambda one: one[:2])
        while sum(one.number % self._step == 0 for one in self.kept) > MOST_KEPT:
            self._step *= 2
        self.kept[1:-1] = [one for one in self.kept[1:-1] if one.number % self._step == 0]

    def shown(self) -> list[Shown]:
        """Return the worst, the best, and even steps of rank between them."""
        n = len(self.kept)
        steps = np.linspace(0, n - 1, min(MOST_SHOWN, n)).round().astype(int)
        return [self.kept[k].shown for k in steps]
