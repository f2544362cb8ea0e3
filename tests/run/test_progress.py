"""What a person sees: rate, gap and time left, in lines or in a bar."""

import io
import math
from types import SimpleNamespace

import pytest

from cutlearn.run.progress import Progress, begins, clock, time_left


def step(number, gap, tol=0.01, bounded=True):
    return SimpleNamespace(number=number, relative_gap=gap, tol=tol, bounded=bounded)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_plain_lines_in_a_pipe():
    out = io.StringIO()
    with Progress(stream=out) as show:
        show.step(step(1, 0.9))
        show.step(step(2, 0.5))  # too soon after the last line
        show.step(step(3, 0.009))
    lines = out.getvalue().splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("training: step 1, ")
    assert "gap 90.00% of 1.00%, left -" in lines[0]
    assert "step 3" in lines[1]
    assert "gap 0.90% of 1.00%, left 0 s" in lines[1]


def test_a_run_without_a_gap_claims_none():
    out = io.StringIO()
    with Progress(stream=out) as show:
        show.step(step(1, math.inf, bounded=False))
        show.step(step(50, 0.008, bounded=False))
    first, last = out.getvalue().splitlines()
    assert "begun, ends below 1.00%, left -" in first
    assert "gained 0.80% lately, ends below 1.00%, left 0 s" in last
    assert "gap" not in out.getvalue()


def test_the_search_for_first_weights_is_no_step():
    out = io.StringIO()
    with Progress(stream=out) as show:
        for _ in range(3):
            show.step(step(0, 0.001, bounded=False))
        show.step(step(40, 0.009, bounded=False))
    assert out.getvalue().splitlines()[0] == "training: first weights are sought"
    assert "step 40" in out.getvalue().splitlines()[1]
    numbers = [0, 0, 1, 2, 0, 1, 1, 2, 3, 1, 2]
    assert [k for k, new in enumerate(map(begins, numbers[1:], numbers), 1) if new] == [4, 6, 9]


def test_a_bar_on_a_terminal():
    out = Terminal()
    with Progress(stream=out) as show:
        show.step(step(1, 0.9))
        show.step(step(2, 0.1))
    assert "training" in out.getvalue()


def test_counted_work():
    out = io.StringIO()
    with Progress("mine, ", out) as show:
        assert list(show.count(iter("abc"), 3, "reading")) == ["a", "b", "c"]
    assert out.getvalue().splitlines()[-1] == "mine, reading: 3 of 3 images, left 0 s"


@pytest.mark.parametrize(
    ("first", "gap", "wanted"),
    [(1.0, 0.1, 10.0), (1.0, 0.01, 0.0), (1.0, 1.0, math.inf), (math.inf, 0.5, math.inf)],
)
def test_time_left(first, gap, wanted):
    assert time_left(first, gap, 0.01, 10.0) == pytest.approx(wanted)


def test_clock():
    assert [clock(x) for x in (7.2, 185, 7200, math.inf)] == ["7 s", "3:05", "2:00:00", "-"]


def test_phases_are_shown_one_after_the_other():
    stream = io.StringIO()
    with Progress(stream=stream) as shown:
        for what in ("shapes", "margins"):
            for done in range(1, 4):
                shown.phase(done, 3, what)
    lines = stream.getvalue().splitlines()
    assert [line for line in lines if "3 of 3" in line] == [lines[1], lines[3]]
    assert lines[0].startswith("shapes: 1 of 3 steps")
    assert lines[2].startswith("margins: 1 of 3 steps")


def test_every_training_is_a_stage_of_its_own():
    out = io.StringIO()
    with Progress(stream=out) as show:
        show.features(2, 2, "trees")
        for number in (0, 1, 2, 0, 1):
            show.step(step(number, 0.005))
    stages = [line.split(":")[0] for line in out.getvalue().splitlines()]
    assert list(dict.fromkeys(stages)) == ["features", "training", "training, run 2"]


def test_the_time_left_of_a_stage_counts_from_the_end_of_the_last(monkeypatch):
    now, out = [0.0], io.StringIO()
    monkeypatch.setattr("cutlearn.run.progress.time.monotonic", lambda: now[0])
    with Progress(stream=out) as show:
        for second, stage, done in (
            (100, "reading", 1),
            (110, "features", 1),
            (120, "features", 2),
        ):
            now[0] = second
            show.at(stage, done, 4, "parts")
    assert out.getvalue().splitlines()[1:] == [
        "features: 1 of 4 parts, left 30 s",
        "features: 2 of 4 parts, left 20 s",
    ]


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_work_of_unknown_length_shows_what_is_done(stream):
    out = stream()
    with Progress(stream=out) as show:
        list(show.count("a", None, "searching", "files"))
    assert "searching" in out.getvalue()
    assert "1 files" in out.getvalue()
    assert "left" not in out.getvalue()


def test_counted_work_begins_when_it_is_begun_and_not_when_the_last_stage_was_heard_of(monkeypatch):
    now, out = [0.0], io.StringIO()
    monkeypatch.setattr("cutlearn.run.progress.time.monotonic", lambda: now[0])
    with Progress(stream=out) as show:
        show.step(step(1, 0.005))
        now[0] = 100.0  # work of which nothing is shown
        for _ in show.count(range(4), 4, "predicting"):
            now[0] += 10
    assert out.getvalue().splitlines()[1] == "predicting: 1 of 4 images, left 30 s"
