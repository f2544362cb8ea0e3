"""Ordered labels beside the binary cut of the same grid: arrays to labels, CPU time, medians.

A scene of three grounds on 213 x 320 (the size of antoniuk2012's cows). `binary` is the cut of the
same image with the middle label left out. Tables: linear |a - b| has arcs between equal thresholds
only, square (a - b)^2 and learned ones between all; `per edge` weighs the table by contrast.
"""

import argparse
import statistics
import time

import instances
import numpy as np
from scipy.ndimage import gaussian_filter

import cutlearn as cl

SHAPE = (213, 320)


def scene(labels, seed=3):
    """Unary (rows, columns, L) and the contrast of every edge, all dyadic."""
    rng = np.random.default_rng(seed)
    field = gaussian_filter(rng.standard_normal(SHAPE), 13.0, mode="nearest")
    truth = np.searchsorted(np.quantile(field, np.arange(1, labels) / labels), field)
    light = gaussian_filter(rng.standard_normal(SHAPE), 20.0)
    image = gaussian_filter(truth.astype(float), 1.0) + 0.25 * light
    image += 0.45 * rng.standard_normal(SHAPE)
    unary = np.stack([(image - label) ** 2 / (2 * 0.45**2) for label in range(labels)], -1)
    return instances.dyadic(unary), instances.contrast(gaussian_filter(image, 0.7), 4, 1.0)


def tables(labels):
    """Names and (L, L) tables."""
    jump = np.abs(np.subtract.outer(np.arange(labels), np.arange(labels))).astype(float)
    rng = np.random.default_rng(0)
    learned = np.add.outer(
        instances.dyadic(rng.uniform(0, 0.2, labels)), instances.dyadic(rng.uniform(0, 0.2, labels))
    )
    for k in range(1, labels):
        for j in range(1, labels):
            learned[k:, j:] -= 1.0 if k == j else 0.25
    return {"linear": 0.5 * jump, "square": 0.5 * jump**2, "learned": learned}


def milliseconds(work, rounds):
    """Median CPU time of a call."""
    spent = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        spent.append(1e3 * (time.process_time() - start))
    return statistics.median(spent)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    unary, contrast = scene(3)
    weights = [0.5 * np.ones_like(w) for w in contrast]
    ends = np.ascontiguousarray(unary[..., 2] - unary[..., 0])
    odds = np.ascontiguousarray(unary[..., 1] - unary[..., 0])
    print(f"{'case':28s}{'CPU ms':>9s}{'x binary':>10s}")
    binary = milliseconds(lambda: cl.Energy.grid(odds, weights).minimize(), rounds)
    print(f"{'binary, labels 0 and 1':28s}{binary:9.2f}{1:10.2f}")
    other = milliseconds(lambda: cl.Energy.grid(ends, weights).minimize(), rounds)
    print(f"{'binary, labels 0 and 2':28s}{other:9.2f}{other / binary:10.2f}")
    for labels in (3, 5):
        unary, contrast = scene(labels)
        for name, table in tables(labels).items():
            each = [w[..., None, None] * table for w in contrast]
            for kind, given in (("", table), (", per edge", each)):
                spent = milliseconds(
                    lambda u=unary, g=given: cl.OrderedEnergy.grid(u, g).minimize(), rounds
                )
                print(f"{f'{labels} labels, {name}{kind}':28s}{spent:9.2f}{spent / binary:10.2f}")


if __name__ == "__main__":
    main()
