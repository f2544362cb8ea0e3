"""Our quasi-Newton steps beside scipy's L-BFGS-B, from one start, with as many evaluations.

    python benchmarks/quasi_newton.py [--images 6] [--evaluations 60] [--seeds 5]

The likelihood of masks is not smooth: L-BFGS-B ends where its line search fails, ours goes on by a
Polyak step. Both minimise -L in the same coordinates, from logistic regression with edges of
strength 0.3; told are evaluations used and the lowest value found.
"""

import argparse
import warnings

import numpy as np
from scipy.optimize import minimize

import cutlearn as cl
from cutlearn.features.featurizer import Featurizer
from cutlearn.images import cells
from cutlearn.learn import likelihood as runs
from cutlearn.learn.likelihood import likelihood_tasks, mean_likelihood
from cutlearn.run.executor import executor_of


def tasks_of(seed, images):
    """Generated cells with linear features."""
    worlds = [cells(100 * seed + k, (60, 80)) for k in range(images)]
    pictures, masks = [w.image for w in worlds], [w.labels for w in worlds]
    featurizer = Featurizer("linear")
    nodes = featurizer.fit_transform(pictures, masks)
    problems = [featurizer.problem(cl.Sample(p), n) for p, n in zip(pictures, nodes)]
    return problems, masks, likelihood_tasks(problems, masks, None)


def race(seed, images, most):
    """The lowest values of both, and their evaluations."""
    problems, masks, tasks = tasks_of(seed, images)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cl.ConvergenceWarning)
        first = cl.train(problems, masks, learner="logistic", C=np.inf, max_steps=200)
    layout = tasks[0].layout
    start = runs._starts(layout, tasks, first.w, (0.3,))[0]
    block = layout.coordinates(problems[0], runs._second_moment(tasks))
    seen = []

    def value(w):
        found, gradient = mean_likelihood(tasks, w, executor_of(1))
        seen.append(-found)
        return -found, -gradient

    move, w = runs.QuasiNewton(layout, block), start
    for _ in range(most):
        f, gradient = value(w)
        w = move.next(w, f, gradient, min(seen))
    ours = min(seen), len(seen)
    seen.clear()

    def in_z(z):
        f, gradient = value(layout.inside(block.A @ z))
        return f, block.A.T @ gradient

    bounds = [(0, None) if b else (None, None) for b in block.bounded]
    minimize(in_z, np.linalg.solve(block.A, start), jac=True, method="L-BFGS-B", bounds=bounds,
             options={"maxfun": most, "maxiter": most, "maxcor": 20})  # fmt: skip
    return ours, (min(seen), len(seen))


def main():
    """One row a seed."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--images", type=int, default=6)
    asked.add_argument("--evaluations", type=int, default=60)
    asked.add_argument("--seeds", type=int, default=5)
    given = asked.parse_args()
    print("| seed | ours: lowest -L | evaluations | L-BFGS-B: lowest -L | evaluations |")
    print("| --- | --- | --- | --- | --- |")
    for seed in range(given.seeds):
        ours, theirs = race(seed, given.images, given.evaluations)
        print(f"| {seed} | {ours[0]:.5f} | {ours[1]} | {theirs[0]:.5f} | {theirs[1]} |", flush=True)


if __name__ == "__main__":
    main()
