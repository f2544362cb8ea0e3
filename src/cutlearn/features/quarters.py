"""One micrograph alone: its quarters are the images that are held out.

Logits are honest only from models that did not see the pixel. One image leaves nothing to hold
out, but a micrograph looks alike in all its parts: sources learn from its quarters as from four
images, and the logits of each, out of fold, are put together again. A photograph cannot be
quartered: where things are in it counts, and how large they are.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cutlearn.features.boosted import Answers
from cutlearn.features.task import Task
from cutlearn.images.resize import Shape

# Rows and columns of a quarter at the least: less shows nothing of what is around a pixel.
SHORTEST = 32


def can_be_quartered(task: Task) -> bool:
    """Whether a task has one image, large enough, of a kind that has no up and no middle."""
    if len(task.shapes) != 1 or task.bank.kind != "microscopy" or task.bank.position:
        return False
    return min(task.shapes[0]) >= 2 * SHORTEST


def quartered(task: Task) -> Task:
    """Give the task with the quarters of its image as four, each a group of its own."""
    parts = quarters(task.shapes[0])
    (image,), (labels,), (extra,) = task.images, task.labels, task.extras
    return replace(
        task,
        images=[np.ascontiguousarray(image[part]) for part in parts],
        labels=[np.ascontiguousarray(labels[part]) for part in parts],
        extras=[None if extra is None else np.ascontiguousarray(extra[part]) for part in parts],
        groups=range(len(parts)),
        shapes=(),
    )


def joined(maps: Sequence[Answers], shape: Shape) -> list[Answers]:
    """Give the logits of quarters, by question and stage, as those of the one image."""
    parts, (first, *_) = quarters(shape), maps
    whole = [[np.empty(shape, stage.dtype) for stage in question] for question in first]
    for part, answers in zip(parts, maps):
        for to, question in zip(whole, answers):
            for plane, stage in zip(to, question):
                plane[part] = stage
    return [whole]


def quarters(shape: Shape) -> list[tuple[slice, slice]]:
    """Give where the quarters of an image lie, row by row."""
    rows, columns = ((slice(0, n // 2), slice(n // 2, n)) for n in shape)
    return [(row, column) for row in rows for column in columns]
