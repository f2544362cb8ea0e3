"""The bundle reaches the optimum of the full QP, every labelling enumerated, second solver."""

import numpy as np
import pytest

from cutlearn.features.problem import Problem
from cutlearn.learn.train import train
from tiny_problems import count, full_optimum, hamming, planes, tiny_set

LOSSES = {"hamming": hamming, "count": count}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(50))
def test_bundle_reaches_the_enumerated_optimum(seed, loss):
    rng = np.random.default_rng([seed, len(loss)])
    problems, truth, (rows, least) = tiny_set(rng, grid=seed % 2 == 1)
    normalize = ("pixels", "loss", "none")[seed % 3]
    C = 10.0 ** rng.uniform(-2, 3)
    every = [planes(p, y, LOSSES[loss], normalize) for p, y in zip(problems, truth)]
    wanted, _ = full_optimum(every, 1.0 / C, rows, least)
    groups = int(rng.integers(1, len(problems) + 1))
    r = train(problems, truth, loss, C=C, tol=1e-6, normalize=normalize, groups=groups)
    assert r.converged
    assert r.certified
    assert r.objective == pytest.approx(wanted, rel=1e-4)
    assert r.lower_bound <= wanted * (1 + 1e-9)
    # The objective that is reported is the objective at the weights that are reported.
    risk = np.mean([(b + a @ r.w).max() for b, a in every])
    assert r.objective == pytest.approx(r.w @ r.w / (2 * C) + risk, rel=1e-12)
    assert (rows @ r.w >= least).all()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("groups", [1, 4, 9])
def test_beginning_on_some_of_the_images_leads_to_the_same_optimum(loss, groups):
    rng = np.random.default_rng(groups)
    problems, truth, (rows, least) = tiny_set(rng, images=9)
    every = [planes(p, y, LOSSES[loss], "pixels") for p, y in zip(problems, truth)]
    wanted, _ = full_optimum(every, 0.1, rows, least)
    r = train(problems, truth, loss, C=10.0, tol=1e-6, groups=groups)
    assert r.steps[0].calls > 9, "a quarter of the images was asked before the first step"
    assert r.objective == pytest.approx(wanted, rel=1e-4)
    assert r.lower_bound <= wanted * (1 + 1e-9)


@pytest.mark.parametrize("power", [-9, -6, 6, 9])
@pytest.mark.parametrize("scale", [1e-4, 1e4])
def test_extreme_regularisation_and_units(power, scale):
    """A nearly linear program, or nearly no risk at all, in features of odd size."""
    rng = np.random.default_rng(3)
    problems, truth, _ = tiny_set(rng)
    problems = [Problem(scale * p.node_features, p.edges, p.edge_features) for p in problems]
    every = [planes(p, y, hamming, "pixels") for p, y in zip(problems, truth)]
    r = train(problems, truth, C=10.0**power, tol=1e-5)
    assert r.converged
    risk = np.mean([(b + a @ r.w).max() for b, a in every])
    assert r.objective == pytest.approx(r.w @ r.w / (2 * 10.0**power) + risk, rel=1e-9)
    # No point near the found one is better than the bound allows.
    for _ in range(200):
        w = r.w + np.abs(r.w).max() * rng.normal(size=5) * 10.0 ** rng.uniform(-6, 0)
        w[3:] = np.maximum(w[3:], 0)
        risk = np.mean([(b + a @ w).max() for b, a in every])
        assert w @ w / (2 * 10.0**power) + risk >= r.lower_bound * (1 - 1e-9)


def test_tiny_optima_are_found_too():
    rng = np.random.default_rng(5)
    problems, truth, (rows, least) = tiny_set(rng)
    # Separable features: the objective is about lambda / 2 |w|^2, far below the loss.
    problems = [
        Problem(
            np.where(y[:, None] == 1, -1.0, 1.0) * (1 + np.abs(p.node_features)),
            p.edges,
            p.edge_features,
        )
        for p, y in zip(problems, truth)
    ]
    C = 1e7
    every = [planes(p, y, hamming, "pixels") for p, y in zip(problems, truth)]
    wanted, _ = full_optimum(every, 1.0 / C, rows, least)
    r = train(problems, truth, C=C, tol=1e-9)
    assert wanted < 1e-6
    assert r.objective == pytest.approx(wanted, rel=1e-4)


def test_constraints_that_zero_violates():
    rng = np.random.default_rng(6)
    problems, truth, (rows, least) = tiny_set(rng)
    more, bound = rng.normal(size=(2, 5)), np.array([0.3, 0.1])
    every = [planes(p, y, hamming, "pixels") for p, y in zip(problems, truth)]
    rows, least = np.concatenate([rows, more]), np.concatenate([least, bound])
    wanted, _ = full_optimum(every, 1.0, rows, least)
    r = train(problems, truth, C=1.0, tol=1e-6, constraints=(more, bound))
    assert r.objective == pytest.approx(wanted, rel=1e-4)
    assert (rows @ r.w >= least - 1e-9).all()
