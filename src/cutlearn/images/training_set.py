"""What a model learns from: images and masks in; samples, labels, groups, facts and coding out.

Images come as lists (`TrainingSet.of_lists`) or from a folder whose files were matched and checked
(`TrainingSet.of_folder`). Every array is checked once, here; what follows trusts it. A sequence of
the user's own that loads its images lazily stays one: it is read once here, and again by whatever
needs its pixels.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from PIL import Image

from cutlearn.arrays import VOID, AnyArray, Mask
from cutlearn.checks import as_array
from cutlearn.errors import InputError, InputWarning
from cutlearn.images.coding import (
    ZERO_ONE,
    Coding,
    Stated,
    Tally,
    as_numbered,
    decide,
    doubts,
    label_counts,
    tally,
)
from cutlearn.images.decode import is_one
from cutlearn.images.folder import Folder
from cutlearn.images.sample import FREE, Facts, Sample, Volume, are_volumes, as_sample
from cutlearn.loaded import Loaded, mapped, taken


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Images and masks that were checked; `fit` takes it in place of two lists.

    Parameters
    ----------
    samples : n samples, or volumes
        A list; or a sequence that loads them lazily.
    masks : n arrays of their shapes, uint8
        Labels, and 255 for void.
    facts : n Facts
        Of the images as they were given, with their fingerprints.
    coding : Coding
        What the values of the masks mean.
    groups : n hashables, optional
        Images of one group are never on both sides of a comparison. None: not stated.
    volumes : bool, default False
        Whether the samples are volumes.
    names : tuple of str, optional
        The names of the labels.

    Examples
    --------
    >>> import numpy as np
    >>> from cutlearn.images import TrainingSet
    >>> data = TrainingSet.of_lists([np.zeros((2, 3))], [np.array([[0, 1, 1], [0, 0, 255]])])
    >>> data.masks[0].tolist(), data.coding.values
    ([[0, 1, 1], [0, 0, 255]], (0, 1))
    """

    samples: Sequence[Sample]
    masks: Sequence[Mask]
    facts: Sequence[Facts]
    coding: Coding
    groups: Sequence[Any] | None = None
    volumes: bool = False
    names: tuple[str, ...] = ()

    @property
    def lazy(self) -> bool:
        """Return whether the samples are loaded when they are needed."""
        return isinstance(self.samples, Loaded)

    @classmethod
    def of_lists(
        cls,
        images: Any,
        masks: Any,
        groups: Sequence[Any] | None = None,
        *,
        most_labels: int = 2,
        known: Coding | None = None,
        instances: bool | None = None,
    ) -> TrainingSet:
        """Check images and masks; all faults are reported at once.

        Parameters
        ----------
        images, masks : lists of the same length
            Or sequences that load their items lazily, or one image and its mask.
        groups : n hashables, optional
        most_labels : int, default 2
            The most labels that there may be.
        known : Coding, optional
            How a fitted model reads masks; by default their values decide.
        instances : bool, optional
            Whether masks that number their objects have one label for all; by default if there may
            be two labels only.

        Returns
        -------
        TrainingSet
        """
        tallies: list[Tally] = []
        facts: list[Facts] = []

        def check(sample: Sample, mask: Any, where: str) -> AnyArray:
            values = _checked_mask(mask, sample.shape, where)
            tallies.append(tally(where, values))
            facts.append(sample.facts(known is None))
            return values

        samples, found = _read_pairs(images, masks, check)
        coding, line = coding_of(tallies, most_labels, known, instances)
        if told := line or coding.told():
            warnings.warn(f"masks: {told}.", InputWarning, stacklevel=4)
        for doubt, _ in doubts(tallies, coding) if known is None else []:
            advice = "If such pixels are not annotated, set them to 255"
            warnings.warn(f"masks: {doubt}. {advice}.", InputWarning, stacklevel=4)
        _refuse_void(tallies, coding)
        truth = mapped(partial(_labelled, coding), found)
        return cls(samples, truth, facts, coding, groups, are_volumes(samples))

    @classmethod
    def of_folder(
        cls,
        folder: Folder,
        groups: Sequence[Any] | None = None,
        names: Sequence[str] = (),
        progress: Callable[[int, int], None] | None = None,
    ) -> TrainingSet:
        """Return the images and masks of a folder, each read when it is needed.

        Parameters
        ----------
        folder : Folder
            Read with masks.
        groups : n hashables, optional
            By default the files of stacks, if there are any.
        names : sequence of str, optional
            The names of the labels.
        progress : callable (done, total), optional
            Called after every image that is read for the first time.

        Returns
        -------
        TrainingSet
        """
        coding, volumes = folder.known_coding(), folder.reader.volume
        _refuse_void(folder.tallies, coding, folder.reader.empty_void)
        images, masks = folder.lazy()
        samples: Sequence[Sample] = mapped(as_sample, images)
        if progress is not None:
            samples = _counted(samples, progress)
        together = folder.groups if groups is None else groups
        return cls(samples, masks, folder.facts, coding, together, volumes, tuple(names))

    def take(self, places: Sequence[int]) -> TrainingSet:
        """Return some of the images, with their masks and groups."""
        return replace(
            self,
            samples=taken(self.samples, places),
            masks=taken(self.masks, places),
            groups=None if self.groups is None else [self.groups[i] for i in places],
        )


