"""The bare max-flow."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

import cutlearn as cl


def check(arcs, caps, source, sink, n, result):
    both = np.stack([caps, np.zeros_like(caps)], 1) if caps.ndim == 1 else caps
    assert (result.flow <= both[:, 0]).all()
    assert (-result.flow <= both[:, 1]).all()
    balance = np.bincount(arcs[:, 1], result.flow, n) - np.bincount(arcs[:, 0], result.flow, n)
    inner = np.setdiff1d(np.arange(n), [source, sink])
    assert (balance[inner] == 0).all()
    assert balance[sink] == result.value == -balance[source]
    s = result.source_side
    forward, backward = s[arcs[:, 0]] & ~s[arcs[:, 1]], ~s[arcs[:, 0]] & s[arcs[:, 1]]
    assert both[forward, 0].sum() + both[backward, 1].sum() == result.value


def test_random_networks_equal_scipy():
    rng = np.random.default_rng(0)
    for _ in range(300):
        n = int(rng.integers(2, 9))
        m = int(rng.integers(0, 25))
        arcs = rng.integers(0, n, (m, 2))  # loops and parallel arcs among them
        caps = rng.integers(0, 10, (m, 2) if rng.random() < 0.5 else m)
        source, sink = rng.choice(n, 2, replace=False)
        dense = np.zeros((n, n), np.int32)
        both = caps if caps.ndim == 2 else np.stack([caps, 0 * caps], 1)
        np.add.at(dense, (arcs[:, 0], arcs[:, 1]), both[:, 0])
        np.add.at(dense, (arcs[:, 1], arcs[:, 0]), both[:, 1])
        expected = maximum_flow(csr_array(dense), source, sink).flow_value
        result = cl.max_flow(arcs, caps, source, sink, n)
        assert result.value == result.lower_bound == expected
        check(arcs, caps.astype(float), source, sink, n, result)


def test_no_arcs():
    r = cl.max_flow(np.empty((0, 2), int), [], 0, 1)
    assert r.value == 0
    assert r.source_side.tolist() == [True, False]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0, 1]], [1], 0, 0), "are both node 0"),
        (([[0, 1]], [-1], 0, 1), r"capacities\[0\]"),
        (([[0, 1]], [np.inf], 0, 1), "must be finite"),
        (([[0, 1]], [1, 2], 0, 1), r"capacities has shape \(2,\)"),
        (([[0, 5]], [1], 0, 1, 3), "has index 5"),
        (([0, 1], [1], 0, 1), r"arcs has shape \(2,\)"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(cl.InputError, match=message):
        cl.max_flow(*arguments)
