"""Attack the cut: random energies against exact enumeration, live solvers against new ones.

    python scripts/attack_cuts.py [--ordinary 900000] [--extreme 100000] [--live 20000] [--seed 0]

Ordinary numbers are whole multiples of 1/1024: labels, value and lower bound must be those of the
enumeration, to the bit. Extreme ones run from 1e-320 to 1e300: no bound may be above the minimum,
no labelling worse than certified. A live solver must give what a new one gives after every change.
Ends with a count of each and exit code 1 if anything was wrong.
"""

import argparse
import math
import sys
import time
from itertools import product
from multiprocessing import Pool
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import cutlearn as cl
from cutlearn.errors import InputError
from exact import (
    certificate_fault,
    energy_of,
    extreme_ordered_parts,
    extreme_parts,
    number,
    ordered_fault,
)

UNIT = 1024
LABELS = {n: np.array(list(product((0, 1), repeat=n)), np.int64) for n in range(1, 10)}
GRIDS = [((2, 3), 4), ((3, 3), 8), ((1, 7), 4), ((2, 2, 2), 6), ((2, 2, 2), 18), ((2, 2, 2), 26)]
BATCH = 500


def ordinary(rng):
    """One random energy of multiples of 1/1024; the fault, or nothing."""
    small = rng.random() < 0.5  # many ties
    draw = (lambda size: UNIT * rng.integers(-4, 5, size)) if small else (
        lambda size: rng.integers(-(2**20), 2**20, size))  # fmt: skip
    shape, connectivity = GRIDS[rng.integers(len(GRIDS))] if rng.random() < 0.5 else (None, 0)
    n = int(np.prod(shape)) if shape else int(rng.integers(1, 9))
    Y = LABELS[n]
    u = draw(n)
    if shape:
        edges = np.concatenate(cl.grid_edges(shape, connectivity))
    else:
        m = int(rng.integers(0, 2 * n)) if n > 1 else 0
        tail = rng.integers(0, n, m)
        edges = np.stack([tail, (tail + rng.integers(1, max(n, 2), m)) % n], axis=1)
    pq = np.abs(draw((len(edges), 2)))
    negative = rng.random(len(edges)) < 0.2
    pq[negative, 0] = -rng.integers(0, pq[negative, 1] + 1)
    i, j = edges.T
    E = Y @ u + ((1 - Y[:, i]) * Y[:, j]) @ pq[:, 0] + (Y[:, i] * (1 - Y[:, j])) @ pq[:, 1]
    envelopes = []
    if rng.random() < 0.3:
        members = rng.permutation(n)[: rng.integers(1, n + 1)]
        k = int(rng.integers(1, 5))
        a, b, mass = draw(k), 3 * draw(k), rng.integers(0, 4, len(members))
        E = E + (np.multiply.outer(Y[:, members] @ mass, a) + b).min(axis=1)
        envelopes.append(cl.Envelope(members, a / UNIT, b / UNIT, mass))
    fixed = None
    if rng.random() < 0.2:
        fixed = np.where(rng.random(n) < 0.3, rng.integers(0, 2, n), -1)
        E = np.where(((fixed < 0) | (fixed == Y)).all(axis=1), E, 2**62)
    if shape:
        cuts = np.cumsum([len(e) for e in cl.grid_edges(shape, connectivity)])[:-1]
        boxes = [tuple(s.stop - s.start for s in tail)
                 for tail, _ in cl.grid.grid_slices(shape, connectivity)]  # fmt: skip
        weights = [w.reshape(*box, 2) for w, box in zip(np.split(pq / UNIT, cuts), boxes)]
        energy = cl.Energy.grid(u.reshape(shape) / UNIT, weights, connectivity, envelopes)
        fixed = None if fixed is None else fixed.reshape(shape)
    else:
        energy = cl.Energy(u / UNIT, edges, pq / UNIT, envelopes)
    cut = energy.minimize(fixed)
    best = E.min()
    if (cut.labels.ravel() != Y[best == E].min(axis=0)).any():
        return "labels"
    if cut.value != best / UNIT or cut.lower_bound != cut.value:
        return "value or bound"
    return ""


def extreme(rng):
    """One random energy of any size; the fault, "refused", or nothing."""
    if rng.random() < 0.2:
        p = extreme_ordered_parts(rng)
        energy = cl.OrderedEnergy(p["unary"], p["edges"] or None, p["tables"])
        return ordered_fault(p, energy.minimize())
    p = extreme_parts(rng)
    try:
        cut = energy_of(p).minimize(p["fixed"])
    except InputError:
        return "refused"
    return certificate_fault(p, cut)


def live(rng):
    """A solver through four changes, each against a new one; the fault, or nothing."""
    n, spread = int(rng.integers(2, 9)), int(rng.choice([0, 2, 30, 60, 200]))

    def draw(*size):
        return np.array([number(rng, spread) for _ in range(math.prod(size))]).reshape(size)

    m = int(rng.integers(1, 2 * n))
    tail = rng.integers(0, n, m)
    edges = np.stack([tail, (tail + rng.integers(1, n, m)) % n], axis=1)
    u, pq, fixed = draw(n), np.abs(draw(m, 2)), np.full(n, -1)
    solver = cl.Energy(u, edges, pq).solver()
    solver.minimize()
    for _ in range(4):
        for _ in range(int(rng.integers(1, 4))):
            at = rng.integers(0, n, 1)
            kind = rng.integers(0, 3)
            if kind == 0:
                u[at] = draw(1)
                solver.set_unary(at, u[at])
            elif kind == 1:
                e = rng.integers(0, m, 1)
                pq[e] = np.abs(draw(1, 2))
                solver.set_weights(e, pq[e])
            else:
                fixed[at] = rng.integers(-1, 2, 1)
                solver.set_fixed(at, fixed[at])
        warm, cold = solver.minimize(), cl.Energy(u, edges, pq).minimize(fixed)
        if (warm.labels != cold.labels).any():
            return "labels"
        if (warm.value, warm.lower_bound) != (cold.value, cold.lower_bound):
            return "value or bound"
        solver.prove()
    return ""


KINDS = {"ordinary": ordinary, "extreme": extreme, "live": live}


def batch(job):
    """Count the faults of a batch; tell the seed of the first of each kind."""
    kind, seed, number_of_batch, size = job
    rng = np.random.default_rng([seed, list(KINDS).index(kind), number_of_batch])
    faults = {}
    for _ in range(size):
        try:
            fault = KINDS[kind](rng)
        except Exception as error:  # what an attack is looking for
            fault = f"{type(error).__name__}: {error}"
        if fault:
            faults[fault] = faults.get(fault, 0) + 1
    return kind, number_of_batch, faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ordinary", type=int, default=900_000)
    parser.add_argument("--extreme", type=int, default=100_000)
    parser.add_argument("--live", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    counts = {"ordinary": options.ordinary, "extreme": options.extreme, "live": options.live // 4}
    wrong = 0
    with Pool(2) as pool:
        for kind, count in counts.items():
            begin, found = time.monotonic(), {}
            jobs = [(kind, options.seed, k, min(BATCH, count - k * BATCH))
                    for k in range(-(-count // BATCH))]  # fmt: skip
            for _, at, faults in pool.imap_unordered(batch, jobs):
                for fault, times in faults.items():
                    found.setdefault(fault, [0, at])[0] += times
            refused = found.pop("refused", [0])[0]
            wrong += sum(times for times, _ in found.values())
            print(f"{kind}: {count} tried, {refused} refused, {found or 'none wrong'}, "
                  f"{time.monotonic() - begin:.0f} s")  # fmt: skip
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
