"""The base of every estimator: the course of a fit, masks, probabilities, areas, files.

Here alone samples are resized to the size at which a model works, and results back. `Estimator`
defines what an estimator implements; `model_files.ESTIMATORS` lists those that model files know.
"""

from __future__ import annotations

import copy
import itertools
import math
import os
import platform
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from cutlearn.arrays import AnyArray, Floats, Image, Mask
from cutlearn.checks import is_number, is_one_of, listed, path_of
from cutlearn.errors import InputError, InputWarning, quoted
from cutlearn.features.folds import find_groups
from cutlearn.images.resize import Shape
from cutlearn.images.sample import Sample, as_sample
from cutlearn.images.training_set import TrainingSet, read_samples
from cutlearn.loaded import Loaded, mapped
from cutlearn.metrics import mean_iou
from cutlearn.model.budget import check_disk, disk_message, fits, images_at_once
from cutlearn.model.calibration import Calibration, Evidence, calibrate, drawn, margin_of
from cutlearn.model.decisions import Decision, decision_of
from cutlearn.model.on_disk import Scratch
from cutlearn.model.parameters import SHARED, Rule, check_parameters, check_side
from cutlearn.model.pieces import in_pieces
from cutlearn.model.size import (
    at_side,
    mask_at_side,
    probabilities_at_full_size,
    to_full_size,
)
from cutlearn.model.training_images import (
    TrainingImages,
    known_coding,
    warn_of_differences,
    warn_of_size,
)
from cutlearn.run.cluster import ClusterLost
from cutlearn.run.executor import Executor, Jobs, executor_of
from cutlearn.run.process import Interrupted, interrupted
from cutlearn.run.progress import Progress

T = TypeVar("T")
ProgressCallback = Callable[[int, int, str], None]
# Rows whose probabilities are computed at a time.
ROWS = 64
# What only the user knows: intended use, source of the images, known failures, licence.
BLANK = "[to be written by a person]"
PARTS = ("numpy", "scipy", "scikit-learn", "scikit-image")


@dataclass(frozen=True, eq=False)
class FitRun:
    """Where a fit keeps its parts and reports its progress.

    Parameters
    ----------
    folder : path, optional
        For checkpoints; it exists.
    scratch : path, optional
        Where samples and features lie that are larger than memory; it exists.
    progress : callable (done, total, what), optional
    callback : callable (Step), optional
    unannotated : samples that have no masks, at the size at which the model works
    """

    folder: Path | None = None
    scratch: Path | None = None
    progress: ProgressCallback | None = None
    callback: Callable[[Any], None] | None = None
    unannotated: Sequence[Sample] = ()

    def within(self, name: str) -> FitRun:
        """Return the same run with a folder of its own for checkpoints."""
        return replace(self, folder=_checkpoint_folder(self.folder and self.folder / name))


@dataclass(frozen=True)
class Summary:
    """The training of a fitted model, in plain values.

    Parameters
    ----------
    fitted : numbers of the fit by name
    weights : numbers by name
        The weights, or a number for each part of them.
    n_weights : int
    curve : one dict a step of training
    ending : str
        How the training ended, in a few words.
    converged : bool
    """

    fitted: Mapping[str, Any]
    weights: Mapping[str, float]
    n_weights: int
    curve: Sequence[Mapping[str, Any]]
    ending: str
    converged: bool = True


def card_of(model: Any, masks: Sequence[Mask]) -> dict[str, Any]:
    """Return the card of a model that was just fitted; plain values, as JSON can hold them."""
    pixels = int(sum(m.size for m in masks))
    counts = np.sum([np.bincount(m.ravel(), minlength=256) for m in masks], axis=0)
    known = max(pixels - int(counts[255]), 1)
    shapes = np.array([m.shape for m in masks])
    return {
        "data": {
            "images": len(masks),
            "pixels": pixels,
            "share_of_labels": [int(counts[k]) / known for k in model.classes_],
            "share_of_void": int(counts[255]) / pixels,
            "smallest": [int(v) for v in shapes.min(axis=0)],
            "largest": [int(v) for v in shapes.max(axis=0)],
        },
        "versions": {
            "cutlearn": version("cutlearn"),
            "python": platform.python_version(),
            **{part: version(part) for part in PARTS},
        },
        "metrics": model.validation_,
        "intended_use": BLANK,
        "source_of_the_images": BLANK,
        "known_failures": BLANK,
        "licence": BLANK,
    }


