"""Folds over images: which image is judged by trees that saw which others.

In: images, perhaps groups. Out: a fold number for each image. Slices of one stack and frames of
one film are nearly the same picture; split between folds, they let trees recite instead of
recognise. So pictures that are alike are found and kept together, unless the user gives groups.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cutlearn.errors import InputError
from cutlearn.features.describe import Image, as_grey
from cutlearn.features.filters import reduce

# Thumbnails of neighbouring slices correlate at 0.9 and more, of different photographs below 0.75.
ALIKE = 0.85


def make_folds(
    images: Sequence[Image], groups: Sequence[Any] | None, folds: int, seed: int
) -> npt.NDArray[np.intp]:
    """Fold number of each image; groups stay together, folds differ by one group at most."""
    n = len(images)
    if n < 2:
        raise InputError(
            f"features: {n} image found; boosted features need two or more, to judge each by trees "
            "that did not see it. Annotate another, or use features='linear'."
        )
    if groups is None:
        groups = alike(images)
        if np.bincount(groups).max() > n / 2:
            # One scene throughout: neighbours in the list are all that can be kept together.
            return np.arange(n, dtype=np.intp) * min(folds, n) // n
    if len(groups) != n:
        raise InputError(f"groups: {len(groups)} found; one for each of the {n} images wanted.")
    known = {name: k for k, name in enumerate(dict.fromkeys(groups))}
    if len(known) < 2:
        raise InputError(
            "groups: one group found; boosted features need two or more, to judge each by trees "
            "that did not see it. Give finer groups, or use features='linear'."
        )
    order = np.random.default_rng([seed, 1]).permutation(len(known)) % min(folds, len(known))
    return np.array([order[known[name]] for name in groups], np.intp)


def alike(images: Sequence[Image]) -> list[int]:
    """Group numbers: images of one size whose thumbnails correlate above `ALIKE`, chained."""
    thumbnails = []
    for image in images:
        small = reduce(as_grey(image), max(1, min(image.shape[:2]) // 32)).astype(np.float64)
        small = (small - small.mean()).reshape(-1)
        thumbnails.append(small / max(float(np.linalg.norm(small)), 1e-6))
    group = list(range(len(images)))
    for i, first in enumerate(thumbnails):
        for j in range(i):
            same = images[i].shape[:2] == images[j].shape[:2]
            if same and group[i] != group[j] and float(first @ thumbnails[j]) > ALIKE:
                old, new = max(group[i], group[j]), min(group[i], group[j])
                group = [new if g == old else g for g in group]
    return group
