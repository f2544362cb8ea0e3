"""The live graph: after any change it says what a fresh one would."""

import numpy as np

from cutlearn.energy.energy import Energy
from cutlearn.model.live import Live


def test_solving_on_is_solving_afresh():
    rng = np.random.default_rng(0)
    shape = (12, 15)
    sizes = [(12, 14), (11, 15), (11, 14), (11, 14)]
    weights = [rng.random(size) for size in sizes]
    live = Live(weights)
    unary, fixed = rng.normal(size=shape), np.full(shape, -1, np.int16)
    for step in range(12):
        fresh = Energy.grid(unary, weights, 8).minimize(fixed)
        assert (live.solve(unary, fixed) == fresh.labels).all(), step
        places = rng.random(shape) < (0.05 if step % 3 else 1.0)
        unary = np.where(places, rng.normal(size=shape), unary)
        places = rng.random(shape) < 0.05
        fixed = np.where(places, rng.integers(-1, 2, shape), fixed).astype(np.int16)


def test_what_was_given_may_change_afterwards():
    shape = (4, 5)
    live = Live([np.zeros(size) for size in [(4, 4), (3, 5), (3, 4), (3, 4)]])
    unary, fixed = np.ones(shape), np.full(shape, -1, np.int16)
    assert not live.solve(unary, fixed).any()
    unary[:] = -1
    fixed[0] = 0
    labels = live.solve(unary, fixed)
    assert not labels[0].any()
    assert labels[1:].all()
