"""Recipe: a potential of your own, here a weight for horizontal neighbours that differ.

It owns a slice of w and says what it adds to the energy; loops, learners, certificates follow.
"""

from dataclasses import dataclass

import numpy as np
import pytest

import cutlearn as cl


@dataclass(frozen=True)
class Across(cl.Potential):
    """v times the number of edges along a row whose ends differ, v >= 0."""

    name: str = "across"

    def _along(self, problem):
        ends = problem.edge_ends()
        return (ends[:, 1] - ends[:, 0] == 1).astype(float)

    def count(self, problem):
        return 1

    def psi(self, problem, y):
        ends = problem.edge_ends()
        return np.array([self._along(problem) @ (y[ends[:, 0]] != y[ends[:, 1]])])

    def terms(self, problem, v):
        return cl.Summands(edges=v[0] * self._along(problem))

    def constraints(self, problem):
        return np.eye(1)


def test_it_is_learned_to_a_certified_gap_and_means_what_it_says():
    rng = np.random.default_rng(0)
    truth = [np.kron(rng.integers(0, 2, (6, 1)), np.ones((1, 8), int)) for _ in range(4)]  # stripes
    grid = {"edge_features": np.ones((82, 1)), "shape": (6, 8), "connectivity": 4}
    noisy = [(y - 0.5 + rng.normal(0, 0.6, y.shape)).reshape(-1, 1) for y in truth]
    problems = [cl.Problem(f, **grid) for f in noisy]
    model = cl.Model([cl.Unary(), cl.Contrast(), Across()])
    result = cl.train(problems, truth, C=100.0, model=model)
    assert result.certified
    assert result.converged
    assert result.layout.split(result.w)["across"][0] > 0.01
    y = rng.integers(0, 2, (6, 8))
    energy = model.energy(problems[0], result.w)
    assert energy.value(y) == pytest.approx(result.w @ model.psi(problems[0], y))
    assert result.objective < cl.train(problems, truth, C=100.0).lower_bound, "it can say more"
