"""The command fit: groups, the folder of an unfinished run, interrupts and resumed runs."""

import contextlib
import errno
import inspect
import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import cutlearn as cl
from cutlearn.app.cli import main
from cutlearn.app.fit import groups_of
from cutlearn.errors import InputError
from cutlearn.images import cells, reader
from cutlearn.run.process import LOCK, only_one
from cutlearn.store import atomic_write, remove_leftovers
from small_folders import PLAIN, content, make_folders, run

NAMES = ["fish1_a", "fish1_b", "fish2_a", "fish2_b"]


@pytest.mark.parametrize("text", [
    "fish1_a,one\nfish1_b,one\nfish2_a,two\nfish2_b,two\n",
    "\ufeffName,Group\nfish2_a.png, two\nfish2_b.png, two\n\nfish1_a.ome.tif,one\nfish1_b,one",
])  # fmt: skip
def test_a_table_tells_the_group_of_every_name(tmp_path, text):
    path = tmp_path / "groups.CSV"
    path.write_text(text, encoding="utf-8")
    assert groups_of(NAMES, str(path)) == ["one", "one", "two", "two"]


def test_a_pattern_tells_the_group_of_every_name():
    assert groups_of(NAMES, "^(fish[0-9]+)_") == ["fish1", "fish1", "fish2", "fish2"]
    assert groups_of(NAMES, "_(.)") == ["a", "b", "a", "b"]


@pytest.mark.parametrize(("given", "words"), [
    ("(", "not a regular expression"),
    ("fish", "has 0 groups in parentheses"),
    ("(f)(i)", "has 2 groups in parentheses"),
    ("^(fish1)", r"do not match: fish2_a, fish2_b\. Write a pattern"),
    ("missing.csv", "missing.csv cannot be read"),
])  # fmt: skip
def test_what_cannot_be_used_is_refused(given, words):
    with pytest.raises(cl.InputError, match=words):
        groups_of(NAMES, given)


@pytest.mark.parametrize(("text", "words"), [
    ("fish1_a,one\n", "have no row: fish1_b, fish2_a, fish2_b"),
    ("fish1_a\n", "line 1 of .* name,group"),
    ("a,b,c\n", "line 1 of"),
    ("fish1_a,\n", "line 1 of"),
])  # fmt: skip
def test_a_table_that_lacks_something_is_refused(tmp_path, text, words):
    (tmp_path / "g.csv").write_text(text)
    with pytest.raises(cl.InputError, match=words):
        groups_of(NAMES, str(tmp_path / "g.csv"))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("fish")
    for folder in ("images", "masks"):
        (root / folder).mkdir()
    for k, name in enumerate(NAMES):
        world = cells(k, (32, 40))
        Image.fromarray(np.uint8(255 * world.image)).save(root / "images" / f"{name}.png")
        Image.fromarray(255 * world.labels).save(root / "masks" / f"{name}.png")
    return str(root / "images"), str(root / "masks")


