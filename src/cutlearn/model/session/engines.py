"""Engines of a session: a sample in, labels and their min-marginals out.

An engine is made once per image and keeps what does not depend on the user. Its `state` makes a
value of a sample and of the state before; its `solve` makes labels of that value and keeps nothing,
so answers never depend on which others were computed. `engine_for` chooses the engine.

`UntrainedEngine`, two labels without a model, minimises

    E(y) = - sum_i y_i (w . f_i) + sum_ij [y_i != y_j] (v_0 + v_1 contrast_ij)

f_i: 1, the logit of the shipped net, log-odds of colours after relabelling, log-odds of the colours
under the last mask, and what strokes add to near pixels of their colour. w and v are learned on
real images (`scripts/learn_defaults.py`). At first the net is applied to the box, again with the
colours of its own mask, and then closer, to parts of it. A stroke changes the state before it: the
net is applied to windows around the stroke, and costs change there and in favour of its label only,
so that it does not undo what was right elsewhere.

`ModelEngine` has a fitted model, with seeds as hard constraints. Once the user has given something,
the image's own colours are joined in: - JOINED / s times the log-odds of the colours under the
model's own mask is added to what label 1 costs more, with the scale s at which costs are log-odds
(the calibration's). Two labels; other models answer without colours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import Bits, Floats, Image, Mask
from cutlearn.energy.energy import Energy
from cutlearn.energy.moves import LinearTables, UnorderedEnergy
from cutlearn.energy.problem import Problem
from cutlearn.energy.solver import Solver
from cutlearn.errors import InputError
from cutlearn.features.describe import Intensities
from cutlearn.features.edges import edge_contrast
from cutlearn.features.mixtures import palette
from cutlearn.grid import grid_slices
from cutlearn.images.sample import FREE, Sample
from cutlearn.model.calibration import Calibration, costs_alone, uncalibrated
from cutlearn.model.session.defaults import Defaults, defaults
from cutlearn.model.session.guided import (
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

Fixed = NDArray[np.int16]
# Passes of the net over the box: the second one has the colours of the first mask.
PASSES = 2
# Then it is applied to so many rows and columns of parts of this height and width; after a stroke
# to a window around it. Both are shares of the first view.
CLOSER, PART = 2, 0.6
WINDOW = 0.5
# What a log-odd of colours counts relative to one of the model; chosen on held-out images of three
# sets (docs/results/interactive.md).
JOINED = 0.25


class Solution(NamedTuple):
    """Labels (h, w), what label 1 costs more than 0 (h, w) if there are two, min-marginals.

    `alone`: what each label costs alone, (h, w, L), where probabilities need it.
    """

    labels: Mask
    unary: Floats | None
    min_marginals: Callable[[], Floats]
    alone: Floats | None = None


class Engine:
    """The interface that a session uses."""

    n_labels: int
    calibration: Calibration

    def state(self, sample: Sample, before: Any = None) -> Any:
        """Return the state of a sample that follows the state `before`.

        By default nothing: the seeds hold all, in whatever order they were drawn.
        """

    def solve(self, sample: Sample, state: Any) -> Solution:
        """Return the labels of a sample from its state."""
        raise NotImplementedError


def engine_for(image: Image, model: Any, n_labels: int) -> Engine:
    """Return the engine for an image."""
    if model is not None:
        return ModelEngine(model, image)
    image = Intensities.of([image]).scaled(image)
    return UntrainedEngine(image) if n_labels == 2 else MixtureEngine(image, n_labels)


def edge_weights(image: Image, strength: Sequence[float]) -> Floats:
    """Return the weights of all edges of an 8-connected image: bias + contrast."""
    return strength[0] + strength[1] * edge_contrast(image, 8).astype(np.float64)


def grid_energy(unary: Floats, weights: Floats) -> Energy:
    """Return the energy of two labels on an 8-connected grid with the weights of all edges."""
    sizes = [tuple(s.stop - s.start for s in tail) for tail, _ in grid_slices(unary.shape, 8)]
    ends = np.cumsum([h * w for h, w in sizes])
    parts = [weights[e - h * w : e].reshape(h, w) for (h, w), e in zip(sizes, ends)]
    return Energy.grid(unary, parts, 8)


def several_energy(unary: Floats, weights: Floats) -> UnorderedEnergy:
    """Return the energy of L labels, unary (h, w, L): an edge costs its weight if labels differ."""
    h, w, n_labels = unary.shape
    nodes, column = np.zeros((h * w, 1)), weights[:, None]
    problem = Problem(nodes, edge_features=column, shape=(h, w), connectivity=8)
    tables = LinearTables(column, 1.0 - np.eye(n_labels)[None])
    return UnorderedEnergy.of(problem, unary, tables, ())


class LiveGraph:
    """The graph of an image with fixed edges, solved again after changes.

    A change of a few costs or fixed labels costs what it changes, because the core continues from
    the last flow; the labels are those of a fresh solve.

    Parameters
    ----------
    weights : of all edges, as `grid_energy` takes them
    """

    def __init__(self, weights: Floats) -> None:
        self.weights = weights
        self._solver: Solver | None = None
        self._unary: Floats = np.empty(0)
        self._fixed: Fixed = np.empty(0, np.int16)

    def solve(self, unary: Floats, fixed: Fixed) -> Mask:
        """Return the best labels, (h, w) uint8; `fixed`: -1 is free, else the label."""
        if self._solver is None:
            self._solver = grid_energy(unary, self.weights).solver(fixed)
        else:
            changed = np.flatnonzero(unary != self._unary)
            self._solver.set_unary(changed, unary.ravel()[changed])
            changed = np.flatnonzero(fixed != self._fixed)
            self._solver.set_fixed(changed, fixed.ravel()[changed])
        self._unary, self._fixed = unary.copy(), fixed.copy()
        return self._solver.minimize().labels


@dataclass(frozen=True, eq=False)
class Interaction:
    """What the user has given so far, and what follows from it; planes are (h, w).

    Attributes
    ----------
    sample : Sample
    first, last, odds : log-odds of colours
        Before relabelling, after it, and under the last mask.
    logit : output of the net
    words : votes of strokes for pixels near them and of their colour, from -1 to 1
    unary : what label 1 costs more than label 0
    """

    sample: Sample
    first: Image
    last: Image
    odds: Image
    logit: Image
    words: Image
    unary: Floats


class UntrainedEngine(Engine):
    """Two labels from the image itself: net, mixtures of its colours, contrast.

    Parameters
    ----------
    image : (h, w) or (h, w, 3)
    learned : Defaults, optional
        Other numbers than those that come with the package.
    """

    n_labels = 2

    def __init__(self, image: Image, learned: Defaults | None = None) -> None:
        self.defaults = defaults() if learned is None else learned
        self.calibration = self.defaults.calibration
        self.palette = palette(image)
        self.lab = lab_planes(self.palette)
        self.live = LiveGraph(edge_weights(image, self.defaults.edges))

    def solve(self, sample: Sample, state: Interaction) -> Solution:
        """Cut the live graph once."""
        fixed, unary = sample.fixed(), state.unary
        return Solution(
            self.live.solve(unary, fixed),
            unary,
            lambda: grid_energy(unary, self.live.weights).min_marginals(fixed),
        )

    def state(self, sample: Sample, before: Interaction | None = None) -> Interaction:
        """Return the state: `before` with each new stroke, or a first state of the sample."""
        new = None if before is None else new_seeds(before.sample, sample)
        if before is None or new is None:
            return self._first(sample)
        for label in (0, 1):
            if (new == label).any():
                before = self._with_stroke(before, sample, new == label, label)
        return replace(before, sample=sample)

    def columns(self, state: Interaction) -> Image:
        """Return f of every pixel, (F, h, w)."""
        words = MOST_ODDS * state.words
        return np.stack([np.ones_like(words), state.logit, state.last, state.odds, words])

    def _first(self, sample: Sample) -> Interaction:
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
                words = self._voted(words, sample.seeds == label, label, view)
        found = Interaction(sample, first, last, odds, logit, words, np.empty(0))
        found, _ = self._refined(found, parts(view, CLOSER, PART))
        return replace(found, unary=self._unary(found))

    def _with_stroke(
        self, before: Interaction, sample: Sample, marked: Bits, label: int
    ) -> Interaction:
        whole, fixed = View.of(sample.box, sample.shape), sample.fixed()
        odds = colors_of(self.palette, np.where(fixed == FREE, before.unary < 0, fixed == 1))
        words = self._voted(before.words, marked, label, whole)
        found = replace(before, sample=sample, odds=odds, words=words)
        found, near = self._refined(found, [window(whole, marked, WINDOW)])
        unary = (np.minimum if label else np.maximum)(self._unary(found), before.unary)
        return replace(found, unary=np.where(near > 0, unary, before.unary))

    def _refined(self, state: Interaction, views: Sequence[View]) -> tuple[Interaction, Image]:
        """Return the state with the net's logits within some views, and where these are."""
        sample, odds = state.sample, (state.first, state.odds)
        total, near = (np.zeros(sample.shape, np.float32) for _ in range(2))
        for view in views:
            planes = channels(self.lab, sample.box, sample.seeds, odds, view, state.logit)
            weight, part = faded(view, sample.shape), view.part
            total[part] += weight[part] * view.large(self._logits(planes), sample.shape, 0)[part]
            near[part] += weight[part]
        change = total / np.maximum(near, 1e-6) - state.logit
        logit = np.asarray(state.logit + np.minimum(near, 1) * change, np.float32)
        return replace(state, logit=logit), near

    def _logits(self, planes: Image) -> Image:
        net = self.defaults.net
        return np.clip(net_logits(net.shape, net.weights, planes), -MOST_ODDS, MOST_ODDS)

    def _voted(self, words: Image, marked: Bits, label: int, view: View) -> Image:
        """Return the votes of strokes with one stroke more, which overrules those before."""
        if not marked.any():
            return words
        return words + spoken(self.lab, marked, view) * ((1 if label else -1) - words)

    def _unary(self, state: Interaction) -> Floats:
        """Return - w . f of every pixel."""
        bias, *weights = self.defaults.nodes.astype(np.float32)
        planes = (state.logit, state.last, state.odds, MOST_ODDS * state.words)
        found = sum((w * plane for w, plane in zip(weights, planes)), bias)
        return -np.asarray(found, np.float64)


