"""Moves by enumeration: each is the best of all 2^n, the end is a local optimum, energy falls."""

from itertools import combinations, product

import numpy as np
import pytest

import cutlearn as cl
from cutlearn import _core
from cutlearn.energy.moves import EdgeTables, LinearTables, UnorderedEnergy, expansion, swapping
from worlds import envelope, numbers

POTTS = 1.0 - np.eye(3)
ONE = cl.Envelope([0], [1], [0])


def metric(rng, L):
    """A whole-number metric: distances between points, some of them equal."""
    points = rng.integers(0, 4, (L, 3))
    return np.abs(points[:, None] - points[None]).sum(axis=-1).astype(float)


def semimetric(rng, L):
    V = rng.integers(0, 9, (L, L)).astype(float)
    np.fill_diagonal(V, 0)
    return V


def world(rng, table, envelopes=True):
    n, L = int(rng.integers(1, 7)), int(rng.integers(2, 5))
    m = int(rng.integers(0, 2 * n)) if n > 1 else 0
    edges = np.array([rng.choice(n, 2, replace=False) for _ in range(m)], int).reshape(-1, 2)
    tables = np.array([table(rng, L) for _ in range(m)]).reshape(-1, L, L)
    tables = tables if rng.random() < 0.5 else table(rng, L)
    unary = numbers(rng, (n, L), whole=True) + 6
    count = int(rng.integers(0, 4)) if envelopes else 0
    some = [(int(rng.integers(L)), cl.Envelope(*envelope(rng, n, True))) for _ in range(count)]
    return unary, edges, tables, some


def energy(w, y):
    """In plain words, sharing nothing with the code."""
    unary, edges, tables, envelopes = w
    total = sum(unary[i, label] for i, label in enumerate(y))
    for e, (i, j) in enumerate(edges):
        total += (tables if tables.ndim == 2 else tables[e])[y[i], y[j]]
    for label, c in envelopes:
        s = sum(m for i, m in zip(c.members, c.weights) if y[i] == label)
        total += min(a * s + b for a, b in zip(c.slopes, c.intercepts))
    return total


def outcomes(y, kind, labels):
    """All labelings that one move leads to."""
    if kind == "expansion":
        options = [(label, labels[0]) for label in y]
    else:
        options = [labels if label in labels else (label,) for label in y]
    return [list(z) for z in set(product(*options))]


def every_move(kind, L):
    return [(a,) for a in range(L)] if kind == "expansion" else list(combinations(range(L), 2))


@pytest.mark.parametrize("kind", ["expansion", "swap"])
@pytest.mark.parametrize("chunk", range(5))
def test_a_move_is_the_best_of_all(kind, chunk):
    rng = np.random.default_rng([1, chunk])
    for _ in range(40):
        w = world(rng, metric if kind == "expansion" else semimetric)
        n, L = w[0].shape
        field = UnorderedEnergy(*w)
        y = rng.integers(0, L, n)
        assert field.value(y) == energy(w, y)
        for labels in every_move(kind, L):
            move = (expansion if kind == "expansion" else swapping)(*labels, L)
            found = field.best_choice(y, move)
            least = min(energy(w, z) for z in outcomes(y, kind, labels))
            assert energy(w, found) == least


@pytest.mark.parametrize("kind", ["expansion", "swap"])
def test_the_end_is_a_local_optimum(kind):
    rng = np.random.default_rng(2)
    for _ in range(60):
        w = world(rng, metric if kind == "expansion" else semimetric)
        n, L = w[0].shape
        start = rng.integers(0, L, n)
        r = (cl.expand if kind == "expansion" else cl.swap)(*w, start=start)
        assert r.value == energy(w, r.labels) <= energy(w, start)
        assert (r.moves == 0) == (r.value == energy(w, start))
        for labels in every_move(kind, L):
            assert min(energy(w, z) for z in outcomes(r.labels.tolist(), kind, labels)) >= r.value


def test_expansion_is_within_twice_the_optimum():
    """Boykov, Veksler and Zabih: factor 2 max V / min V of different labels, unaries >= 0."""
    rng = np.random.default_rng(3)
    for _ in range(60):
        unary, edges, _, _ = world(rng, metric, envelopes=False)
        n, L = unary.shape
        w = unary, edges, 3.0 * (1 - np.eye(L)), []
        best = min(energy(w, y) for y in product(range(L), repeat=n))
        assert best <= cl.expand(*w).value <= 2 * best


