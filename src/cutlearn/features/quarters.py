"""One group of images, or one alone: their quarters are what is held out.

Logits are honest only from models that did not see the pixel. A single group, be it an image or the
slices around the only one that is annotated, leaves nothing else to hold out. So sources learn from
quarters as from images, each quarter a group, and the logits of all four, out of fold, are put
together again. Micrographs look alike in all their parts; a photograph does not, and one of them
teaches little, but still more than a line through its colours
(docs/decisions/0053-one-image-alone.md).
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from cutlearn.features.boosted import Answers
from cutlearn.features.task import Task
from cutlearn.images.resize import Shape
from cutlearn.loaded import mapped, taken

# Rows and columns of a quarter at the least: less shows nothing of what is around a pixel.
SHORTEST = 32
QUARTERS = range(4)


def can_be_quartered(task: Task) -> bool:
    """Whether a task has one group, of images that are large and whose place does not count."""
    if len(set(task.groups)) > 1 or task.bank.position:
        return False
    return min(min(shape) for shape in task.shapes) >= 2 * SHORTEST


def quartered(task: Task) -> Task:
    """Give the task with the four quarters of every image as images, each quarter a group."""
    places = [(i, k) for i in range(len(task.shapes)) for k in QUARTERS]
    parts = [quarters(task.shapes[i])[k] for i, k in places]

    def cut(values: Sequence[Any]) -> Sequence[Any]:
        return mapped(_part, taken(values, [i for i, _ in places]), parts)

    images, labels, extras = (cut(one) for one in (task.images, task.labels, task.extras))
    groups = [k for _, k in places]
    return replace(task, images=images, labels=labels, extras=extras, groups=groups, shapes=())


def joined(maps: Sequence[Answers], shapes: Sequence[Shape]) -> Sequence[Answers]:
    """Give the logits of quarters, by question and stage, as those of images of these shapes."""
    fours = (taken(maps, range(k, len(maps), len(QUARTERS))) for k in QUARTERS)
    return mapped(_whole, shapes, *fours)


def quarters(shape: Shape) -> list[tuple[slice, slice]]:
    """Give where the quarters of an image lie, row by row."""
    rows, columns = ((slice(0, n // 2), slice(n // 2, n)) for n in shape)
    return list(product(rows, columns))


def _part(whole: Any, part: tuple[slice, slice]) -> Any:
    return None if whole is None else np.ascontiguousarray(whole[part])


def _whole(shape: Shape, *four: Answers) -> Answers:
    made = [[np.empty(shape, stage.dtype) for stage in question] for question in four[0]]
    for part, answers in zip(quarters(shape), four):
        for to, question in zip(made, answers):
            for plane, stage in zip(to, question):
                plane[part] = stage
    return made
