"""A problem is checked at the door, and void nodes leave it without a trace."""

import numpy as np
import pytest

from cutlearn.energy.problem import Problem
from cutlearn.errors import InputError
from cutlearn.grid import grid_edge_counts, grid_edges
from linear_energies import psi
from tiny_problems import full_grid_edges, labellings, random_problem


def test_shapes_and_counts():
    p = Problem(np.ones((3, 2)), [[0, 1], [1, 2]], np.ones((2, 4)))
    assert (p.n_nodes, p.n_edges, p.n_node_features, p.n_edge_features, p.n_weights) == (
        3, 2, 2, 4, 6,
    )  # fmt: skip
    assert p.node_features.dtype == np.float64
    assert Problem(np.ones((3, 2), np.float32)).node_features.dtype == np.float32
    assert Problem(np.ones((3, 2), np.uint8)).node_features.dtype == np.float64


def test_edges_without_features_get_one():
    p = Problem(np.ones((3, 2)), [[0, 1], [1, 2]])
    assert p.edge_features.tolist() == [[1.0], [1.0]]
    assert Problem(np.ones((3, 2))).n_weights == 2


def test_it_is_a_value():
    given = np.ones((3, 2))
    p = Problem(given)
    with pytest.raises(ValueError):
        p.node_features[0] = 3
    with pytest.raises(AttributeError):
        p.edges = None
    assert given.flags.writeable


def test_grid_edges_are_those_written_by_hand():
    p = Problem(np.ones((2, 3, 1)), edge_features=np.ones((7, 1)), shape=(2, 3))
    assert [tuple(e) for e in p.edge_ends().tolist()] == full_grid_edges(p)


@pytest.mark.parametrize(("shape", "connectivity"), [((3, 4), 8), ((2, 3, 4), 6), ((2, 3, 3), 26)])
def test_every_pair_of_neighbours_is_an_edge_once(shape, connectivity):
    count = sum(grid_edge_counts(shape, connectivity))
    n = int(np.prod(shape))
    p = Problem(np.ones((n, 1)), None, np.ones((count, 1)), shape=shape, connectivity=connectivity)
    place = np.stack(np.unravel_index(np.arange(n), shape), axis=1)
    near = {
        (i, j)
        for i in range(n)
        for j in range(n)
        if i < j
        and np.abs(place[i] - place[j]).max() == 1
        and (connectivity in (8, 26) or np.abs(place[i] - place[j]).sum() == 1)
    }
    found = [tuple(sorted(e)) for e in p.edge_ends().tolist()]
    assert len(found) == len(near)
    assert set(found) == near


def test_grid_features_a_direction_each():
    right, down = np.full((2, 2, 1), 0.25), np.full((1, 3, 1), 0.5)
    p = Problem(np.ones((6, 1)), edge_features=[right, down], shape=(2, 3))
    assert p.edge_features[:, 0].tolist() == [0.25] * 4 + [0.5] * 3


def test_regions_from_a_map_and_from_lists():
    two = [[1], [0, 3]]
    by_map = np.array([1, 0, -1, 1])
    for given in (by_map, by_map.reshape(2, 2), two, [np.array(r) for r in two]):
        (family,) = Problem(np.ones((4, 1)), regions=given).regions
        assert [r.tolist() for r in family] == two
    assert Problem(np.ones((4, 1))).regions == ()


@pytest.mark.parametrize(
    "given",
    [
        [np.array([0, 0, 1, 1]), np.array([0, 0, 0, -1])],
        np.array([[[5, 5], [7, 7]], [[1, 1], [1, -3]]]),
        [[[0, 1], [2, 3]], np.array([[2, 2], [2, -1]])],
        [[np.array([0, 1]), np.array([2, 3])], [[0, 1, 2]]],
    ],
)
def test_families_of_regions(given):
    fine, coarse = Problem(np.ones((4, 1)), regions=given).regions
    assert [r.tolist() for r in fine] == [[0, 1], [2, 3]]
    assert [r.tolist() for r in coarse] == [[0, 1, 2]]
    assert fine.counts(np.array([1, 0, 1, 1], bool)).tolist() == [1, 2]
    assert coarse[-1].tolist() == [0, 1, 2]


def test_a_region_of_all_nodes_is_no_map():
    (family,) = Problem(np.ones((3, 1)), regions=[np.arange(3)]).regions
    assert [r.tolist() for r in family] == [[0, 1, 2]]


def test_a_family_may_lose_all_its_regions():
    p = Problem(np.ones((3, 1)), regions=[[[0], [0, 1]], [[2]]])
    kept, _ = p.training([255, 255, 1])
    assert [len(family) for family in kept.regions] == [0, 1]