def test_two_labels_are_one_exact_cut():
    rng = np.random.default_rng(4)
    unary = rng.normal(size=(12, 9, 2))
    edges = np.concatenate(cl.grid_edges((12, 9), 4))
    table = np.array([[0, 0.5], [0.3, 0]])
    exact = cl.OrderedEnergy(unary.reshape(-1, 2), edges, table).minimize()
    for method in (cl.expand, cl.swap):
        r = method(unary, edges, table)
        assert r.labels.shape == (12, 9)
        assert r.value == pytest.approx(exact.value, rel=1e-13)


def test_fixed_nodes_keep_their_label():
    r = cl.expand([[0, 9, 9], [9, 0, 9]], [[0, 1]], POTTS, fixed=[2, -1])
    assert r.labels.tolist() == [2, 1]
    r = cl.swap([[0, 9, 9], [1, 0, 1.5]], [[0, 1]], 3 * POTTS, fixed=[2, -1])
    assert r.labels.tolist() == [2, 2]


def test_robust_potts_of_a_region():
    """A region that mostly agrees on label 1 takes it as a whole, up to a truncated cost."""
    unary = np.array([[1.0, 0, 2]] * 4 + [[0.0, 0.5, 2]])
    agree = cl.Envelope(range(5), [0.0, -2.0], [1.5, 10.0])  # 0 if all have label 1, at most 1.5
    alone = cl.expand(unary)
    assert alone.labels.tolist() == [1, 1, 1, 1, 0]
    r = cl.expand(unary, envelopes=[(1, agree)])
    assert r.labels.tolist() == [1, 1, 1, 1, 1]
    assert r.value == 0.5


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: cl.expand(np.zeros((2, 3)), [[0, 1]], [[0, 1, 5], [1, 0, 1], [5, 1, 0]]),
            r"table has V\(a,1\) \+ V\(1,b\) - V\(a,b\) - V\(1,1\) = -3 for a = 0, b = 2",
        ),
        (
            lambda: cl.expand(np.zeros((2, 3)), [[0, 1], [1, 0]], [POTTS, -POTTS]),
            r"table of edge 1 \(nodes 1 and 0\) has .* Use swap",
        ),
        (
            lambda: cl.swap(np.zeros((2, 3)), [[0, 1]], np.diag([0, 1.0, 0])),
            r"V\(a,b\) \+ V\(b,a\) - V\(a,a\) - V\(b,b\) = -1 for a = 0, b = 1",
        ),
        (lambda: cl.expand(np.zeros((2, 3)), [[0, 1]]), "tables must be given"),
        (lambda: cl.expand([[0, np.inf]]), r"unary\[0, 1\] is inf"),
        (lambda: cl.expand([[0, 1.0]], envelopes=[(2, ONE)]), "has label 2"),
        (lambda: cl.expand([[0, 1.0]], envelopes=[ONE]), "a pair"),
        (lambda: cl.expand([[0, 1.0]], envelopes=[(1, cl.Envelope([4], [1], [0]))]), "member 4"),
        (lambda: cl.expand([[0, 1.0]], start=[2]), "start must be 0 or 1, not 2"),
        (lambda: cl.expand([[0, 1.0]], fixed=[0, 0]), "fixed has shape"),
    ],
)  # fmt: skip
def test_refusals(make, words):
    with pytest.raises(cl.InputError, match=words):
        make()


def grid_world(rng, L):
    """A problem on a grid whose tables are linear in edge features, and its weights."""
    shape, G = tuple(rng.integers(1, 5, 2).tolist()), int(rng.integers(1, 4))
    connectivity = int(rng.choice([4, 8]))
    m = sum(len(e) for e in cl.grid_edges(shape, connectivity))
    features = rng.integers(0, 3, (m, G)).astype(np.float32)
    unary = rng.integers(-8, 9, (shape[0] * shape[1], L)).astype(float)
    fixed = rng.choice([-1, -1, -1, 0, L - 1], len(unary)) if rng.random() < 0.3 else None
    problem = cl.Problem(
        unary, shape=shape, connectivity=connectivity, edge_features=features if m else None,
        fixed=fixed,
    )  # fmt: skip
    return problem, np.array([metric(rng, L) for _ in range(G)])


