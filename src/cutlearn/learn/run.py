"""The one loop of training: steps until a run is done, kept on disk and told to whoever listens.

A run holds weights w, the best of them, and its steps. What a step does (planes of oracles for a
master, or a gradient for the next move) is its own matter; looping, stopping by hand, checkpoints
and results are the same for all.
"""

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from cutlearn.arrays import Vector
from cutlearn.energy.model import Layout
from cutlearn.errors import ConvergenceWarning
from cutlearn.learn.results import (
    Settings,
    Step,
    TrainResult,
    rows_to_steps,
    steps_to_rows,
)
from cutlearn.learn.round import Round
from cutlearn.run.checkpoint import (
    beside,
    last_checkpoint,
    refuse_other,
    remove_checkpoint,
    restoring,
    rotate_checkpoint,
)
from cutlearn.run.executor import Executor
from cutlearn.store import Arrays

Tell = Callable[[Step], None]

# How a run refuses the checkpoint of another one.
OTHER = "a run with other data"


class Run(ABC):
    """One run.

    Parameters
    ----------
    layout : Layout
        The named slices of w.
    setting : Settings
    file : path, optional
        The checkpoint.
    """

    kind: ClassVar[str]  # of its checkpoints
    certified: bool = False  # whether the lower bound is proved
    starts: tuple[str, ...] = ("first",)  # runs on the way to the first weights

    def __init__(self, layout: Layout, setting: Settings, file: str | Path | None) -> None:
        self.layout, self.setting, self.file = layout, setting, file
        self.steps: list[Step] = []
        self.w = np.zeros(layout.size)
        self.best, self.best_w = math.inf, self.w
        self.spent = (0.0, 0.0, 0)  # seconds of asking and moving, and cuts, before the first step
        self.digest = ""
        self.round = Round(None, "")

    def resume(self, digest: Callable[[], str]) -> None:
        """Go on from the checkpoint, when there is one."""
        if self.file is not None:
            self.digest = digest()
            if (found := last_checkpoint(self.file, self.kind)) is not None:
                self._restore(*found)
            self.round = Round(beside(self.file, "round"), self.digest)
            if self.steps:
                self._forget_starts()

    @abstractmethod
    def begin(self, place: Executor, tell: Tell | None) -> None:
        """Look for good first weights; the steps on the way are told with the number 0."""

    @abstractmethod
    def step(self, place: Executor) -> Step:
        """Ask at w and take the next w."""

    @abstractmethod
    def rest(self) -> float:
        """What is compared with the tolerance: a relative gap, or what the last steps gained."""

    @abstractmethod
    def advice(self) -> str:
        """Say how far a run got that stopped too early, and what to do."""

    @property
    def lower_bound(self) -> float:
        """No weights have a lower objective."""
        return 0.0

    @property
    def gap(self) -> float:
        """By how much the best weights may be worse than others."""
        return max(self.best - self.lower_bound, 0.0)

    def done(self) -> bool:
        """Whether the run came to rest or the steps are used up."""
        return bool(self.steps) and (
            len(self.steps) >= self.setting.max_steps or self.rest() <= self.setting.tol
        )

    def go(self, place: Executor, tell: Tell | None = None, sought: bool = False) -> None:
        """Make steps until the run is done; `sought`: on the way to another run's first weights."""
        while not self.done():
            step = self.step(place)
            self.steps.append(step)
            if self.file is not None:
                self.save()
            if tell is not None:
                tell(replace(step, number=0) if sought else step)

    def cost(self) -> tuple[float, float, int]:
        """Give seconds of asking and of moving, and the number of images asked."""
        return _added([(s.oracle_seconds, s.master_seconds, s.calls) for s in self.steps])

    def made_step(
        self, objective: float, seconds: Sequence[float], calls: int, planes: int
    ) -> Step:
        """Give the step that was just made; the first one bears what was spent before it."""
        spent = _added([(seconds[0], seconds[1], calls)] + ([] if self.steps else [self.spent]))
        return Step(
            number=len(self.steps) + 1,
            objective=objective,
            best=self.best,
            lower_bound=self.lower_bound,
            gap=self.gap,
            relative_gap=self.rest(),
            tol=self.setting.tol,
            oracle_seconds=spent[0],
            master_seconds=spent[1],
            calls=spent[2],
            planes=planes,
        )

    def result(self) -> TrainResult:
        """Give what was learned; warns when the run should have gone on."""
        converged = bool(self.steps) and self.rest() <= self.setting.tol
        if not converged:
            warnings.warn(
                f"training stopped after {len(self.steps)} steps {self.advice()}",
                ConvergenceWarning,
                stacklevel=3,
            )
        return TrainResult(
            w=self.best_w,
            objective=self.best,
            lower_bound=self.lower_bound,
            gap=self.gap,
            relative_gap=self.rest(),
            steps=tuple(self.steps),
            certified=self.certified,
            converged=converged,
            layout=self.layout,
            C=self.setting.C,
            last_w=self.last_w(),
        )

    def last_w(self) -> Vector | None:
        """Give the weights of the last step, if they mean anything."""
        return None

    @abstractmethod
    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Give values and arrays that a checkpoint must hold beside weights and steps."""

    @abstractmethod
    def take_state(self, values: dict[str, Any], arrays: Arrays) -> None:
        """Take them back; weights and steps are in place."""

    def save(self) -> None:
        """Write the state to the checkpoint."""
        assert self.file is not None
        values, arrays = self.state()
        arrays |= {"w": self.w, "best_w": self.best_w, "steps": steps_to_rows(self.steps)}
        rotate_checkpoint(self.file, self.kind, {"digest": self.digest} | values, arrays)
        # Only now can the way to it go.
        self.round.forget()
        if len(self.steps) == 1:
            self._forget_starts()

    def start_file(self, name: str) -> Path | None:
        """Give the checkpoint of a run on the way to the first weights, beside that of this one."""
        return None if self.file is None else beside(self.file, name)

    def _forget_starts(self) -> None:
        """Remove the checkpoints of the runs on the way to the first weights."""
        for name in self.starts:
            if (file := self.start_file(name)) is not None:
                remove_checkpoint(file)
                beside(file, "round").unlink(missing_ok=True)

    def _restore(self, file: Path, values: dict[str, Any], arrays: Arrays) -> None:
        refuse_other(file, values.get("digest"), self.digest, OTHER)
        with restoring(file):
            self.w, self.best_w = arrays["w"], arrays["best_w"]
            self.steps = rows_to_steps(arrays["steps"])
            self.best = self.steps[-1].best
            self.take_state(values, arrays)


def _added(rows: Sequence[tuple[float, float, int]]) -> tuple[float, float, int]:
    asking, moving, calls = zip(*rows)
    return sum(asking), sum(moving), sum(calls)
