"""Likelihood learners: against other optimisers, resumed, on threads, with every potential."""

import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import cutlearn as cl
from cutlearn.energy.envelopes import EnvelopeSpec
from cutlearn.errors import ConvergenceWarning, InputError
from cutlearn.learn import likelihood
from cutlearn.learn.likelihood import likelihood_tasks
from cutlearn.run.process import Interrupted

TESTS = Path(__file__).parent.parent
SURROGATE = cl.Model(labels="surrogate")


def images(seed, count=3, L=2, shape=(9, 11)):
    """Blocks of labels under noise, so that edges help, with a few void pixels."""
    rng = np.random.default_rng(seed)
    problems, labels = [], []
    for _ in range(count):
        y = np.kron(rng.integers(0, L, (3, 4)), np.ones((3, 3), int))[: shape[0], : shape[1]]
        x = np.stack(
            [np.ones(shape), *[(y == k) + rng.normal(0, 0.8, shape) for k in range(L)]], -1
        )
        m = sum(len(e) for e in cl.grid_edges(shape, 4))
        g = np.stack([np.ones(m), rng.uniform(0, 1, m)], axis=1)
        regions = [np.arange(99).reshape(shape)[r : r + 3, c : c + 3].ravel()
                   for r in (0, 3, 6) for c in (0, 3, 6)]  # fmt: skip
        problems.append(cl.Problem(x, edge_features=g, regions=[regions], shape=shape))
        y = y.astype(np.uint8)
        y[rng.integers(0, 9, 3), rng.integers(0, 11, 3)] = 255
        labels.append(y)
    return problems, labels


