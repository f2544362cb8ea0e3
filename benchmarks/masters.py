"""Masters against each other for lambda from 50 to 0, as table 2 of antoniuk2012.

Every master asks the same oracle and stops at the same certified gap; iterations are rounds of the
oracle. Objectives are in percent of the pixels, so lambda is a hundred times that of `train`.
`plain` runs are the paper's: one plane a round, asked at the master's own point, all images from
the first round on; the others are the defaults. A run that is not done after 500 rounds is starred.

    python benchmarks/masters.py [--world binary] [--tol 0.01] [--plain] [--picture FILE] [--json]
"""

import argparse
import json
import math
import time
import warnings
from itertools import combinations_with_replacement
from unittest import mock

import matplotlib as mpl
import numpy as np
from scipy import ndimage

from cutlearn.energy.problem import Problem
from cutlearn.errors import ConvergenceWarning
from cutlearn.grid import grid_edge_counts
from cutlearn.images.synth import cells
from cutlearn.learn import bundle as master
from cutlearn.learn import margin as run
from cutlearn.learn.train import train

LAMBDAS = (50, 10, 1, 0.1, 0.01, 0)
MASTERS = (("bundle", "1"), ("bundle", "N"), ("accpm", "1"), ("accpm", "N"))
MOST = 500


def quadratic(channels):
    """1, the channels and their products, standardised but for the 1: (h, w, F)."""
    pairs = combinations_with_replacement(range(channels.shape[-1]), 2)
    columns = [channels[..., i] for i in range(channels.shape[-1])]
    columns += [channels[..., i] * channels[..., j] for i, j in pairs]
    flat = np.stack(columns, axis=-1)
    flat = (flat - flat.mean(axis=(0, 1))) / (flat.std(axis=(0, 1)) + 1e-9)
    return np.concatenate([np.ones((*flat.shape[:2], 1)), flat], axis=-1)


def binary(sigmas=(0.5, 2.0), images=16, shape=(96, 128)):
    """Cells in noise; three channels (light, blurred twice), so 10 coefficients as in the paper,
    and one weight for each direction of edges."""
    counts = grid_edge_counts(shape, 4)
    edges = np.repeat(np.eye(len(counts)), counts, axis=0)
    problems, labels = [], []
    for seed in range(images):
        light, mask = cells(seed, shape)
        noisy = light + np.random.default_rng(seed).normal(0, 0.15, shape)
        blurred = [ndimage.gaussian_filter(noisy, s) for s in sigmas]
        nodes = quadratic(np.stack([noisy, *blurred], axis=-1))
        problems.append(Problem(nodes, edge_features=edges, shape=shape, connectivity=4))
        labels.append(mask)
    return problems, labels, {}


def wide():
    """The same with eight channels: 47 weights, near the paper's 48 of three labels."""
    return binary(sigmas=(0.5, 1, 2, 3, 5, 8, 12))


# A world gives problems, labels and what `train` must be told of them.
WORLDS = {"binary": binary, "wide": wide}


def paper_rules():
    """Switch off what goes beyond the papers: half-way points, pooled planes, a rough beginning."""
    stack = mock.patch.multiple(run, MAX_SETTLING=0)
    return (mock.patch.object(master, "HALF", 1.0), stack, mock.patch.object(run, "MANY", MOST))


def measure(world, lam, learner, groups, tol, plain):
    """One run: a row of the table, with the gap after each round."""
    problems, labels, options = world
    number = 1 if groups == "1" else len(problems)
    patches = paper_rules() if plain else ()
    for patch in patches:
        patch.start()
    cpu = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            r = train(problems, labels, learner=learner, C=100 / lam if lam else math.inf, tol=tol,
                      groups=number, max_steps=MOST, **options)  # fmt: skip
    finally:
        for patch in patches:
            patch.stop()
    cpu = time.process_time() - cpu
    return {
        "lambda": lam, "learner": learner + " plain" * plain, "groups": groups,
        "rounds": len(r.steps), "calls": sum(step.calls for step in r.steps), "cpu": cpu,
        "master_ms": 1e3 * sum(step.master_seconds for step in r.steps) / len(r.steps),
        "objective": 100 * r.objective, "lower_bound": 100 * r.lower_bound,
        "converged": r.converged, "largest_weight": float(np.abs(r.w).max()),
        "gaps": [step.relative_gap for step in r.steps],
    }  # fmt: skip


def show(table):
    """Print the table; objectives of one lambda must agree within their gaps."""
    print("| lambda | learner | groups | rounds | calls | CPU s | master ms a round | objective |"
          " lower bound | largest weight |")  # fmt: skip
    print("| --- " * 10 + "|")
    for row in table:
        star = "" if row["converged"] else "*"
        print("| {lambda} | {learner} | {groups} | {rounds}{star} | {calls} | {cpu:.2f} | "
              "{master_ms:.1f} | {objective:.3f} | {lower_bound:.3f} | {largest_weight:.3g} |"
              .format(**row, star=star))  # fmt: skip
    for lam in LAMBDAS:
        rows = [row for row in table if row["lambda"] == lam]
        worst = max(row["lower_bound"] for row in rows) - min(row["objective"] for row in rows)
        assert worst <= 1e-9, f"lambda {lam}: a bound above an objective"


def draw(table, file):
    """The relative gap against rounds, one panel for each lambda."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(
        2, 3, figsize=(11, 6), sharex=True, sharey=True, layout="constrained"
    )
    names = list(dict.fromkeys((row["learner"], row["groups"]) for row in table))
    for lam, axis in zip(LAMBDAS, axes.flat):
        for row in table:
            if row["lambda"] != lam:
                continue
            at = names.index((row["learner"], row["groups"]))
            style = ":" if "plain" in row["learner"] else "--" if row["groups"] == "1" else "-"
            colour = "C1" if row["learner"].startswith("accpm") else "C0"
            axis.semilogy(range(1, 1 + row["rounds"]), np.maximum(row["gaps"], 1e-6), style,
                          color=colour, label=f"{names[at][0]}, groups {names[at][1]}")  # fmt: skip
        axis.axhline(0.01, color="0.7", linewidth=0.8)
        axis.set(title=f"lambda = {lam}", xscale="log", ylim=(2e-3, 2))
    for axis in axes[1]:
        axis.set_xlabel("rounds")
    for axis in axes[:, 0]:
        axis.set_ylabel("certified relative gap")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize="small")
    figure.savefig(file, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--world", choices=WORLDS, default="binary")
    parser.add_argument("--tol", type=float, default=0.01)
    parser.add_argument("--plain", action="store_true", help="add the papers' own rules")
    parser.add_argument("--picture")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    world = WORLDS[options.world]()
    table = []
    for lam in LAMBDAS:
        for learner, groups in MASTERS:
            for plain in (False, True)[: 1 + (options.plain and groups == "1")]:
                if lam == 0 and learner == "bundle":
                    continue
                table.append(measure(world, lam, learner, groups, options.tol, plain))
    if options.json:
        print(json.dumps(table))
    else:
        print(f"world {options.world}: {len(world[0])} images, {world[0][0].n_weights} weights, "
              f"gap {options.tol:.2%}\n")  # fmt: skip
        show(table)
    if options.picture:
        draw(table, options.picture)


if __name__ == "__main__":
    main()
