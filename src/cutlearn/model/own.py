"""Two labels of one image without a model: the shipped net, the image's own colours, one graph.

    E(y) = - sum_i y_i (w . f_i) + sum_ij [y_i != y_j] (v_0 + v_1 contrast_ij)

f_i: 1, the logit of the net, log-odds of colours after relabelling, log-odds of the colours under
the last mask, and what strokes say of near pixels of their colour. w and v are learned on real
images (`scripts/learn_defaults.py`).

What was heard of a person is a value (`Heard`). At first the net looks at the box, again with the
colours of its own mask, and then closer, at parts of it. A stroke is heard on top of what was heard
before: the net looks at windows around it, and costs change there and in favour of its label only,
so that it does not undo what was right elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import Floats
from cutlearn.features.edges import edge_contrast
from cutlearn.features.guided import (
    BEFORE,
    MOST_ODDS,
    ODDS,
    View,
    channels,
    colors_of,
    lab_planes,
    mixture_odds,
    net_logits,
    spoken,
)
from cutlearn.features.mixtures import palette
from cutlearn.images.sample import FREE, Sample
from cutlearn.model.defaults import Defaults, defaults
from cutlearn.model.engines import Solved
from cutlearn.model.live import Live, by_direction

Float32 = NDArray[np.float32]
# How often the net is asked at first: the second time it sees the colours of its own first mask.
PASSES = 2
# It then looks closer, in so many rows and columns, at parts of this height and width; after a
# stroke at a window around it. Both are shares of what it saw at first.
CLOSER, PART = 2, 0.6
WINDOW = 0.5


@dataclass(frozen=True, eq=False)
class Heard:
    """What was heard so far, and what comes of it; planes are (h, w).

    Attributes
    ----------
    sample : Sample
    first, last, odds : log-odds of colours
        Before relabelling, after it, and under the last mask.
    logit : what the net says
    words : what strokes say of pixels near them and of their colour, from -1 to 1
    unary : what label 1 costs more than label 0
    """

    sample: Sample
    first: Float32
    last: Float32
    odds: Float32
    logit: Float32
    words: Float32
    unary: Floats


class Own:
    """Two labels from the image itself: net, mixtures of its colours, contrast.

    Parameters
    ----------
    image : (h, w) or (h, w, 3)
    learned : Defaults, optional
        Other numbers than those that come with the package.
    """

    n_labels = 2

    def __init__(self, image: NDArray[np.float32], learned: Defaults | None = None) -> None:
        self.defaults = defaults() if learned is None else learned
        self.calibration = self.defaults.calibration
        self.palette = palette(image)
        self.lab = lab_planes(self.palette)
        bias, contrast = self.defaults.edges
        weights = bias + contrast * edge_contrast(image, 8).astype(np.float64)
        self.live = Live(by_direction(weights, self.palette.index.shape))

    def solve(self, sample: Sample, heard: Heard) -> Solved:
        """One cut of the live graph."""
        fixed = sample.fixed()
        labels = self.live.solve(heard.unary, fixed)

        def min_marginals() -> Floats:
            return self.live.energy(heard.unary).min_marginals(fixed)

        return Solved(labels, heard.unary, min_marginals)

    def heard(self, sample: Sample, before: Heard | None = None) -> Heard:
        """Hear a sample: what is new since `before`, or all of it."""
        new = None if before is None else new_seeds(before.sample, sample)
        if before is None or new is None:
            return self._begun(sample)
        for label in (0, 1):
            if (new == label).any():
                before = self._told(before, sample, new == label, label)
        return replace(before, sample=sample)

    def columns(self, heard: Heard) -> Float32:
        """f of every pixel, (F, h, w)."""
        words = MOST_ODDS * heard.words
        return np.stack([np.ones_like(words), heard.logit, heard.last, heard.odds, words])

    def _begun(self, sample: Sample) -> Heard:
        """Hear a sample at once."""
        fixed, view = sample.fixed(), View.of(sample.box, sample.shape)
        cells = mixture_odds(self.palette, fixed, sample.box is not None)
        first, last = (odds[self.palette.index] for odds in cells)
        planes = channels(self.lab, sample.box, sample.seeds, (first, last), view)
        for _ in range(PASSES):
            small = self._logits(planes)
            logit = view.large(small, sample.shape, -MOST_ODDS)
            odds = colors_of(self.palette, np.where(fixed == FREE, logit > 0, fixed == 1))
            planes[ODDS], planes[BEFORE] = view.small(odds), small
        words = np.zeros(sample.shape, np.float32)
        if sample.seeds is not None:
            for label in (0, 1):
                words = self._word(words, sample.seeds == label, label, view)
        found = Heard(sample, first, last, odds, logit, words, np.empty(0))
        found = self._looked(found, parts(view, CLOSER, PART))[0]
        return replace(found, unary=self._unary(found))

    def _told(self, before: Heard, sample: Sample, marked: NDArray[np.bool_], label: int) -> Heard:
        """Hear one stroke more."""
        whole, fixed = View.of(sample.box, sample.shape), sample.fixed()
        odds = colors_of(self.palette, np.where(fixed == FREE, before.unary < 0, fixed == 1))
        words = self._word(before.words, marked, label, whole)
        found = replace(before, sample=sample, odds=odds, words=words)
        found, near = self._looked(found, [window(whole, marked, WINDOW)])
        unary = (np.minimum if label else np.maximum)(self._unary(found), before.unary)
        return replace(found, unary=np.where(near > 0, unary, before.unary))

    def _looked(self, heard: Heard, views: Sequence[View]) -> tuple[Heard, Float32]:
        """Ask the net at some views, and take its word there; also give where that is."""
        sample, odds = heard.sample, (heard.first, heard.odds)
        total, near = (np.zeros(sample.shape, np.float32) for _ in range(2))
        for view in views:
            planes = channels(self.lab, sample.box, sample.seeds, odds, view, heard.logit)
            weight, part = faded(view, sample.shape), view.part
            total[part] += weight[part] * view.large(self._logits(planes), sample.shape, 0)[part]
            near[part] += weight[part]
        said = total / np.maximum(near, 1e-6) - heard.logit
        logit = np.asarray(heard.logit + np.minimum(near, 1) * said, np.float32)
        return replace(heard, logit=logit), near

    def _logits(self, planes: Float32) -> Float32:
        net = self.defaults.net
        return np.clip(net_logits(net.shape, net.weights, planes), -MOST_ODDS, MOST_ODDS)

    def _word(self, words: Float32, marked: NDArray[np.bool_], label: int, view: View) -> Float32:
        """Words of strokes with one stroke more: it has the last word."""
        if not marked.any():
            return words
        return words + spoken(self.lab, marked, view) * ((1 if label else -1) - words)

    def _unary(self, heard: Heard) -> Floats:
        """- w . f of every pixel."""
        bias, *weights = self.defaults.nodes.astype(np.float32)
        planes = (heard.logit, heard.last, heard.odds, MOST_ODDS * heard.words)
        found = sum((w * plane for w, plane in zip(weights, planes)), bias)
        return -np.asarray(found, np.float64)


def new_seeds(before: Sample, now: Sample) -> NDArray[np.int16] | None:
    """The seeds that are new or other ones, else FREE; None: more than that has changed."""
    if before.box != now.box or now.seeds is None or (before.seeds is None and now.box is None):
        return None
    if before.seeds is None:
        return now.seeds
    changed = now.seeds != before.seeds
    if (now.seeds[changed] == FREE).any():
        return None
    return np.where(changed, now.seeds, FREE).astype(np.int16)


def window(whole: View, marked: NDArray[np.bool_], part: float) -> View:
    """A window with marks in its middle, a part of a view in height and width, inside of it."""
    ends = []
    for axis, begin, end in ((1, whole.top, whole.bottom), (0, whole.left, whole.right)):
        found = np.clip(np.flatnonzero(marked.any(axis=axis)), begin, end - 1)
        wide = int(found[-1] - found[0]) + 1
        side = min(max(round(part * (end - begin)), 2 * wide, 2), end - begin)
        start = min(max(int(found[0]) + (wide - side) // 2, begin), end - side)
        ends.append((start, start + side))
    (top, bottom), (left, right) = ends
    return View(top, left, bottom, right)


def parts(whole: View, count: int, part: float) -> list[View]:
    """Views in count rows and columns, a part of a view in height and width each, that cover it."""
    tall = max(1, round(part * (whole.bottom - whole.top)))
    wide = max(1, round(part * (whole.right - whole.left)))
    return [
        View(top, left, top + tall, left + wide)
        for top in np.linspace(whole.top, whole.bottom - tall, count).round().astype(int).tolist()
        for left in np.linspace(whole.left, whole.right - wide, count).round().astype(int).tolist()
    ]


def faded(view: View, shape: tuple[int, int], rim: float = 0.15) -> Float32:
    """1 inside of a view, down to 0 at those of its sides that are not sides of the image."""
    sides = []
    for start, end, n in ((view.top, view.bottom, shape[0]), (view.left, view.right, shape[1])):
        place = (np.arange(n) + 0.5 - start) / (end - start)
        up = np.clip(place / rim, 0, 1) if start > 0 else place > 0
        down = np.clip((1 - place) / rim, 0, 1) if end < n else place < 1
        sides.append(np.minimum(up, down))
    return np.minimum(sides[0][:, None], sides[1]).astype(np.float32)
