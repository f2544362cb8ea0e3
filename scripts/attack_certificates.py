"""Attack the certificates of training: random training sets against exact arithmetic.

    python scripts/attack_certificates.py [--count 10000] [--seed 0] [--jobs 2]

Every max-margin learner, with and without a regulariser, with and without edges, on features whose
sizes span six decades. A certificate is false if some weights have an objective below the lower
bound, or if the gap does not cover the objective of the weights that were returned; both by
fractions. Ends with the counts and exit code 1 if anything was false.
"""

import argparse
import sys
import time
from collections import Counter
from multiprocessing import Pool
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from trainings import draw, fault_of

BATCH = 20


def batch(job):
    """Return the faults of a batch with the seeds of their worlds, and how the others ended."""
    seed, begin, end = job
    faults, ends = [], Counter()
    for number in range(begin, end):
        world = draw(np.random.default_rng([seed, number]))
        kind = f"{world.options['learner']}{', C = inf' * (world.options['C'] == np.inf)}"
        try:
            fault, result = fault_of(world)
        except Exception as error:  # what an attack is looking for
            fault, result = f"{type(error).__name__}: {error}", None
        if fault:
            faults.append((number, kind, fault))
        ends[kind, bool(result and result.converged), bool(result and result.lower_bound > 0)] += 1
    return faults, ends


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    begin, faults, ends = time.monotonic(), [], Counter()
    jobs = [(options.seed, k, min(k + BATCH, options.count))
            for k in range(0, options.count, BATCH)]  # fmt: skip
    with Pool(options.jobs) as pool:
        for found, ended in pool.imap_unordered(batch, jobs):
            ends += ended
            faults += found
            for number, kind, fault in found:
                print(f"training {number} ({kind}): {fault}", flush=True)
    for kind in sorted({key[0] for key in ends}):
        mine = {key[1:]: value for key, value in ends.items() if key[0] == kind}
        print(f"{kind}: {sum(mine.values())} trainings, "
              f"{sum(v for k, v in mine.items() if k[0])} converged, "
              f"{sum(v for k, v in mine.items() if k[1])} with a bound above 0")  # fmt: skip
    print(f"{options.count} trainings, {len(faults)} false, {time.monotonic() - begin:.0f} s")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
