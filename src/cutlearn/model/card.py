"""What a model tells of itself: on what it was trained, by which versions, how it was judged.

What only a person can know (intended use, where the images came from, known failures) is left as
a blank that says so.
"""

import platform
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLANK = "[to be written by a person]"
PARTS = ("numpy", "scipy", "scikit-learn", "scikit-image")


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
