"""Odd problems are learned or refused in a sentence; nothing is lost when an oracle fails."""

import numpy as np
import pytest

from cutlearn.energy.forms import EnvelopeSpec
from cutlearn.errors import InputError
from cutlearn.features.problem import Problem
from cutlearn.learn import oracle
from cutlearn.learn.losses import Count, CountFunction, Hamming
from cutlearn.learn.pool import Pool
from cutlearn.learn.train import train
from cutlearn.run.checkpoint import load_checkpoint
from tiny_problems import random_regions, tiny_set, with_regions

SPEC = EnvelopeSpec(3)


def some(images=6, seed=0):
    """Problems with regions, and their labels."""
    rng = np.random.default_rng(seed)
    problems, truth, _ = tiny_set(rng, images=images)
    return [with_regions(p, random_regions(rng, p.n_nodes)) for p in problems], truth


def failing(monkeypatch, call, kind, what="it broke"):
    """Let the core fail in the n-th oracle call of all rounds."""
    real, done = oracle._core.oracle_round, 0

    def fake(oracles, w, threads):
        nonlocal done
        first, done = done, done + len(oracles)
        if first < call <= done:
            raise kind(call - first - 1, what)
        return real(oracles, w, threads)

    monkeypatch.setattr(oracle._core, "oracle_round", fake)


@pytest.mark.parametrize("kind", [RuntimeError, MemoryError, OverflowError])
def test_the_37th_oracle_call_fails(kind, monkeypatch, tmp_path):
    problems, truth = some()
    settings = {"C": 10.0, "tol": 1e-7, "envelope": SPEC, "groups": 2}
    whole = train(problems, truth, **settings)
    assert len(whole.steps) > 7, "there is a call to fail, and something after it"
    file = tmp_path / "run"
    with monkeypatch.context() as patch:
        failing(patch, 37, kind)
        raised = InputError if kind is OverflowError else kind
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
        train([problems[1], problems[4]], [truth[1], truth[4]], pool=pool.take([1, 4]))


def test_the_core_names_the_image_whose_energy_is_beyond_numbers():
    good, bad = Problem(np.ones((2, 1))), Problem(np.full((2, 1), 1e200))
    pool = Pool([good, good, bad], [[0, 1]] * 3)
    with pytest.raises(InputError, match="image 2: w makes energies beyond"):
        pool.ask(np.array([1e150]), 2)


def test_a_zero_column_changes_nothing_and_gets_no_weight():
    problems, truth = some()
    wide = [
        Problem(np.insert(p.node_features, 1, 0.0, axis=1), p.edges,
                np.append(p.edge_features, np.zeros((p.n_edges, 1)), axis=1), p.regions)
        for p in problems
    ]  # fmt: skip
    plain = train(problems, truth, C=10.0, tol=1e-6, envelope=SPEC)
    padded = train(wide, truth, C=10.0, tol=1e-6, envelope=SPEC)
    assert padded.objective == pytest.approx(plain.objective, rel=1e-5)
    parts = padded.layout.split(padded.w)
    assert abs(parts["node"][1]) < 1e-9
    assert parts["edge"][2] < 1e-9


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("loss", [Hamming(), Count(), CountFunction(np.square)], ids=str)
def test_images_with_one_label_only_are_learned(label, loss):
    problems, truth = some(3)
    problems = [Problem(np.append(p.node_features, np.ones((p.n_nodes, 1)), axis=1), p.edges,
                        p.edge_features, p.regions) for p in problems]  # fmt: skip
    truth = [np.full_like(y, label) for y in truth]
    r = train(problems, truth, loss, C=1e6, tol=1e-3, envelope=SPEC)
    assert r.converged
    risk = r.objective - r.w @ r.w / 2e6
    assert risk < 0.01, "a constant column tells it all"


def test_constraints_against_the_cone_are_refused():
    problems, truth = some(2)
    rows = np.zeros((1, 9))
    rows[0, -1] = 1.0  # a bend that is not concave
    with pytest.raises(InputError, match="constraints: no weights satisfy"):
        train(problems, truth, envelope=SPEC, constraints=(rows, [1.0]))


def refused(**changes):
    problems, truth = some(2)
    given = {"problems": problems, "labels": truth, "envelope": SPEC} | changes
    return train(**given)


LONE = Problem(np.ones((3, 3)), [[0, 1]], np.ones((1, 2)))
TWO = with_regions(LONE, [[[0, 1]], [[2]]])
REFUSED = {
    "image 1: 0 families": lambda: refused(problems=[some(2)[0][0], LONE]),
    "image 0: envelope: given for a problem without regions": lambda: refused(
        problems=[LONE], labels=[[0, 1, 1]]
    ),
    "image 0: envelope: 3 specs found for 2 families": lambda: refused(
        problems=[TWO], labels=[[0, 1, 1]], envelope=[SPEC] * 3
    ),
    "envelope=EnvelopeSpec": lambda: refused(pool=Pool(*some(2))),
    "an empty region": lambda: with_regions(LONE, [[0], []]),
    "NaN or infinity": lambda: Problem([[np.nan]], regions=[[0]]),
    "image 1: labels: values 3 found": lambda: refused(
        labels=[some(2)[1][0], np.full_like(some(2)[1][1], 3)]
    ),
}


@pytest.mark.parametrize("words", REFUSED)
def test_refusals(words):
    with pytest.raises(InputError) as caught:
        REFUSED[words]()
    assert words in str(caught.value)
