"""The state of a likelihood run: what a step changes and a checkpoint holds.

Minimises f(w) = lambda/2 |w|^2 - L(w) >= 0, lambda = 1/C, over the weights that keep the cut exact.
f is not convex: a few starts race (logistic regression, with edges of several strengths), the best
w is kept, the run stops when f makes no more progress, and nothing is certified. One step asks
every image once.
"""

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cutlearn.energy.model import Layout
from cutlearn.energy.surrogate import SurrogateLayout
from cutlearn.errors import ConvergenceWarning
from cutlearn.learn.descent import Coordinates, Descent, FixedStep, Mover
from cutlearn.learn.learners import LikelihoodLearner, learner_of
from cutlearn.learn.likelihood import Evidence, Field, Maximised, mean_likelihood
from cutlearn.learn.steps import (
    OTHER,
    Settings,
    Step,
    TrainResult,
    digest_of_all,
    rows_to_steps,
    steps_to_rows,
)
from cutlearn.run.checkpoint import load_checkpoint, refuse_other, restoring, save_checkpoint
from cutlearn.run.workers import Workers

Vector = NDArray[np.float64]
AnyLayout = Layout | SurrogateLayout
Tell = Callable[[Step], None]

# A run stops when so many steps together lower f by less than its share `tol`, or, with a fixed
# step, would move w by less.
WINDOW = 30
# Logistic regression, from which all others start, is smooth and convex: it is cheap to do well.
START_TOL, START_STEPS = 1e-4, 300
# Starts that race, each for so many steps: edges of this mean strength beside the weights of
# logistic regression. The more the edges join, the more unaries a min-marginal sums, so all is
# scaled down. Images are alike: some of them tell which start is best.
STRENGTHS, MOST_RACING = (0.0, 0.3, 1.0, 3.0), 8
# Rounds of the race: up to so many steps for so many of the best. Strong edges begin badly and
# overtake late.
ROUNDS = ((20, 4), (60, 2))
KIND = "likelihood"


