"""Moves by enumeration: each is the best of all 2^n, the end is a local optimum, energy falls."""

from itertools import combinations, product

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.energy.moves import UnorderedEnergy, _expansion, _swap
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
            pair = _expansion(y, *labels) if kind == "expansion" else _swap(y, *labels)
            found = field.best_choice(*pair)
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
            assert all(energy(w, z) >= r.value for z in outcomes(r.labels.tolist(), kind, labels))


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
