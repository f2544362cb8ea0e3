"""Ordered labels beside the binary cut of the same grid: arrays to labels, CPU time, medians.

A scene of several grounds on 213 x 320 (the size of antoniuk2012's cows). `binary` is the cut of
labels 0 and 1 alone; ratios are medians over rounds that run both. Tables: linear |a - b| has arcs
between equal thresholds only, square (a - b)^2 and learned ones between all; `per edge` weighs the
table by contrast.
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
    first, second = instances.dyadic(rng.uniform(0, 0.2, (2, labels)))
    learned = np.add.outer(first, second)
    for k in range(1, labels):
        for j in range(1, labels):
            learned[k:, j:] -= 1.0 if k == j else 0.25
    return {"linear": 0.5 * jump, "square": 0.5 * jump**2, "learned": learned}


def milliseconds(work):
    """CPU time of a call."""
    start = time.process_time()
    work()
    return 1e3 * (time.process_time() - start)


def cases():
    """Names and calls; the first is what the others are measured by."""
    unary, contrast = scene(3)
    weights = [np.full_like(w, 0.5) for w in contrast]
    odds = np.ascontiguousarray(unary[..., 1] - unary[..., 0])
    yield "binary", lambda: cl.Energy.grid(odds, weights).minimize()
    for labels in (3, 5):
        unary, contrast = scene(labels)
        for name, table in tables(labels).items():
            each = [w[..., None, None] * table for w in contrast]
            for kind, given in (("", table), (", per edge", each)):
                yield (
                    f"{labels} labels, {name}{kind}",
                    lambda u=unary, g=given: cl.OrderedEnergy.grid(u, g).minimize(),
                )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    every = list(cases())
    binary = every[0][1]
    print(f"{'case':28s}{'CPU ms':>9s}{'x binary':>10s}")
    for name, work in every:
        pairs = [(milliseconds(binary), milliseconds(work)) for _ in range(rounds)]
        spent = statistics.median(b for _, b in pairs)
        ratio = statistics.median(b / a for a, b in pairs)
        print(f"{name:28s}{spent:9.2f}{ratio:10.2f}", flush=True)


if __name__ == "__main__":
    main()
