"""The door of OrderedEnergy: what it takes, what it refuses, how exact it says it is."""

import numpy as np
import pytest

import cutlearn as cl

STEPS = np.abs(np.subtract.outer(np.arange(3), np.arange(3))).astype(float)
POTTS = 1.0 - np.eye(3)
ZEROS = np.zeros((3, 3))


def test_two_labels_are_the_binary_energy():
    rng = np.random.default_rng(0)
    unary = rng.normal(size=(9, 7, 2))
    table = np.array([[0.0, 0.7], [0.4, 0.0]])
    ordered = cl.OrderedEnergy.grid(unary, table, 8).minimize()
    weights = [
        np.broadcast_to([0.7, 0.4], (*(s.stop - s.start for s in tail), 2))
        for tail, _ in cl.grid.grid_slices((9, 7), 8)
    ]
    binary = cl.Energy.grid(unary[..., 1] - unary[..., 0], weights, 8).minimize()
    assert (ordered.labels == binary.labels).all()
    assert ordered.value == pytest.approx(binary.value + unary[..., 0].sum(), rel=1e-14)
    assert ordered.changed.tolist() == binary.changed.tolist()


def test_huge_unaries_leave_the_tables_their_precision():
    """Seeds of 1e15 beside tables of 1e-3: the bound stays far below the tables."""
    rng = np.random.default_rng(1)
    unary = 1e-3 * rng.random((20, 30, 3))
    seeds = rng.random((20, 30)) < 0.05
    unary[seeds] = [1e15, 0, 1e15]
    energy = cl.OrderedEnergy.grid(unary, 1e-3 * STEPS)
    cut = energy.minimize()
    assert (cut.labels[seeds] == 1).all()
    assert cut.value - cut.lower_bound < 1e-12
    assert cut.value == pytest.approx(energy.value(cut.labels), abs=1e-12)
    phi = energy.min_marginals()
    assert phi[seeds][:, [0, 2]].min() > 0.999e15
    assert phi.min() == cut.value


def test_fixed_labels_hold_even_where_they_are_dear():
    unary = [[0.0, 50.0, 1e12], [0.0, 3.0, 0.0]]
    energy = cl.OrderedEnergy(unary, [[0, 1]], 2 * STEPS)
    cut = energy.minimize([2, -1])
    assert cut.labels.tolist() == [2, 2]
    assert cut.value == cut.lower_bound == 1e12
    assert energy.min_marginals([2, -1]).tolist() == [
        [np.inf, np.inf, 1e12],
        [1e12 + 4, 1e12 + 5, 1e12],
    ]


def test_rounding_in_a_table_is_no_fault():
    """Second differences of -1e-12 count as zero, and the lower bound knows; -1e-3 are refused."""
    flat = np.add.outer([0.1, 0.2, 0.3], [0.7, 0.1, 0.2])
    flat[1:, 1:] += 1e-12
    unary = [[0, 1, 2.0], [0.3, 0.1, 0.2]]
    energy = cl.OrderedEnergy(unary, [[0, 1]], flat)
    cut = energy.minimize()
    least = min(energy.value([a, b]) for a in range(3) for b in range(3))
    assert cut.lower_bound <= least <= energy.value(cut.labels)
    assert 1e-12 <= cut.value - cut.lower_bound < 1e-11
    flat[1:, 1:] += 1e-3
    with pytest.raises(cl.InputError, match="not submodular"):
        cl.OrderedEnergy(unary, [[0, 1]], flat).minimize()


def test_no_edges_need_no_tables():
    cut = cl.OrderedEnergy([[3, 1, 2], [0, 0, 0], [2, 2, 1]]).minimize()
    assert cut.labels.tolist() == [1, 0, 2]
    assert cut.value == 2


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: cl.OrderedEnergy([1.0, 2.0]), r"unary has shape \(2,\), .* \(n, L\)"),
        (lambda: cl.OrderedEnergy(np.zeros((2, 1))), "2 to 255 labels"),
        (lambda: cl.OrderedEnergy(np.zeros((2, 3)), [[0, 1]]), "tables must be given"),
        (lambda: cl.OrderedEnergy(np.zeros((2, 3)), [[0, 2]], STEPS), "has index 2"),
        (lambda: cl.OrderedEnergy(np.zeros((2, 3)), [[1, 1]], STEPS), "to itself"),
        (lambda: cl.OrderedEnergy(np.zeros((2, 3)), [[0, 1]], np.eye(2)), r"\(3, 3\) or \(1, 3"),
        (lambda: cl.OrderedEnergy([[0, np.nan, 1]]).minimize(), r"unary\[0, 1\] is nan"),
        (
            lambda: cl.OrderedEnergy.grid(np.zeros((2, 3, 3)), [STEPS, STEPS + np.inf]).minimize(),
            r"table of direction 1 is inf at labels \(0, 0\)",
        ),
        (lambda: cl.OrderedEnergy.grid(np.zeros((2, 3, 3)), [STEPS] * 3), "has 3 arrays"),
        (
            lambda: cl.OrderedEnergy(np.zeros((2, 3)), [[0, 1]], POTTS).minimize(),
            r"edge 0 \(nodes 0 and 1\) has V\(0,2\) \+ V\(1,1\) - V\(0,1\) - V\(1,2\) = -1,",
        ),
        (
            lambda: cl.OrderedEnergy(ZEROS, [[0, 1], [2, 1]], [STEPS, 3 * POTTS]).minimize(),
            r"edge 1 \(nodes 2 and 1\) has .* = -3, the worst of all",
        ),
        (lambda: cl.OrderedEnergy(np.full((2, 3), 1e308)).minimize(), "range of float64"),
        (lambda: cl.OrderedEnergy(np.zeros((2, 3))).minimize([3, -1]), "-1 .free., 0 to 2, not 3"),
        (lambda: cl.OrderedEnergy(np.zeros((2, 3))).value([0, 1, 2]), r"has shape \(3,\)"),
        (lambda: cl.OrderedEnergy(np.zeros((2, 3))).value([0.5, 1]), "integer labels"),
    ],
)  # fmt: skip
def test_refusals(make, words):
    with pytest.raises(cl.InputError, match=words):
        make()
