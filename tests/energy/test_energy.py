"""Energies: every way of giving the same numbers, odd shapes, and what is refused."""

import numpy as np
import pytest

import cutlearn as cl
from cutlearn import Energy, Envelope, InputError


def test_both_unary_columns():
    u = np.array([[1.0, 3.0], [2.0, -1.0]])
    cut = Energy(u).minimize()
    assert cut.labels.tolist() == [0, 1]
    assert cut.value == cut.lower_bound == 0.0
    assert Energy(u).value([1, 0]) == 5.0


def test_weights_pairs_and_tables_of_the_same_edge_agree():
    unary, edges = [1.0, -2.0], [[0, 1]]
    for labels in ([0, 0], [0, 1], [1, 0], [1, 1]):
        scalar = Energy(unary, edges, 1.5).value(labels)
        assert scalar == Energy(unary, edges, [1.5]).value(labels)
        assert scalar == Energy(unary, edges, [[1.5, 1.5]]).value(labels)
        assert scalar == Energy(unary, edges, [[[0, 1.5], [1.5, 0]]]).value(labels)


def test_any_submodular_table():
    rng = np.random.default_rng(0)
    for _ in range(200):
        t = rng.integers(-5, 6, (2, 2)).astype(float)
        t[0, 1] += max(0, t[0, 0] + t[1, 1] - t[0, 1] - t[1, 0])
        u = rng.integers(-4, 5, 2)
        energy = Energy(u, [[0, 1]], t[None])
        table = {(a, b): t[a, b] + u[0] * a + u[1] * b for a in (0, 1) for b in (0, 1)}
        for (a, b), value in table.items():
            assert energy.value([a, b]) == value
        cut = energy.minimize()
        assert cut.value == cut.lower_bound == min(table.values())


def test_a_scalar_weight_serves_every_direction():
    u = np.random.default_rng(1).standard_normal((4, 5))
    full = [np.full(b, 0.5) for b in ((4, 4), (3, 5), (3, 4), (3, 4))]
    a, b = Energy.grid(u, 0.5, 8), Energy.grid(u, full, 8)
    assert a.minimize().value == b.minimize().value
    y = (u < 0).astype(int)
    assert a.value(y) == pytest.approx(b.value(y), rel=1e-14)


def test_a_weights_array_of_directions_for_a_cube():
    u = np.random.default_rng(2).standard_normal((1, 1, 3))
    assert Energy.grid(u, 0.1, 6).minimize().labels.shape == (1, 1, 3)


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (7, 1), (1, 1, 1), (1, 4, 1), (5, 1, 1)])
def test_thin_grids_equal_their_list_of_edges(shape):
    rng = np.random.default_rng(3)
    u = rng.integers(-9, 10, shape)
    for connectivity in (4, 8) if len(shape) == 2 else (6, 10, 18, 26):
        edges = np.concatenate(cl.grid_edges(shape, connectivity))
        grid = Energy.grid(u, 3.0, connectivity).minimize()
        listed = Energy(u.ravel(), edges, np.full(len(edges), 3.0)).minimize()
        assert grid.labels.ravel().tolist() == listed.labels.tolist()
        assert grid.value == listed.value


def test_inputs_are_left_alone_and_any_order_works():
    rng = np.random.default_rng(4)
    u = rng.standard_normal((6, 7))
    w = [rng.random((6, 6)), rng.random((5, 7))]
    expected = Energy.grid(u, w).minimize()
    for array in (u, *w):
        array.flags.writeable = False
    fortran = Energy.grid(np.asfortranarray(u), [np.asfortranarray(a) for a in w])
    assert (fortran.minimize().labels == expected.labels).all()
    solver = Energy.grid(u, w).solver()
    before = u.copy()
    solver.set_unary([0, 1], [9.0, -9.0])
    solver.minimize()
    assert (u == before).all()


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.float32, np.bool_])
def test_number_types(dtype):
    u = np.array([1, 0, 1]).astype(dtype)
    assert Energy(u, [[0, 1]], np.array([1], dtype)).minimize().value == 0.0


def test_huge_ratios_keep_both_ends():
    cut = Energy([-1e300, 1.0, -0.25], [[0, 1], [1, 2]], [1.5, 1e-3]).minimize()
    assert cut.labels.tolist() == [1, 1, 1]
    cut = Energy([-1e300, 1.0, -0.25], [[0, 1], [1, 2]], [0.5, 1e-3]).minimize()
    assert cut.labels.tolist() == [1, 0, 1]
    assert Energy([-3e-290, 1e-290], [[0, 1]], [2e-290]).minimize().labels.tolist() == [1, 1]


def test_seeds_as_huge_unaries_keep_the_contrast():
    u = np.zeros((1, 6))
    u[0, 0], u[0, -1] = -1e12, 1e12
    w = [np.array([[5.0, 4.0, 3.0, 4.0, 5.0]]), np.empty((0, 6))]
    assert Energy.grid(u, w).minimize().labels.tolist() == [[1, 1, 1, 0, 0, 0]]


def test_fixed_labels():
    energy = Energy.grid(np.full((3, 3), -1.0), 0.5)
    fixed = np.full((3, 3), -1)
    fixed[1, 1] = 0
    cut = energy.minimize(fixed)
    assert cut.labels.sum() == 8
    assert cut.labels[1, 1] == 0
    assert cut.value == energy.value(cut.labels) == -6.0
    phi = energy.min_marginals(fixed)
    assert np.isinf(phi[1, 1, 1])
    assert phi[..., 0].min() == cut.value


