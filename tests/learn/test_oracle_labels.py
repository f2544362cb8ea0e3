"""Oracles of several labels: the highest plane of all labelings, for every loss; refusals."""

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.learn.oracle import planes_at
from cutlearn.learn.pool import Pool
from linear_energies import bound_task, ordered, unordered
from tiny_labels import (
    absolute,
    count_of,
    hamming,
    labellings,
    planes,
    psi,
    random_problem,
    random_weights,
    thresholds,
    tiny_set,
)

LOSSES = {
    "hamming": (cl.Hamming(), lambda L: hamming),
    "absolute": (cl.Absolute(), lambda L: absolute),
    "count": (cl.Count(), thresholds),
    "lowest": (cl.LabelCount(0), lambda L: count_of([0])),
    "middle": (cl.LabelCount(1), lambda L: count_of([1])),
    "highest two": (cl.LabelCount([1, 2]), lambda L: count_of([1, 2])),
    "sum": (
        cl.Hamming() + 2 * cl.LabelCount(1) + 0.5 * cl.LabelCount(2),
        lambda L: lambda y, t: hamming(y, t) + 2 * count_of([1])(y, t) + count_of([2])(y, t) / 2,
    ),
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("normalize", ["pixels", "loss", "none"])
def test_the_oracle_gives_the_highest_plane_of_all_labelings(name, normalize):
    rng = np.random.default_rng([len(name), len(normalize)])
    loss, words = LOSSES[name]
    for trial in range(12):
        L = 3 if trial % 3 else 4
        p = random_problem(rng, grid=trial % 2 == 1)
        truth = rng.integers(0, L, p.n_nodes).astype(np.uint8)
        task = bound_task(p, truth, loss, 0, normalize, ordered(L))
        w = random_weights(rng, p, L)
        b, a = planes(p, truth, words(L), normalize, L)
        plane = task.plane(w)
        heights = b + a @ w
        assert plane.value(w) == pytest.approx(heights.max(), abs=1e-12 * np.abs(heights).max())
        row = np.concatenate([[plane.b], plane.a])
        every = np.concatenate([b[:, None], a], axis=1)
        assert np.abs(every - row).max(axis=1).min() <= 1e-12 * np.abs(every).max()
        for y in labellings(p.n_nodes, L)[:: max(1, L**p.n_nodes // 20)]:
            assert task.loss.value(y) == pytest.approx(words(L)(y, truth), abs=1e-12)
        assert task.largest >= b.max() * (1 - 1e-12)


@pytest.mark.parametrize("grid", [False, True])
def test_void_nodes_leave_with_their_edges(grid):
    rng = np.random.default_rng(5)
    L = 3
    for _ in range(10):
        p = random_problem(rng, grid=grid)
        truth = rng.integers(0, L, p.n_nodes).astype(np.uint8)
        truth[rng.random(p.n_nodes) < 0.4] = 255
        if (truth == 255).all():
            truth[0] = 1
        known = truth != 255
        ends = p.edge_ends()
        kept = known[ends].all(axis=1)
        number = np.cumsum(known) - 1
        part = cl.Problem(p.node_features[known], number[ends[kept]], p.edge_features[kept])
        w = random_weights(rng, p, L)
        for loss, words in (cl.Hamming(), hamming), (cl.LabelCount(1), count_of([1])):
            b, a = planes(part, truth[known], words, "pixels", L)
            plane = bound_task(p, truth, loss, 0, "pixels", ordered(L)).plane(w)
            assert plane.value(w) == pytest.approx((b + a @ w).max(), abs=1e-11)


def test_fixed_nodes_stay():
    rng = np.random.default_rng(6)
    p = cl.Problem(rng.normal(size=(4, 2)), [[0, 1], [1, 2], [2, 3]], fixed=[2, -1, -1, 0])
    truth = np.array([2, 1, 0, 0], np.uint8)
    w = random_weights(rng, p, 3)
    b, a = planes(p, truth, hamming, "none", 3)
    allowed = [y[0] == 2 and y[3] == 0 for y in labellings(4, 3)]
    plane = bound_task(p, truth, cl.Hamming(), 0, "none", ordered(3)).plane(w)
    assert plane.value(w) == pytest.approx((b + a @ w)[allowed].max(), abs=1e-12)


def test_two_threads_give_the_same_bits():
    rng = np.random.default_rng(7)
    problems, truth = tiny_set(rng, 3, images=9)
    oracles = Pool(problems, truth, cl.Count(), model=ordered(3)).images
    w = random_weights(rng, problems[0], 3)
    one, two = (planes_at(oracles, w, threads) for threads in (1, 2))
    assert one.tobytes() == two.tobytes()


def test_psi_energy_and_layout_agree():
    rng = np.random.default_rng(8)
    for trial in range(10):
        L = int(rng.integers(2, 5))
        p = random_problem(rng, grid=trial % 2 == 1)
        w = random_weights(rng, p, L)
        y = rng.integers(0, L, p.n_nodes)
        assert ordered(L).psi(p, y) == pytest.approx(psi(p, y, L), abs=1e-12)
        energy = cl.OrderedEnergy.of(p, w)
        assert energy.value(y.reshape(energy.shape)) == pytest.approx(w @ psi(p, y, L), abs=1e-10)
        layout = ordered(L).layout(p)
        rows, least = layout.constraints(p)
        assert layout.size == w.size
        assert (rows @ w >= least - 1e-12).all()
        assert len(rows) == p.n_edge_features * (L - 1) ** 2
        assert layout.inside(w) == pytest.approx(w, abs=1e-12)


@pytest.mark.parametrize("labels", [ordered, unordered])
def test_inside_moves_by_little_more_than_the_violation(labels):
    rng = np.random.default_rng(9)
    p = random_problem(rng)
    layout = labels(4).layout(p)
    rows, _ = layout.constraints(p)
    for _ in range(20):
        w = rng.normal(size=layout.size)
        moved = layout.inside(w)
        assert (rows @ moved >= -1e-12 * np.abs(moved).max()).all()
        assert np.abs(moved - w).max() <= 9 * max(0.0, -(rows @ w).min()) + 1e-12
        assert (moved[layout.slice_of("node")] == w[layout.slice_of("node")]).all()


def test_an_expansion_gives_a_plane_below_the_risk():
    rng = np.random.default_rng(10)
    touched = 0
    for trial in range(30):
        p = random_problem(rng, grid=trial % 2 == 1)
        truth = rng.integers(0, 3, p.n_nodes).astype(np.uint8)
        layout = unordered(3).layout(p)
        w = layout.inside(rng.normal(size=layout.size))
        b, a = planes(p, truth, hamming, "pixels", 3)
        plane = bound_task(p, truth, cl.Hamming(), 0, "pixels", unordered(3)).plane(w)
        best = (b + a @ w).max()
        assert plane.value(w) <= best + 1e-12
        touched += plane.value(w) >= best - 1e-12
    assert touched >= 20


PROBLEM = cl.Problem(np.ones((2, 1)), [[0, 1]], regions=[[0, 1]])
SEVERAL = cl.Model(labels="ordered")
SQUARE, LOOSE = cl.CountFunction(np.square), cl.Count(tolerance=0.5)


@pytest.mark.parametrize(
    ("options", "labels", "words"),
    [
        (lambda: {"model": cl.Model(labels="several")}, [0, 1], "'labels' parameter must be one"),
        (lambda: {"model": cl.Model(n_labels=3)}, [0, 1], "'n_labels' parameter of binary labels"),
        (lambda: {"model": ordered(2)}, [0, 2], "image 0: labels has values 2, but only 0, 1"),
        (lambda: {"model": ordered(1)}, [0, 1], "'n_labels' parameter"),
        (
            lambda: {"model": cl.Model([cl.Unary(), cl.Enveloped()], "ordered")},
            [0, 2],
            "ordered labels take no envelopes",
        ),
        (lambda: {"model": SEVERAL, "loss": SQUARE}, [0, 2], "CountFunction is for two labels"),
        (lambda: {"model": SEVERAL, "loss": cl.LabelCount(3)}, [0, 2], "labels from 0 to 2"),
        (
            lambda: {"model": SEVERAL, "loss": cl.Hamming([1, 2])},
            [0, 2],
            "label_weights has 2 numbers",
        ),
        (lambda: {"model": SEVERAL, "loss": LOOSE}, [1, 4], "54 or more cuts"),
        (
            lambda: {"model": cl.Model(labels="unordered"), "loss": "count"},
            [0, 2],
            "needs ordered labels",
        ),
    ],
)
def test_refusals(options, labels, words):
    with pytest.raises(cl.InputError, match=words):
        cl.train([PROBLEM], [labels], **options())