def read_samples(images: Any) -> Sequence[Sample]:
    """Return images, samples or volumes as samples, checked; all faults are reported at once."""
    return _read_pairs(images, None, None)[0]


def read_questions(images: Any, masks: Any) -> tuple[Sequence[Sample], Sequence[Mask]]:
    """Return samples, and masks of 0, 1 and 255 with or without an axis of T questions, checked."""
    return _read_pairs(images, masks, _checked_question)


def _read_pairs(
    images: Any, masks: Any, check: Callable[[Sample, Any, str], Any] | None
) -> tuple[Sequence[Sample], Sequence[Any]]:
    """Return samples and checked masks; sequences that load lazily are read once and stay lazy.

    Without `check` there are no masks.
    """
    given = _listed("images", images)
    truth = [None] * len(given) if check is None else _listed("masks", masks, images)
    if not given:
        raise InputError("images is empty, but at least one is needed. Give a list of images.")
    are_volumes(given)
    if len(truth) != len(given):
        raise InputError(
            f"masks has length {len(truth)}, but there are {len(given)} images. "
            "Give one for each, in the order of the images."
        )
    samples: list[Sample] = []
    checked: list[Any] = []
    wrong: list[str] = []
    for i, (image, mask) in enumerate(zip(given, truth)):
        try:
            sample = _checked_sample(image)
        except InputError as error:
            wrong.append(f"image {i}: {str(error).removeprefix('image: ')}")
            continue
        try:
            one = None if check is None else check(sample, mask, f"masks[{i}]")
        except InputError as error:
            wrong.append(str(error))
            continue
        samples += [sample] if isinstance(given, list) else []
        checked += [one] if isinstance(truth, list) else []
    if wrong:
        raise InputError("\n".join(wrong))
    return (
        samples if isinstance(given, list) else mapped(as_sample, given),
        checked if isinstance(truth, list) else truth,
    )


def _checked_sample(image: Any) -> Sample:
    """Return an image as a sample; refuse seeds that leave nothing free."""
    sample = as_sample(image)
    # Marks of other tools have 0 for no mark.
    if sample.seeds is not None and sample.seeds.min() > FREE:
        raise InputError(
            "seeds mark every pixel, so nothing is left to find. Here 0 marks the background, "
            "and -1 stands where there is no mark: np.where(marks == 0, -1, marks) turns marks "
            "with 0 for none into seeds."
        )
    return sample


def _refuse_void(tallies: Sequence[Tally], coding: Coding, empty_void: bool = False) -> None:
    """Refuse a mask without an annotated pixel; `empty_void`: one of 0 throughout has none."""
    for one in tallies:
        if coding.kind == "threshold":
            void = set(one.values) <= {FREE}
        else:
            void = not sum(label_counts(one, coding)) or (empty_void and one.values == (0,))
        if void:
            found = " or ".join(map(str, one.values))
            raise InputError(
                f"{one.name}: no pixel is annotated (all are {found}). Leave this image out, or "
                "give it a mask with labels."
            )


def _labelled(coding: Coding, mask: Any) -> Mask:
    values = np.asarray(mask)
    labels = coding.labels(values)
    labels[values == FREE] = VOID
    return labels


