"""What answers in a session: a sample in, labels and their min-marginals out.

    Own       two labels, no model: the shipped net, the image's own colours, one live graph
    Several   more labels, no model: a mixture of colours for each, expansion moves
    Fitted    a fitted model, with what a person gave held fast

Each is made once for an image, keeps what does not depend on the person, and is asked again and
again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cutlearn.energy.energy import Energy
from cutlearn.energy.joins import LinearTables
from cutlearn.energy.moves import UnorderedEnergy
from cutlearn.errors import InputError
from cutlearn.features.edges import edge_contrast
from cutlearn.features.guided import (
    MOST_ODDS,
    ODDS,
    View,
    channels,
    lab_planes,
    mixture_odds,
    nearby,
    net_logits,
)
from cutlearn.features.mixtures import log_odds, palette
from cutlearn.features.problem import Problem
from cutlearn.grid import grid_slices
from cutlearn.images.sample import FREE, Sample
from cutlearn.model.defaults import Defaults, defaults
from cutlearn.model.live import Live
from cutlearn.model.probability.calibrate import Calibration, uncalibrated
from cutlearn.model.probability.evidence import alone
from cutlearn.model.segmenter import Segmenter

Floats = NDArray[np.float64]
# How often the net is asked: the second time it sees the colours of its own first mask.
PASSES = 2
Labels = NDArray[np.uint8]


class Solved(NamedTuple):
    """Labels (h, w), what label 1 costs more than 0 (h, w) if there are two, min-marginals.

    Last what each label costs alone, (h, w, L), if probabilities ask for it.
    """

    labels: Labels
    unary: Floats | None
    min_marginals: Callable[[], Floats]
    alone: Floats | None = None


class Engine(Protocol):
    """What a session asks."""

    n_labels: int
    calibration: Calibration

    def solve(self, sample: Sample) -> Solved:
        """Answer a sample of the engine's image."""


class Own:
    """Two labels from the image itself: net, mixtures of its colours, contrast.

    E(y) = - sum_i y_i (w . f_i) + sum_ij [y_i != y_j] (w_0 + w_1 contrast_ij), with f_i: 1, the
    logit of the shipped net, log-odds of colours after relabelling, and log-odds of the colours
    under the net's own mask. The net is asked again with the latter in the place of the former.
    Last comes what strokes say of near pixels of their colour.
    w is learned on real images (`scripts/learn_defaults.py`).
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

    def columns(self, sample: Sample) -> NDArray[np.float32]:
        """f of every pixel, (F, h, w)."""
        fixed, boxed = sample.fixed(), sample.box is not None
        first, last = mixture_odds(self.palette, fixed, boxed)
        first, last = first[self.palette.index], last[self.palette.index]
        view, net = View.of(sample.box, sample.shape), self.defaults.net
        # What the net sees first, and again after every pass with the colours of its own mask.
        planes, odds = channels(self.lab, sample.box, sample.seeds, (first, last), view), last
        for step in range(PASSES):
            if step:
                planes[ODDS] = view.small(odds)
            small = np.clip(net_logits(net.shape, net.weights, planes), -MOST_ODDS, MOST_ODDS)
            logit = view.large(small, sample.shape, -MOST_ODDS)
            odds = self._colors_of(np.where(fixed == FREE, logit > 0, fixed == 1))
        strokes = MOST_ODDS * nearby(self.lab, sample.seeds, view)
        return np.stack([np.ones_like(logit), logit, last, odds, strokes])

    def _colors_of(self, mask: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Log-odds of the colours inside of a mask to those outside, (h, w)."""
        counts = [self.palette.counts(part) for part in (~mask, mask)]
        if not all(part.any() for part in counts):
            return np.zeros(mask.shape, np.float32)
        odds = log_odds(self.palette, [self.palette.fit(part) for part in counts])
        return np.clip(odds, -MOST_ODDS, MOST_ODDS).astype(np.float32)[self.palette.index]

    def solve(self, sample: Sample) -> Solved:
        """One cut of the live graph."""
        columns, fixed = self.columns(sample), sample.fixed()
        weights = self.defaults.nodes.astype(np.float32)  # as the columns: half the time
        unary = -np.tensordot(weights, columns, 1).astype(np.float64)
        labels = self.live.solve(unary, fixed)
        energy = self.live.energy(unary)
        return Solved(labels, unary, lambda: energy.min_marginals(fixed))


