"""Problems of several labels, small enough to enumerate, and their losses in plain words."""

from itertools import combinations, product

import numpy as np

import cutlearn as cl
from cutlearn.energy.problem import Problem

SHAPES = [(2, 2), (1, 4), (2, 1), (1, 1), (3, 1)]


def labellings(n, L):
    return np.array(list(product(range(L), repeat=n)), np.uint8)


def random_problem(rng, features=2, edge_features=2, grid=False):
    """At most 5 nodes, on a grid or on a random graph."""
    if grid:
        shape = SHAPES[rng.integers(len(SHAPES))]
        n = int(np.prod(shape))
        count = sum(len(e) for e in cl.grid_edges(shape, 4))
        given = rng.uniform(0, 1, (count, edge_features))
        if rng.random() < 0.5 and edge_features == 2:
            given = np.concatenate(cl.direction_features(shape, 4))
        return Problem(
            rng.normal(size=(n, features)), edge_features=given, shape=shape, connectivity=4
        )
    n = int(rng.integers(2, 6))
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    chosen = rng.permutation(len(pairs))[: int(rng.integers(1, 2 * n))]
    edges = np.array([pairs[k] for k in chosen])
    return Problem(
        rng.normal(size=(n, features)), edges, rng.uniform(0, 1, (len(edges), edge_features))
    )


def psi(problem, y, L):
    """Joint features, term by term."""
    node = np.zeros((L, problem.n_node_features))
    tables = np.zeros((problem.n_edge_features, L, L))
    for i, label in enumerate(y):
        node[label] += problem.node_features[i]
    for e, (i, j) in enumerate(problem.edge_ends()):
        tables[:, y[i], y[j]] += problem.edge_features[e]
    return np.concatenate([node.ravel(), tables.ravel()])


def random_weights(rng, problem, L):
    """Weights with submodular tables."""
    node = rng.normal(size=L * problem.n_node_features)
    tables = []
    for _ in range(problem.n_edge_features):
        V = rng.normal(size=(L, 1)) + rng.normal(size=(1, L))
        for k, j in product(range(1, L), repeat=2):
            V[k:, j:] -= rng.exponential() * (rng.random() < 0.7)
        tables.append(V.ravel())
    return np.concatenate([node, *tables])


def submodular_rows(problem, L):
    """G of G w >= 0: V(a, d) + V(c, b) >= V(a, b) + V(c, d) for all a < c and b < d, each table."""
    rows = []
    for g, (a, c), (b, d) in product(
        range(problem.n_edge_features), *[list(combinations(range(L), 2))] * 2
    ):
        tables = np.zeros((problem.n_edge_features, L, L))
        tables[g, [a, c], [d, b]] = 1
        tables[g, [a, c], [b, d]] = -1
        rows.append(np.concatenate([np.zeros(L * problem.n_node_features), tables.ravel()]))
    return np.array(rows)


def hamming(y, truth):
    return float(sum(a != b for a, b in zip(y, truth) if b != 255))


def absolute(y, truth):
    return float(sum(abs(int(a) - int(b)) for a, b in zip(y, truth) if b != 255))


def count_of(labels):
    """How far the number of nodes with these labels is off."""

    def delta(y, truth):
        known = truth != 255
        return float(abs(np.isin(y[known], labels).sum() - np.isin(truth[known], labels).sum()))

    return delta


def thresholds(L):
    return lambda y, truth: sum(count_of(range(k, L))(y, truth) for k in range(1, L))


def planes(problem, truth, delta, normalize, L):
    """All planes (b, a) of a problem without void nodes, one for each labelling."""
    n = problem.n_nodes
    loss_scale = 1.0 if normalize == "none" else 1.0 / n
    energy_scale = 1.0 / n if normalize == "pixels" else 1.0
    every = labellings(n, L)
    b = np.array([loss_scale * delta(y, truth) for y in every])
    target = psi(problem, truth, L)
    a = np.array([energy_scale * (target - psi(problem, y, L)) for y in every])
    return b, a


def tiny_set(rng, L, grid=False, images=None):
    """Two or three random problems with random labels, every label somewhere."""
    count = int(images or rng.integers(2, 4))
    problems = [random_problem(rng, grid=grid) for _ in range(count)]
    return problems, [rng.integers(0, L, p.n_nodes).astype(np.uint8) for p in problems]
