"""Before training: what the user gave, checked; features, computed once and kept.

In: images, masks. Out: samples, uint8 masks and out-of-fold node features. With a folder for
checkpoints the featurizer keeps them there, so that a run that goes on does not compute them again,
and a run on other data is refused.
"""

import os
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cutlearn.checks import as_array, path_of
from cutlearn.errors import InputError, InputWarning
from cutlearn.features.featurizer import Featurizer
from cutlearn.features.problem import VOID
from cutlearn.features.volumes import are_volumes
from cutlearn.images.coding import Coding, Stated, decide
from cutlearn.images.sample import FREE, Sample, as_sample
from cutlearn.images.tally import Tally, as_numbered, doubts, tally
from cutlearn.images.volume import Volume
from cutlearn.loaded import Loaded, mapped

Mask = NDArray[np.uint8]
Told = Callable[[int, int, str], None]


def read_samples(images: Any) -> Sequence[Sample]:
    """Check a list of images, samples or volumes; all that is wrong is told at once.

    Those that are loaded one by one are looked at once, and loaded again when they are asked for.
    """
    given = _listed("images", images)
    are_volumes(given)
    if not given:
        raise InputError("images is empty, but at least one is needed. Give a list of images.")
    samples: list[Sample] = []
    wrong: list[str] = []
    for i, image in enumerate(given):
        try:
            sample = as_sample(image)
            _check_seeds(sample)
            if not isinstance(given, Loaded):
                samples.append(sample)
        except InputError as error:
            wrong.append(f"image {i}: {str(error).removeprefix('image: ')}")
    if wrong:
        raise InputError("\n".join(wrong))
    return mapped(as_sample, given) if isinstance(given, Loaded) else samples


def _check_seeds(sample: Sample) -> None:
    """Refuse seeds that settle every pixel: marks of other tools, which have 0 for no mark."""
    if sample.seeds is not None and sample.seeds.min() > FREE:
        raise InputError(
            "seeds mark every pixel, so nothing is left to find. Here 0 marks the background, and "
            "-1 stands where there is no mark: np.where(marks == 0, -1, marks) turns marks with 0 "
            "for none into seeds."
        )


def read_training(
    images: Any, masks: Any, most_labels: int = 2, values: Sequence[int] | None = None
) -> tuple[Sequence[Sample], Sequence[Mask]]:
    """Check images and their masks; give samples and uint8 masks of labels and 255.

    Parameters
    ----------
    images, masks : lists of the same length
        Or sequences that are loaded one by one, which then is what this gives.
    most_labels : int
        Labels that there may be.
    values : sequence of int, optional
        The value of every label, where a model knows them; by default they are found.
    """
    samples = read_samples(images)
    given = _listed("masks", masks, images)
    if len(given) != len(samples):
        raise InputError(
            f"masks has length {len(given)}, but there are {len(samples)} images. "
            "Give one for each, in the order of the images."
        )
    wrong: list[str] = []
    sets: list[frozenset[int]] = []
    tallies: list[Tally] = []
    for i, (sample, mask) in enumerate(zip(samples, given)):
        try:
            sets.append(_values(_read_mask(mask, sample.shape, f"masks[{i}]")))
            tallies.append(tally(f"masks[{i}]", np.asarray(mask)))
        except InputError as error:
            wrong.append(str(error))
    if wrong:
        raise InputError("\n".join(wrong))
    numbered, line = _numbered(tallies, most_labels)
    coding = numbered or coding_of(sets, most_labels, values)
    if told := line or coding.told():
        warnings.warn(f"masks: {told}.", InputWarning, stacklevel=4)
    for doubt, _ in doubts(tallies, coding) if values is None else []:
        advice = "If such pixels are not annotated, set them to 255"
        warnings.warn(f"masks: {doubt}. {advice}.", InputWarning, stacklevel=4)
    truth = mapped(partial(_labelled, coding), given)
    for i, labels in enumerate(truth):
        if (labels == VOID).all():
            raise InputError(
                f"masks[{i}]: no pixel is annotated (all are {coding.void_value}). Leave this "
                "image out, or give it a mask with labels."
            )
    return samples, truth


def _labelled(coding: Coding, mask: Any) -> Mask:
    return coding.labels(_integers(mask))


def _values(mask: NDArray[Any]) -> frozenset[int]:
    return frozenset(int(v) for v in np.unique(mask))