class Masks(list[Mask]):
    """A list of masks, which `numpy.concatenate` joins whatever their sizes.

    So scikit-learn's `cross_val_predict` works with images of several sizes: its result is then an
    array of masks. Its other methods (`predict_proba`) need masks of one number of classes per
    image, and fail; split, fit and predict in a loop instead:

        for train, test in GroupKFold(5).split(images, groups=groups):
            part = clone(model).fit([images[i] for i in train], [masks[i] for i in train])
            probability = part.predict_proba([images[i] for i in test])
    """

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Join masks of several sizes to an array of masks; else do what numpy does with lists."""
        lists = function is np.concatenate and not kwargs and len(args) == 1
        if lists and all(isinstance(part, list) for part in args[0]):
            every = [mask for part in args[0] for mask in part]
            if len({mask.shape for mask in every}) > 1:
                joined = np.empty(len(every), object)
                joined[:] = every
                return joined
        return function(*map(_plain, args), **{name: _plain(kwargs[name]) for name in kwargs})


def _plain(given: Any) -> Any:
    """Lists of masks, or of lists of masks, as plain lists."""
    if isinstance(given, Masks):
        return list(given)
    return type(given)(map(_plain, given)) if type(given) in (list, tuple) else given


class Estimator(BaseEstimator):  # type: ignore[misc]
    """A model that is fitted to images and masks, and then predicts masks and probabilities.

    An estimator has the methods without a body below, `rules` for the parameters that it has
    besides the shared ones (`calibration`, `min_side`, `n_jobs`, `random_state`, `verbose`), and
    the name by which `cutlearn fit --model` knows it.
    """

    command: ClassVar[str]
    rules: ClassVar[tuple[Rule, ...]] = SHARED

    calibration: str | None
    min_side: int | str | None
    n_jobs: Jobs
    random_state: Any
    verbose: bool

    w_: Any
    classes_: NDArray[np.uint8]
    calibration_: Calibration
    validation_: dict[str, Any]
    card_: dict[str, Any]

    @abstractmethod
    def learn(self, data: TrainingSet, run: FitRun) -> None:
        """Learn from images and masks; `fit` calls it on a copy of the estimator.

        It sets `w_`, `classes_`, `calibration_`, `validation_`, and more.

        Parameters
        ----------
        data : TrainingSet
            Samples, masks of labels 0 to L - 1 and 255 (void), and group numbers, checked, at the
            size at which the model works.
        run : FitRun
            The folders and callbacks of this fit.
        """

    @abstractmethod
    def mask(self, sample: Sample) -> Mask:
        """Return the best labels of a sample.

        Parameters
        ----------
        sample : Sample
            At the size at which the model works.

        Returns
        -------
        (h, w) uint8 labels
        """

    @abstractmethod
    def min_marginals(self, sample: Sample) -> Floats:
        """Return the least energy of a sample with each pixel at each label.

        Parameters
        ----------
        sample : Sample
            At the size at which the model works.

        Returns
        -------
        (h, w, L) float64
        """

    def evidence(self, sample: Sample) -> Evidence:
        """Return the min-marginals, and what labels cost a pixel alone, if the model has that.

        Parameters
        ----------
        sample : Sample
            At the size at which the model works.

        Returns
        -------
        Evidence
        """
        return Evidence(self.min_marginals(sample))

    @abstractmethod
    def summary(self) -> Summary:
        """Give what the fitted model says of its training."""

    @abstractmethod
    def to_header(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Give what a model file keeps: plain values, "parameters" among them, and tensors."""

    @classmethod
    @abstractmethod
    def from_header(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        """Read what `to_header` gave; whatever does not fit raises ValueError, KeyError, ..."""

    @property
    def judged_(self) -> dict[str, Any]:
        """The earlier name of `validation_`."""
        return self.validation_

    @property
    def of_volumes(self) -> bool:
        """Whether the fitted model takes volumes, and no images."""
        return False

    @property
    def streams(self) -> bool:
        """Whether it learns from images that are loaded one by one, when memory is too small."""
        return False

    @property
    def learns_from(self) -> frozenset[str]:
        """The arguments of fit, besides images and masks, that change what it does.

        Of "unannotated" and "callback"; fit refuses the others.
        """
        return frozenset()

    @property
    def most_labels(self) -> int:
        """The most labels that masks may have."""
        return 2

    @property
    def reads_instances(self) -> bool:
        """Whether masks that number their objects have one label for all objects."""
        return True

    def trainings(self, n_images: int) -> int:
        """Give how often a fit trains, at most; for its progress."""
        return 1

    def phases(self, shapes: Sequence[Shape], color: bool, n_labels: int) -> dict[str, float]:
        """Give the phases of a fit of images of these sizes, with their seconds if it knows them.

        Parameters
        ----------
        shapes : rows and columns at which the images are worked
        color : bool
            Whether any image has colour.
        n_labels : int

        Returns
        -------
        dict
            By name, in their order; seconds, or nan for one phase whose length nobody knows.
        """
        return {"training": math.nan}

    def shown_by(self, shown: Progress) -> ProgressCallback:
        """Give the `progress` of fit that shows its parts on a terminal."""
        return shown.phase

    def _check_samples(self, samples: Sequence[Sample]) -> None:
        """Refuse what the model cannot use."""

    def fit(
        self,
        images: Sequence[Any] | TrainingSet,
        masks: Sequence[Any] | None = None,
        groups: Sequence[Any] | None = None,
        *,
        unannotated: Sequence[Any] = (),
        checkpoint: str | os.PathLike[str] | None = None,
        progress: ProgressCallback | None = None,
        callback: Callable[[Any], None] | None = None,
    ) -> Self:
        """Learn from images and masks.

        Parameters
        ----------
        images : n images or samples, as for `as_image` and `Sample`, or volumes (`Volume`)
            A list; or a sequence that loads an image when it is asked for, such as `Folder.lazy`
            gives. If all of it is larger than memory, features are kept on disk. Or a
            `TrainingSet`, which has its own masks and groups.
        masks : n arrays (h, w) of whole numbers; (d, h, w) of volumes
            The values of all masks together decide. 0 and 255 alone are background and object.
            Else values are labels in their order, and 255 is void, as -1 always is. The model
            keeps them (`training_.values`): `score` and `calibrate` read masks as `fit` did.
            A volume needs a few annotated slices only: all others are void.
        groups : n hashables, optional
            Images of one group (neighbouring slices) are never on both sides of a comparison: for
            features, C, bias and calibration alike. None: nearly equal images are found.
        unannotated : images or samples that have no masks, optional
            Nets of a Segmenter are pre-trained on some of them, if pictures have colours. Refused
            where the features have no net.
        checkpoint : folder, optional
            Made when missing; what is finished is kept there, and the same call goes on where it
            was interrupted, with the same result.
        progress : callable (done, total, what), optional
            Called while features are computed, or after every part of a phase.
        callback : callable (Step), optional
            Called after every step of a Segmenter's training. A BoltzmannSegmenter has no such
            steps and refuses it; use `progress`.
        """
        check_parameters(self)
        self._refuse_unused(unannotated=len(listed("unannotated", unannotated)) > 0,
                            callback=callback is not None)  # fmt: skip
        folder = _checkpoint_folder(checkpoint)
        made = copy.copy(self)
        try:
            with Progress() as shown, Scratch(folder) as scratch:
                report = self.shown_by(shown) if self.verbose and progress is None else progress
                stepped = shown.step if self.verbose and callback is None else callback
                given = self._given(images, masks, groups)
                data = self._sized(given, scratch)
                spilled = scratch.folder if data.lazy else None
                run = FitRun(folder, spilled, report, stepped, self._unannotated(unannotated))
                # A copy learns, so that an interrupt leaves this one as it was.
                made.learn(data, run)
                made.card_ = card_of(made, data.masks)
            made.training_ = TrainingImages.of(given.facts, given.coding, given.names)
        except ClusterLost as lost:
            raise interrupted(lost, _interrupt_message(folder)) from None
        except Interrupted:
            raise  # training has said what it leaves
        except KeyboardInterrupt as stop:
            raise interrupted(stop, _interrupt_message(folder)) from None
        self.__dict__.update(vars(made))
        return self

    def predict(
        self, images: Sequence[Any], decision: str | Decision = "map"
    ) -> list[NDArray[np.uint8]]:
        """Return the mask of every image.

        Parameters
        ----------
        images : images or samples
            The box and the seeds of a sample hold: its pixels outside of the box are 0, its seeds
            have their labels.
        decision : "map", "iou", "count", or a Decision
            The labels of the exact minimum cut (surrogate labels: the most probable label of each
            pixel before calibration; unordered ones: the end of expansion moves; of a
            BoltzmannSegmenter the refining cut); or of the largest expected IoU (the mean over the
            labels within an image) or with the expected areas, by the calibrated probabilities.
            `cutlearn.model.decisions.DECISIONS` has all of them.

        Returns
        -------
        list of (h, w) uint8 arrays of labels (`Masks`)
            0 .. L - 1, in the order of the values of the training masks. Where those were others,
            ``np.array(model.training_.values)[mask]`` has them, as `cutlearn predict` writes them.
        """
        samples = self._read(images)
        return Masks(self._each(samples, self.masking(decision)))

    def masking(self, decision: str | Decision = "map") -> Callable[[Sample], Mask]:
        """Return what `predict` computes for each sample, checked, as a function of it."""
        chosen = decision_of(decision)
        if chosen.decide is not None:
            self._check_calibrated(f"predict(decision={chosen.name!r})")
        return self._work(Estimator._mask_of, chosen)

    def predict_proba(self, images: Sequence[Any]) -> list[Image]:
        """Return the probability of every label at every pixel, calibrated on held-out images.

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
        return self._each(samples, self._work(Estimator._probabilities_of))

    def _probabilities(self, found: Evidence) -> Image:
        q = np.empty(found.min_marginals.shape, np.float32)
        for first in range(0, len(q), ROWS):  # in double, a few rows at a time
            rows = slice(first, first + ROWS)
            q[rows] = self.calibration_.probabilities(*found.take(rows))
        return q

    def _decided(self, decision: Decision, found: Evidence) -> Mask:
        """Return the labels of a decision; of least energy, those of least min-marginal."""
        if decision.decide is None:
            return found.labels
        order, seen = None, self.calibration_.seen(*found)
        if seen.shape[-1] == 2:
            # Isotonic steps make ties, between which Psi still has an order.
            order = np.argsort(-margin_of(seen, 1).ravel(), kind="stable")
        return decision.decide(self.calibration_.map.probabilities(seen), order)

    def segment(
        self,
        images: Sequence[Any],
        level: float | None = None,
        decision: str | Decision = "map",
    ) -> list[tuple[AnyArray, ...]]:
        """Return the mask and the probabilities of every image in one pass over its features.

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
        samples, work = self._read(images), self.segmenting(level, decision)
        if level is not None:
            self._warn_without_intervals()
        return self._each(samples, work)

    def segmenting(
        self, level: float | None = None, decision: str | Decision = "map"
    ) -> Callable[[Sample], tuple[AnyArray, ...]]:
        """Return what `segment` computes for each sample, checked, as a function of it."""
        chosen = decision_of(decision)
        self._check_calibrated("segment")
        if level is not None:
            self._check_areas(0, level)
        return self._work(Estimator._segmented, level, chosen)

    def _area(
        self,
        q: Image,
        labels: Mask,
        label: int,
        level: float,
        sample: Sample,
    ) -> Floats:
        """Return the expected area and interval in pixels of the sample, from q at another size.

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
    ) -> tuple[Floats, Floats]:
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
        rows = np.array(
            self._each(self._read(images), self._work(Estimator._area_of, label, level))
        )
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
        found = self._each(data.samples, self._work(Estimator._evidence_of))
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
    def has_probabilities(self) -> bool:
        """Whether the fitted model has probabilities: calibrated ones, or plain ones by choice."""
        return self.calibration is None or self.calibration_.n_images > 0

    def _check_calibrated(self, asked: str) -> None:
        if not self.has_probabilities:
            raise InputError(
                f"{asked}: this model is not calibrated, so it has no probabilities. Call "
                "calibrate(images, masks) with images that were not used to fit, or set "
                "calibration=None for the plain softmax of min-marginals."
            )

    def _read(self, images: Sequence[Any]) -> Sequence[Sample]:
        """Check that the model is fitted, and the images."""
        self._check_fitted()
        samples = read_samples(images)
        self._check_samples(samples)
        warn_of_differences(self, samples)
        return samples

    def _given(self, images: Any, masks: Any, groups: Any) -> TrainingSet:
        """Return what fit was given, checked, at full size."""
        if not isinstance(images, TrainingSet):
            return TrainingSet.of_lists(
                images, masks, groups,
                most_labels=self.most_labels, instances=self.reads_instances,
            )  # fmt: skip
        if masks is not None or groups is not None:
            raise InputError("fit: a TrainingSet has its own masks and groups. Leave them out.")
        if images.coding.n_labels > self.most_labels:
            raise InputError(
                f"masks have {images.coding.n_labels} labels, but at most {self.most_labels} are "
                "possible. Use labels='unordered', or masks of one object."
            )
        return images

    def _sized(self, data: TrainingSet, scratch: Scratch | None = None) -> TrainingSet:
        """Return a training set at the size at which the model works, with group numbers.

        With a scratch, samples and masks that are larger than memory with their features lie there.
        """
        shapes, side = [(one.height, one.width) for one in data.facts], self.min_side
        if not data.lazy:
            warn_of_size(self, shapes)
        samples = mapped(partial(at_side, min_side=side), data.samples)
        masks = mapped(partial(mask_at_side, min_side=side), data.masks)
        if data.volumes:
            samples, masks = list(samples), list(masks)
            self._check_samples(samples)
            pieces, masks, groups = in_pieces(samples, masks, data.groups)
            deep, *_ = zip(*(piece.shape for piece in pieces))
            images_at_once([piece.shape[1:] for piece in pieces], "full", 1, True, depths=deep)
            return replace(data, samples=pieces, masks=masks, groups=groups)
        if scratch is not None and not self.streams:
            images_at_once(shapes, side, 1, True)
        if scratch is not None and self._spills(shapes, samples):
            check_disk(shapes, side, scratch.folder)
            if not data.lazy:
                warnings.warn(disk_message(shapes, side), InputWarning, stacklevel=3)
            samples, masks = scratch.put(samples, masks)
        else:
            samples, masks = list(samples), list(masks)
            self._check_samples(samples)
        groups = find_groups(mapped(attrgetter("image"), samples), data.groups)
        return replace(data, samples=samples, masks=masks, groups=groups)

    def _refuse_unused(self, **given: bool) -> None:
        """Refuse an argument of fit that was given, but would change nothing."""
        unused = [name for name, there in given.items() if there and name not in self.learns_from]
        if unused:
            features = getattr(self, "features", None)
            kind = "" if features is None else f" with features={quoted(features)}"
            raise InputError(
                f"{unused[0]}: fit of a {type(self).__name__}{kind} does not use it. Leave it out."
            )

    def _unannotated(self, images: Any) -> Sequence[Sample]:
        """Give images without masks at the size at which the model works, made when asked for."""
        given, side = listed("unannotated", images), self.min_side

        def load(i: int) -> Sample:
            try:
                return at_side(as_sample(given[i]), side)
            except InputError as error:
                said = str(error).removeprefix("image: ")
                raise InputError(f"unannotated[{i}]: {said}") from None

        return Loaded(len(given), load)

    def _spills(self, shapes: Sequence[Shape], samples: Sequence[Sample]) -> bool:
        """Whether samples and features lie on disk: memory is too small, or a cluster reads them.

        That is, its workers see the files of the images.
        """
        if not self.streams:
            return False
        return (
            not fits(shapes, self.min_side) or self._executor().by_reference(samples) is not samples
        )

    # Results for one sample at full size; `_work` makes functions of a sample of them.

    def _mask_of(self, decision: Decision, sample: Sample) -> Mask:
        small = at_side(sample, self.min_side)
        if decision.decide is None:
            return to_full_size(self.mask(small), sample)
        return to_full_size(self._decided(decision, self.evidence(small)), sample)

    def _evidence_of(self, sample: Sample) -> Evidence:
        return self.evidence(at_side(sample, self.min_side))

    def _probabilities_of(self, sample: Sample) -> Image:
        return probabilities_at_full_size(self._probabilities(self._evidence_of(sample)), sample)

    def _segmented(
        self, level: float | None, decision: Decision, sample: Sample
    ) -> tuple[AnyArray, ...]:
        found = self._evidence_of(sample)
        q = self._probabilities(found)
        both = (
            to_full_size(self._decided(decision, found), sample),
            probabilities_at_full_size(q, sample),
        )
        if level is None:
            return both
        areas = [self._area(q, found.labels, k, level, sample) for k in self.classes_]
        return *both, np.array(areas)

    def _area_of(self, label: int, level: float, sample: Sample) -> Floats:
        found = self._evidence_of(sample)
        return self._area(self._probabilities(found), found.labels, label, level, sample)

    def _work(self, answer: Callable[..., T], *args: Any) -> Callable[[Sample], T]:
        """Return a method as a function of a sample, which threads and a cluster can map."""
        return partial(answer, self._in_one_thread(), *args)

    def _in_one_thread(self) -> Self:
        """Return a copy that computes in one thread, and can be pickled."""
        check_side(self)
        made = copy.copy(self)
        made.n_jobs = 1
        return made

    def _each(
        self,
        samples: Sequence[Sample],
        work: Callable[[Sample], T],
        progress: Callable[[int, int], None] | None = None,
    ) -> list[T]:
        """Return work(sample) of all samples, in order."""
        count = itertools.count(1)

        def finished(index: int, result: T) -> None:
            if progress is not None:
                progress(next(count), len(samples))

        return self._executor().map(work, samples, finished)

    def score(self, images: Sequence[Any], masks: Sequence[Any]) -> float:
        """Return the mean IoU over all labels within an image, then over images; void excluded.

        `cutlearn evaluate` prints it as "mean IoU" with the pooled IoU of the object.

        Parameters
        ----------
        images : n images or samples
        masks : n arrays (h, w) of whole numbers
            A value means what it meant in `fit`: after training masks of 1 and 2, a mask of 1
            throughout is background. Masks of two labels may also come as 0 and 1, or as 0 and
            255, where 1, or 255, had no meaning in `fit`; a warning says so. 255 and -1 are void
            otherwise, and other values are refused.

        Returns
        -------
        float
        """
        self._check_fitted()
        n_labels = len(self.classes_)
        known = known_coding(self)
        data = TrainingSet.of_lists(images, masks, most_labels=n_labels, known=known)
        return mean_iou(data.masks, self.predict(data.samples), n_labels)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, whole or not at all; `cutlearn.load` reads it back."""
        self._check_fitted()
        from cutlearn.model.model_files import save

        save(self, path)

    def _executor(self) -> Executor:
        return executor_of(-1 if self.n_jobs is None else self.n_jobs)

    def _check_fitted(self) -> None:
        if not hasattr(self, "w_"):
            raise NotFittedError(
                f"This {type(self).__name__} is not fitted yet. Call fit with images and masks "
                "first."
            )


def _checkpoint_folder(path: str | os.PathLike[str] | None) -> Path | None:
    """Return the folder for checkpoints, made when missing."""
    if path is None:
        return None
    folder = path_of("checkpoint", path)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: this is a file, but checkpoints need a folder. Name another.")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _interrupt_message(folder: Path | None) -> str:
    """Return the message of a fit that was interrupted outside of a training."""
    if folder is None:
        return "fit: interrupted; nothing is saved. With checkpoint= what is finished is."
    return (
        f"fit: interrupted; what was finished is saved in {folder}. "
        "Run the same call again to go on."
    )
