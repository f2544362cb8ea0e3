"""Images and masks: files in, checked arrays out, and worlds with known answers."""

from typing import TYPE_CHECKING, Any

from cutlearn.images.coding import Coding
from cutlearn.images.folder import Folder, read_folder
from cutlearn.images.read import as_image, read_image, read_values
from cutlearn.images.sample import Sample, Volume, as_sample
from cutlearn.images.training_set import TrainingSet
from cutlearn.images.write import write_mask, write_probability

if TYPE_CHECKING:
    from cutlearn.images.synth import Cells, Checkerboard, Pasture, cells, checkerboard, pasture

__all__ = [
    "Cells",
    "Checkerboard",
    "Coding",
    "Folder",
    "Pasture",
    "Sample",
    "TrainingSet",
    "Volume",
    "as_image",
    "as_sample",
    "cells",
    "checkerboard",
    "pasture",
    "read_folder",
    "read_image",
    "read_values",
    "write_mask",
    "write_probability",
]

# Worlds are made with scipy, which takes longer to import than an image to be cut: they come when
# they are first asked for.
_LATER = ("Cells", "Checkerboard", "Pasture", "cells", "checkerboard", "pasture")


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("cutlearn.images.synth"), name)
