"""One bar for a whole job: never backwards, an estimate that holds, nothing with -q."""

import io
import re
from types import SimpleNamespace

from cutlearn.run.job import Job


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
