"""One bar for a whole job: its phases, how much of all is done, and about how long it will take.

Every phase has a share of the job's time, guessed beforehand; within a phase its parts count alike.
With s the share of the job that is done after t seconds, t (1 - s) / s are left, told once s and t
are large enough to say something.
"""

import math
import time
from collections.abc import Mapping
from typing import TextIO

from cutlearn.run.progress import (
    PAUSE,
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


class Job(Progress):
    """Shows a job of several phases as one bar on a terminal, or as plain lines in a pipe.

    Parameters
    ----------
    phases : mapping from the name of a phase to its part of the time, in their order
    runs : int
        Trainings that the phase "training" has.
    title, stream, verbosity
        As of `Progress`. With a verbosity of 2 every step of training is told.
    """

    def __init__(
        self,
        phases: Mapping[str, float],
        runs: int = 1,
        title: str = "",
        stream: TextIO | None = None,
        verbosity: int = 1,
    ) -> None:
        super().__init__(title, stream, verbosity)
        whole = sum(phases.values())
        self._parts = {name: part / whole for name, part in phases.items()}
        self._expected = runs
        self._done = 0.0
        self._begun = time.monotonic()

    def close(self) -> None:
        """Keep the bar: it belongs to the whole job."""

    def __exit__(self, *_: object) -> None:
        super().close()

    def at(self, stage: str, done: int, total: int | None, unit: str) -> None:
        """Show that so many parts of a phase are done."""
        self._enter(stage)
        share = 0.0 if not total else done / total
        of = "" if total is None else f" of {total}"
        self._show(share, f"{done}{of} {unit}", False)

    def features(self, done: int, total: int, what: str) -> None:
        """Show a part of the features."""
        self._enter("features")
        self._show(done / max(total, 1), what, False)

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
        self._show((self._runs - 1 + share) / whole, note, self.verbosity > 1)

    def _enter(self, stage: str) -> float:
        """Begin a phase unless it is shown already; the bar stays."""
        if stage != self._stage:
            self._stage, self._written = stage, -math.inf
            if self._bar is None and self._stream.isatty() and self.verbosity:
                self._bar, self._task = make_bar(self._stream, self.title)
        return 0.0

    def _advance(self, share: float | None) -> None:
        """Move on to a share of the phase that is shown; a job never goes back."""
        before = 0.0
        for name, part in self._parts.items():
            if name == self._stage:
                self._done = max(self._done, before + part * min(share or 0.0, 1.0))
                break
            before += part

    def _show(self, share: float | None, note: str, done: bool) -> None:
        self._advance(share)
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

    def seconds_left(self) -> float | None:
        """Guess how long the rest of the job takes; None while nobody can."""
        seconds = time.monotonic() - self._begun
        if self._done < ENOUGH_DONE or seconds < ENOUGH_SECONDS:
            return None
        return seconds * (1 - self._done) / self._done

    def _left(self) -> str:
        left = self.seconds_left()
        return "" if left is None else f", about {clock(left)} left"
