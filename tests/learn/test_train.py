"""The loop: steps, stopping, pools, refusals."""

import io
import math
import warnings

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.energy.problem import Problem
from cutlearn.errors import ConvergenceWarning, InputError
from cutlearn.images import cells
from cutlearn.learn import margin as run
from cutlearn.learn.bundle import INEXACT, Bundle
from cutlearn.learn.learners import LEARNERS, MarginLearner
from cutlearn.learn.pool import Pool
from cutlearn.learn.train import train
from cutlearn.run.process import Interrupted
from cutlearn.run.progress import Progress
from tiny_problems import tiny_set

P = Problem(np.array([[-1.0], [-1.0], [1.0], [1.0]]), [[0, 1], [1, 2], [2, 3]])
Y = [1, 1, 0, 0]


@pytest.fixture
def tiny():
    return tiny_set(np.random.default_rng(1))[:2]


def test_a_result_tells_all(tiny):
    seen = []
    r = train(*tiny, C=10.0, tol=1e-3, callback=seen.append)
    assert tuple(seen) == r.steps
    assert [s.number for s in r.steps] == list(range(1, len(seen) + 1))
    assert r.converged
    assert r.relative_gap <= 1e-3
    assert r.gap == pytest.approx(r.objective - r.lower_bound, abs=1e-12)
    assert r.gap > r.objective - r.lower_bound, "rounding is part of it"
    assert all(s.oracle_seconds > 0 and s.master_seconds >= 0 for s in r.steps)
    assert r.layout.split(r.w)["edge"].min() >= 0


def test_progress_is_a_callback(tiny):
    out = io.StringIO()
    with Progress(stream=out) as show:
        r = train(*tiny, C=10.0, tol=1e-3, callback=show.step)
    last = out.getvalue().splitlines()[-1]
    assert last.startswith(f"100 %: training, step {len(r.steps)}, ")
    assert last.endswith("target 0.10%")


def test_stopping_early_warns_with_the_gap(tiny):
    with pytest.warns(ConvergenceWarning, match=r"after 2 steps at a gap of .*%"):
        r = train(*tiny, C=100.0, tol=1e-6, max_steps=2)
    assert not r.converged
    assert len(r.steps) == 2
    assert r.objective == min(s.objective for s in r.steps)


@pytest.mark.parametrize(("learner", "C"), [("bundle", 1e4), ("accpm", 1.0), ("accpm", math.inf)])
def test_a_tolerance_below_rounding_ends_with_what_is_proved(learner, C):
    """The oracle confirms the model's minimum, and its value is only known to so many digits."""
    ended = 0
    for seed in range(8):
        problems, truth, _ = tiny_set(np.random.default_rng(seed))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            r = train(problems, truth, learner=learner, C=C, tol=1e-15, max_steps=200)
        assert len(r.steps) < 200
        assert r.relative_gap <= INEXACT, "what the QP promises, whatever its version"
        assert r.converged == (not said)
        for warning in said:
            assert "What could still improve is lost in rounding; raise tol" in str(warning.message)
            ended += 1
    assert ended > 0


def test_a_loss_that_cannot_be_positive_is_learned_at_once():
    from cutlearn.learn.losses import Count

    r = train([P], [Y], Count(tolerance=10))
    assert r.objective == 0.0
    assert r.converged
    assert (r.w == 0).all()


def test_one_image_one_node_without_edges():
    r = train([Problem([[2.0]])], [[1]], C=100.0, tol=1e-6)
    # 1/(2C) w^2 + max(0, 1 + 2 w): the kink w = -1/2.
    assert r.w == pytest.approx([-0.5], abs=1e-6)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("learner", "last"), [("bundle", 100.0), ("accpm", math.inf)])
def test_a_path_of_c_gives_what_single_runs_give(tiny, groups, learner, last):
    Cs = [0.1, 1.0, 10.0, last]
    alone = [train(*tiny, C=C, tol=1e-4, groups=groups, learner=learner) for C in Cs]
    pool = Pool(*tiny)
    along = [train(*tiny, C=C, tol=1e-4, groups=groups, learner=learner, pool=pool) for C in Cs]
    for a, b in zip(alone, along):
        assert a.objective == pytest.approx(b.objective, rel=2e-4)
    # The centre of a set with more planes may take longer to reach the last digits.
    if learner == "bundle":
        assert sum(len(r.steps) for r in along) < sum(len(r.steps) for r in alone)


