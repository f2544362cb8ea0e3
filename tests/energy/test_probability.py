"""Probabilities against enumeration."""

import numpy as np
import pytest

import cutlearn as cl
import slow_likelihood
import tiny_labels
import tiny_problems
from cutlearn.energy.envelopes import EnvelopeSpec


@pytest.mark.parametrize("chunk", range(4))
def test_two_labels_against_enumeration(chunk):
    rng = np.random.default_rng([71, chunk])
    for trial in range(25):
        p = tiny_problems.random_problem(rng, grid=trial % 2 == 0)
        spec = EnvelopeSpec(3) if trial % 3 == 0 else None
        w = np.append(rng.normal(size=3), rng.uniform(0, 1, 2))
        if spec:
            p = tiny_problems.with_regions(p, tiny_problems.random_regions(rng, p.n_nodes))
            w = np.append(w, tiny_problems.random_vector(rng, spec))
        phi, _ = slow_likelihood.min_marginals(p, w, spec)
        found = cl.probabilities(p, w, spec, n_jobs=1 + trial % 2)
        assert np.abs(found - slow_likelihood.softmax(phi)).max() < 1e-9


@pytest.mark.parametrize("L", [2, 3, 4])
def test_ordered_labels_against_enumeration(L):
    rng = np.random.default_rng([72, L])
    for trial in range(15):
        p = tiny_labels.random_problem(rng, grid=trial % 2 == 0)
        w = tiny_labels.random_weights(rng, p, L)
        every = tiny_labels.labellings(p.n_nodes, L)
        energies = np.array([tiny_labels.psi(p, y, L) @ w for y in every])
        phi = np.array(
            [[energies[every[:, d] == k].min() for k in range(L)] for d in range(p.n_nodes)]
        )
        found = cl.probabilities(p, w, cl.Model(labels="ordered"))
        assert np.abs(found - slow_likelihood.softmax(phi)).max() < 1e-8


def test_extreme_costs_stay_probabilities():
    p = cl.Problem([[1.0], [-1.0]], [[0, 1]])
    q = cl.probabilities(p, [1e6, 0.0])
    assert q.tolist() == [[1.0, 0.0], [0.0, 1.0]]