def coding_of(
    sets: Sequence[frozenset[int]], most_labels: int, values: Sequence[int] | None = None
) -> Coding:
    """Give what the values of masks mean, of which each has a set.

    The rule is that of `cutlearn.images.coding`.
    """
    seen: dict[int, str] = {}
    for i, part in enumerate(sets):
        for value in part:
            seen.setdefault(value, f"masks[{i}]")
    advice = (
        "Give masks that say it: mask == 1 for one object, with 255 where nothing is known; "
        "labels 0, 1, 2, ... need a model of several labels, labels='unordered'."
    )
    stated = Stated(n_labels=2 if most_labels == 2 else None, values=values)
    coding = decide(seen, sets, stated, "masks", advice)
    if coding.n_labels > most_labels:
        raise InputError(
            f"masks have {coding.n_labels} labels, but at most {most_labels} are possible. {advice}"
        )
    return coding


def _numbered(tallies: Sequence[Tally], most_labels: int) -> tuple[Coding | None, str]:
    """Return the coding of masks that number their objects, and a warning; None for others.

    Models of several labels take numbers for classes.
    """
    stated, line = as_numbered(tallies, Stated(n_labels=2)) if most_labels == 2 else (Stated(), "")
    void = VOID if any(FREE in one.values for one in tallies) else stated.void_value
    return (Coding("nonzero", None, void) if line else None), line


def values_of(masks: Any, most_labels: int, images: Any = None) -> tuple[int, ...]:
    """Give the value of every label in masks that `read_training` has accepted."""
    given = _listed("masks", masks, images)
    numbered, _ = _numbered([tally("", np.asarray(mask)) for mask in given], most_labels)
    found = numbered or coding_of([_values(_integers(mask)) for mask in given], most_labels)
    return found.values or (0, 1)


def known_values(model: Any) -> tuple[int, ...] | None:
    """Give the values of the labels of a fitted model of several; None where the rule decides."""
    n_labels, training = len(model.classes_), getattr(model, "training_", None)
    if n_labels == 2:
        return None
    return tuple(range(n_labels)) if training is None else tuple(training.values)


def _read_mask(mask: Any, shape: tuple[int, ...], where: str) -> NDArray[Any]:
    found = as_array(where, mask)
    if found.shape != shape:
        raise InputError(
            f"{where} has shape {found.shape}, but its image is {shape}. Give each image a mask of "
            "its own size."
        )
    if found.dtype.kind not in "biuf" or not found.size or (found != np.rint(found)).any():
        raise InputError(
            f"{where} holds values of type {found.dtype} that are no labels, but whole numbers are "
            "needed. Cut probabilities first: mask > 0.5."
        )
    return _integers(found)


def _integers(mask: Any) -> NDArray[Any]:
    """A mask of whole numbers; -1 is void, as 255 is."""
    array = np.asarray(mask)
    whole = array.astype(np.int64) if array.dtype.kind in "if" else array.astype(np.uint16)
    return np.where(whole == -1, VOID, whole)


def _listed(name: str, given: Any, images: Any = None) -> Sequence[Any]:
    """A list of images or masks (of these images); one alone is a list of one.

    A sequence of the user's own, which may load its values when they are asked for, stays one;
    but volumes are all loaded.
    """
    if isinstance(images, Volume) and isinstance(given, np.ndarray):
        return [given]
    if isinstance(given, Sample | Image.Image) or (isinstance(given, np.ndarray) and _one(given)):
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


def _one(array: NDArray[Any]) -> bool:
    """Whether an array is one image or mask, not a stack of them."""
    return array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (1, 3, 4))


def checkpoint_folder(path: str | os.PathLike[str] | None) -> Path | None:
    """Give the folder for checkpoints, made when missing."""
    if path is None:
        return None
    folder = path_of("checkpoint", path)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: this is a file, but checkpoints need a folder. Name another.")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def farewell(folder: Path | None) -> str:
    """Say what a fit leaves that was interrupted outside of a training."""
    if folder is None:
        return "fit: interrupted; nothing is saved. With checkpoint= what is finished is."
    return (
        f"fit: interrupted; what was finished is saved in {folder}. "
        "Run the same call again to go on."
    )


def training_features(
    samples: Sequence[Sample],
    masks: Sequence[Mask],
    featurizer: Featurizer,
    groups: Sequence[Any] | None,
    folder: Path | None,
    progress: Told | None,
    unannotated: Sequence[Sample] = (),
) -> Sequence[NDArray[np.float32]]:
    """Fit the featurizer, or take it from the checkpoint; give out-of-fold node features.

    Returns
    -------
    sequence of (h * w, F) float32
        Loaded one by one if the samples are.
    """
    without = [i for i, sample in enumerate(samples) if sample.extra is None]
    if 0 < len(without) < len(samples):
        raise InputError(
            f"image {without[0]} has no extra array, but others have one. "
            "Give extra for all samples, or for none."
        )
    file = None if folder is None else folder / "features.safetensors"
    return featurizer.fit_transform(
        samples, masks, groups, unannotated=unannotated, checkpoint=file, progress=progress
    )
