"""A fit of more images than memory holds: time, largest memory and disk, and the same bits.

    python benchmarks/many.py make FOLDER 2000           cells of 300 x 400 pixels, a PNG each
    python benchmarks/many.py fit FOLDER 2 [--count N] [--json FILE] -- OPTIONS OF cutlearn fit
    python benchmarks/many.py same FOLDER 0.7 --count 40 -- OPTIONS OF cutlearn fit
    python benchmarks/many.py learn FOLDER 2 [--count N] [--json FILE] [--jobs 1]

`fit` runs `cutlearn fit` on the first so many images in a process whose address space has so many
GiB (RLIMIT_AS, which counts more than what is in memory). `same` runs it with the limit and
without, and compares every array of the two models. `learn` is a fit without held-out trainings:
linear features, C = 10 to a gap of 5 %, no calibration, on so many threads; what is done is told
with seconds and memory so far.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from PIL import Image

import cutlearn as cl
from cutlearn.images import cells

SHAPE = 300, 400
WORLDS = 150


def make(folder, count):
    """Write worlds of cells and their masks: some, then these moved, mirrored and with noise."""
    for name in ("images", "masks"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    worlds = [cells(seed, SHAPE) for seed in range(min(count, WORLDS))]
    for number in range(count):
        world, turn = worlds[number % WORLDS], number // WORLDS
        moved = [rng.integers(side) if turn else 0 for side in SHAPE]
        flip = (slice(None, None, -1 if turn % 2 else 1), slice(None, None, -1 if turn & 2 else 1))
        noise = 0.025 * rng.standard_normal(SHAPE) if turn else 0
        for kind, values in (("images", world.image + noise), ("masks", world.labels)):
            made = np.roll(values, moved, (0, 1))[flip]
            grey = np.clip(255 * made, 0, 255).astype(np.uint8)
            Image.fromarray(grey).save(folder / kind / f"c{number:05d}.png", compress_level=1)


def some(folder, count, place):
    """A folder of links to the first so many images and masks."""
    for kind in ("images", "masks"):
        (place / kind).mkdir()
        for file in sorted((folder / kind).iterdir())[:count]:
            (place / kind / file.name).symlink_to(file.resolve())
    return place


def fit(folder, gigabytes, options, model):
    """Run `cutlearn fit`; a row of figures."""
    command = ["-m", "cutlearn", "fit", str(folder / "images"),
               str(folder / "masks"), "-o", str(model), "--force", *options]  # fmt: skip
    return limited(command, folder, gigabytes, options, model)


def learn(folder, gigabytes, options, model):
    """Fit in Python, without held-out trainings; a row of figures."""
    command = [__file__, "one", str(folder), "0", *options]
    return limited(command, folder, gigabytes, options, model)


def one(folder, jobs):
    """The process of `learn`."""
    begin, last = time.monotonic(), [""]

    def told(*what):
        if what[-1] != last[0]:
            last[0] = what[-1]
            used = resource.getrusage(resource.RUSAGE_SELF)
            seconds = round(used.ru_utime + used.ru_stime), round(time.monotonic() - begin)
            print(*what, "CPU and wall s:", *seconds, "MB:", used.ru_maxrss // 1024, flush=True)

    images, masks = cl.images.read_folder(folder / "images", folder / "masks").lazy()
    model = cl.Segmenter(features="linear", C=10.0, tol=0.05, calibration=None, n_jobs=jobs)
    told("files looked at")
    model.fit(images, masks, checkpoint=folder / "many.model.part",
              progress=lambda done, total, what: told(what),
              callback=lambda step: told(f"gap {step.relative_gap:.3g}"))  # fmt: skip
    told("fitted")
    model.save(folder / "many.model")
    print(json.dumps(model.summary().fitted, default=str), model.gap_, model.validation_)


def limited(command, folder, gigabytes, options, model):
    """Run a command with so much address space; a row of figures."""
    command = [sys.executable, *command]
    limit = int(gigabytes * 2**30) if gigabytes else resource.RLIM_INFINITY
    begin = time.monotonic()
    process = subprocess.Popen(
        command, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    most, ended = [0], threading.Event()

    def watch():
        while not ended.wait(5):
            part = model.with_name(f"{model.name}.part")
            files = part.rglob("*") if part.is_dir() else ()
            most[0] = max(most[0], sum(size_of(f) for f in files))

    watcher = threading.Thread(target=watch)
    watcher.start()
    _, status, used = os.wait4(process.pid, 0)
    ended.set()
    watcher.join()
    return {
        "images": len(list((folder / "images").iterdir())), "limit": gigabytes,
        "exit": os.waitstatus_to_exitcode(status), "cpu": used.ru_utime + used.ru_stime,
        "system": used.ru_stime, "wall": time.monotonic() - begin, "load": os.getloadavg(),
        "peak": used.ru_maxrss * 1024, "disk": most[0], "options": options,
    }  # fmt: skip


def size_of(file):
    """Bytes of a file that may be gone."""
    try:
        return file.stat().st_size
    except OSError:
        return 0


def same(folder, gigabytes, options, place):
    """Fit with a limit and without; whether all arrays are the same but for seconds."""
    rows = [fit(folder, limit, options, place / f"{limit}.model") for limit in (gigabytes, 0)]
    first, second = (cl.load(place / f"{limit}.model").to_header()[1] for limit in (gigabytes, 0))
    other = [n for n in first if not np.array_equal(first[n], second[n])]
    return {"rows": rows, "arrays": len(first), "different": other}


def main():
    own, options = sys.argv[1:], []
    if "--" in own:
        own, options = own[: own.index("--")], own[own.index("--") + 1 :]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("make", "fit", "same", "learn", "one"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("number", type=float)
    parser.add_argument("--count", type=int)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args(own)
    if given.what == "make":
        make(given.folder, int(given.number))
        return
    if given.what == "one":
        one(given.folder, given.jobs)
        return
    if given.what == "learn":
        options = ["--jobs", str(given.jobs)]
    with tempfile.TemporaryDirectory(dir=given.folder.resolve().parent) as name:
        place = Path(name)
        folder = some(given.folder, given.count, place)
        work = {"fit": fit, "same": same, "learn": learn}[given.what]
        last = place if given.what == "same" else place / "many.model"
        row = work(folder, given.number, options, last)
        if given.json is not None:
            given.json.write_text(json.dumps(row, indent=1))
            if given.what != "same" and last.exists():
                shutil.copy(last, given.json.with_suffix(".model"))
        print(json.dumps(row, indent=1))


if __name__ == "__main__":
    main()
