"""Oracles of several labels: the highest plane of all labelings, for every loss; refusals."""

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.energy.linear_labels import label_layout, label_psi
from cutlearn.learn.kinds import kind_of
from cutlearn.learn.labels import ExpansionOracle, OrderedOracle, ask_ordered, label_task_of
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
        task = label_task_of(p, truth, loss, 0, normalize, L, True)
        w = random_weights(rng, p, L)
        b, a = planes(p, truth, words(L), normalize, L)
        plane = OrderedOracle(task)(w)
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
            plane = OrderedOracle(label_task_of(p, truth, loss, 0, "pixels", L, True))(w)
            assert plane.value(w) == pytest.approx((b + a @ w).max(), abs=1e-11)


def test_fixed_nodes_stay():
    rng = np.random.default_rng(6)
    p = cl.Problem(rng.normal(size=(4, 2)), [[0, 1], [1, 2], [2, 3]], fixed=[2, -1, -1, 0])
    truth = np.array([2, 1, 0, 0], np.uint8)
    w = random_weights(rng, p, 3)
    b, a = planes(p, truth, hamming, "none", 3)
    allowed = [y[0] == 2 and y[3] == 0 for y in labellings(4, 3)]
    plane = OrderedOracle(label_task_of(p, truth, cl.Hamming(), 0, "none", 3, True))(w)
    assert plane.value(w) == pytest.approx((b + a @ w)[allowed].max(), abs=1e-12)


def test_two_threads_give_the_same_bits():
    rng = np.random.default_rng(7)
    problems, truth = tiny_set(rng, 3, images=9)
    kind = kind_of("ordered", 3, cl.Count(), "pixels", None, truth)
    oracles = [kind.oracle(kind.task(p, y, i)) for i, (p, y) in enumerate(zip(problems, truth))]
    w = random_weights(rng, problems[0], 3)
    assert ask_ordered(oracles, w, 1).tobytes() == ask_ordered(oracles, w, 2).tobytes()


def test_psi_energy_and_layout_agree():
    rng = np.random.default_rng(8)
    for trial in range(10):
        L = int(rng.integers(2, 5))
        p = random_problem(rng, grid=trial % 2 == 1)
        w = random_weights(rng, p, L)
        y = rng.integers(0, L, p.n_nodes)
        assert label_psi(p, y, L) == pytest.approx(psi(p, y, L), abs=1e-12)
        energy = cl.OrderedEnergy.of(p, w)
        assert energy.value(y.reshape(energy.shape)) == pytest.approx(w @ psi(p, y, L), abs=1e-10)
        layout = label_layout(p, L)
        rows, least = layout.constraints()
        assert layout.size == w.size
        assert (rows @ w >= least - 1e-12).all()
        assert len(rows) == p.n_edge_features * (L - 1) ** 2
        assert layout.inside(w) == pytest.approx(w, abs=1e-12)


@pytest.mark.parametrize("ordered", [True, False])
def test_inside_moves_by_little_more_than_the_violation(ordered):
    rng = np.random.default_rng(9)
    p = random_problem(rng)
    layout = label_layout(p, 4, ordered)
    rows, _ = layout.constraints()
    for _ in range(20):
        w = rng.normal(size=layout.size)
        moved = layout.inside(w)
        assert (rows @ moved >= -1e-12 * np.abs(moved).max()).all()
        assert np.abs(moved - w).max() <= 9 * max(0.0, -(rows @ w).min()) + 1e-12
        assert (moved[layout.node] == w[layout.node]).all()


def test_an_expansion_gives_a_plane_below_the_risk():
    rng = np.random.default_rng(10)
    touched = 0
    for trial in range(30):
        p = random_problem(rng, grid=trial % 2 == 1)
        truth = rng.integers(0, 3, p.n_nodes).astype(np.uint8)
        layout = label_layout(p, 3, ordered=False)
        w = layout.inside(rng.normal(size=layout.size))
        b, a = planes(p, truth, hamming, "pixels", 3)
        plane = ExpansionOracle(label_task_of(p, truth, cl.Hamming(), 0, "pixels", 3, False))(w)
        best = (b + a @ w).max()
        assert plane.value(w) <= best + 1e-12
        touched += plane.value(w) >= best - 1e-12
    assert touched >= 20


PROBLEM = cl.Problem(np.ones((2, 1)), [[0, 1]])


@pytest.mark.parametrize(
    ("options", "labels", "words"),
    [
        ({"kind": "several"}, [0, 1], "'kind' parameter must be one of"),
        ({"kind": "binary", "n_labels": 3}, [0, 1], "n_labels: 3 found with binary"),
        ({"kind": "ordered", "n_labels": 2}, [0, 2], "image 0: labels: values 2 found; 0, 1"),
        ({"kind": "ordered", "n_labels": 1}, [0, 1], "'n_labels' parameter"),
        ({"kind": "ordered", "envelope": cl.EnvelopeSpec()}, [0, 2], "envelope: found with kind"),
        ({"kind": "ordered", "loss": cl.CountFunction(np.square)}, [0, 2], "CountFunction found"),
        ({"kind": "ordered", "loss": cl.LabelCount(3)}, [0, 2], "labels from 0 to 2"),
        ({"kind": "ordered", "loss": cl.Hamming([1, 2])}, [0, 2], "2 found for 3 labels"),
        ({"kind": "binary", "loss": cl.LabelCount(1)}, [0, 1], "LabelCount found with binary"),
        ({"kind": "ordered", "loss": cl.Count(tolerance=0.5)}, [1, 4], "18 or more cuts"),
    ],
)
def test_refusals(options, labels, words):
    with pytest.raises(cl.InputError, match=words):
        cl.train([PROBLEM], [labels], **options)
