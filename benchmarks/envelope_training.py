"""Training with envelopes: 20 images of 640 x 480, 8-connected, 300 regions each, K = 10.

The size of gould2011's real work. Unary, contrast and envelope weights are learned together to a
certified 1 % gap; prints seconds a round and where they go. "rest" is all of the wall clock that is
neither oracle nor master, without the preparation before the first round, which is told apart.
Images are asked one by one, so that the CPU seconds of every call are known.

    python benchmarks/envelope_training.py [--images 20] [--regions 300] [--plain]
"""

import argparse
import json
import os
import statistics
import time
import warnings
from unittest import mock

import numpy as np
from scipy.ndimage import gaussian_filter
from scipy.spatial import cKDTree

from cutlearn.energy.envelopes import EnvelopeSpec
from cutlearn.energy.problem import Problem
from cutlearn.errors import ConvergenceWarning
from cutlearn.features.edges import edge_features
from cutlearn.learn import pool
from cutlearn.learn.train import train

SHAPE = (480, 640)


def world(number, regions):
    """Blobs under noise that is strong for a pixel and weak for a region.

    Regions are cells around points in space and a blurred picture, so they follow most borders.
    """
    rng = np.random.default_rng(number)
    y = (gaussian_filter(rng.normal(size=SHAPE), 40) > 0).astype(np.uint8)
    signal = 2.0 * y - 1.0
    image = 0.5 + 0.1 * signal + 0.1 * gaussian_filter(rng.normal(size=SHAPE), 1)
    nodes = np.stack(
        [
            np.ones(SHAPE),
            0.8 * signal + rng.normal(size=SHAPE),
            gaussian_filter(0.3 * signal + rng.normal(size=SHAPE), 2),
            rng.normal(size=SHAPE),
        ],
        axis=-1,
    )
    seen = 300 * gaussian_filter(image, 3)
    places = np.stack([*np.indices(SHAPE), seen], axis=-1).reshape(-1, 3)
    cells = cKDTree(places[rng.choice(len(places), regions, replace=False)]).query(places)[1]
    edges = edge_features(image.astype(np.float32)[..., None], 8, False)
    p = Problem(nodes.astype(np.float32), edge_features=edges, regions=cells, shape=SHAPE,
                connectivity=8)  # fmt: skip
    return p, y


def one_by_one(calls):
    """The oracles' round, image by image; CPU seconds go to `calls`."""

    real = pool.planes_at

    def ask(oracles, w, threads):
        rows = []
        for one in oracles:
            begin = time.process_time()
            rows += list(real([one], w))
            calls.append(time.process_time() - begin)
        return np.array(rows)

    return mock.patch.object(pool, "planes_at", ask)


def measure(problems, labels, envelope, options):
    """Train once; where the time of a round goes."""
    seen, calls = [], []
    begin, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings(), one_by_one(calls):
        warnings.simplefilter("ignore", ConvergenceWarning)
        r = train(
            problems, labels, C=options.C, envelope=envelope, n_jobs=1,
            max_steps=options.most, callback=lambda _: seen.append(time.perf_counter()),
        )  # fmt: skip
    whole, cpu = time.perf_counter() - begin, time.process_time() - cpu
    asked = sum(step.oracle_seconds for step in r.steps)
    master = sum(step.master_seconds for step in r.steps)
    # From the end of the first round on, all that is neither of the two.
    late = seen[-1] - seen[0] if len(seen) > 1 else 0.0
    known = sum(step.oracle_seconds + step.master_seconds for step in r.steps[1:])
    return {
        "envelope": str(envelope), "rounds": len(r.steps), "calls": len(calls),
        "gap": r.relative_gap, "seconds": whole, "cpu": cpu,
        "prepared": whole - asked - master - max(late - known, 0.0),
        "round": sum(calls) / len(calls) * len(problems),
        "call": [min(calls), statistics.median(calls), max(calls)],
        "oracle": asked / whole, "master": master / whole, "rest": 1 - (asked + master) / whole,
        "rest of a round": max(late - known, 0.0) / late if late else 0.0,
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=20)
    parser.add_argument("--regions", type=int, default=300)
    parser.add_argument("--lines", type=int, default=10)
    parser.add_argument("--C", type=float, default=1000.0)
    parser.add_argument("--most", type=int, default=100, help="rounds at most")
    parser.add_argument("--plain", action="store_true", help="without envelopes too")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    problems, labels = zip(*(world(k, options.regions) for k in range(options.images)))
    specs = [EnvelopeSpec(options.lines, per="node")] + [None] * options.plain
    table = [measure(problems, labels, spec, options) for spec in specs]
    if options.json:
        print(json.dumps(table))
        return
    print(f"{options.images} images of 640 x 480, {options.regions} regions, one "
          f"thread; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")  # fmt: skip
    for row in table:
        print(
            "{envelope}\n  rounds {rounds}, calls {calls}, gap {gap:.2%}, seconds {seconds:.1f} "
            "(cpu {cpu:.1f}), preparing {prepared:.2f}\n  CPU seconds a call "
            "{call[0]:.2f} at least, {call[1]:.2f} in the middle, {call[2]:.2f} at most; a round "
            "of all images {round:.2f}: oracle {oracle:.1%}, master {master:.2%}, rest "
            "{rest:.1%} (of the rounds themselves {rest of a round:.2%})".format(**row)
        )


if __name__ == "__main__":
    main()
