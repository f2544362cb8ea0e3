"""Objects of real image sets, and what a person might have given for each of them.

Read by `scripts/learn_defaults.py`. Sets are folders with images/ and masks/ by the same stem.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import ndimage

from cutlearn.features.guided import (
    View,
    channels,
    lab_planes,
    mixture_odds,
)
from cutlearn.features.mixtures import palette
from cutlearn.images import Sample, read_image, read_values
from cutlearn.images.robot import drawn_box

# Labels of objects (not of stuff) in msrc21; 0 is void there.
MSRC_OBJECTS = (4, 5, 6, 9, 11, 12, 13, 14, 15, 16, 17, 18, 20, 21, 22, 23)
LEARNED = ("voc2010_coseg", "weizmann_horses", "penn_fudan", "msrc21")
CHOSEN_ON = ("bsds_objects", "coopcut16")
# An object of fewer pixels, or of a smaller share of its image, teaches nothing.
FEWEST, LEAST_SHARE, MOST_SHARE = 400, 0.01, 0.85


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


@dataclass
class Given:
    """What a person gave, what the net sees of it, and the truth at the net's size."""

    planes: np.ndarray
    share: np.ndarray
    weight: np.ndarray


def simulated(pixels: Any, colors: Any, truth: np.ndarray, rng: np.random.Generator) -> Given:
    """Draw a box with some room, or none, and a few strokes; give what the net would see."""
    boxed = rng.random() < 0.8
    room = rng.uniform(0, 0.15, 4) * rng.uniform(0, 1)
    box = drawn_box(truth, room) if boxed else None
    seeds = np.full(truth.shape, -1, np.int16)
    fixed = Sample(pixels, box, seeds).fixed()
    labels = np.zeros(truth.shape, np.uint8)
    if boxed:
        odds = mixture_odds(colors, fixed, True)[1]
        labels = ((odds[colors.index] > 0) & (fixed == -1)).astype(np.uint8)
    else:
        seeds = _stroke(truth, truth == 1, seeds, rng)
        seeds = _stroke(truth, truth == 0, seeds, rng)
    for _ in range(int(rng.integers(0, 4)) if not boxed or rng.random() < 0.5 else 0):
        wrong = (labels != truth) & (truth != 255)
        numbers, count = ndimage.label(wrong)
        if count:
            sizes = np.bincount(numbers.ravel())[1:]
            part = numbers == 1 + int(rng.choice(count, p=sizes**2 / (sizes**2).sum()))
            seeds = _stroke(truth, part, seeds, rng)
            labels[part] = truth[part]
    fixed = Sample(pixels, box, seeds).fixed()
    odds = tuple(o[colors.index] for o in mixture_odds(colors, fixed, boxed))
    view = View.of(box, truth.shape, rng.uniform(0.12, 0.3))
    planes = channels(lab_planes(colors), box, seeds, odds, view)
    known = view.small(truth != 255)
    share = view.small(truth == 1) / np.maximum(known, 1e-6)
    return Given(planes.astype(np.float16), share.astype(np.float16), known.astype(np.float16))


def _stroke(
    truth: np.ndarray, part: np.ndarray, seeds: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Mark a disc somewhere in the inner half of a part."""
    if not part.any():
        return seeds
    depth = ndimage.distance_transform_edt(np.pad(part, 1))[1:-1, 1:-1]
    inner = np.flatnonzero(depth.ravel() >= rng.uniform(0.4, 1.0) * depth.max())
    row, column = divmod(int(rng.choice(inner)), truth.shape[1])
    radius = max(1.0, min(depth[row, column] - 1, 0.015 * np.hypot(*truth.shape)))
    y, x = np.ogrid[: truth.shape[0], : truth.shape[1]]
    disc = ((y - row) ** 2 + (x - column) ** 2 <= radius**2) & part
    return np.where(disc, truth, seeds).astype(np.int16)


def lessons(found: list[Object], variants: int, seed: int) -> Iterator[tuple[int, Given]]:
    """Give the number of the object and what was simulated, `variants` times each."""
    for k, one in enumerate(found):
        rng = np.random.default_rng([seed, k])
        pixels = read_image(one.image)
        colors = palette(pixels)
        for _ in range(variants):
            yield k, simulated(pixels, colors, one.truth, rng)
