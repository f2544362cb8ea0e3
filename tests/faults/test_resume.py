"""Killed, interrupted or resumed: the same bits as an undisturbed run."""

import math
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cutlearn.errors import InputError
from cutlearn.learn.pool import Pool
from cutlearn.learn.train import train
from cutlearn.run.process import Interrupted
from tiny_problems import tiny_set

TESTS = Path(__file__).parent.parent
SETTINGS = {"C": 30.0, "tol": 1e-7, "groups": 1}

# The killed run: it tells every step, so that the parent knows when to kill.
CHILD = """
import sys, time
import numpy as np
sys.path.insert(0, sys.argv[1])
from tiny_problems import tiny_set
from cutlearn.learn.train import train
from cutlearn.run.process import Interrupted
problems, truth, _ = tiny_set(np.random.default_rng(11), images=8)
def tell(step):
    sys.stdout.write(f"{step.number}\\n"); sys.stdout.flush(); time.sleep(0.02)
try:
    train(problems, truth, sys.argv[3], C=30.0, tol=1e-7, groups=1, checkpoint=sys.argv[2],
          callback=tell, n_jobs=2)
except Interrupted:
    sys.exit(130)
"""


def bits(r):
    return r.w.tobytes(), r.objective, r.lower_bound, [s.objective for s in r.steps]


@pytest.fixture
def tiny():
    return tiny_set(np.random.default_rng(11), images=8)[:2]


@pytest.mark.parametrize(
    ("loss", "last", "end"),
    [
        ("hamming", 1, signal.SIGKILL),
        ("hamming", 3, signal.SIGKILL),
        ("count", 2, signal.SIGKILL),
        ("count", 2, signal.SIGINT),
    ],
)
def test_killed_then_resumed_is_as_if_never_killed(tiny, tmp_path, loss, last, end):
    file = tmp_path / "run"
    whole = train(*tiny, loss, **SETTINGS)
    assert len(whole.steps) > last + 1
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(TESTS), str(file), loss],
        stdout=subprocess.PIPE,
        text=True,
        stderr=subprocess.DEVNULL,
    ) as child:
        for line in child.stdout:
            if int(line) >= last:
                child.send_signal(end)
                break
    assert child.returncode == (130 if end == signal.SIGINT else -end)
    asked = []
    resumed = train(*tiny, loss, **SETTINGS, checkpoint=file, callback=asked.append)
    assert len(asked) < len(whole.steps), "the resumed run did not start anew"
    assert bits(resumed) == bits(whole)


@pytest.mark.parametrize("stop", [1, 2, 5])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("learner", "C"), [("bundle", 30.0), ("accpm", 30.0), ("accpm", math.inf)])
def test_interrupted_then_resumed(tiny, tmp_path, stop, groups, learner, C):
    settings = {**SETTINGS, "groups": groups, "learner": learner, "C": C}

    def interrupt(step):
        if step.number == stop:
            raise KeyboardInterrupt

    file = tmp_path / "run"
    with pytest.raises(Interrupted, match="Run the same call again"):
        train(*tiny, **settings, checkpoint=file, callback=interrupt)
    resumed = train(*tiny, **settings, checkpoint=file, n_jobs=2)
    assert bits(resumed) == bits(train(*tiny, **settings))


def test_a_finished_run_is_not_run_again(tiny, tmp_path):
    file = tmp_path / "run"
    first = train(*tiny, **SETTINGS, checkpoint=file)
    asked = []
    again = train(*tiny, **SETTINGS, checkpoint=file, callback=asked.append)
    assert not asked
    assert bits(first) == bits(again)


def path(problems, labels, Cs, file=None, **options):
    """A training for every C over one pool of planes, each with a checkpoint of its own."""
    pool = Pool(problems, labels)
    return [
        train(problems, labels, C=C, tol=1e-6, pool=pool,
              checkpoint=None if file is None else f"{file}.{k}", **options)
        for k, C in enumerate(Cs)
    ]  # fmt: skip


def test_a_path_is_resumed_within_its_c(tiny, tmp_path):
    Cs = [0.3, 3.0, 30.0]
    whole = path(*tiny, Cs)
    calls = []

    def interrupt(step):
        calls.append(step)
        if len(calls) == len(whole[0].steps) + 1:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        path(*tiny, Cs, tmp_path / "run", callback=interrupt)
    resumed = path(*tiny, Cs, tmp_path / "run")
    assert [bits(r) for r in resumed] == [bits(r) for r in whole]


def test_a_place_without_a_folder_is_refused_before_work(tiny, tmp_path):
    asked = []
    for place in (tmp_path / "missing" / "run", tmp_path):
        with pytest.raises(InputError, match="make its folder first"):
            train(*tiny, **SETTINGS, checkpoint=place, callback=asked.append)
    assert not asked


def test_a_checkpoint_of_another_run_is_refused(tiny, tmp_path):
    file = tmp_path / "run"
    train(*tiny, **SETTINGS, checkpoint=file)
    problems, truth = tiny
    for other in (
        lambda: train(problems, truth, "count", **SETTINGS, checkpoint=file),
        lambda: train(problems, truth, **{**SETTINGS, "C": 1.0}, checkpoint=file),
        lambda: train(problems, truth, learner="accpm", **SETTINGS, checkpoint=file),
        lambda: train(problems, [1 - y for y in truth], **SETTINGS, checkpoint=file),
    ):
        with pytest.raises(InputError, match="other data or settings"):
            other()


def test_a_run_that_is_stopped_in_the_search_for_short_weights_resumes(tmp_path):
    problems, labels, _ = tiny_set(np.random.default_rng(0))
    options = {"learner": "accpm", "C": math.inf, "tol": 1e-3}
    steps = []
    whole = train(problems, labels, callback=steps.append, **options)
    stops = range(len(steps) - 6, len(steps))

    def stop(step):
        if step.number in stops:
            raise KeyboardInterrupt

    for _ in stops:
        with pytest.raises(KeyboardInterrupt):
            train(problems, labels, checkpoint=tmp_path / "run", callback=stop, **options)
    again = train(problems, labels, checkpoint=tmp_path / "run", **options)
    assert again.w.tobytes() == whole.w.tobytes()
    assert [step.objective for step in again.steps] == [step.objective for step in whole.steps]
