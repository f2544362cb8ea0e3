"""Where energies tie, the lower label: cuts and least min-marginals say the same."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import cutlearn as cl

SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS)
def test_the_least_min_marginals_are_the_labels_of_the_cut(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 6, 2))
    unary = rng.integers(-3, 4, shape).astype(float)  # whole numbers, so that many labelings tie
    n = unary.size
    members = np.flatnonzero(rng.random(n) < 0.6)
    envelopes = [cl.Envelope(members, [2.0, 0.0, -1.0], [0.0, 2.0, 5.0])] if members.size else []
    weight = float(rng.integers(0, 3))
    energy = cl.Energy.grid(unary, weight, connectivity=8, envelopes=envelopes)
    assert np.array_equal(energy.minimize().labels, energy.min_marginals().argmin(axis=-1))


@given(SEEDS)
def test_ordered_labels_likewise(seed):
    rng = np.random.default_rng(seed)
    n, L = rng.integers(1, 8), rng.integers(2, 5)
    unary = rng.integers(-3, 4, (n, L)).astype(float)
    ends = np.arange(n - 1)
    table = rng.integers(0, 3) * np.abs(np.subtract.outer(np.arange(L), np.arange(L))).astype(float)
    energy = cl.OrderedEnergy(unary, np.stack([ends, ends + 1], axis=1), table)
    assert np.array_equal(energy.minimize().labels, energy.min_marginals().argmin(axis=-1))
