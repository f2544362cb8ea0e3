"""Every master reaches the optimum with every labelling enumerated, found by another solver."""

import math
from typing import Any, NamedTuple

import numpy as np
import pytest

from cutlearn.energy.problem import Problem
from cutlearn.errors import ConvergenceWarning
from cutlearn.learn import bundle as master
from cutlearn.learn.train import train
from tiny_problems import count, full_optimum, hamming, planes, tiny_set

LOSSES = {"hamming": hamming, "count": count}
TOL = 1e-5


class World(NamedTuple):
    """A small training set beside all its planes."""

    problems: list
    labels: list
    every: list  # (b, a) of each image: all its labellings
    rows: np.ndarray
    least: np.ndarray
    options: dict[str, Any]  # what `train` needs to know of this kind of problem


def binary(rng, loss, normalize):
    """Unary and pairwise terms, on graphs and grids."""
    problems, labels, (rows, rhs) = tiny_set(rng, grid=bool(rng.integers(2)))
    every = [planes(p, y, LOSSES[loss], normalize) for p, y in zip(problems, labels)]
    return World(problems, labels, every, rows, rhs, {"loss": loss})


# Kinds of problems: each a name and a function (rng, loss, normalize) -> World.
WORLDS = {"binary": binary}
MASTERS = [("bundle", "one"), ("bundle", "all"), ("accpm", "one"), ("accpm", "all")]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", WORLDS)
@pytest.mark.parametrize("seed", range(30))
def test_masters_reach_the_enumerated_optimum(seed, kind, loss):
    rng = np.random.default_rng([seed, len(loss), len(kind)])
    normalize = ("pixels", "loss", "none")[seed % 3]
    world = WORLDS[kind](rng, loss, normalize)
    for C in (10.0 ** rng.uniform(-2, 3), math.inf):
        wanted, _ = full_optimum(world.every, 1.0 / C, world.rows, world.least)
        for learner, groups in MASTERS:
            if math.inf == C and learner == "bundle":
                continue
            r = train(
                world.problems,
                world.labels,
                learner=learner,
                C=C,
                tol=TOL,
                normalize=normalize,
                groups=1 if groups == "one" else len(world.problems),
                **world.options,
            )
            reached(world, C, wanted, r)


def reached(world, C, wanted, r):
    assert r.converged
    assert r.certified
    # Separable at C = inf: the optimum is 0, and a gap below the floor is all that was asked for.
    largest = np.mean([b.max() for b, _ in world.every])
    assert r.objective == pytest.approx(wanted, rel=1e-4, abs=1e-3 * TOL * largest)
    assert r.lower_bound <= wanted * (1 + 1e-9)
    # The objective that is reported is the objective at the weights that are reported.
    risk = np.mean([(b + a @ r.w).max() for b, a in world.every])
    assert r.objective == pytest.approx(r.w @ r.w / (2 * C) + risk, rel=1e-9, abs=1e-12 * largest)
    assert (world.rows @ r.w >= world.least).all()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("groups", [1, 4, 9])
@pytest.mark.parametrize("learner", ["bundle", "accpm"])
def test_beginning_on_some_of_the_images_leads_to_the_same_optimum(loss, groups, learner):
    rng = np.random.default_rng(groups)
    problems, truth, (rows, rhs) = tiny_set(rng, images=9)
    every = [planes(p, y, LOSSES[loss], "pixels") for p, y in zip(problems, truth)]
    wanted, _ = full_optimum(every, 0.1, rows, rhs)
    r = train(problems, truth, loss, learner, C=10.0, tol=1e-6, groups=groups)
    assert r.steps[0].calls > 9, "a quarter of the images was asked before the first step"
    assert r.objective == pytest.approx(wanted, rel=1e-4)
    assert r.lower_bound <= wanted * (1 + 1e-9)


@pytest.mark.parametrize("power", [-9, -6, 6, 9])
@pytest.mark.parametrize("scale", [1e-4, 1e4])
@pytest.mark.parametrize("learner", ["bundle", "accpm"])
def test_extreme_regularisation_and_units(power, scale, learner):
    """A nearly linear program, or nearly no risk at all, in features of odd size."""
    rng = np.random.default_rng(3)
    problems, truth, _ = tiny_set(rng)
    problems = [Problem(scale * p.node_features, p.edges, p.edge_features) for p in problems]
    every = [planes(p, y, hamming, "pixels") for p, y in zip(problems, truth)]
    r = train(problems, truth, learner=learner, C=10.0**power, tol=1e-5)
    assert r.converged
    risk = np.mean([(b + a @ r.w).max() for b, a in every])
    assert r.objective == pytest.approx(r.w @ r.w / (2 * 10.0**power) + risk, rel=1e-9)
    # No point near the found one is better than the bound allows.
    for _ in range(200):
        w = r.w + np.abs(r.w).max() * rng.normal(size=5) * 10.0 ** rng.uniform(-6, 0)
        w[3:] = np.maximum(w[3:], 0)
        risk = np.mean([(b + a @ w).max() for b, a in every])
        assert w @ w / (2 * 10.0**power) + risk >= r.lower_bound * (1 - 1e-9)


@pytest.mark.parametrize("learner", ["bundle", "accpm"])
def test_tiny_optima_are_found_too(learner):
    rng = np.random.default_rng(5)
    problems, truth, (rows, rhs) = tiny_set(rng)
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
    wanted, _ = full_optimum(every, 1.0 / C, rows, rhs)
    r = train(problems, truth, learner=learner, C=C, tol=1e-9)
    assert wanted < 1e-6
    assert r.objective == pytest.approx(wanted, rel=1e-4)


