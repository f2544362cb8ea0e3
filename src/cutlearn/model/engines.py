"""Engines of a session: a sample in, labels and their min-marginals out.

    Own       two labels, no model: the shipped net, the image's own colours, one live graph
    Several   more labels, no model: a mixture of colours for each, expansion moves
    Fitted    a fitted model, with the user's seeds as hard constraints

An engine is made once per image and keeps what does not depend on the user. Its `heard` makes a
value of a sample and of what was heard before; its `solve` makes labels of that value and keeps
nothing, so answers never depend on which others were computed. `made` chooses the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import Floats
from cutlearn.energy.moves import LinearTables, UnorderedEnergy
from cutlearn.energy.problem import Problem
from cutlearn.errors import InputError
from cutlearn.features.describe import Intensities
from cutlearn.features.edges import edge_contrast
from cutlearn.features.guided import MOST_ODDS
from cutlearn.features.mixtures import palette
from cutlearn.images.sample import Sample
from cutlearn.model.defaults import defaults
from cutlearn.model.probability.calibrate import Calibration, uncalibrated

Labels = NDArray[np.uint8]


class Solved(NamedTuple):
    """Labels (h, w), what label 1 costs more than 0 (h, w) if there are two, min-marginals.

    `alone`: what each label costs alone, (h, w, L), where probabilities need it.
    """

    labels: Labels
    unary: Floats | None
    min_marginals: Callable[[], Floats]
    alone: Floats | None = None


class Engine(Protocol):
    """The interface that a session uses."""

    n_labels: int
    calibration: Calibration

    def heard(self, sample: Sample, before: Any = None) -> Any:
        """Return the value of a sample that follows the one of which `before` is the value."""

    def solve(self, sample: Sample, heard: Any) -> Solved:
        """Return the labels of a sample from its value."""


def made(image: NDArray[np.float32], model: Any, n_labels: int) -> Engine:
    """Return the engine for an image."""
    if model is not None:
        from cutlearn.model.fitted import Fitted

        return Fitted(model, image)
    image = Intensities.of([image]).scaled(image)
    if n_labels > 2:
        return Several(image, n_labels)
    from cutlearn.model.own import Own

    return Own(image)


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

    def heard(self, sample: Sample, before: Any = None) -> Any:
        """Return nothing: the seeds say all, in whatever order they were drawn."""

    def solve(self, sample: Sample, heard: Any = None) -> Solved:
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
