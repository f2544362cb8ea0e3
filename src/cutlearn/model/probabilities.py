"""What an estimator makes of min-marginals: probabilities, masks beside them, areas.

All of it is calibrated on held-out images; samples come to the size at which the model works and
answers back from it as for masks (`model.base`).
"""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import Floats, Mask
from cutlearn.checks import is_number, is_one_of
from cutlearn.errors import InputError, InputWarning, quoted
from cutlearn.images.sample import Sample
from cutlearn.images.training_set import TrainingSet
from cutlearn.model.calibration import Calibration, Evidence, calibrate, drawn, margin_of
from cutlearn.model.decisions import Decision, decision_of
from cutlearn.model.parameters import check_parameters
from cutlearn.model.size import probabilities_at_full_size, to_full_size
from cutlearn.model.training_images import known_coding

T = TypeVar("T")
# Rows whose probabilities are computed at a time.
ROWS = 64


class Probabilities:
    """Probabilities, decisions and areas of an estimator."""

    calibration: str | None
    calibration_: Calibration
    classes_: NDArray[np.uint8]

    @abstractmethod
    def _min_marginals(self, sample: Sample) -> Floats:
        """Give the min-marginals of a sample at the size at which the model works, (h, w, L)."""

    def _evidence(self, sample: Sample) -> Evidence:
        """Give the min-marginals, and what labels cost a pixel alone, if the model knows it."""
        return Evidence(self._min_marginals(sample))

    @abstractmethod
    def _read(self, images: Sequence[Any]) -> Sequence[Sample]:
        """Check that the model is fitted, and the images."""

    @abstractmethod
    def _sized(self, data: TrainingSet) -> TrainingSet:
        """Return a training set at the size at which the model works, with group numbers."""

    @abstractmethod
    def _each(
        self,
        samples: Sequence[Sample],
        one: Callable[[Any, Sample, Sample], T],
        progress: Callable[[int, int], None] | None = None,
    ) -> list[T]:
        """one(model, sample at the size at which the model works, sample) of all, in order."""

    @abstractmethod
    def _check_fitted(self) -> None:
        """Refuse a model that is not fitted."""

    def predict_proba(self, images: Sequence[Any]) -> list[NDArray[np.float32]]:
        """Give the probability of every label at every pixel, calibrated on held-out images.

        Parameters
        ----------
        images : images or samples
            A pixel that the box or a seed of a sample fixes has probability 1 of its label.

        Returns
        -------
        list of (h, w, L) float32 arrays; the labels of a pixel sum to 1
        """
        samples = self._read(images)
        self._check_calibrated("predict_proba")
        return self._each(samples, probability_of)

    def _believed(self, found: Evidence) -> NDArray[np.float32]:
        q = np.empty(found.min_marginals.shape, np.float32)
        for first in range(0, len(q), ROWS):  # in double, a few rows at a time
            rows = slice(first, first + ROWS)
            q[rows] = self.calibration_.probabilities(*found.take(rows))
        return q

    def _decided(self, decision: Decision, found: Evidence) -> Mask:
        """The labels of a decision; of least energy, those of least min-marginal."""
        if decision.decide is None:
            return found.labels
        order, seen = None, self.calibration_.seen(*found)
        if seen.shape[-1] == 2:
            # Isotonic steps make ties, between which what the map sees still knows the order.
            order = np.argsort(-margin_of(seen, 1).ravel(), kind="stable")
        return decision.decide(self.calibration_.map.probabilities(seen), order)

    def segment(
        self,
        images: Sequence[Any],
        level: float | None = None,
        decision: str | Decision = "map",
    ) -> list[tuple[NDArray[Any], ...]]:
        """Give the mask and the probabilities of every image in one pass over its features.

        Both are those of `predict` and `predict_proba`: a label of least min-marginal, the lower
        one of two alike, is that of the cut.

        Parameters
        ----------
        images : images or samples
        level : float, optional
            With it also the areas of all labels, as of `area`.
        decision : str or Decision
            As in `predict`.

        Returns
        -------
        list of ((h, w) uint8 labels, (h, w, L) float32 probabilities)
            With a level also (L, 3): expected area, and both ends of its interval or nan.
        """
        samples, one = self._read(images), self.segmenting(level, decision)
        if level is not None:
            self._warn_without_intervals()
        return self._each(samples, one)

    def segmenting(
        self, level: float | None = None, decision: str | Decision = "map"
    ) -> Callable[[Any, Sample, Sample], tuple[NDArray[Any], ...]]:
        """Give what `segment` asks the model for each sample, checked."""
        chosen = decision_of(decision)
        self._check_calibrated("segment")
        if level is not None:
            self._check_areas(0, level)
        return partial(segmented, level, chosen)

    def _area(
        self,
        q: NDArray[np.float32],
        labels: NDArray[np.uint8],
        label: int,
        level: float,
        sample: Sample,
    ) -> NDArray[np.float64]:
        """Expected area and interval in pixels of the sample, from q where the model works.

        Probabilities that were interpolated would doubt every border, and widen the interval.
        """
        pixels = math.prod(sample.shape) / math.prod(q.shape[:-1])
        return np.asarray(pixels * np.array(self.calibration_.area(q, labels, label, level)))

    def _check_areas(self, label: int, level: float) -> None:
        known = is_one_of(label, range(len(self.classes_)))
        if not known or not is_number(level) or not 0 < level < 1:
            raise InputError(
                f"area cannot use label={quoted(label)} and level={quoted(level)}. Give a label "
                f"from 0 to {self.classes_[-1]} and a level between 0 and 1, or leave them out for "
                "label 1 and 0.95."
            )
        if not self.calibration_.n_images:
            raise InputError(
                "area: this model has no held-out areas, from which intervals come. Call "
                "calibrate(images, masks) with images that were not used to fit."
            )

    def _warn_without_intervals(self) -> None:
        if not self.calibration_.has_intervals:
            told = f"area: {self.calibration_.without_intervals}"
            warnings.warn(told, InputWarning, stacklevel=3)

    def area(
        self, images: Sequence[Any], label: int = 1, level: float = 0.95
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the area of a label in every image, and a prediction interval for the true one.

        The area lies between the expected area and that of the mask, as held-out images suggest.

        The interval is a prediction from the errors of held-out areas: errors of pixels are
        correlated, so independent pixels would give too narrow an interval. It needs held-out
        images of at least four groups, else it is nan with a warning.

        Parameters
        ----------
        images : n images or samples
        label : int
        level : float
            The coverage of the intervals: the part of true areas that should lie in them.

        Returns
        -------
        value : (n,) pixels
        interval : (n, 2) pixels, or nan
        """
        self._check_fitted()
        self._check_areas(label, level)
        self._warn_without_intervals()
        rows = np.array(self._each(self._read(images), partial(area_of, label, level)))
        return rows[:, 0], rows[:, 1:]

    def calibrate(
        self, images: Sequence[Any], masks: Sequence[Any], groups: Sequence[Any] | None = None
    ) -> Self:
        """Fit probabilities and areas anew on images that were not used to fit the model.

        Parameters
        ----------
        images, masks, groups
            As in `fit`; images of one group vary together.
        """
        self._check_fitted()
        check_parameters(self)
        given = TrainingSet.of_lists(
            images, masks, groups, most_labels=len(self.classes_), known=known_coding(self)
        )
        data = self._sized(given)
        found = self._each(data.samples, evidence_of)
        rows = [
            drawn(part.min_marginals, mask, alone=part.alone)
            for part, mask in zip(found, data.masks)
        ]
        if not any(len(part.labels) for part in rows):
            raise InputError(
                "masks: every pixel is void, or fixed by a box or seeds, so nothing can be learned "
                "from them. Give masks with labelled pixels."
            )
        self.calibration_ = calibrate(rows, self.calibration, True, data.groups)
        return self

    @property
    def believes(self) -> bool:
        """Whether the fitted model has probabilities: calibrated ones, or plain ones if asked."""
        return self.calibration is None or self.calibration_.n_images > 0

    def _check_calibrated(self, asked: str) -> None:
        if not self.believes:
            raise InputError(
                f"{asked}: this model is not calibrated, so it has no probabilities. Call "
                "calibrate(images, masks) with images that were not used to fit, or set "
                "calibration=None for the plain softmax of min-marginals."
            )


# What is asked of a model for one sample, given also at the size at which the model works.


def probability_of(model: Any, small: Sample, full: Sample) -> NDArray[np.float32]:
    """Give the probabilities of a sample."""
    return probabilities_at_full_size(model._believed(model._evidence(small)), full)


def evidence_of(model: Any, small: Sample, full: Sample) -> Evidence:
    """Give what probabilities come from, at the size at which the model works."""
    found: Evidence = model._evidence(small)
    return found


def segmented(
    level: float | None, decision: Decision, model: Any, small: Sample, full: Sample
) -> tuple[NDArray[Any], ...]:
    """Give the mask, the probabilities and, with a level, the areas of a sample."""
    found = model._evidence(small)
    q = model._believed(found)
    both = (
        to_full_size(model._decided(decision, found), full),
        probabilities_at_full_size(q, full),
    )
    if level is None:
        return both
    areas = [model._area(q, found.labels, k, level, full) for k in model.classes_]
    return *both, np.array(areas)


def area_of(label: int, level: float, model: Any, small: Sample, full: Sample) -> Floats:
    """Give the expected area of a label in a sample, and its interval."""
    found = model._evidence(small)
    area: Floats = model._area(model._believed(found), found.labels, label, level, full)
    return area
