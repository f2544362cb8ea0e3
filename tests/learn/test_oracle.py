"""The oracle's plane is the highest of all labellings' planes at w, by enumeration."""

import numpy as np
import pytest

from cutlearn.energy.envelopes import EnvelopeSpec
from cutlearn.energy.problem import Problem
from cutlearn.errors import InputError
from cutlearn.learn.losses import Count, CountFunction, Hamming
from linear_energies import bound_task, psi
from tiny_problems import (
    count,
    hamming,
    labellings,
    planes,
    random_problem,
    random_regions,
    random_vector,
    regional_count,
    with_regions,
)

CASES = {
    "hamming": (Hamming(), hamming),
    "weighted": (Hamming((0.5, 2.0)), lambda y, t: hamming(y, t, (0.5, 2.0))),
    "count": (Count(), count),
    "over": (Count(side="over"), lambda y, t: count(y, t, "over")),
    "under, tolerance": (
        Count(side="under", tolerance=1),
        lambda y, t: count(y, t, "under", 1),
    ),
    "tolerance": (Count(tolerance=1.5), lambda y, t: count(y, t, "both", 1.5)),
    "sum": (2 * Hamming() + Count(), lambda y, t: 2 * hamming(y, t) + count(y, t)),
}


def random_weights(rng):
    return np.concatenate([rng.normal(size=3), rng.uniform(0, 2, 2)]) * 10 ** rng.uniform(-3, 1)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("normalize", ["pixels", "loss", "none"])
@pytest.mark.parametrize("seed", range(4))
def test_highest_plane_at_every_w(case, normalize, seed):
    rng = np.random.default_rng(seed)
    loss, delta = CASES[case]
    p = random_problem(rng, grid=seed % 2 == 1)
    truth = rng.integers(0, 2, p.n_nodes).astype(np.uint8)
    oracle = bound_task(p, truth, loss, 0, normalize)
    b, a = planes(p, truth, delta, normalize)
    for _ in range(5):  # the same warm handle, other weights
        w = random_weights(rng)
        plane = oracle.plane(w)
        assert plane.value(w) == pytest.approx((b + a @ w).max(), rel=1e-9, abs=1e-12)
        known = np.abs(b - plane.b) + np.abs(a - plane.a).max(axis=1)
        assert known.min() < 1e-9, "the plane belongs to a labelling"


def counting(many):
    """Losses that count regions, or by a function."""
    return {
        "regions": (Count(regions=[many]), lambda y, t: regional_count(y, t, many)),
        "function": (CountFunction(np.square), lambda y, t: count(y, t) ** 2),
        "all": (
            Hamming() + Count(tolerance=0.5) + 0.5 * CountFunction(np.square)
            + 2 * Count(regions=[many]),
            lambda y, t: hamming(y, t) + count(y, t, "both", 0.5) + 0.5 * count(y, t) ** 2
            + 2 * regional_count(y, t, many),
        ),
    }  # fmt: skip


def regions_of(rng, n):
    """Two families: one of overlapping lists, one of a map with nodes in no region."""
    return [random_regions(rng, n), rng.integers(-1, 3, (1, n))]


@pytest.mark.parametrize("form", ["samples", "slopes", "curvatures"])
@pytest.mark.parametrize("lines", [1, 2, 5])
@pytest.mark.parametrize("case", ["hamming", "count", "regions", "function", "all"])
def test_highest_plane_with_envelopes(form, lines, case):
    rng = np.random.default_rng([lines, len(form), len(case)])
    for turn in range(4):
        bare = random_problem(rng, grid=turn % 2 == 1)
        n = bare.n_nodes
        p = with_regions(bare, regions_of(rng, n))
        regions = [*random_regions(rng, n), *random_regions(rng, n), np.arange(n)]
        loss, delta = (CASES | counting(regions))[case]
        specs = (EnvelopeSpec(lines, form), EnvelopeSpec(3, form, "node"))
        truth = rng.integers(0, 2, n).astype(np.uint8)
        normalize = ("pixels", "loss", "none")[turn % 3]
        oracle = bound_task(p, truth, loss, 0, normalize, specs)
        b, a = planes(p, truth, delta, normalize, specs)
        for _ in range(3):
            vectors = [random_vector(rng, spec) for spec in specs]
            w = np.concatenate([random_weights(rng), *vectors])
            plane = oracle.plane(w)
            assert plane.value(w) == pytest.approx((b + a @ w).max(), rel=1e-9, abs=1e-11)
            known = np.abs(b - plane.b) + np.abs(a - plane.a).max(axis=1)
            assert known.min() < 1e-9, "the plane belongs to a labelling"


@pytest.mark.parametrize("power", [1.0, 1.5, 2.0, 4.0])
@pytest.mark.parametrize("seed", range(5))
def test_convex_functions_of_the_count_by_enumeration(power, seed):
    rng = np.random.default_rng([seed, int(2 * power)])
    for turn in range(5):
        p = random_problem(rng, n=8, grid=turn % 2 == 1)
        truth = rng.integers(0, 2, p.n_nodes).astype(np.uint8)
        under = rng.uniform(0, 2)

        def f(d, under=under):
            return np.where(d > 0, np.abs(d) ** power, under * np.abs(d))

        b, a = planes(p, truth, lambda y, t: float(f(int(y.sum()) - int(t.sum()))), "loss")
        oracle = bound_task(p, truth, CountFunction(f), 0, "loss")
        for _ in range(5):
            w = random_weights(rng)
            assert oracle.plane(w).value(w) == pytest.approx((b + a @ w).max(), rel=1e-9, abs=1e-11)


