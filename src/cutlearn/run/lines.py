"""Progress for programs: a JSON object a line, with both bounds of a training.

A line has the phase, the share of the whole job that is done, a note for people, the seconds left
(null while nobody knows) and, in a training that proves a gap, its run, its step, the best
objective so far and the lower bound.
"""

import json
import math
import time
from typing import Any

from cutlearn.run.job import Job
from cutlearn.run.progress import StepLike

# Seconds between two lines of one phase.
PAUSE = 0.2


class Lines(Job):
    """Writes a job as JSON lines; parameters as of `Job`.

    Examples
    --------
    >>> import io, json
    >>> from cutlearn.run.lines import Lines
    >>> stream = io.StringIO()
    >>> with Lines({"reading": 1.0, "training": 3.0}, stream=stream) as shown:
    ...     shown.at("reading", 1, 2, "images")
    >>> line = json.loads(stream.getvalue())
    >>> line["phase"], line["done"], line["note"]
    ('reading', 0.125, '1 of 2 images')
    """

    _bounds: dict[str, Any]

    def step(self, step: StepLike) -> None:
        """Write a step of one of the trainings."""
        known = step.bounded and step.number > 0
        self._bounds = (
            {"step": step.number, "best": _plain(step.best), "tol": step.tol,
             "lower_bound": _plain(step.lower_bound), "gap": _plain(step.relative_gap)}
            if known else {}
        )  # fmt: skip
        super().step(step)

    def _enter(self, stage: str) -> float:
        if stage != self._stage:
            self._bounds = {} if stage != "training" else getattr(self, "_bounds", {})
            self._stage, self._written = stage, -math.inf
        return 0.0

    def _show(self, share: float | None, note: str, done: bool, kept: bool = False) -> None:
        self._advance(share, kept)
        now = time.monotonic()
        if not done and now - self._written < PAUSE:
            return
        self._written = now
        bounds = {"run": self._runs, **self._bounds} if self._bounds else {}
        line = {"phase": self._stage, "done": round(self._done, 4), "note": note,
                "left": self.seconds_left(), **bounds}  # fmt: skip
        self._stream.write(json.dumps(line) + "\n")
        self._stream.flush()


def _plain(value: float) -> float | None:
    """A number as JSON can hold it."""
    return float(value) if math.isfinite(value) else None
