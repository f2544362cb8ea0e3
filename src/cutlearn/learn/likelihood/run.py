"""A likelihood run: what a step changes and a checkpoint holds.

Minimises f(w) = lambda/2 |w|^2 - L(w) >= 0, lambda = 1/C, over the weights that keep the cut exact.
f is not convex: a few starts race (logistic regression, with edges of several strengths), the best
w is kept, the run stops when f makes no more progress, and nothing is certified. One step asks
every image once.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import Vector
from cutlearn.energy.model import Layout
from cutlearn.learn.learners import LikelihoodLearner, learner_of
from cutlearn.learn.likelihood.baselines import each_alone, every, logistic, thinning
from cutlearn.learn.likelihood.quasi_newton import FixedStep, Move, QuasiNewton
from cutlearn.learn.likelihood.value import mean_of, valued
from cutlearn.learn.oracle import Task
from cutlearn.learn.results import Settings, Step, digest_of_all
from cutlearn.learn.round import portion_of
from cutlearn.learn.run import Run, Tell
from cutlearn.loaded import mapped, taken
from cutlearn.run.executor import ONE_THREAD, Executor, Residents, name_of
from cutlearn.store import Arrays

# Logistic regression, from which all others start, is smooth and convex: it is cheap to do well.
START_TOL, START_STEPS = 1e-4, 300


@dataclass(frozen=True)
class Pace:
    """How much work goes into a run.

    Parameters
    ----------
    window : int
        A run stops when so many steps together lower f by less than its share `tol`, or, with a
        fixed step, would move w by less.
    strengths : tuple of float
        Starts that race: edges of this mean strength beside the weights of logistic regression. The
        more the edges join, the more unaries a min-marginal sums, so all is scaled down.
    racing : int
        Images of the race. Images are alike: some of them tell which start is best.
    rounds : tuple of (steps, places)
        Of the race: up to so many steps for so many of the best. Strong edges begin badly and
        overtake late.
    """

    window: int
    strengths: tuple[float, ...]
    racing: int
    rounds: tuple[tuple[int, int], ...]


TWO = Pace(30, (0.0, 0.3, 1.0, 3.0), 8, ((20, 4), (60, 2)))
# A step of labels with a field each costs two cuts of every field, so there are fewer.
SEVERAL = Pace(10, (0.0, 0.3, 1.0), 3, ((10, 3),))


class LikelihoodRun(Run):
    """One run.

    Parameters
    ----------
    tasks : sequence of Task
    setting : Settings
    file : path, optional
        The checkpoint; when it exists, the run goes on from it.
    place : int or Cluster
    away : Residents, optional
        Problems and labels of the tasks, where they stay on a cluster.
    """

    kind = "likelihood"

    def __init__(
        self,
        tasks: Sequence[Task],
        setting: Settings,
        file: str | Path | None,
        place: Executor = ONE_THREAD,
        away: Residents | None = None,
    ) -> None:
        super().__init__(tasks[0].layout, setting, file)
        assert isinstance(setting.learner, LikelihoodLearner)
        self.learner = setting.learner
        self.value = self.learner.value()
        several, smooth = not tasks[0].model.labels.exact, self.value is logistic
        self.pace = SEVERAL if several and not smooth else TWO
        self.starts = ("first", *(f"start{k}" for k in range(len(self.pace.strengths))))
        thin = thinning(tasks) if several and smooth else 1
        self.tasks = mapped(lambda task: every(task, thin), tasks)
        self._given, self.place, self.away = tasks, place, away
        self.data = place.residents(self.tasks) if away is None else away
        model = tasks[0].model
        self._valued = partial(valued, self.value, name_of((model, thin)), model, thin)
        self.move: Move
        if self.learner.step is not None:
            self.move = FixedStep(self.layout, self.learner.step)
        else:
            block = self.layout.coordinates(tasks[0].problem, _second_moment(self.tasks))
            self.move = QuasiNewton(self.layout, block)
        self._last_w, self._rest = self.w, math.inf
        plain = f"{setting.learner.name} {setting.C!r} {self.layout!r}"
        self.resume(lambda: digest_of_all(plain, self.tasks))

    def begin(self, place: Executor, tell: Tell | None) -> None:
        """Start from logistic regression, and from where it wins the race."""
        if self.learner.starts == "zero":
            return
        first = self._other("logistic", range(len(self.tasks)), START_TOL, START_STEPS, "first")
        first.go(place, tell, sought=True)
        self.w, self.spent = first.best_w, first.cost()
        self.best, self.best_w = first.best, first.best_w
        if self.learner.starts == "race":
            self.w = self._race(first.best_w, place, tell)

    def _race(self, w: Vector, place: Executor, tell: Tell | None) -> Vector:
        """Give the weights of the start that gets furthest on some of the images."""
        if not self.tasks[0].model.labels.has_energy:
            w = each_alone(self.tasks, w)
        part = range(0, len(self.tasks), -(-len(self.tasks) // self.pace.racing))
        racers = []
        starts = _starts(self.layout, self.tasks, w, self.pace.strengths)
        for k, start in enumerate(starts):
            racers.append(self._other(self.learner.name, part, self.setting.tol, 0, f"start{k}"))
            if not racers[-1].steps:
                racers[-1].w = start
        leading = racers
        for most, places in self.pace.rounds:
            leading = sorted(leading, key=lambda run: run.best)[:places]
            for racer in leading:
                racer.setting = replace(racer.setting, max_steps=most)
                racer.go(place, tell, sought=True)
        costs = [self.spent, *(racer.cost() for racer in racers)]
        self.spent = tuple(map(sum, zip(*costs)))  # type: ignore[assignment]
        best = min(range(len(racers)), key=lambda k: racers[k].best)
        # A few images teach many weights by heart: then the start itself is better for all images.
        return min(racers[best].best_w, starts[best], key=self._objective)

    def _objective(self, w: Vector) -> float:
        """Give f of all images."""
        return self._summed(w, self._rows(w, range(len(self.tasks))))[0]

    def _other(
        self, learner: str, places: Sequence[int], tol: float, most: int, name: str
    ) -> "LikelihoodRun":
        """A run on the way to the first weights, with a checkpoint beside that of this one."""
        setting = Settings(learner_of(learner), self.setting.C, tol, 1, most)
        tasks = taken(self._given, places)
        away = None if self.away is None else self.away.take(places)
        return LikelihoodRun(tasks, setting, self.start_file(name), self.place, away)

    def done(self) -> bool:
        """Whether the run came to rest or the steps are used up."""
        return self._rest <= self.setting.tol or len(self.steps) >= self.setting.max_steps

    def step(self, place: Executor) -> Step:
        """Ask every image at w, and move on."""
        begin = time.perf_counter()
        ask = partial(self._rows, self.w)
        rows = self.round.ask(self.w, len(self.tasks), ask, portion_of(self.place))
        objective, gradient = self._summed(self.w, rows)
        asked = time.perf_counter()
        if objective < self.best:
            self.best, self.best_w = objective, self.w
        self._last_w = self.w
        self.w = self.move.next(self.w, objective, gradient, self.best)
        self._rest = self._progress(objective)
        seconds = asked - begin, time.perf_counter() - asked
        return self.made_step(objective, seconds, len(self.tasks), 0)

    def _rows(self, w: Vector, places: Sequence[int]) -> NDArray[np.float64]:
        """L_n and its gradient of some images, a row each."""
        found = self.data.take(places).map(self._valued, w)
        return np.array([np.concatenate([[value], gradient]) for value, gradient in found])

    def _summed(self, w: Vector, rows: NDArray[np.float64]) -> tuple[float, Vector]:
        """Give f and its gradient from the rows of all images."""
        value, gradient = mean_of([(float(row[0]), row[1:]) for row in rows])
        lam = 1.0 / self.setting.C
        return 0.5 * lam * float(w @ w) - value, lam * w - gradient

    def rest(self) -> float:
        """What the last steps gained."""
        return self._rest

    def _progress(self, objective: float) -> float:
        """What the last steps gained, as a share of f; with a fixed step, how much they moved."""
        if self.learner.step is not None:
            size = float(np.linalg.norm(self.w)) or 1.0
            return self.pace.window * float(np.linalg.norm(self.w - self._last_w)) / size
        if len(self.steps) < self.pace.window:
            return math.inf if self.best > 0 else 0.0
        # Not of `best`: a start that wins the race may need long to get below logistic regression.
        values = [step.objective for step in self.steps] + [objective]
        before, now = min(values[: -self.pace.window]), min(values)
        return (before - now) / now if now > 0 else 0.0

    def advice(self) -> str:
        """Say what the last steps gained."""
        return (
            f"while it was still making progress: the last {self.pace.window} lowered the "
            f"objective by {self._rest:.2%}, and it goes on until they gain less than "
            f"{self.setting.tol:.2%}. "
            "Raise max_steps."
        )

    def last_w(self) -> Vector:
        """Give the weights of the last step."""
        return self._last_w

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Give the last weights and what the next move needs."""
        return {}, {"last_w": self._last_w, **self.move.state()}

    def take_state(self, values: dict[str, Any], arrays: Arrays) -> None:
        """Take them back."""
        self.move.restore(arrays)
        self._last_w, self._rest = arrays["last_w"], self.steps[-1].relative_gap


def _starts(
    layout: Layout, tasks: Sequence[Task], w: Vector, strengths: Sequence[float]
) -> list[Vector]:
    """Give the weights of logistic regression beside edges of each strength t, over 1 + 2 t."""
    features = (task.problem.edge_features for task in tasks)
    sums = [g.sum(dtype=np.float64) / len(g) for g in features if g is not None and g.size]
    smoothing = layout.smoothing(tasks[0].problem)
    if not sums or max(sums) == 0 or not smoothing.any():
        return [w]
    joined = smoothing != 0
    starts = []
    for strength in strengths:
        start = np.where(joined, strength / float(np.mean(sums)) * smoothing, w)
        starts.append(start / (1.0 + 2.0 * strength))
    return starts


def _second_moment(tasks: Sequence[Task]) -> NDArray[np.float64]:
    """The mean of f f' over the labelled nodes of each image, then over images."""
    parts = []
    for task in tasks:
        features = task.problem.node_features[task.known].astype(np.float64)
        parts.append(features.T @ features / len(features))
    return np.asarray(np.mean(parts, axis=0))
