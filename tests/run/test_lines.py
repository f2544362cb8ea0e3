"""Progress as JSON lines: both bounds, the share of the job, plain numbers only."""

import io
import json
import math
from types import SimpleNamespace

from cutlearn.run.lines import Lines


def step(number, best, bound, gap, bounded=True):
    return SimpleNamespace(
        number=number, best=best, lower_bound=bound, relative_gap=gap, tol=0.01, bounded=bounded
    )


def lines_of(stream):
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_steps_tell_both_bounds(monkeypatch):
    monkeypatch.setattr("cutlearn.run.lines.PAUSE", 0.0)
    stream = io.StringIO()
    with Lines({"reading": 1.0, "training": 3.0}, runs=1, stream=stream) as shown:
        for _ in shown.count(range(2), 2, "reading"):
            pass
        shown.step(step(0, math.inf, -math.inf, math.inf))
        shown.step(step(1, 5.0, 1.0, 0.8))
        shown.step(step(2, 4.0, 3.99, 0.0025))
    lines = lines_of(stream)
    assert [one["phase"] for one in lines] == ["reading"] * 3 + ["training"] * 3
    assert [one["done"] for one in lines] == sorted(one["done"] for one in lines)
    assert lines[-1]["done"] == 1.0
    assert "best" not in lines[3]
    assert (lines[4]["best"], lines[4]["lower_bound"], lines[4]["step"]) == (5.0, 1.0, 1)
    assert lines[5]["gap"] == 0.0025


def test_run_without_a_gap_and_infinite_bounds_stay_plain(monkeypatch):
    monkeypatch.setattr("cutlearn.run.lines.PAUSE", 0.0)
    stream = io.StringIO()
    with Lines({"training": 1.0}, stream=stream) as shown:
        shown.step(step(1, 2.0, -math.inf, math.inf))
        shown.step(step(2, 2.0, 0.0, 0.5, bounded=False))
    first, second = lines_of(stream)
    assert first["lower_bound"] is None
    assert "best" not in second


def test_lines_come_now_and_then():
    stream = io.StringIO()
    with Lines({"features": 1.0}, stream=stream) as shown:
        for k in range(1000):
            shown.features(k, 1000, "trees")
    assert 1 <= len(lines_of(stream)) < 20
