"""Potentials from outside: what they may return, and the order in which they stand."""

from dataclasses import dataclass
from itertools import permutations

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.energy.envelopes import EnvelopeSpec
from cutlearn.errors import InputError
from cutlearn.learn.losses import CountFunction
from cutlearn.learn.oracle import training_image


@dataclass(frozen=True)
class Bias(cl.Potential):
    """v times the number of ones, but for one method that returns something else."""

    method: str = ""
    wrong: object = None
    name: str = "bias"

    def _said(self, method, right):
        return self.wrong if method == self.method else right

    def count(self, problem):
        return self._said("count", 1)

    def psi(self, problem, y):
        return self._said("psi", np.array([np.count_nonzero(y)], float))

    def terms(self, problem, v):
        unary = self._said("unary", np.full(problem.n_nodes, v[0]))
        return self._said("terms", cl.Summands(unary=unary, edges=self._said("edges", None)))

    def constraints(self, problem):
        return self._said("constraints", np.zeros((0, 1)))


PROBLEM = cl.Problem([[1.0], [-2.0], [0.5]], [[0, 1], [1, 2]])
TRUTH = [0, 1, 1]


def trained(*potentials):
    model = cl.Model([cl.Unary(), cl.Contrast(), *potentials])
    return cl.train([PROBLEM], [TRUTH], C=1.0, model=model)


def test_a_right_potential_is_learned():
    assert trained(Bias()).certified


@pytest.mark.parametrize(
    ("method", "wrong"),
    [
        ("count", 1.5),
        ("count", -1),
        ("count", None),
        ("psi", np.zeros(2)),
        ("psi", np.zeros((1, 1))),
        ("psi", np.float64(3.0)),
        ("psi", np.array([np.nan])),
        ("psi", None),
        ("terms", None),
        ("terms", np.zeros(3)),
        ("unary", np.zeros(2)),
        ("unary", np.zeros(1)),
        ("unary", np.zeros((3, 2))),
        ("unary", np.array([0.0, np.nan, 0.0])),
        ("unary", np.array(["a", "b", "c"])),
        ("edges", np.zeros(3)),
        ("edges", np.zeros(1)),
        ("edges", np.zeros((2, 2, 2))),
        ("edges", np.array([np.inf, 0.0])),
        ("constraints", np.zeros(1)),
        ("constraints", np.zeros((1, 2))),
        ("constraints", np.array([[np.nan]])),
    ],
)
def test_a_potential_that_returns_something_else_is_named(method, wrong):
    with pytest.raises(InputError, match=r"^(image 0: )?potential 'bias'"):
        trained(Bias(method, wrong))


@pytest.mark.parametrize("wrong", [np.array([5.0]), np.array([0.0])])
def test_terms_that_are_not_v_times_psi_are_refused(wrong):
    model = cl.Model([cl.Unary(), cl.Contrast(), Bias("psi", wrong)])
    w = np.array([1.0, 0.5, 2.0])
    right = cl.Model([cl.Unary(), cl.Contrast(), Bias()])
    training_image(PROBLEM, TRUTH, right, 0, cl.Hamming()).plane(w)
    with pytest.raises(InputError, match=r"image 4: .* v \. psi"):
        training_image(PROBLEM, TRUTH, model, 4, cl.Hamming()).plane(w)


@pytest.mark.parametrize("labels", ["ordered", "unordered"])
def test_a_potential_of_edges_says_itself_what_it_is_with_several_labels(labels):
    model = cl.Model([cl.Unary(), cl.Contrast(), Bias("edges", np.ones(2))], labels, 3)
    w = np.zeros(model.layout(PROBLEM).size)
    with pytest.raises(InputError, match="potential 'bias' joins nodes"):
        model.energy(PROBLEM, w)


SPEC = EnvelopeSpec(2)
PARTS = [cl.Unary(), cl.Contrast(), cl.Enveloped(SPEC), cl.Enveloped(SPEC, 1, "second")]


def drawn_images(rng, count=3):
    """Images with two families of regions."""
    problems = []
    for _ in range(count):
        features, g = rng.normal(size=(12, 2)), rng.uniform(0, 1, (17, 2))
        regions = [[[0, 1, 2, 3], [4, 5]], [[6, 7, 8, 9, 10]]]
        problems.append(
            cl.Problem(features, edge_features=g, regions=regions, shape=(3, 4), connectivity=4)
        )
    return problems, [rng.integers(0, 2, 12) for _ in problems]


@pytest.mark.parametrize("loss", [cl.Hamming(), CountFunction(np.square)])
def test_every_order_of_potentials_has_the_fast_oracle_and_its_planes(loss):
    rng = np.random.default_rng(3)
    problems, labels = drawn_images(rng)
    first = cl.Model(PARTS)
    for order in permutations(PARTS):
        model = cl.Model(order)
        w = first.layout(problems[0]).inside(rng.normal(size=first.layout(problems[0]).size))
        mine = np.concatenate([first.layout(problems[0]).split(w)[p.name] for p in order])
        for problem, y in zip(problems, labels):
            images = [training_image(problem, y, m, 0, loss) for m in (first, model)]
            assert all(one.compiled.core is not None for one in images)
            one, other = (one.plane(v) for one, v in zip(images, (w, mine)))
            assert one.b == other.b
            parts = first.layout(problem).split(one.a)
            assert np.array_equal(np.concatenate([parts[p.name] for p in order]), other.a)


def test_ordered_labels_keep_their_fast_oracle_in_any_order():
    rng = np.random.default_rng(4)
    problems, _ = drawn_images(rng)
    labels = [rng.integers(0, 3, 12) for _ in problems]
    found = []
    for order in permutations([cl.Unary(), cl.Contrast()]):
        model = cl.Model(order, "ordered", 3)
        image = training_image(problems[0], labels[0], model, 0, cl.Hamming())
        assert image.compiled.core is not None
        found.append(cl.train(problems, labels, C=1.0, model=model, tol=1e-6).objective)
    assert found[0] == pytest.approx(found[1], rel=1e-5)


@pytest.mark.parametrize("learner", ["bundle", "accpm", "likelihood"])
def test_every_learner_takes_contrast_before_unary(learner):
    rng = np.random.default_rng(5)
    problems, labels = drawn_images(rng)
    objectives = [
        cl.train(
            problems, labels, C=1.0, learner=learner, tol=1e-5, model=cl.Model(order)
        ).objective
        for order in ([cl.Unary(), cl.Contrast()], [cl.Contrast(), cl.Unary()])
    ]
    assert objectives[0] == pytest.approx(objectives[1], rel=1e-3)
