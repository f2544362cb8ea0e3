"""What every estimator shares: the course of a fit, masks, probabilities, areas, files.

Here alone samples come to the size at which a model works and answers back from it. `Estimator`
says what an estimator brings of its own; `model.estimators` lists those that model files know.
"""

from __future__ import annotations

import copy
import itertools
import math
import os
import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from cutlearn.arrays import Mask
from cutlearn.checks import listed
from cutlearn.errors import InputError, InputWarning, quoted
from cutlearn.features.folds import find_groups
from cutlearn.images.coding import Coding
from cutlearn.images.resize import Shape
from cutlearn.images.sample import Sample, are_volumes, as_sample
from cutlearn.loaded import Loaded, mapped
from cutlearn.metrics import mean_iou
from cutlearn.model.budget import check_disk, disk_message, fits, images_at_once
from cutlearn.model.calibration import Calibration
from cutlearn.model.card import Summary, card_of
from cutlearn.model.decisions import Decision, decision_of
from cutlearn.model.fitting.on_disk import Scratch
from cutlearn.model.fitting.parameters import SHARED, Rule, check_parameters, check_side
from cutlearn.model.fitting.pieces import in_pieces
from cutlearn.model.fitting.training_set import Told, TrainingSet
from cutlearn.model.prepare import (
    checkpoint_folder,
    farewell,
    known_coding,
    read_samples,
    read_training,
)
from cutlearn.model.probabilities import Probabilities
from cutlearn.model.size import (
    at_side,
    mask_at_side,
    to_full_size,
)
from cutlearn.model.training_images import (
    flat_shapes,
    remembered,
    warn_of_differences,
    warn_of_size,
)
from cutlearn.run.cluster import ClusterLost
from cutlearn.run.executor import Executor, Jobs, executor_of
from cutlearn.run.process import Interrupted, interrupted
from cutlearn.run.progress import Progress

T = TypeVar("T")


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