REFUSED = {
    "non-submodular list": (lambda: Energy([0, 0, 0], [[0, 1], [1, 2]], [1, -2]).minimize(),
                            r"edge 1 \(nodes 1 and 2\) has p \+ q = -4, the worst"),
    "non-submodular grid": (lambda: Energy.grid(np.zeros((3, 3)),
                                                [np.ones((3, 2)), -np.eye(2, 3)]).minimize(),
                            r"edge 0 of direction 1 \(nodes \(0, 0\) and \(1, 0\)\) has p \+ q ="),
    "non-submodular table": (lambda: Energy([0, 0], [[0, 1]], [[[1, 0], [0, 1]]]).minimize(),
                             r"p \+ q = -2"),
    "nan unary": (lambda: Energy.grid([[0, np.nan], [0, 0]], 1).minimize(), r"unary\[0, 1\] is n"),
    "infinite unary": (lambda: Energy([0, np.inf]).minimize(), r"unary\[1\] is inf"),
    "nan weight": (lambda: Energy([0, 0], [[0, 1]], [np.nan]).minimize(), r"edge 0 .* not finite"),
    "sum overflows": (lambda: Energy([1e308, 1e308, -1e308]).minimize(), r"range of float64"),
    "text": (lambda: Energy(["a"]), r"unary must hold real numbers, not dtype"),
    "complex": (lambda: Energy([1j]), r"unary must hold real numbers, not dtype complex128"),
    "ragged": (lambda: Energy([[1, 2], [3]]), r"unary must be an array"),
    "empty": (lambda: Energy([]), r"unary has shape \(0,\)"),
    "index": (lambda: Energy([0, 0], [[0, 2]], [1]), r"index 2, but indices run from 0 to 1"),
    "negative index": (lambda: Energy([0, 0], [[0, -1]], [1]), r"edges has index -1"),
    "float index": (lambda: Energy([0, 0], [[0.0, 1.0]], [1]), r"not dtype float64"),
    "loop": (lambda: Energy([0, 0], [[1, 1]], [1]), r"edges\[0\] joins node 1 to itself"),
    "edge shape": (lambda: Energy([0, 0], [0, 1], [1]), r"edges has shape \(2,\)"),
    "weights missing": (lambda: Energy([0, 0], [[0, 1]]), r"weights are missing"),
    "weights shape": (lambda: Energy([0, 0], [[0, 1]], [1, 2]), r"weights has shape \(2,\)"),
    "grid weights": (lambda: Energy.grid(np.zeros((3, 3)), [1.0]), r"weights has 1 arrays"),
    "cropped shape": (lambda: Energy.grid(np.zeros((3, 3)), [np.ones((3, 3))] * 2),
                      r"weights\[0\] has shape \(3, 3\), but must have shape \(3, 2\)"),
    "connectivity": (lambda: Energy.grid(np.zeros((3, 3)), 1, 6), r"connectivity must be 4 or 8"),
    "dimensions": (lambda: Energy.grid(np.zeros(3), 1), r"has 1 dimensions"),
    "fixed shape": (lambda: Energy([0, 0]).minimize([0]), r"fixed has shape \(1,\)"),
    "fixed value": (lambda: Energy([0, 0]).minimize([0, 2]), r"fixed must be .*, not 2"),
    "labels value": (lambda: Energy([0, 0]).value([0, -1]), r"labels must be 0 or 1, not -1"),
    "labels shape": (lambda: Energy([0, 0]).value([[0, 1]]), r"labels has shape \(1, 2\)"),
    "member": (lambda: Energy([0, 0], envelopes=[Envelope([2], [1], [0])]),
               r"envelopes\[0\] has member 2"),
    "not an envelope": (lambda: Energy([0], envelopes=[([0], [1], [0])]), r"Envelope, not tuple"),
    "member weight": (lambda: Envelope([0, 1], [1], [0], [1, -1]), r"weights\[1\] is -1"),
    "member twice": (lambda: Envelope([0, 0], [1], [0]), r"lists a node twice"),
    "line count": (lambda: Envelope([0], [1, 2], [0]), r"slopes and intercepts"),
    "nan line": (lambda: Envelope([0], [np.nan], [0]), r"slopes\[0\] is nan"),
    "member weights": (lambda: Envelope([0, 1], [1], [0], [1]), r"weights has 1 values"),
    "handle unary": (lambda: Energy([0.0]).solver().set_unary([0], [np.nan]), r"values\[0\] is n"),
    "handle index": (lambda: Energy([0.0, 0]).solver().set_unary([5], [1]), r"index has index 5"),
    "handle mask": (lambda: Energy([0.0, 0]).solver().set_unary(np.ones(3, bool), 1), r"a mask of"),
    "handle weights": (lambda: Energy([0.0, 0], [[0, 1]], [1]).solver().set_weights([0], [[1, -2]]),
                       r"p \+ q = -1"),
    "handle fixed": (lambda: Energy([0.0, 0]).solver().set_fixed([0], [3]), r"labels must .*not 3"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_what_and_where(name):
    work, message = REFUSED[name]
    with pytest.raises(InputError, match=message):
        work()


def test_rounding_of_a_table_counts_as_zero():
    table = [[[0.1 + 0.2, 0.3], [0.0, 0.0]]]  # t01 + t10 - t00 - t11 = -5.6e-17
    cut = Energy([0.0, 1.0], [[0, 1]], table).minimize()
    assert cut.labels.tolist() == [1, 0]
    assert abs(cut.value) <= 1e-15