def new_seeds(before: Sample, now: Sample) -> NDArray[np.int16] | None:
    """Return the seeds that are new or changed, else FREE; None: more than that has changed."""
    if before.box != now.box or now.seeds is None or (before.seeds is None and now.box is None):
        return None
    if before.seeds is None:
        return now.seeds
    changed = now.seeds != before.seeds
    if (now.seeds[changed] == FREE).any():
        return None
    return np.where(changed, now.seeds, FREE).astype(np.int16)


def window(whole: View, marked: Bits, part: float) -> View:
    """Return a window of a view, a part of its height and width, with marks in its middle."""
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
    """Return count rows and columns of views, each a part of a view, that cover it."""
    tall = max(1, round(part * (whole.bottom - whole.top)))
    wide = max(1, round(part * (whole.right - whole.left)))
    return [
        View(top, left, top + tall, left + wide)
        for top in np.linspace(whole.top, whole.bottom - tall, count).round().astype(int).tolist()
        for left in np.linspace(whole.left, whole.right - wide, count).round().astype(int).tolist()
    ]


def faded(view: View, shape: tuple[int, int], rim: float = 0.15) -> Image:
    """Return 1 inside of a view, down to 0 at its sides that are not sides of the image."""
    sides = []
    for start, end, n in ((view.top, view.bottom, shape[0]), (view.left, view.right, shape[1])):
        at = (np.arange(n) + 0.5 - start) / (end - start)
        up = np.clip(at / rim, 0, 1) if start > 0 else at > 0
        down = np.clip((1 - at) / rim, 0, 1) if end < n else at < 1
        sides.append(np.minimum(up, down))
    return np.minimum(sides[0][:, None], sides[1]).astype(np.float32)


