"""The n-th write, fsync or rename fails: the old file or the new one stays, and nothing else."""

import errno
import os

import pytest

from cutlearn.store import atomic_write

STEPS = ["open", "write", "fsync", "replace"]


class Failing:
    """A system call that fails the n-th time it is made, and works otherwise."""

    def __init__(self, call, n, error):
        self.call, self.left, self.error = call, n, error

    def __call__(self, *args, **keywords):
        self.left -= 1
        if self.left == 0:
            raise self.error
        return self.call(*args, **keywords)


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "disk full"), KeyboardInterrupt()])
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("existed", [True, False])
def test_a_failed_step_leaves_old_or_new(tmp_path, monkeypatch, step, n, error, existed):
    path = tmp_path / "model.bin"
    if existed:
        path.write_bytes(b"old")
    failing = Failing(getattr(os, step), n, error)
    real_write = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: real_write(handle, data[:2]))
    if step == "write":
        failing.call = os.write
    monkeypatch.setattr(os, step, failing)
    failed = False
    try:
        atomic_write(path, b"new!")
    except type(error):
        failed = True
    monkeypatch.undo()
    # open and fsync are called twice (file, folder), write twice (two halves), replace once.
    calls = {"open": 2, "write": 2, "fsync": 2, "replace": 1}[step]
    assert failed == (n <= calls)
    renamed = not failed or (step in ("open", "fsync") and n == 2)
    assert [p.name for p in tmp_path.iterdir()] == (["model.bin"] if renamed or existed else [])
    if renamed or existed:
        assert path.read_bytes() == (b"new!" if renamed else b"old")


def test_the_error_of_the_step_is_the_one_that_is_seen(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "disk full")

    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.setattr(os, "unlink", full)  # removing the temporary file fails as well
    with pytest.raises(OSError, match="disk full"):
        atomic_write(tmp_path / "a.bin", b"data")


def test_two_writers_of_one_path_do_not_mix(tmp_path, monkeypatch):
    path = tmp_path / "a.bin"
    real = os.replace

    def overtaken(source, target):
        monkeypatch.setattr(os, "replace", real)
        atomic_write(path, b"B" * 100)
        real(source, target)

    monkeypatch.setattr(os, "replace", overtaken)
    atomic_write(path, b"A" * 50)
    assert path.read_bytes() == b"A" * 50
    assert [p.name for p in tmp_path.iterdir()] == ["a.bin"]
