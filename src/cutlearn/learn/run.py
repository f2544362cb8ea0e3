"""The training loop: steps until a run is done, with checkpoints, a callback and a result.

A run holds weights w, the best of them, and its steps. The two kinds of runs differ in their steps:
planes of oracles for a master (`margin`), or a gradient for the next point (`likelihood`). The
loop, interrupts, checkpoints and results are shared.

A step evaluates every image at w. This round of thousands of images takes minutes. A run with a
checkpoint also saves the rows of an unfinished round, so that it resumes within the round.
"""

import math
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from cutlearn.arrays import Matrix, Vector
from cutlearn.checks import is_number
from cutlearn.energy.model import Layout
from cutlearn.errors import ConvergenceWarning, InputError, quoted
from cutlearn.learn.learners import LEARNERS, Learner, MarginLearner
from cutlearn.run.checkpoint import (
    beside,
    last_checkpoint,
    load_checkpoint,
    refuse_other,
    remove_checkpoint,
    restoring,
    rotate_checkpoint,
    save_checkpoint,
)
from cutlearn.run.executor import Executor
from cutlearn.store import Arrays

# The message for the checkpoint of another run.
OTHER = "a run with other data"
# Of a round: images that are evaluated together, on threads; and seconds between two writes.
PORTION = 64
PAUSE = 20.0


@dataclass(frozen=True)
class Step:
    """One step of training.

    Attributes
    ----------
    number : int
        From 1 on; 0 in the search for first weights.
    objective : float
        The objective at the weights of this step.
    best, lower_bound, gap : float
        The best objective so far, the certified bound, and their difference.
    relative_gap, tol : float
        The gap relative to the objective, and the tolerance that it must reach. Likelihood learners
        prove no gap: for them it is the relative decrease by the last 30 steps.
    oracle_seconds, master_seconds : float
        Time of the cuts, and of choosing the next weights.
    calls : int
        Oracle calls, one for each image.
    planes : int
        Planes in the master; likelihood learners have none.
    """

    number: int
    objective: float
    best: float
    lower_bound: float
    gap: float
    relative_gap: float
    tol: float
    oracle_seconds: float
    master_seconds: float
    calls: int
    planes: int

    @property
    def bounded(self) -> bool:
        """Whether the lower bound comes from planes; a likelihood has none, hence no gap."""
        return self.planes > 0


@dataclass(frozen=True, eq=False)
class TrainResult:
    """Learned weights, and the proof of how good they are.

    Attributes
    ----------
    w : (d,) float64
        The best weights.
    objective, lower_bound, gap, relative_gap : float
        lambda/2 |w|^2 + R(w) at w; a lower bound of it for all weights; their difference and the
        rounding error of the objective; the gap over max(objective, largest possible loss / 1000).
        For likelihood learners: lambda/2 |w|^2 - L(w); 0, which bounds it; their difference; the
        relative decrease by the last 30 steps.
    steps : tuple of Step
    certified : bool
        Whether the gap is proved (exact cuts in every oracle call).
    converged : bool
        Whether the gap reached the tolerance, or the decrease of a likelihood learner did.
    layout : Layout
        The named slices of w.
    C : float
    """

    w: Vector
    objective: float
    lower_bound: float
    gap: float
    relative_gap: float
    steps: tuple[Step, ...]
    certified: bool
    converged: bool
    layout: Layout
    C: float


Callback = Callable[[Step], None]


def steps_to_rows(steps: Sequence[Step]) -> Matrix:
    """Return steps as rows of numbers, for a file."""
    return np.array([astuple(step) for step in steps], float).reshape(-1, len(fields(Step)))


def rows_to_steps(rows: Matrix) -> list[Step]:
    """Return the steps of a file."""
    types = [field.type for field in fields(Step)]
    return [Step(*(int(x) if t is int else x for t, x in zip(types, row))) for row in rows.tolist()]


@dataclass(frozen=True)
class Settings:
    """Checked settings of a run."""

    learner: Learner
    C: float
    tol: float
    groups: int
    max_steps: int


