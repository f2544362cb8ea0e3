"""Laws of a cut, on energies of any size that hypothesis finds."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import cutlearn as cl
import worlds

seeds = st.integers(0, 2**32 - 1)


def world(seed, whole=True):
    rng = np.random.default_rng(seed)
    shape, connectivity = [((5, 7), 4), ((6, 6), 8), ((3, 4, 3), 18)][rng.integers(3)]
    p = worlds.grid_parts(rng, whole, shape, connectivity)
    return rng, p, shape, connectivity


@given(seeds, st.booleans())
def test_value_is_the_energy_of_the_labels(seed, whole):
    _, p, shape, c = world(seed, whole)
    energy = worlds.grid_energy_of(p, shape, c)
    cut = energy.minimize()
    assert cut.lower_bound <= cut.value
    size = np.abs(p["unary"]).sum() + np.abs(p["pq"]).sum()
    assert abs(energy.value(cut.labels) - cut.value) <= (0 if whole else 1e-9 * size)


@given(seeds)
def test_no_other_labelling_is_lower(seed):
    rng, p, shape, c = world(seed)
    energy = worlds.grid_energy_of(p, shape, c)
    cut = energy.minimize()
    for _ in range(20):
        other = cut.labels ^ (rng.random(shape) < rng.random()).astype(np.uint8)
        assert energy.value(other) >= cut.value


@given(seeds)
def test_least_min_marginal_is_the_cut(seed):
    _, p, shape, c = world(seed)
    energy = worlds.grid_energy_of(p, shape, c)
    cut, phi = energy.minimize(), energy.min_marginals()
    assert (phi.min(axis=-1) == cut.value).all()
    chosen = np.take_along_axis(phi, cut.labels[..., None].astype(int), -1)
    assert (chosen == cut.value).all()
    # label 1 only where 0 is dearer: the labels are the minimal ones
    assert ((phi[..., 0] > cut.value) == (cut.labels == 1)).all()


@given(seeds)
def test_exchanging_the_labels_mirrors_the_answer(seed):
    _, p, shape, c = world(seed)
    p["envelopes"] = []
    energy = worlds.grid_energy_of(p, shape, c)
    mirrored = {**p, "unary": -p["unary"], "pq": p["pq"][:, ::-1].copy()}
    other = worlds.grid_energy_of(mirrored, shape, c)
    cut, flipped = energy.minimize(), other.minimize()
    assert flipped.value == cut.value - p["unary"].sum()
    # minimal ones of the mirror are the maximal ones here: between them lie all minimisers
    assert (1 - flipped.labels >= cut.labels).all()
    assert energy.value(1 - flipped.labels) == cut.value


@given(seeds, st.integers(-20, 20))
def test_a_power_of_two_changes_nothing_but_the_value(seed, k):
    _, p, shape, c = world(seed)
    p["envelopes"] = []
    scaled = {**p, "unary": p["unary"] * 2.0**k, "pq": p["pq"] * 2.0**k}
    a = worlds.grid_energy_of(p, shape, c).minimize()
    b = worlds.grid_energy_of(scaled, shape, c).minimize()
    assert (a.labels == b.labels).all()
    assert b.value == a.value * 2.0**k


@given(seeds)
def test_raising_a_unary_never_adds_a_one(seed):
    rng, p, shape, c = world(seed)
    solver = worlds.grid_energy_of(p, shape, c).solver()
    before = solver.minimize().labels
    at = rng.integers(p["unary"].size)
    solver.set_unary([at], [p["unary"][at] + 3])
    after = solver.minimize().labels
    assert (after <= before).all()


def test_constants_of_two_columns_only_shift():
    rng = np.random.default_rng(0)
    u = rng.integers(-5, 6, (6, 2)).astype(float)
    a = cl.Energy(u, [[0, 1]], [1.0]).minimize()
    b = cl.Energy(u + 7.0, [[0, 1]], [1.0]).minimize()
    assert (a.labels == b.labels).all()
    assert b.value == a.value + 42.0
