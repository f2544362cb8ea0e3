"""What a person sees of a long run: a bar on a terminal, plain lines in a pipe.

The training loop calls `callback(step)` after every step; a `Progress` is such a callback and shows
rate, gap and the time left, which it reads off the gap: it falls about geometrically. A run without
a gap shows what its last steps won instead.
"""

import math
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TextIO, TypeVar

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

Item = TypeVar("Item")

# Seconds between two plain lines.
PAUSE = 5.0


class StepLike(Protocol):
    """What a step of a run tells."""

    @property
    def number(self) -> int:
        """Steps done, from 1; 0 while first weights are sought."""

    @property
    def relative_gap(self) -> float:
        """The gap in the units of the tolerance, or what the last steps won."""

    @property
    def bounded(self) -> bool:
        """Whether it is a gap."""

    @property
    def tol(self) -> float:
        """The tolerance at which the run stops."""


class Callback(Protocol):
    """Called after every step of a run. What it raises ends the run."""

    def __call__(self, step: Any) -> None:
        """Take note of a step."""


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
    """Shows a run: call it with steps, or let `count` go through items. A context manager.

    Parameters
    ----------
    title : str
    stream : text stream, optional
        Where to write, stderr by default.
    start : float, optional
        When the work began, on `time.monotonic`; by default when the context is entered.
    """

    def __init__(
        self, title: str, stream: TextIO | None = None, start: float | None = None
    ) -> None:
        self.title = title
        self._begun = start
        self._stream = stream or sys.stderr
        self._bar: Bar | None = None
        self._task: Any = None
        self._start = time.monotonic()
        self._last = -math.inf
        self._first_gap = math.nan

    def __enter__(self) -> "Progress":
        self._start = time.monotonic() if self._begun is None else self._begun
        if self._stream.isatty():
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[note]}"),
            )
            self._bar = Bar(*columns, console=Console(file=self._stream), transient=True)
            self._task = self._bar.add_task(self.title, total=1.0, note="")
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, step: StepLike) -> None:
        """Show a step of training."""
        if step.number == 0:
            self._show(0.0, "first weights are sought", False)
            return
        seconds = max(time.monotonic() - self._start, 1e-9)
        gap, tol = step.relative_gap, step.tol
        if not math.isfinite(self._first_gap):
            self._first_gap = gap
        left = time_left(self._first_gap, gap, tol, seconds)
        share = seconds / (seconds + left) if math.isfinite(left) else 0.0
        rate = step.number / seconds
        state = f"gap {gap:.2%} of {tol:.2%}"
        if not step.bounded:
            won = f"{gap:.2%} won lately" if math.isfinite(gap) else "begun"
            state = f"{won}, ends below {tol:.2%}"
        note = f"step {step.number}, {rate:.1f}/s, {state}, left {clock(left)}"
        self._show(share, note, gap <= tol)

    def count(self, items: Iterable[Item], total: int, unit: str = "images") -> Iterator[Item]:
        """Go through items and show how many are done."""
        for done, item in enumerate(items, 1):
            yield item
            self.at(done, total, unit)

    def at(self, done: int, total: int, unit: str = "images") -> None:
        """Show that so many of all are done."""
        seconds = max(time.monotonic() - self._start, 1e-9)
        left = seconds / done * (total - done) if done else math.inf
        note = f"{done} of {total} {unit}, {done / seconds:.1f}/s, left {clock(left)}"
        self._show(done / max(total, 1), note, done >= total)

    def _show(self, share: float, note: str, done: bool) -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=share, note=note)
            return
        now = time.monotonic()
        if done or now - self._last >= PAUSE:
            self._last = now
            self._stream.write(f"{self.title}: {note}\n")
            self._stream.flush()


class Phases:
    """Shows a run of several phases: call it with (done, total, what). A context manager.

    Parameters
    ----------
    stream : text stream, optional
        Where to write, stderr by default.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._shown: Progress | None = None

    def __enter__(self) -> "Phases":
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown is not None:
            self._shown.__exit__()

    def __call__(self, done: int, total: int, what: str) -> None:
        """Show that so many steps of a phase are done; another `what` begins another phase."""
        if self._shown is None or self._shown.title != what:
            self.__exit__()
            self._shown = Progress(what, self._stream).__enter__()
        self._shown.at(done, total, "steps")
