"""Objects of real image sets, and what a person might have given for each of them.

Read by `scripts/learn_defaults.py`. Sets are folders with images/ and masks/ by the same stem.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import ndimage

from cutlearn.features.mixtures import palette
from cutlearn.images import Sample, read_image, read_values
from cutlearn.images.resize import resize_image, resize_labels
from cutlearn.model.session.guided import View, lab_planes, mixture_odds

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))
from simulated_user import drawn_box

# Labels of objects (not of stuff) in msrc21; 0 is void there.
MSRC_OBJECTS = (4, 5, 6, 9, 11, 12, 13, 14, 15, 16, 17, 18, 20, 21, 22, 23)
LEARNED = ("voc2010_coseg", "weizmann_horses", "penn_fudan", "msrc21")
CHOSEN_ON = ("bsds_objects", "coopcut16")
# An object of fewer pixels, or of a smaller share of its image, teaches nothing.
FEWEST, LEAST_SHARE, MOST_SHARE = 400, 0.01, 0.85
# Pixels of an object at the most, and of a frame: an object with room around it.
LONGEST, FRAME = 200, 256
ROOM = 0.3
# A person draws a box around so many of the objects, and begins with strokes at the others.
BOXED = 0.85
# Steps of a plane that is kept in 8 bits, to a unit.
STEPS = 25


@dataclass(frozen=True)
class Object:
    """An object of an image: its truth is (h, w) of 0, 1 and 255 (void)."""

    source: str
    image: Path
    truth: np.ndarray


def objects(data: Path, names: tuple[str, ...]) -> Iterator[Object]:
    """Give the objects of some sets, in the order of their files."""
    for name in names:
        for path in sorted((data / name / "images").iterdir()):
            for truth in _truths(data / name, path):
                share = (truth == 1).mean()
                enough = (truth == 1).sum() >= FEWEST and LEAST_SHARE <= share <= MOST_SHARE
                if enough:
                    yield Object(name, path, truth)


def _truths(folder: Path, path: Path) -> Iterator[np.ndarray]:
    if folder.name == "penn_fudan":
        values = read_values(folder / "instances" / f"{path.stem}.png")
        yield from ((values == k).astype(np.uint8) for k in range(1, int(values.max()) + 1))
        return
    values = read_values(folder / "masks" / f"{path.stem}.png")
    if folder.name == "msrc21":
        for label in MSRC_OBJECTS:
            for part in _parts(values == label):
                yield np.where(part, 1, np.where(values == 0, 255, 0)).astype(np.uint8)
    elif folder.name == "voc2010_coseg":
        # Several objects of a class: each that stands alone, or one and all.
        found = _parts(values == 1)
        yield from (part.astype(np.uint8) for part in found)
        if len(found) != 1:
            yield (values == 1).astype(np.uint8)
    else:
        yield values.astype(np.uint8)


def _parts(mask: np.ndarray) -> list[np.ndarray]:
    """The connected parts, but for specks, which stay with none."""
    numbers, _ = ndimage.label(mask)
    sizes = np.bincount(numbers.ravel())[1:]
    return [numbers == 1 + k for k in np.flatnonzero(sizes > 0.3 * sizes.max(initial=0))]


@dataclass(frozen=True)
class Lesson:
    """An object in its frame of FRAME x FRAME pixels, and what a person gave first.

    Attributes
    ----------
    lab, odds : (3 and 2, FRAME, FRAME) int8, in STEPS of a unit
    share, known : (FRAME, FRAME) uint8
        Shares of label 1, and of pixels that are not void, in 255ths.
    box : in pixels of the frame, or None
    seeds : (FRAME, FRAME) int16
    """

    lab: np.ndarray
    odds: np.ndarray
    share: np.ndarray
    known: np.ndarray
    box: tuple[int, int, int, int] | None
    seeds: np.ndarray


def lesson(one: Object, rng: np.random.Generator) -> Lesson:
    """Draw a box with some room, or a stroke in the object and one beside it."""
    top, left, bottom, right = drawn_box(one.truth, 0)
    factor = min(1.0, LONGEST / max(bottom - top, right - left))
    shape = tuple(max(1, round(factor * n)) for n in one.truth.shape)
    image, truth = resize_image(read_image(one.image), shape), resize_labels(one.truth, shape)
    colors, seeds = palette(image), np.full(shape, -1, np.int16)
    box = None
    if rng.random() < BOXED:
        box = drawn_box(truth, rng.uniform(0, 0.15, 4) * rng.uniform(0, 1))
    else:
        for label in (0, 1):
            seeds = stroke(truth == label, label, seeds, rng)
    odds = mixture_odds(colors, Sample(image, box, seeds).fixed(), box is not None)
    frame = View.of(box, truth.shape, ROOM)
    lab = [frame.small(plane, FRAME) for plane in lab_planes(colors)]
    known = frame.small(truth != 255, FRAME)
    share = frame.small(truth == 1, FRAME) / np.maximum(known, 1e-6)
    scale = np.array([FRAME / (frame.bottom - frame.top), FRAME / (frame.right - frame.left)] * 2)
    place = np.array([frame.top, frame.left] * 2)
    framed = None if box is None else tuple(np.rint((np.array(box) - place) * scale).astype(int))
    marks = np.full((FRAME, FRAME), -1, np.int16)
    for label in (0, 1):
        marks[frame.small(seeds == label, FRAME) > 0.5] = label
    framed_odds = [frame.small(plane[colors.index], FRAME) for plane in odds]
    return Lesson(
        in_steps(np.stack(lab)), in_steps(np.stack(framed_odds)), in_255ths(share),
        in_255ths(known), framed, marks,
    )  # fmt: skip


def in_steps(planes: np.ndarray) -> np.ndarray:
    """Planes in 8 bits."""
    return np.clip(np.rint(STEPS * planes), -127, 127).astype(np.int8)


def in_255ths(plane: np.ndarray) -> np.ndarray:
    """Shares in 8 bits."""
    return np.rint(255 * np.clip(plane, 0, 1)).astype(np.uint8)


def stroke(
    part: np.ndarray, label: int, seeds: np.ndarray, rng: np.random.Generator, inner: float = 0.4
) -> np.ndarray:
    """Mark a disc somewhere in the inner half of a part, as a robot or a person would."""
    rows, columns = np.nonzero(part)
    if not len(rows):
        return seeds
    around = np.s_[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
    within = part[around]
    depth = ndimage.distance_transform_edt(np.pad(within, 1))[1:-1, 1:-1]
    deep = np.flatnonzero(depth.ravel() >= rng.uniform(inner, 1.0) * depth.max())
    row, column = divmod(int(rng.choice(deep)), within.shape[1])
    radius = max(1.0, min(depth[row, column] - 1, rng.uniform(0.008, 0.02) * np.hypot(*part.shape)))
    y, x = np.ogrid[: within.shape[0], : within.shape[1]]
    found = seeds.copy()
    found[around][((y - row) ** 2 + (x - column) ** 2 <= radius**2) & within] = label
    return found


def lessons(found: list[tuple[int, Object]]) -> Iterator[Lesson]:
    """A lesson of every object; what is drawn depends on its number alone."""
    for k, one in found:
        yield lesson(one, np.random.default_rng([1000 + k, 0]))
