"""The core's oracle gives the planes of its slow twin, in any number of threads."""

import numpy as np
import pytest

from cutlearn.energy.envelopes import EnvelopeSpec
from cutlearn.energy.problem import Problem
from cutlearn.grid import grid_edge_counts
from cutlearn.learn.losses import Count, Hamming
from cutlearn.learn.oracle import planes_at
from linear_energies import bound_task
from slow_oracle import SlowOracle
from tiny_problems import random_vector, with_regions

LOSSES = [Hamming(), Hamming((1.0, 5.0)), Count(), Count(tolerance=10) + 0.5 * Hamming()]


def noisy(rng, shape, connectivity, dtype=np.float64, listed=False, held=False):
    """A random image whose labels are blurred noise, about 5 % of them void."""
    field = sum(np.roll(rng.normal(size=shape), s, axis=a) for s in range(4) for a in range(2))
    labels = (field > 0).astype(np.uint8).ravel()
    n = labels.size
    features = np.stack([labels + rng.normal(size=n), rng.normal(size=n), np.ones(n)], axis=1)
    count = sum(grid_edge_counts(shape, connectivity))
    edges = rng.uniform(0, 1, (count, 2)).astype(dtype)
    fixed = np.where(rng.random(n) < 0.1, labels.astype(int), -1) if held else None
    p = Problem(features.astype(dtype), None, edges, (), fixed, shape, connectivity)
    if listed:
        p = Problem(p.node_features, p.edge_ends(), p.edge_features, (), fixed)
    labels[rng.random(n) < 0.05] = 255
    return p, labels


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize(
    "kind",
    [
        {"shape": (17, 12), "connectivity": 4},
        {"shape": (9, 20), "connectivity": 8, "dtype": np.float32},
        {"shape": (3, 6, 7), "connectivity": 6},
        {"shape": (3, 6, 7), "connectivity": 18, "held": True},
        {"shape": (4, 5, 6), "connectivity": 26, "dtype": np.float32},
        {"shape": (12, 9), "connectivity": 8, "listed": True},
        {"shape": (12, 9), "connectivity": 4, "listed": True, "held": True},
        {"shape": (1, 30), "connectivity": 4},
        {"shape": (30, 1), "connectivity": 8},
    ],
    ids=str,
)
def test_core_and_twin_find_the_same_planes(kind, loss):
    rng = np.random.default_rng(7)
    p, labels = noisy(rng, **kind)
    task = bound_task(p, labels, loss)
    fast, slow = task, SlowOracle(task)
    for size in (1e-3, 0.3, 1.0, 5.0):
        w = np.concatenate([rng.normal(size=3), rng.uniform(0, 1, 2)]) * size
        found, wanted = fast.plane(w), slow(w)
        assert found.b == pytest.approx(wanted.b, rel=1e-12)
        np.testing.assert_allclose(found.a, wanted.a, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("form", ["samples", "slopes", "curvatures"])
@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("loss", ["hamming", "count", "regions"])
def test_core_and_twin_agree_with_envelopes(form, listed, loss):
    rng = np.random.default_rng([len(form), listed, len(loss)])
    shape = (24, 30)
    bare, labels = noisy(rng, shape, 8, listed=listed, held=True)
    rows, columns = np.indices(shape)
    fine, coarse = rows // 6 * 10 + columns // 6, (columns + rows) // 14 - 1
    p = with_regions(bare, [fine, coarse])
    counted = Count(weights=[rng.uniform(0, 2, 720)], regions=[fine], tolerance=2)
    specs = (EnvelopeSpec(10, form, "node"), EnvelopeSpec(4, form))
    bound = {"hamming": Hamming(), "count": Count(), "regions": counted + 0.1 * Hamming()}[loss]
    task = bound_task(p, labels, bound, model=specs)
    fast, slow = task, SlowOracle(task)
    for size in (1e-2, 0.3, 3.0):
        vectors = [random_vector(rng, spec) for spec in specs]
        w = size * np.concatenate([rng.normal(size=3), rng.uniform(0, 1, 2), *vectors])
        found, wanted = fast.plane(w), slow(w)
        assert found.value(w) == pytest.approx(wanted.value(w), rel=1e-9, abs=1e-12)
        assert found.b == pytest.approx(wanted.b, rel=1e-9)
        np.testing.assert_allclose(found.a, wanted.a, rtol=1e-9, atol=1e-11)


def test_a_grid_without_edges_is_a_threshold():
    rng = np.random.default_rng(0)
    p = Problem(rng.normal(size=(4, 5, 2)), shape=(4, 5))
    labels = rng.integers(0, 2, 20)
    w = np.array([1.0, -2.0])
    plane = bound_task(p, labels, Hamming()).plane(w)
    score = p.node_features @ w + np.where(labels == 1, 1.0, -1.0)
    wrong = (score < 0) != labels
    assert plane.b == pytest.approx(wrong.sum() / 20)


def test_threads_give_the_same_bits():
    rng = np.random.default_rng(1)
    tasks = [bound_task(*noisy(rng, (12 + k, 15), 8), Count() + Hamming(), k) for k in range(7)]
    for _ in range(3):
        w = np.concatenate([rng.normal(size=3), rng.uniform(0, 1, 2)])
        one = planes_at(tasks, w, 1)
        assert one.shape == (7, 6)
        for threads in (2, 3, 16):
            assert planes_at(tasks, w, threads).tobytes() == one.tobytes()
        assert all((t.plane(w).a == row[1:]).all() for t, row in zip(tasks, one))
