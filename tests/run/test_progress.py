"""A long run on a terminal, in a pipe and as JSON: shares, time left, bounds."""

import io
import itertools
import json
import math
import re
from types import SimpleNamespace

import pytest

from cutlearn.run import progress
from cutlearn.run.progress import KEPT, Progress, clock, starts_run, time_left


def step(number, gap, tol=0.01, bounded=True, best=1.0, lower_bound=0.0):
    return SimpleNamespace(
        number=number, relative_gap=gap, tol=tol, bounded=bounded, best=best,
        lower_bound=lower_bound,
    )  # fmt: skip


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def now(monkeypatch):
    """The clock of the display, which the test sets."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def whole_run(now, verbosity=1, stream=None):
    """A run of 100 seconds whose phases take what was estimated: its lines."""
    out = stream or io.StringIO()
    phases = {"reading": 10.0, "features": 70.0, "training": 20.0}
    with Progress(phases, runs=2, stream=out, verbosity=verbosity) as shown:
        for _ in shown.count(range(10), 10, "reading"):
            now[0] += 1
        for k in range(35):
            now[0] += 2
            shown.features(k + 1, 35, "grow trees")
        for _ in range(2):
            for number in range(1, 11):
                now[0] += 1
                shown.step(step(number, 0.01 ** (number / 10)))
    return out.getvalue().splitlines()


def test_the_share_never_falls_and_the_estimate_holds(now):
    lines = whole_run(now)
    shares = [int(line.split(" %")[0]) for line in lines]
    assert shares == sorted(shares)
    assert shares[-1] >= 94
    assert len(lines) <= 30
    shown = [re.search(r"(\d+) %: (\w+), .*about (?:(\d+):)?(\d+)(?: s)? left", x) for x in lines]
    estimates = 0
    for found in filter(None, shown):
        left = 60 * int(found[3] or 0) + int(found[4])
        # In training a run's own share follows from its gap, which may be off by half a run.
        assert abs(left - (100 - int(found[1]))) <= 6
        estimates += 1
    assert estimates > 10


def test_every_step_has_a_line_only_if_asked_for(now):
    plain = whole_run(now)
    now[0] = 0.0
    every = whole_run(now, verbosity=2)
    assert any("training, run 2 of 2" in line for line in plain)
    assert sum("gap" in line for line in plain) < 10
    assert sum("gap" in line for line in every) == 20


def test_quiet_is_quiet(now):
    assert whole_run(now, 0) == []


def test_a_terminal_has_one_bar_for_everything(now, monkeypatch):
    made, plain = [], progress.make_bar
    monkeypatch.setattr(progress, "make_bar", lambda *given: made.append(1) or plain(*given))
    out = Terminal()
    whole_run(now, 1, out)
    assert made == [1]
    assert "training" in out.getvalue()


# A fit of four cows with trees, seconds of one thread: when each part of the features was done
# (trees weigh as much as 30 images), and the gaps of its trainings, half a second in all.
FEATURES = [
    0.1, 0.2, 0.3, 0.4, 4.6, 8.3, 11.5, 14.5, 17.5, 17.6, 17.6, 17.6, 17.7, 23.1, 27.5, 31.6, 35.3,
    39.2, 39.2, 39.3, 39.3, 39.3,
]  # fmt: skip
WEIGHTS = [1] * 4 + [30] * 5 + [1] * 4 + [30] * 5 + [1] * 4
GAPS = [
    [1.0, 0.999, 0.997, 0.982, 0.652, 0.193, 0.089, 0.026, 0.016, 0.008],
    [1.0, 0.999, 0.994, 0.932, 0.794, 0.39, 0.136, 0.063, 0.034, 0.012, 0.008],
    [0.095, 0.049, 0.035, 0.014, 0.009],
]
WHOLE = 39.8


def recorded(now, monkeypatch, estimate, kept=0):
    """The clock, the seconds left that are shown, and the true ones; `kept` parts cost nothing."""
    out = io.StringIO()
    now[0] = 0.0
    saved = FEATURES[kept - 1] if kept else 0.0
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    phases = {"reading": 0.01, "features": 0.9, "training": 0.1}
    with Progress(phases, runs=3, stream=out, seconds=estimate) as shown:
        clocks = []
        for k, at in enumerate(FEATURES):
            now[0] = max(now[0], at - saved)
            what = KEPT if k < kept else "grow trees"
            shown.features(sum(WEIGHTS[: k + 1]), sum(WEIGHTS), what)
            clocks.append(now[0])
        for run in GAPS:
            for number, gap in enumerate(run, 1):
                now[0] += 0.5 / 26
                shown.step(step(number, gap))
                clocks.append(now[0])
    lines = out.getvalue().splitlines()
    found = [re.search(r"about (?:(\d+):)?(\d+)(?: s)? left", line) for line in lines]
    left = [60 * int(one[1] or 0) + int(one[2]) if one else 0 for one in found]
    assert len(left) == len(clocks)
    return [(clock, told, max(WHOLE - saved - clock, 0)) for clock, told in zip(clocks, left)]


def test_the_time_left_of_a_real_fit_does_not_jump(now, monkeypatch):
    for estimate in (25.0, 40.0, 60.0):
        rows = recorded(now, monkeypatch, estimate)
        for (before, first, _), (after, second, _) in itertools.pairwise(rows):
            # It falls by the seconds that pass, give or take a fifth of the fit.
            assert abs(first - (after - before) - second) <= WHOLE / 5
        if estimate == 40.0:
            assert all(abs(shown - true) <= 6 for _, shown, true in rows)


def test_what_was_kept_does_not_speed_up_the_estimate(now, monkeypatch):
    for kept in (5, 9, 16):
        rows = recorded(now, monkeypatch, 40.0, kept)[kept:]
        assert all(abs(shown - true) <= 8 for _, shown, true in rows)


def test_a_line_is_there_before_the_first_image_is_done():
    out = io.StringIO()
    with Progress({"predicting": 1.0}, stream=out) as shown:
        for _ in shown.count(range(3), 3, "predicting"):
            assert out.getvalue() == "0 %: predicting, 0 of 3 images\n"
            break


def test_phases_with_names_share_the_training():
    out = io.StringIO()
    phases = {"reading": 1.0, "training": 9.0}
    with Progress(phases, runs=4, stream=out, as_json=True) as shown:
        for what in ("shapes, layer 1", "margins") * 2:
            for done in (1, 2):
                progress.JSON_PAUSE, pause = 0.0, progress.JSON_PAUSE
                shown.phase(done, 2, what)
                progress.JSON_PAUSE = pause
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["done"] for line in lines] == sorted(line["done"] for line in lines)
    assert lines[-1]["done"] == 1.0
    assert "run 1 of 4, shapes, layer 1, 1 of 2" in lines[0]["note"]


def test_plain_lines_of_a_training_alone(monkeypatch):
    out = io.StringIO()
    with Progress(stream=out) as shown:
        shown.step(step(1, 0.9))
        shown.step(step(2, 0.5))  # too soon after the last line
        shown.step(step(3, 0.009))
    lines = out.getvalue().splitlines()
    assert len(lines) == 2
    assert lines[0] == "0 %: training, step 1, gap 90.00%, target 1.00%"
    assert lines[1] == "100 %: training, step 3, gap 0.90%, target 1.00%"


def test_a_run_without_a_gap_claims_none():
    out = io.StringIO()
    with Progress(stream=out) as shown:
        for number in (0, 0, 0):
            shown.step(step(number, 0.001, bounded=False))
        shown.step(step(1, math.inf, bounded=False))
        shown.step(step(50, 0.008, bounded=False))
    first, last = out.getvalue().splitlines()
    assert first == "0 %: training, first weights"
    assert last == "100 %: training, step 50, last gain 0.80%, stops below 1.00%"


def test_the_search_for_first_weights_belongs_to_a_run():
    numbers = [0, 0, 1, 2, 0, 1, 1, 2, 3, 1, 2]
    starts = [k for k, new in enumerate(map(starts_run, numbers[1:], numbers), 1) if new]
    assert starts == [4, 6, 9]


def test_without_phases_each_one_counts_from_the_start():
    out = io.StringIO()
    with Progress(title="mine, ", stream=out) as shown:
        assert list(shown.count(iter("abc"), 3, "reading")) == ["a", "b", "c"]
        shown.features(1, 2, "trees")
        for number in (0, 1, 2, 0, 1):
            shown.step(step(number, 0.5))
    lines = out.getvalue().splitlines()
    assert lines[1] == "mine, 100 %: reading, 3 of 3 images"
    assert lines[2] == "mine, 50 %: features, trees"
    assert lines[3].startswith("mine, 0 %: training")


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_work_of_unknown_length_shows_what_is_done(stream):
    out = stream()
    with Progress(stream=out) as shown:
        list(shown.count("a", None, "searching", "files"))
        shown.close()
    assert "searching, " in out.getvalue()
    assert "left" not in out.getvalue()
    assert "%" not in out.getvalue()


@pytest.mark.parametrize(
    ("first", "gap", "wanted"),
    [(1.0, 0.1, 10.0), (1.0, 0.01, 0.0), (1.0, 1.0, math.inf), (math.inf, 0.5, math.inf)],
)
def test_time_left(first, gap, wanted):
    assert time_left(first, gap, 0.01, 10.0) == pytest.approx(wanted)


def test_clock():
    assert [clock(x) for x in (7.2, 185, 7200, math.inf)] == ["7 s", "3:05", "2:00:00", "-"]


def lines_of(stream):
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_json_has_both_bounds(monkeypatch):
    monkeypatch.setattr(progress, "JSON_PAUSE", 0.0)
    stream = io.StringIO()
    with Progress({"reading": 1.0, "training": 3.0}, stream=stream, as_json=True) as shown:
        for _ in shown.count(range(2), 2, "reading"):
            pass
        shown.step(step(0, math.inf, best=math.inf, lower_bound=-math.inf))
        shown.step(step(1, 0.8, best=5.0, lower_bound=1.0))
        shown.step(step(2, 0.0025, best=4.0, lower_bound=3.99))
    lines = lines_of(stream)
    assert [one["phase"] for one in lines] == ["reading"] * 3 + ["training"] * 3
    assert [one["done"] for one in lines] == sorted(one["done"] for one in lines)
    assert lines[-1]["done"] == 1.0
    assert "best" not in lines[3]
    assert (lines[4]["best"], lines[4]["lower_bound"], lines[4]["step"]) == (5.0, 1.0, 1)
    assert lines[5]["gap"] == 0.0025


def test_json_has_no_infinity_and_no_bounds_without_a_gap(monkeypatch):
    monkeypatch.setattr(progress, "JSON_PAUSE", 0.0)
    stream = io.StringIO()
    with Progress({"training": 1.0}, stream=stream, as_json=True) as shown:
        shown.step(step(1, math.inf, best=2.0, lower_bound=-math.inf))
        shown.step(step(2, 0.5, best=2.0, bounded=False))
    first, second = lines_of(stream)
    assert first["lower_bound"] is None
    assert "best" not in second


def test_json_lines_come_now_and_then():
    stream = io.StringIO()
    with Progress({"features": 1.0}, stream=stream, as_json=True) as shown:
        for k in range(1000):
            shown.features(k, 1000, "trees")
    assert 1 <= len(lines_of(stream)) < 20
