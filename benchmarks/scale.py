"""Time and memory of a mask against the size of an image, and of a volume.

    python benchmarks/scale.py --json FILE [--images 1000 2000 ...] [--volumes 100 200 ...]
    python benchmarks/scale.py --picture FILE PICTURE.png
    python benchmarks/scale.py --json FILE --believed 5000    probabilities instead of a mask
    python benchmarks/scale.py --json FILE --ordered 5000 --unordered 5000     three labels
    python benchmarks/scale.py --json FILE --images 5000 --features trees      or net, auto
    python benchmarks/scale.py --json FILE --images 2000 --features trees --whole     also at once
    python benchmarks/scale.py --json FILE --ordered 1700 --strip 400          also in one cut
    python benchmarks/scale.py --stream 50 500

A model is fitted on small images (features "linear" unless named); then images and volumes of given
sides are predicted at full size, each in a process of its own on one thread: seconds of the CPU,
the largest memory that the process had, over what it had before, and the certificate of the cut.
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
from scipy.ndimage import binary_erosion

import cutlearn as cl
from cutlearn.energy.energy import Joined
from cutlearn.energy.model import unary_of
from cutlearn.images import cells, write_probability
from cutlearn.model import budget
from cutlearn.model.large import LargeImage

SIDE = 500  # of what is repeated to make an image of any size
DEPTH = 20
SEVERAL = "ordered", "unordered"


def ball_stack(seed, shape=(DEPTH, 80, 80)):
    """Balls in noise, and their mask."""
    rng = np.random.default_rng(seed)
    places = np.indices(shape).astype(np.float32)
    mask = np.zeros(shape, bool)
    for _ in range(14):
        centre, radius = [rng.uniform(0, side) for side in shape], rng.uniform(5, 12)
        mask |= sum((p - c) ** 2 for p, c in zip(places, centre)) < radius**2
    return 0.35 + 0.25 * mask, mask.astype(np.uint8)


def noisy(clean, shape, rng, noise=0.12):
    """A clean world, repeated to a shape, with noise, 8 bits; made some rows at a time."""
    made = np.empty(shape, np.uint8)
    for first in range(0, shape[0], 100):
        rows = np.take(clean, np.arange(first, min(first + 100, shape[0])), 0, mode="wrap")
        for axis in range(1, len(shape)):
            rows = np.take(rows, np.arange(shape[axis]), axis, mode="wrap")
        rows = rows + noise * rng.standard_normal(rows.shape, np.float32)
        made[first : first + len(rows)] = np.clip(255 * rows, 0, 255)
    return made


def fitted(kind, features):
    """A model; of three labels the middle one is a rim of two pixels."""
    rng = np.random.default_rng(0)
    if kind != "volume":
        worlds = [cells(seed, (200, 260)) for seed in range(4)]
        masks = [w.labels for w in worlds]
        settings = {}
        if kind in SEVERAL:
            masks = [y + binary_erosion(y, iterations=2) for y in masks]
            settings = {"labels": kind, "C": 100.0, "tol": 0.02}
        model = cl.Segmenter(features=features, calibration=None, n_jobs=1, min_side="full",
                             **settings)  # fmt: skip
        return model.fit([w.image for w in worlds], masks)
    stacks = [ball_stack(seed) for seed in (1, 2)]
    model = cl.Segmenter(features="linear", calibration=None, n_jobs=1, min_side="full")
    return model.fit([cl.Volume(noisy(c, c.shape, rng)) for c, _ in stacks], [y for _, y in stacks])


def one(kind, side, file, strip, whole):
    """Predict one image; prints a row.

    A strip of so many rows is compared with one cut, tiles with a description of the whole image.
    """
    model, rng = cl.load(file), np.random.default_rng(9)
    if kind != "volume":
        given = cl.Sample(noisy(cells(9, (SIDE, SIDE)).image, (side, side), rng, 0.02))
    else:
        given = cl.Volume(noisy(ball_stack(9, (100, 100, 100))[0], (side,) * 3, rng))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    begin, wall = time.process_time(), time.monotonic()
    if kind == "believed":
        q = model.predict_proba([given])[0]
        found = Joined(q.argmax(axis=-1), 0.0, 0.0, 0)
    else:
        found = LargeImage(model.featurizer_, model.model_, model.w_, given).cut()
    seconds, wall = time.process_time() - begin, time.monotonic() - wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    compared = {}
    if strip:
        load = budget.Load.of(model.model_.labels)
        budget.WHOLE, budget.STRIP = 0, strip * side * load.bytes // budget.WORKED
        parts = LargeImage(model.featurizer_, model.model_, model.w_, given).cut()
        compared = {
            "in strips": parts.strips,
            "energy above": (parts.value - found.value) / abs(found.value),
            "proved within": parts.relative_gap,
            "other labels": int((parts.labels != found.labels).sum()),
        }
    if whole:
        whole = LargeImage(model.featurizer_, model.model_, model.w_, given)
        problem, (field,) = model._problem(given), whole.fields
        apart = np.abs(unary_of(problem, model.w_) - field.unary.ravel())
        compared = {
            "costs apart": float(apart.max() / field.unary.std()),
            "typically": float(np.median(apart) / field.unary.std()),
            "other labels": int((model.model_.mask(problem, model.w_) != found.labels).sum()),
        }
    row = compared | {
        "kind": kind, "side": side, "pixels": int(found.labels.size),
        "seconds": seconds, "wall": wall, "peak": peak, "before": before,
        "strips": found.strips, "gap": found.relative_gap, "share": float(found.labels.mean()),
    }  # fmt: skip
    print(json.dumps(row))


def stream(counts):
    """Memory of `cutlearn predict` on folders of so many images of 150 x 200 pixels."""
    worlds = [cells(seed, (150, 200)) for seed in range(10)]
    model = cl.Segmenter(features="linear", calibration=None, n_jobs=1)
    model.fit([w.image for w in worlds[:4]], [w.labels for w in worlds[:4]])
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        model.save(root / "a.model")
        for count in counts:
            (root / "images").mkdir(exist_ok=True)
            for k in range(count):
                write_probability(root / "images" / f"{k:04d}.png", worlds[k % 10].image)
            words = [sys.executable, "-m", "cutlearn", "predict", root / "a.model", root / "images",
                     "-o", root / f"out{count}", "--jobs", "1", "-q"]  # fmt: skip
            done = subprocess.Popen(words, stdout=subprocess.DEVNULL)
            _, _, used = os.wait4(done.pid, 0)
            print(count, "images:", used.ru_maxrss // 1024, "MB,", round(used.ru_utime, 1), "s")


def picture(file, place):
    """Draw seconds and memory against millions of pixels."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = json.loads(file.read_text())
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for kind, mark in (("image", "o-"), ("volume", "s--")):
        some = sorted((r for r in rows if r["kind"] == kind), key=lambda r: r["pixels"])
        size = [r["pixels"] / 1e6 for r in some]
        axes[0].loglog(size, [r["seconds"] for r in some], mark, label=kind + "s")
        axes[1].loglog(size, [r["peak"] / 1e9 for r in some], mark, label=kind + "s")
        for r, x in zip(some, size):
            if r["strips"] > 1:
                place_of = (4, -16) if kind == "image" else (-8, 4)
                axes[1].annotate(f"{r['strips']} strips", (x, r["peak"] / 1e9), place_of,
                                 textcoords="offset points", ha="right", fontsize=8)  # fmt: skip
    for ax, what, marks in zip(
        axes, ("seconds of one core", "largest memory, GB"), ((1, 3, 10, 30, 100), (0.3, 1, 3))
    ):
        ax.set(xlabel="million pixels", ylabel=what)
        ax.set_yticks(marks, map(str, marks))
        ax.set_xticks((1, 3, 10, 30, 100), ("1", "3", "10", "30", "100"))
        ax.minorticks_off()
        ax.grid(True, alpha=0.3)
        ax.legend()
    figure.savefig(place, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--images", type=int, nargs="*", default=[])
    parser.add_argument("--volumes", type=int, nargs="*", default=[])
    parser.add_argument("--believed", type=int, nargs="*", default=[])
    parser.add_argument("--picture", type=Path, nargs=2)
    for kind in SEVERAL:
        parser.add_argument(f"--{kind}", type=int, nargs="*", default=[])
    parser.add_argument("--features", default="linear")
    parser.add_argument("--strip", type=int, default=0)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--one", nargs=5)
    parser.add_argument("--stream", type=int, nargs="*")
    given = parser.parse_args()
    if given.one:
        kind, side, file, strip, whole = given.one
        return one(kind, int(side), file, int(strip), whole == "True")
    if given.stream:
        return stream(given.stream)
    if given.picture:
        return picture(*given.picture)
    rows = json.loads(given.json.read_text()) if given.json.exists() else []
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("image", "volume", "believed", *SEVERAL):
            sides = vars(given)[{"image": "images", "volume": "volumes"}.get(kind, kind)]
            file = Path(folder) / f"{kind}.model"
            if sides:
                fitted(kind, given.features).save(file)
            for side in sides:
                words = [sys.executable, __file__, "--one", kind, str(side), str(file),
                         str(given.strip), str(given.whole)]  # fmt: skip
                said = subprocess.run(words, capture_output=True, check=True).stdout
                rows.append(json.loads(said) | {"features": given.features,
                                                "load": os.getloadavg()[0]})  # fmt: skip
                print(rows[-1], flush=True)
                given.json.write_text(json.dumps(rows))
    return None


if __name__ == "__main__":
    main()
