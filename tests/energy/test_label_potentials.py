"""Potentials of many labels: their features make their energy, and their names say so."""

import numpy as np
import pytest

from cutlearn.energy.label_space import Unordered
from cutlearn.energy.model import Model
from cutlearn.energy.potentials import (
    Contrast,
    FeatureNames,
    LabelContrast,
    OwnUnary,
    PerLabel,
    SharedUnary,
    Tables,
    Unary,
)
from cutlearn.energy.problem import Problem

NAMES = FeatureNames(["bias", "a of 0", "b of 0", "a of 1", "b of 1"], ["flat", "step"], [])


def drawn_problem(shape=(3, 4), labels=4, stages=2, seed=0):
    rng = np.random.default_rng(seed)
    n, m = shape[0] * shape[1], 2 * shape[0] * shape[1] - sum(shape)
    f = np.hstack([np.ones((n, 1)), rng.normal(size=(n, labels * stages))])
    return Problem(f, edge_features=rng.random((m, 2)), shape=shape, connectivity=4)


def many(labels=4, stages=2):
    columns = tuple(tuple(range(1 + k * stages, 1 + (k + 1) * stages)) for k in range(labels))
    return Model([OwnUnary(columns=columns), Contrast()], Unordered(labels))


@pytest.mark.parametrize("seed", range(3))
def test_features_make_the_energy(seed):
    problem, model, rng = drawn_problem(seed=seed), many(), np.random.default_rng(seed)
    w = np.concatenate([rng.normal(size=4 + 2), rng.random(2 * 4)])
    y = rng.integers(0, 4, 12)
    f, g, ends = problem.node_features, problem.edge_features, problem.edge_ends()
    wanted = sum(w[k] + w[4] * f[i, 1 + 2 * k] + w[5] * f[i, 2 + 2 * k] for i, k in enumerate(y))
    v = w[6:].reshape(2, 4)
    wanted += sum(g[e] @ (v[:, y[i]] + v[:, y[j]]) for e, (i, j) in enumerate(ends) if y[i] != y[j])
    assert model.psi(problem, y) @ w == pytest.approx(wanted)
    assert model.energy(problem, w).value(y) == pytest.approx(wanted)


def test_few_labels_have_all_weights():
    few = Unordered(3).expand_for_labels((OwnUnary(columns=((1,), (2,), (3,))), Contrast()))
    assert few == (PerLabel(Unary(), 3), Tables(3, False))
    assert Unordered(4).expand_for_labels((Unary(), Contrast())) == (
        PerLabel(Unary(), 4),
        LabelContrast(4),
    )


def test_names_say_whose_the_weights_are():
    own = SharedUnary(((1, 2), (3, 4)))
    assert own.names(NAMES, 4) == ["label 0 node bias", "label 1 node bias", "own a", "own b"]
    assert LabelContrast(2).names(NAMES, 4) == [
        "label 0 border flat", "label 1 border flat", "label 0 border step", "label 1 border step",
    ]  # fmt: skip
