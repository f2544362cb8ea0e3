"""The masters agree on small images of two and three labels, and what the experiment leaves."""

import numpy as np
import pytest

from cutlearn.images.synth import pasture
from cutlearn_papers import antoniuk2012
from cutlearn_papers.antoniuk2012 import World
from cutlearn_papers.antoniuk2012_tables import Split, chosen, disagreement
from cutlearn_papers.pictures import Pictures


@pytest.fixture
def world():
    made = [pasture(seed, (36, 48)) for seed in range(3)]
    names = [str(k) for k in range(3)]
    pictures = Pictures(names, [m.image for m in made], [m.labels for m in made])
    return World.of(pictures, 3, (0, 1, 2))


def test_both_masters_reach_one_objective_and_only_accpm_goes_to_zero(quick):
    told = quick("antoniuk2012")
    for found in told["figures"].values():
        runs = {(r["lambda"], r["learner"], r["rules"]): r for r in found["races"]}
        assert len(runs) == 24
        assert runs[0.0, "accpm", "letter"]["rounds"] == antoniuk2012.SETS["quick"]["cows"].most
        assert {learner for lam, learner, _ in runs if lam == 0} == {"accpm"}
        for lam in (50.0, 1.0, 0.1, 0.01):
            of_one = [r for (of, _, rules), r in runs.items() if of == lam and rules != "letter"]
            for r in of_one:
                assert r["converged"]
                assert r["objective"] - r["lower_bound"] <= 0.01 * r["objective"]
            assert disagreement(of_one) <= 0.01 / 0.99
        # Less regulariser, less risk and more freedom: objectives fall with lambda.
        best = [runs[lam, "accpm", "train"]["objective"] for lam in (50.0, 1.0, 0.01, 0.0)]
        assert best == sorted(best, reverse=True)
        assert all(s["training"]["0.01"] < s["training"]["50"] for s in found["splits"])
    assert sorted(told["figures"]["cows"]["order"]) == [0, 1, 2]


def test_the_paper_s_rules_end_without_a_regulariser(world):
    """Its centres lie in a box of 1e7 here, and deep cuts go through it: many Newton steps."""
    race = antoniuk2012.by_the_paper(world.pool(), 0.0, "accpm")
    assert race.converged
    assert race.rounds[-1] < 200
    assert race.best[-1] - race.bound[-1] <= 0.01 * race.best[-1]


def test_labels_are_put_in_the_order_and_void_stays_void():
    mask = np.array([[0, 1], [2, 255]], np.uint8)
    pictures = Pictures(["a"], [np.zeros((2, 2, 3), np.float32)], [mask])
    assert World.of(pictures, 3, (1, 0, 2)).labels[0].tolist() == [[1, 0], [2, 255]]


def test_lambda_is_chosen_on_the_validation_part():
    split = Split({"training": {"1": 0.0, "0": 0.0}, "validation": {"1": 2.0, "0": 3.0},
                   "test": {"1": 5.0, "0": 1.0}})  # fmt: skip
    assert chosen([split], (1.0, 0.0)) == [5.0]


def test_a_bound_above_an_objective_is_never_told():
    race = {
        "lambda": 1.0,
        "rules": "train",
        "converged": True,
        "objective": 1.0,
        "lower_bound": 0.9,
    }
    with pytest.raises(RuntimeError, match="bound above"):
        disagreement([race, race | {"objective": 0.8, "lower_bound": 0.7}])
