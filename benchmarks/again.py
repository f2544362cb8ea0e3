"""Solvers called again and again in one process, in turn, as a program that cuts in a loop does.

    python benchmarks/again.py FILE ROUNDS SOLVER:TASK ...

Prints JSON: for each pair the least CPU milliseconds over the rounds. A task of several calls
counts with their median.
"""

import json
import statistics
import sys

from cell import measured
from instances import Instance
from peers import PEERS


def main(file, rounds, *cells):
    instance = Instance.load(file)
    pairs = [cell.split(":") for cell in cells]
    tasks = {cell: PEERS[s]()[task](instance) for cell, (s, task) in zip(cells, pairs)}
    least = dict.fromkeys(cells, float("inf"))
    for _ in range(int(rounds)):
        for cell, calls in tasks.items():
            spent = statistics.median(measured(call)[0] for call in calls)
            least[cell] = min(least[cell], spent)
    print(json.dumps(least))


if __name__ == "__main__":
    main(*sys.argv[1:])