class Estimator(Probabilities, BaseEstimator):  # type: ignore[misc]
    """A model that is fitted to images and masks, and then asked for masks and probabilities.

    An estimator brings the methods without a body below, `rules` for the parameters that it has
    beside the shared ones (`calibration`, `min_side`, `n_jobs`, `random_state`, `verbose`), and
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
    judged_: dict[str, Any]
    card_: dict[str, Any]

    @abstractmethod
    def _learn(self, data: TrainingSet) -> None:
        """Learn from images and masks: set `w_`, `classes_`, `calibration_`, `judged_`, and more.

        It is called on a copy of the estimator, which takes all of it only at the end.
        """

    @abstractmethod
    def _mask(self, sample: Sample) -> Mask:
        """Give the best labels of a sample at the size at which the model works."""

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

    def shown_by(self, shown: Progress) -> Told:
        """Give the `progress` of fit that shows its parts on a terminal."""
        return shown.phase

    def _check_samples(self, samples: Sequence[Sample]) -> None:
        """Refuse what the model cannot use."""

    def fit(
        self,
        images: Sequence[Any],
        masks: Sequence[Any],
        groups: Sequence[Any] | None = None,
        *,
        unannotated: Sequence[Any] = (),
        checkpoint: str | os.PathLike[str] | None = None,
        progress: Told | None = None,
        callback: Callable[[Any], None] | None = None,
    ) -> Self:
        """Learn from images and masks.

        Parameters
        ----------
        images : n images or samples, as for `as_image` and `Sample`, or volumes (`Volume`)
            A list; or a sequence that loads an image when it is asked for, such as `Folder.lazy`
            gives. If all of it is larger than memory, features are kept on disk.
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
        folder = checkpoint_folder(checkpoint)
        made = copy.copy(self)
        try:
            with Progress() as shown, Scratch(folder) as scratch:
                told = self.shown_by(shown) if self.verbose and progress is None else progress
                stepped = shown.step if self.verbose and callback is None else callback
                samples, truth, together, coding = self._read_training(
                    images, masks, groups, self.most_labels, None, self.reads_instances, scratch
                )
                room = scratch.folder if isinstance(samples, Loaded) else None
                # A copy learns, so that an interrupt leaves this one as it was.
                made._learn(TrainingSet(samples, truth, together, folder, room, told, stepped,
                                        self._unannotated(unannotated)))  # fmt: skip
                made.card_ = card_of(made, truth)
            made.training_ = remembered(images, coding, self._executor().local)
        except ClusterLost as lost:
            raise interrupted(lost, farewell(folder)) from None
        except Interrupted:
            raise  # training has said what it leaves
        except KeyboardInterrupt as stop:
            raise interrupted(stop, farewell(folder)) from None
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

    def masking(self, decision: str | Decision = "map") -> Callable[[Any, Sample, Sample], Mask]:
        """Give what `predict` asks the model for each sample, checked."""
        chosen = decision_of(decision)
        if chosen.decide is None:
            return mask_of
        self._check_calibrated(f"predict(decision={chosen.name!r})")
        return partial(decided_of, chosen)

    def _read(self, images: Sequence[Any]) -> Sequence[Sample]:
        """Check that the model is fitted, and the images."""
        self._check_fitted()
        samples = read_samples(images)
        self._check_samples(samples)
        warn_of_differences(self, samples)
        return samples

    def _read_training(
        self,
        images: Any,
        masks: Any,
        groups: Any,
        most_labels: int = 2,
        known: Any = None,
        instances: bool | None = None,
        scratch: Scratch | None = None,
    ) -> tuple[Sequence[Sample], Sequence[NDArray[np.uint8]], list[int], Coding]:
        """Check what fit or calibrate was given; give it at the size at which the model works.

        Images of one group number are never on both sides of a comparison. With a scratch, samples
        and masks that are larger than memory with their features lie there.
        """
        given, truth, coding = read_training(images, masks, most_labels, known, instances)
        self._check_samples(given)
        shapes, side = flat_shapes(given), self.min_side
        warn_of_size(self, shapes)
        samples = mapped(partial(at_side, min_side=side), given)
        resized = mapped(partial(mask_at_side, min_side=side), truth)
        if are_volumes(samples):
            pieces = in_pieces(samples, resized, groups)
            deep, *_ = zip(*(piece.shape for piece in pieces[0]))
            images_at_once([piece.shape[1:] for piece in pieces[0]], "full", 1, True, depths=deep)
            return *pieces, coding
        if scratch is not None and not self.streams:
            images_at_once(shapes, side, 1, True)
        if scratch is not None and self._spills(shapes, samples):
            check_disk(shapes, side, scratch.folder)
            if not isinstance(given, Loaded):
                warnings.warn(disk_message(shapes, side), InputWarning, stacklevel=3)
            samples, resized = scratch.put(samples, resized)
        else:
            samples, resized = list(samples), list(resized)
        pictures = mapped(attrgetter("image"), samples)
        return samples, resized, find_groups(pictures, groups), coding

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

    def _each(
        self,
        samples: Sequence[Sample],
        one: Callable[[Any, Sample, Sample], T],
        progress: Callable[[int, int], None] | None = None,
    ) -> list[T]:
        """one(model, sample at the size at which the model works, sample) of all, in order."""
        count = itertools.count(1)

        def finished(place: int, result: T) -> None:
            if progress is not None:
                progress(next(count), len(samples))

        return self._executor().map(partial(asked, self.alone(), one), samples, finished)

    def alone(self) -> Self:
        """Give a copy that answers in one thread, and can travel."""
        check_side(self)
        made = copy.copy(self)
        made.n_jobs = 1
        return made

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
        samples, truth, _ = read_training(images, masks, n_labels, known_coding(self))
        return mean_iou(truth, self.predict(samples), n_labels)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, whole or not at all; `cutlearn.load` reads it back."""
        self._check_fitted()
        from cutlearn.model.files import save

        save(self, path)

    def _executor(self) -> Executor:
        return executor_of(-1 if self.n_jobs is None else self.n_jobs)

    def _check_fitted(self) -> None:
        if not hasattr(self, "w_"):
            raise NotFittedError(
                f"This {type(self).__name__} is not fitted yet. Call fit with images and masks "
                "first."
            )


def asked(model: Any, one: Callable[[Any, Sample, Sample], T], sample: Sample) -> T:
    """Give one(model, the sample at the size at which the model works, the sample)."""
    return one(model, at_side(sample, model.min_side), sample)


def mask_of(model: Any, small: Sample, full: Sample) -> Mask:
    """Give the best labels of a sample."""
    return to_full_size(model._mask(small), full)


def decided_of(decision: Decision, model: Any, small: Sample, full: Sample) -> Mask:
    """Give the labels of a decision."""
    return to_full_size(model._decided(decision, model._evidence(small)), full)
