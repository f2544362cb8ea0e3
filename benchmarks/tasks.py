"""What is measured. A task prepares an instance and gives calls, which are timed one by one.

A call gives (value, labels or None); label 1 is the source's side. Tasks:

    cut         the energy's minimum, from numpy arrays to labels, listing of arcs included where
                a solver wants a list
    plain       the same without regions
    new w       every unary 10 % up and every weight 10 % down, there and back, on a solved network
    marginals   least energies with each node at 0 and at 1; their sum is the value
    0.1 % ...   re-solves after that part of the unaries has changed
    parts       ours only: making the energy, making its solver, the first search
"""

from instances import changes

FRACTIONS = {"0.1 %": 0.001, "1 %": 0.01, "10 %": 0.1}
SMALL = 100_000  # nodes; a call on fewer is repeated, for one alone is too short to measure


def from_nothing(solve):
    """The task of calling solve(instance)."""
    return lambda instance: [lambda: solve(instance)] * (9 if instance.unary.size < SMALL else 1)


def resolves(prepare):
    """The tasks of re-solving; prepare(instance) gives change(nodes, added)."""

    def task(fraction):
        def calls(instance):
            change = prepare(instance)
            return [lambda c=c: change(*c) for c in changes(instance, fraction)]

        return calls

    return {name: task(fraction) for name, fraction in FRACTIONS.items()}
