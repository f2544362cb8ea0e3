"""The images of yang2014: whole horses, and pedestrians one by one."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import VOID, Mask
from cutlearn.images.read import read_image, read_values

# A crop is so much taller than the person's box, and half as wide as tall.
MARGIN = 1.1


@dataclass(frozen=True)
class Case:
    """An image with its mask; cases of one group stay on one side of a split.

    A mirrored one serves to train only: in a test it says nothing that the other does not.
    """

    image: NDArray[np.float32]
    mask: Mask
    group: str
    mirrored: bool = False


def horses(folder: Path) -> list[Case]:
    """All horses, each a group of its own."""
    return [
        Case(read_image(path), _labels(folder / "masks" / f"{path.stem}.png"), path.stem)
        for path in sorted((folder / "images").iterdir())
    ]


def pedestrians(folder: Path) -> list[Case]:
    """All people, one a crop, and their mirror images; other people in a crop are void."""
    cases = []
    for path in sorted((folder / "images").iterdir()):
        image = read_image(path)
        people = _labels(folder / "instances" / f"{path.stem}.png")
        for number in range(1, int(people.max()) + 1):
            mask = np.where(people == number, 1, np.where(people == 0, 0, VOID)).astype(np.uint8)
            rows, columns = np.nonzero(people == number)
            if rows.size == 0:
                continue
            box = (rows.min(), columns.min(), rows.max() + 1, columns.max() + 1)
            crop, known = _crop(image, mask, box)
            cases.append(Case(crop, known, path.stem))
            cases.append(Case(crop[:, ::-1], known[:, ::-1], path.stem, mirrored=True))
    return cases


def split(cases: list[Case], seed: int) -> tuple[list[Case], list[Case]]:
    """Two thirds of the groups for training, the others for testing."""
    groups = sorted({case.group for case in cases})
    order = np.random.default_rng([seed, 14]).permutation(len(groups))
    train = {groups[k] for k in order[: round(2 * len(groups) / 3)]}
    first = [case for case in cases if case.group in train]
    return first, [case for case in cases if case.group not in train and not case.mirrored]


# Name of a set: its folder, and how it is read.
SETS: dict[str, tuple[str, Callable[[Path], list[Case]]]] = {
    "horses": ("weizmann_horses", horses),
    "pedestrians": ("penn_fudan", pedestrians),
}


def _labels(path: Path) -> Mask:
    return np.asarray(read_values(path), np.uint8)


def _crop(
    image: NDArray[np.float32], mask: Mask, box: tuple[int, int, int, int]
) -> tuple[NDArray[np.float32], Mask]:
    """The box with a margin, half as wide as tall; beyond the image its mirror, labelled void."""
    top, left, bottom, right = box
    height = round(MARGIN * max(bottom - top, 2 * (right - left)))
    width = round(height / 2)
    first_row, first_column = (top + bottom - height) // 2, (left + right - width) // 2
    h, w = mask.shape
    around = (
        (max(0, -first_row), max(0, first_row + height - h)),
        (max(0, -first_column), max(0, first_column + width - w)),
    )
    wide = np.pad(image, (*around, (0, 0)), mode="symmetric")
    known = np.pad(mask, around, constant_values=VOID)
    row, column = first_row + around[0][0], first_column + around[1][0]
    cut = (slice(row, row + height), slice(column, column + width))
    return wide[cut], known[cut]