def test_a_pool_serves_a_part_of_the_images():
    problems, truth, _ = tiny_set(np.random.default_rng(2))
    pool = Pool(problems, truth)
    train(problems, truth, pool=pool, tol=1e-4)
    before = len(pool.planes[1])
    part = pool.subset([1])
    r = train(problems[1:2], truth[1:2], pool=part, tol=1e-4)
    assert r.objective == pytest.approx(
        train(problems[1:2], truth[1:2], tol=1e-4).objective, rel=2e-4
    )
    assert len(pool.planes[1]) >= before > 0


def test_a_pool_of_something_else_is_refused():
    problems, truth, _ = tiny_set(np.random.default_rng(1), images=3)
    pool = Pool(problems, truth, "count")
    with pytest.raises(InputError, match=r"pool holds 3 images with Count.*Hamming"):
        train(problems, truth, "hamming", pool=pool)
    with pytest.raises(InputError, match=r"pool holds 3 images .* 2 with"):
        train(problems[:2], truth[:2], "count", pool=pool)


# Losses of one repr that differ: far from the true count, or in where a region ends.
OTHERS = {
    "far counts": (
        cl.CountFunction(lambda off: np.abs(off) + 9.0 * np.maximum(np.abs(off) - 100, 0)),
        cl.CountFunction(lambda off: np.abs(off).astype(float)),
    ),
    "lengths of regions": (
        cl.Count(regions=[[np.arange(300), np.arange(300, 401)]]),
        cl.Count(regions=[[np.arange(101), np.arange(101, 401)]]),
    ),
}


@pytest.mark.parametrize("which", OTHERS)
def test_a_pool_of_another_loss_of_the_same_name_is_refused(which):
    one, other = OTHERS[which]
    rng = np.random.default_rng(0)
    problems, truth = [Problem(rng.normal(size=(401, 2)))], [np.arange(401) % 2]
    pool = Pool(problems, truth, one)
    train(problems, truth, one, pool=pool)
    with pytest.raises(InputError, match=r"pool holds 1 images with .*another loss"):
        train(problems, truth, other, pool=pool)
    with pytest.raises(InputError, match=r"pool holds 1 images with .*other labels"):
        train(problems, [1 - truth[0]], one, pool=pool)


def test_a_pool_serves_an_equal_loss():
    """Another object with the same arrays is the same loss."""
    problems, truth = [Problem(np.arange(6.0).reshape(3, 2))], [np.array([0, 1, 1])]
    pool = Pool(problems, truth, cl.Hamming((1.0, 2.0)))
    assert train(problems, truth, cl.Hamming([1, 2]), pool=pool).converged


def test_a_learner_from_outside_needs_a_finite_c_unless_it_says_otherwise(tiny, monkeypatch):
    mine = MarginLearner("mine", "a bundle", master=lambda: Bundle)
    monkeypatch.setitem(LEARNERS, "mine", mine)
    with pytest.raises(InputError, match=r"C is infinite .*'mine' needs a finite number.*'accpm'"):
        train(*tiny, learner="mine", C=math.inf)


def test_asking_half_way_to_the_minimum_saves_rounds(monkeypatch):
    """While the gap falls; at the minimum of a rough model there is little to learn."""
    worlds = [cells(seed, (32, 32)) for seed in range(8)]
    rng = np.random.default_rng(0)
    problems = []
    for world in worlds:
        image = np.asarray(world.image, float).reshape(32, 32, -1)
        noise = rng.normal(size=(32, 32, 3))
        features = np.concatenate([image, image**2, noise, np.ones((32, 32, 1))], axis=-1)
        edges = np.stack([np.ones(1984), rng.uniform(size=1984)], axis=-1)
        problems.append(Problem(features, edge_features=edges, shape=(32, 32)))

    def rounds():
        return len(train(problems, [world.labels for world in worlds], C=1e4).steps)

    usual = rounds()
    monkeypatch.setattr(run, "STALLED", 0.0)
    assert usual < 0.8 * rounds()


@pytest.mark.parametrize("learner", ["bundle", "accpm"])
def test_threads_give_the_same_bits(tiny, learner):
    one, two = (train(*tiny, learner=learner, C=10.0, tol=1e-6, n_jobs=n) for n in (1, 2))
    assert one.w.tobytes() == two.w.tobytes()
    assert [s.objective for s in one.steps] == [s.objective for s in two.steps]


