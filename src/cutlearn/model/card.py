"""The card of a model: on what it was trained, by which versions, how well it scored.

What only the user knows (intended use, source of the images, known failures, licence) is a blank,
which `written` leaves out of what is printed.
"""

import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.errors import InputError, quoted

BLANK = "[to be written by a person]"
PARTS = ("numpy", "scipy", "scikit-learn", "scikit-image")
# What a card may hold: enough for a person's words, too little to fill memory or a terminal.
MOST_VALUES, MOST_DEPTH, MOST_TEXT = 10_000, 8, 20_000


@dataclass(frozen=True)
class Summary:
    """What a fitted model says of its training, in plain values.

    Parameters
    ----------
    fitted : figures of the fit by name
    weights : numbers by name
        The weights, or a figure of each part of them.
    n_weights : int
    curve : one dict a step of training
    ending : str
        How the training ended, in a few words.
    converged : bool
    """

    fitted: Mapping[str, Any]
    weights: Mapping[str, float]
    n_weights: int
    curve: Sequence[Mapping[str, Any]]
    ending: str
    converged: bool = True


def card_of(model: Any, masks: Sequence[NDArray[np.uint8]]) -> dict[str, Any]:
    """Give the card of a model that was just fitted; plain values, as JSON can hold them."""
    pixels = int(sum(m.size for m in masks))
    counts = np.sum([np.bincount(m.ravel(), minlength=256) for m in masks], axis=0)
    known = max(pixels - int(counts[255]), 1)
    shapes = np.array([m.shape for m in masks])
    return {
        "data": {
            "images": len(masks),
            "pixels": pixels,
            "share_of_labels": [int(counts[k]) / known for k in model.classes_],
            "share_of_void": int(counts[255]) / pixels,
            "smallest": [int(v) for v in shapes.min(axis=0)],
            "largest": [int(v) for v in shapes.max(axis=0)],
        },
        "versions": {
            "cutlearn": version("cutlearn"),
            "python": platform.python_version(),
            **{part: version(part) for part in PARTS},
        },
        "metrics": model.judged_,
        "intended_use": BLANK,
        "source_of_the_images": BLANK,
        "known_failures": BLANK,
        "licence": BLANK,
    }


def written(card: Mapping[str, Any]) -> dict[str, Any]:
    """Return a card without its blanks."""
    return {name: written(value) if isinstance(value, Mapping) else value
            for name, value in card.items() if value != BLANK}  # fmt: skip


def check_card(card: Any) -> None:
    """Refuse a card that cannot be shown: not plain values, or too many, too long or too deep."""
    if not isinstance(card, dict):
        raise InputError("card: this is not a table of names and values. Give a dict.")
    room = [MOST_VALUES]
    _check(card, 0, room)


def _check(value: Any, depth: int, room: list[int]) -> None:
    room[0] -= 1
    if depth > MOST_DEPTH or room[0] < 0:
        raise InputError(
            f"card: it has more than {MOST_VALUES} values, or tables more than {MOST_DEPTH} deep. "
            "Keep it short."
        )
    if isinstance(value, dict | list | tuple):
        for name in value if isinstance(value, dict) else ():
            _check_plain(name if isinstance(name, str) else None)
        for part in value.values() if isinstance(value, dict) else value:
            _check(part, depth + 1, room)
    elif value is not None:
        _check_plain(value)


def _check_plain(value: Any) -> None:
    whole = isinstance(value, int) and abs(value) < 2**63
    text = isinstance(value, str) and len(value) <= MOST_TEXT
    if not (whole or text or (isinstance(value, float) and math.isfinite(value))):
        raise InputError(
            f"card: {quoted(value)} cannot be kept. Give text of at most {MOST_TEXT} characters, "
            "finite numbers, or tables and lists of these."
        )
