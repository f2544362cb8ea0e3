"""Show a long run: one bar on a terminal, plain lines in a pipe, JSON lines for programs.

A run has phases, each with an estimated share of its time; within a phase, parts count alike. Let s
be the share that is done, u the part of it that this process did in t seconds (a resumed run finds
the rest done), and T the estimate for the whole run, in seconds. With a = A (1 - u), T counts as
much as a share a of the run, so that the whole run takes about T' = (t + a T) / (u + a), and
(1 - s) T' are left. Without T, the time left is shown once u and t are large enough.

The share of a training follows from its gap, which falls about geometrically.
"""

import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, TextIO, TypeVar

Item = TypeVar("Item")

# Seconds between two plain lines, and between two lines of JSON, of one phase.
PAUSE, JSON_PAUSE = 5.0, 0.2
# The name of a step that an earlier, interrupted run has done.
KEPT = "kept from before"
# The share that must be done, and the seconds that must have passed, before the time left is shown.
ENOUGH_DONE, ENOUGH_SECONDS = 0.08, 3.0
# A of the formula.
TRUST = 0.25


class StepLike(Protocol):
    """The numbers of a training step that are shown."""

    @property
    def number(self) -> int:
        """Steps done, from 1; 0 during the search for first weights."""

    @property
    def best(self) -> float:
        """The best objective so far."""

    @property
    def lower_bound(self) -> float:
        """A lower bound of the objective, if there is one."""

    @property
    def relative_gap(self) -> float:
        """The gap in the units of the tolerance, or the relative gain of the last steps."""

    @property
    def bounded(self) -> bool:
        """Whether it is a gap."""

    @property
    def tol(self) -> float:
        """The tolerance at which the run stops."""


