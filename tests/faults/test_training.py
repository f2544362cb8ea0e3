"""Odd problems are learned or refused in a sentence; nothing is lost when an oracle fails."""

import math
from dataclasses import replace

import numpy as np
import pytest

import tiny_labels
from cutlearn.energy.envelopes import EnvelopeSpec
from cutlearn.energy.model import Model
from cutlearn.energy.problem import Problem
from cutlearn.errors import InputError
from cutlearn.learn import oracle
from cutlearn.learn.losses import Count, CountFunction, Hamming
from cutlearn.learn.pool import Pool
from cutlearn.learn.train import train
from cutlearn.run.checkpoint import load_checkpoint
from cutlearn.run.executor import Threads
from tiny_problems import random_regions, tiny_set, with_regions

SPEC = EnvelopeSpec(3)


def some(images=6, seed=0):
    """Problems with regions, and their labels."""
    rng = np.random.default_rng(seed)
    problems, truth, _ = tiny_set(rng, images=images)
    return [with_regions(p, random_regions(rng, p.n_nodes)) for p in problems], truth


def failing(monkeypatch, call, kind, what="it broke", asked="highest_planes"):
    """Let the core fail in the n-th oracle call of all."""
    real, done = getattr(oracle._core, asked), 0

    def fake(oracles, w, threads):
        nonlocal done
        first, done = done, done + len(oracles)
        if first < call <= done:
            raise kind(call - first - 1, what)
        return real(oracles, w, threads)

    monkeypatch.setattr(oracle._core, asked, fake)


BINARY, ORDERED = {"envelope": SPEC}, {"model": Model(labels="ordered", n_labels=3)}
# Each kind of labels with each learner, with and without a regulariser.
MODES = {
    "bundle": {"C": 10.0, **BINARY},
    "accpm": {"C": 10.0, "learner": "accpm", **BINARY},
    "accpm inf": {"C": math.inf, "learner": "accpm", **BINARY},
    "ordered bundle": {"C": 10.0, **ORDERED},
    "ordered accpm": {"C": 10.0, "learner": "accpm", **ORDERED},
    "ordered accpm inf": {"C": math.inf, "learner": "accpm", **ORDERED},
}
every_mode = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)


def world_of(mode, images=6, seed=0):
    """Problems and labels of the mode's kind."""
    if "model" not in mode:
        return some(images, seed)
    return tiny_labels.tiny_set(np.random.default_rng(seed), 3, images=images)


@every_mode
@pytest.mark.parametrize("error", [RuntimeError, MemoryError, OverflowError])
def test_the_37th_oracle_call_fails(mode, error, monkeypatch, tmp_path):
    problems, truth = world_of(mode)
    settings = {**mode, "tol": 1e-7, "groups": 2}
    whole = train(problems, truth, **settings)
    assert len(whole.steps) > 7, "there is a call to fail, and something after it"
    file = tmp_path / "run"
    with monkeypatch.context() as patch:
        failing(
            patch,
            37,
            error,
            asked="highest_ordered_planes" if "model" in mode else "highest_planes",
        )
        raised = InputError if error is OverflowError else error
        with pytest.raises(raised, match=r"^image 0: .*it broke"):
            train(problems, truth, **settings, checkpoint=file)
    assert len(load_checkpoint(file, "train")[1]["steps"]) == 6
    resumed = train(problems, truth, **settings, checkpoint=file)
    assert resumed.w.tobytes() == whole.w.tobytes()
    assert len(resumed.steps) == len(whole.steps)


def test_a_part_of_a_pool_names_the_images_of_the_whole(monkeypatch):
    problems, truth = some()
    pool = Pool(problems, truth)
    failing(monkeypatch, 2, RuntimeError)
    with pytest.raises(RuntimeError, match="image 4: the oracle failed, it broke"):
        train([problems[1], problems[4]], [truth[1], truth[4]], pool=pool.subset([1, 4]))


def test_the_core_names_the_image_whose_energy_is_beyond_numbers():
    good, bad = Problem(np.ones((2, 1))), Problem(np.full((2, 1), 1e200))
    pool = Pool([good, good, bad], [[0, 1]] * 3)
    with pytest.raises(InputError, match="image 2: w makes energies beyond"):
        pool.ask(np.array([1e150]), Threads(2))


@every_mode
def test_a_zero_column_changes_nothing_and_gets_no_weight(mode):
    problems, truth = world_of(mode)
    wide = [
        Problem(np.insert(p.node_features, 1, 0.0, axis=1), p.edges,
                np.append(p.edge_features, np.zeros((p.n_edges, 1)), axis=1), p.regions)
        for p in problems
    ]  # fmt: skip
    plain = train(problems, truth, **mode, tol=1e-6)
    padded = train(wide, truth, **mode, tol=1e-6)
    assert padded.objective == pytest.approx(plain.objective, rel=1e-5, abs=1e-8)
    parts = padded.layout.split(padded.w)
    pairs = parts["tables"] if "model" in mode else parts["edge"]
    idle = [*np.atleast_2d(parts["node"])[:, 1], *np.ravel(pairs[2])]
    assert np.abs(idle).max() < 1e-9


