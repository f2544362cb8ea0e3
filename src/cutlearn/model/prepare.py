"""Before training: what the user gave, checked; features, computed once and kept.

In: images, masks. Out: samples, uint8 masks and out-of-fold node features. With a folder for
checkpoints the featurizer keeps them there, so that a run that goes on does not compute them again,
and a run on other data is refused.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.checks import as_array, path_of
from cutlearn.errors import InputError
from cutlearn.features.featurizer import Featurizer
from cutlearn.features.problem import VOID
from cutlearn.images.sample import Sample, as_sample

Mask = NDArray[np.uint8]
Told = Callable[[int, int, str], None]


def read_samples(images: Any) -> list[Sample]:
    """Check a list of images or samples; all that is wrong is told at once."""
    given = _listed("images", images)
    if not given:
        raise InputError("images: none found; at least one was wanted. Give a list of images.")
    samples: list[Sample] = []
    wrong: list[str] = []
    for i, image in enumerate(given):
        try:
            samples.append(as_sample(image))
        except InputError as error:
            wrong.append(f"image {i}: {str(error).removeprefix('image: ')}")
    if wrong:
        raise InputError("\n".join(wrong))
    return samples


def read_training(images: Any, masks: Any, most_labels: int = 2) -> tuple[list[Sample], list[Mask]]:
    """Check images and their masks; give samples and uint8 masks of labels and 255."""
    samples = read_samples(images)
    given = _listed("masks", masks)
    if len(given) != len(samples):
        raise InputError(
            f"masks: {len(given)} found for {len(samples)} images; one for each wanted. "
            "Give them in the order of the images."
        )
    truth: list[Mask] = []
    wrong: list[str] = []
    for i, (sample, mask) in enumerate(zip(samples, given)):
        try:
            truth.append(_read_mask(mask, sample.shape, f"mask {i}", most_labels))
        except InputError as error:
            wrong.append(str(error))
    if wrong:
        raise InputError("\n".join(wrong))
    return samples, truth


def _read_mask(mask: Any, shape: tuple[int, int], where: str, most_labels: int) -> Mask:
    found = as_array(where, mask)
    if found.shape != shape:
        raise InputError(
            f"{where}: shape {found.shape} found; the image's {shape} was wanted. "
            "Give each image its own mask."
        )
    values = np.unique(found)
    if found.dtype.kind not in "biuf" or not np.isin(values, [*range(most_labels), VOID]).all():
        few = ", ".join(map(str, values[:5]))
        wanted = "0, 1" if most_labels == 2 else f"0 to {most_labels - 1}"
        raise InputError(
            f"{where}: values {few} found; {wanted} and 255 (void) were wanted. "
            "Map the values of the mask to labels first."
        )
    if (values == VOID).all():
        raise InputError(
            f"{where}: only void (255) found; a labelled pixel was wanted. If 255 means the "
            "object, divide by 255; else leave the image out."
        )
    return np.ascontiguousarray(found, np.uint8)


def _listed(name: str, given: Any) -> list[Any]:
    if isinstance(given, Sample | str | bytes) or not hasattr(given, "__len__"):
        raise InputError(
            f"{name}: {type(given).__name__} found; a list was wanted, also for a single one. "
            f"Give [{name[:-1]}]."
        )
    return list(given)


def checkpoint_folder(path: str | os.PathLike[str] | None) -> Path | None:
    """Give the folder for checkpoints, made when missing."""
    if path is None:
        return None
    folder = path_of("checkpoint", path)
    if folder.exists() and not folder.is_dir():
        raise InputError(
            f"{folder}: a file found; a folder for checkpoints was wanted. Name another."
        )
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
) -> list[NDArray[np.float32]]:
    """Fit the featurizer, or take it from the checkpoint; give out-of-fold node features.

    Returns
    -------
    list of (h * w, F) float32
    """
    if any(sample.extra is not None for sample in samples):
        for i, sample in enumerate(samples):
            _need_extra(sample, i)
    file = None if folder is None else folder / "features.safetensors"
    return featurizer.fit_transform(samples, masks, groups, checkpoint=file, progress=progress)


def _need_extra(sample: Sample, i: int) -> None:
    if sample.extra is None:
        raise InputError(
            f"image {i}: no extra array found, though others have one; one each wanted. "
            "Give extra for all samples, or for none."
        )