@pytest.mark.parametrize("grid", [False, True])
def test_void_nodes_leave_regions_and_counts(grid):
    rng = np.random.default_rng(5 + grid)
    spec = EnvelopeSpec(4, "samples", "node")
    loss = Count(regions=[[[0, 1, 2], [1, 3], [0, 2, 3], [4, 5]]]) + CountFunction(np.square)

    def delta(y, t):  # nodes 1, 2, 3 and 5 are left
        return regional_count(y, t, [[0, 1], [0, 2], [1, 2], [3]]) + count(y, t) ** 2

    for _ in range(6):
        n = 6
        nodes, features = rng.normal(size=(n, 3)), rng.uniform(0, 1, (7 if grid else 6, 2))
        ring = None if grid else [[i, (i + 1) % n] for i in range(n)]
        shape = (2, 3) if grid else None
        regions = [[0, 1, 2, 3], [4], [3, 4, 5]]
        p = Problem(nodes, ring, features, regions, shape=shape)
        truth = np.array([255, *rng.integers(0, 2, 3), 255, *rng.integers(0, 2, 1)])
        known = np.flatnonzero(truth != 255)
        ends = p.edge_ends()
        alive = np.isin(ends, known).all(axis=1)
        small = Problem(nodes[known], np.searchsorted(known, ends[alive]), features[alive],
                        [[0, 1, 2], [2, 3]])  # fmt: skip
        b, a = planes(small, truth[known].astype(np.uint8), delta, "pixels", spec)
        oracle = bound_task(p, truth, loss, model=spec)
        for _ in range(3):
            w = np.concatenate([random_weights(rng), random_vector(rng, spec)])
            assert oracle.plane(w).value(w) == pytest.approx((b + a @ w).max(), rel=1e-9, abs=1e-11)


@pytest.mark.parametrize("loss", ["hamming", "count"])
@pytest.mark.parametrize("grid", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_void_nodes_are_as_if_never_there(loss, grid, seed):
    rng = np.random.default_rng(seed)
    p = random_problem(rng, grid=grid)
    n = p.n_nodes
    truth = rng.integers(0, 2, n)
    truth[: n // 2] = 255
    known = np.flatnonzero(truth != 255)
    number = {int(i): k for k, i in enumerate(known)}
    alive = [k for k, e in enumerate(p.edge_ends().tolist()) if e[0] in number and e[1] in number]
    ends = [[number[i] for i in p.edge_ends()[k].tolist()] for k in alive]
    small = Problem(p.node_features[known], np.array(ends, int).reshape(-1, 2),
                    p.edge_features[alive])  # fmt: skip
    loss, delta = CASES[loss]
    b, a = planes(small, truth[known].astype(np.uint8), delta, "pixels")
    oracle = bound_task(p, truth, loss)
    for _ in range(3):
        w = random_weights(rng)
        assert oracle.plane(w).value(w) == pytest.approx((b + a @ w).max(), rel=1e-9, abs=1e-12)


def test_weights_by_pixel_follow_their_pixels_when_void_nodes_leave():
    p = Problem(np.ones((3, 1)), [[0, 1], [1, 2]])
    task = bound_task(p, [255, 0, 1], Hamming(pixel_weights=[[9.0, 2.0, 4.0]]))
    assert task.loss.value([1, 1, 0]) == 6.0
    assert task.largest == 3.0


def test_fixed_nodes_stay():
    rng = np.random.default_rng(3)
    p = random_problem(rng, n=6)
    truth = rng.integers(0, 2, 6).astype(np.uint8)
    fixed = np.where([True, False, False, True, False, False], truth.astype(int), -1)
    held = Problem(p.node_features, p.edges, p.edge_features, fixed=fixed)
    oracle = bound_task(held, truth, Hamming())
    for _ in range(5):
        w = random_weights(rng)
        heights = [
            (hamming(y, truth) + w @ (psi(p, truth) - psi(p, y))) / 6
            for y in labellings(6)
            if (y[[0, 3]] == truth[[0, 3]]).all()
        ]
        assert oracle.plane(w).value(w) == pytest.approx(max(heights), rel=1e-9, abs=1e-12)


def test_weights_beyond_the_range_of_numbers():
    p = Problem(np.full((2, 1), 1e200))
    with pytest.raises(InputError, match=r"image 0: w makes energies beyond .* up to 1e\+200"):
        bound_task(p, [0, 1], Hamming()).plane(np.array([1e200]))


def test_unknown_normalisation():
    with pytest.raises(InputError, match="'normalize' parameter"):
        bound_task(Problem(np.ones((2, 1))), [0, 1], Hamming(), 0, "image")
