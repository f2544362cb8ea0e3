"""Images and masks: files in, checked arrays out, and worlds with known answers."""

from cutlearn.images.coding import Coding
from cutlearn.images.folder import Folder, read_folder
from cutlearn.images.read import as_image, read_image, read_values
from cutlearn.images.sample import Sample, as_sample
from cutlearn.images.synth import Cells, Checkerboard, Pasture, cells, checkerboard, pasture
from cutlearn.images.volume import Volume
from cutlearn.images.write import write_mask, write_probability

__all__ = [
    "Cells",
    "Checkerboard",
    "Coding",
    "Folder",
    "Pasture",
    "Sample",
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