def with_constant(problem):
    """The problem with a column of ones."""
    ones = np.ones((problem.n_nodes, 1))
    return replace(problem, node_features=np.append(problem.node_features, ones, axis=1))


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("loss", [Hamming(), Count(), CountFunction(np.square)], ids=str)
def test_images_with_one_label_only_are_learned(label, loss):
    problems, truth = some(3)
    problems = [with_constant(p) for p in problems]
    truth = [np.full_like(y, label) for y in truth]
    r = train(problems, truth, loss, C=1e6, tol=1e-3, envelope=SPEC)
    assert r.converged
    risk = r.objective - r.w @ r.w / 2e6
    assert risk < 0.01, "a constant column tells it all"


@every_mode
@pytest.mark.parametrize("label", [0, 1, 2])
def test_one_label_only_is_learned_in_every_mode(mode, label):
    if label == 2 and "model" not in mode:
        return
    problems, truth = world_of(mode, 3)
    problems, truth = [with_constant(p) for p in problems], [np.full_like(y, label) for y in truth]
    strong = {**mode, "C": max(mode["C"], 1e6)}
    r = train(problems, truth, **strong, tol=1e-3)
    assert r.converged
    assert r.objective - r.w @ r.w / (2 * strong["C"]) < 0.01, "a constant column tells it all"


@every_mode
def test_constraints_against_the_cone_are_refused(mode):
    problems, truth = world_of(mode, 2)
    if "model" in mode:
        row = -tiny_labels.submodular_rows(problems[0], 3)[0]  # a table that is not submodular
    else:
        row = np.eye(9)[-1]  # a bend that is not concave
    with pytest.raises(InputError, match=r"constraints .* no weights satisfy"):
        train(problems, truth, **mode, constraints=([row], [1.0]))


@every_mode
def test_labels_that_do_not_fit_are_refused(mode):
    problems, truth = world_of(mode, 2)
    for bad, words in (
        (truth[1][:-1], "image 1: labels has shape"),
        (np.full(truth[1].size, 77), "image 1: labels has values 77,"),
        (np.full(truth[1].size, -1), "image 1: labels has values -1,"),
        (np.full(truth[1].size, np.nan), "image 1: labels has values nan,"),
    ):
        with pytest.raises(InputError, match=words):
            train(problems, [truth[0], bad], **mode)
    with pytest.raises(InputError, match="problems is empty"):
        train([], [], **mode)
    with pytest.raises(InputError, match="labels has 1 arrays"):
        train(problems, truth[:1], **mode)


@pytest.mark.parametrize("kind", ["binary", "ordered"])
def test_a_mask_on_its_side_is_refused(kind):
    problem = Problem(np.ones((6, 1)), shape=(2, 3), connectivity=4)
    mask = np.array([[0, 1], [1, 0], [0, 0]], np.uint8)
    with pytest.raises(
        InputError, match=r"labels has shape \(3, 2\), but the problem has 6 nodes of shape"
    ):
        train([problem], [mask], model=Model(labels=kind))
    train([problem], [mask.T], model=Model(labels=kind))
    train([problem], [mask.ravel()], model=Model(labels=kind))


def test_labels_that_cannot_be_counted_are_refused():
    """Without n_labels, L is read off the labels, whatever they are."""
    problem = Problem(np.ones((2, 1)))
    for bad in ([0, np.nan], [0, np.inf], [0, 200]):
        with pytest.raises(InputError, match=r"image 0: labels has values (nan|inf|200)"):
            train([problem], [bad], model=Model(labels="ordered"))


@pytest.mark.parametrize("learner", ["bundle", "nslack"])
@pytest.mark.parametrize("kind", [BINARY, ORDERED], ids=["binary", "ordered"])
def test_no_regulariser_with_a_master_that_cannot(kind, learner):
    problems, truth = world_of(kind, 2)
    with pytest.raises(InputError, match=r"C is infinite .* Choose learner='accpm'"):
        train(problems, truth, learner=learner, C=math.inf, **kind)


def refused(**changes):
    problems, truth = some(2)
    given = {"problems": problems, "labels": truth, "envelope": SPEC} | changes
    return train(**given)


LONE = Problem(np.ones((3, 3)), [[0, 1]], np.ones((1, 2)))
TWO = with_regions(LONE, [[[0, 1]], [[2]]])
REFUSED = {
    "image 1 has 0 families": lambda: refused(problems=[some(2)[0][0], LONE]),
    "envelope is given, but the problem has no regions": lambda: refused(
        problems=[LONE], labels=[[0, 1, 1]]
    ),
    "envelope has 3 specs, but the problem has 2 families": lambda: refused(
        problems=[TWO], labels=[[0, 1, 1]], envelope=[SPEC] * 3
    ),
    "Enveloped(spec=EnvelopeSpec": lambda: refused(pool=Pool(*some(2))),
    "is empty or names a node twice": lambda: with_regions(LONE, [[0], []]),
    "NaN or infinity": lambda: Problem([[np.nan]], regions=[[0]]),
    "image 1: labels has values 3,": lambda: refused(
        labels=[some(2)[1][0], np.full_like(some(2)[1][1], 3)]
    ),
}


@pytest.mark.parametrize("words", REFUSED)
def test_refusals(words):
    with pytest.raises(InputError) as caught:
        REFUSED[words]()
    assert words in str(caught.value)