def fitted(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def test_fit_holds_groups_out_together(folders, tmp_path):
    for given, count in (((), 4), (("--groups", "^(fish[0-9]+)_"), 2)):
        asked = [
            "fit",
            *folders,
            "-o",
            tmp_path / "m",
            "--features",
            "linear",
            "--C",
            "10",
            "--force",
            *given,
        ]
        said = fitted(*asked)
        assert said.exit_code == 0, said.output
        assert cl.load(tmp_path / "m").calibration_.n_groups == count


def test_fit_of_shapes(folders, tmp_path, monkeypatch):
    small = {"shape": (8, 8), "hidden": (8, 8), "words": (8, 8), "epochs": (5, 5), "cycles": 2}
    monkeypatch.setattr(cl.BoltzmannSegmenter.__init__, "__defaults__", tuple(
        small.get(name, one.default)
        for name, one in inspect.signature(cl.BoltzmannSegmenter).parameters.items()
    ))  # fmt: skip
    asked = ["fit", *folders, "-o", tmp_path / "m", "--model", "shape", "--json", "--force"]
    said = fitted(*asked, "--groups", "^(fish[0-9]+)_")
    assert said.exit_code == 0, said.output
    told = json.loads(said.stdout)
    assert told["cycles"] == 2
    assert "learner" not in told
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    model = cl.load(tmp_path / "m")
    assert isinstance(model, cl.BoltzmannSegmenter)
    assert model.calibration_.n_groups == 2
    refused = fitted(*asked, "--learner", "accpm")
    assert refused.exit_code == 2
    assert "--learner has no effect with --model shape" in refused.stderr


# Tells a step on stdout and waits for a signal, or for the end of stdin.
WAITING = """
import sys
import cutlearn.run.progress as room
plain, calls = room.Progress.step, 0
def step(self, step):
    global calls
    plain(self, step)
    calls += 1
    if calls == 3:
        sys.stdout.write("waiting\\n"); sys.stdout.flush()
        sys.stdin.read()
room.Progress.step = step
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    root = tmp_path_factory.mktemp("part")
    images, masks = make_folders(root, 3)
    args = ["fit", images, masks, "--features", "linear", "--jobs", "1", "-o"]
    done = run(PLAIN, *args, root / "whole.model")
    assert done.returncode == 0, done.stderr
    return root, args, root / "whole.model"


def started(args, model):
    """A fit that is in the middle of its training."""
    child = subprocess.Popen(
        [sys.executable, "-c", WAITING + PLAIN, *map(str, args), str(model)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout.readline() == "waiting\n"
    return child


def test_a_second_fit_of_the_same_model_is_refused_at_once(world):
    root, args, whole = world
    model = root / "twice.model"
    first = started(args, model)
    second = run(PLAIN, *args, model)
    assert second.returncode == 2
    assert second.stdout == ""
    last = second.stderr.splitlines()[-1]
    assert last.startswith(
        f"cutlearn: {model}.part: another run (process {first.pid}) is writing here"
    )
    _, errors = first.communicate()
    assert first.returncode == 0, errors
    assert content(model) == content(whole)
    assert not (root / "twice.model.part").exists()


@pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)]
)
def test_a_signal_leaves_a_run_that_goes_on(world, sent, code):
    root, args, whole = world
    model, part = root / f"{sent}.model", root / f"{sent}.model.part"
    child = started(args, model)
    child.send_signal(sent)
    said, errors = child.communicate()
    assert child.returncode == code, errors
    assert said == ""
    if sent != signal.SIGKILL:
        assert f"kept in {part}. Run the same command again" in errors.splitlines()[-1]
        assert LOCK not in listed(part)
    # What a kill in the middle of a write leaves, here and beside the model.
    (part / ".0123456789abcdef.tmp").write_bytes(b"half")
    for path in (part / "features.safetensors", model):
        leave_half(path)
    leave_half(root / "other.model")
    (part / ".notes.tmp").write_bytes(b"mine")
    done = run(PLAIN, *args, model, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["resumed"] is True
    assert content(model) == content(whole)
    assert listed(part) == [".notes.tmp"]
    assert [p for p in listed(root) if p.endswith(".tmp")] == left_beside(root)
    remove_leftovers(root / "other.model")
    assert not left_beside(root)


def leave_half(path):
    """Leave the temporary file of a writer that was killed before the rename."""
    kept = []

    def killed(source, target):
        kept.append(source.read_bytes())
        raise KeyboardInterrupt

    real, os.replace = os.replace, killed
    unlink, os.unlink = os.unlink, lambda *_, **__: None
    try:
        with pytest.raises(KeyboardInterrupt):
            atomic_write(path, b"half")
    finally:
        os.replace, os.unlink = real, unlink
    assert kept == [b"half"]


def listed(folder):
    return sorted(path.name for path in folder.iterdir())


def left_beside(root):
    return [name for name in listed(root) if name.startswith(".cutlearn-")]


def test_a_run_that_is_refused_leaves_nothing(tmp_path):
    images, masks = make_folders(tmp_path, 2)
    done = CliRunner().invoke(main, ["fit", images, masks, "--tol", "0", "-o", str(tmp_path / "m")])
    assert done.exit_code == 2
    assert not (tmp_path / "m.part").exists()


def test_the_lock_is_for_one_and_leaves_nothing(tmp_path):
    folder = tmp_path / "run"
    with only_one(folder):
        with pytest.raises(InputError, match="another run"), only_one(folder):
            pass
        assert (folder / LOCK).exists()
    assert not folder.exists()
    with only_one(folder):
        (folder / "kept").write_bytes(b"")
    assert listed(folder) == ["kept"]
    (folder / LOCK).write_text("99999999")  # left by a kill: nobody holds it
    with only_one(folder):
        pass
    assert listed(folder) == ["kept"]
    with pytest.raises(InputError, match="is a file"), only_one(folder / "kept"):
        pass


def test_many_runs_take_the_lock_in_turn(tmp_path):
    inside, most, won = [0], [0], []

    def take():
        for _ in range(100):
            try:
                with only_one(tmp_path / "run"):
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                    won.append(1)
                    inside[0] -= 1
            except InputError:
                continue

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] == 1
    assert len(won) >= 4


@pytest.mark.parametrize("call", ["write", "fsync", "open", "replace"])
def test_a_full_disk_names_the_file(tmp_path, monkeypatch, call):
    images, masks = make_folders(tmp_path, 2)
    model = tmp_path / "m.model"
    real = getattr(os, call)

    def full(*args, **keywords):
        if call in ("write", "fsync") or ".tmp" in str(args[0]):
            named = args[:1] if call == "open" else ()
            raise OSError(errno.ENOSPC, "No space left on device", *named)
        return real(*args, **keywords)

    args = ["fit", images, masks, "--features", "linear", "-o", str(model)]
    with monkeypatch.context() as patched:
        patched.setattr(os, call, full)
        with pytest.raises(OSError, match="No space") as caught:
            atomic_write(model, b"data")
        patched.setattr("cutlearn.run.process._held", lambda _: os.dup(1))
        (tmp_path / "m.model.part").mkdir()
        done = CliRunner().invoke(main, args)
    assert caught.value.filename == str(model)
    assert done.exit_code == 2
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"cutlearn: {model}.part/features-columns")
    assert ".safetensors: No space left on device." in last


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has it")  # noqa: PTH110
def test_a_full_disk_behind_stdout_is_told(world):
    *_, whole = world
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run([sys.executable, "-c", PLAIN, "show", str(whole)], stdout=full,
                              stderr=subprocess.PIPE, text=True)  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("cutlearn: the output: No space left on device.")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="where folders cannot be made on Linux")
@pytest.mark.timeout(30)
def test_a_folder_that_cannot_be_made_ends_the_run(tmp_path):
    with pytest.raises(OSError, match=r"x\.part"), only_one("/proc/x.part"):
        pass
    images, masks = make_folders(tmp_path, 2)
    done = run(PLAIN, "fit", images, masks, "-o", "/proc/x", "--features", "linear", "--C", "10")
    assert done.returncode == 2
    assert "/proc/x.part: No such file" in done.stderr
    assert "Traceback" not in done.stderr


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


@pytest.mark.parametrize("volume", [False, True])
def test_every_file_is_decoded_once(tmp_path, monkeypatch, volume):
    images, masks = make_folders(tmp_path, 4, (32, 40))
    if volume:
        for folder in (images, masks):
            for path in sorted(Path(folder).iterdir()):
                slices = np.stack([np.asarray(Image.open(path))] * 3)
                np.save(path.with_suffix(".npy"), slices)
                path.unlink()
    read = []
    names = ("read_voxels",) if volume else ("open_image", "open_values")
    for name in names:
        function = getattr(reader, name)

        def counting(*given, name=name, function=function):
            read.append((name, str(given[0] if volume else given[1])))
            return function(*given)

        monkeypatch.setattr(reader, name, counting)
    args = ["--features", "linear", "--C", "10", "--tol", "0.1", "--jobs", "1"]
    done = CliRunner().invoke(
        main,
        ["fit", str(images), str(masks), "-o", str(tmp_path / "m"), *args, *["--volume"] * volume],
    )
    assert done.exit_code == 0, done.stderr
    assert len(read) == len(set(read)) == 8
