"""Before training: what the user gave, checked; features, computed once and kept.

In: images, masks. Out: samples, uint8 masks and out-of-fold node features. With a folder for
checkpoints the featurizer keeps them there, so that a run that goes on does not compute them again,
and a run on other data is refused.
"""

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cutlearn.arrays import VOID, Mask
from cutlearn.checks import as_array, path_of
from cutlearn.errors import InputError, InputWarning
from cutlearn.features.featurizer import Featurizer
from cutlearn.images.coding import (
    ZERO_ONE,
    Coding,
    Stated,
    Tally,
    as_numbered,
    decide,
    doubts,
    tally,
)
from cutlearn.images.sample import FREE, Sample, Volume, are_volumes, as_sample
from cutlearn.loaded import Loaded, mapped

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
    images: Any,
    masks: Any,
    most_labels: int = 2,
    known: Coding | None = None,
    instances: bool | None = None,
) -> tuple[Sequence[Sample], Sequence[Mask], Coding]:
    """Check images and masks; return samples, uint8 masks of labels and 255, and their coding.

    Parameters
    ----------
    images, masks : lists of the same length
        Or sequences that are loaded one by one, which then is what this returns.
    most_labels : int
        Labels that there may be.
    known : Coding, optional
        How a fitted model reads masks (`known_coding`); by default their values decide.
    instances : bool, optional
        Whether masks that number their objects have one label for all; by default if there may be
        two labels only.
    """
    samples = read_samples(images)
    given = _listed("masks", masks, images)
    if len(given) != len(samples):
        raise InputError(
            f"masks has length {len(given)}, but there are {len(samples)} images. "
            "Give one for each, in the order of the images."
        )
    wrong: list[str] = []
    tallies: list[Tally] = []
    for i, (sample, mask) in enumerate(zip(samples, given)):
        try:
            tallies.append(tally(f"masks[{i}]", _read_mask(mask, sample.shape, f"masks[{i}]")))
        except InputError as error:
            wrong.append(str(error))
    if wrong:
        raise InputError("\n".join(wrong))
    coding, line = coding_of(tallies, most_labels, known, instances)
    if told := line or coding.told():
        warnings.warn(f"masks: {told}.", InputWarning, stacklevel=4)
    for doubt, _ in doubts(tallies, coding) if known is None else []:
        advice = "If such pixels are not annotated, set them to 255"
        warnings.warn(f"masks: {doubt}. {advice}.", InputWarning, stacklevel=4)
    truth = mapped(partial(_labelled, coding), given)
    for i, labels in enumerate(truth):
        if (labels == VOID).all():
            found = _few(tallies[i].values)
            raise InputError(
                f"masks[{i}]: no pixel is annotated (all are {found}). Leave this image out, or "
                "give it a mask with labels."
            )
    return samples, truth, coding


def _few(values: Iterable[int]) -> str:
    return " or ".join(map(str, sorted(values)))


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
    """Return what the values of masks mean, and a line if they number their objects.

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


def known_coding(model: Any) -> Coding | None:
    """Return how a fitted model read the masks of its training, as it reads all later ones.

    Files of earlier versions keep the values of the labels, but not which value was void. Where
    they keep 0 and 1 for two labels, masks may have had other values: None, so that the values of
    the masks decide. So it is for files that keep nothing.
    """
    n_labels, training = len(model.classes_), getattr(model, "training_", None)
    if training is None:
        return None if n_labels == 2 else Coding.of_values(range(n_labels))
    coding: Coding | None = training.coding
    if coding is None and training.values != (0, 1):
        coding = Coding.of_values(training.values)
    return coding


def _read_mask(mask: Any, shape: tuple[int, ...], where: str) -> NDArray[Any]:
    found = as_array(where, mask)
    if found.shape != shape:
        raise InputError(
            f"{where} has shape {found.shape}, but its image is {shape}. Give each image a mask of "
            "its own size."
        )
    whole = found.dtype.kind in "biu" or (found.dtype.kind == "f" and _is_whole(found))
    if not whole or not found.size:
        raise InputError(
            f"{where} holds values of type {found.dtype} that are no labels, but whole numbers are "
            "needed. Cut probabilities first: mask > 0.5."
        )
    return found


def _is_whole(array: NDArray[Any]) -> bool:
    return bool((np.isfinite(array) & (array == np.rint(array))).all())


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
