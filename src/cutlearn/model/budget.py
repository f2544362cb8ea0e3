"""Memory, disk and time of a job, estimated before the work starts.

Features are made band by band, so that the cut needs most of the memory. It grows with the pixels
at which an image is processed, with those that it has, and with the images that are processed at
once; the factors were measured (docs/first-contact.md), and lie between those of masks alone and
of masks with probabilities.

Sources of logits estimate their seconds, for the sake of the budget; a fit takes TIME_FACTOR of
them. Training visits every pixel some hundred times. Seconds are those of one core, as measured on
small fits; more threads share them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shutil import disk_usage
from typing import Any, NamedTuple

import numpy as np

from cutlearn.energy.label_space import LabelSpace
from cutlearn.errors import InputError, shown
from cutlearn.features.auto import auto_seconds, checked_budget, usual_net
from cutlearn.features.describe import Bank
from cutlearn.features.featurizer import Featurizer
from cutlearn.features.sources import SOURCES, NoLogits, Task
from cutlearn.features.trees import default_recipe
from cutlearn.images.resize import Shape
from cutlearn.model.size import worked_shape
from cutlearn.run.process import free_bytes

# Pixels up to which there is one cut, and of a strip above.
WHOLE, STRIP = 1 << 24, 1 << 23
# Bytes a pixel: of an image at the size at which it is worked, of the same at its own size, and of
# every image that a fit keeps.
WORKED, GIVEN, KEPT = 200, 28, 150
# Bytes a pixel on disk, of an image that a fit does not keep in memory: its colours, and at most
# some 27 columns.
ON_DISK = 120
# Bytes a pixel of an image that is cut in strips: labels and what a tile takes; unaries, and what
# probabilities take besides, are as many for each label (two have one unary).
PASSED, UNARY, PROBABLE = 4, 8, 24
# Pixels up to which there is one cut whatever it takes: images are worked at so many by default.
ALWAYS = 1 << 21
# What the rest of the program takes.
BASE = 150 * 2**20
# The part of the free memory that may be used.
ROOM = 0.9
# What features take of what sources estimate, and seconds of the columns of a pixel besides logits.
TIME_FACTOR, COLUMNS = 0.85, 1e-6
# Seconds of one training for each pixel: with logits there are few columns, filters are many. Of
# several labels every move is a cut; more of them have fewer weights each, and take about as long.
TRAINING = {True: 1.2e-6, False: 2.2e-6}
SEVERAL = 9.0
# Ordered labels are one cut with so much work for each threshold, as of two labels.
ORDERED = 1.3
# Seconds of the rest of each phase.
REST = 0.5


def fits(shapes: Sequence[Shape], min_side: int | str | None, free: int | None = None) -> bool:
    """Return whether a fit can keep what it needs of images of these shapes in memory."""
    room = free_bytes() if free is None else free
    return room is None or needed_bytes(shapes, min_side, 1, True) <= ROOM * room


def disk_bytes(shapes: Sequence[Shape], min_side: int | str | None) -> int:
    """Estimate the disk that a fit takes whose images and features are kept there."""
    return ON_DISK * sum(_pixels(shape, min_side) for shape in shapes)


def check_disk(shapes: Sequence[Shape], min_side: int | str | None, folder: Path) -> None:
    """Refuse images whose features have no room on the disk of a folder."""
    need, room = disk_bytes(shapes, min_side), disk_usage(folder).free
    if need > ROOM * room:
        raise InputError(
            f"images: their features do not fit in memory, and need about {_gigabytes(need)} GB "
            f"of disk in {shown(folder)}, where {_free(need, room)}. Work at a "
            "smaller size with min_side, with fewer images, or with a checkpoint on a larger disk."
        )


def disk_message(shapes: Sequence[Shape], min_side: int | str | None) -> str:
    """Return the message that features are kept on disk, and why."""
    need, room = needed_bytes(shapes, min_side, 1, True), free_bytes() or 0
    return (
        f"images: {len(shapes)} of them would take about {_gigabytes(need)} GB of memory, but "
        f"{_free(need, room)}: they and their features are kept on disk, about "
        f"{_gigabytes(disk_bytes(shapes, min_side))} GB, until the fit is done"
    )


def _gigabytes(count: int) -> str:
    return f"{count / 2**30:.1f}"


def _free(need: int, room: int) -> str:
    """Return what is free, and where it looks enough, why it is not."""
    enough = float(_gigabytes(need)) <= float(_gigabytes(room))
    return f"{_gigabytes(room)} GB are free{', a tenth of which must stay so' if enough else ''}"


class Load(NamedTuple):
    """What a pixel takes: bytes while it is processed, and labels that it may have.

    More than two labels take more, so that fewer pixels are cut at once: of three ordered ones 751
    bytes were measured, of five 3044, of three unordered ones 372.

    Examples
    --------
    >>> from cutlearn.energy.label_space import labels_of
    >>> Load.of(labels_of("ordered", 3))
    Load(bytes=930, labels=3)
    """

    bytes: int = WORKED
    labels: int = 2

    @staticmethod
    def of(labels: LabelSpace) -> Load:
        """Return the load of a label space."""
        L = labels.count
        if L == 2:
            return Load()
        return Load(155 * L * (L - 1) if labels.name == "ordered" else 125 * L, L)

    @property
    def whole(self) -> int:
        """Pixels up to which there is one cut."""
        return max(min(WHOLE, ALWAYS), WHOLE * WORKED // self.bytes)

    @property
    def strip(self) -> int:
        """Pixels of a strip above."""
        return STRIP * WORKED // self.bytes


def worked_bytes(pixels: int, load: Load | None = None) -> int:
    """Estimate the memory for the mask of one image besides the image; a large one is in strips.

    Examples
    --------
    >>> from cutlearn.model.budget import worked_bytes
    >>> worked_bytes(10**6) // 10**6, worked_bytes(10**8) // 10**6
    (200, 3297)
    """
    one = load or Load()
    if pixels <= one.whole:
        return one.bytes * pixels
    # The energy of the strip before stays until its seam is known; tables make it large.
    unaries, more = (1, one.strip // 4) if one.labels == 2 else (one.labels, one.strip)
    return (PASSED + UNARY * unaries) * pixels + one.bytes * (one.strip + more)


def refuse_beyond(
    pixels: int, free: int | None = None, probabilities: bool = False, load: Load | None = None
) -> None:
    """Refuse an image whose mask, or probabilities, need more memory than is free."""
    one = load or Load()
    room, need = free_bytes() if free is None else free, worked_bytes(pixels, one)
    if probabilities and pixels > one.whole:
        need += PROBABLE * one.labels * pixels
    if room is not None and need > ROOM * room:
        raise InputError(
            f"images: about {_gigabytes(need)} GB of memory are needed for {pixels / 1e6:.0f} "
            f"million pixels, but {_free(need, room)}. Work at a smaller size with min_side, or in "
            "parts."
        )


def needed_bytes(
    shapes: Sequence[Shape],
    min_side: int | str | None,
    at_once: int,
    keeps: bool = False,
    depths: Sequence[int] | None = None,
    load: Load | None = None,
) -> int:
    """Estimate the memory for images of these shapes, so many of them worked at once.

    `keeps`: something of all images is kept, as a fit does. `depths`: slices of volumes. `load`:
    what a pixel takes, by default with two labels.
    """
    slices = [1] * len(shapes) if depths is None else depths
    pixels = [d * _pixels(shape, min_side) for d, shape in zip(slices, shapes)]
    every = zip(pixels, slices, shapes)
    each = [worked_bytes(k, load) + GIVEN * d * h * w for k, d, (h, w) in every]
    kept = KEPT * sum(pixels) if keeps else 0
    return BASE + sum(sorted(each, reverse=True)[:at_once]) + kept


def images_at_once(
    shapes: Sequence[Shape],
    min_side: int | str | None,
    threads: int,
    keeps: bool = False,
    free: int | None = None,
    depths: Sequence[int] | None = None,
    load: Load | None = None,
) -> int:
    """Return how many images can be processed at once, at most one per thread.

    Examples
    --------
    >>> from cutlearn.model.budget import images_at_once
    >>> images_at_once([(1000, 1000)] * 9, None, 4, free=2**30)
    3
    """
    room = free_bytes() if free is None else free
    if room is None:
        return threads
    for count in range(min(threads, len(shapes)), 0, -1):
        if needed_bytes(shapes, min_side, count, keeps, depths, load) <= ROOM * room:
            return count
    need = needed_bytes(shapes, min_side, 1, keeps, depths, load)
    large = max(shapes, key=lambda shape: shape[0] * shape[1])
    worked = worked_shape(large, min_side)
    side = max(16, int(min(worked) * (ROOM * room / need) ** 0.5 * 0.9))
    what, fewer = "images", "images"
    if depths is not None and max(depths) > 1:
        what, fewer = f"{sum(depths)} slices", "annotated slices" if keeps else "slices"
    raise InputError(
        f"images: about {_gigabytes(need)} GB of memory are needed for {what} of up to "
        f"{worked[1]} x {worked[0]} pixels, but {_free(need, room)}. Work at a "
        f"smaller size with min_side={side}, or with fewer {fewer}."
    )


def _pixels(shape: Shape, min_side: int | str | None) -> int:
    rows, columns = worked_shape(shape, min_side)
    return rows * columns


def phases_of(
    featurizer: Featurizer,
    shapes: Sequence[Shape],
    color: bool,
    labels: LabelSpace,
    trainings: int,
    threads: int,
) -> dict[str, float]:
    """Return the seconds of the features and of all trainings.

    Parameters
    ----------
    shapes : rows and columns at which the images are worked
    color : bool
        Whether any image has colour.
    trainings : int
        How often the fit trains.
    """
    questions = labels.questions(np.zeros((1, 1), np.uint8)).shape[-1]
    task = _task(featurizer, shapes, color, questions)
    mode = featurizer.settings()["features"]
    if mode == "auto":
        estimated = auto_seconds(task, checked_budget(featurizer.budget))
    else:
        estimated = SOURCES.get(mode, NoLogits).seconds(task)
    pixels = float(sum(rows * columns for rows, columns in shapes))
    features = TIME_FACTOR * estimated + COLUMNS * pixels
    work = ORDERED * (labels.count - 1) if labels.count > 2 else 1.0
    each = TRAINING[estimated > 0] * (work if labels.exact else SEVERAL)
    return {
        "features": (REST + features) / threads,
        "training": (REST + trainings * each * pixels) / threads,
    }


def _task(featurizer: Featurizer, shapes: Sequence[Shape], color: bool, questions: int) -> Task:
    """Return a task of images with a size and a colour, and nothing else: they take no memory."""
    pixel = np.array([0, 1, 0] if color else [0, 0, 0], np.float32)
    images = [np.broadcast_to(pixel, (*shape, 3)) for shape in shapes]
    labels = [np.broadcast_to(np.uint8(0), (*shape, questions)) for shape in shapes]
    bank = Bank.choose(images, featurizer.kind, featurizer.position)
    none: list[Any] = [None] * len(shapes)
    net = featurizer.net or usual_net(featurizer.settings()["features"])
    return Task(
        images, labels, none, range(len(shapes)), bank,
        featurizer.recipe or default_recipe(bank, questions), net, backbone=featurizer.network(),
    )  # fmt: skip
