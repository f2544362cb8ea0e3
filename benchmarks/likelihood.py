"""Likelihood: gradients beside min-marginals, several labels, memory, loopy belief propagation.

CPU seconds, medians. `five` is the set of tarlow2012 section 7.3: background, aeroplane, car, cow,
dog, smaller side 100, one binary field a label; belief propagation is that of the experiment.
Run with `python benchmarks/likelihood.py --data DIR`.
"""

import argparse
import resource
import statistics
import time
import warnings
from pathlib import Path

import numpy as np

import cutlearn as cl
from cutlearn.energy.model import model_of
from cutlearn_papers import tarlow2012
from cutlearn_papers.belief_propagation import MOST, Field, believe
from cutlearn_papers.pictures import Pictures, read_pictures

CLASSES, SIDE = ("aeroplane", "car", "cow", "dog"), 100
EACH = 2  # images of a class
LABELS = 5


def spent(work):
    begin = time.process_time()
    found = work()
    return time.process_time() - begin, found


def five_labels(data):
    """Images of four classes, their label maps, and problems with features of all."""
    images, maps = [], []
    for k, name in enumerate(CLASSES, 1):
        chosen = read_pictures(data / tarlow2012.SET, f"{name}_*", SIDE, values={0: 0, 1: 1})
        chosen = chosen.take(range(EACH))
        images += chosen.images
        maps += [(k * (mask == 1)).astype(np.uint8) for mask in chosen.masks]
    every = Pictures([""] * len(images), images, [(y > 0).astype(np.uint8) for y in maps])
    return tarlow2012.problems_of("linear", every)[0], maps


def compare(name, problems, maps, w):
    """Time, settling and likelihood of both, under the same weights."""
    rows = w.reshape(LABELS, -1)
    ours = [
        spent(lambda p=p: cl.probabilities(p, w, cl.Model(labels="surrogate"))) for p in problems
    ]
    theirs = [spent(lambda p=p: believe(Field.of(p, rows))) for p in problems]
    missed = sum(not found.settled for _, found in theirs)
    settled = [found.iterations for _, found in theirs]
    told = [
        np.mean([np.log(np.maximum(q[np.arange(y.size), y.ravel()], 1e-300)).mean()
                 for q, y in zip(beliefs, maps)])
        for beliefs in ([q for _, q in ours], [found.nodes for _, found in theirs])
    ]  # fmt: skip
    ms = [1e3 * statistics.median(t for t, _ in runs) for runs in (ours, theirs)]
    print(
        f"{name}: ours {ms[0]:.0f} ms, log-likelihood {told[0]:.3f}; belief propagation "
        f"{ms[1]:.0f} ms, {told[1]:.3f}, {statistics.median(settled):.0f} iterations, "
        f"{missed} of {len(problems)} not settled in {MOST}",
        flush=True,
    )


def doors(name, problems, w):
    """Probabilities of five labels on both cores: wall clock and CPU of one image."""
    runs = []
    for p in problems:
        for _ in range(3):
            begin = time.perf_counter()
            runs.append(
                spent(lambda p=p: cl.probabilities(p, w, cl.Model(labels="surrogate"), n_jobs=-1))
            )
            runs[-1] = (runs[-1][0], time.perf_counter() - begin)
    cpu, wall = (1e3 * statistics.median(column) for column in zip(*runs))
    print(f"five labels, {name}: {wall:.0f} ms, {cpu:.0f} ms of CPU", flush=True)


def gradients(name, problems, maps, w):
    """Value and gradient of one image beside its min-marginals, two labels."""
    costs = []
    for p, y in zip(problems, maps):
        truth = (y > 0).astype(np.uint8)
        alone = min(
            spent(lambda p=p: model_of(p).energy(p, w).min_marginals())[0] for _ in range(5)
        )
        whole = min(spent(lambda p=p, y=truth: cl.likelihood([p], [y], w))[0] for _ in range(5))
        costs.append((whole / alone, 1e3 * alone, 1e3 * whole))
    ratio, alone, whole = (statistics.median(column) for column in zip(*costs))
    most = max(cost[0] for cost in costs)
    print(f"gradient, {name}: {whole:.1f} ms, min-marginals alone {alone:.1f} ms, ratio "
          f"{ratio:.2f}, at most {most:.2f}", flush=True)  # fmt: skip


def large():
    """21 labels on 500 x 500: seconds and memory beyond the problem itself."""
    rng = np.random.default_rng(0)
    shape = (500, 500)
    m = sum(len(e) for e in cl.grid_edges(shape, 4))
    p = cl.Problem(rng.normal(size=(*shape, 5)).astype(np.float32),
                   edge_features=np.ones((m, 1), np.float32), shape=shape)  # fmt: skip
    w = np.concatenate([np.append(rng.normal(size=5), 0.5) for _ in range(21)])
    y = rng.integers(0, 21, shape)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds, _ = spent(
        lambda: cl.likelihood([p], [y], w, cl.Model(labels="surrogate", n_labels=21))
    )
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"21 labels, 500 x 500, value and gradient: {seconds:.1f} s, {grown:.0f} MB more")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    warnings.simplefilter("ignore", cl.ConvergenceWarning)
    large()
    problems, maps = five_labels(options.data)
    shared = {"C": 1e4, "model": cl.Model(labels="surrogate", n_labels=LABELS), "n_jobs": -1}
    plain = cl.train(problems, maps, learner="logistic", **shared)
    learned = cl.train(problems, maps, learner="likelihood", max_steps=options.steps, **shared)
    edges = problems[0].n_edge_features

    def with_edges(w, change, fields=LABELS):
        rows = w.reshape(fields, -1).copy()
        rows[:, -edges:] = change(rows[:, -edges:])
        return rows.ravel()

    five = {
        "weak edges (logistic regression, edges 0.05)": with_edges(plain.w, lambda _: 0.05),
        "learned edges": learned.w,
        "three times the learned edges": with_edges(learned.w, lambda e: 3 * e),
    }
    for name, w in five.items():
        doors(name, problems, w)
        compare(name, problems, maps, w)
    binary = [(y > 0).astype(np.uint8) for y in maps]
    shared = {"C": 1e4, "n_jobs": -1}
    bare = cl.train(problems, binary, learner="logistic", **shared)
    two = cl.train(problems, binary, learner="likelihood", max_steps=options.steps, **shared)
    gradients("no edges", problems, maps, bare.w)
    gradients("learned edges", problems, maps, two.w)
    gradients("three times", problems, maps, with_edges(two.w, lambda e: 3 * e, 1))


if __name__ == "__main__":
    main()
