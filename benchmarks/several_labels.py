"""Several labels from `cutlearn fit` to `cutlearn evaluate`: seconds, memory, error and IoU.

    python benchmarks/several_labels.py --data DIR [--set cows] [--train 20] [--test 20] [--seed 0]
        [--keep FOLDER]

DIR holds msrc_cows (cow, grass, sky) and msrc21; of the latter the 8 most frequent labels are kept
and all others void. Images are drawn by the seed: some to learn from, others to judge. Options that
the script does not know go to `cutlearn fit`. One thread, each command in a process of its own.
What was fitted and the report stay in the folder to keep, if there is one.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

VOID, KEPT = 255, 8


def cows(data):
    """Images and masks of three labels."""
    files = sorted((data / "msrc_cows" / "images").iterdir())
    masks = [data / "msrc_cows" / "masks" / f"{file.stem}.png" for file in files]
    return files, [np.asarray(Image.open(mask)) for mask in masks]


def frequent(data):
    """Images and masks of the labels with the largest area, numbered by it."""
    files = sorted((data / "msrc21" / "images").iterdir())
    maps = [np.asarray(Image.open(data / "msrc21" / "masks" / f"{f.stem}.png")) for f in files]
    areas = np.sum([np.bincount(m.ravel(), minlength=256) for m in maps], axis=0)
    areas[VOID] = areas[0] = 0
    number = np.full(256, VOID, np.uint8)
    number[np.argsort(-areas, kind="stable")[:KEPT]] = np.arange(KEPT)
    masks = [number[m] for m in maps]
    some = [i for i, m in enumerate(masks) if (m != VOID).mean() > 0.5]
    return [files[i] for i in some], [masks[i] for i in some]


SETS = {"cows": cows, "frequent": frequent}


def run(*command):
    """The JSON that a command prints, its seconds of CPU and of the clock, and its peak memory."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "cutlearn", *map(str, command), "--json", "--jobs", "1"],
        stdout=subprocess.PIPE, text=True, check=True,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    spent = {"cpu": cpu, "wall": time.monotonic() - begin, "peak_mb": after.ru_maxrss / 1024}
    return json.loads(done.stdout), {name: round(value, 1) for name, value in spent.items()}


def judged(labels):
    """Pixel error over all labels, and the IoU of each, in percent."""
    area = sum(label["true_area"] for label in labels)
    right = sum(label["found"] * label["true_area"] for label in labels)
    overlaps = ", ".join(f"{label['name']}: {100 * label['iou']:.1f}" for label in labels)
    return f"pixel error {100 * (1 - right / area):.2f} %, IoU {overlaps}"


def main():
    """Split, fit, evaluate, tell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--set", choices=SETS, default="cows")
    parser.add_argument("--train", type=int, default=20)
    parser.add_argument("--test", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path)
    options, others = parser.parse_known_args()
    files, masks = SETS[options.set](options.data)
    order = np.random.default_rng(options.seed).permutation(len(files))
    ends = options.train, options.train + options.test
    parts = {"train": order[: ends[0]], "test": order[ends[0] : ends[1]]}
    with tempfile.TemporaryDirectory() as passing:
        place = passing if options.keep is None else options.keep
        for part, images in parts.items():
            for kind in ("images", "masks"):
                (Path(place) / part / kind).mkdir(parents=True)
            for i in images:
                target = Path(place) / part / "images" / files[i].name
                target.write_bytes(files[i].read_bytes())
                Image.fromarray(masks[i]).save(
                    Path(place) / part / "masks" / f"{files[i].stem}.png"
                )
        train, test, model = Path(place) / "train", Path(place) / "test", Path(place) / "model.cut"
        fitted, cost = run("fit", train / "images", train / "masks", "-o", model, *others)
        print("fit", json.dumps(cost), json.dumps(fitted), flush=True)
        page = Path(place) / "report.html"
        said, cost = run("evaluate", model, test / "images", test / "masks", "--report", page)
        print("evaluate", json.dumps(cost), judged(said["labels"]), flush=True)


if __name__ == "__main__":
    main()