class Several:
    """Labels 0 to L - 1 from seeds: a mixture of colours for each, expansion moves."""

    def __init__(self, image: NDArray[np.float32], n_labels: int) -> None:
        self.n_labels = n_labels
        self.calibration = uncalibrated(n_labels)
        self.palette = palette(image)
        bias, contrast = defaults().edges
        shape = self.palette.index.shape
        weights = bias + contrast * edge_contrast(image, 8).astype(np.float64)
        self.problem = Problem(
            np.zeros((shape[0] * shape[1], 1)), edge_features=weights[:, None],
            shape=shape, connectivity=8,
        )  # fmt: skip
        self.tables = LinearTables(weights[:, None], 1.0 - np.eye(n_labels)[None])

    def solve(self, sample: Sample) -> Solved:
        """Expansion moves from the costs of colours."""
        fixed = sample.fixed()
        missing = [k for k in range(self.n_labels) if not (fixed == k).any()]
        if missing:
            raise InputError(
                f"seeds: label {missing[0]} has no seed, but each of the {self.n_labels} labels "
                "needs one. Mark each of them at least once, or make a session with fewer labels."
            )
        colors = self.palette.colors
        costs = np.stack(
            [
                -self.palette.fit(self.palette.counts(fixed == k)).log_density(colors)
                for k in range(self.n_labels)
            ],
            axis=1,
        )
        costs = np.minimum(costs - costs.min(axis=1, keepdims=True), MOST_ODDS)
        unary = costs[self.palette.index.ravel()].reshape(*sample.shape, -1)
        energy = UnorderedEnergy.of(self.problem, unary, self.tables, ())
        moved = energy.minimize(fixed)
        return Solved(moved.labels, None, lambda: energy.min_marginals(fixed).reshape(unary.shape))


class Fitted:
    """A fitted model; its features are computed once."""

    def __init__(self, model: Any, image: NDArray[np.float32]) -> None:
        self.model = model
        self.n_labels = len(model.classes_)
        self.calibration = model.calibration_
        self.problem = model._problem(Sample(image)) if isinstance(model, Segmenter) else None
        self.energy: Any = None
        self.alone: Floats | None = None
        if self.problem is not None:
            self.energy = model.model_.energy(self.problem, model.w_)
            self.alone = alone(model.model_, self.problem, model.w_)
        self.live = self.energy.solver() if isinstance(self.energy, Energy) else None
        self.fixed = np.full(image.shape[:2], FREE, np.int16)

    def solve(self, sample: Sample) -> Solved:
        """One cut of the live graph; of several labels, or a shape model, a fresh answer."""
        fixed = sample.fixed()
        if self.live is not None:
            changed = np.flatnonzero(fixed != self.fixed)
            self.live.set_fixed(changed, fixed.ravel()[changed])
            self.fixed = fixed
            energy = self.energy
            labels = self.live.minimize().labels
            return Solved(labels, None, lambda: energy.min_marginals(fixed), self.alone)
        model = self.model
        if self.problem is None:
            return Solved(model._mask(sample), None, lambda: model._min_marginals(sample))
        problem = replace(self.problem, fixed=fixed.ravel().astype(np.int8))
        return Solved(
            model.model_.mask(problem, model.w_),
            None,
            lambda: model.model_.min_marginals(problem, model.w_),
            self.alone,
        )


def by_direction(weights: Floats, shape: tuple[int, ...]) -> list[Floats]:
    """Weights of all edges of an 8-connected grid, one array for each direction."""
    sizes = [tuple(s.stop - s.start for s in tail) for tail, _ in grid_slices(shape, 8)]
    ends = np.cumsum([h * w for h, w in sizes])
    return [weights[e - h * w : e].reshape(h, w) for (h, w), e in zip(sizes, ends)]
