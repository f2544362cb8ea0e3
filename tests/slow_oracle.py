"""The oracle written with the public parts, one image at a time: the slow twin of the core's."""

import numpy as np

from cutlearn.energy.energy import Energy
from cutlearn.energy.linear import psi, unary_of, weights_of
from cutlearn.learn.oracle import Plane


class SlowOracle:
    """As `cutlearn.learn.oracle.Oracle`, on one live handle over a list of edges."""

    def __init__(self, task):
        self.task = task
        problem = task.problem
        self.truth = psi(problem, task.labels)
        energy = Energy(np.zeros(problem.n_nodes), problem.edge_ends(), np.zeros(problem.n_edges))
        self.solver = energy.solver(problem.fixed)

    def __call__(self, w):
        task = self.task
        problem = task.problem
        unary = unary_of(problem, w)
        if problem.n_edges:
            self.solver.set_weights(np.arange(problem.n_edges), weights_of(problem, w))
        ratio = task.loss_scale / task.energy_scale
        best = None
        for piece in task.loss.unary:
            self.solver.set_unary(np.arange(problem.n_nodes), unary + ratio * piece)
            labels = self.solver.minimize().labels
            plane = Plane(
                task.loss_scale * task.loss.value(labels),
                task.energy_scale * (self.truth - psi(problem, labels)),
            )
            if best is None or plane.value(w) > best.value(w):
                best = plane
        return best
