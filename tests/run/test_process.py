"""How much memory is free: the least of what machine, limit and control group leave."""

import subprocess
import sys

import pytest

from cutlearn.run import process

CODE = "from cutlearn.run.process import free_bytes; print(free_bytes())"


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells it")
def test_a_limit_of_the_process_counts():
    import resource

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))

    done = subprocess.run([sys.executable, "-c", CODE], preexec_fn=limit, capture_output=True)
    assert 0 < int(done.stdout) < 2**30


@pytest.mark.parametrize(("most", "left"), [("5000\n", 5000 - 3000 + 700), ("max\n", None)])
def test_a_control_group_counts_without_files_that_can_go(most, left, tmp_path, monkeypatch):
    for name, text in (
        ("memory.max", most), ("memory.current", "3000\n"),
        ("memory.stat", "anon 2300\ninactive_file 700\n"),
    ):  # fmt: skip
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(process, "own_group", lambda: tmp_path)
    assert process._group() == left


def test_a_system_that_tells_nothing(monkeypatch):
    for name in ("_machine", "_limit", "_group"):
        monkeypatch.setattr(process, name, lambda: None)
    assert process.free_bytes() is None
    monkeypatch.setattr(process, "_limit", lambda: -5)
    assert process.free_bytes() == 0