class MixtureEngine(Engine):
    """Labels 0 to L - 1 from seeds: a mixture of colours for each, expansion moves."""

    def __init__(self, image: Image, n_labels: int) -> None:
        self.n_labels = n_labels
        self.calibration = uncalibrated(n_labels)
        self.palette = palette(image)
        self.weights = edge_weights(image, defaults().edges)

    def solve(self, sample: Sample, state: Any = None) -> Solution:
        """Make expansion moves from the costs of colours."""
        fixed, every = sample.fixed(), range(self.n_labels)
        missing = [k for k in every if not (fixed == k).any()]
        if missing:
            raise InputError(
                f"seeds: label {missing[0]} has no seed, but each of the {self.n_labels} labels "
                "needs one. Mark each of them at least once, or make a session with fewer labels."
            )
        mixtures = [self.palette.fit(self.palette.counts(fixed == k)) for k in every]
        costs = np.stack([-one.log_density(self.palette.colors) for one in mixtures], axis=1)
        costs = np.minimum(costs - costs.min(axis=1, keepdims=True), MOST_ODDS)
        unary = costs[self.palette.index.ravel()].reshape(*sample.shape, -1)
        energy = several_energy(unary, self.weights)
        labels = energy.minimize(fixed).labels
        return Solution(labels, None, lambda: energy.min_marginals(fixed).reshape(unary.shape))


