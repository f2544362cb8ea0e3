"""Laws of planes: never above the risk, touching it where made; the lower bound never falls, and
never exceeds the optimum."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cutlearn.learn.losses import loss_of
from cutlearn.learn.train import train
from linear_energies import bound_task
from tiny_problems import count, hamming, planes, tiny_set
from trainings import MARGIN, draw, fault_of

LOSSES = {"hamming": hamming, "count": count}
MASTERS = ("bundle", "nslack", "accpm")
seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=60, deadline=None)
@given(seeds, st.sampled_from(sorted(LOSSES)), st.booleans())
def test_a_plane_touches_the_risk_and_never_exceeds_it(seed, loss, grid):
    rng = np.random.default_rng(seed)
    problems, truth, _ = tiny_set(rng, grid)
    p, y = problems[0], truth[0]
    b, a = planes(p, y, LOSSES[loss], "pixels")
    w, other = (np.concatenate([rng.normal(size=3), rng.uniform(0, 2, 2)]) for _ in range(2))
    plane = bound_task(p, y, loss_of(loss)).plane(w)
    assert abs(plane.value(w) - (b + a @ w).max()) < 1e-9
    assert plane.value(other) <= (b + a @ other).max() + 1e-9


@settings(max_examples=40, deadline=None)
@given(seeds, st.sampled_from(sorted(LOSSES)), st.floats(-3, 4), st.sampled_from(MASTERS))
def test_the_lower_bound_never_falls_and_never_passes_the_objective(seed, loss, power, learner):
    rng = np.random.default_rng(seed)
    problems, truth, _ = tiny_set(rng)
    r = train(problems, truth, loss, learner, C=10.0**power, tol=1e-5)
    bounds = [step.lower_bound for step in r.steps]
    assert all(low <= high for low, high in pairwise(bounds))
    best = [step.best for step in r.steps]
    assert all(high >= low for high, low in pairwise(best))
    assert all(low <= step.objective * (1 + 1e-9) for step in r.steps for low in bounds)
    assert r.objective == best[-1] == min(step.objective for step in r.steps)
    assert 0 <= r.gap <= 1e-5 * max(r.objective, 1e-3)


@settings(max_examples=60, deadline=None)
@given(seeds, st.sampled_from(MARGIN))
def test_a_reported_lower_bound_never_exceeds_the_optimum(seed, learner):
    """Any C, infinity among them, and features over six decades; in exact arithmetic."""
    world = draw(np.random.default_rng(seed), learner)
    fault, result = fault_of(world)
    assert fault == "", (world.options, result)
    bounds = [step.lower_bound for step in result.steps]
    assert all(low <= high for low, high in pairwise(bounds))
