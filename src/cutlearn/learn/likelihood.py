"""Likelihood training: the likelihood of labels, its gradient, and quasi-Newton steps.

The likelihood is that of softmaxed min-marginals (tarlow2012):

    L(w) = mean_n 1/D_n sum_d log q_nd(y_nd),    q_d = softmax of -Phi_d(.; w)

over the D_n labelled nodes of image n: images weigh the same whatever their size. With argmin_dk
the labelling of least energy in which d has label k,

    D_n dL_n/dw = sum_dk c_dk psi(argmin_dk),    c_dk = q_d(k) - [y_nd = k],

which the core sums in one pass over the min-marginals. L is smooth where no argmin has a rival, and
not concave.

A run minimises f(w) = lambda/2 |w|^2 - L(w) >= 0, lambda = 1/C, over the weights that keep the cut
exact. A few starts race (logistic regression, with edges of several strengths), the best w is kept,
the run stops when f makes no more progress, and nothing is certified. One step evaluates every
image once.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from cutlearn.arrays import AnyArray, Matrix, Vector
from cutlearn.energy.compiled import Compiled, Valued, softened
from cutlearn.energy.model import Layout, Model, ModelLike, checked_weights
from cutlearn.energy.potentials import Coordinates
from cutlearn.energy.problem import Problem
from cutlearn.errors import InputError
from cutlearn.learn.learners import LikelihoodLearner, learner_of
from cutlearn.learn.oracle import TrainingImage, training_image
from cutlearn.learn.pool import bind_all, digest_of, model_of_all
from cutlearn.learn.run import Callback, Run, Settings, Step
from cutlearn.loaded import mapped, taken
from cutlearn.run.checkpoint import fingerprint
from cutlearn.run.executor import (
    ONE_THREAD,
    Executor,
    Jobs,
    Resident,
    Residents,
    executor_of,
    name_of,
)
from cutlearn.store import Arrays

# Nodes of logistic regression of several labels, and of `recentre_fields`.
MAX_ROWS, MAX_ROWS_OF_START = 100_000, 20_000
# Quasi-Newton steps: the optimum is guessed to be this share of the best value; pairs in memory.
TARGET, MEMORY = 0.95, 20
# Armijo's share of the expected decrease, and how often a step is shortened.
ENOUGH, MAX_SHORTER = 1e-4, 8
# Logistic regression, from which all starts are made, is smooth and convex: precision is cheap.
START_TOL, START_STEPS = 1e-4, 300

# The likelihood of one image and its gradient at w.
Value = Callable[[TrainingImage, Vector], Valued]


def likelihood(
    problems: Sequence[Problem],
    labels: Sequence[ArrayLike],
    w: ArrayLike,
    envelope: ModelLike = None,
    *,
    n_jobs: Jobs = None,
) -> Valued:
    """Return the average log-likelihood of labels and its gradient with respect to w.

    Parameters
    ----------
    problems, labels : sequences
        One label array (255 for void, which does not count) for each problem.
    w : array
        In the order of `train`.
    envelope : EnvelopeSpec, or one for each family of regions, optional
        Or a Model, which also says what the labels are: "binary", "ordered" or "surrogate".
    n_jobs : int, address or Client, optional
        Threads or a cluster over images; the result has the same bits for every number.

    Returns
    -------
    value : float
        Mean over images of the mean over their labelled nodes; 0 at best.
    gradient : array like w

    Examples
    --------
    >>> p = Problem([[1.0], [-3.0]], edges=[[0, 1]])
    >>> value, gradient = likelihood([p], [[0, 1]], [1.0, 0.0])
    >>> round(value, 4), gradient.round(4).tolist()
    (-0.1809, [0.2056, -0.1582])
    """
    tasks = likelihood_tasks(problems, labels, envelope)
    weights = checked_weights(w, tasks[0].layout.size)
    return mean_likelihood(tasks, weights, executor_of(n_jobs))


def likelihood_tasks(
    problems: Sequence[Problem], labels: Sequence[ArrayLike], given: ModelLike
) -> Sequence[TrainingImage]:
    """Check images and labels, and bind each image to its labels."""
    model = model_of_all(problems, labels, given)
    space = model.labels
    if not space.has_likelihood:
        raise InputError(
            f"labels: {space.name!r} labels have no likelihood to learn by, because expansion "
            "moves end in local optima. Choose labels='surrogate', which takes any labels, or a "
            "max-margin learner."
        )
    if model.has_regions and not space.takes_envelopes:
        raise InputError(
            f"envelope: {space.name} labels take no envelopes, because the fraction of a middle "
            "label has no exact cut. Leave out the envelope, or choose labels='surrogate'."
        )
    return bind_all(problems, labels, model)


def image_likelihood(task: TrainingImage, w: Vector) -> Valued:
    """Return L_n and its gradient of one image."""
    share = 1.0 / int(np.count_nonzero(task.known))
    total, gradient = task.compiled.log_likelihood(w, task.labels, task.known)
    return share * total, share * gradient


def mean_likelihood(tasks: Sequence[TrainingImage], w: Vector, executor: Executor) -> Valued:
    """Return the mean over images of L_n and of its gradient."""
    return _mean_of(executor.map(partial(_likelihood_at, w), tasks))


def _likelihood_at(w: Vector, task: TrainingImage) -> Valued:
    return image_likelihood(task, w)


def _valued(
    value: Value, name: str, model: Model, thin: int, resident: Resident, image: int, w: Vector
) -> Valued:
    """Return L_n of an image where it stays: a task, or a problem and its labels.

    The task of the latter is cached under `name`, a hash of the model and of the subsampling.
    """
    if isinstance(resident.value, TrainingImage):
        return value(resident.value, w)

    def make() -> TrainingImage:
        problem, labels = resident.value
        return subsample(training_image(problem, labels, model, image), thin)

    return value(resident.once(f"task {image} {name}", make), w)


def _mean_of(parts: Sequence[Valued]) -> Valued:
    """Return the mean over images of L_n and of its gradient, summed in the images' order."""
    total = sum(part[0] for part in parts) / len(parts)
    return total, np.sum([part[1] for part in parts], axis=0) / len(parts)


