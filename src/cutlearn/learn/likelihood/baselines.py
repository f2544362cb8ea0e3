"""Logistic regression: the likelihood of the unaries alone, and starts made of it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize

from cutlearn.arrays import Vector
from cutlearn.energy.compiled import Compiled, Valued, softened
from cutlearn.energy.problem import Problem
from cutlearn.learn.oracle import TrainingImage

# Nodes of logistic regression of several labels, and of `recentre_fields`.
MAX_ROWS, MAX_ROWS_OF_START = 100_000, 20_000


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
