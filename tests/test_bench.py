"""The benchmark's instances and solvers: all find the minimum that enumeration finds."""

import importlib.util
import itertools
from pathlib import Path

import numpy as np
import pytest

import cutlearn as cl


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parent.parent / "benchmarks")
    return importlib.import_module("instances"), importlib.import_module("peers")


TINY = {
    "seg": ("grid", "2d8", (3, 4), "seg", 1),
    "real": ("grid", "2d4", (3, 4), "real", 1),
    "volume": ("grid", "3d6", (2, 3, 2), "seg", 2),
    "regions": ("superpixels", (3, 4), (1, 2), 3),
    "count": ("count", (3, 4), (1, 1), 1.0, 0.0, 4),
    "count-3-lines": ("count", (3, 4), (1, 1), 1.0, 0.1, 5),
}


@pytest.mark.parametrize("name", TINY)
def test_every_solver_finds_the_minimum(bench, name):
    instances, peers = bench
    function, *arguments = TINY[name]
    instance = getattr(instances, function)(*arguments)
    n = instance.unary.size
    least = min(instance.value(y) for y in itertools.product((0, 1), repeat=n))
    for peer, solver in peers.PEERS.items():
        if importlib.util.find_spec(peers.MODULES[peer]) is None:
            continue
        if name == "real" and peer in peers.WHOLE_ONLY:
            continue
        value, labels = solver()["cut"](instance)[0]()
        room = 1e-12 * abs(least) if name == "real" else 0.0
        assert abs(value - least) <= room, peer
        assert abs(instance.value(labels) - least) <= room, peer


def test_resolves_agree_with_a_solve_from_nothing(bench):
    instances, peers = bench
    instance = instances.grid("2d4", (9, 11), "blur", 6)
    tasks = peers.cutlearn()
    found = [call()[0] for call in tasks["10 %"](instance)]
    changed = instances.grid("2d4", (9, 11), "blur", 6)
    for (at, added), value in zip(instances.changes(instance, 0.1), found, strict=True):
        changed.unary.ravel()[at] += added
        assert tasks["cut"](changed)[0]()[0] == value
    there, back = (call()[0] for call in tasks["new w"](instance)[:2])
    assert back == tasks["cut"](instance)[0]()[0]
    instance.unary, instance.weights = (
        np.rint(1.1 * instance.unary),
        [np.rint(0.9 * w) for w in instance.weights],
    )
    assert there == tasks["cut"](instance)[0]()[0]


def test_belief_propagation_is_exact_on_a_chain(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parent.parent / "benchmarks")
    bench = importlib.import_module("likelihood")
    rng = np.random.default_rng(0)
    chain = {"edge_features": rng.uniform(0, 1, (4, 1)), "shape": (1, 5), "connectivity": 4}
    p = cl.Problem(rng.normal(size=(1, 5, 2)), **chain)
    rows = np.concatenate([rng.normal(size=(3, 2)), rng.uniform(0.2, 1, (3, 1))], axis=1)
    unary, leave = p.node_features @ rows[:, :2].T, p.edge_features @ rows[:, 2:].T
    mass = np.zeros((5, 3))
    for y in itertools.product(range(3), repeat=5):
        cost = sum(unary[i, k] for i, k in enumerate(y))
        for i, (a, b) in enumerate(itertools.pairwise(y)):
            cost += (a != b) * (leave[i, a] + leave[i, b])
        for i, k in enumerate(y):
            mass[i, k] += np.exp(-cost)
    found, iterations = bench.belief_propagation(p, rows)
    assert iterations is not None
    assert np.abs(found - mass / mass.sum(axis=1, keepdims=True)).max() < 1e-3
