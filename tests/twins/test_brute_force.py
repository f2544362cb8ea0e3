"""Ours against enumeration, on 20,000 random energies: equal on whole numbers, within the
recorded bound on floats of mixed scale."""

import numpy as np
import pytest

import oracles
import worlds

GRIDS = [((2, 3), 4), ((3, 3), 4), ((2, 4), 8), ((3, 3), 8), ((1, 6), 8), ((7, 1), 4),
         ((2, 2, 2), 6), ((2, 2, 2), 18), ((2, 3, 2), 26), ((1, 1), 4)]  # fmt: skip
DIGITS = np.longdouble(2.0**-60)  # of the enumeration's own sums


def world(rng, whole):
    if rng.random() < 0.6:
        p = worlds.parts(rng, whole, most=14 if rng.random() < 0.05 else 9)
        return p, worlds.energy_of(p)
    shape, connectivity = GRIDS[rng.integers(len(GRIDS))]
    p = worlds.grid_parts(rng, whole, shape, connectivity)
    return p, worlds.grid_energy_of(p, shape, connectivity)


def some_fixed(rng, n):
    fixed = np.full(n, -1)
    if rng.random() < 0.3:
        some = rng.random(n) < 0.3
        fixed[some] = rng.integers(0, 2, some.sum())
    return fixed


def total(p):
    lines = sum(np.abs(a).max() * m.sum() + np.abs(b).max() for _, a, b, m in p["envelopes"])
    return np.abs(p["unary"]).sum() + np.abs(p["pq"]).sum() + lines


@pytest.mark.parametrize("chunk", range(20))
def test_cut_of_whole_numbers_is_the_minimal_minimiser(chunk):
    rng = np.random.default_rng([1, chunk])
    for _ in range(500):
        p, energy = world(rng, whole=True)
        n = p["unary"].size
        fixed = some_fixed(rng, n)
        Y = oracles.labelings(n)
        Y = Y[oracles.allowed(Y, fixed)]
        values = oracles.energies(p, Y)
        best, labels = oracles.minimal(Y, values)
        cut = energy.minimize(fixed.reshape(energy.shape))
        assert cut.value == best
        assert cut.lower_bound == best
        assert cut.labels.ravel().tolist() == labels.tolist()
        assert energy.value(cut.labels) == best
        row = rng.integers(len(Y))
        assert energy.value(Y[row].reshape(energy.shape)) == values[row]


@pytest.mark.parametrize("chunk", range(20))
def test_cut_of_floats_is_within_its_bound(chunk):
    rng = np.random.default_rng([2, chunk])
    for _ in range(500):
        p, energy = world(rng, whole=False)
        n = p["unary"].size
        fixed = some_fixed(rng, n)
        Y = oracles.labelings(n)
        Y = Y[oracles.allowed(Y, fixed)]
        values = oracles.energies(p, Y)
        cut = energy.minimize(fixed.reshape(energy.shape))
        size = DIGITS * np.abs(values).max() * n
        found = oracles.energies(p, cut.labels.reshape(1, n).astype(int))[0]
        bound = np.longdouble(cut.value) - cut.lower_bound
        assert cut.lower_bound <= values.min() + size
        assert found <= cut.lower_bound + 2 * bound + size
        assert abs(found - cut.value) <= bound + size
        assert bound <= 1e-12 * total(p)


@pytest.mark.parametrize("chunk", range(4))
@pytest.mark.parametrize("whole", [True, False])
def test_min_marginals(chunk, whole):
    rng = np.random.default_rng([3, chunk, whole])
    for _ in range(250):
        p, energy = world(rng, whole)
        n = p["unary"].size
        fixed = some_fixed(rng, n)
        Y = oracles.labelings(n)
        Y = Y[oracles.allowed(Y, fixed)]
        values = oracles.energies(p, Y)
        expected = oracles.min_marginals(Y, values)
        found = energy.min_marginals(fixed.reshape(energy.shape)).reshape(n, 2)
        if whole:
            assert (found == expected).all()
        else:
            finite = np.isfinite(expected)
            assert (np.isfinite(found) == finite).all()
            assert (np.abs(found[finite] - expected[finite]) <= 1e-12 * total(p)).all()
