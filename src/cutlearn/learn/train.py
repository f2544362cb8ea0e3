"""Training: `train`, its checks and its messages.

Minimises lambda/2 |w|^2 + R(w) over G w >= h, lambda = 1/C, with the risk
R(w) = mean_n max_y [ r_n Delta_n(y) - s_n (E_n(y; w) - E_n(y_n; w)) ].
Each step computes every image's plane at w, which gives the objective there; the master returns
the next w and a lower bound over all planes so far. The gap between the best objective
and the bound is certified; the loop stops at gap <= tol max(objective, largest loss / 1000).
Likelihood learners make their steps in the same loop (`run`); they prove no gap.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from cutlearn.arrays import Matrix, Vector
from cutlearn.checks import float_array, listed
from cutlearn.energy.envelopes import Specs
from cutlearn.energy.model import Model, ModelLike
from cutlearn.energy.problem import Problem
from cutlearn.errors import InputError, quoted
from cutlearn.learn.learners import learner_of
from cutlearn.learn.likelihood import LikelihoodRun, likelihood_tasks
from cutlearn.learn.losses import Loss
from cutlearn.learn.margin import MarginRun
from cutlearn.learn.pool import Pool, residents_of
from cutlearn.learn.run import Callback, Run, TrainResult, settings_of
from cutlearn.run.checkpoint import check_place
from cutlearn.run.executor import Jobs, executor_of
from cutlearn.run.process import interrupted


def train(
    problems: Sequence[Problem],
    labels: Sequence[ArrayLike],
    loss: str | Loss = "hamming",
    learner: str = "bundle",
    C: float = 1.0,
    tol: float = 0.01,
    normalize: str = "pixels",
    constraints: tuple[ArrayLike, ArrayLike] | None = None,
    envelope: Specs = None,
    *,
    model: Model | None = None,
    groups: int | None = None,
    max_steps: int = 1000,
    n_jobs: Jobs = None,
    checkpoint: str | Path | None = None,
    callback: Callback | None = None,
    pool: Pool | None = None,
) -> TrainResult:
    """Learn the weights of an energy from labelled problems, to a certified gap.

    Parameters
    ----------
    problems, labels : sequences
        Annotated images: for each problem an array of labels, 0, 1 or more, and 255 where nothing
        is known (void).
    loss : "hamming", "count" or a Loss
        What a wrong labelling costs in training: the number of wrong nodes, the error of the
        number of nodes with label 1, or a cost of your own.
    learner : "bundle", "nslack", "accpm", "likelihood" or "logistic"
        The first three are max-margin and reach the same weights in different ways: "bundle"
        moves near the minimum of the planes so far, "nslack" does so with a group for each image,
        and "accpm" moves to the analytic centre of the set that holds the optimum; only it takes
        C = inf. "likelihood" maximises the average log-likelihood of the labels under
        `probabilities`, so that these are calibrated; this is not convex, so nothing is certified.
        "logistic" does the same without edges and envelopes.
    C : float
        1 / lambda: how much fitting the annotated images counts against small weights. Infinity
        means no regulariser, for "accpm" and likelihood learners; "accpm" then returns nearly the
        shortest of all weights within the tolerance.
    tol : float
        Training stops when gap <= tol * max(objective, largest possible loss / 1000). A likelihood
        learner stops when 30 steps lower the objective by less than this share of it.
    normalize : "pixels", "loss" or "none"
        What is divided by the number of labelled nodes of the image: the loss and the energy, only
        the loss, or neither.
    constraints : (G, h), optional
        Further conditions on the weights, G w >= h.
    envelope : EnvelopeSpec, or one for each family of regions, optional
        Learns an envelope for the problems' regions, too; its weights come last in w.
    model : Model, optional
        Potentials of your choice instead of unaries, contrast and `envelope`; and what the labels
        are, such as `Model(labels="ordered")`.
    groups : int, optional
        How many groups the images are divided into, each with a slack of its own; by default
        min(N, 50).
    max_steps : int
        Training stops after this many steps, with a warning if the gap is still too large.
    n_jobs : int, address or Client, optional
        Number of threads, or a cluster (docs/cluster.md); the result is the same, to the bit.
    checkpoint : path, optional
        A file that is written after every step; the previous one is kept in case the last one is
        damaged, and in long rounds the finished images are saved, too. If a run was interrupted,
        the same call resumes it.
    callback : callable, optional
        Called with every Step. Steps with number 0 belong to the search for first weights.
    pool : Pool, optional
        Planes from earlier runs on the same problems; they are used, and new ones are added.

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
        checkpoint = check_place(checkpoint)
    if model is not None and envelope is not None:
        raise InputError(
            "model and envelope are both given, but only one of them can be. Put an Enveloped "
            "among the model's potentials instead of the envelope."
        )
    given: ModelLike = envelope if model is None else model
    if callback is not None and not callable(callback):
        raise InputError(f"callback must be a function of a step, not {quoted(callback)}.")
    chosen, executor = learner_of(learner), executor_of(n_jobs)
    run: Run
    if not chosen.margin:
        _check_no_margin_options(loss, normalize, constraints, groups, pool)
        setting = settings_of(len(problems), chosen, C, tol, groups, max_steps)
        tasks, away = likelihood_tasks(problems, labels, given), None
        if executor.remote:
            away = residents_of(executor, problems, labels)
        run = LikelihoodRun(tasks, setting, checkpoint, executor, away)
    else:
        if pool is None:
            pool = Pool(problems, labels, loss, normalize, executor, given)
        pool.check(problems, labels, loss, normalize, given)
        setting = settings_of(len(pool), chosen, C, tol, groups, max_steps)
        run = MarginRun(pool, setting, *_constraints(pool, constraints), checkpoint)
    try:
        if not run.steps:
            run.begin(executor, callback)
        run.run(executor, callback)
    except KeyboardInterrupt as stop:
        searched = (first := run.start_file("first")) is not None and first.exists()
        raise interrupted(stop, _interrupt_message(len(run.steps), checkpoint, searched)) from None
    return run.result()


