"""All min-marginals beside one cut: time, ratio, threads, and what sums over the argmins add.

CPU milliseconds, medians; `cut` is from arrays to labels and `solve` the search alone. `all` is
from arrays to the min-marginals of every node, `sums` the same with the sums that the gradient of a
likelihood needs. `two` is the CPU time of two threads together over that of one. Run with
`python benchmarks/marginals.py --rounds 5 [name ...]`.
"""

import argparse
import os
import statistics
import time

import instances
import ours

ENERGIES = {
    "100x100 easy": lambda: instances.make("2d4-100-seg"),
    "100x100 hard": lambda: instances.make("2d4-100-blur"),
    "480x640 seg": lambda: instances.make("2d4-480x640-seg"),
    "480x640 blur": lambda: instances.grid("2d4", (480, 640), "blur", 3),
    "480x640 regions": lambda: instances.make("regions-300"),
    "64 envelopes": lambda: instances.make("envelopes-64x256"),
}


def spent(work):
    start = time.process_time()
    work()
    return 1e3 * (time.process_time() - start)


def measure(instance):
    energy = ours.energy(instance)
    flow = energy._terms.network(None)
    truth = energy.minimize().labels
    return {
        "cut": spent(lambda: ours.energy(instance).minimize()),
        "solve": spent(flow.solve),
        "search": spent(lambda: flow.min_marginals(1)),
        "all": spent(lambda: ours.energy(instance).min_marginals()),
        "sums": spent(lambda: ours.energy(instance).argmin_sums(truth=truth)),
        "two": spent(lambda: flow.min_marginals(2)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=[])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    print(
        f"CPU ms, medians of {options.rounds} rounds (small ones: ten times as many); load {load}"
    )
    heads = ("cut", "solve", "all", "all/cut", "(s+m)/s", "sums", "sums/all", "two")
    print(f"{'energy':16s}" + "".join(f"{h:>9s}" for h in heads))
    for name in options.names or ENERGIES:
        instance = ENERGIES[name]()
        rounds = options.rounds * (10 if instance.unary.size < 20_000 else 1)
        runs = [measure(instance) for _ in range(rounds)]
        m = {k: statistics.median(r[k] for r in runs) for k in runs[0]}
        row = (
            m["cut"], m["solve"], m["all"], m["all"] / m["cut"], 1 + m["search"] / m["solve"],
            m["sums"], m["sums"] / m["all"], m["two"] / m["search"],
        )  # fmt: skip
        print(f"{name:16s}" + "".join(f"{x:9.2f}" for x in row), flush=True)


if __name__ == "__main__":
    main()
