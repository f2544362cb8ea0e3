"""w . psi(y) is the energy, written out term by term."""

import numpy as np
import pytest

from cutlearn.energy.energy import Energy
from cutlearn.energy.linear import constraints_of, energy_of, layout_of, psi, unary_of, weights_of
from cutlearn.errors import InputError
from cutlearn.features.problem import Problem, grid_edge_counts
from tiny_problems import labellings, random_problem


@pytest.mark.parametrize("grid", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_energy_is_w_times_psi(seed, grid):
    rng = np.random.default_rng(seed)
    p = random_problem(rng, grid=grid)
    w = np.concatenate([rng.normal(size=3), rng.uniform(0, 2, 2)])
    ends = p.edge_ends()
    e = Energy(unary_of(p, w), ends, weights_of(p, w))
    for y in labellings(p.n_nodes):
        by_hand = sum(w[:3] @ f for f, label in zip(p.node_features, y) if label)
        by_hand += sum(w[3:] @ g for (i, j), g in zip(ends, p.edge_features) if y[i] != y[j])
        assert w @ psi(p, y) == pytest.approx(by_hand, rel=1e-12, abs=1e-12)
        assert e.value(y) == pytest.approx(by_hand, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("connectivity", [4, 8])
@pytest.mark.parametrize("edges", [True, False])
def test_energy_of_a_grid_is_that_of_its_edge_list(connectivity, edges):
    rng = np.random.default_rng(connectivity)
    shape = (3, 4)
    count = sum(grid_edge_counts(shape, connectivity))
    features = rng.uniform(0, 1, (count, 2)) if edges else None
    p = Problem(rng.normal(size=(12, 2)), None, features, shape=shape, connectivity=connectivity)
    w = np.concatenate([rng.normal(size=2), rng.uniform(0, 1, p.n_edge_features)])
    on_grid = energy_of(p, w)
    listed = energy_of(Problem(p.node_features, p.edge_ends(), p.edge_features), w)
    for y in rng.integers(0, 2, (20, *shape)):
        assert on_grid.value(y) == pytest.approx(listed.value(y.ravel()), abs=1e-12)
        assert on_grid.value(y) == pytest.approx(w @ psi(p, y), abs=1e-12)
    assert on_grid.minimize().labels.ravel().tolist() == listed.minimize().labels.tolist()


def test_single_precision_features_are_summed_in_double():
    features = np.full((100_001, 1), 0.1, np.float32)
    p = Problem(features)
    exact = 100_001 * float(np.float32(0.1))
    assert psi(p, np.ones(100_001))[0] == pytest.approx(exact, rel=1e-13)
    assert unary_of(p, [3.0])[0] == float(np.float32(0.1)) * 3.0


def test_named_slices():
    p = Problem(np.ones((2, 3)), [[0, 1]], np.ones((1, 2)))
    parts = layout_of(p).split([1, 2, 3, 4, 5])
    assert parts["node"].tolist() == [1, 2, 3]
    assert parts["edge"].tolist() == [4, 5]


def test_constraints_keep_every_edge_submodular():
    p = Problem(np.ones((2, 3)), [[0, 1]], np.ones((1, 2)))
    rows, least = constraints_of(p)
    assert rows.tolist() == [[0, 0, 0, 1, 0], [0, 0, 0, 0, 1]]
    assert least.tolist() == [0, 0]


@pytest.mark.parametrize("w", [[1.0], [1, 2, 3, np.nan, 1], [1, 2, 3, -1, 1]])
def test_weights_that_do_not_fit(w):
    p = Problem(np.ones((2, 3)), [[0, 1]], np.ones((1, 2)))
    with pytest.raises(InputError, match="w: "):
        weights_of(p, w)


def test_labels_that_do_not_fit():
    with pytest.raises(InputError, match="labels: 3 found for 2 nodes"):
        psi(Problem(np.ones((2, 3))), [0, 1, 1])
