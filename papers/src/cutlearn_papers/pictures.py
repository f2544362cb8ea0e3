"""Images and masks of a data set, read at the size of an experiment."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cutlearn.arrays import VOID, Image, Mask
from cutlearn.errors import InputError
from cutlearn.images.read import read_image, read_values
from cutlearn.images.resize import Shape, resize_image, resize_labels, side_shape


@dataclass(frozen=True, eq=False)
class Pictures:
    """Images, their masks and their names."""

    names: list[str]
    images: list[Image]
    masks: list[Mask]

    def __len__(self) -> int:
        return len(self.images)

    def take(self, index: Iterable[int]) -> "Pictures":
        """Give some of them."""
        chosen = [int(i) for i in index]
        return Pictures(
            [self.names[i] for i in chosen],
            [self.images[i] for i in chosen],
            [self.masks[i] for i in chosen],
        )


def read_pictures(
    folder: Path,
    pattern: str = "*",
    side: int | None = None,
    shape: Shape | None = None,
    values: Mapping[int, int] | None = None,
) -> Pictures:
    """Read the images of a data set whose names match, and the masks of the same names.

    Parameters
    ----------
    folder : path of a data set with images/ and masks/
    pattern : str
        For the names of files without their ending.
    side, shape : optional
        The length of the smaller side, or the whole size, that images are brought to.
    values : mapping from values of the masks to labels, optional
        All other values are void.
    """
    files = sorted((folder / "images").glob(f"{pattern}.*"))
    if not files:
        raise InputError(
            f"{folder} has no images {pattern}. Give the folder that holds the data set."
        )
    found = Pictures([], [], [])
    for file in files:
        image = read_image(file)
        given = read_values(folder / "masks" / f"{file.stem}.png")
        mask = given.astype(np.uint8)
        if values is not None:
            mask = np.full(given.shape, VOID, np.uint8)
            for value, label in values.items():
                mask[given == value] = label
        size: Shape = (image.shape[0], image.shape[1])
        to = shape or (size if side is None else side_shape(size, side))
        found.names.append(file.stem)
        found.images.append(image if to == size else resize_image(image, to))
        found.masks.append(mask if to == size else resize_labels(mask, to))
    return found
