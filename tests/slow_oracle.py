"""The oracle written with the public parts, one image at a time: the slow twin of the core's."""

import numpy as np

from cutlearn.energy.energy import Energy
from cutlearn.energy.envelopes import Envelope
from cutlearn.learn.oracle import Plane
from linear_energies import envelopes_of, psi, specs_of_model, unary_of, weights_of


class SlowOracle:
    """As `cutlearn.learn.oracle.Oracle`, over a list of edges.

    One live handle serves all w, unless there are regions, whose hinges change with w.
    """

    def __init__(self, task):
        self.task = task
        problem = task.problem
        self.specs = specs_of_model(task.model) or None
        self.truth = psi(problem, task.labels, self.specs)
        # Edges of void nodes are loops, of no weight, on a grid.
        loops = np.equal(*problem.edge_ends().T)
        self.ends = np.where(loops[:, None], [[0, 1]], problem.edge_ends())
        energy = Energy(np.zeros(problem.n_nodes), self.ends, np.zeros(problem.n_edges))
        self.solver = energy.solver(problem.fixed)

    def __call__(self, w):
        task = self.task
        problem = task.problem
        unary = unary_of(problem, w)
        if problem.n_edges:
            self.solver.set_weights(np.arange(problem.n_edges), weights_of(problem, w))
        ratio = task.loss_scale / task.energy_scale
        best = None
        for piece in task.loss.cost[..., 0]:
            labels = self._labels(w, unary + ratio * piece, ratio)
            plane = Plane(
                task.loss_scale * task.loss.value(labels),
                task.energy_scale * (self.truth - psi(problem, labels, self.specs)),
            )
            if best is None or plane.value(w) > best.value(w):
                best = plane
        return best

    def _labels(self, w, unary, ratio):
        problem, counts = self.task.problem, self.task.loss.counts
        if not (self.specs or counts):
            self.solver.set_unary(np.arange(problem.n_nodes), unary)
            return self.solver.minimize().labels
        envelopes = envelopes_of(problem, w, self.specs) + [
            Envelope(e.members, ratio * e.slopes, ratio * e.intercepts, e.weights) for e in counts
        ]
        energy = Energy(unary, self.ends, weights_of(problem, w), envelopes)
        return energy.minimize(problem.fixed).labels
