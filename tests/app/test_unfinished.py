"""The folder of an unfinished run: one run at a time, and nothing left over."""

import errno
import json
import os
import signal
import subprocess
import sys
import threading

import pytest
from click.testing import CliRunner

from cutlearn.app.cli import main
from cutlearn.errors import InputError
from cutlearn.run.process import LOCK, only_one
from cutlearn.store import atomic_write, remove_leftovers
from small_folders import PLAIN, content, make_folders, run

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