def test_grids_with_linear_tables_move_as_lists_of_edges_do():
    """Whole numbers: the same energies, the same moves, the same labels, bit by bit."""
    rng = np.random.default_rng(5)
    joined = 0
    for _ in range(80):
        L = int(rng.integers(2, 5))
        problem, T = grid_world(rng, L)
        n, unary = problem.n_nodes, problem.node_features
        some = [(int(rng.integers(L)), cl.Envelope(*envelope(rng, n, True)))]
        joined += problem.n_edges > 0
        ends = problem.edge_ends()
        dense = tables = np.zeros((0, L, L))
        if problem.n_edges:
            tables = LinearTables(problem.edge_features, T)
            dense = np.einsum("eg,gab->eab", problem.edge_features.astype(float), T)
        slow = UnorderedEnergy(unary, ends, dense, some)
        fast = UnorderedEnergy.of(problem, unary, tables, some)
        y = rng.integers(0, L, n)
        assert fast.value(y) == slow.value(y) == energy((unary, ends, dense, some), y)
        start = rng.integers(0, L, n)
        a, b = (e.minimize(problem.fixed, start) for e in (slow, fast))
        assert (a.value, a.cuts, a.moves) == (b.value, b.cuts, b.moves)
        assert np.array_equal(a.labels, b.labels)
    assert joined > 60


def test_tables_of_features_that_only_together_allow_expansion_are_taken():
    """Each edge's sum counts, not each feature's table."""
    problem = cl.Problem(
        np.zeros((2, 1)), shape=(1, 2), connectivity=4, edge_features=np.ones((1, 2))
    )
    bad = -0.5 * POTTS
    unary = np.array([[0, 3, 3], [2, 3, 1.5]])
    tables = LinearTables(problem.edge_features, np.array([POTTS, bad]))
    assert UnorderedEnergy.of(problem, unary, tables, ()).minimize().labels.tolist() == [0, 2]
    worse = LinearTables(problem.edge_features, np.array([POTTS, 3 * bad]))
    with pytest.raises(cl.InputError, match=r"table of edge 0 \(nodes 0 and 1\)"):
        UnorderedEnergy.of(problem, unary, worse, ()).minimize()


def test_min_marginals_are_the_least_energies_of_one_expansion():
    rng = np.random.default_rng(6)
    for _ in range(40):
        w = world(rng, metric)
        n, L = w[0].shape
        fixed = rng.choice([-1, -1, 0, L - 1], n)
        field = UnorderedEnergy(*w)
        best = field.minimize(fixed)
        found = field.min_marginals(fixed, threads=2)
        for i, k in product(range(n), range(L)):
            free = [(a,) if f >= 0 else (a, k) for a, f in zip(best.labels.tolist(), fixed)]
            able = [energy(w, z) for z in product(*free) if z[i] == k]
            assert found[i, k] == min(able, default=np.inf)


def test_min_marginals_of_two_labels_are_exact():
    rng = np.random.default_rng(7)
    for _ in range(20):
        n = int(rng.integers(2, 9))
        edges = np.array([rng.choice(n, 2, replace=False) for _ in range(2 * n)])
        unary, table = rng.integers(-9, 9, (n, 2)) * 1.0, np.array([[0.0, 3.0], [2.0, 0.0]])
        exact = cl.OrderedEnergy(unary, edges, table).min_marginals()
        assert np.array_equal(UnorderedEnergy(unary, edges, table, ()).min_marginals(), exact)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_linear_tables_are_looked_up_as_sums_in_the_order_of_the_features(kind):
    rng = np.random.default_rng(9)
    features, T = rng.random((50, 3)).astype(kind), rng.normal(size=(3, 4, 4))
    a, b = rng.integers(0, 4, (2, 30))
    at, wanted = slice(10, 40), np.zeros(30)
    for g in range(3):
        wanted += T[g, a, b] * features[at, g]
    linear = LinearTables(features, T)
    assert np.array_equal(linear.between(at, a, b), wanted)
    lower, upper = np.arange(4), np.full(4, 2)
    found = linear.choice(at, a, b, lower, upper)
    same = EdgeTables(linear.dense(), each=True).choice(at, a, b, lower, upper)
    for one, other in zip(found, same):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)


def test_what_the_tables_do_not_have_is_not_looked_up():
    features, tables = np.ones((2, 1)), np.ones((4, 1, 3))
    for pairs in ([0, 4], [-1, 0]):
        with pytest.raises(ValueError, match="outside of the tables"):
            _core.looked_up(features, tables, np.array(pairs))
    for wrong in (np.ones((3, 1)), np.ones((2, 2))):
        with pytest.raises(ValueError, match="different numbers"):
            _core.looked_up(wrong, tables, np.array([0, 1]))


def test_linear_tables_add_to_others_of_any_kind():
    rng = np.random.default_rng(8)
    features, T, more = rng.random((5, 2)), rng.random((2, 3, 3)), rng.random((5, 3, 3))
    linear = LinearTables(features, T)
    wanted = np.einsum("eg,gab->eab", features, T)
    assert np.abs(linear.dense() - wanted).max() < 1e-15
    for total in (linear + more, more + linear):
        assert np.abs(total - (wanted + more)).max() < 1e-15
    assert np.abs((linear + linear) - 2 * wanted).max() < 1e-15
