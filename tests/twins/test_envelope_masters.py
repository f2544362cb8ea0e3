"""Training with envelopes and every loss reaches the optimum of the full QP, all enumerated."""

import math
from itertools import product

import numpy as np
import pytest

from cutlearn.energy.envelopes import EnvelopeSpec
from cutlearn.learn.losses import Count, CountFunction, Hamming
from cutlearn.learn.train import train
from linear_energies import constraints_of
from tiny_problems import (
    count,
    full_optimum,
    hamming,
    planes,
    random_regions,
    regional_count,
    tiny_set,
    with_regions,
)

LOSSES = ["hamming", "weighted", "count", "one-sided", "area", "regions", "function", "sum"]
TOL = 1e-6
FORMS = [None, "samples", "slopes", "curvatures"]


def losses(rng, problems):
    """Each loss for these problems, and the same in plain words, image by image."""
    counted = [[*random_regions(rng, p.n_nodes), np.arange(p.n_nodes)] for p in problems]
    areas = [rng.uniform(0, 2, p.n_nodes) for p in problems]
    return {
        "hamming": (Hamming(), lambda i: hamming),
        "weighted": (Hamming((0.5, 2.0)), lambda i: lambda y, t: hamming(y, t, (0.5, 2.0))),
        "count": (Count(), lambda i: count),
        "one-sided": (
            Count(side="under", tolerance=1),
            lambda i: lambda y, t: count(y, t, "under", 1),
        ),
        "area": (
            Count(weights=areas),
            lambda i: lambda y, t: abs(float(areas[i] @ y) - float(areas[i] @ t)),
        ),
        "regions": (
            Count(regions=counted),
            lambda i: lambda y, t: regional_count(y, t, counted[i]),
        ),
        "function": (CountFunction(np.square), lambda i: lambda y, t: count(y, t) ** 2),
        "sum": (
            Hamming() + 0.5 * Count() + 2 * Count(regions=counted),
            lambda i: (
                lambda y, t: (
                    hamming(y, t) + 0.5 * count(y, t) + 2 * regional_count(y, t, counted[i])
                )
            ),
        ),
    }


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("loss", "form"), list(product(LOSSES, FORMS)))
def test_every_master_reaches_the_enumerated_optimum(loss, form, seed):
    rng = np.random.default_rng([seed, LOSSES.index(loss), FORMS.index(form)])
    problems, truth, _ = tiny_set(rng, grid=seed % 2 == 1, images=2)
    specs = None
    if form is not None:
        specs = (EnvelopeSpec(int(rng.integers(1, 5)), form), EnvelopeSpec(3, form, "node"))
        problems = [
            with_regions(p, [random_regions(rng, p.n_nodes), random_regions(rng, p.n_nodes)])
            for p in problems
        ]
    normalize = ("pixels", "loss", "none")[seed % 3]
    finite = 10.0 ** rng.uniform(-1, 2)
    given, delta = losses(rng, problems)[loss]
    every = [
        planes(p, y, delta(i), normalize, specs) for i, (p, y) in enumerate(zip(problems, truth))
    ]
    rows, least = constraints_of(problems[0], specs)
    largest = np.mean([b.max() for b, _ in every])
    runs = [("bundle", finite, 1), ("bundle", finite, 2), ("accpm", finite, 2)]
    for learner, C, groups in [*runs, ("accpm", math.inf, 1 + seed // 2)]:
        wanted, _ = full_optimum(every, 1.0 / C, rows, least)
        r = train(problems, truth, given, learner, C=C, tol=TOL, normalize=normalize,
                  envelope=specs, groups=groups)  # fmt: skip
        assert r.converged
        # A separable set at C = inf: the optimum is 0, and a gap below the floor is all asked for.
        floor = 1e-3 * TOL * largest
        assert r.objective == pytest.approx(wanted, rel=1e-4, abs=floor)
        assert r.lower_bound <= wanted * (1 + 1e-9) + 1e-9 * floor
        risk = np.mean([(b + a @ r.w).max() for b, a in every])
        assert r.objective == pytest.approx(r.w @ r.w / (2 * C) + risk, rel=1e-9, abs=floor)
        assert (rows @ r.w >= least).all(), "inside of the cone, without any rounding"
