"""The oracle for potentials that the core does not know: energy, cut, psi, in Python.

Slower than the core's, and as exact: the plane that it gives is the highest one of the image.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cutlearn.energy.envelope import Envelope
from cutlearn.energy.model import assemble, checked_weights
from cutlearn.errors import InputError
from cutlearn.learn.oracle import Plane, Task
from cutlearn.run.workers import Workers

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


class GenericOracle:
    """The oracle of one image, for any potentials.

    Parameters
    ----------
    task : Task
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        if task.loss.table.size:
            raise InputError(
                "loss: a CountFunction given beside potentials that the core does not know; its "
                "scan of counts is the core's. Use Count or Hamming with these potentials."
            )
        self.truth = task.model.psi(task.problem, task.labels)
        ratio = task.loss_scale / task.energy_scale
        self.counts = [
            Envelope(e.members, ratio * e.slopes, ratio * e.intercepts, e.weights)
            for e in task.loss.counts
        ]
        self.unary = ratio * task.loss.unary

    def __call__(self, w: Vector) -> Plane:
        """Give the highest plane of the image at w: the best of one cut for each piece."""
        task = self.task
        terms = task.model.terms(task.problem, w)
        terms.envelopes = terms.envelopes + self.counts
        best: Plane | None = None
        for unary in self.unary:
            energy = assemble(task.problem, replace(terms, unary=terms.unary + unary))
            fixed = task.problem.fixed
            y = energy.minimize(None if fixed is None else fixed.reshape(energy.shape)).labels
            found = task.model.psi(task.problem, y)
            plane = Plane(
                task.loss_scale * task.loss.value(y), task.energy_scale * (self.truth - found)
            )
            # Ties between pieces: the lowest index.
            if best is None or plane.value(w) > best.value(w):
                best = plane
        assert best is not None
        return best


def ask_generic(oracles: Sequence[GenericOracle], w: Vector, threads: int = 1) -> Matrix:
    """Ask every oracle at w; rows b, a of each image's highest plane."""
    checked_weights(w, oracles[0].task.layout.size)
    with Workers(threads) as workers:
        planes = workers.map(lambda oracle: oracle(w), oracles)
    return np.array([[plane.b, *plane.a] for plane in planes])
