"""What models share: files, a score, and beside masks probabilities, areas, a ranking.

The model brings `_least`, the min-marginals of images, and what fit has learned.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from cutlearn.errors import InputError
from cutlearn.features.featurizer import Featurizer
from cutlearn.images.sample import Sample
from cutlearn.metrics import mean_iou
from cutlearn.model.calibrate import Calibration, calibrate, drawn, margin_of
from cutlearn.model.decide import best_for_count, best_for_iou
from cutlearn.model.kinds import Kind
from cutlearn.model.prepare import read_samples, read_training
from cutlearn.model.rank import Described, Ranked, describe, rank
from cutlearn.run.workers import thread_count

T = TypeVar("T")
Floats = NDArray[np.float64]


class Believing:
    """Probabilities from min-marginals, calibrated on held-out images, and what follows."""

    calibration: str | None
    n_jobs: int | None
    calibration_: Calibration
    classes_: NDArray[np.uint8]

    def _least(self, samples: Sequence[Sample], then: Callable[[Floats], T]) -> list[T]:
        """then(min-marginals) of every sample, in order."""
        raise NotImplementedError

    def _check_parameters(self) -> None:
        raise NotImplementedError

    def predict(self, images: Sequence[Any], decision: str = "map") -> list[NDArray[np.uint8]]:
        """Give the mask of every image."""
        raise NotImplementedError

    def score(self, images: Sequence[Any], masks: Sequence[Any]) -> float:
        """Give the mean IoU over all labels within an image, then over images; void excluded."""
        self._check_fitted()
        n_labels = len(self.classes_)
        samples, truth = read_training(images, masks, None, n_labels)
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
        self._check_fitted()
        samples = read_samples(images)
        self._check_calibrated("predict_proba")

        def one(least: Floats) -> NDArray[np.float32]:
            return self.calibration_.probabilities(least).astype(np.float32)

        return self._least(samples, one)

    def answer(self, images: Sequence[Any]) -> list[tuple[NDArray[np.uint8], NDArray[np.float32]]]:
        """Give the mask and the probabilities of every image in one pass over its features.

        Both are those of `predict` and `predict_proba`: a label of least min-marginal, the lower
        one of two alike, is that of the cut.

        Parameters
        ----------
        images : images or samples

        Returns
        -------
        list of ((h, w) uint8 labels, (h, w, L) float32 probabilities)
        """
        self._check_fitted()
        samples = read_samples(images)
        self._check_calibrated("answer")

        def one(least: Floats) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
            labels = least.argmin(axis=-1).astype(np.uint8)
            return labels, self.calibration_.probabilities(least).astype(np.float32)

        return self._least(samples, one)

    def _decide(self, samples: Sequence[Sample], decision: str) -> list[NDArray[np.uint8]]:
        """The masks that are best by the probabilities, for "iou" or "count"."""
        self._check_calibrated(f"predict(decision={decision!r})")
        best = best_for_iou if decision == "iou" else best_for_count

        def one(least: Floats) -> NDArray[np.uint8]:
            order = None
            if least.shape[-1] == 2:
                # Isotonic steps make ties, between which the min-marginals still know the order.
                order = np.argsort(-margin_of(least, 1).ravel(), kind="stable")
            return best(self.calibration_.probabilities(least), order)

        return self._least(samples, one)

    def area(
        self, images: Sequence[Any], label: int = 1, level: float = 0.95
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Give the expected area of a label in every image, and an interval for the true one.

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
        self._check_believes("area")
        if label not in self.classes_ or not 0 < level < 1:
            raise InputError(
                f"label={label!r}, level={level!r} found; a label from 0 to {self.classes_[-1]} "
                "and a level between 0 and 1 were wanted. Leave them out for label 1 and 0.95."
            )
        if not self.calibration_.n_images:
            raise InputError(
                "area: no held-out areas found in this model; intervals come from them. Call "
                "calibrate(images, masks) with images that were not used to fit."
            )
        found = self.predict_proba(images)
        rows = np.array([self.calibration_.area(q, label, level) for q in found])
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
        samples, truth = read_training(images, masks, groups, len(self.classes_))
        found = self._least(samples, lambda least: least)
        rows = [drawn(least, mask) for least, mask in zip(found, truth)]
        if not any(len(part.labels) for part in rows):
            raise InputError(
                "masks: only void or settled pixels found; labelled ones were wanted. Give masks "
                "of held-out images."
            )
        self.calibration_ = calibrate(rows, self.calibration, True, groups)
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
    _kind: Kind

    def _each(self, samples: Sequence[Sample], solve: Callable[..., T]) -> list[T]:
        """solve(problem, w, kind) of every sample, in order."""
        raise NotImplementedError

    def _least(self, samples: Sequence[Sample], then: Callable[[Floats], T]) -> list[T]:
        return self._each(samples, lambda problem, w, kind: then(kind.least(problem, w)))

    def rank(self, images: Sequence[Any]) -> list[Ranked]:
        """Order images that have no masks by what annotating them would tell of all of them.

        The most telling image is like many others, and unlike the images that the model was fitted
        on and those before it in the order (`cutlearn.model.rank` has the formula). Annotate a few
        from the start, fit again with them, and rank the rest.

        Parameters
        ----------
        images : images or samples

        Returns
        -------
        list of Ranked
            The most telling image first: its place in the list, its score, its windows.
        """
        self._check_fitted()

        def one(problem: Any, *_: Any) -> Described:
            return describe(problem.node_features, problem.shape)

        return rank(self._each(read_samples(images), one), self.featurizer_.centers_)

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
