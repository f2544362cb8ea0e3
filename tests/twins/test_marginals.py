"""Min-marginals and their argmins against enumeration and against forced re-solves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import gaussian_filter

import cutlearn as cl
import oracles
import worlds
from cutlearn.errors import InputError

GRIDS = [((2, 3), 4), ((3, 3), 4), ((2, 4), 8), ((1, 6), 8), ((7, 1), 4), ((1, 1), 4),
         ((2, 2, 2), 6), ((2, 2, 2), 18), ((2, 2, 2), 26)]  # fmt: skip


LARGE = {"plain": ((200, 200), 4), "eight": ((150, 210), 8), "solid": ((24, 30, 28), 6),
         "envelopes": ((160, 160), 4)}  # fmt: skip


def world(rng):
    """Whole numbers over a list or a grid; now and then unaries so large that they are clipped."""
    if rng.random() < 0.5:
        p, make = worlds.parts(rng, True, most=8), worlds.energy_of
    else:
        shape, connectivity = GRIDS[rng.integers(len(GRIDS))]
        p = worlds.grid_parts(rng, True, shape, connectivity)
        make = lambda p: worlds.grid_energy_of(p, shape, connectivity)  # noqa: E731
    if rng.random() < 0.15:
        p["unary"][rng.integers(p["unary"].size)] = 1e6 * rng.choice([-1, 1])
    return p, make(p)


def some_fixed(rng, n):
    fixed = np.full(n, -1)
    if rng.random() < 0.3:
        some = rng.random(n) < 0.3
        fixed[some] = rng.integers(0, 2, some.sum())
    return fixed


def nearest(Y, values, labels, d):
    """The nodes that turn in every labelling with d turned and the least energy.

    Labelings that keep the other side as it is are closed under intersection of what they turn.
    """
    turned = labels != Y
    same_side = (labels == labels[d]) | ~turned
    rows = turned[:, d]
    rows = rows & (values == values[rows].min()) & same_side.all(axis=1)
    return np.flatnonzero(turned[rows].all(axis=0))


def turned_sets(energy, nodes, fixed=None):
    """For each of up to 30 nodes d the nodes that turn in argmin_d, from one sum with c_d = 2^k."""
    c = np.zeros(energy.shape)
    c.flat[nodes] = 2.0 ** np.arange(len(nodes))
    bits = np.abs(energy.argmin_sums(c, fixed=fixed).node).astype(np.int64)
    return [np.flatnonzero(bits >> k & 1) for k in range(len(nodes))]


@pytest.mark.parametrize("chunk", range(20))
def test_10000_tiny_energies_against_enumeration(chunk):
    rng = np.random.default_rng([31, chunk])
    for _ in range(500):
        p, energy = world(rng)
        n = p["unary"].size
        fixed = some_fixed(rng, n)
        Y = oracles.labelings(n)
        Y = Y[oracles.allowed(Y, fixed)]
        values = oracles.energies(p, Y)
        _, labels = oracles.minimal(Y, values)
        fixed_nodes = fixed.reshape(energy.shape)
        phi = energy.min_marginals(fixed_nodes).reshape(n, 2)
        expected = oracles.min_marginals(Y, values)
        clipped = np.abs(p["unary"]).max() > 1e5  # then numbers carry a quantum of their own
        finite = np.isfinite(expected)
        assert (np.isfinite(phi) == finite).all()
        assert np.abs(phi[finite] - expected[finite]).max() <= (1e-9 if clipped else 0.0)
        for d, turned in enumerate(turned_sets(energy, range(n), fixed_nodes)):
            if fixed[d] >= 0:
                assert turned.size == 0
                continue
            nodes = nearest(Y, values, labels, d)
            assert turned.tolist() == nodes.tolist()


def large(kind):
    """A grid of up to 40,000 nodes whose flow travels far."""
    rng = np.random.default_rng([32, len(kind)])
    shape, connectivity = LARGE[kind]
    u = 40 * gaussian_filter(rng.standard_normal(shape), 4) + 0.2 * rng.standard_normal(shape)
    weights = [
        np.rint(200 * rng.random([s - abs(d) for s, d in zip(shape, o)])) / 200
        for o in cl.grid.grid_offsets(len(shape), connectivity)
    ]
    blocks = []
    if kind == "envelopes":
        nodes = np.arange(u.size).reshape(shape)
        for part in np.array_split(nodes, 8):
            blocks.append(cl.Envelope(part.ravel(), [0.5, 0.1, -0.5], [0.0, 40.0, 200.0]))
    return cl.Energy.grid(np.rint(64 * u) / 64, weights, connectivity, blocks)


@pytest.mark.parametrize("kind", LARGE)
def test_large_energies_against_forced_solves(kind):
    energy = large(kind)
    cut = energy.minimize()
    labels = cut.labels.ravel()
    phi = energy.min_marginals().reshape(-1, 2)
    solver = energy.solver()
    rng = np.random.default_rng(33)
    drawn = rng.choice(labels.size, 50, replace=False)
    sets = turned_sets(energy, drawn[:25]) + turned_sets(energy, drawn[25:])
    for d, nodes in zip(drawn, sets):
        other = 1 - labels[d]
        solver.set_fixed([d], [other])
        assert solver.minimize().value == phi[d, other]
        solver.set_fixed([d], [-1])
        assert phi[d, labels[d]] == cut.value
        turned = labels.copy()
        turned[nodes] ^= 1
        assert turned[d] == other
        assert abs(energy.value(turned.reshape(energy.shape)) - phi[d, other]) <= 1e-9 * abs(
            cut.value
        )


@pytest.mark.parametrize("kind", ["plain", "envelopes"])
def test_threads_give_the_same_bits(kind):
    energy = large(kind)
    rng = np.random.default_rng(34)
    truth = rng.integers(0, 2, energy.shape)
    regions = [np.arange(500), np.arange(100, 4000)]
    one = energy.argmin_sums(truth=truth, regions=regions)
    for threads in (2, 3):
        assert (energy.min_marginals(threads=threads) == one.min_marginals).all()
        many = energy.argmin_sums(truth=truth, regions=regions, threads=threads)
        assert (many.node == one.node).all()
        assert (many.edge == one.edge).all()
        assert all((a == b).all() for a, b in zip(many.region, one.region))


def slow_sums(p, labels, c, sets, regions):
    """The sums labelling by labelling, from their definition."""
    n = labels.size
    node, edge = np.zeros(n), np.zeros(len(p["edges"]))
    region = [np.zeros(r.size + 1) for r in regions]
    cuts = lambda y: y[p["edges"][:, 0]] != y[p["edges"][:, 1]]  # noqa: E731
    for d in range(n):
        other = labels.copy()
        other[sets[d]] ^= 1
        node += c[d] * (other - labels)
        edge += c[d] * (cuts(other).astype(int) - cuts(labels).astype(int))
        for sums, r in zip(region, regions):
            sums[other[r].sum()] += c[d]
            sums[labels[r].sum()] -= c[d]
    return node, edge, region


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 2**32 - 1))
def test_sums_over_argmins_are_those_of_the_labelings(seed):
    rng = np.random.default_rng(seed)
    p, energy = world(rng)
    n = p["unary"].size
    fixed = some_fixed(rng, n).reshape(energy.shape)
    regions = [rng.choice(n, rng.integers(0, n + 1), replace=False) for _ in range(2)]
    min_marginals = energy.min_marginals(fixed)
    sets = turned_sets(energy, range(n), fixed)
    labels = energy.minimize(fixed).labels.ravel().astype(int)
    phi = min_marginals.reshape(n, 2)
    truth = rng.choice([0, 1, 255], n)
    rise = phi[np.arange(n), 1 - labels] - phi[np.arange(n), labels]
    q = 1 / (1 + np.exp(np.minimum(rise, 700)))
    likelihood = np.where(truth == 255, 0.0, q - (truth != labels))
    given_weights = rng.standard_normal(n) * 10.0 ** rng.uniform(-6, 6)
    for c, how in [(likelihood, {"truth": truth}), (given_weights, {"weights": given_weights})]:
        how = {k: v.reshape(energy.shape) for k, v in how.items()}
        sums = energy.argmin_sums(**how, regions=regions, fixed=fixed)
        node, edge, region = slow_sums(p, labels, c, sets, regions)
        slack = 1e-13 * n * max(1.0, np.abs(c).max())
        assert (sums.min_marginals == min_marginals).all()
        assert np.abs(sums.node - node).max() <= slack
        assert edge.size == 0 or np.abs(sums.edge - edge).max() <= slack
        assert len(sums.region) == len(regions)
        for a, b in zip(sums.region, region):
            assert np.abs(a - b).max() <= slack


def test_wrong_arguments_are_refused_by_name():
    energy = cl.Energy.grid(np.ones((2, 3)), 1.0)
    with pytest.raises(InputError, match="weights and truth: neither"):
        energy.argmin_sums()
    with pytest.raises(InputError, match="weights and truth: both"):
        energy.argmin_sums(np.ones((2, 3)), np.ones((2, 3), int))
    with pytest.raises(InputError, match="truth has shape"):
        energy.argmin_sums(truth=np.ones((3, 2), int))
    with pytest.raises(InputError, match=r"truth must be .*, not 7"):
        energy.argmin_sums(truth=np.full((2, 3), 7))
    with pytest.raises(InputError, match=r"threads must be .*, not 0"):
        energy.min_marginals(threads=0)