class Ascent:
    """One run.

    Parameters
    ----------
    field : BinaryField or SurrogateField
    seen : sequence of Evidence
    setting : Settings
    file : path, optional
        The checkpoint; when it exists, the run goes on from it.
    """

    def __init__(
        self, field: Field, seen: Sequence[Evidence], setting: Settings, file: str | Path | None
    ) -> None:
        self.seen, self.setting, self.file = seen, setting, file
        self.layout = field.layout
        self.model: Maximised = field
        self.mover: Mover
        assert isinstance(setting.learner, LikelihoodLearner)
        self.learner = setting.learner
        self.model = self.learner.field()(field)
        self.fixed = self.learner.step is not None
        if self.learner.step is not None:
            self.mover = FixedStep(self.layout, self.learner.step)
        else:
            self.mover = Descent(Coordinates(self.layout, _second_moment(seen)))
        self.field = field
        self.steps: list[Step] = []
        self.w = np.zeros(self.layout.size)
        self.best, self.best_w, self.last_w = math.inf, self.w, self.w
        self.rest = math.inf
        self.spent = np.zeros(3)  # see _spent, before the first step
        self.digest = ""
        if file is not None:
            plain = f"{setting.learner.name} {setting.C!r} {self.layout!r}"
            self.digest = digest_of_all(plain, seen)
            if Path(file).exists():
                self._restore()

    def begin(self, threads: int, tell: Tell | None = None) -> None:
        """Start from logistic regression, and from where it wins the race."""
        if self.learner.starts == "zero":
            return
        first = self._other("logistic", self.seen, START_TOL, START_STEPS, "first")
        first._go(threads, tell)
        self.w, self.spent = first.best_w, first._spent()
        self.best, self.best_w = first.best, first.best_w
        if self.learner.starts == "race":
            self.w = self._race(first.best_w, threads, tell)
        first._forget()

    def _race(self, w: Vector, threads: int, tell: Tell | None) -> Vector:
        """Give the weights of the start that gets furthest on some of the images."""
        part = self.seen[:: -(-len(self.seen) // MOST_RACING)]
        racers = []
        for k, start in enumerate(_starts(self.layout, self.seen, w)):
            racers.append(self._other(self.learner.name, part, self.setting.tol, 0, f"start{k}"))
            if not racers[-1].steps:
                racers[-1].w = start
        leading = racers
        for most, places in ROUNDS:
            leading = sorted(leading, key=lambda run: run.best)[:places]
            for racer in leading:
                racer.setting = replace(racer.setting, max_steps=most)
                racer._go(threads, tell)
        self.spent += sum(racer._spent() for racer in racers)
        for racer in racers:
            racer._forget()
        return min(racers, key=lambda run: run.best).best_w

    def _other(
        self, learner: str, seen: Sequence[Evidence], tol: float, most: int, name: str
    ) -> "Ascent":
        """A run on the way to the first weights, with a checkpoint beside that of this one."""
        file = None
        if self.file is not None:
            file = Path(self.file)
            file = file.with_name(f"{file.stem}-{name}{file.suffix}")
        setting = Settings(learner_of(learner), self.setting.C, tol, 1, most)
        return Ascent(self.field, seen, setting, file)

    def _forget(self) -> None:
        if self.file is not None:
            Path(self.file).unlink(missing_ok=True)

    def _go(self, threads: int, tell: Tell | None) -> None:
        while not self.done():
            step = self.step(threads)
            if self.file is not None:
                self.save()
            if tell is not None:
                tell(replace(step, number=0))

    def _spent(self) -> Vector:
        """Seconds of asking and of moving, and the number of images asked."""
        rows = [[s.oracle_seconds, s.master_seconds, s.calls] for s in self.steps]
        return np.asarray(np.sum(rows, axis=0))

    def done(self) -> bool:
        """Whether the run came to rest or the steps are used up."""
        return self.rest <= self.setting.tol or len(self.steps) >= self.setting.max_steps

    def step(self, threads: int) -> Step:
        """Ask every image at w, and move on."""
        begin = time.perf_counter()
        with Workers(threads) as workers:
            value, gradient = mean_likelihood(self.model, self.seen, self.w, workers)
        asked = time.perf_counter()
        lam = 1.0 / self.setting.C
        objective = 0.5 * lam * float(self.w @ self.w) - value
        if objective < self.best:
            self.best, self.best_w = objective, self.w
        self.last_w = self.w
        self.w = self.mover.next(self.w, objective, lam * self.w - gradient, self.best)
        self.rest = self._rest(objective)
        before = np.zeros(3) if self.steps else self.spent
        step = Step(
            len(self.steps) + 1, objective, self.best, 0.0, self.best, self.rest,
            self.setting.tol, float(before[0]) + asked - begin,
            float(before[1]) + time.perf_counter() - asked, int(before[2]) + len(self.seen), 0,
        )  # fmt: skip
        self.steps.append(step)
        return step

    def _rest(self, objective: float) -> float:
        """What the last steps won, as a share of f; with a fixed step, how much they moved."""
        if self.fixed:
            size = float(np.linalg.norm(self.w)) or 1.0
            return WINDOW * float(np.linalg.norm(self.w - self.last_w)) / size
        if len(self.steps) < WINDOW:
            return math.inf if self.best > 0 else 0.0
        # Not of `best`: a start that wins the race may need long to get below logistic regression.
        values = [step.objective for step in self.steps] + [objective]
        before, now = min(values[:-WINDOW]), min(values)
        return (before - now) / now if now > 0 else 0.0

    def result(self) -> TrainResult:
        """Give what was learned; warns when the run was still making progress."""
        converged = self.rest <= self.setting.tol
        if not converged:
            warnings.warn(
                f"training stopped after {len(self.steps)} steps, the last {WINDOW} of which won "
                f"{self.rest:.2%} of the objective; less than {self.setting.tol:.2%} was wanted. "
                "Raise max_steps.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return TrainResult(
            self.best_w, self.best, 0.0, self.best, self.rest, tuple(self.steps), False, converged,
            self.layout, self.setting.C, self.last_w,
        )  # fmt: skip

    def save(self) -> None:
        """Write the state to the checkpoint."""
        assert self.file is not None
        arrays = {
            "w": self.w, "best_w": self.best_w, "last_w": self.last_w,
            "steps": steps_to_rows(self.steps), **self.mover.state(),
        }  # fmt: skip
        save_checkpoint(self.file, KIND, {"digest": self.digest}, arrays)

    def _restore(self) -> None:
        assert self.file is not None
        values, arrays = load_checkpoint(self.file, KIND)
        refuse_other(self.file, values.get("digest"), self.digest, OTHER)
        with restoring(self.file):
            self.mover.restore(arrays)
            self.w, self.best_w, self.last_w = arrays["w"], arrays["best_w"], arrays["last_w"]
            self.steps = rows_to_steps(arrays["steps"])
            self.best, self.rest = self.steps[-1].best, self.steps[-1].relative_gap


def _starts(layout: AnyLayout, seen: Sequence[Evidence], w: Vector) -> list[Vector]:
    """Give the weights of logistic regression beside edges of each strength t, over 1 + 2 t."""
    one = layout.one if isinstance(layout, SurrogateLayout) else layout
    features = [one.problem.edge_features for one in seen]
    sums = [g.sum(dtype=np.float64) / len(g) for g in features if g is not None and g.size]
    if not sums or max(sums) == 0:
        return [w]
    rows = []
    for strength in STRENGTHS:
        rows.append(w.reshape(-1, one.size).copy())
        rows[-1][:, one.edge] = strength / float(np.mean(sums))
        rows[-1] /= 1.0 + 2.0 * strength
    return [row.ravel() for row in rows]


def _second_moment(seen: Sequence[Evidence]) -> NDArray[np.float64]:
    """The mean of f f' over the labelled nodes of each image, then over images."""
    parts = []
    for one in seen:
        features = one.problem.node_features[one.known].astype(np.float64)
        parts.append(features.T @ features / len(features))
    return np.asarray(np.mean(parts, axis=0))
