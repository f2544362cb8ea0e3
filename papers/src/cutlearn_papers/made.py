"""Small data sets made by a program, in the folders of the real ones: what `--quick` runs on.

Every set has an object that its experiment can learn: blobs brighter than a textured ground, dark
discs for mitochondria, people as upright bars. Nothing is learned from them about real images.
"""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cutlearn.arrays import Mask

COLORS = ((90, 110, 70), (150, 100, 80))


def make_data(folder: Path) -> Path:
    """Write all sets below a folder; give the folder."""
    for name, write in SETS.items():
        write(folder / name)
    return folder


def _blob(rng: np.random.Generator, shape: tuple[int, int], size: float = 0.28) -> Mask:
    """A disc with a wavy border, somewhere near the middle."""
    h, w = shape
    y, x = np.mgrid[:h, :w]
    cy, cx = h * rng.uniform(0.4, 0.6), w * rng.uniform(0.35, 0.65)
    angle = np.arctan2(y - cy, x - cx)
    waves = 1 + 0.15 * np.cos(3 * angle + rng.uniform(0, 6)) + 0.1 * np.cos(5 * angle)
    inside: Mask = (np.hypot(y - cy, x - cx) < size * min(h, w) * waves).astype(np.uint8)
    return inside


def _photograph(rng: np.random.Generator, mask: Mask, noise: float = 25) -> NDArray[np.uint8]:
    """Colours of object and ground, a slope of light, and noise."""
    colors = np.array(COLORS, float) + rng.uniform(-20, 20, (2, 3))
    light = 30 * np.linspace(-1, 1, mask.shape[1])[None, :, None]
    image = colors[np.minimum(mask, 1)] + light + rng.normal(0, noise, (*mask.shape, 3))
    return np.clip(image, 0, 255).astype(np.uint8)


def _save(folder: Path, kind: str, name: str, array: NDArray[np.uint8]) -> None:
    (folder / kind).mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(folder / kind / f"{name}.png")


def _horses(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for k in range(9):
        mask = _blob(rng, (30, 44))
        _save(folder, "images", f"horse{k:03d}", _photograph(rng, mask))
        _save(folder, "masks", f"horse{k:03d}", mask)


def _people(folder: Path) -> None:
    rng = np.random.default_rng(1)
    for k in range(5):
        people = np.zeros((60, 80), np.uint8)
        for number, left in enumerate((8, 48), 1):
            left += int(rng.integers(0, 8))
            people[8:52, left : left + 14] = number
            people[8:16, left : left + 4] = people[8:16, left + 10 : left + 14] = 0
        _save(folder, "images", f"street{k}", _photograph(rng, people))
        _save(folder, "masks", f"street{k}", np.minimum(people, 1))
        _save(folder, "instances", f"street{k}", people)


def _classes(folder: Path) -> None:
    rng = np.random.default_rng(2)
    for name in ("aeroplane", "car", "cow", "dog"):
        for k in range(4):
            # The colours lie two pixels beside the mask: no weights part object and ground.
            mask = _blob(rng, (40, 50), 0.22)
            image = _photograph(rng, np.roll(mask, 2, axis=1), 60)
            _save(folder, "images", f"{name}_{k}", image)
            _save(folder, "masks", f"{name}_{k}", mask)


def _boxes(folder: Path) -> None:
    rng = np.random.default_rng(3)
    boxes = {}
    for k in range(10):
        mask = _blob(rng, (44, 60))
        image = _photograph(rng, mask, 30)
        rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        box = [int(columns[0]) - 2, int(rows[0]) - 2, int(columns[-1]) + 3, int(rows[-1]) + 3]
        boxes[f"made{k}"] = {"box": box, "size": [60, 44]}
        strokes = np.zeros_like(mask)
        strokes[rows[len(rows) // 2], columns[2:-2]] = 1
        strokes[strokes > mask] = 0
        strokes[1, 2:-2] = 2
        _save(folder, "images", f"made{k}", image)
        _save(folder, "masks", f"made{k}", mask)
        _save(folder, "strokes_set1", f"made{k}", strokes)
    (folder / "boxes.json").write_text(json.dumps(boxes))


def _slices(seed: int) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        rng = np.random.default_rng(seed)
        for k in range(10):
            y, x = np.mgrid[:48, :64]
            mask = np.zeros((48, 64), np.uint8)
            for _ in range(4):
                cy, cx, r = rng.uniform(6, 42), rng.uniform(6, 58), rng.uniform(4, 8)
                mask[np.hypot(y - cy, x - cx) < r] = 1
            grey = np.clip(150 - 50 * mask + rng.normal(0, 30, mask.shape), 0, 255)
            _save(folder, "images", f"slice{k:04d}", grey.astype(np.uint8))
            _save(folder, "masks", f"slice{k:04d}", mask)

    return write


def _cows(folder: Path) -> None:
    rng = np.random.default_rng(5)
    colors = np.array([[120, 85, 70], [80, 125, 60], [150, 180, 220]], float)
    for k in range(9):
        mask = np.where(np.arange(32)[:, None] < 9 + k % 3, 2, np.ones((1, 48), int))
        mask = np.where(_blob(rng, (32, 48), 0.25) > 0, 0, mask).astype(np.uint8)
        image = np.clip(colors[mask] + rng.normal(0, 30, (*mask.shape, 3)), 0, 255)
        _save(folder, "images", f"cow{k}", image.astype(np.uint8))
        _save(folder, "masks", f"cow{k}", mask + 1)


def _objects(seed: int) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        rng = np.random.default_rng(seed)
        for k in range(3):
            mask = _blob(rng, (40, 56))
            _save(folder, "images", f"object{seed}{k}", _photograph(rng, mask, 30))
            _save(folder, "masks", f"object{seed}{k}", mask)

    return write


SETS: dict[str, Callable[[Path], None]] = {
    "weizmann_horses": _horses,
    "penn_fudan": _people,
    "voc2010_coseg": _classes,
    "grabcut": _boxes,
    "bsds_objects": _objects(7),
    "coopcut16": _objects(8),
    "em_epfl_ca1": _slices(4),
    "em_drosophila_vnc": _slices(6),
    "msrc_cows": _cows,
}
