"""Images and masks: files in, checked arrays out, and worlds with known answers."""

from cutlearn.images.read import as_image, read_image, read_values
from cutlearn.images.sample import Sample, as_sample

__all__ = ["Sample", "as_image", "as_sample", "read_image", "read_values"]
