"""Held-out images: which of them belong together, and which are set aside together.

In: images, perhaps groups. Out: a group number for each image, found once and used for out-of-fold
features, for the choice of C and bias, and for calibration alike. Slices of one stack and frames of
one film are nearly the same picture; split between folds, they let a model recite instead of
recognise. So pictures that are alike are found and kept together, unless the user gives groups.
"""

from collections.abc import Hashable, Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from cutlearn.arrays import Float32, Image
from cutlearn.checks import listed
from cutlearn.errors import InputError
from cutlearn.features.describe import as_grey
from cutlearn.features.filters import reduce
from cutlearn.images.resize import Shape
from cutlearn.loaded import mapped, taken

# Thumbnails of neighbouring slices correlate at 0.9 and more, of different photographs below 0.75.
ALIKE = 0.85
# One scene throughout is cut into so many blocks of neighbours in the list.
BLOCKS = 5
# Parts of the images that are held out in turn, to choose C and to calibrate.
PARTS = 2
# Rows and columns of a quarter at the least: less shows nothing of what is around a pixel.
SHORTEST = 32
# Logits by question, then by stage.
Answers = list[list[Float32]]


def find_groups(images: Sequence[Image], groups: Sequence[Any] | None = None) -> list[int]:
    """Return group numbers of the images, from 0 in the order of their first image.

    Parameters
    ----------
    images : n images, (h, w) or (h, w, 3) float32
    groups : n hashables, optional
        None: pictures that are nearly the same make a group. If more than half of all pictures do,
        they are one scene, and neighbours in the list are all that can be kept together.

    Examples
    --------
    >>> import numpy as np
    >>> from cutlearn.features.folds import (find_groups)
    >>> find_groups([np.zeros((4, 4), np.float32)] * 3, ["left eye", "right eye", "left eye"])
    [0, 1, 0]
    """
    n = len(images)
    names = alike(images) if groups is None else listed("groups", groups)
    if not all(isinstance(name, Hashable) for name in names):
        raise InputError("groups must hold a word or number for each image, not lists or arrays.")
    if len(names) != n:
        raise InputError(
            f"groups has {len(names)} entries, but there are {n} images. Give one for each image, "
            "in the same order."
        )
    if groups is None and np.bincount(names).max() > n / 2:
        names = blocks(n)
    return _numbers(names)


def blocks(n: int) -> list[int]:
    """Return groups of neighbours for n pictures of one scene, such as the slices of a stack.

    Examples
    --------
    >>> blocks(7)
    [0, 0, 1, 2, 2, 3, 4]
    """
    return [k * min(BLOCKS, n) // n for k in range(n)]


def make_folds(groups: Sequence[Any], folds: int, seed: int) -> npt.NDArray[np.intp]:
    """Return the fold of each image; groups stay together, folds differ by one group at most."""
    if len(groups) < 2:
        raise InputError(
            "features: there is only one image, but logits are learned from two or more, to judge "
            "each by a model that did not see it; of images of 64 x 64 pixels or more the quarters "
            "are enough, unless position=True. Annotate another, or use features='linear'."
        )
    numbers = _numbers(groups)
    known = max(numbers) + 1
    if known < 2:
        raise InputError(
            "groups: all images are in one group, but logits are learned from two or more, to "
            "judge each by a model that did not see it. Give finer groups, or use "
            "features='linear'."
        )
    order = np.random.default_rng([seed, 1]).permutation(known) % min(folds, known)
    return np.asarray(order[numbers], np.intp)


def held_out_parts(groups: Sequence[Any]) -> list[list[int]]:
    """Return the images to hold out together, every image once; one part if there is one group."""
    numbers = _numbers(groups)
    count = min(PARTS, max(numbers) + 1)
    return [[i for i, g in enumerate(numbers) if g % count == k] for k in range(count)]


def _numbers(names: Sequence[Any]) -> list[int]:
    number = {name: k for k, name in enumerate(dict.fromkeys(names))}
    return [number[name] for name in names]


def alike(images: Sequence[Image]) -> list[int]:
    """Return group numbers: images of one size with thumbnails that correlate above `ALIKE`."""
    thumbnails, shapes = [], []
    for image in images:
        shapes.append(image.shape[:2])
        small = reduce(as_grey(image), max(1, min(image.shape[:2]) // 32)).astype(np.float64)
        small = (small - small.mean()).reshape(-1)
        thumbnails.append(small / max(float(np.linalg.norm(small)), 1e-6))
    group = list(range(len(thumbnails)))
    for i, first in enumerate(thumbnails):
        for j in range(i):
            same = shapes[i] == shapes[j]
            if same and group[i] != group[j] and float(first @ thumbnails[j]) > ALIKE:
                old, new = max(group[i], group[j]), min(group[i], group[j])
                group = [new if g == old else g for g in group]
    return group


# -- one group of images, or one alone: its quarters are held out ------------------------------


def in_quarters(values: Sequence[Any], shapes: Sequence[Shape]) -> Sequence[Any]:
    """Return the four quarters of every array (or None), one after the other.

    Logits are honest only from models that did not see the pixel, and a single group leaves nothing
    else to hold out. Micrographs look alike in all their parts; a photograph does not, and one of
    them teaches little (docs/decisions/0053-one-image-alone.md).
    """
    whose = [i for i in range(len(shapes)) for _ in range(4)]
    places = [place for shape in shapes for place in quarters(shape)]
    return mapped(_part, taken(values, whose), places)


def join_quarters(maps: Sequence[Answers], shapes: Sequence[Shape]) -> Sequence[Answers]:
    """Return the logits of quarters, by question and stage, as those of images of these shapes."""
    return mapped(_whole, shapes, *(taken(maps, range(k, len(maps), 4)) for k in range(4)))


def quarters(shape: Shape) -> list[tuple[slice, slice]]:
    """Return the places of the quarters of an image, row by row."""
    rows, columns = ((slice(0, n // 2), slice(n // 2, n)) for n in shape)
    return list(product(rows, columns))


def quarter_numbers(shape: Shape) -> npt.NDArray[np.int8]:
    """Return the number of the quarter of every pixel."""
    made = np.empty(shape, np.int8)
    for k, place in enumerate(quarters(shape)):
        made[place] = k
    return made


def _part(whole: Any, part: tuple[slice, slice]) -> Any:
    return None if whole is None else np.ascontiguousarray(whole[part])


def _whole(shape: Shape, *four: Answers) -> Answers:
    made = [[np.empty(shape, stage.dtype) for stage in question] for question in four[0]]
    for part, answers in zip(quarters(shape), four):
        for to, question in zip(made, answers):
            for plane, stage in zip(to, question):
                plane[part] = stage
    return made
