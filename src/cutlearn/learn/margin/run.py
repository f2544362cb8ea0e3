"""A max-margin run: what a step changes and a checkpoint holds.

A step asks every image's oracle at w and gives the planes to the master, which gives the next w and
a lower bound. Whatever the master, planes, steps, stopping and resuming are the same.

Without a regulariser the optimum is a set, and a run may come to it anywhere. Once the gap is
reached, the run looks for the shortest weights that keep it: the limit of C to infinity.
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
from cutlearn.learn.learners import MarginLearner
from cutlearn.learn.margin.master import Master
from cutlearn.learn.pool import Pool
from cutlearn.learn.results import Settings, Step
from cutlearn.learn.round import portion_of
from cutlearn.learn.run import Run, Tell
from cutlearn.run.executor import Executor
from cutlearn.store import Arrays

# Objectives below this share of the largest possible loss need no finer gap.
FLOOR = 1e-3
# Known planes are used up until this share of the tolerance, before the oracle is asked again.
SETTLED = 0.25
MOST_SETTLING = 100
# From so many images on, training begins on a quarter of them.
MANY = 8
# Training that begins on a quarter of the images goes on there up to this gap: early rounds only
# have to move w, and images are alike.
ROUGH = 0.1
# Short weights are looked for where the model leaves this share of what the gap allows, in at most
# so many steps.
HALFWAY, MOST_SHORTENING = 0.5, 20
# Weights are trusted while rounding changes the objective by less than this share.
TRUSTED = 1e-6
# A step that leaves more than this share of the gap counts as stalled.
STALLED = 0.99


class MarginRun(Run):
    """One run.

    Parameters
    ----------
    pool : Pool
    setting : Settings
    rows, least : (r, d) and (r,) float64
        Constraints rows @ w >= least.
    file : path, optional
        The checkpoint; when it exists, the run goes on from it.
    """

    kind = "train"

    def __init__(
        self, pool: Pool, setting: Settings, rows: Matrix, least: Vector, file: str | Path | None
    ) -> None:
        super().__init__(pool.layout, setting, file)
        self.pool = pool
        self.certified = pool.model.labels.exact
        assert isinstance(setting.learner, MarginLearner)
        self.master: Master = setting.learner.master()(
            pool.n_weights, setting.groups, 1.0 / setting.C, rows, least
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
        self.confirmed = False  # whether the last planes were all known
        self.exhausted = False  # whether rounding leaves nothing more to ask or to prove
        self.resume(
            lambda: (
                f"{pool.digest()} {setting.learner.name} {setting.C!r} {setting.groups} "
                f"{rows.tolist()} {least.tolist()}"
            )
        )

    def begin(self, place: Executor, tell: Tell | None) -> None:
        """With many images and no planes, train roughly on a quarter of them, to ask the first
        time at good weights."""
        if len(self.pool) < MANY or any(map(len, self.pool.planes)):
            return
        part = self.pool.take(range(0, len(self.pool), 4))
        setting = replace(
            self.setting,
            tol=max(self.setting.tol, ROUGH),
            groups=min(self.setting.groups, len(part)),
        )
        first = MarginRun(
            part, setting, self.master.rows, self.master.least, self.start_file("first")
        )
        first.short = True
        first.go(place, tell, sought=True)
        self.w, self.begun, self.complete = first.best_w, True, False
        self.spent = first.cost()

    def done(self) -> bool:
        """Whether the gap is reached, the steps are used up, or nothing is left to ask."""
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

    def rest(self) -> float:
        """The certified gap over max(objective, a floor), 0 for an objective of 0."""
        return self.gap / self._size if self._size else 0.0

    @property
    def _size(self) -> float:
        return max(self.best, FLOOR * self.largest)

    def _reached(self) -> bool:
        """Whether the gap is reached, but for the rounding at large weights without a regulariser,
        which the search for short ones will lower."""
        gap = self.gap if self.short else self.best - self.lower_bound
        return self.best == 0 or gap <= self.setting.tol * self._size

    def advice(self) -> str:
        """Say which gap was reached."""
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
            f"at a gap of {100 * self.rest():.2g}%, but tol asks for "
            f"{100 * self.setting.tol:.2g}%. {advice}"
        )

    def _next(self, level: float, share: float = 1.0, confirmed: bool = False) -> bool:
        """Take the master's next w, given the best objective or a stand-in for it; whether there
        is one."""
        fine = share * self.setting.tol * max(level, FLOOR * self.largest)
        w = self.master.solve(level, fine, confirmed)
        if w is None:
            return False
        self.w = self.layout.inside(w)
        return True

    def step(self, place: Executor) -> Step:
        """Ask the oracles at w, give their planes to the master, take the next w."""
        begin = time.perf_counter()
        if not (self.complete or self.shortening or (self.begun and not self.steps)):
            self._settle()
        between = time.perf_counter()
        w = self._point()
        rows = self.round.ask(
            w, len(self.pool), lambda images: self.pool.highest(images, w, place), portion_of(place)
        )
        index = self.pool.add(rows)
        objective = self._objective(rows, w)
        if self.shortening:
            self._shortened(objective, w)
        elif objective < self.best:
            self.best, self.best_w = objective, w
        asked = time.perf_counter()
        self.confirmed = not self._give(index, rows)
        if not self.shortening and not self._reached():
            # Planes that were all known, and weights that were just asked: it would go on so.
            moved = self._next(self.best, confirmed=self.confirmed)
            same = self.confirmed and np.array_equal(self.w, w)
            self.exhausted = (not moved or same) and not self._reached()
        if not self.short and (self.exhausted or self._reached()):
            self._shorten()
        end = time.perf_counter()
        seconds = asked - between, end - asked + between - begin
        return self.made_step(objective, seconds, len(rows), len(self.master.b))

    def _point(self) -> Vector:
        """Where to ask: at the master's weights, or nearer to the best ones, which takes fewer
        rounds while there is something to learn."""
        if not self.steps:
            return self.w
        stalled = len(self.steps) > 1 and self.steps[-1].gap > STALLED * self.steps[-2].gap
        if stalled or self.confirmed or self.shortening:
            return self.w
        return self.layout.inside(self.master.point(self.w, self.best_w))

    def _shorten(self) -> None:
        """Take nearly the shortest weights that can keep the gap as the next ones, or end."""
        if not self.shortening:
            base = self.lower_bound if self._reached() else self.best
            self.limit = base + self.setting.tol * self._size
        self.shortening += 1
        found = None
        if self.shortening <= MOST_SHORTENING and self.best_w.any():
            level = self.best + HALFWAY * (self.limit - self.best)
            found = self.master.shorter(level, self.ridge)
        if found is None:
            self.short = True
        else:
            self.w, self.ridge = self.layout.inside(found[0]), found[1]

    def _shortened(self, objective: float, w: Vector) -> None:
        """Take weights of the search if they are shorter and keep the gap; then it is over."""
        shorter = float(w @ w) < float(self.best_w @ self.best_w)
        if shorter and objective + self._rounding(w) <= self.limit:
            self.best, self.best_w, self.short = objective, w, True

    def _settle(self) -> None:
        """Let master and known planes agree, without a cut, before the oracle is asked."""
        level = self.best
        for _ in range(MOST_SETTLING):
            index = self.pool.best(self.w)
            rows = self.pool.rows(index)
            known = self._objective(rows, self.w)
            fine = SETTLED * self.setting.tol * max(known, FLOOR * self.largest)
            if self.master.settled(known, self.best, fine):
                return
            if not self._give(index, rows):
                return
            # Before the first step the best known value stands in for the best objective.
            level = level if self.steps else min(level, known)
            if not self._next(level, 0.0 if self.steps else SETTLED):
                return

    def _objective(self, rows: Matrix, w: Vector) -> float:
        heights = rows[:, 0] + rows[:, 1:] @ w
        risk = float(np.maximum(heights, 0.0).sum()) / len(rows)
        return 0.5 * self.master.lam * float(w @ w) + risk

    def _give(self, index: NDArray[np.int32], rows: Matrix) -> bool:
        """Give the master every group's plane that it does not know; whether there was one."""
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
            "complete": self.complete, "confirmed": self.confirmed, "exhausted": self.exhausted,
            "short": self.short, "shortening": self.shortening,
        }  # fmt: skip
        return values, arrays

    def take_state(self, values: dict[str, Any], arrays: Arrays) -> None:
        """Take them back."""
        ends = np.cumsum(arrays["counts"])
        for known, rows in zip(self.pool.planes, np.split(arrays["planes"], ends[:-1])):
            known.restore(rows)
        for index in arrays["rounds"]:
            self._give(index, self.pool.rows(index))
        self.master.restore(arrays)
        self.complete, self.confirmed = bool(values["complete"]), bool(values["confirmed"])
        self.exhausted = bool(values["exhausted"])
        self.short, self.shortening = bool(values["short"]), int(values["shortening"])
        self.ridge, self.limit = arrays["search"].tolist()