class Progress:
    """Show the phases of a long run. A context manager.

    Parameters
    ----------
    phases : mapping from str to float, optional
        The share of each phase, in their order. Without it every phase counts from 0 to 100 %.
    runs : int, default 1
        Number of trainings in the phase "training".
    title : str, default ""
        Shown before everything else.
    stream : text stream, default stderr
    verbosity : int, default 1
        0: show nothing, 1: a bar, or a line now and then, 2: a line for every training step.
    seconds : float, optional
        Estimated time of the whole run.
    as_json : bool, default False
        Write one JSON object per line: phase, share done, note, seconds left (null while unknown),
        and the bounds of a training that has a gap.

    Examples
    --------
    >>> import io
    >>> stream = io.StringIO()
    >>> with Progress({"reading": 1.0, "training": 3.0}, stream=stream, as_json=True) as shown:
    ...     shown.at("reading", 1, 2, "images")
    >>> stream.getvalue()
    '{"phase": "reading", "done": 0.125, "note": "1 of 2 images", "left": null}\\n'
    """

    def __init__(
        self,
        phases: Mapping[str, float] | None = None,
        runs: int = 1,
        title: str = "",
        stream: TextIO | None = None,
        verbosity: int = 1,
        seconds: float | None = None,
        as_json: bool = False,
    ) -> None:
        whole = sum((phases or {}).values())
        self._phases = {name: share / whole for name, share in (phases or {}).items()}
        self._expected, self._estimate = runs, seconds
        self._title, self._stream, self._verbosity = title, stream or sys.stderr, verbosity
        self._json = as_json
        self._bar: Any = None
        self._phase, self._written = "", -math.inf
        # Trainings begun, the name of the last one, its last step, first gap and start.
        self._runs, self._named, self._number = 0, "", 0
        self._first_gap = self._begun = math.nan
        # s, u and t of the formula, and the time of the last addition to t.
        self._done = self._worked = self._spent = 0.0
        self._last = time.monotonic()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the bar; the next report makes another."""
        if self._bar is not None:
            self._bar.stop()
        self._bar = None

    def count(
        self, items: Iterable[Item], total: int | None, phase: str, unit: str = "images"
    ) -> Iterator[Item]:
        """Yield the items and show how many are done; `total` is None if it is unknown."""
        self.at(phase, 0, total, unit)
        for done, item in enumerate(items, 1):
            yield item
            self.at(phase, done, total, unit)

    def at(self, phase: str, done: int, total: int | None, unit: str) -> None:
        """Show that so many parts of a phase are done; `total` is None if it is unknown."""
        of, share = ("", None) if total is None else (f" of {total}", done / max(total, 1))
        self._show(phase, share, f"{done}{of} {unit}")

    def features(self, done: int, total: int, what: str) -> None:
        """Show a part of the phase "features"; what an earlier run did adds no time."""
        self._show("features", done / max(total, 1), what, kept=what == KEPT)

    def phase(self, done: int, total: int, what: str) -> None:
        """Show a part of one of the trainings, each of which has a name."""
        new = what != self._named
        self._named = what
        note = f"{what}, {done} of {total}"
        self._train(new, done / max(total, 1), note, kept=new and done > 1)

    def step(self, step: StepLike) -> None:
        """Show a step of one of the trainings: the `callback` of a fit."""
        new = starts_run(step.number, self._number) or not self._runs
        self._number = step.number
        if new:
            self._begun, self._first_gap = time.monotonic(), math.nan
        share, note, bounds = 0.0, "first weights", {}
        if step.number:
            if not math.isfinite(self._first_gap):
                self._first_gap = step.relative_gap
            spent = max(time.monotonic() - self._begun, 1e-9)
            left = time_left(self._first_gap, step.relative_gap, step.tol, spent)
            share = spent / (spent + left)
            note = f"step {step.number}, {state_of(step)}"
        if step.number and step.bounded:
            bounds = {"step": step.number, "best": _plain(step.best), "tol": step.tol,
                      "lower_bound": _plain(step.lower_bound),
                      "gap": _plain(step.relative_gap)}  # fmt: skip
        # The first step shown of a resumed run has another number than 1.
        self._train(new, share, note, kept=new and step.number > 1, bounds=bounds)

    def seconds_left(self) -> float | None:
        """Estimate the rest of the run; None while there is too little to go by."""
        trust = 0.0 if self._estimate is None else TRUST * (1 - self._worked)
        if not trust and (self._worked < ENOUGH_DONE or self._spent < ENOUGH_SECONDS):
            return None
        whole = self._spent + trust * (self._estimate or 0.0)
        return whole / (self._worked + trust) * (1 - self._done)

    def _train(
        self, new: bool, share: float, note: str, kept: bool, bounds: dict[str, Any] | None = None
    ) -> None:
        self._runs += new
        runs = max(self._expected, self._runs)
        words = f"run {self._runs} of {runs}, {note}" if runs > 1 else note
        bounds = {"run": self._runs, **bounds} if bounds else bounds
        self._show("training", (self._runs - 1 + share) / runs, words, kept, bounds)

    def _show(
        self,
        phase: str,
        share: float | None,
        note: str,
        kept: bool = False,
        bounds: dict[str, Any] | None = None,
    ) -> None:
        """Record the share of a phase that is done, and write it."""
        entered = phase != self._phase
        self._phase = phase
        if self._phases:
            self._advance(phase, share or 0.0, kept)
        else:
            if entered:
                self._done = self._worked = self._spent = 0.0
            self._reach(share or 0.0, kept)
        if not self._verbosity:
            return
        now = time.monotonic()
        every = bounds is not None and self._verbosity > 1
        pause = JSON_PAUSE if self._json else PAUSE
        on_terminal = self._stream.isatty() and not self._json
        last = share is not None and share >= 1.0 and not self._phases
        if not (entered or every or last or on_terminal or now - self._written >= pause):
            return
        self._written = now
        left = None if share is None else self.seconds_left()
        if self._json:
            line = {"phase": phase, "done": round(self._done, 4), "note": note, "left": left}
            self._write(json.dumps(line | (bounds or {})))
            return
        words = f"{phase}, {note}"
        if left is not None and self._done < 1:
            words += f", about {clock(left)} left"
        if on_terminal:
            self._draw(None if share is None else self._done, words)
        else:
            self._write(words if share is None else f"{100 * self._done:.0f} %: {words}")

    def _advance(self, phase: str, share: float, kept: bool) -> None:
        """Reach a share of a phase; the phases before it are over, and nothing is taken back."""
        before = 0.0
        for name, part in self._phases.items():
            if name == phase:
                self._reach(before, True)  # what earlier phases left out was not needed
                self._reach(before + part * min(share, 1.0), kept)
                return
            before += part

    def _reach(self, share: float, kept: bool) -> None:
        """Record that this share of the run is done, by this process unless it was kept."""
        now, gained = time.monotonic(), max(share - self._done, 0.0)
        self._done += gained
        if not kept:
            self._worked += gained
            self._spent += now - self._last
            self._last = now
        elif gained:
            self._last = now

    def _write(self, line: str) -> None:
        self._stream.write(f"{'' if self._json else self._title}{line}\n")
        self._stream.flush()

    def _draw(self, done: float | None, words: str) -> None:
        if self._bar is None:
            self._bar, self._task = make_bar(self._stream, self._title)
        total = None if done is None else 1.0  # without a total the bar only moves
        self._bar.update(self._task, total=total, completed=done or 0.0, note=words)


class Counter:
    """Count finished steps of several names together, and report them.

    Parameters
    ----------
    progress : callable (done, total, what), optional
    total : int
    """

    def __init__(self, progress: Callable[[int, int, str], None] | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def add(self, what: str, steps: int = 1) -> None:
        """Report that so many more steps are done."""
        self.done += steps
        if self.progress is not None:
            self.progress(self.done, self.total, what)


def time_left(first_gap: float, gap: float, tol: float, seconds: float) -> float:
    """Estimate the seconds until the gap reaches tol, as if it fell geometrically.

    Examples
    --------
    >>> round(time_left(1.0, 0.1, 0.01, 10.0))
    10
    """
    if gap <= tol:
        return 0.0
    if not 0 < gap < first_gap or tol <= 0 or not math.isfinite(first_gap):
        return math.inf
    return seconds * math.log(gap / tol) / math.log(first_gap / gap)


def starts_run(number: int, last: int) -> bool:
    """Return whether a step starts another run, from its number and that of the last one.

    Runs count from 1, after any number of steps 0 that search first weights.
    """
    return number < last or number == last > 0


def clock(seconds: float) -> str:
    """Return seconds as 7 s, 3:05 or 2:00:00; a dash when unknown."""
    if not math.isfinite(seconds):
        return "-"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, rest = divmod(whole, 3600)
    if hours:
        return f"{hours}:{rest // 60:02d}:{rest % 60:02d}"
    return f"{rest // 60}:{rest % 60:02d}"


def state_of(step: StepLike) -> str:
    """Return the state of a training as words: its gap, or the gain of its last steps."""
    if step.bounded:
        return f"gap {step.relative_gap:.2%}, target {step.tol:.2%}"
    gain = step.relative_gap
    state = f"last gain {gain:.2%}" if math.isfinite(gain) else "first steps"
    return f"{state}, stops below {step.tol:.2%}"


def make_bar(stream: TextIO, title: str) -> tuple[Any, Any]:
    """Start a bar on a terminal; returns it and its task."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    words = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[note]}")
    bar = Bar(*words, console=Console(file=stream), transient=True)
    task = bar.add_task(title, total=1.0, note="")
    bar.start()
    return bar, task


def _plain(value: float) -> float | None:
    """Return a number as JSON can hold it."""
    return float(value) if math.isfinite(value) else None
