"""Small folders of images and masks for the tests of the command line, and commands to run."""

import subprocess
import sys

import numpy as np

from cutlearn.images import cells, write_mask, write_probability
from cutlearn.learn.run import Step
from cutlearn.model.model_files import read_header

PLAIN = "from cutlearn.app.cli import main; main()"


def make_folders(root, n=4, shape=(40, 48), seed=0):
    """Write n images of cells and their masks (0 and 255); give the two folders."""
    images, masks = root / "images", root / "masks"
    images.mkdir(parents=True)
    masks.mkdir()
    for i in range(n):
        world = cells(seed + i, shape)
        write_probability(images / f"cell{i}.png", world.image)
        write_mask(masks / f"cell{i}.png", world.labels, 255)
    return str(images), str(masks)


def run(code, *args):
    """Run code as its own process, with these words of the command line."""
    command = [sys.executable, "-c", code, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def content(path):
    """All of a model but the seconds that its steps took."""
    header, arrays = read_header(path, tensors=True)
    names = list(Step.__dataclass_fields__)
    timed = [names.index(name) for name in ("oracle_seconds", "master_seconds")]
    arrays["steps"] = np.delete(arrays["steps"], timed, axis=1)
    return header, {name: array.tobytes() for name, array in arrays.items()}