def settings_of(
    n_images: int, learner: Learner, C: float, tol: float, groups: int | None, max_steps: int
) -> Settings:
    """Return the settings of a run, checked."""
    for name, value in (("C", C), ("tol", tol), ("max_steps", max_steps)):
        if not is_number(value):
            raise InputError(
                f"The {name!r} parameter must be a number. Got {quoted(value)} instead."
            )
    if not C > 0:
        raise InputError(f"The 'C' parameter must be a number > 0. Got {C!r} instead.")
    if math.isinf(C) and not learner.allows_infinite_C:
        able = next(name for name, one in LEARNERS.items() if one.allows_infinite_C and one.margin)
        raise InputError(
            f"C is infinite (no regulariser), but learner={learner.name!r} needs a finite number. "
            f"Choose learner={able!r}, which needs no regulariser."
        )
    if not 0 < tol < math.inf:
        raise InputError(f"The 'tol' parameter must be a finite number > 0. Got {tol!r} instead.")
    if not 1 <= max_steps < math.inf:
        raise InputError(
            f"The 'max_steps' parameter must be a number >= 1. Got {max_steps!r} instead."
        )
    if isinstance(learner, MarginLearner) and (groups is None or learner.one_each):
        groups = learner.groups(n_images)
    groups = 1 if groups is None else groups
    if not is_number(groups) or not 1 <= groups <= n_images:
        raise InputError(
            f"The 'groups' parameter must be between 1 and the number of images, {n_images}. "
            f"Got {quoted(groups)} instead."
        )
    return Settings(learner, float(C), float(tol), int(groups), int(max_steps))


class Round:
    """The rows of all images of a run at one point w, saved portion by portion.

    Parameters
    ----------
    file : path, optional
        Where rows are saved; None: nowhere.
    digest : str
        The fingerprint of all that they depend on besides the weights.
    """

    def __init__(self, file: Path | None, digest: str) -> None:
        self.file, self.digest = file, digest

    def rows(
        self,
        w: Vector,
        count: int,
        rows_of: Callable[[Sequence[int]], Matrix],
        together: bool = False,
    ) -> Matrix:
        """Return the rows of all images at w, in order, (count, k); compute the missing ones.

        Parameters
        ----------
        rows_of : callable (images)
            The rows of some images.
        together : bool
            Whether all images are evaluated at once, so that no worker of a cluster waits.
        """
        portion = count if together else PORTION
        rows, last = self._saved(w, count), time.monotonic()
        while (done := sum(map(len, rows))) < count:
            rows.append(rows_of(range(done, min(done + portion, count))))
            if self.file is not None and time.monotonic() - last >= PAUSE:
                saved = {"w": w, "rows": np.concatenate(rows)}
                save_checkpoint(self.file, "round", {"digest": self.digest}, saved)
                last = time.monotonic()
        return np.concatenate(rows)

    def remove(self) -> None:
        """Remove the file, once the whole step is in the checkpoint."""
        if self.file is not None:
            self.file.unlink(missing_ok=True)

    def _saved(self, w: Vector, count: int) -> list[Matrix]:
        """Return the rows of an interrupted round of this run at the same weights, if any."""
        if self.file is None or not self.file.exists():
            return []
        try:
            values, arrays = load_checkpoint(self.file, "round")
            rows, same = arrays["rows"], arrays["w"].tobytes() == w.tobytes()
        except (InputError, KeyError):
            return []  # a few minutes of work, which are repeated
        return [rows] if same and values.get("digest") == self.digest and len(rows) <= count else []


