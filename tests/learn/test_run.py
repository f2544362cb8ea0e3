"""Steps as rows of a checkpoint, and interrupted rounds: saved rows are not computed again."""

from dataclasses import replace

import numpy as np
import pytest

from cutlearn.learn import pool
from cutlearn.learn import run as rounds
from cutlearn.learn.run import Round, Step, rows_to_steps, steps_to_rows
from cutlearn.learn.train import train
from tiny_problems import tiny_set

STEP = Step(1, 0.5, 0.4, 0.3, 0.1, 0.25, 0.01, 1.0, 2.0, 8, 1)


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Two images at a time, and a write after each portion."""
    monkeypatch.setattr(rounds, "PORTION", 2)
    monkeypatch.setattr(rounds, "PAUSE", 0.0)


def asked(places, log, fails=None):
    if fails in places:
        raise KeyboardInterrupt
    log.extend(places)
    return np.array([[10.0 * place, 1.0] for place in places])


def test_rows_that_are_known_are_not_asked_again(tmp_path):
    file, w, log = tmp_path / "round", np.array([1.0, 2.0]), []
    with pytest.raises(KeyboardInterrupt):
        Round(file, "a").rows(w, 7, lambda places: asked(places, log, 5))
    assert log == [0, 1, 2, 3]
    log.clear()
    rows = Round(file, "a").rows(w, 7, lambda places: asked(places, log))
    assert log == [4, 5, 6]
    assert rows[:, 0].tolist() == [0, 10, 20, 30, 40, 50, 60]


@pytest.mark.parametrize("other", ["weights", "data", "damage"])
def test_rows_of_another_round_are_not_taken(other, tmp_path):
    file, w, log = tmp_path / "round", np.array([1.0, 2.0]), []
    Round(file, "a").rows(w, 3, lambda places: asked(places, []))
    if other == "damage":
        file.write_bytes(file.read_bytes()[:-3])
    digest = "b" if other == "data" else "a"
    point = np.nextafter(w, 2) if other == "weights" else w
    Round(file, digest).rows(point, 3, lambda places: asked(places, log))
    assert log == [0, 1, 2]


@pytest.mark.parametrize("learner", ["bundle", "logistic"])
@pytest.mark.parametrize("last", [4, 11, 26])
def test_a_run_that_is_stopped_within_a_round(learner, last, tmp_path, monkeypatch):
    problems, truth = tiny_set(np.random.default_rng(11), images=9)[:2]
    settings = {"learner": learner, "C": 30.0, "tol": 1e-3}
    whole = train(problems, truth, **settings)
    calls, ask = [], Round.rows

    def counted(self, w, count, answers, together):
        def one(places):
            if len(calls) == last:
                raise KeyboardInterrupt
            calls.append(places)
            return answers(places)

        return ask(self, w, count, one)

    monkeypatch.setattr(Round, "rows", counted)
    file = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(problems, truth, checkpoint=file, **settings)
    before = len(calls)
    last = 10**6
    again = train(problems, truth, checkpoint=file, **settings)
    resumed = len(calls) - before
    assert again.w.tobytes() == whole.w.tobytes()
    assert not [path for path in tmp_path.iterdir() if "round" in path.name]
    calls.clear()
    train(problems, truth, **settings)
    assert before + resumed == len(calls)  # not one portion was asked twice


def test_the_core_is_asked_in_portions(monkeypatch):
    problems, truth = tiny_set(np.random.default_rng(11), images=5)[:2]
    sizes, ask = [], pool.planes_at

    def seen(oracles, w, threads=1):
        sizes.append(len(oracles))
        return ask(oracles, w, threads)

    monkeypatch.setattr(pool, "planes_at", seen)
    train(problems, truth, C=1.0, tol=0.5)
    assert sizes[:3] == [2, 2, 1]


def test_a_single_plane_bounds_and_none_does_not():
    assert STEP.bounded
    assert not replace(STEP, planes=0).bounded


def test_steps_come_back_from_their_rows():
    steps = [STEP, replace(STEP, number=2, planes=0)]
    assert rows_to_steps(steps_to_rows(steps)) == steps