class ModelEngine(Engine):
    """A fitted model; its features are computed once."""

    def __init__(self, model: Any, image: Image) -> None:
        from cutlearn.model.segmenter import Segmenter

        self.model = model
        self.n_labels = len(model.classes_)
        self.calibration = model.calibration_
        self.fixed = np.full(image.shape[:2], FREE, np.int16)
        self.problem: Problem | None = None
        self.energy: Any = None
        self.alone: Floats | None = None
        if isinstance(model, Segmenter):
            self.problem = model._problem(Sample(image))
            self.energy = model.model_.energy(self.problem, model.w_)
            self.alone = costs_alone(model.model_, self.problem, model.w_)
            image = model.featurizer_.intensities_.scaled(image)
        self.live = self.energy.solver() if isinstance(self.energy, Energy) else None
        self.palette = palette(image)
        scale = getattr(self.calibration.map, "scale", None) if self.calibration.kind else None
        self.strength = 0.0 if scale is None else JOINED / scale

    def solve(self, sample: Sample, state: Any = None) -> Solution:
        """Cut the live graph once; with several labels, or a shape model, solve afresh."""
        model, fixed = self.model, sample.fixed()
        if self.problem is None:
            return Solution(model.mask(sample), None, lambda: model.min_marginals(sample))
        if self.live is None:
            problem = replace(self.problem, fixed=fixed.ravel().astype(np.int8))
            return Solution(
                model.model_.mask(problem, model.w_),
                None,
                lambda: model.model_.min_marginals(problem, model.w_),
                self.alone,
            )
        changed = np.flatnonzero(fixed != self.fixed)
        self.live.set_fixed(changed, fixed.ravel()[changed])
        self.fixed = fixed
        energy, labels = self.energy, self.live.minimize().labels
        if (fixed != FREE).any() and self.strength:
            odds = colors_of(self.palette, labels == 1).astype(np.float64)
            energy = energy.plus(-self.strength * odds)
            labels = energy.minimize(fixed).labels
        return Solution(labels, None, lambda: energy.min_marginals(fixed), self.alone)
