"""Progress of a command with several stages: features, then one or more trainings.

Every stage gets its own bar on a terminal or its own plain lines in a pipe, always on stderr.
"""

import time
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from cutlearn.run.progress import Progress, begins

Item = TypeVar("Item")


class Watch:
    """Shows the stages of a long command. A context manager.

    Parameters
    ----------
    title : str
        Put before the name of each stage.
    """

    def __init__(self, title: str = "") -> None:
        self.title = title
        self._stage = ""
        self._shown: Progress | None = None
        self._last = 0
        self._runs = 0
        self._idle = self._heard = time.monotonic()

    def features(self, done: int, total: int, what: str) -> None:
        """Take note of a part of the features; the `progress` of a fit."""
        self._at("features").at(done, total, f"parts ({what})")

    def step(self, step: Any) -> None:
        """Take note of a step of training; the `callback` of a fit."""
        # Choosing C trains several times, and every run counts its own steps.
        if begins(step.number, self._last) or not self._runs:
            self._runs += 1
        self._last = step.number
        self._at("training" if self._runs == 1 else f"training, run {self._runs}")(step)

    def count(self, items: Iterable[Item], total: int, stage: str) -> Iterator[Item]:
        """Go through images and show how many are done."""
        yield from self._at(stage).count(items, total)
        self.close()

    def close(self) -> None:
        """End the stage that is shown."""
        if self._shown is not None:
            self._shown.__exit__(None, None, None)
            self._idle = self._heard
        self._shown, self._stage = None, ""

    def _at(self, stage: str) -> Progress:
        if self._shown is None or stage != self._stage:
            self.close()
            self._stage = stage
            # A stage is first heard of when a part of it is done: it began when the last ended.
            self._shown = Progress(f"{self.title}{stage}", start=self._idle).__enter__()
        self._heard = time.monotonic()
        return self._shown

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
