"""Max-margin training: oracles make planes at w, and a master makes the next w and a lower bound.

Planes, steps, stopping and resuming are the same for every master. Without a regulariser the
optimum is a set. Once the gap is reached, the run searches for the shortest weights that keep it:
the limit of C to infinity.
"""

import math
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import Matrix, Vector
from cutlearn.learn.bundle import Master
from cutlearn.learn.learners import MarginLearner
from cutlearn.learn.pool import Pool
from cutlearn.learn.run import Callback, Run, Settings, Step
from cutlearn.run.executor import Executor
from cutlearn.store import Arrays

# Objectives below this share of the largest possible loss need no finer gap.
FLOOR = 1e-3
# Master and known planes must agree to this share of the tolerance before the next cuts.
AGREEMENT = 0.25
MAX_AGREEING = 100
# From so many images on, training begins on a quarter of them.
MANY = 8
# Training on a quarter of the images ends at this gap: early rounds only have to move w, and
# images are alike.
ROUGH = 0.1
# The search for short weights: the share of the allowed gap that the model may use, and its steps.
HALFWAY, MAX_SHORTENING = 0.5, 20
# Weights are trusted while rounding changes the objective by less than this share.
TRUSTED = 1e-6
# A step that leaves more than this share of the gap counts as stalled.
STALLED = 0.99