def _interrupt_message(steps: int, file: str | Path | None, searched: bool) -> str:
    """Return what an interrupted run leaves; `searched`: it was in the search for its start."""
    if file is not None and not steps and searched:
        return (
            f"training: interrupted in the search for first weights; it is saved beside {file}. "
            "Run the same call again to go on."
        )
    if file is not None and not steps:
        return "training: interrupted before its first step. Run the same call again."
    if file is None:
        return (
            f"training: interrupted after {steps} steps; nothing is saved. "
            "With checkpoint= every step is."
        )
    return (
        f"training: interrupted after {steps} steps; they are saved in {file}. "
        "Run the same call again to go on."
    )


def _check_no_margin_options(
    loss: str | Loss,
    normalize: str,
    constraints: object | None,
    groups: int | None,
    pool: Pool | None,
) -> None:
    """Raise for options of max-margin training given to a likelihood learner."""
    given = {
        "loss": loss != "hamming", "normalize": normalize != "pixels",
        "constraints": constraints is not None, "groups": groups is not None,
        "pool": pool is not None,
    }  # fmt: skip
    for name, changed in given.items():
        if changed:
            raise InputError(
                f"{name} has no meaning for a likelihood learner. Leave out {name}, or choose "
                "learner='bundle'."
            )


def _constraints(pool: Pool, given: tuple[ArrayLike, ArrayLike] | None) -> tuple[Matrix, Vector]:
    rows, rhs = pool.layout.constraints(pool.images[0].problem)
    if given is None:
        return rows, rhs
    pair = listed("constraints", given)
    if len(pair) != 2:
        raise InputError(
            f"constraints must be a pair of arrays, G and h, for G w >= h, not {len(pair)} arrays."
        )
    more = np.atleast_2d(float_array("constraints: G", pair[0]))
    bound = np.atleast_1d(float_array("constraints: h", pair[1]))
    if (
        bound.ndim != 1
        or more.shape != (len(bound), pool.n_weights)
        or not (np.isfinite(more).all() and np.isfinite(bound).all())
    ):
        raise InputError(
            f"constraints has G of shape {more.shape} and h of shape {bound.shape}, but G w >= h "
            f"needs finite numbers in the shapes (r, {pool.n_weights}) and (r,). Correct the pair."
        )
    return np.concatenate([rows, more]), np.concatenate([rhs, bound])
