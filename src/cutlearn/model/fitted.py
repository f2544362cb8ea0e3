"""A fitted model in a session: its features are computed once, strokes are held fast.

Once a person has given something, the image's own colours are joined in: to what label 1 costs more
come - JOINED / s times the log-odds of the colours under the model's own mask, with the scale s at
which costs are log-odds (the calibration's). Two labels; whatever else is answered as it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import Floats
from cutlearn.energy.energy import Energy
from cutlearn.features.guided import colors_of
from cutlearn.features.mixtures import palette
from cutlearn.images.sample import FREE, Sample
from cutlearn.model.engines import Solved
from cutlearn.model.probability.evidence import alone
from cutlearn.model.segmenter import Segmenter

# What a log-odd of colours counts beside one of the model; chosen on held-out images of three sets
# (docs/results/interactive.md).
JOINED = 0.25


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
        if isinstance(model, Segmenter):
            image = model.featurizer_.intensities_.scaled(image)
        self.palette = palette(image)
        scale = getattr(self.calibration.map, "scale", None) if self.calibration.kind else None
        self.strength = 0.0 if scale is None else JOINED / scale

    def heard(self, sample: Sample, before: Any = None) -> Any:
        """Return nothing: the seeds say all, in whatever order they were drawn."""

    def solve(self, sample: Sample, heard: Any = None) -> Solved:
        """One cut of the live graph; of several labels, or a shape model, a fresh answer."""
        fixed = sample.fixed()
        if self.live is not None:
            changed = np.flatnonzero(fixed != self.fixed)
            self.live.set_fixed(changed, fixed.ravel()[changed])
            self.fixed = fixed
            energy, labels = self.energy, self.live.minimize().labels
            if (fixed != FREE).any() and self.strength:
                odds = colors_of(self.palette, labels == 1).astype(np.float64)
                energy = energy.plus(-self.strength * odds)
                labels = energy.minimize(fixed).labels
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
