"""One bar for a whole job: never backwards, an estimate that holds, nothing with -q."""

import io
import itertools
import re
from types import SimpleNamespace

from cutlearn.run.job import Job
from cutlearn.run.progress import KEPT


def step(number, gap, tol=0.01):
    return SimpleNamespace(number=number, relative_gap=gap, tol=tol, bounded=True)


def whole_job(monkeypatch, verbosity=1, stream=None):
    """A job of 100 seconds whose phases take what was guessed: lines and the seconds of each."""
    now, out = [0.0], stream or io.StringIO()
    monkeypatch.setattr("cutlearn.run.job.time.monotonic", lambda: now[0])
    phases = {"reading": 10.0, "features": 70.0, "training": 20.0}
    with Job(phases, runs=2, stream=out, verbosity=verbosity) as job:
        for _ in job.count(range(10), 10, "reading"):
            now[0] += 1
        for k in range(35):
            now[0] += 2
            job.features(k + 1, 35, "grow trees")
        for _ in range(2):
            for number in range(1, 11):
                now[0] += 1
                job.step(step(number, 0.01 ** (number / 10)))
    return out.getvalue().splitlines()


def test_the_share_never_falls_and_the_estimate_is_that_of_the_job(monkeypatch):
    lines = whole_job(monkeypatch)
    shares = [int(line.split(" %")[0]) for line in lines]
    assert shares == sorted(shares)
    assert shares[-1] >= 94
    assert len(lines) <= 30
    told = [re.search(r"(\d+) %: (\w+), .*about (?:(\d+):)?(\d+)(?: s)? left", x) for x in lines]
    seen = 0
    for found in filter(None, told):
        left = 60 * int(found[3] or 0) + int(found[4])
        # In training a run's own share is read off its gap, which may be off by half a run.
        assert abs(left - (100 - int(found[1]))) <= 6
        seen += 1
    assert seen > 10


def test_runs_are_counted_and_steps_only_told_if_asked_for(monkeypatch):
    plain, every = (whole_job(monkeypatch, verbosity) for verbosity in (1, 2))
    assert any("training, run 2 of 2" in line for line in plain)
    assert not any("gap" in line for line in plain)
    assert sum("gap" in line for line in every) == 20


def test_quiet_is_quiet(monkeypatch):
    assert whole_job(monkeypatch, 0) == []


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_has_one_bar_for_everything(monkeypatch):
    made = []
    from cutlearn.run import job

    plain = job.make_bar
    monkeypatch.setattr(job, "make_bar", lambda *given: made.append(1) or plain(*given))
    whole_job(monkeypatch, 1, Terminal())
    assert made == [1]


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


def recorded(monkeypatch, reckoned, kept=0):
    """The seconds left that are told, beside the true ones, and the clock; `kept` cost nothing."""
    now, out = [0.0], io.StringIO()
    saved = FEATURES[kept - 1] if kept else 0.0
    monkeypatch.setattr("cutlearn.run.job.time.monotonic", lambda: now[0])
    monkeypatch.setattr("cutlearn.run.job.PAUSE", 0.0)
    phases = {"reading": 0.01, "features": 0.9, "training": 0.1}
    with Job(phases, runs=3, stream=out, verbosity=1, seconds=reckoned) as job:
        clocks = []
        for k, at in enumerate(FEATURES):
            now[0] = max(now[0], at - saved)
            what = KEPT if k < kept else "grow trees"
            job.features(sum(WEIGHTS[: k + 1]), sum(WEIGHTS), what)
            clocks.append(now[0])
        for run in GAPS:
            for number, gap in enumerate(run, 1):
                now[0] += 0.5 / 26
                job.step(step(number, gap))
                clocks.append(now[0])
    lines = out.getvalue().splitlines()
    found = [re.search(r"about (?:(\d+):)?(\d+)(?: s)? left", line) for line in lines]
    left = [60 * int(one[1] or 0) + int(one[2]) for one in found]
    assert len(left) == len(clocks)
    return [(clock, told, max(WHOLE - saved - clock, 0)) for clock, told in zip(clocks, left)]


def test_the_time_left_of_a_real_fit_does_not_jump(monkeypatch):
    for reckoned in (25.0, 40.0, 60.0):
        rows = recorded(monkeypatch, reckoned)
        for (before, first, _), (after, second, _) in itertools.pairwise(rows):
            # What is told falls by the seconds that pass, give or take a fifth of the fit.
            assert abs(first - (after - before) - second) <= WHOLE / 5
        if reckoned == 40.0:
            assert all(abs(told - true) <= 6 for _, told, true in rows)


def test_what_was_kept_does_not_speed_up_the_estimate(monkeypatch):
    for kept in (5, 9, 16):
        rows = recorded(monkeypatch, 40.0, kept)[kept:]
        assert all(abs(told - true) <= 8 for _, told, true in rows)


def test_a_bar_is_there_before_the_first_image_is_done():
    out = io.StringIO()
    with Job({"predicting": 1.0}, stream=out) as job:
        for _ in job.count(range(3), 3, "predicting"):
            assert out.getvalue() == "0 %: predicting, 0 of 3 images\n"
            break


def test_phases_with_names_move_the_bar():
    out = io.StringIO()
    with Job({"reading": 1.0, "training": 9.0}, runs=4, stream=out) as job:
        for what in ("shapes, layer 1", "margins") * 2:
            for done in (1, 2):
                job.phase(done, 2, what)
        assert job._done == 1.0
    assert "training, shapes, layer 1, 1 of 2" in out.getvalue()