REFUSED = {
    "no problems": lambda: train([], []),
    "labels missing": lambda: train([P], []),
    "features differ": lambda: train([P, Problem(np.ones((2, 2)))], [Y, [0, 1]]),
    "bad labels name the image": lambda: train([P, P], [Y, [0, 1, 2, 3]]),
    "C zero": lambda: train([P], [Y], C=0),
    "C NaN": lambda: train([P], [Y], C=math.nan),
    "C infinite": lambda: train([P], [Y], C=math.inf),
    "C infinite, nslack": lambda: train([P], [Y], learner="nslack", C=math.inf),
    "max_steps": lambda: train([P], [Y], max_steps=0),
    "tol": lambda: train([P], [Y], tol=0),
    "learner": lambda: train([P], [Y], learner="sgd"),
    "loss": lambda: train([P], [Y], loss="iou"),
    "normalize": lambda: train([P], [Y], normalize="image"),
    "groups": lambda: train([P], [Y], groups=2),
    "envelope": lambda: train([P], [Y], envelope=3),
    "constraints": lambda: train([P], [Y], constraints=([[1.0]], [0.0])),
    "n_jobs": lambda: train([P], [Y], n_jobs=0),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case):
    with pytest.raises(InputError) as caught:
        REFUSED[case]()
    if "image" in case:
        assert str(caught.value).startswith("image 1: labels has values 2, 3, but")


def test_no_regulariser_is_refused_with_the_learner_that_can():
    with pytest.raises(InputError, match=r"learner='bundle'.*Choose learner='accpm'"):
        train([P], [Y], C=math.inf)
    r = train([P], [Y], learner="accpm", C=math.inf)
    assert r.objective <= 1e-5
    assert r.w == pytest.approx([1.0, 0.0], abs=1e-2), "the shortest of all weights without a cost"


@pytest.mark.parametrize(("learner", "C"), [("bundle", 1.0), ("accpm", 1.0), ("accpm", math.inf)])
def test_constraints_without_a_solution_are_refused_before_any_cut(tiny, learner, C, monkeypatch):
    monkeypatch.setattr(Pool, "ask", None)
    rows = np.array([[1.0, 0, 0, 1.0, 0], [-1.0, 0, 0, 0, 0], [0, 0, 0, 0, 1.0]])
    for more, least in (
        (rows[[0, 1, 2]] * [[1], [1], [-1]], [0.0, 0.0, 0.1]),  # w_4 <= -0.1, an edge weight
        (rows[[1, 1]] * [[1], [-1]], [1.0, -0.9]),  # -w_0 >= 1 and w_0 >= -0.9
        (0 * rows[:1], [1.0]),
    ):
        with pytest.raises(InputError, match=r"constraints .* no weights satisfy"):
            train(*tiny, learner=learner, C=C, constraints=(more, least))


def test_equalities_are_for_the_bundle(tiny):
    rows = np.array([[1.0, 1.0, 0, 0, 0], [-1.0, -1.0, 0, 0, 0]])
    fixed = (rows, [0.5, -0.5])
    r = train(*tiny, C=10.0, tol=1e-4, constraints=fixed)
    assert r.w[:2].sum() == pytest.approx(0.5, abs=1e-6)
    with pytest.raises(InputError, match="Choose learner='bundle'"):
        train(*tiny, C=10.0, learner="accpm", constraints=fixed)


@pytest.mark.parametrize("learner", ["bundle", "accpm"])
def test_a_model_that_the_oracle_confirms_ends_the_run(learner):
    """max(0, 1 + 2 w): two planes tell all, so no gap takes more than a few rounds."""
    r = train([Problem([[2.0]])], [[1]], learner=learner, C=100.0, tol=1e-8)
    assert r.converged
    assert len(r.steps) <= 5


def test_an_interrupt_is_told_as_such(tiny):
    def stop(step):
        raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="after 1 steps; nothing is saved"):
        train(*tiny, C=10.0, tol=1e-6, callback=stop)


def test_inputs_are_left_alone(tiny):
    problems, truth = tiny
    before = [y.copy() for y in truth]
    for y in truth:
        y.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(problems, truth)
    assert all((a == b).all() for a, b in zip(before, truth))