class Run(ABC):
    """One run: a search for first weights, then steps.

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
    starts: tuple[str, ...] = ("first",)  # names of the runs that search for first weights

    def __init__(self, layout: Layout, setting: Settings, file: str | Path | None) -> None:
        self.layout, self.setting, self.file = layout, setting, file
        self.steps: list[Step] = []
        self.w = np.zeros(layout.size)
        self.best, self.best_w = math.inf, self.w
        # Of the search for first weights: seconds of cuts and of moves, and oracle calls.
        self.spent = (0.0, 0.0, 0)
        self.digest = ""
        self.round = Round(None, "")

    def resume(self, digest: Callable[[], str]) -> None:
        """Resume from the checkpoint, if there is one."""
        if self.file is not None:
            self.digest = digest()
            if (found := last_checkpoint(self.file, self.kind)) is not None:
                self._restore(*found)
            self.round = Round(beside(self.file, "round"), self.digest)
            if self.steps:
                self._remove_starts()

    @abstractmethod
    def begin(self, executor: Executor, callback: Callback | None) -> None:
        """Search for good first weights; steps of the search have the number 0."""

    @abstractmethod
    def step(self, executor: Executor) -> Step:
        """Evaluate all images at w, and move to the next w."""

    @property
    @abstractmethod
    def relative_gap(self) -> float:
        """The gap relative to the objective, or the relative decrease by the last steps."""

    @abstractmethod
    def advice(self) -> str:
        """Return how far a run got that stopped too early, and what to do."""

    @property
    def lower_bound(self) -> float:
        """No weights have a lower objective."""
        return 0.0

    @property
    def gap(self) -> float:
        """By how much the best weights may be worse than others."""
        return max(self.best - self.lower_bound, 0.0)

    def done(self) -> bool:
        """Return whether the tolerance is reached or the steps are used up."""
        return bool(self.steps) and (
            len(self.steps) >= self.setting.max_steps or self.relative_gap <= self.setting.tol
        )

    def run(
        self, executor: Executor, callback: Callback | None = None, start: bool = False
    ) -> None:
        """Make steps until the run is done; `start`: in the search for another run's start."""
        while not self.done():
            step = self.step(executor)
            self.steps.append(step)
            if self.file is not None:
                self.save()
            if callback is not None:
                callback(replace(step, number=0) if start else step)

    def cost(self) -> tuple[float, float, int]:
        """Return seconds of cuts and of moves, and the number of oracle calls."""
        return _added([(s.oracle_seconds, s.master_seconds, s.calls) for s in self.steps])

    def record_step(
        self, objective: float, seconds: Sequence[float], calls: int, planes: int
    ) -> Step:
        """Return the record of the step; the first one includes the search for its start."""
        spent = _added([(seconds[0], seconds[1], calls)] + ([] if self.steps else [self.spent]))
        return Step(
            number=len(self.steps) + 1,
            objective=objective,
            best=self.best,
            lower_bound=self.lower_bound,
            gap=self.gap,
            relative_gap=self.relative_gap,
            tol=self.setting.tol,
            oracle_seconds=spent[0],
            master_seconds=spent[1],
            calls=spent[2],
            planes=planes,
        )

    def result(self) -> TrainResult:
        """Return the learned weights; warn if the run did not converge."""
        converged = bool(self.steps) and self.relative_gap <= self.setting.tol
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
            relative_gap=self.relative_gap,
            steps=tuple(self.steps),
            certified=self.certified,
            converged=converged,
            layout=self.layout,
            C=self.setting.C,
        )

    @abstractmethod
    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the values and arrays of a checkpoint, besides weights and steps."""

    @abstractmethod
    def restore_state(self, values: dict[str, Any], arrays: Arrays) -> None:
        """Restore the values and arrays of `state`; weights and steps are in place."""

    def save(self) -> None:
        """Write the state to the checkpoint."""
        assert self.file is not None
        values, arrays = self.state()
        arrays |= {"w": self.w, "best_w": self.best_w, "steps": steps_to_rows(self.steps)}
        rotate_checkpoint(self.file, self.kind, {"digest": self.digest} | values, arrays)
        # Only now the files of the way to this step are useless.
        self.round.remove()
        if len(self.steps) == 1:
            self._remove_starts()

    def start_file(self, name: str) -> Path | None:
        """Return the checkpoint of a run that searches for first weights."""
        return None if self.file is None else beside(self.file, name)

    def _remove_starts(self) -> None:
        """Remove the checkpoints of the search for first weights."""
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
            self.restore_state(values, arrays)


def _added(rows: Sequence[tuple[float, float, int]]) -> tuple[float, float, int]:
    oracle, moves, calls = zip(*rows)
    return sum(oracle), sum(moves), sum(calls)
