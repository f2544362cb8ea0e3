"""Losses as a model file keeps them: plain values, from which the same loss is made again.

What belongs to the training images (weights of pixels, regions) is as large as they are, and a
function cannot be written down: such a loss is kept as its description, which serves for everything
but another fit.
"""

import inspect
from typing import Any, NoReturn

import numpy as np

from cutlearn.arrays import Bits, Mask
from cutlearn.errors import InputError
from cutlearn.learn.loss import BoundLoss, Loss, LossSum
from cutlearn.learn.losses import NAMED, Absolute, Count, Hamming, LabelCount

BUILT_IN: dict[str, type[Loss]] = {
    kind.__name__: kind for kind in (Hamming, Absolute, Count, LabelCount)
}
# Parameters that hold something for each training image.
FOR_EACH_IMAGE = {"pixel_weights", "weights", "regions"}
SUM = "sum"
# A file may say anything: no more parts, labels and characters than these.
MOST_PARTS, MOST_LABELS, MOST_CHARACTERS = 64, 255, 500

Plain = str | dict[str, Any]


class Described(Loss):
    """A loss of which only the description is known.

    Parameters
    ----------
    description : str
    """

    def __init__(self, description: str) -> None:
        self.description = description

    def __repr__(self) -> str:
        return self.description

    def bind(self, image: int, labels: Mask, counted: Bits, n_labels: int) -> BoundLoss:
        """Refuse: there is nothing to bind."""
        self.refuse()

    def refuse(self) -> NoReturn:
        """Say what to do about another fit."""
        raise InputError(
            f"The 'loss' parameter must be a Loss that is known. Got the description "
            f"{self.description} from a model file instead, which keeps no weights of training "
            "images and no functions. Give the loss again: set_params(loss=...)."
        )


def plain_of(loss: str | Loss) -> Plain:
    """Give what a model file keeps of a loss, as JSON can hold it.

    Examples
    --------
    >>> from cutlearn.learn.loss_files import plain_of
    >>> from cutlearn.learn.losses import Count, Hamming
    >>> plain_of(Hamming())
    {'loss': 'Hamming'}
    >>> plain_of(2 * Count(side="over"))["parts"]
    [[2.0, {'loss': 'Count', 'side': 'over', 'tolerance': 0}]]
    """
    if isinstance(loss, str):
        return loss
    parts = loss.parts if isinstance(loss, LossSum) else ((1.0, loss),)
    plain = [_single(part) for _, part in parts]
    if None in plain:
        return repr(loss)[:MOST_CHARACTERS]
    if isinstance(loss, LossSum):
        return {"loss": SUM, "parts": [[float(f), one] for (f, _), one in zip(parts, plain)]}
    return dict(plain[0] or {})


def _single(loss: Loss) -> dict[str, Any] | None:
    """The parameters of a built-in loss; None if they cannot be kept."""
    name = type(loss).__name__
    if BUILT_IN.get(name) is not type(loss):
        return None
    given = {p: getattr(loss, p) for p in inspect.signature(type(loss)).parameters}
    given = {p: value for p, value in given.items() if value is not None}
    if given.keys() & FOR_EACH_IMAGE:
        return None
    return {"loss": name, **{p: np.asarray(value).tolist() for p, value in given.items()}}


def loss_from_plain(plain: Any) -> str | Loss:
    """Make the loss of a model file; what cannot be one raises ValueError, TypeError or KeyError.

    Examples
    --------
    >>> from cutlearn.learn.loss_files import loss_from_plain
    >>> loss_from_plain({"loss": "Hamming", "label_weights": [1, 2]})
    Hamming([1, 2], None)
    """
    if isinstance(plain, str):
        if len(plain) > MOST_CHARACTERS:
            raise ValueError("a loss of too many words")
        return plain if plain in NAMED else Described(plain)
    if plain["loss"] != SUM:
        return _made(plain)
    parts = plain["parts"]
    if not 1 <= len(parts) <= MOST_PARTS:
        raise ValueError(f"a loss of {len(parts)} parts")
    if any(type(factor) not in (int, float) or not 0 <= factor < np.inf for factor, _ in parts):
        raise ValueError("a loss with factors that cannot be")
    return LossSum(tuple((float(factor), _made(part)) for factor, part in parts))


def _made(plain: dict[str, Any]) -> Loss:
    given = {name: value for name, value in plain.items() if name != "loss"}
    if given.keys() & FOR_EACH_IMAGE:
        raise ValueError("a loss with arrays")
    for value in given.values():
        listed = value if isinstance(value, list) else [value]
        if len(listed) > MOST_LABELS:
            raise ValueError(f"a loss with {len(listed)} values")
    labels = given.get("labels", [])
    if not all(type(k) is int and 0 <= k < MOST_LABELS for k in labels):
        raise ValueError("a loss of labels that cannot be")
    return BUILT_IN[plain["loss"]](**given)