def coding_of(
    tallies: Sequence[Tally],
    most_labels: int,
    known: Coding | None = None,
    instances: bool | None = None,
) -> tuple[Coding, str]:
    """Return what the values of arrays mean, and a line if they number their objects.

    -1 is void. The rule is that of `cutlearn.images.coding`.
    """
    named = [frozenset(one.values) - {FREE} for one in tallies]
    seen: dict[int, str] = {}
    for i, part in enumerate(named):
        for value in part:
            seen.setdefault(value, f"masks[{i}]")
    if not seen:  # void throughout, which is refused next
        return known or ZERO_ONE, ""
    advice = (
        "Give masks that say it: mask == 1 for one object, with 255 where nothing is known; "
        "labels 0, 1, 2, ... need a model of several labels, labels='unordered'."
    )
    if known is not None:
        advice = "Give masks with the values of the training masks, and -1 where nothing is known."
    stated, line = Stated(n_labels=2 if most_labels == 2 else None, known=known), ""
    if most_labels == 2 if instances is None else instances:
        stated, line = as_numbered(tallies, stated)
        if line and any(FREE in one.values for one in tallies):
            stated = replace(stated, void_value=VOID)
    coding = decide(seen, named, stated, "masks", advice)
    if coding.n_labels > most_labels:
        raise InputError(
            f"masks have {coding.n_labels} labels, but at most {most_labels} are possible. {advice}"
        )
    return coding, line


def _checked_mask(mask: Any, shape: tuple[int, ...], where: str) -> AnyArray:
    """Return a mask of whole numbers, of the shape of its image."""
    found = as_array(where, mask)
    if found.shape != shape:
        raise InputError(_unlike_shapes(where, found, shape))
    whole = found.dtype.kind in "biu" or (
        found.dtype.kind == "f" and bool((np.isfinite(found) & (found == np.rint(found))).all())
    )
    if not whole or not found.size:
        raise InputError(
            f"{where} holds values of type {found.dtype} that are no labels, but whole numbers are "
            "needed. Cut probabilities first: mask > 0.5."
        )
    return found


def _checked_question(sample: Sample, mask: Any, where: str) -> Mask:
    """Return a mask of 0, 1 and 255; it may have an axis of several questions."""
    found = as_array(where, mask)
    shape = sample.shape
    if found.shape != shape and (found.shape[:-1] != shape or found.shape[-1] == 0):
        raise InputError(_unlike_shapes(where, found, shape))
    values = np.unique(found)
    if not np.isin(values, (0, 1, VOID)).all():
        raise InputError(
            f"{where} has values {', '.join(map(str, values[:5]))}, but only 0, 1 and 255 (void) "
            "are possible."
        )
    return np.ascontiguousarray(found, np.uint8)


def _unlike_shapes(where: str, mask: AnyArray, shape: tuple[int, ...]) -> str:
    return (
        f"{where} has shape {mask.shape}, but its image is {shape}. Give each image a mask of its "
        "own size."
    )


def _counted(samples: Sequence[Sample], progress: Callable[[int, int], None]) -> Loaded[Sample]:
    """Return samples that report when each is read for the first time."""
    seen: set[int] = set()

    def load(k: int) -> Sample:
        sample = samples[k]
        if k not in seen:
            seen.add(k)
            progress(len(seen), len(samples))
        return sample

    return Loaded(len(samples), load, getattr(samples, "origin", None))


def _listed(name: str, given: Any, images: Any = None) -> Sequence[Any]:
    """Return a list of images or masks (of these images); one alone is a list of one.

    A sequence of the user's own, which may load its values lazily, becomes a `Loaded`; volumes are
    all loaded.
    """
    if isinstance(images, Volume) and isinstance(given, np.ndarray):
        return [given]
    if isinstance(given, Sample | Image.Image) or (isinstance(given, np.ndarray) and is_one(given)):
        return [given]
    if isinstance(given, str | bytes) or not hasattr(given, "__len__"):
        raise InputError(
            f"{name} is of type {type(given).__name__}, but must be a list, or a single image as "
            f"an array. Give [{name[:-1]}]."
        )
    if not isinstance(given, Sequence) or isinstance(given, list | tuple) or not given:
        return list(given)
    loaded = given if isinstance(given, Loaded) else Loaded(len(given), given.__getitem__)
    return list(loaded) if isinstance(loaded[0], Volume) else loaded
