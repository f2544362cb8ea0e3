"""What a model says of the images of a folder, a few images in memory at a time."""

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from cutlearn.errors import InputWarning

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cutlearn.images.folder import Folder
    from cutlearn.images.read import FloatImage


class Answer(NamedTuple):
    """An image, and what a model says of it."""

    image: "FloatImage"
    mask: "NDArray[np.uint8]"
    belief: "NDArray[np.float32] | None" = None
    areas: "NDArray[np.float64] | None" = None


def _told(message: Warning | str, *_: Any, **__: Any) -> None:
    """Say a warning as a note."""
    from cutlearn.app.inputs import remark

    remark(str(message).rstrip("."))


def in_slices(
    name: str, one: Answer, truth: "NDArray[np.uint8]"
) -> "Iterator[tuple[str, Answer, NDArray[np.uint8]]]":
    """Give the slices of a volume with their names, answers and true masks; an image as it is."""
    if one.mask.ndim == 2:
        yield name, one, truth
        return
    for z in range(len(one.mask)):
        belief = None if one.belief is None else one.belief[z]
        yield f"{name}, slice {z + 1}", Answer(one.image[z], one.mask[z], belief), truth[z]


def answers(
    estimator: Any,
    folder: "Folder",
    probability: bool,
    level: float | None = None,
    at_once: int = 1,
    decision: str = "map",
) -> Iterator[Answer]:
    """Give masks and, if asked for, probabilities and areas of all images.

    So many images are in memory at once, so that a folder can be of any length.
    """
    for first in range(0, len(folder), at_once):
        images = [folder.image(i) for i in range(first, min(first + at_once, len(folder)))]
        with warnings.catch_warnings():
            # What differs from the training images is told once for the whole folder.
            warnings.simplefilter("ignore", InputWarning)
            warnings.showwarning = _told
            if probability:
                parts = estimator.segment(images, level, decision)
            else:
                parts = [(mask,) for mask in estimator.predict(images, decision)]
        seen = (getattr(image, "image", image) for image in images)  # of a sample its image
        yield from (Answer(image, *part) for image, part in zip(seen, parts))
