"""What a person sees: rate, gap and time left, in lines or in a bar."""

import io
import math
from types import SimpleNamespace

import pytest

from cutlearn.run.progress import Phases, Progress, begins, clock, time_left


def step(number, gap, tol=0.01, bounded=True):
    return SimpleNamespace(number=number, relative_gap=gap, tol=tol, bounded=bounded)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_plain_lines_in_a_pipe():
    out = io.StringIO()
    with Progress("training", out) as show:
        show(step(1, 0.9))
        show(step(2, 0.5))  # too soon after the last line
        show(step(3, 0.009))
    lines = out.getvalue().splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("training: step 1, ")
    assert "gap 90.00% of 1.00%, left -" in lines[0]
    assert "step 3" in lines[1]
    assert "gap 0.90% of 1.00%, left 0 s" in lines[1]


def test_a_run_without_a_gap_claims_none():
    out = io.StringIO()
    with Progress("training", out) as show:
        show(step(1, math.inf, bounded=False))
        show(step(50, 0.008, bounded=False))
    first, last = out.getvalue().splitlines()
    assert "begun, ends below 1.00%, left -" in first
    assert "0.80% won lately, ends below 1.00%, left 0 s" in last
    assert "gap" not in out.getvalue()


def test_the_search_for_first_weights_is_no_step():
    out = io.StringIO()
    with Progress("training", out) as show:
        for _ in range(3):
            show(step(0, 0.001, bounded=False))
        show(step(40, 0.009, bounded=False))
    assert out.getvalue().splitlines()[0] == "training: first weights are sought"
    assert "step 40" in out.getvalue().splitlines()[1]
    numbers = [0, 0, 1, 2, 0, 1, 1, 2, 3, 1, 2]
    assert [k for k, new in enumerate(map(begins, numbers[1:], numbers), 1) if new] == [4, 6, 9]


def test_a_bar_on_a_terminal():
    out = Terminal()
    with Progress("training", out) as show:
        show(step(1, 0.9))
        show(step(2, 0.1))
    assert "training" in out.getvalue()


def test_counted_work():
    out = io.StringIO()
    with Progress("features", out) as show:
        assert list(show.count(iter("abc"), 3)) == ["a", "b", "c"]
    assert "3 of 3 images" in out.getvalue().splitlines()[-1]


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
    with Phases(stream) as shown:
        for what in ("shapes", "margins"):
            for done in range(1, 4):
                shown(done, 3, what)
    lines = stream.getvalue().splitlines()
    assert [line for line in lines if "3 of 3" in line] == [lines[1], lines[3]]
    assert lines[0].startswith("shapes: 1 of 3 steps")
    assert lines[2].startswith("margins: 1 of 3 steps")