def logistic(task: TrainingImage, w: Vector) -> Valued:
    """Return L_n of the unaries alone, and its gradient: zero but for node weights."""
    layout, labels = task.layout, task.labels
    features = task.problem.node_features
    if not task.known.all():
        features, labels = features[task.known], labels[task.known]
    features = features.astype(np.float64)
    rows, gradient = layout.unaries(w), np.zeros(layout.size)
    # Two labels have one row, that of label 1.
    costs = np.zeros((len(labels), task.model.n_labels))
    costs[:, -len(rows) :] = features @ rows.T
    at = np.arange(len(labels))
    q, soft = softened(costs)
    q[at, labels] -= 1.0
    layout.unaries(gradient)[:] = (q[:, -len(rows) :].T @ features) / len(labels)
    return float((soft - costs[at, labels]).mean()), gradient


def subsampling_step(tasks: Sequence[TrainingImage], limit: int) -> int:
    """Return the least k such that every k-th labelled node leaves at most `limit` nodes.

    Without edges neighbouring pixels are nearly copies of each other.
    """
    return -(-sum(int(task.known.sum()) for task in tasks) // limit)


def subsample(task: TrainingImage, step: int) -> TrainingImage:
    """Return the task of every `step`-th labelled node, without edges."""
    if step == 1:
        return task
    problem, rows = task.problem, np.flatnonzero(task.known)[::step]
    alone = Problem(
        problem.node_features[rows],
        edge_features=np.zeros((0, problem.n_edge_features)),
        regions=[[] for _ in problem.regions],
    )
    compiled = Compiled(task.model, alone)
    return replace(task, compiled=compiled, labels=task.labels[rows], known=task.known[rows])


def recentre_fields(tasks: Sequence[TrainingImage], w: Vector) -> Vector:
    """Shift the weights of all fields, one per label, by one vector that calibrates each field.

    A softmax over labels is invariant to what is added to the cost of all of them, but a field is
    cut where its own cost is 0. So w_k + g takes the place of w_k, the same g for all labels, with
    the least

        sum_k mean_i log(1 + exp(s_ik (w_k + g) . f_i)),    s_ik = 1 where i has label k, else -1
    """
    step = subsampling_step(tasks, MAX_ROWS_OF_START)
    some = [subsample(task, step) for task in tasks]
    x = np.concatenate([one.problem.node_features[one.known] for one in some]).astype(np.float64)
    labels = np.concatenate([one.labels[one.known] for one in some])
    counts = [int(one.known.sum()) for one in some]
    share = np.concatenate([np.full(n, 1 / (n * len(some))) for n in counts])
    layout = tasks[0].layout
    costs = x @ layout.unaries(w).T
    signs = np.where(labels[:, None] == np.arange(costs.shape[1]), 1.0, -1.0)

    def wrong(g: Vector) -> tuple[Vector, Vector]:
        """Return z = s (w + g) . f, and the sigmoid of it, of every node and label."""
        z = signs * (costs + (x @ g)[:, None])
        return z, np.exp(-np.logaddexp(0, -z))

    def loss(g: Vector) -> tuple[float, Vector]:
        z, p = wrong(g)
        value = float(np.logaddexp(0, z).sum(axis=1) @ share)
        return value, x.T @ ((signs * p).sum(axis=1) * share)

    def bend(g: Vector) -> Vector:
        p = wrong(g)[1]
        return np.asarray(x.T @ (x * ((p * (1 - p)).sum(axis=1) * share)[:, None]))

    g = minimize(loss, np.zeros(x.shape[1]), jac=True, hess=bend, method="trust-exact").x
    out = w.copy()
    layout.unaries(out)[:] += g
    return out


class QuasiNewton:
    """Projected quasi-Newton steps, with Polyak steps over kinks.

    Coordinates z make the problem easy: w = A z, with node features decorrelated, and envelopes as
    curvatures, so that every constraint that keeps the cut exact reads z_i >= 0. Steps are those
    of limited-memory BFGS with Armijo's rule along the projected arc. f is not smooth: where the
    line search fails, the memory is dropped and one Polyak step with the target 0.95 f_best is
    taken, up or down (tarlow2012 section 7.1); scipy's L-BFGS-B ends there (decision 0010).

    Parameters
    ----------
    layout : Layout
    block : Coordinates
        Of one block of w.
    """

    def __init__(self, layout: Layout, block: Coordinates) -> None:
        self.layout, self.A, self.inverse = layout, block.A, np.linalg.inv(block.A)
        self.bounded = np.tile(block.bounded, layout.blocks)
        n = layout.size
        # The point from which the line search starts, its gradient, and the direction.
        self.base, self.slope, self.direction = np.zeros(n), np.zeros(n), np.zeros(n)
        self.value, self.length, self.shorter = np.inf, 1.0, 0
        # The memory: differences of z and of its gradient.
        self.moves, self.turns = np.zeros((0, n)), np.zeros((0, n))

    def _by_block(self, x: Vector, matrix: AnyArray) -> Vector:
        return np.asarray((x.reshape(self.layout.blocks, -1) @ matrix).ravel())

    def _project(self, z: Vector) -> Vector:
        """Return the nearest z that keeps the constraints."""
        return np.where(self.bounded, np.maximum(z, 0.0), z)

    def next(self, w: Vector, value: float, gradient: Vector, best: float) -> Vector:
        """Accept w as the new base, or shorten the step to it; return the next w."""
        z = self._project(self._by_block(w, self.inverse.T))
        slope = self._by_block(gradient, self.A)
        if value <= self.value + ENOUGH * min(float(self.slope @ (z - self.base)), 0.0):
            self._remember(z - self.base, slope - self.slope)
            self._start_search(z, value, slope, best)
        elif self.shorter < MAX_SHORTER:
            self._shorten(z, value)
        else:
            self._leave_kink(best)
        z = self._project(self.base + self.length * self.direction)
        return self.layout.inside(self._by_block(z, self.A.T))

    def _remember(self, move: Vector, turn: Vector) -> None:
        if not np.isfinite(self.value):
            return
        # Only curvature that is clearly upwards keeps the implied Hessian positive.
        if float(move @ turn) > 1e-8 * float(np.linalg.norm(move) * np.linalg.norm(turn)):
            self.moves = np.concatenate([self.moves, move[None]])[-MEMORY:]
            self.turns = np.concatenate([self.turns, turn[None]])[-MEMORY:]

    def _start_search(self, z: Vector, value: float, slope: Vector, best: float) -> None:
        self.base, self.value, self.slope = z, value, slope
        self.length, self.shorter = 1.0, 0
        free = ~(self.bounded & (z <= 0) & (slope > 0))
        g = np.where(free, slope, 0.0)
        if len(self.moves):
            self.direction = np.where(free, -self._newton(g), 0.0)
        if not len(self.moves) or float(self.direction @ g) >= 0:
            self.direction = -self._polyak(best) * g

    def _polyak(self, best: float) -> float:
        """Return the step length (f - 0.95 f_best) / |g|^2."""
        size = float(self.slope @ self.slope)
        return (self.value - TARGET * best) / size if size > 0 else 0.0

    def _newton(self, g: Vector) -> Vector:
        """Return the inverse Hessian of the memory, times g (two-loop recursion)."""
        pairs = list(zip(self.moves, self.turns))
        shares = []
        for move, turn in reversed(pairs):
            share = float(move @ g) / float(move @ turn)
            shares.append(share)
            g = g - share * turn
        move, turn = pairs[-1]
        g = g * (float(move @ turn) / float(turn @ turn))
        for (move, turn), share in zip(pairs, reversed(shares)):
            g = g + (share - float(turn @ g) / float(move @ turn)) * move
        return g

    def _shorten(self, z: Vector, value: float) -> None:
        """Shorten the step to the minimum of a parabola, within limits."""
        drop = float(self.slope @ (z - self.base))
        rise = 2.0 * (value - self.value - drop)
        share = -drop / rise if rise > 0 and drop < 0 else 0.5
        self.length *= min(max(share, 0.1), 0.5)
        self.shorter += 1

    def _leave_kink(self, best: float) -> None:
        """Take a Polyak step, whatever the value there."""
        self.direction, self.length = -self._polyak(best) * self.slope, 1.0
        self.value, self.shorter = np.inf, 0
        self.moves, self.turns = self.moves[:0], self.turns[:0]

    def state(self) -> Arrays:
        """Return the arrays of a checkpoint."""
        return {
            "base": self.base, "slope": self.slope, "direction": self.direction,
            "moves": self.moves, "turns": self.turns,
            "line": np.array([self.value, self.length, self.shorter]),
        }  # fmt: skip

    def restore(self, arrays: Arrays) -> None:
        """Restore the arrays of `state`."""
        self.base, self.slope = arrays["base"], arrays["slope"]
        self.direction = arrays["direction"]
        self.moves, self.turns = arrays["moves"], arrays["turns"]
        self.value, self.length = (float(x) for x in arrays["line"][:2])
        self.shorter = int(arrays["line"][2])


@dataclass(frozen=True)
class Pace:
    """The amount of work of a run.

    Parameters
    ----------
    window : int
        A run stops when so many steps together lower f by less than its share `tol`.
    strengths : tuple of float
        Starts that race: edges of this mean strength and the weights of logistic regression. The
        stronger the edges, the more unaries a min-marginal sums, so all weights are scaled down.
    racing : int
        Images of the race: a few of them show which start is best.
    rounds : tuple of (steps, places)
        Of the race: up to so many steps for so many of the best. Strong edges begin badly and
        overtake late.
    """

    window: int
    strengths: tuple[float, ...]
    racing: int
    rounds: tuple[tuple[int, int], ...]


TWO = Pace(30, (0.0, 0.3, 1.0, 3.0), 8, ((20, 4), (60, 2)))
# A step of labels with a field each costs two cuts of every field.
SEVERAL = Pace(10, (0.0, 0.3, 1.0), 3, ((10, 3),))


class LikelihoodRun(Run):
    """One run of likelihood training.

    Parameters
    ----------
    tasks : sequence of TrainingImage
    setting : Settings
    file : path, optional
        The checkpoint; the run resumes from an existing one.
    executor : Executor
    away : Residents, optional
        Problems and labels of the tasks on a cluster.
    """

    kind = "likelihood"

    def __init__(
        self,
        tasks: Sequence[TrainingImage],
        setting: Settings,
        file: str | Path | None,
        executor: Executor = ONE_THREAD,
        away: Residents | None = None,
    ) -> None:
        super().__init__(tasks[0].layout, setting, file)
        assert isinstance(setting.learner, LikelihoodLearner)
        self.learner = setting.learner
        self.value = self.learner.value()
        several, smooth = not tasks[0].model.labels.exact, self.value is logistic
        self.pace = SEVERAL if several and not smooth else TWO
        self.starts = ("first", *(f"start{k}" for k in range(len(self.pace.strengths))))
        thin = subsampling_step(tasks, MAX_ROWS) if several and smooth else 1
        self.tasks = mapped(lambda task: subsample(task, thin), tasks)
        self._given, self.executor, self.away = tasks, executor, away
        self.data = executor.residents(self.tasks) if away is None else away
        model = tasks[0].model
        self._valued = partial(_valued, self.value, name_of((model, thin)), model, thin)
        block = self.layout.coordinates(tasks[0].problem, _second_moment(self.tasks))
        self.move = QuasiNewton(self.layout, block)
        self._decrease = math.inf  # relative, by the last steps
        plain = f"{setting.learner.name} {setting.C!r} {self.layout!r}"
        self.resume(lambda: fingerprint(plain + "".join(map(digest_of, self.tasks)), ()))

    def begin(self, executor: Executor, callback: Callback | None) -> None:
        """Start from logistic regression, or from the winner of the race."""
        if self.learner.starts == "zero":
            return
        first = self._other("logistic", range(len(self.tasks)), START_TOL, START_STEPS, "first")
        first.run(executor, callback, start=True)
        self.w, self.spent = first.best_w, first.cost()
        self.best, self.best_w = first.best, first.best_w
        if self.learner.starts == "race":
            self.w = self._race(first.best_w, executor, callback)

    def _race(self, w: Vector, executor: Executor, callback: Callback | None) -> Vector:
        """Return the weights of the start with the lowest f on some of the images."""
        if not self.tasks[0].model.labels.has_energy:
            w = recentre_fields(self.tasks, w)
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
                racer.run(executor, callback, start=True)
        costs = [self.spent, *(racer.cost() for racer in racers)]
        self.spent = tuple(map(sum, zip(*costs)))  # type: ignore[assignment]
        best = min(range(len(racers)), key=lambda k: racers[k].best)
        # Many weights overfit a few images: then the start itself is better for all images.
        return min(racers[best].best_w, starts[best], key=self._objective)

    def _objective(self, w: Vector) -> float:
        """Return f of all images."""
        return self._summed(w, self._rows(w, range(len(self.tasks))))[0]

    def _other(
        self, learner: str, places: Sequence[int], tol: float, most: int, name: str
    ) -> "LikelihoodRun":
        """Return a run of the search for first weights, with a checkpoint of its own."""
        setting = Settings(learner_of(learner), self.setting.C, tol, 1, most)
        tasks = taken(self._given, places)
        away = None if self.away is None else self.away.take(places)
        return LikelihoodRun(tasks, setting, self.start_file(name), self.executor, away)

    def done(self) -> bool:
        """Return whether the run makes no more progress or the steps are used up."""
        return self._decrease <= self.setting.tol or len(self.steps) >= self.setting.max_steps

    def step(self, executor: Executor) -> Step:
        """Evaluate every image at w, and move to the next w."""
        begin = time.perf_counter()
        rows = self.round.rows(
            self.w, len(self.tasks), partial(self._rows, self.w), executor.remote
        )
        objective, gradient = self._summed(self.w, rows)
        evaluated = time.perf_counter()
        if objective < self.best:
            self.best, self.best_w = objective, self.w
        self.w = self.move.next(self.w, objective, gradient, self.best)
        self._decrease = self._progress(objective)
        seconds = evaluated - begin, time.perf_counter() - evaluated
        return self.record_step(objective, seconds, len(self.tasks), 0)

    def _rows(self, w: Vector, places: Sequence[int]) -> Matrix:
        """Return L_n and its gradient of some images, one row per image."""
        found = self.data.take(places).map(self._valued, w)
        return np.array([np.concatenate([[value], gradient]) for value, gradient in found])

    def _summed(self, w: Vector, rows: Matrix) -> tuple[float, Vector]:
        """Return f and its gradient from the rows of all images."""
        value, gradient = _mean_of([(float(row[0]), row[1:]) for row in rows])
        lam = 1.0 / self.setting.C
        return 0.5 * lam * float(w @ w) - value, lam * w - gradient

    @property
    def relative_gap(self) -> float:
        """The relative decrease of f by the last steps."""
        return self._decrease

    def _progress(self, objective: float) -> float:
        """Return the relative decrease of f by the last steps."""
        if len(self.steps) < self.pace.window:
            return math.inf if self.best > 0 else 0.0
        # Not of `best`: a start that wins the race may need long to get below logistic regression.
        values = [step.objective for step in self.steps] + [objective]
        before, now = min(values[: -self.pace.window]), min(values)
        return (before - now) / now if now > 0 else 0.0

    def advice(self) -> str:
        """Return what the last steps gained, and what to do."""
        return (
            f"while it was still making progress: the last {self.pace.window} lowered the "
            f"objective by {self._decrease:.2%}, and it goes on until they gain less than "
            f"{self.setting.tol:.2%}. "
            "Raise max_steps."
        )

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the state of the moves."""
        return {}, self.move.state()

    def restore_state(self, values: dict[str, Any], arrays: Arrays) -> None:
        """Restore the state of the moves."""
        self.move.restore(arrays)
        self._decrease = self.steps[-1].relative_gap


def _starts(
    layout: Layout, tasks: Sequence[TrainingImage], w: Vector, strengths: Sequence[float]
) -> list[Vector]:
    """Return logistic regression with edges of each strength t, over 1 + 2 t."""
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


def _second_moment(tasks: Sequence[TrainingImage]) -> Matrix:
    """Return the mean of f f' over the labelled nodes of each image, then over images."""
    parts = []
    for task in tasks:
        features = task.problem.node_features[task.known].astype(np.float64)
        parts.append(features.T @ features / len(features))
    return np.asarray(np.mean(parts, axis=0))
