"""Predictions of a model for the images of a folder, a few images in memory at a time.

Threads read the images that they work on. The workers of a cluster do so too where they see the
same files, by path and fingerprint; where they do not, images are sent.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from cutlearn.errors import InputError, InputWarning
from cutlearn.run.executor import ONE_THREAD, Executor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cutlearn.arrays import Float32
    from cutlearn.images.folder import Folder
    from cutlearn.images.sample import Sample

# A function of a sample, made by a model.
Question = Callable[["Sample"], Any]


@dataclass(frozen=True, eq=False)
class Prediction:
    """The prediction for an image, which is read again if it was read elsewhere and is needed."""

    read: "Callable[[], Any]"
    mask: "NDArray[np.uint8]"
    belief: "NDArray[np.float32] | None" = None
    areas: "NDArray[np.float64] | None" = None

    @property
    def image(self) -> "Float32":
        """The image."""
        seen = self.read()
        image: Float32 = getattr(seen, "image", seen)  # of a sample its image
        return image


def _told(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning as a note."""
    from cutlearn.app.inputs import remark

    remark(str(message).rstrip("."))


def in_slices(
    name: str, one: Prediction, truth: "NDArray[np.uint8]"
) -> "Iterator[tuple[str, Prediction, NDArray[np.uint8]]]":
    """Yield the slices of a volume with names, predictions and true masks; an image as it is."""
    if one.mask.ndim == 2:
        yield name, one, truth
        return
    for z in range(len(one.mask)):
        belief = None if one.belief is None else one.belief[z]
        slice_z = Prediction(partial(_slice, one.read, z), one.mask[z], belief)
        yield f"{name}, slice {z + 1}", slice_z, truth[z]


def _slice(read: "Callable[[], Any]", z: int) -> "Float32":
    image: Float32 = read().image[z]
    return image


def answers(
    estimator: Any,
    folder: "Folder",
    probability: bool,
    level: float | None = None,
    place: Executor = ONE_THREAD,
    decision: str = "map",
) -> Iterator[Prediction]:
    """Yield masks and, with `probability`, probabilities and areas of all images."""
    one: Question = (
        estimator.segmenting(level, decision) if probability else estimator.masking(decision)
    )
    for read, found in asked_of_all(estimator, folder, one, place):
        parts = found if probability else (found,)
        yield Prediction(read, *parts)


def asked_of_all(
    estimator: Any, folder: "Folder", one: Question, place: Executor = ONE_THREAD
) -> Iterator[tuple[Callable[[], Any], Any]]:
    """Apply one function of the model to every image, in order; a folder can be of any length.

    Yields what reads the image, and the result.
    """
    from cutlearn.images.logits import GivenFolder

    away = place.remote
    work = partial(_answered, estimator._in_one_thread(), folder, one, away)
    unseen = away and isinstance(folder, GivenFolder)  # logits have no fingerprint

    def items() -> "Iterator[tuple[int, Any]]":
        for i in range(len(folder)):
            yield i, folder.image(i) if unseen else None

    with warnings.catch_warnings():
        # Differences from the training images are printed once for the whole folder.
        warnings.simplefilter("ignore", InputWarning)
        warnings.showwarning = _told
        for i, found in enumerate(place.stream(work, items())):
            if found is None:  # a worker does not see the files
                unseen = True
                (found,) = place.map(work, [(i, folder.image(i))], patient=False)
            image, answer, notes = found
            for note in notes:
                _told(note)
            yield partial(folder.image, i) if image is None else partial(_itself, image), answer


def _answered(
    estimator: Any, folder: "Folder", one: Question, away: bool, item: "tuple[int, Any]"
) -> Any:
    """Return the image, the result, and the warnings to print in the process of the command.

    None where the image is not the one that was meant; no image where it would have to travel.
    """
    from cutlearn.images.sample import as_sample

    i, image = item
    if image is None:
        image = _same(folder, i) if away else folder.image(i)
        if image is None:
            return None
    sample = as_sample(image)
    estimator._check_samples([sample])
    if not away:
        return image, one(sample), []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", InputWarning)
        answer = one(sample)
    return None, answer, [str(warning.message) for warning in caught]


def _itself(image: Any) -> Any:
    return image


def _same(folder: "Folder", i: int) -> Any:
    """Return the image of a file of this machine, if it is the one that the command has listed."""
    try:
        image = folder.image(i)
    except (InputError, OSError):
        return None
    same = folder.reader.facts(image).digest == folder.facts[i].digest
    return image if same else None