def learn(problems, labels, learner="likelihood", **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return cl.train(problems, labels, learner=learner, **{"C": 50.0, "tol": 1e-3} | options)


@pytest.mark.parametrize("L", [2, 3])
def test_logistic_regression_reaches_the_optimum_of_another_solver(L):
    problems, labels = images(1, L=L)
    model = cl.Model(labels="surrogate" if L > 2 else "binary")
    r = learn(problems, labels, "logistic", tol=1e-9, max_steps=2000, model=model)
    known = [y.ravel() != 255 for y in labels]
    X = np.concatenate([p.node_features[k] for p, k in zip(problems, known)])
    Y = np.concatenate([y.ravel()[k] for y, k in zip(labels, known)])
    weight = np.concatenate([np.full(k.sum(), 1 / k.sum()) for k in known]) / len(known)
    other = LogisticRegression(C=50.0, fit_intercept=False, tol=1e-10, max_iter=5000)
    other.fit(X, Y, weight)
    parts = r.layout.split(r.w)
    assert np.abs(parts["node"].ravel() + other.coef_.ravel()).max() < 1e-3
    assert not parts["edge"].any()


def test_likelihood_wins_over_logistic_regression():
    for seed in range(3):
        problems, labels = images(seed)
        ours, plain = (learn(problems, labels, name, max_steps=150)
                       for name in ("likelihood", "logistic"))  # fmt: skip
        assert ours.objective < plain.objective
        assert not ours.certified
        assert ours.layout.split(ours.w)["edge"].max() > 0
        value, _ = cl.likelihood(problems, labels, ours.w)
        assert ours.objective == pytest.approx(0.01 * ours.w @ ours.w - value, rel=1e-12)
        best = [step.best for step in ours.steps]
        assert (np.diff(best) <= 0).all()
        assert best[-1] == ours.objective


def test_no_small_move_that_the_run_missed_is_much_better():
    problems, labels = images(4)
    r = learn(problems, labels, tol=1e-4)
    rng = np.random.default_rng(0)
    for size in (1e-3, 1e-2, 1e-1):
        for _ in range(30):
            w = r.layout.inside(r.w + size * rng.normal(size=r.w.size))
            f = 0.01 * w @ w - cl.likelihood(problems, labels, w)[0]
            assert f > r.objective * (1 - 2e-3)


@pytest.mark.parametrize("form", ["curvatures", "slopes", "samples"])
def test_envelopes_are_learned_too(form):
    problems, labels = images(5)
    spec = EnvelopeSpec(4, form)
    without = learn(problems, labels, C=np.inf)
    r = learn(problems, labels, envelope=spec, C=np.inf)
    vector = r.layout.split(r.w)["envelope"]
    assert spec.is_concave(vector)
    assert np.abs(vector).max() > 0
    assert r.objective < without.objective


def test_surrogate_labels_are_learned():
    problems, labels = images(6, L=3)
    r, plain = (
        learn(problems, labels, name, model=SURROGATE) for name in ("likelihood", "logistic")
    )
    assert r.objective < plain.objective
    assert r.layout.blocks == 3
    q = cl.probabilities(problems[0], r.w, SURROGATE)
    assert q.shape == (99, 3)
    known = labels[0].ravel() != 255
    assert (q.argmax(1) == labels[0].ravel())[known].mean() > 0.8


def test_fields_start_right_each_alone_and_say_the_same_together():
    problems, labels = images(9, L=4)
    plain = learn(problems, labels, "logistic", model=SURROGATE)
    tasks = likelihood_tasks(problems, labels, SURROGATE)
    w = likelihood.recentre_fields(tasks, plain.w)
    rows, before = plain.layout.rows(w)[:, :5], plain.layout.rows(plain.w)[:, :5]
    assert np.ptp(rows - before, axis=0) == pytest.approx(0, abs=1e-9)
    for p in problems:
        q, same = (cl.probabilities(p, one, SURROGATE) for one in (plain.w, w))
        assert np.abs(q - same).max() < 1e-8

    def loss(moved):
        found = []
        for p, y in zip(problems, labels):
            known = y.ravel() != 255
            cost = p.node_features[known] @ moved.T
            sign = np.where(y.ravel()[known][:, None] == np.arange(4), 1, -1)
            found.append(np.log1p(np.exp(sign * cost)).sum(axis=1).mean())
        return np.mean(found)

    least = loss(rows)
    assert least < loss(before) - 0.01
    for k in range(5):
        for by in (-0.05, 0.05):
            assert loss(rows + by * (np.arange(5) == k)) > least


@pytest.mark.parametrize("learner", ["likelihood", "logistic"])
def test_interrupted_and_resumed_is_uninterrupted(tmp_path, learner):
    problems, labels = images(7)
    whole = learn(problems, labels, learner, max_steps=40)
    file = tmp_path / "run"

    def stop(step):
        if step.number in (1, 9, 23):
            raise KeyboardInterrupt

    for _ in range(3):
        with pytest.raises(Interrupted, match="they are saved in"):
            learn(problems, labels, learner, max_steps=40, checkpoint=file, callback=stop)
    resumed = learn(problems, labels, learner, max_steps=40, checkpoint=file)
    assert resumed.w.tobytes() == whole.w.tobytes()
    assert [s.objective for s in resumed.steps] == [s.objective for s in whole.steps]
    with pytest.raises(InputError, match="other data or settings"):
        learn(problems, labels, learner, C=3.0, checkpoint=file)


def test_the_race_is_told_and_goes_on_after_an_interrupt(tmp_path):
    problems, labels = images(7)
    told = []
    whole = learn(problems, labels, max_steps=10, callback=told.append)
    numbers = [step.number for step in told]
    # Logistic regression and 4 racers of 20 steps, 2 of 40 more, unless they come to rest.
    race = numbers.count(0)
    assert 60 < race < 300 + 160
    assert numbers[race:] == list(range(1, len(whole.steps) + 1))
    file, left = tmp_path / "run", iter(range(race - 5))

    def stop(step):
        if next(left, None) is None:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="in the search for first weights; it is saved beside"):
        learn(problems, labels, max_steps=10, checkpoint=file, callback=stop)
    told.clear()
    again = learn(problems, labels, max_steps=10, checkpoint=file, callback=told.append)
    assert again.w.tobytes() == whole.w.tobytes()
    assert [step.number for step in told].count(0) <= 5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "run-before"]


# Killed in the first step of the run itself: nothing of it is on disk, and all of the search was.
KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
import cutlearn.learn.likelihood as room
from learn.test_likelihood_run import images, learn
plain = room.LikelihoodRun.step
def step(self, threads):
    if self.file.name == "run":
        os.kill(os.getpid(), signal.SIGKILL)
    return plain(self, threads)