@pytest.mark.parametrize(("learner", "C"), [("bundle", 1.0), ("accpm", 1.0), ("accpm", math.inf)])
def test_constraints_that_zero_violates(learner, C):
    rng = np.random.default_rng(6)
    problems, truth, (rows, rhs) = tiny_set(rng)
    more, bound = rng.normal(size=(2, 5)), np.array([0.3, 0.1])
    every = [planes(p, y, hamming, "pixels") for p, y in zip(problems, truth)]
    rows, rhs = np.concatenate([rows, more]), np.concatenate([rhs, bound])
    wanted, _ = full_optimum(every, 1.0 / C, rows, rhs)
    r = train(problems, truth, learner=learner, C=C, tol=1e-6, constraints=(more, bound))
    assert r.objective == pytest.approx(wanted, rel=1e-4)
    assert (rows @ r.w >= rhs - 1e-9).all()


@pytest.mark.parametrize("scale", [1e-7, 1e-3, 1e5])
def test_the_box_of_an_unregularised_run_grows_as_far_as_needed(scale):
    """Weights of the optimum far beyond the first box, or far within it."""
    rng = np.random.default_rng(12)
    problems, truth, (rows, rhs) = tiny_set(rng)
    problems = [Problem(scale * p.node_features, p.edges, p.edge_features) for p in problems]
    every = [planes(p, y, hamming, "pixels") for p, y in zip(problems, truth)]
    plain = [(b, a / np.array([scale] * 3 + [1.0] * 2)) for b, a in every]
    wanted, w = full_optimum(plain, 0.0, rows, rhs)
    r = train(problems, truth, learner="accpm", C=math.inf, tol=1e-5)
    assert r.converged
    assert r.objective == pytest.approx(wanted, rel=1e-4)
    assert r.lower_bound <= wanted * (1 + 1e-9)
    assert wanted > 0.01, "not separable: the optimum has a size of its own"
    assert np.abs(w[:3]).max() / scale > 1e3 or scale > 1e-4


def test_a_box_around_the_centre_proves_nothing_outside():
    """40 values within 1e-3 and one of 1e3: the optimum is 0 at 4e4, far outside the first box."""
    x = np.append(np.linspace(-1e-3, 1e-3, 40), 1e3)
    problem, y = Problem(np.stack([x, np.ones(41)], axis=1)), (x < 0).astype(np.uint8)
    r = train([problem], [y], learner="accpm", C=math.inf)
    assert r.lower_bound == 0.0
    assert r.converged
    assert r.objective <= 0.01 * 1e-3, "the tolerance of the smallest objective"


def test_of_all_optima_without_a_regulariser_a_short_one_is_returned():
    """Any w below -1000 is an optimum of the first weight, and all weights of a second sum."""
    x = np.array([-1e-3, 1e-3, 1e-3])
    flat = np.stack([x, x, np.ones(3)], axis=1)
    problem, y = Problem(flat), np.array([1, 0, 0], np.uint8)
    every = [planes(problem, y, hamming, "pixels")]
    r = train([problem], [y], learner="accpm", C=math.inf, tol=1e-3)
    risk = np.mean([(b + a @ r.w).max() for b, a in every])
    assert r.objective == pytest.approx(risk, abs=1e-12)
    # w1 + w2 = 1000 where nothing costs any more: the shortest has two equal weights.
    assert r.w[0] == pytest.approx(r.w[1], rel=1e-2)
    assert np.linalg.norm(r.w) <= 1.01 * 1000 / np.sqrt(2)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("learner", ["bundle", "nslack"])
def test_raw_colours_and_their_products_are_learned(learner, seed):
    """Features up to 255 and 255^2 at C = 1e4: columns that differ by five powers of ten."""
    rng = np.random.default_rng(seed)
    problems, labels = [], []
    for _ in range(2):
        f = rng.integers(0, 256, (10, 10, 3)).astype(float)
        products = [f[..., i] * f[..., j] for i in range(3) for j in range(i + 1)]
        f = np.concatenate([f, np.stack(products, -1), np.ones((10, 10, 1))], axis=-1)
        problems.append(Problem(f, edge_features=np.ones((180, 1)), shape=(10, 10)))
        labels.append((f[..., 0] + 30 * rng.normal(size=(10, 10)) > 128).astype(np.uint8))
    r = train(problems, labels, learner=learner, C=1e4)
    assert r.converged


@pytest.mark.parametrize("learner", ["bundle", "nslack"])
def test_when_no_solver_finds_the_minimum_the_best_weights_are_returned(learner, monkeypatch):
    rng = np.random.default_rng(5)
    problems, labels, _ = tiny_set(rng)
    every = [planes(p, y, hamming, "pixels") for p, y in zip(problems, labels)]
    monkeypatch.setattr(master, "solve_quadratic", lambda *_: None)
    with pytest.warns(ConvergenceWarning, match="rounding"):
        r = train(problems, labels, learner=learner, C=10.0)
    assert not r.converged
    risk = np.mean([(b + a @ r.w).max() for b, a in every])
    assert r.objective == pytest.approx(r.w @ r.w / 20.0 + risk, rel=1e-9)


def test_weights_that_rounding_makes_worthless_are_not_certified():
    """1 + 1e-9 k beside a constant: only weights of 2e9 tell the nodes apart."""
    k = np.arange(-20, 20) + 0.5
    problem, y = Problem(np.stack([1 + 1e-9 * k, np.ones(40)], axis=1)), (k < 0).astype(np.uint8)
    with pytest.warns(ConvergenceWarning, match="too large to be trusted"):
        r = train([problem], [y], learner="accpm", C=math.inf)
    assert not r.converged
    assert r.gap > 100 * (r.objective - r.lower_bound)
