"""w . psi(y) is the energy, written out term by term."""

import numpy as np
import pytest

from cutlearn.energy.energy import Energy
from cutlearn.energy.envelopes import EnvelopeSpec
from cutlearn.energy.problem import Problem
from cutlearn.errors import InputError
from cutlearn.grid import grid_edge_counts
from linear_energies import constraints_of, energy_of, layout_of, psi, unary_of, weights_of
from tiny_problems import labellings, random_problem, random_vector, with_regions


@pytest.mark.parametrize("grid", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_energy_is_w_times_psi(seed, grid):
    rng = np.random.default_rng(seed)
    p = random_problem(rng, grid=grid)
    w = np.concatenate([rng.normal(size=3), rng.uniform(0, 2, 2)])
    ends = p.edge_ends()
    e = Energy(unary_of(p, w), ends, weights_of(p, w))
    for y in labellings(p.n_nodes):
        by_hand = sum(w[:3] @ f for f, label in zip(p.node_features, y) if label)
        by_hand += sum(w[3:] @ g for (i, j), g in zip(ends, p.edge_features) if y[i] != y[j])
        assert w @ psi(p, y) == pytest.approx(by_hand, rel=1e-12, abs=1e-12)
        assert e.value(y) == pytest.approx(by_hand, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("connectivity", [4, 8])
@pytest.mark.parametrize("edges", [True, False])
def test_energy_of_a_grid_is_that_of_its_edge_list(connectivity, edges):
    rng = np.random.default_rng(connectivity)
    shape = (3, 4)
    count = sum(grid_edge_counts(shape, connectivity))
    features = rng.uniform(0, 1, (count, 2)) if edges else None
    p = Problem(rng.normal(size=(12, 2)), None, features, shape=shape, connectivity=connectivity)
    w = np.concatenate([rng.normal(size=2), rng.uniform(0, 1, p.n_edge_features)])
    on_grid = energy_of(p, w)
    listed = energy_of(Problem(p.node_features, p.edge_ends(), p.edge_features), w)
    for y in rng.integers(0, 2, (20, *shape)):
        assert on_grid.value(y) == pytest.approx(listed.value(y.ravel()), abs=1e-12)
        assert on_grid.value(y) == pytest.approx(w @ psi(p, y), abs=1e-12)
    assert on_grid.minimize().labels.ravel().tolist() == listed.minimize().labels.tolist()


def test_single_precision_features_are_summed_in_double():
    features = np.full((100_001, 1), 0.1, np.float32)
    p = Problem(features)
    exact = 100_001 * float(np.float32(0.1))
    assert psi(p, np.ones(100_001))[0] == pytest.approx(exact, rel=1e-13)
    assert unary_of(p, [3.0])[0] == float(np.float32(0.1)) * 3.0


def test_named_slices():
    p = Problem(np.ones((2, 3)), [[0, 1]], np.ones((1, 2)))
    parts = layout_of(p).split([1, 2, 3, 4, 5])
    assert parts["node"].tolist() == [1, 2, 3]
    assert parts["edge"].tolist() == [4, 5]


def test_constraints_keep_every_edge_submodular():
    p = Problem(np.ones((2, 3)), [[0, 1]], np.ones((1, 2)))
    rows, least = constraints_of(p)
    assert rows.tolist() == [[0, 0, 0, 1, 0], [0, 0, 0, 0, 1]]
    assert least.tolist() == [0, 0]


@pytest.mark.parametrize("w", [[1.0], [1, 2, 3, np.nan, 1], [1, 2, 3, -1, 1]])
def test_weights_that_do_not_fit(w):
    p = Problem(np.ones((2, 3)), [[0, 1]], np.ones((1, 2)))
    with pytest.raises(InputError, match=r"^w "):
        weights_of(p, w)


def test_labels_that_do_not_fit():
    with pytest.raises(InputError, match="labels has 3 values, but this problem has 2 nodes"):
        psi(Problem(np.ones((2, 3))), [0, 1, 1])


FORMS = ["samples", "slopes", "curvatures"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("grid", [False, True])
def test_energy_with_envelopes_is_w_times_psi(form, grid):
    rng = np.random.default_rng(len(form) + grid)
    bare = random_problem(rng, grid=grid)
    fine, coarse = [[0], np.arange(bare.n_nodes)], [np.arange(bare.n_nodes)[::2]]
    p = with_regions(bare, [fine, coarse])
    specs = (EnvelopeSpec(4, form), EnvelopeSpec(2, form, "node"))
    vectors = [random_vector(rng, spec) for spec in specs]
    w = np.concatenate([rng.normal(size=3), rng.uniform(0, 2, 2), *vectors])
    e = Energy.of(p, w, specs)
    plain = energy_of(bare, w[:5])
    for y in labellings(p.n_nodes):
        by_hand = plain.value(y.reshape(plain.shape))
        for regions, spec, vector in zip((fine, coarse), specs, vectors):
            samples = spec.convert(vector, "samples")
            for members in regions:
                at = np.linspace(0, 1, spec.lines + 1)
                size = len(members) if spec.per == "node" else 1
                by_hand += size * np.interp(y[members].mean(), at, samples)
        assert w @ psi(p, y, specs) == pytest.approx(by_hand, rel=1e-11, abs=1e-11)
        assert e.value(y.reshape(e.shape)) == pytest.approx(by_hand, rel=1e-11, abs=1e-11)


def test_named_slices_of_families():
    p = Problem(np.ones((2, 3)), [[0, 1]], np.ones((1, 2)), regions=[[[0, 1]], [[0], [1]]])
    parts = layout_of(p, [EnvelopeSpec(2), EnvelopeSpec(1)]).split(np.arange(10))
    assert [(name, part.tolist()) for name, part in parts.items()] == [
        ("node", [0, 1, 2]), ("edge", [3, 4]), ("envelope0", [5, 6, 7]), ("envelope1", [8, 9]),
    ]  # fmt: skip
    one = layout_of(Problem(np.ones((2, 1)), regions=[[0, 1]]), EnvelopeSpec(2))
    assert one.split([1, 2, 3, 4])["envelope"].tolist() == [2, 3, 4]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
def test_weights_that_left_the_cone_by_rounding_come_back(form, size):
    rng = np.random.default_rng(3)
    for lines in (1, 2, 7, 30):
        spec = EnvelopeSpec(lines, form)
        vector = random_vector(rng, spec)
        at = rng.integers(0, lines)
        straight = spec.convert(vector, "slopes")
        straight[1 + at // 2 : 2 + at] = straight[1 + at]
        inner = EnvelopeSpec(lines, "slopes").convert(straight, form) * size
        moved = inner * (1 + 1e-11 * rng.normal(size=lines + 1))
        back = spec.inside(moved)
        assert (spec.constraints() @ back >= 0).all()
        assert np.abs(back - moved).max() <= 1e-9 * np.abs(moved).max()
        again = spec.inside(back)
        assert np.abs(again - back).max() <= 1e-12 * np.abs(back).max()


P = Problem(np.ones((2, 1)), regions=[[[0, 1]], [[0], [1]]])
SPEC = EnvelopeSpec(3)
BAD = {
    "not a spec": lambda: layout_of(P, 3),
    "one spec too few": lambda: layout_of(P, [SPEC]),
    "something among them": lambda: psi(P, [0, 1], [SPEC, 3]),
    "no regions": lambda: constraints_of(Problem(np.ones((2, 1))), SPEC),
    "w too short": lambda: energy_of(P, np.ones(5), SPEC),
    "convex": lambda: energy_of(P, [1.0, 0, 1, 1, 0, 0, 1, -1, -1], SPEC),
}


@pytest.mark.parametrize("case", BAD)
def test_envelopes_that_do_not_fit(case):
    with pytest.raises(InputError, match=r"^(envelope|w) "):
        BAD[case]()