room.LikelihoodRun.step = step
learn(*images(7), max_steps=10, checkpoint=sys.argv[2])
"""


def test_killed_between_the_search_and_its_first_step(tmp_path):
    problems, labels = images(7)
    whole, told, file = learn(problems, labels, max_steps=10), [], tmp_path / "run"
    done = subprocess.run([sys.executable, "-c", KILLED, str(TESTS), str(file)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not file.exists()
    beside = sorted(path.name for path in tmp_path.iterdir() if "before" not in path.name)
    assert beside == ["run-first", "run-start0", "run-start1", "run-start2", "run-start3"]

    def stop(step):
        told.append(step.number)
        raise KeyboardInterrupt

    kept = {name: (tmp_path / name).read_bytes() for name in beside}
    with pytest.raises(Interrupted, match="after 1 steps; they are saved"):
        learn(problems, labels, max_steps=10, checkpoint=file, callback=stop)
    assert told == [1], "the search was not made again"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    for name, data in kept.items():  # as if killed between the first step and the removal
        (tmp_path / name).write_bytes(data)
    again = learn(problems, labels, max_steps=10, checkpoint=file)
    assert again.w.tobytes() == whole.w.tobytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "run-before"]


def test_threads_give_the_same_bits():
    problems, labels = images(8, count=5)
    one, three = (learn(problems, labels, n_jobs=jobs, max_steps=25) for jobs in (1, 3))
    assert one.w.tobytes() == three.w.tobytes()


@pytest.mark.parametrize("form", ["curvatures", "slopes", "samples"])
@pytest.mark.parametrize("labels", ["binary", "surrogate", "ordered"])
def test_coordinates(form, labels):
    problems, _ = images(10)
    enveloped = [cl.Enveloped(EnvelopeSpec(4, form))] if labels != "ordered" else []
    model = cl.Model(
        [cl.Unary(), cl.Contrast(), *enveloped], labels, 2 if labels == "binary" else 3
    )
    layout = model.layout(problems[0])
    rng = np.random.default_rng(1)
    X = rng.normal(size=(50, 3)) @ rng.normal(size=(3, 3))
    A, bounded = layout.coordinates(problems[0], X.T @ X / 50)
    G, h = layout.constraints(problems[0])
    whole = np.kron(np.eye(layout.blocks), A)
    for _ in range(20):
        z = rng.normal(size=layout.size)
        z = np.where(np.tile(bounded, layout.blocks), np.maximum(z, 0), z)
        w = whole @ z
        assert (G @ w >= h - 1e-9).all()
        assert np.abs(layout.inside(w) - w).max() < 1e-9
        # Whatever leaves the bounds leaves the cone.
        k = rng.choice(np.flatnonzero(np.tile(bounded, layout.blocks)))
        z[k] = -1.0
        assert (G @ (whole @ z)).min() < -1e-9


def test_refusals():
    problems, labels = images(11, count=1)
    for options, message in [
        ({"loss": "count"}, "loss has no meaning for a likelihood learner"),
        ({"groups": 1}, "groups has no meaning for a likelihood learner"),
        ({"model": cl.Model(labels="unordered")}, "'unordered' labels have no likelihood"),
        ({"learner": "kohli-torr"}, "'kohli-torr' has moved to the distribution cutlearn-papers"),
        ({"learner": "bundle", "model": SURROGATE}, "learned by a likelihood, not by a max-margin"),
        ({"learner": "bundle", "C": np.inf}, "C is infinite"),
    ]:
        with pytest.raises(InputError, match=message):
            learn(problems, labels, **options)


def test_a_run_that_is_cut_short_says_so():
    problems, labels = images(12)
    with pytest.warns(ConvergenceWarning, match="stopped after 5 steps"):
        r = cl.train(problems, labels, learner="likelihood", max_steps=5)
    assert not r.converged


def test_regressions_of_several_labels_see_some_of_many_pixels(monkeypatch):
    """Every k-th labelled pixel, and what is learned is what they alone teach."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, (2, 12, 10)).astype(np.uint8)
    y[0, :2] = 255
    m = sum(len(e) for e in cl.grid_edges((12, 10), 4))
    problems = [
        cl.Problem(
            np.stack([np.ones(120), (k.ravel() == 1) + rng.normal(size=120)], 1),
            shape=(12, 10),
            edge_features=np.ones((m, 1)),
        )
        for k in y
    ]
    model = cl.Model(labels="surrogate", n_labels=3)
    monkeypatch.setattr(likelihood, "MAX_ROWS", 80)
    found = cl.train(problems, y, learner="logistic", C=10.0, model=model)
    rows = [np.flatnonzero(k.ravel() != 255)[::3] for k in y]  # 220 labelled, 80 wanted
    none = np.zeros((0, 1))
    few = [cl.Problem(p.node_features[r], edge_features=none) for p, r in zip(problems, rows)]
    labels = [k.ravel()[r] for k, r in zip(y, rows)]
    monkeypatch.setattr(likelihood, "MAX_ROWS", 10**6)
    alone = cl.train(few, labels, learner="logistic", C=10.0, model=model)
    assert np.array_equal(found.w, alone.w)
    assert len(found.w) == 9
    every = cl.train(problems, y, learner="logistic", C=10.0, model=model)
    assert not np.array_equal(found.w, every.w)


def test_starts_race_on_some_of_the_images_from_the_first_to_the_last():
    """At most eight, spread evenly: of 17 every third one."""
    problems, labels = images(3, count=17, shape=(9, 11))
    told = []
    learn(problems, labels, max_steps=1, callback=told.append)
    sought = [step.calls for step in told if step.number == 0]
    assert set(sought) == {17, 6}, "logistic regression on all, racers on 0, 3, .. 15"
