"""Ordered labels reach the optimum of the full QP with every labelling enumerated."""

import numpy as np
import pytest

import cutlearn as cl
from tiny_labels import absolute, count_of, hamming, planes, thresholds, tiny_set
from tiny_problems import full_optimum

LOSSES = {
    "hamming": (cl.Hamming(), hamming),
    "absolute": (cl.Absolute(), absolute),
    "count": (cl.Count(), thresholds(3)),
    "middle": (cl.LabelCount(1), count_of([1])),
}
SLOWEST = 2000


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("learner", ["bundle", "accpm"])
@pytest.mark.parametrize("seed", range(6))
def test_three_ordered_labels_reach_the_enumerated_optimum(seed, learner, loss):
    rng = np.random.default_rng([seed, len(loss)])
    problems, truth = tiny_set(rng, 3, grid=seed % 2 == 1)
    normalize = ("pixels", "loss", "none")[seed % 3]
    C = 10.0 ** rng.uniform(-2, 2)
    given, words = LOSSES[loss]
    every = [planes(p, y, words, normalize, 3) for p, y in zip(problems, truth)]
    groups = int(rng.integers(1, len(problems) + 1))
    r = cl.train(
        problems, truth, given, learner, C=C, tol=1e-6, normalize=normalize, groups=groups,
        kind="ordered", n_labels=3, max_steps=SLOWEST,
    )  # fmt: skip
    rows, least = r.layout.constraints()
    wanted, _ = full_optimum(every, 1.0 / C, rows, least)
    assert r.converged
    assert r.certified
    assert r.objective == pytest.approx(wanted, rel=1e-4)
    assert r.lower_bound <= wanted * (1 + 1e-9)
    risk = np.mean([(b + a @ r.w).max() for b, a in every])
    assert r.objective == pytest.approx(r.w @ r.w / (2 * C) + risk, rel=1e-9)
    assert (rows @ r.w >= least - 1e-9 * np.abs(r.w).max()).all()


def test_unordered_labels_are_never_certified():
    rng = np.random.default_rng(3)
    problems, truth = tiny_set(rng, 3)
    every = [planes(p, y, hamming, "pixels", 3) for p, y in zip(problems, truth)]
    r = cl.train(problems, truth, C=10.0, tol=1e-3, kind="unordered", n_labels=3)
    rows, least = r.layout.constraints()
    wanted, _ = full_optimum(every, 0.1, rows, least)
    assert not r.certified
    # The lower bound holds all the same: every plane is one of the risk's.
    assert r.lower_bound <= wanted * (1 + 1e-9)
    risk = np.mean([(b + a @ r.w).max() for b, a in every])
    assert wanted * (1 - 1e-9) <= r.w @ r.w / 20 + risk <= 1.1 * wanted


def test_a_checkpoint_of_ordered_labels_goes_on(tmp_path):
    rng = np.random.default_rng(4)
    problems, truth = tiny_set(rng, 3)
    options = {"C": 10.0, "tol": 1e-6, "kind": "ordered", "n_labels": 3}
    whole = cl.train(problems, truth, **options)
    file = tmp_path / "run"
    with pytest.warns(cl.ConvergenceWarning):
        cl.train(problems, truth, **options, max_steps=3, checkpoint=file)
    resumed = cl.train(problems, truth, **options, checkpoint=file)
    assert resumed.w.tobytes() == whole.w.tobytes()
    with pytest.raises(cl.InputError, match="other data or settings"):
        cl.train(problems, truth, "count", **options, checkpoint=file)
