"""A model file of the command line: loaded, and shown images at the size that it was fitted at."""

from typing import Any

from cutlearn.errors import InputError, quoted
from cutlearn.images.read import FloatImage
from cutlearn.images.resize import MOST_SIDE, resize_image, side_shape
from cutlearn.run.workers import thread_count


def load_model(model: str, jobs: int | None) -> Any:
    """Give the estimator of a file, with so many threads."""
    from cutlearn.model.files import load

    estimator = load(model)
    thread_count(jobs)  # refuses 0 before any work
    estimator.n_jobs = jobs
    return estimator


def worked_at(image: FloatImage, estimator: Any, min_side: int | None) -> FloatImage:
    """Give an image at the size that the model was fitted at, or that the caller names."""
    side = min_side if min_side is not None else _side_of(estimator.card_)
    if side is None:
        return image
    return resize_image(image, side_shape((image.shape[0], image.shape[1]), side))


def _side_of(card: dict[str, Any]) -> int | None:
    """The size that a model was fitted at; a file may say anything, so it is checked."""
    side = card.get("min_side")
    if side is not None and (type(side) is not int or not 1 <= side <= MOST_SIDE):
        raise InputError(
            f"model: min_side {quoted(side)} found in its card; a number of pixels from 1 to "
            f"{MOST_SIDE} was wanted. Name it with --min-side, or fit again."
        )
    return side
