"""Ordered labels reach the optimum of the full QP with every labelling enumerated."""

import math

import numpy as np
import pytest

import cutlearn as cl
from linear_energies import ordered, unordered
from tiny_labels import (
    absolute,
    count_of,
    hamming,
    planes,
    submodular_rows,
    thresholds,
    tiny_set,
)
from tiny_problems import full_optimum

# Every loss of ordered labels, and the same in plain words.
LOSSES = {
    "hamming": (cl.Hamming(), hamming),
    "absolute": (cl.Absolute(), absolute),
    "thresholds": (cl.Count(), thresholds(3)),
    "lowest": (cl.LabelCount(0), count_of([0])),
    "middle": (cl.LabelCount(1), count_of([1])),
    "under": (
        cl.LabelCount([1, 2], side="under", tolerance=1),
        lambda y, t: max(0.0, float((t > 0).sum()) - float((y > 0).sum()) - 1),
    ),
    "sum": (
        cl.Hamming() + 0.5 * cl.LabelCount(2),
        lambda y, t: hamming(y, t) + 0.5 * count_of([2])(y, t),
    ),
}
MASTERS = [("bundle", "one"), ("bundle", "all"), ("accpm", "one"), ("accpm", "all")]
TOL = 1e-5


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(8))
def test_three_ordered_labels_reach_the_enumerated_optimum(seed, loss):
    rng = np.random.default_rng([seed, list(LOSSES).index(loss)])
    problems, truth = tiny_set(rng, 3, grid=seed % 2 == 1)
    normalize = ("pixels", "loss", "none")[seed % 3]
    given, words = LOSSES[loss]
    every = [planes(p, y, words, normalize, 3) for p, y in zip(problems, truth)]
    rows = submodular_rows(problems[0], 3)
    least = np.zeros(len(rows))
    # Separable at C = inf: the optimum is 0, and a gap below the floor is all that was asked for.
    floor = 1e-3 * TOL * np.mean([b.max() for b, _ in every])
    for C in (10.0 ** rng.uniform(-2, 2), math.inf):
        wanted, _ = full_optimum(every, 1.0 / C, rows, least)
        for learner, groups in MASTERS[2 * math.isinf(C) :]:
            r = cl.train(
                problems, truth, given, learner, C=C, tol=TOL, normalize=normalize,
                groups=1 if groups == "one" else len(problems), model=ordered(3),
            )  # fmt: skip
            assert r.converged
            assert r.certified
            assert r.objective == pytest.approx(wanted, rel=1e-4, abs=floor)
            assert r.lower_bound <= wanted * (1 + 1e-9) + 1e-9 * floor
            risk = np.mean([(b + a @ r.w).max() for b, a in every])
            assert r.objective == pytest.approx(r.w @ r.w / (2 * C) + risk, rel=1e-9, abs=floor)
            assert (rows @ r.w).min() >= -1e-9 * np.abs(r.w).max()


def test_unordered_labels_are_never_certified():
    rng = np.random.default_rng(3)
    problems, truth = tiny_set(rng, 3)
    every = [planes(p, y, hamming, "pixels", 3) for p, y in zip(problems, truth)]
    r = cl.train(problems, truth, C=10.0, tol=1e-3, model=unordered(3))
    rows, least = r.layout.constraints(problems[0])
    wanted, _ = full_optimum(every, 0.1, rows, least)
    assert not r.certified
    # The lower bound holds all the same: every plane is one of the risk's.
    assert r.lower_bound <= wanted * (1 + 1e-9)
    risk = np.mean([(b + a @ r.w).max() for b, a in every])
    assert wanted * (1 - 1e-9) <= r.w @ r.w / 20 + risk <= 1.1 * wanted


def test_a_checkpoint_of_ordered_labels_goes_on(tmp_path):
    rng = np.random.default_rng(4)
    problems, truth = tiny_set(rng, 3)
    options = {"C": 10.0, "tol": 1e-6, "model": ordered(3)}
    whole = cl.train(problems, truth, **options)
    file = tmp_path / "run"
    with pytest.warns(cl.ConvergenceWarning):
        cl.train(problems, truth, **options, max_steps=3, checkpoint=file)
    resumed = cl.train(problems, truth, **options, checkpoint=file)
    assert resumed.w.tobytes() == whole.w.tobytes()
    with pytest.raises(cl.InputError, match="other data or settings"):
        cl.train(problems, truth, "count", **options, checkpoint=file)
