"""What a person sees of a long run: a bar on a terminal, plain lines in a pipe.

One class shows everything: counted work, phases, and steps of training. The time left of a training
is read off its gap, which falls about geometrically; a run without a gap shows what its last steps
gained instead.
"""

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TextIO, TypeVar

Item = TypeVar("Item")

# Seconds between two plain lines.
PAUSE = 5.0
# What a step is called that a run before this one has done.
KEPT = "kept from before"


class StepLike(Protocol):
    """What a step of a run tells."""

    @property
    def number(self) -> int:
        """Steps done, from 1; 0 while first weights are sought."""

    @property
    def best(self) -> float:
        """The best objective so far."""

    @property
    def lower_bound(self) -> float:
        """What no weights can go below, where it is bounded."""

    @property
    def relative_gap(self) -> float:
        """The gap in the units of the tolerance, or what the last steps gained."""

    @property
    def bounded(self) -> bool:
        """Whether it is a gap."""

    @property
    def tol(self) -> float:
        """The tolerance at which the run stops."""


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


def begins(number: int, last: int) -> bool:
    """Whether a step begins another run, by its number and that of the last one.

    Runs count from 1, after any number of steps 0 in which first weights are sought.
    """
    return number < last or number == last > 0


def clock(seconds: float) -> str:
    """Write seconds as 7 s, 3:05 or 2:00:00; a dash when unknown."""
    if not math.isfinite(seconds):
        return "-"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, rest = divmod(whole, 3600)
    if hours:
        return f"{hours}:{rest // 60:02d}:{rest % 60:02d}"
    return f"{rest // 60}:{rest % 60:02d}"


class Progress:
    """Shows long work, stage by stage: reading, features, one or more trainings, predicting.

    Every stage gets its own bar on a terminal, or its own plain lines in a pipe. What shows a stage
    names it, and the first call with another name begins the next one. A context manager.

    Parameters
    ----------
    title : str
        Put before the name of each stage.
    stream : text stream, optional
        Where to write, stderr by default.
    verbosity : int
        0: nothing is shown, 1: bars and a line now and then, 2: a line for every step.
    """

    def __init__(self, title: str = "", stream: TextIO | None = None, verbosity: int = 1) -> None:
        self.title = title
        self.verbosity = verbosity
        self._stream = stream or sys.stderr
        self._bar: Any = None
        self._stage = ""
        self._runs = self._number = 0
        self._first_gap = math.nan
        self._written = -math.inf
        # A stage is first heard of when a part of it is done: it began when the last one ended.
        self._start = self._heard = time.monotonic()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the stage that is shown; another may follow."""
        if self._bar is not None:
            self._bar.stop()
        self._bar, self._stage, self._start = None, "", self._heard

    def count(
        self, items: Iterable[Item], total: int | None, stage: str, unit: str = "images"
    ) -> Iterator[Item]:
        """Go through items and show how many are done; `total` is None if nobody knows."""
        self._heard = time.monotonic()
        self.close()
        for done, item in enumerate(items, 1):
            yield item
            self.at(stage, done, total, unit)
        self.close()

    def at(self, stage: str, done: int, total: int | None, unit: str) -> None:
        """Show that so many of all are done; `total` is None if nobody knows."""
        seconds = self._enter(stage)
        if total is None:
            self._show(None, f"{done} {unit}, {clock(seconds)}", False)
            return
        left = seconds / done * (total - done) if done else math.inf
        note = f"{done} of {total} {unit}, left {clock(left)}"
        self._show(done / max(total, 1), note, done >= total)

    def phase(self, done: int, total: int, what: str) -> None:
        """Show a part of a phase: the `progress` of a fit whose phases follow one another."""
        self.at(what, done, total, "steps")

    def features(self, done: int, total: int, what: str) -> None:
        """Show a part of the features: the `progress` of a fit that computes them first."""
        self.at("features", done, total, f"parts ({what})")

    def step(self, step: StepLike) -> None:
        """Show a step of training: the `callback` of a fit."""
        # Choosing C trains several times, and every run counts its own steps.
        if begins(step.number, self._number) or not self._runs:
            self._runs += 1
        self._number = step.number
        seconds = self._enter("training" if self._runs == 1 else f"training, run {self._runs}")
        if step.number == 0:
            self._show(None, "first weights are sought", False)
            return
        gap, tol = step.relative_gap, step.tol
        if not math.isfinite(self._first_gap):
            self._first_gap = gap
        left = time_left(self._first_gap, gap, tol, seconds)
        share = seconds / (seconds + left) if math.isfinite(left) else 0.0
        self._show(share, f"step {step.number}, {state_of(step)}, left {clock(left)}", gap <= tol)

    def _enter(self, stage: str) -> float:
        """Begin a stage unless it is shown already; gives the seconds that it took so far."""
        if stage != self._stage:
            self.close()
            self._stage, self._first_gap, self._written = stage, math.nan, -math.inf
            if self._stream.isatty() and self.verbosity:
                self._bar, self._task = make_bar(self._stream, f"{self.title}{stage}")
        self._heard = time.monotonic()
        return max(self._heard - self._start, 1e-9)

    def _show(self, share: float | None, note: str, done: bool) -> None:
        if not self.verbosity:
            return
        if self._bar is not None:
            total = None if share is None else 1.0  # without a total the bar only moves
            self._bar.update(self._task, total=total, completed=share or 0.0, note=note)
            return
        now = time.monotonic()
        if done or self.verbosity > 1 or now - self._written >= PAUSE:
            self._written = now
            self._stream.write(f"{self.title}{self._stage}: {note}\n")
            self._stream.flush()


class Counter:
    """Counts finished steps of several names together, and tells them.

    Parameters
    ----------
    progress : callable (done, total, what), optional
    total : int
    """

    def __init__(self, progress: Callable[[int, int, str], None] | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def tell(self, what: str, steps: int = 1) -> None:
        """Tell that so many more steps are done."""
        self.done += steps
        if self.progress is not None:
            self.progress(self.done, self.total, what)


def state_of(step: StepLike) -> str:
    """Say how far a training is: its gap, or what its last steps gained."""
    if step.bounded:
        return f"gap {step.relative_gap:.2%} of {step.tol:.2%}"
    gained = step.relative_gap
    lately = f"gained {gained:.2%} lately" if math.isfinite(gained) else "begun"
    return f"{lately}, ends below {step.tol:.2%}"


def make_bar(stream: TextIO, title: str) -> tuple[Any, Any]:
    """Give a bar on a terminal, begun, and its task."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    words = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[note]}")
    bar = Bar(*words, console=Console(file=stream), transient=True)
    task = bar.add_task(title, total=1.0, note="")
    bar.start()
    return bar, task
