"""One bar for a whole job: its phases, how much of all is done, and about how long it will take.

Every phase has a share of the job's time, reckoned beforehand; within a phase its parts count
alike. Let s be the share that is done, u the part of it that this run did itself in t seconds (a
run that goes on finds the rest done), and T the seconds that were reckoned for all. With
a = A (1 - u), T is worth as much as a share a of the job, so that all takes about
T' = (t + a T) / (u + a), and (1 - s) T' are left. Without T the first word is said when u and t are
large enough.
"""

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TextIO

from cutlearn.run.progress import (
    KEPT,
    PAUSE,
    Item,
    Progress,
    StepLike,
    begins,
    clock,
    make_bar,
    state_of,
    time_left,
)

# What must be done, and how many seconds must have passed, before the time left is told.
ENOUGH_DONE, ENOUGH_SECONDS = 0.08, 3.0
# A of the formula.
TRUST = 0.25


class Job(Progress):
    """Shows a job of several phases as one bar on a terminal, or as plain lines in a pipe.

    Parameters
    ----------
    phases : mapping from the name of a phase to its part of the time, in their order
    runs : int
        Trainings that the phase "training" has.
    title, stream, verbosity
        As of `Progress`. With a verbosity of 2 every step of training is told.
    seconds : float, optional
        What all of it was reckoned to take.
    """

    def __init__(
        self,
        phases: Mapping[str, float],
        runs: int = 1,
        title: str = "",
        stream: TextIO | None = None,
        verbosity: int = 1,
        seconds: float | None = None,
    ) -> None:
        super().__init__(title, stream, verbosity)
        whole = sum(phases.values())
        self._parts = {name: part / whole for name, part in phases.items()}
        self._expected = runs
        self._reckoned = seconds
        self._named = ""
        # s, u and t of the formula, and when t was last added to.
        self._done = self._worked = self._spent = 0.0
        self._last = time.monotonic()

    def close(self) -> None:
        """Keep the bar: it belongs to the whole job."""

    def __exit__(self, *_: object) -> None:
        super().close()

    def count(
        self, items: Iterable[Item], total: int | None, stage: str, unit: str = "images"
    ) -> Iterator[Item]:
        """Go through items and show how many are done, from the start: the first may take long."""
        self.at(stage, 0, total, unit)
        yield from super().count(items, total, stage, unit)

    def at(self, stage: str, done: int, total: int | None, unit: str) -> None:
        """Show that so many parts of a phase are done."""
        self._enter(stage)
        share = 0.0 if not total else done / total
        of = "" if total is None else f" of {total}"
        self._show(share, f"{done}{of} {unit}", False)

    def features(self, done: int, total: int, what: str) -> None:
        """Show a part of the features."""
        self._enter("features")
        self._show(done / max(total, 1), what, False, what == KEPT)

    def phase(self, done: int, total: int, what: str) -> None:
        """Show a part of one of the trainings, each of which has a name."""
        new = what != self._named
        self._runs += new
        self._named = what
        self._enter("training")
        whole = max(self._expected, self._runs)
        share = (self._runs - 1 + done / max(total, 1)) / whole
        self._show(share, f"{what}, {done} of {total}", False, new and done > 1)

    def step(self, step: StepLike) -> None:
        """Show a step of one of the trainings."""
        new = begins(step.number, self._number) or not self._runs
        self._runs += new
        self._number = step.number
        self._enter("training")
        if new:
            self._start, self._first_gap = time.monotonic(), math.nan
        share = 0.0
        if step.number and not math.isfinite(self._first_gap):
            self._first_gap = step.relative_gap
        if step.number:
            seconds = max(time.monotonic() - self._start, 1e-9)
            left = time_left(self._first_gap, step.relative_gap, step.tol, seconds)
            share = seconds / (seconds + left) if math.isfinite(left) else 0.0
        whole = max(self._expected, self._runs)
        note = f"run {self._runs} of {whole}"
        if self.verbosity > 1:
            note += f", step {step.number}, {state_of(step)}" if step.number else ", first weights"
        # The first step that is told of a run has another number than 1 if others were kept.
        kept = bool(new and step.number > 1)
        self._show((self._runs - 1 + share) / whole, note, self.verbosity > 1, kept)

    def _enter(self, stage: str) -> float:
        """Begin a phase unless it is shown already; the bar stays."""
        if stage != self._stage:
            self._stage, self._written = stage, -math.inf
            if self._bar is None and self._stream.isatty() and self.verbosity:
                self._bar, self._task = make_bar(self._stream, self.title)
        return 0.0

    def _advance(self, share: float | None, kept: bool = False) -> None:
        """Move on to a share of the phase that is shown; a job never goes back."""
        before = 0.0
        for name, part in self._parts.items():
            if name == self._stage:
                self._reach(before, True)  # what was left out of the phases before was not needed
                self._reach(before + part * min(share or 0.0, 1.0), kept)
                break
            before += part

    def _show(self, share: float | None, note: str, done: bool, kept: bool = False) -> None:
        self._advance(share, kept)
        if not self.verbosity:
            return
        text = f"{self._stage}, {note}{self._left()}"
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done, note=text)
            return
        now = time.monotonic()
        if done or now - self._written >= PAUSE:
            self._written = now
            self._stream.write(f"{self.title}{100 * self._done:.0f} %: {text}\n")
            self._stream.flush()

    def _reach(self, share: float, kept: bool) -> None:
        """Put down that this share of all is done, by this run unless it was kept."""
        now, gained = time.monotonic(), max(share - self._done, 0.0)
        self._done += gained
        if not kept:
            self._worked += gained
            self._spent += now - self._last
            self._last = now
        elif gained:
            self._last = now

    def seconds_left(self) -> float | None:
        """Guess how long the rest of the job takes; None while nobody can."""
        trust = 0.0 if self._reckoned is None else TRUST * (1 - self._worked)
        if not trust and (self._worked < ENOUGH_DONE or self._spent < ENOUGH_SECONDS):
            return None
        whole = self._spent + trust * (self._reckoned or 0.0)
        return whole / (self._worked + trust) * (1 - self._done)

    def _left(self) -> str:
        left = self.seconds_left()
        return "" if left is None else f", about {clock(left)} left"