ONE = np.ones((2, 1))
BAD = {
    "NaN": lambda: Problem([[np.nan], [1.0]]),
    "infinity": lambda: Problem([[np.inf], [1.0]]),
    "text": lambda: Problem([["a"], ["b"]]),
    "flat": lambda: Problem([1.0, 2.0]),
    "no nodes": lambda: Problem(np.zeros((0, 2))),
    "index too large": lambda: Problem(ONE, [[0, 2]]),
    "index negative": lambda: Problem(ONE, [[0, -1]]),
    "index not whole": lambda: Problem(ONE, [[0.0, 1.0]]),
    "a loop": lambda: Problem(ONE, [[1, 1]]),
    "not pairs": lambda: Problem(ONE, [[0, 1, 0]]),
    "edge features of another length": lambda: Problem(ONE, [[0, 1]], np.ones((2, 1))),
    "edge features below zero": lambda: Problem(ONE, [[0, 1]], [[-0.5]]),
    "grid of another size": lambda: Problem(ONE, shape=(2, 2)),
    "grid with edge list": lambda: Problem(ONE, [[0, 1]], shape=(1, 2)),
    "unknown connectivity": lambda: Problem(ONE, shape=(1, 2), connectivity=5),
    "one axis": lambda: Problem(ONE, shape=(2,), connectivity=4),
    "directions missing": lambda: Problem(ONE, edge_features=[np.ones((1, 1, 1))], shape=(1, 2)),
    "region out of range": lambda: Problem(ONE, regions=[[2]]),
    "region twice": lambda: Problem(ONE, regions=[[1, 1]]),
    "region map of another size": lambda: Problem(ONE, regions=np.zeros(3, int)),
    "fixed of another size": lambda: Problem(ONE, fixed=[0]),
    "fixed to -2": lambda: Problem(ONE, fixed=[0, -2]),
    "fixed to 2 of 2": lambda: Problem(ONE, fixed=[0, 2]).training([0, 1]),
    "labels of another size": lambda: Problem(ONE).training([0]),
    "labels unknown": lambda: Problem(ONE).training([0, 7]),
    "all void": lambda: Problem(ONE).training([255, 255]),
    "fixed against the labels": lambda: Problem(ONE, fixed=[0, -1]).training([1, 0]),
}


@pytest.mark.parametrize("case", BAD)
def test_refusals(case):
    with pytest.raises(
        InputError, match=r"^\w+(\[\d\])* (has|have|is|are|must|disagree|joins|and shape) "
    ):
        BAD[case]()


def test_without_void_the_problem_is_itself():
    p = Problem(ONE, [[0, 1]])
    kept, labels = p.training([0, 1])
    assert kept is p
    assert labels.tolist() == [0, 1]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("grid", [False, True])
def test_void_nodes_leave_with_edges_and_memberships(seed, grid):
    """psi of the training problem = psi summed by hand over labelled nodes and edges."""
    rng = np.random.default_rng(seed)
    p = random_problem(rng, grid=grid)
    n = p.n_nodes
    void = rng.random(n) < 0.4
    void[rng.integers(n)] = False
    p = Problem(p.node_features, p.edges, p.edge_features, [np.arange(n)], None, p.shape,
                p.connectivity)  # fmt: skip
    truth = np.where(void, 255, rng.integers(0, 2, n))
    kept, labels = p.training(truth)
    assert kept.regions[0].sizes.tolist() == [(~void).sum()]
    assert labels.tolist() == np.where(void, 0, truth).tolist()
    assert kept.known is None or kept.known.tolist() == (~void).tolist()
    ends = p.edge_ends()
    for y in labellings(n)[rng.integers(0, 2**n, 8)]:
        nodes = sum((p.node_features[i] for i in range(n) if y[i] and not void[i]), np.zeros(3))
        edges = sum(
            (
                g
                for (i, j), g in zip(ends, p.edge_features)
                if y[i] != y[j] and not void[i] and not void[j]
            ),
            np.zeros(2),
        )
        found = psi(kept, np.where(void, 0, y))
        np.testing.assert_allclose(found, np.concatenate([nodes, edges]), atol=1e-12)


@pytest.mark.parametrize(
    ("shape", "connectivity"),
    [((3, 4), 4), ((3, 4), 8), ((2, 3, 4), 6), ((2, 3, 3), 18), ((2, 3, 3), 26), ((1, 5), 8)],
)
def test_edges_have_the_order_of_the_solvers(shape, connectivity):
    wanted = grid_edges(shape, connectivity)
    assert grid_edge_counts(shape, connectivity) == [len(part) for part in wanted]
    count = sum(map(len, wanted))
    p = Problem(np.ones((*shape, 1)), None, np.ones((count, 1)), shape=shape,
                connectivity=connectivity)  # fmt: skip
    assert p.edge_ends().tolist() == np.concatenate(wanted).tolist()


def test_void_nodes_leave_a_grid_without_edges():
    bare = Problem(np.ones((2, 3, 1)), shape=(2, 3), connectivity=8)
    kept, labels = bare.training([[0, 1, 255], [1, 0, 0]])
    assert kept.n_edges == 0
    assert kept.node_features[:, 0].tolist() == [1, 1, 0, 1, 1, 1]
    assert labels.tolist() == [0, 1, 0, 1, 0, 0]
