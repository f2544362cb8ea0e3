"""What a model says of the images of a folder, a few images in memory at a time."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

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


def answers(
    estimator: Any, folder: "Folder", probability: bool, level: float | None = None
) -> Iterator[Answer]:
    """Give masks and, if asked for, probabilities and areas of all images.

    One image a thread is in memory, so that a folder can be of any length.
    """
    from cutlearn.run.workers import thread_count

    threads = thread_count(-1 if estimator.n_jobs is None else estimator.n_jobs)
    for first in range(0, len(folder), threads):
        images = [folder.image(i) for i in range(first, min(first + threads, len(folder)))]
        if probability:
            parts = estimator.answer(images, level)
        else:
            parts = [(mask,) for mask in estimator.predict(images)]
        seen = (getattr(image, "image", image) for image in images)  # of a sample its image
        yield from (Answer(image, *part) for image, part in zip(seen, parts))
