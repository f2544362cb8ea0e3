"""One thread against two: processor time of a fit and of a prediction, and its serial part.

    python benchmarks/threads.py IMAGES MASKS [--count 40] [--side 72] [--first 1|2] [--profile]

Both in one process, after a small fit that imports everything. "waiting" is the processor time of
the thread that waits for the others, as a share of all; "serial" is that without its share of the
oracles, which it asks as one of the threads. Weights, masks and probabilities must have the same
bits.
"""

import argparse
import cProfile
import json
import os
import pstats
import time

import numpy as np

import cutlearn as cl
from cutlearn import _core

SHARED = [0.0]  # seconds that the waiting thread has worked as one of many


def shared(function):
    """The function of the core, with the seconds of the calling thread counted."""

    def counted(*args):
        begin = time.thread_time()
        made = function(*args)
        SHARED[0] += time.thread_time() - begin
        return made

    return counted


def measured(work):
    """What the work gives, and its seconds: of all threads, of this one, shared, on the wall."""
    clocks = time.process_time, time.thread_time, lambda: SHARED[0], time.monotonic
    begin = [clock() for clock in clocks]
    made = work()
    return made, [clock() - a for clock, a in zip(clocks, begin)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("images")
    parser.add_argument("masks")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--side", type=int, default=72)
    parser.add_argument("--first", type=int, default=1, choices=(1, 2))
    parser.add_argument("--features", default="trees")
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    images, masks = cl.images.read_folder(given.images, given.masks).lazy()
    images, masks = list(images[: given.count]), list(masks[: given.count])

    def model(threads):
        return cl.Segmenter(features=given.features, C=1000.0, min_side=given.side, n_jobs=threads)

    _core.highest_planes = shared(_core.highest_planes)
    first = model(2).fit(images[:4], masks[:4])
    first.predict_proba(images[:2])
    rows, bits = {}, set()
    for threads in (given.first, 3 - given.first):
        one = model(threads)
        if given.profile and threads == 2:
            profile = cProfile.Profile(time.thread_time)
            profile.runcall(one.fit, images, masks)
            pstats.Stats(profile).sort_stats("tottime").print_stats(30)
            continue
        _, fit = measured(lambda one=one: one.fit(images, masks))
        asked = lambda one=one: (one.predict(images), one.predict_proba(images))  # noqa: E731
        (labels, beliefs), predict = measured(asked)
        bits.add(b"".join(a.tobytes() for a in (one.w_, *labels, *beliefs)))
        for name, (cpu, own, part, wall) in (("fit", fit), ("predict", predict)):
            rows[f"{name} {threads}"] = {
                "cpu": cpu, "waiting": own / cpu, "serial": (own - part) / cpu, "wall": wall,
            }  # fmt: skip
    if given.profile:
        return
    for name in ("fit", "predict"):
        rows[f"{name} ratio"] = rows[f"{name} 1"]["cpu"] / rows[f"{name} 2"]["cpu"]
    rows |= {"same bits": len(bits) == 1, "load": os.getloadavg(), "numpy": np.__version__}
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
