"""Ordered labels beside the binary cut of the same grid: arrays to labels, CPU time, medians.

A scene of several grounds on 213 x 320 (the size of antoniuk2012's cows). `binary` is the cut of
labels 0 and 1 alone; ratios are medians over rounds that run both. Tables: linear |a - b| has arcs
between equal thresholds only, square (a - b)^2 and learned ones between all; `per edge` weighs the
table by contrast.
"""

import argparse
import statistics
import time

import numpy as np
from scipy.ndimage import gaussian_filter

import cutlearn as cl

SHAPE = (213, 320)


def dyadic(x):
    """Multiples of 2^-16, so that nothing is rounded."""
    return np.rint(np.asarray(x) * 2.0**16) / 2.0**16


def contrast(image):
    """Edge weights that fall with the squared difference, one array a direction."""
    squares = [(image[a] - image[b]) ** 2 for a, b in cl.grid.grid_slices(image.shape, 4)]
    beta = 0.5 / np.mean([s.mean() for s in squares])
    return [dyadic(0.1 + 0.9 * np.exp(-beta * s)) for s in squares]


def scene(labels, seed=3):
    """Unary (rows, columns, L) and the contrast of every edge, all dyadic."""
    rng = np.random.default_rng(seed)
    field = gaussian_filter(rng.standard_normal(SHAPE), 13.0, mode="nearest")
    truth = np.searchsorted(np.quantile(field, np.arange(1, labels) / labels), field)
    light = gaussian_filter(rng.standard_normal(SHAPE), 20.0)
    image = gaussian_filter(truth.astype(float), 1.0) + 0.25 * light
    image += 0.45 * rng.standard_normal(SHAPE)
    unary = np.stack([(image - label) ** 2 / (2 * 0.45**2) for label in range(labels)], -1)
    return dyadic(unary), contrast(gaussian_filter(image, 0.7))


def tables(labels):
    """Names and (L, L) tables."""
    jump = np.abs(np.subtract.outer(np.arange(labels), np.arange(labels))).astype(float)
    rng = np.random.default_rng(0)
    first, second = dyadic(rng.uniform(0, 0.2, (2, labels)))
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
    unary, weights = scene(3)
    weights = [np.full_like(w, 0.5) for w in weights]
    odds = np.ascontiguousarray(unary[..., 1] - unary[..., 0])
    yield "binary", lambda: cl.Energy.grid(odds, weights).minimize()
    for labels in (3, 5):
        unary, weigh = scene(labels)
        for name, table in tables(labels).items():
            each = [w[..., None, None] * table for w in weigh]
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
