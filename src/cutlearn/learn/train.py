"""Training: the one loop in which weights make planes and planes make weights.

Minimises lambda/2 |w|^2 + R(w) over G w >= h, lambda = 1/C, with the risk
R(w) = mean_n max_y [ r_n Delta_n(y) - s_n (E_n(y; w) - E_n(y_n; w)) ].
Each step asks every image's oracle for its plane at w, which gives the objective there, and the
master for the next w and a lower bound over all planes so far. The gap between the best objective
and the bound is certified; the loop stops at gap <= tol max(objective, largest loss / 1000).
"""

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.energy.forms import Envelopes
from cutlearn.errors import ConvergenceWarning, InputError
from cutlearn.features.problem import Problem
from cutlearn.learn.bundle import Bundle
from cutlearn.learn.image_loss import Loss
from cutlearn.learn.pool import Pool
from cutlearn.learn.steps import (
    Settings,
    Step,
    TrainResult,
    rows_to_steps,
    settings_of,
    steps_to_rows,
)
from cutlearn.run.checkpoint import Interrupted, check_place, load_checkpoint, save_checkpoint
from cutlearn.run.workers import thread_count

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

# Objectives below this share of the largest possible loss need no finer gap.
FLOOR = 1e-3
# Known planes are used up until this share of the tolerance, before the oracle is asked again.
SETTLED = 0.25
MOST_SETTLING = 100
# From so many images on, training begins on a quarter of them, up to this gap: early rounds only
# have to move w, and images are alike.
MANY = 8
ROUGH = 0.1
# A step that leaves more than this share of the gap counts as stalled.
STALLED = 0.99
KIND = "train"


def train(
    problems: Sequence[Problem],
    labels: Sequence[ArrayLike],
    loss: str | Loss = "hamming",
    learner: str = "bundle",
    C: float = 1.0,
    tol: float = 0.01,
    normalize: str = "pixels",
    constraints: tuple[ArrayLike, ArrayLike] | None = None,
    envelope: Envelopes = None,
    *,
    kind: str = "binary",
    n_labels: int | None = None,
    groups: int | None = None,
    max_steps: int = 1000,
    n_jobs: int | None = None,
    checkpoint: str | Path | None = None,
    callback: Callable[[Step], None] | None = None,
    pool: Pool | None = None,
) -> TrainResult:
    """Learn the weights of an energy from labelled problems, to a certified gap.

    Parameters
    ----------
    problems, labels : sequences
        One label array (0, 1 or more, 255 for void) for each problem.
    loss : "hamming", "count" or a Loss
    learner : "bundle" or "nslack" (a bundle with a group for each image)
    C : float
        1 / lambda.
    tol : float
        Stop at gap <= tol * max(objective, largest possible loss / 1000).
    normalize : "pixels", "loss" or "none"
        What is divided by the image's number of labelled nodes: loss and energy, loss, neither.
    constraints : (G, h), optional
        Further rows G w >= h.
    envelope : EnvelopeSpec, or one for each family of regions, optional
        Learns an envelope for the problems' regions; its weights come last in w.
    kind : "binary", "ordered" or "unordered"
        What the labels are. Ordered ones have one table of costs for each edge feature, learned
        under constraints that keep the cut exact; unordered ones use expansion moves, so that
        nothing is certified. See `LabelLayout` for the order of their weights.
    n_labels : int, optional
        Their number; by default one more than the largest label found.
    groups : int, optional
        Slacks of the bundle, min(N, 50) by default.
    max_steps : int
    n_jobs : int, optional
        Threads; the result has the same bits for every number.
    checkpoint : path, optional
        Written after every step; a run that finds its own file goes on from it.
    callback : callable, optional
        Called with every Step.
    pool : Pool, optional
        Planes from earlier runs on the same problems, used and added to.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[-1.0], [-1.0], [1.0], [1.0]])
    >>> p = Problem(x, edges=[[0, 1], [1, 2], [2, 3]])
    >>> r = train([p], [[1, 1, 0, 0]], C=10.0)
    >>> r.converged, bool(r.w[0] > 0)
    (True, True)
    """
    if checkpoint is not None:
        check_place(checkpoint)
    if pool is None:
        pool = Pool(problems, labels, loss, normalize, n_jobs, envelope, kind, n_labels)
    pool.check(problems, loss, normalize, envelope, kind)
    setting = settings_of(len(pool), learner, C, tol, groups, max_steps)
    rows, least = _constraints(pool, constraints)
    run = _Run(pool, setting, rows, least, checkpoint)
    threads = thread_count(n_jobs)
    try:
        if not run.steps and len(pool) >= MANY and not any(map(len, pool.planes)):
            run.begin(threads)
        while not run.done():
            step = run.step(threads)
            if checkpoint is not None:
                run.save()
            if callback is not None:
                callback(step)
    except KeyboardInterrupt:
        raise Interrupted(run.farewell()) from None
    return run.result()


