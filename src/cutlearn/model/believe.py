"""What models share: files, a score, and beside masks probabilities, areas, a ranking.

The model brings `_mask` and `_least`, the labels and min-marginals of a sample at the size at which
it works, and what fit has learned. Here alone samples come to that size and answers back from it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from cutlearn.checks import is_number, is_one_of
from cutlearn.errors import InputError, quoted
from cutlearn.features.featurizer import Featurizer
from cutlearn.features.folds import find_groups
from cutlearn.features.problem import Problem
from cutlearn.images.sample import Sample
from cutlearn.metrics import mean_iou
from cutlearn.model.calibrate import Calibration, calibrate, drawn
from cutlearn.model.calibrations import margin_of
from cutlearn.model.decide import best_for_count, best_for_iou, check_decision
from cutlearn.model.kinds import Kind
from cutlearn.model.parameters import check_side
from cutlearn.model.prepare import known_values, read_samples, read_training
from cutlearn.model.rank import Described, Ranked, describe, rank
from cutlearn.model.size import at_side, mask_at_side, painted, painted_beliefs
from cutlearn.model.training_images import warn_of_differences, warn_of_size
from cutlearn.run.workers import Workers, thread_count

T = TypeVar("T")
Floats = NDArray[np.float64]


class Believing:
    """Probabilities from min-marginals, calibrated on held-out images, and what follows."""

    calibration: str | None
    min_side: int | None
    n_jobs: int | None
    calibration_: Calibration
    classes_: NDArray[np.uint8]

    def _mask(self, sample: Sample) -> NDArray[np.uint8]:
        """Give the best labels of a sample at the size at which the model works."""
        raise NotImplementedError

    def _least(self, sample: Sample) -> Floats:
        """Give its min-marginals likewise."""
        raise NotImplementedError

    def _check_parameters(self) -> None:
        raise NotImplementedError

    def predict(self, images: Sequence[Any], decision: str = "map") -> list[NDArray[np.uint8]]:
        """Give the mask of every image.

        Parameters
        ----------
        images : images or samples
            The box and the seeds of a sample hold: its pixels outside of the box are 0, its seeds
            have their labels.
        decision : "map", "iou" or "count"
            The labels of the exact minimum cut (surrogate labels: the most probable label of each
            pixel before calibration; unordered ones: the end of expansion moves; of a
            BoltzmannSegmenter the refining cut); or of the largest expected IoU (the mean over the
            labels within an image) or with the expected areas, by the calibrated probabilities.

        Returns
        -------
        list of (h, w) uint8 arrays of labels
        """
        samples = self._read(images)
        check_decision(decision)
        if decision == "map":
            return self._each(samples, lambda small, full: painted(self._mask(small), full))
        self._check_calibrated(f"predict(decision={decision!r})")
        best = best_for_iou if decision == "iou" else best_for_count

        def one(small: Sample, full: Sample) -> NDArray[np.uint8]:
            least, order = self._least(small), None
            if least.shape[-1] == 2:
                # Isotonic steps make ties, between which the min-marginals still know the order.
                order = np.argsort(-margin_of(least, 1).ravel(), kind="stable")
            return painted(best(self.calibration_.probabilities(least), order), full)

        return self._each(samples, one)

    def _read(self, images: Sequence[Any]) -> list[Sample]:
        """Check that the model is fitted, and the images."""
        self._check_fitted()
        samples = read_samples(images)
        self._check_samples(samples)
        warn_of_differences(self, samples)
        return samples

    def _check_samples(self, samples: Sequence[Sample]) -> None:
        """Refuse what the model cannot use."""

    def _become(self, made: Self) -> None:
        """Take all that a copy has learned, at once, after everything went well."""
        vars(self).update(vars(made))

    def _read_training(
        self, images: Any, masks: Any, groups: Any, most_labels: int = 2, values: Any = None
    ) -> tuple[list[Sample], list[NDArray[np.uint8]], list[int]]:
        """Check what fit or calibrate was given; give it at the size at which the model works.

        Images of one group number are never on both sides of a comparison.
        """
        given, truth = read_training(images, masks, most_labels, values)
        self._check_samples(given)
        warn_of_size(self, given)
        side = self.min_side
        samples = [at_side(sample, side) for sample in given]
        together = find_groups([sample.image for sample in samples], groups)
        return samples, [mask_at_side(mask, side) for mask in truth], together

    def _each(self, samples: Sequence[Sample], one: Callable[[Sample, Sample], T]) -> list[T]:
        """one(the sample at the size at which the model works, the sample) of all, in order."""
        check_side(self)
        with Workers(self._threads()) as workers:
            return workers.map(lambda sample: one(at_side(sample, self.min_side), sample), samples)

    def score(self, images: Sequence[Any], masks: Sequence[Any]) -> float:
        """Give the mean IoU over all labels within an image, then over images; void excluded.

        `cutlearn evaluate` tells it as "mean IoU" beside the pooled IoU of the object.
        """
        self._check_fitted()
        n_labels = len(self.classes_)
        samples, truth = read_training(images, masks, n_labels, known_values(self))
        return mean_iou(truth, self.predict(samples), n_labels)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, whole or not at all; `cutlearn.load` reads it back."""
        self._check_fitted()
        from cutlearn.model.files import save

        save(self, path)

    def _threads(self) -> int:
        return thread_count(-1 if self.n_jobs is None else self.n_jobs)

    def _check_fitted(self) -> None:
        if not hasattr(self, "w_"):
            raise NotFittedError(
                f"This {type(self).__name__} is not fitted yet. Call fit with images and masks "
                "first."
            )

    def predict_proba(self, images: Sequence[Any]) -> list[NDArray[np.float32]]:
        """Give the probability of every label at every pixel, calibrated on held-out images.

        Parameters
        ----------
        images : images or samples
            A pixel that the box or a seed of a sample settles has probability 1 of its label.

        Returns
        -------
        list of (h, w, L) float32 arrays; the labels of a pixel sum to 1
        """
        samples = self._read(images)
        self._check_calibrated("predict_proba")
        return self._each(
            samples, lambda small, full: painted_beliefs(self._believed(self._least(small)), full)
        )

    def _leasts(self, samples: Sequence[Sample]) -> list[Floats]:
        """The min-marginals of samples, at the size at which the model works."""
        return self._each(samples, lambda small, full: self._least(small))

    def _believed(self, least: Floats) -> NDArray[np.float32]:
        return self.calibration_.probabilities(least).astype(np.float32)

    def answer(
        self, images: Sequence[Any], level: float | None = None
    ) -> list[tuple[NDArray[Any], ...]]:
        """Give the mask and the probabilities of every image in one pass over its features.

        Both are those of `predict` and `predict_proba`: a label of least min-marginal, the lower
        one of two alike, is that of the cut.

        Parameters
        ----------
        images : images or samples
        level : float, optional
            With it also the areas of all labels, as of `area`.

        Returns
        -------
        list of ((h, w) uint8 labels, (h, w, L) float32 probabilities)
            With a level also (L, 3): expected area, and both ends of its interval.
        """
        samples = self._read(images)
        self._check_calibrated("answer")
        if level is not None:
            self._check_areas(0, level)

        def one(small: Sample, full: Sample) -> tuple[NDArray[Any], ...]:
            least = self._least(small)
            labels, q = least.argmin(axis=-1).astype(np.uint8), self._believed(least)
            found = painted(labels, full), painted_beliefs(q, full)
            if level is None:
                return found
            return *found, np.array([self._area(q, labels, k, level, full) for k in self.classes_])

        return self._each(samples, one)

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
        pixels = sample.shape[0] * sample.shape[1] / (q.shape[0] * q.shape[1])
        return np.asarray(pixels * np.array(self.calibration_.area(q, labels, label, level)))

    def _check_areas(self, label: int, level: float) -> None:
        self._check_believes("area")
        known = is_one_of(label, range(len(self.classes_)))
        if not known or not is_number(level) or not 0 < level < 1:
            raise InputError(
                f"label={quoted(label)}, level={quoted(level)} found; a label from 0 to "
                f"{self.classes_[-1]} and a level between 0 and 1 were wanted. Leave them out for "
                "label 1 and 0.95."
            )
        if not self.calibration_.n_images:
            raise InputError(
                "area: no held-out areas found in this model; intervals come from them. Call "
                "calibrate(images, masks) with images that were not used to fit."
            )

    def area(
        self, images: Sequence[Any], label: int = 1, level: float = 0.95
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Give the area of a label in every image, and an interval for the true one.

        Between the expected area and that of the mask, as held-out images say (`calibrate`).

        The width of the interval comes from how far areas strayed on held-out images: pixels are
        wrong together, so taking them as independent would promise too much.

        Parameters
        ----------
        images : n images or samples
        label : int
        level : float
            The part of true areas that should lie in their intervals.

        Returns
        -------
        value : (n,) pixels
        interval : (n, 2) pixels
        """
        self._check_fitted()
        self._check_areas(label, level)

        def one(small: Sample, full: Sample) -> NDArray[np.float64]:
            least = self._least(small)
            mask = least.argmin(axis=-1).astype(np.uint8)
            return self._area(self._believed(least), mask, label, level, full)

        rows = np.array(self._each(self._read(images), one))
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
        self._check_believes("calibrate")
        self._check_parameters()
        samples, truth, together = self._read_training(
            images, masks, groups, len(self.classes_), known_values(self)
        )
        rows = [drawn(least, mask) for least, mask in zip(self._leasts(samples), truth)]
        if not any(len(part.labels) for part in rows):
            raise InputError(
                "masks: only void or settled pixels found; labelled ones were wanted. Give masks "
                "of held-out images."
            )
        self.calibration_ = calibrate(rows, self.calibration, True, together)
        return self

    @property
    def believes(self) -> bool:
        """Whether the fitted model has probabilities: calibrated ones, or plain ones if asked."""
        return self.calibration is None or self.calibration_.n_images > 0

    def _check_believes(self, asked: str) -> None:
        """Refuse what a model without min-marginals cannot give."""

    def _check_calibrated(self, asked: str) -> None:
        self._check_believes(asked)
        if not self.believes:
            raise InputError(
                f"{asked}: a model without calibration found; held-out images are wanted. Call "
                "calibrate(images, masks) with images that were not used to fit, or set "
                "calibration=None for the plain softmax of min-marginals."
            )


class Ranking(Believing):
    """A model that knows the node features of the images it was fitted on ranks others by them."""

    featurizer_: Featurizer
    w_: Floats
    _kind: Kind

    def _problem(self, sample: Sample) -> Problem:
        """The problem of a sample at the size at which the model works."""
        raise NotImplementedError

    def rank(self, images: Sequence[Any]) -> list[Ranked]:
        """Order images that have no masks by what annotating them would tell of all of them.

        The most telling image is like many doubtful parts of others, and unlike the images that the
        model was fitted on and those before it in the order (`cutlearn.model.rank` has the
        formula). Annotate a few from the start, fit again with them, and rank the rest.

        Parameters
        ----------
        images : images or samples

        Returns
        -------
        list of Ranked
            The most telling image first: its place in the list, its score, its windows.
        """
        samples = self._read(images)

        def one(small: Sample, full: Sample) -> Described:
            problem = self._problem(small)
            q = None
            if self.believes:
                q = self.calibration_.probabilities(self._kind.least(problem, self.w_))
            return describe(problem.node_features, small.shape, q)

        seen = self._each(samples, one)
        return [
            ranked.at(seen[ranked.image].shape, samples[ranked.image].shape)
            for ranked in rank(seen, self.featurizer_.centers_)
        ]

    @property
    def believes(self) -> bool:
        """Whether the fitted model has probabilities; expansion moves give masks only."""
        return self._kind.believes and super().believes

    def _check_believes(self, asked: str) -> None:
        if not self._kind.believes:
            raise InputError(
                f"{asked}: a model of {self._kind.name} labels found; one with min-marginals was "
                "wanted, and expansion moves give masks only. Fit labels='surrogate' with "
                "learner='likelihood' for probabilities of such labels."
            )
