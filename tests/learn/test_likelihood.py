"""Likelihood and gradient against enumeration and finite differences."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import cutlearn as cl
import slow_likelihood
import tiny_labels
import tiny_problems
from cutlearn.energy.envelopes import EnvelopeSpec
from cutlearn.energy.model import model_of
from cutlearn.errors import InputError

SPECS = [EnvelopeSpec(3), EnvelopeSpec(2, "slopes", "node"), EnvelopeSpec(4, "samples")]
# Where a rival of an argmin is nearer than this, a finite difference may cross a kink.
SMOOTH = 1e-3


def random_weights(rng, problem, envelope=None):
    """Weights inside the cone by more than a finite difference."""
    parts = [rng.normal(size=problem.n_node_features)]
    parts.append(rng.uniform(0.05, 1.0, problem.n_edge_features))
    if envelope is not None:
        steps = np.sort(rng.normal(size=envelope.lines))[::-1] - 0.1 * np.arange(envelope.lines)
        slopes = EnvelopeSpec(envelope.lines, "slopes", envelope.per)
        parts.append(slopes.convert(np.append(rng.normal(), steps), envelope.form))
    return np.concatenate(parts)


def random_images(rng, chunk, envelope):
    """Two images with labels, some of them void, now and then with fixed nodes."""
    problems, labels = [], []
    for _ in range(2):
        p = tiny_problems.random_problem(rng, grid=chunk % 2 == 0)
        if envelope is not None:
            p = tiny_problems.with_regions(p, tiny_problems.random_regions(rng, p.n_nodes))
        y = rng.integers(0, 2, p.n_nodes).astype(np.uint8)
        if p.n_nodes > 1:
            y[rng.permutation(p.n_nodes)[: rng.integers(0, p.n_nodes)]] = 255
        problems.append(p)
        labels.append(y)
    return problems, labels


def value_at(problems, labels, model, w):
    return cl.likelihood(problems, labels, w, model)[0]


def by_enumeration(problems, labels, w, envelope):
    """The likelihood, void nodes free in the problems, and the least margin."""
    values, margins = [], []
    for problem, y in zip(problems, labels):
        phi, margin = slow_likelihood.min_marginals(problem, w, envelope, problem.fixed)
        values.append(slow_likelihood.log_likelihood(slow_likelihood.softmax(phi), y))
        margins.append(margin)
    return np.mean(values), min(margins)


@pytest.mark.parametrize("chunk", range(8))
@pytest.mark.parametrize("enveloped", [False, True])
def test_value_and_gradient_of_hundreds_of_problems(chunk, enveloped):
    rng = np.random.default_rng([61, chunk, enveloped])
    smooth = 0
    for trial in range(20):
        envelope = SPECS[trial % 3] if enveloped else None
        problems, labels = random_images(rng, chunk, envelope)
        w = random_weights(rng, problems[0], envelope)
        value, gradient = cl.likelihood(problems, labels, w, envelope)
        expected, margin = by_enumeration(problems, labels, w, envelope)
        assert value == pytest.approx(expected, rel=1e-9, abs=1e-12)
        assert gradient.shape == w.shape
        if margin < SMOOTH:
            continue
        smooth += 1
        slopes = slow_likelihood.central_differences(
            partial(value_at, problems, labels, envelope), w
        )
        assert np.abs(gradient - slopes).max() < 5e-8
    assert smooth >= 12


@pytest.mark.parametrize("chunk", range(4))
@pytest.mark.parametrize("enveloped", [False, True])
def test_surrogate_labels(chunk, enveloped):
    rng = np.random.default_rng([62, chunk, enveloped])
    envelope = SPECS[chunk % 3] if enveloped else None
    smooth = 0
    for _ in range(6):
        L = int(rng.integers(2, 4))
        p = tiny_problems.random_problem(rng, grid=chunk % 2 == 0)
        if enveloped:
            p = tiny_problems.with_regions(p, tiny_problems.random_regions(rng, p.n_nodes))
        y = np.where(rng.random(p.n_nodes) < 0.4, 255, rng.integers(0, L, p.n_nodes))
        y[0] = 0
        w = np.concatenate([random_weights(rng, p, envelope) for _ in range(L)])
        S, margin = slow_likelihood.surrogate(p, w, L, envelope)
        q = slow_likelihood.softmax(S)
        model = cl.Model(model_of(p, envelope).potentials, "surrogate", L)
        found = cl.probabilities(p, w, model)
        assert np.abs(found - q).max() < 1e-9
        value, gradient = cl.likelihood([p], [y], w, model)
        assert value == pytest.approx(slow_likelihood.log_likelihood(q, y), rel=1e-9, abs=1e-12)
        if margin < SMOOTH:
            continue
        smooth += 1
        slopes = slow_likelihood.central_differences(partial(value_at, [p], [y], model), w)
        assert np.abs(gradient - slopes).max() < 5e-8
    assert smooth >= 2


@pytest.mark.parametrize("chunk", range(4))
def test_ordered_labels(chunk):
    rng = np.random.default_rng([63, chunk])
    smooth = 0
    for trial in range(12):
        L = int(rng.integers(2, 5))
        p = tiny_labels.random_problem(rng, grid=trial % 2 == 0)
        if trial % 3 == 0:
            fixed = np.where(rng.random(p.n_nodes) < 0.3, rng.integers(0, L, p.n_nodes), -1)
            p = replace(p, fixed=fixed)
        y = np.where(rng.random(p.n_nodes) < 0.2, 255, rng.integers(0, L, p.n_nodes))
        y[0] = 0 if p.fixed is None else max(p.fixed[0], 0)
        y = np.where(y == 255, 255, y if p.fixed is None else np.where(p.fixed < 0, y, p.fixed))
        model = cl.Model(labels="ordered", n_labels=L)
        w = tiny_labels.random_weights(rng, p, L)
        # Inside the cone by more than a finite difference.
        A, bounded = model.layout(p).coordinates(p, np.eye(p.n_node_features))
        w = w + 0.01 * A[:, bounded].sum(axis=1)
        value, gradient = cl.likelihood([p], [y], w, model)
        phi, margin = slow_likelihood.label_min_marginals(p, w, L)
        q = slow_likelihood.softmax(phi)
        expected = np.mean([np.log(q[i, y[i]]) for i in np.flatnonzero(y != 255)])
        assert value == pytest.approx(expected, rel=1e-9, abs=1e-12)
        if margin < SMOOTH:
            continue
        smooth += 1
        slopes = slow_likelihood.central_differences(partial(value_at, [p], [y], model), w)
        assert np.abs(gradient - slopes).max() < 5e-8
    assert smooth >= 4


@pytest.mark.parametrize(
    ("labels", "w"),
    [
        ("binary", [1.0, 0.5]),
        ("ordered", [0.0, 1.0, 0.0, 0.5, 0.5, 0.0]),
        ("surrogate", [-1.0, 0.5, 1.0, 0.5]),
    ],
)
def test_a_void_node_between_two_labelled_ones_is_free(labels, w):
    model = cl.Model(labels=labels, n_labels=2)
    p = cl.Problem([[1.0], [-0.5], [-1.0]], [[0, 1], [1, 2]])
    q = cl.probabilities(p, w, model)
    value, _ = cl.likelihood([p], [[0, 255, 1]], w, model)
    assert value == pytest.approx(np.log([q[0, 0], q[2, 1]]).mean(), rel=1e-12)
    apart = cl.Problem(p.node_features, [[0, 1]], [[0.0]])
    alone = cl.probabilities(apart, w, model)
    assert value != pytest.approx(np.log([alone[0, 0], alone[2, 1]]).mean(), rel=0.01)


def test_images_weigh_the_same_whatever_their_size():
    rng = np.random.default_rng(5)
    small = tiny_problems.random_problem(rng, n=3)
    large = tiny_problems.random_problem(rng, n=8)
    w = random_weights(rng, small)
    y, z = [0, 1, 1], rng.integers(0, 2, 8)
    both = cl.likelihood([small, large], [y, z], w)
    alone = cl.likelihood([small], [y], w), cl.likelihood([large], [z], w)
    assert both[0] == pytest.approx((alone[0][0] + alone[1][0]) / 2, rel=1e-14)
    assert np.abs(both[1] - (alone[0][1] + alone[1][1]) / 2).max() < 1e-15


def test_threads_give_the_same_bits():
    rng = np.random.default_rng(6)
    problems = [
        cl.Problem(rng.normal(size=(30, 40, 5)), edge_features=rng.uniform(0, 1, (2330, 3)),
                   shape=(30, 40), connectivity=4) for _ in range(6)
    ]  # fmt: skip
    labels = [rng.integers(0, 2, (30, 40)) for _ in problems]
    w = random_weights(rng, problems[0])
    one, three = (cl.likelihood(problems, labels, w, n_jobs=jobs) for jobs in (1, 3))
    assert one[0] == three[0]
    assert one[1].tobytes() == three[1].tobytes()


def test_fixed_nodes_are_certain():
    p = cl.Problem([[1.0], [-1.0], [0.5]], [[0, 1], [1, 2]], fixed=[-1, 0, -1])
    q = cl.probabilities(p, [1.0, 0.7])
    phi, _ = slow_likelihood.min_marginals(p, np.array([1.0, 0.7]), fixed=p.fixed)
    assert q[1].tolist() == [1.0, 0.0]
    assert np.abs(q - slow_likelihood.softmax(phi)).max() < 1e-12
    value, _ = cl.likelihood([p], [[0, 0, 1]], [1.0, 0.7])
    assert value == pytest.approx(np.log([q[0, 0], q[2, 1]]).sum() / 3, rel=1e-12)


def test_fixed_nodes_of_surrogate_labels_are_certain():
    p = cl.Problem([[1.0], [-1.0], [0.5]], [[0, 1], [1, 2]], fixed=[-1, 2, -1])
    w = np.array([1.0, 0.7, -0.5, 0.2, 0.3, 0.4])
    q = cl.probabilities(p, w, cl.Model(labels="surrogate"))
    assert q[1].tolist() == [0.0, 0.0, 1.0]
    value, gradient = cl.likelihood([p], [[0, 2, 1]], w, cl.Model(labels="surrogate"))
    assert value == pytest.approx(np.log([q[0, 0], q[2, 1]]).sum() / 3, rel=1e-12)
    assert np.isfinite(gradient).all()


def test_refusals():
    p = cl.Problem([[1.0], [-1.0]], [[0, 1]])
    with pytest.raises(InputError, match="'unordered' labels have no likelihood"):
        cl.likelihood([p], [[0, 1]], [1.0, 1.0], cl.Model(labels="unordered"))
    with pytest.raises(InputError, match="image 0: labels has values 2,"):
        cl.likelihood([p], [[0, 2]], [1.0, 1.0])
    with pytest.raises(InputError, match="w has 3 weights, but surrogate labels"):
        cl.probabilities(p, [1.0, 1.0, 1.0], cl.Model(labels="surrogate"))