def path(
    problems: Sequence[Problem],
    labels: Sequence[ArrayLike],
    Cs: Sequence[float],
    loss: str | Loss = "hamming",
    normalize: str = "pixels",
    *,
    checkpoint: str | Path | None = None,
    pool: Pool | None = None,
    **options: Any,
) -> list[TrainResult]:
    """Train for every C over one pool of planes; gives the results in the order of Cs.

    Parameters
    ----------
    checkpoint : path, optional
        The run of the k-th C writes to this name with `.k` added.
    options
        As for `train`.
    """
    if pool is None:
        given = {k: options[k] for k in ("n_jobs", "envelope", "kind", "n_labels") if k in options}
        pool = Pool(problems, labels, loss, normalize, **given)
    results = []
    for number, C in enumerate(Cs):
        file = None if checkpoint is None else f"{checkpoint}.{number}"
        results.append(
            train(
                problems,
                labels,
                loss,
                C=C,
                normalize=normalize,
                checkpoint=file,
                pool=pool,
                **options,
            )
        )
    return results


class _Run:
    """The state of one training run: what a step changes and a checkpoint holds."""

    def __init__(
        self, pool: Pool, setting: Settings, rows: Matrix, least: Vector, file: str | Path | None
    ) -> None:
        self.pool, self.setting, self.file = pool, setting, file
        self.layout = pool.layout
        self.master = Bundle(pool.n_weights, setting.groups, 1.0 / setting.C, rows, least)
        # Images go to groups in order, in runs of nearly equal length.
        self.bounds = [g * len(pool) // setting.groups for g in range(setting.groups + 1)]
        self.steps: list[Step] = []
        self.rounds: list[NDArray[np.int32]] = []
        self._known: set[tuple[int, bytes]] = set()
        self.largest = pool.largest
        self.best, self.best_w = math.inf, np.zeros(pool.n_weights)
        # With a group for each image and no planes from before, the master knows all planes.
        self.complete = setting.groups == len(pool) and not any(map(len, pool.planes))
        self.w = self._inside(self.master.start(self.largest))
        self.spent = (0.0, 0.0, 0)  # seconds of oracle and master, and cuts, before the first step
        self.begun = False
        self.digest = ""
        if file is not None:
            self.digest = (
                f"{pool.digest()} {setting.C!r} {setting.groups} {rows.tolist()} {least.tolist()}"
            )
            if Path(file).exists():
                self._restore()

    def begin(self, threads: int) -> None:
        """Train roughly on a quarter of the images, to ask the first time at good weights."""
        part = self.pool.take(range(0, len(self.pool), 4))
        setting = replace(
            self.setting,
            tol=max(self.setting.tol, ROUGH),
            groups=min(self.setting.groups, len(part)),
        )
        first = _Run(part, setting, self.master.rows, self.master.least, None)
        while not first.done():
            first.step(threads)
        self.w, self.begun, self.complete = first.best_w, True, False
        self.spent = (
            sum(step.oracle_seconds for step in first.steps),
            sum(step.master_seconds for step in first.steps),
            sum(step.calls for step in first.steps),
        )

    def done(self) -> bool:
        """Whether the gap is reached or the steps are used up."""
        if not self.steps:
            return self.setting.max_steps <= 0
        return self.gap() <= self.setting.tol or len(self.steps) >= self.setting.max_steps

    def gap(self) -> float:
        """The certified gap over max(objective, a floor), 0 for an objective of 0."""
        distance = max(self.best - self.master.lower_bound, 0.0)
        return distance / (max(self.best, FLOOR * self.largest) or 1.0)

    def step(self, threads: int) -> Step:
        """Ask the oracles at w, give their planes to the master, take the next w."""
        begin = time.perf_counter()
        if not (self.complete or (self.begun and not self.steps)):
            self._settle()
        between = time.perf_counter()
        w = self._point()
        index, rows = self.pool.ask(w, threads)
        objective = self._objective(rows, w)
        if objective < self.best:
            self.best, self.best_w = objective, w
        asked = time.perf_counter()
        self._give(index, rows)
        if self.best > 0 and self.gap() > self.setting.tol:
            self.w = self._inside(self.master.solve(self.best)[0])
        end = time.perf_counter()
        bound = self.master.lower_bound
        before = self.spent if not self.steps else (0.0, 0.0, 0)
        step = Step(
            len(self.steps) + 1, objective, self.best, bound, max(self.best - bound, 0.0),
            self.gap(), self.setting.tol, before[0] + asked - between,
            before[1] + end - asked + between - begin, before[2] + len(rows), len(self.master.b),
        )  # fmt: skip
        self.steps.append(step)
        return step

    def _point(self) -> Vector:
        """Where to ask: half-way from the best weights to the master's, which needs a quarter fewer
        rounds than the master's own; these when the last step hardly moved the gap."""
        if not self.steps:
            return self.w
        if len(self.steps) > 1 and self.steps[-1].gap > STALLED * self.steps[-2].gap:
            return self.w
        return self._inside(self.best_w + 0.5 * (self.w - self.best_w))

    def _settle(self) -> None:
        """Let master and known planes agree, without a cut, before the oracle is asked."""
        for _ in range(MOST_SETTLING):
            index = self.pool.best(self.w)
            rows = self.pool.rows(index)
            known = self._objective(rows, self.w)
            distance = known - max(self.master.lower_bound, 0.0)
            if distance <= SETTLED * self.setting.tol * max(known, FLOOR * self.largest):
                return
            if not self._give(index, rows):
                return
            self.w = self._inside(self.master.solve(min(self.best, known))[0])

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

    def _inside(self, w: Vector) -> Vector:
        """Move w by the QP's rounding, so that the cut stays exact."""
        return self.layout.inside(w)

    def result(self) -> TrainResult:
        """Give what was learned; warns when the gap was not reached."""
        gap = max(self.best - self.master.lower_bound, 0.0)
        converged = bool(self.steps) and self.gap() <= self.setting.tol
        if not converged:
            warnings.warn(
                f"training stopped after {len(self.steps)} steps at a gap of {self.gap():.2%}; "
                f"{self.setting.tol:.2%} was wanted. Raise max_steps, or lower C.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return TrainResult(
            self.best_w, self.best, self.master.lower_bound, gap, self.gap(), tuple(self.steps),
            self.pool.kind.certified, converged, self.layout, self.setting.C,
        )  # fmt: skip

    def farewell(self) -> str:
        """Say what an interrupted run leaves."""
        if self.file is None or not self.steps:
            return (
                f"training: interrupted after {len(self.steps)} steps; nothing is saved. "
                "With checkpoint= every step is."
            )
        return (
            f"training: interrupted after {len(self.steps)} steps; they are saved in {self.file}. "
            "Run the same call again to go on."
        )

    def save(self) -> None:
        """Write the state to the checkpoint."""
        assert self.file is not None
        counts = [len(known) for known in self.pool.planes]
        arrays = {
            "planes": np.concatenate([known.rows for known in self.pool.planes]),
            "counts": np.array(counts, np.int64),
            "rounds": np.array(self.rounds, np.int32).reshape(-1, len(self.pool)),
            "w": self.w,
            "best_w": self.best_w,
            "steps": steps_to_rows(self.steps),
            **self.master.state(),
        }
        values = {"digest": self.digest, "complete": self.complete}
        save_checkpoint(self.file, KIND, values, arrays)

    def _restore(self) -> None:
        assert self.file is not None
        values, arrays = load_checkpoint(self.file, KIND)
        if values.get("digest") != self.digest:
            raise InputError(
                f"{self.file}: the checkpoint of a run with other data or settings found; one of "
                "this run wanted. Remove it to start anew, or name another file."
            )
        ends = np.cumsum(arrays["counts"])
        for known, rows in zip(self.pool.planes, np.split(arrays["planes"], ends[:-1])):
            known.restore(rows)
        for index in arrays["rounds"]:
            self._give(index, self.pool.rows(index))
        self.master.restore(arrays)
        self.w, self.best_w = arrays["w"], arrays["best_w"]
        self.steps = rows_to_steps(arrays["steps"])
        self.best = self.steps[-1].best
        self.complete = bool(values["complete"])


def _constraints(pool: Pool, given: tuple[ArrayLike, ArrayLike] | None) -> tuple[Matrix, Vector]:
    rows, least = pool.kind.constraints(pool.tasks[0])
    if given is None:
        return rows, least
    more = np.atleast_2d(np.asarray(given[0], dtype=np.float64))
    bound = np.atleast_1d(np.asarray(given[1], dtype=np.float64))
    if more.shape != (len(bound), pool.n_weights) or not (
        np.isfinite(more).all() and np.isfinite(bound).all()
    ):
        raise InputError(
            f"constraints: G of shape {more.shape} and h of {bound.shape} found; finite (r, "
            f"{pool.n_weights}) and (r,) wanted, for G w >= h. Correct the pair."
        )
    return np.concatenate([rows, more]), np.concatenate([least, bound])