class MarginRun(Run):
    """One run of max-margin training.

    Parameters
    ----------
    pool : Pool
    setting : Settings
    rows, rhs : (r, d) and (r,) float64
        Constraints rows @ w >= rhs.
    file : path, optional
        The checkpoint; the run resumes from an existing one.
    """

    kind = "train"

    def __init__(
        self, pool: Pool, setting: Settings, rows: Matrix, rhs: Vector, file: str | Path | None
    ) -> None:
        super().__init__(pool.layout, setting, file)
        self.pool = pool
        self.certified = pool.model.labels.exact
        assert isinstance(setting.learner, MarginLearner)
        self.master: Master = setting.learner.master()(
            pool.n_weights, setting.groups, 1.0 / setting.C, rows, rhs
        )
        # Images go to groups in order, in runs of nearly equal length.
        self.bounds = [g * len(pool) // setting.groups for g in range(setting.groups + 1)]
        self.rounds: list[NDArray[np.int32]] = []
        self._known: set[tuple[int, bytes]] = set()
        self.largest = pool.largest
        # With a group for each image and no planes from before, the master knows all planes.
        self.complete = setting.groups == len(pool) and not any(map(len, pool.planes))
        self.w = self.layout.inside(self.master.start(self.largest))
        self.master.rounding = pool.rounding
        self.begun = False
        # The search for short weights: whether it is over, its steps, its regulariser and limit.
        self.short, self.shortening = not math.isinf(setting.C), 0
        self.ridge = self.limit = math.inf
        self.no_new_plane = False  # whether all planes of the last step were known
        self.exhausted = False  # whether rounding hides any further progress
        self.resume(
            lambda: (
                f"{pool.digest()} {setting.learner.name} {setting.C!r} {setting.groups} "
                f"{rows.tolist()} {rhs.tolist()}"
            )
        )

    def begin(self, executor: Executor, callback: Callback | None) -> None:
        """Train roughly on a quarter of many images, so that the first step is at good weights."""
        if len(self.pool) < MANY or any(map(len, self.pool.planes)):
            return
        part = self.pool.subset(range(0, len(self.pool), 4))
        setting = replace(
            self.setting,
            tol=max(self.setting.tol, ROUGH),
            groups=min(self.setting.groups, len(part)),
        )
        first = MarginRun(
            part, setting, self.master.rows, self.master.rhs, self.start_file("first")
        )
        first.short = True
        first.run(executor, callback, start=True)
        self.w, self.begun, self.complete = first.best_w, True, False
        self.spent = first.cost()

    def done(self) -> bool:
        """Return whether the gap is reached, the steps are used up, or no progress is left."""
        if len(self.steps) >= self.setting.max_steps:
            return True
        ended = self.exhausted or self.shortening > 0
        return bool(self.steps) and self.short and (ended or self._reached())

    @property
    def lower_bound(self) -> float:
        """The minimum of the model over all planes ever seen."""
        return self.master.lower_bound

    @property
    def gap(self) -> float:
        """The certified gap: the rounding of the objective is part of it."""
        if self.best == math.inf:
            return math.inf
        return max(self.best + self._rounding(self.best_w) - self.lower_bound, 0.0)

    def _rounding(self, w: Vector) -> float:
        """Return the largest error of the objective as it is computed at w."""
        return float(self.pool.rounding[0] + self.pool.rounding[1:] @ np.abs(w))

    @property
    def relative_gap(self) -> float:
        """The certified gap over max(objective, a floor), 0 for an objective of 0."""
        return self.gap / self._size if self._size else 0.0

    @property
    def _size(self) -> float:
        return max(self.best, FLOOR * self.largest)

    def _reached(self) -> bool:
        """Return whether the gap is reached.

        Without a regulariser the rounding at large weights does not count: the search for short
        weights will lower it.
        """
        gap = self.gap if self.short else self.best - self.lower_bound
        return self.best == 0 or gap <= self.setting.tol * self._size

    def advice(self) -> str:
        """Return which gap was reached, and what to do."""
        advice = "Raise max_steps, or lower C."
        rounding = self._rounding(self.best_w) / (self._size or 1.0)
        if rounding > max(self.setting.tol, TRUSTED):
            advice = (
                f"Weights up to {np.abs(self.best_w).max():.2g} are too large to be trusted: "
                f"rounding may change the objective by {100 * rounding:.2g}%. Scale the features, "
                "or lower C."
            )
        elif len(self.steps) < self.setting.max_steps:
            advice = "What could still improve is lost in rounding; raise tol to this gap."
        return (
            f"at a gap of {100 * self.relative_gap:.2g}%, but tol asks for "
            f"{100 * self.setting.tol:.2g}%. {advice}"
        )

    def _next(self, level: float, share: float = 1.0, no_new_plane: bool = False) -> bool:
        """Take the master's next w, if any, given the best objective or an estimate of it."""
        target_gap = share * self.setting.tol * max(level, FLOOR * self.largest)
        w = self.master.solve(level, target_gap, no_new_plane)
        if w is None:
            return False
        self.w = self.layout.inside(w)
        return True

    def step(self, executor: Executor) -> Step:
        """Cut all images at w, add their planes to the master, and take its next w."""
        begin = time.perf_counter()
        if not (self.complete or self.shortening or (self.begun and not self.steps)):
            self._use_known_planes()
        between = time.perf_counter()
        w = self._point()
        rows = self.round.rows(
            w,
            len(self.pool),
            lambda images: self.pool.highest(images, w, executor),
            executor.remote,
        )
        index = self.pool.add(rows)
        objective = self._objective(rows, w)
        if self.shortening:
            self._accept_shorter(objective, w)
        elif objective < self.best:
            self.best, self.best_w = objective, w
        cut = time.perf_counter()
        self.no_new_plane = not self._add_planes(index, rows)
        if not self.shortening and not self._reached():
            # No new plane at weights that do not change: the run would repeat itself.
            moved = self._next(self.best, no_new_plane=self.no_new_plane)
            same = self.no_new_plane and np.array_equal(self.w, w)
            self.exhausted = (not moved or same) and not self._reached()
        if not self.short and (self.exhausted or self._reached()):
            self._shorten()
        end = time.perf_counter()
        seconds = cut - between, end - cut + between - begin
        return self.record_step(objective, seconds, len(rows), len(self.master.b))

    def _point(self) -> Vector:
        """Return the weights of the next cuts: the master's, or nearer to the best ones.

        The latter takes fewer rounds while steps make progress.
        """
        if not self.steps:
            return self.w
        stalled = len(self.steps) > 1 and self.steps[-1].gap > STALLED * self.steps[-2].gap
        if stalled or self.no_new_plane or self.shortening:
            return self.w
        return self.layout.inside(self.master.point(self.w, self.best_w))

    def _shorten(self) -> None:
        """Take nearly the shortest weights that can keep the gap as the next ones, or end."""
        if not self.shortening:
            base = self.lower_bound if self._reached() else self.best
            self.limit = base + self.setting.tol * self._size
        self.shortening += 1
        found = None
        if self.shortening <= MAX_SHORTENING and self.best_w.any():
            level = self.best + HALFWAY * (self.limit - self.best)
            found = self.master.shorter(level, self.ridge)
        if found is None:
            self.short = True
        else:
            self.w, self.ridge = self.layout.inside(found[0]), found[1]

    def _accept_shorter(self, objective: float, w: Vector) -> None:
        """Take weights if they are shorter and keep the gap; this ends the search."""
        shorter = float(w @ w) < float(self.best_w @ self.best_w)
        if shorter and objective + self._rounding(w) <= self.limit:
            self.best, self.best_w, self.short = objective, w, True

    def _use_known_planes(self) -> None:
        """Move until the master and the known planes agree, without a cut."""
        level = self.best
        for _ in range(MAX_AGREEING):
            index = self.pool.best(self.w)
            rows = self.pool.rows(index)
            known = self._objective(rows, self.w)
            target_gap = AGREEMENT * self.setting.tol * max(known, FLOOR * self.largest)
            if self.master.planes_agree(known, self.best, target_gap):
                return
            if not self._add_planes(index, rows):
                return
            # Before the first step the best known value stands in for the best objective.
            level = level if self.steps else min(level, known)
            if not self._next(level, 0.0 if self.steps else AGREEMENT):
                return

    def _objective(self, rows: Matrix, w: Vector) -> float:
        heights = rows[:, 0] + rows[:, 1:] @ w
        risk = float(np.maximum(heights, 0.0).sum()) / len(rows)
        return 0.5 * self.master.lam * float(w @ w) + risk

    def _add_planes(self, index: NDArray[np.int32], rows: Matrix) -> bool:
        """Add every group's plane that is new to the master; return whether there was one."""
        raw, size = index.tobytes(), index.itemsize
        keys = [(g, raw[size * i : size * j]) for g, (i, j) in enumerate(pairwise(self.bounds))]
        new = np.array([key not in self._known for key in keys])
        self._known.update(keys)
        self.rounds.append(index)
        sums = np.add.reduceat(rows, self.bounds[:-1], axis=0) / len(rows)
        new &= sums.any(axis=1)
        self.master.add(sums[:, 0], sums[:, 1:], new)
        return bool(new.any())

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return planes, rounds, the search for short weights and the master's state."""
        arrays = {
            "planes": np.concatenate([known.rows for known in self.pool.planes]),
            "counts": np.array([len(known) for known in self.pool.planes], np.int64),
            "rounds": np.array(self.rounds, np.int32).reshape(-1, len(self.pool)),
            "search": np.array([self.ridge, self.limit]),
            **self.master.state(),
        }
        values = {
            "complete": self.complete,
            "no_new_plane": self.no_new_plane,
            "exhausted": self.exhausted,
            "short": self.short,
            "shortening": self.shortening,
        }
        return values, arrays

    def restore_state(self, values: dict[str, Any], arrays: Arrays) -> None:
        """Restore the values and arrays of `state`."""
        ends = np.cumsum(arrays["counts"])
        for known, rows in zip(self.pool.planes, np.split(arrays["planes"], ends[:-1])):
            known.restore(rows)
        for index in arrays["rounds"]:
            self._add_planes(index, self.pool.rows(index))
        self.master.restore(arrays)
        self.complete, self.no_new_plane = bool(values["complete"]), bool(values["no_new_plane"])
        self.exhausted = bool(values["exhausted"])
        self.short, self.shortening = bool(values["short"]), int(values["shortening"])
        self.ridge, self.limit = arrays["search"].tolist()
