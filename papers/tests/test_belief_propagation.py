"""Belief propagation against enumeration: exact on a tree, close on a loop; gradients."""

import itertools

import numpy as np
import pytest

import cutlearn as cl
from cutlearn_papers.belief_propagation import Field, believe, log_likelihood

LABELS, NODES = 3, 5
TREE = [[0, 1], [1, 2], [1, 3], [3, 4]]
LOOP = [[0, 1], [1, 2], [2, 3], [3, 0], [3, 4]]


def drawn(edges, seed=0):
    rng = np.random.default_rng(seed)
    problem = cl.Problem(rng.normal(size=(NODES, 2)), edges=edges,
                         edge_features=rng.random((len(edges), 2)))  # fmt: skip
    rows = np.concatenate([rng.normal(size=(LABELS, 2)), 0.6 * rng.random((LABELS, 2))], axis=1)
    return problem, rows, rng.integers(0, LABELS, NODES).astype(np.uint8)


def energy(problem, rows, edges, y):
    node = rows[:, :2] @ np.asarray(problem.node_features, float).T
    pair = rows[:, 2:] @ np.asarray(problem.edge_features, float).T
    total = sum(node[label, d] for d, label in enumerate(y))
    return total + sum(pair[y[i], m] + pair[y[j], m]
                       for m, (i, j) in enumerate(edges) if y[i] != y[j])  # fmt: skip


def enumerated(problem, rows, edges):
    """Marginals of nodes, chances that just one end has a label, and log Z."""
    nodes, leaving = np.zeros((NODES, LABELS)), np.zeros((len(edges), LABELS))
    for y in itertools.product(range(LABELS), repeat=NODES):
        weight = np.exp(-energy(problem, rows, edges, y))
        for d, label in enumerate(y):
            nodes[d, label] += weight
        for m, (i, j) in enumerate(edges):
            if y[i] != y[j]:
                leaving[m, [y[i], y[j]]] += weight
    Z = nodes[0].sum()
    return nodes / Z, leaving / Z, np.log(Z)


@pytest.mark.parametrize(("edges", "near"), [(TREE, 3e-4), (LOOP, 2e-2)])
def test_beliefs_are_the_marginals_of_a_tree_and_near_those_of_a_loop(edges, near):
    problem, rows, _ = drawn(edges)
    found = believe(Field.of(problem, rows))
    nodes, leaving, log_z = enumerated(problem, rows, edges)
    assert found.settled
    assert np.abs(found.nodes - nodes).max() < near
    assert np.abs(found.leaving - leaving).max() < near
    assert found.log_z == pytest.approx(log_z, abs=near)


def test_a_tree_is_exact_after_as_many_messages_as_it_is_deep():
    problem, rows, y = drawn(TREE)
    found = believe(Field.of(problem, rows), damping=0.0)
    nodes, leaving, log_z = enumerated(problem, rows, TREE)
    assert np.abs(found.nodes - nodes).max() < 1e-12
    assert np.abs(found.leaving - leaving).max() < 1e-12
    assert found.log_z == pytest.approx(log_z, abs=1e-12)
    value, _, _ = log_likelihood(problem, y, rows)
    exact = -energy(problem, rows, TREE, y) - log_z
    assert value == pytest.approx(exact / NODES, abs=1e-6)


def test_the_gradient_is_that_of_the_value():
    problem, rows, y = drawn(LOOP, 1)
    _, slope, _ = log_likelihood(problem, y, rows)
    for k, c in ((0, 0), (1, 1), (2, 2), (0, 3)):
        step = np.zeros_like(rows)
        step[k, c] = 1e-3
        ends = [log_likelihood(problem, y, rows + s * step)[0] for s in (1, -1)]
        assert slope[k, c] == pytest.approx((ends[0] - ends[1]) / 2e-3, abs=2e-4)


def test_what_does_not_settle_is_told():
    problem, rows, _ = drawn(LOOP)
    found = believe(Field.of(problem, rows), most=1)
    assert not found.settled
    assert found.iterations == 1
