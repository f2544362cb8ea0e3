"""Ctrl-C during fit, the same command again, and what a terminal sees."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import time

import pytest

from small_folders import PLAIN, content, make_folders, run

# A real signal, at a step that is the same on every machine.
PRESSED = """
import os, signal
import cutlearn.run.progress as room
plain, calls = room.Progress.step, 0
def step(self, step):
    global calls
    plain(self, step)
    calls += 1
    if calls == {at}:
        os.kill(os.getpid(), signal.SIGINT)
room.Progress.step = step
"""
DURING_FEATURES = """
import os, signal
import cutlearn.run.progress as room
plain, calls = room.Progress.features, 0
def features(self, done, total, what):
    global calls
    plain(self, done, total, what)
    calls += 1
    if calls == {at}:
        os.kill(os.getpid(), signal.SIGKILL)
room.Progress.features = features
"""
# Trees that take half a minute, in threads.
SLOW = """
import sys, time
import cutlearn.features.boosted as room
def grow(*_):
    sys.stdout.write("growing\\n"); sys.stdout.flush()
    time.sleep(30)
room.MultiTargetTrees.grow = grow
"""
EARLY = """
import os, signal
import cutlearn.features.featurizer as room
def fit(*_, **__):
    os.kill(os.getpid(), signal.SIGINT)
room.Featurizer.fit_samples = fit
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    root = tmp_path_factory.mktemp("world")
    images, masks = make_folders(root, 3)
    args = ["fit", images, masks, "--features", "linear", "--jobs", "1", "-o"]
    whole = root / "whole.model"
    done = run(PLAIN, *args, whole)
    assert done.returncode == 0, done.stderr
    return root, args, whole


# Step 2 falls into the choice of C, step 18 into a later run.
@pytest.mark.parametrize("at", [2, 18])
def test_interrupted_and_resumed_is_uninterrupted(world, at):
    root, args, whole = world
    model = root / f"cut{at}.model"
    stopped = run(PRESSED.format(at=at) + PLAIN, *args, model)
    assert stopped.returncode == 130, stopped.stderr
    assert stopped.stdout == ""
    last = stopped.stderr.splitlines()[-1]
    assert last.startswith("cutlearn: interrupted")
    assert f"{model}.part" in last
    assert "same command" in last
    assert "Traceback" not in stopped.stderr
    assert not model.exists()

    done = run(PLAIN, *args, model, "--json")
    assert done.returncode == 0, done.stderr
    assert f"going on with the unfinished run in {model}.part" in done.stderr
    assert json.loads(done.stdout)["resumed"] is True
    assert not (root / f"cut{at}.model.part").exists()
    assert content(model) == content(whole)


@pytest.fixture(scope="module")
def grown(world):
    """The same images with trees."""
    root, args, _ = world
    args = ["trees" if word == "linear" else word for word in args]
    whole = root / "trees.model"
    done = run(PLAIN, *args, whole)
    assert done.returncode == 0, done.stderr
    return root, args, whole


def test_killed_during_features_and_resumed_is_uninterrupted(grown):
    root, args, whole = grown
    model, part, at = root / "killed.model", root / "killed.model.part", 11
    stopped = run(DURING_FEATURES.format(at=at) + PLAIN, *args, model)
    assert stopped.returncode == -signal.SIGKILL, stopped.stderr
    assert len(list(part.glob("features-*.safetensors"))) == at
    done = run(PLAIN, *args, model, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["resumed"] is True
    assert content(model) == content(whole)
    assert not part.exists()


def test_a_stop_does_not_wait_for_threads(grown):
    root, args, whole = grown
    model = root / "slow.model"
    words = ["2" if word == "1" else word for word in args]
    with subprocess.Popen(
        [sys.executable, "-c", SLOW + PLAIN, *map(str, words), str(model)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as child:  # fmt: skip
        assert child.stdout.readline() == "growing\n"
        begin = time.monotonic()
        child.send_signal(signal.SIGTERM)
        errors = child.stderr.read()
        child.wait()
        seconds = time.monotonic() - begin
    assert child.returncode == 143, errors
    assert seconds < 2
    assert f"what was done is kept in {model}.part" in errors.splitlines()[-1]
    assert not (root / "slow.model.part" / "lock").exists()
    assert run(PLAIN, *args, model).returncode == 0
    assert content(model) == content(whole)


def test_interrupted_before_anything_is_kept(world):
    root, args, _ = world
    stopped = run(EARLY + PLAIN, *args, root / "early.model")
    assert stopped.returncode == 130, stopped.stderr
    assert "nothing is kept" in stopped.stderr.splitlines()[-1]
    assert not (root / "early.model.part").exists()


def test_an_unfinished_run_of_other_images_is_not_mixed_in(world, tmp_path):
    root, args, _ = world
    model = root / "mixed.model"
    assert run(PRESSED.format(at=3) + PLAIN, *args, model).returncode == 130
    images, masks = make_folders(tmp_path, 3, seed=50)
    done = run(PLAIN, "fit", images, masks, *args[3:], model)
    assert done.returncode == 2
    assert "--restart" in done.stderr.splitlines()[-1]
    assert (root / "mixed.model.part").is_dir()


def test_strangers_in_the_folder_of_the_run_stay(world):
    root, args, _ = world
    part = root / "kept.model.part"
    part.mkdir()
    (part / "notes.txt").write_text("mine")
    done = run(PLAIN, *args, root / "kept.model")
    assert done.returncode == 0, done.stderr
    assert [p.name for p in part.iterdir()] == ["notes.txt"]


def test_a_terminal_sees_a_bar_and_stdout_only_the_summary(world):
    root, args, _ = world
    main, side = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", PLAIN, *map(str, args), str(root / "tty.model")],
        stdout=subprocess.PIPE,
        stderr=side,
        text=True,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(side)
    seen = b""
    with contextlib.suppress(OSError):  # Linux tells the end of a terminal as an error
        while part := os.read(main, 4096):
            seen += part
    os.close(main)
    said = process.stdout.read()
    process.stdout.close()
    assert process.wait() == 0
    assert b"\x1b[" in seen
    assert b"training, run" in seen
    assert len(said.splitlines()) == 1
    assert "\x1b" not in said
