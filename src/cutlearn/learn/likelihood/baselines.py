"""What likelihood training is measured against, as values that the same run maximises.

`logistic` is logistic regression: no edges, no envelopes; `each_alone` makes of it a start for
fields of several labels. `kohli_torr` has the value of the likelihood, but the gradient of a Gibbs
distribution in which softmaxed min-marginals stand for the marginals (Kohli and Torr 2008):
(q_i(1) - y_i) f_i of a node and, its ends taken as independent, (q_i(0) q_j(1) + q_i(1) q_j(0)
- [y_i != y_j]) g_ij of an edge. It is the gradient of nothing, so its best and its last point
differ.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize

from cutlearn.arrays import Vector
from cutlearn.energy.label_space import Valued, binary_log_likelihood, softened, softmax
from cutlearn.energy.potentials import edge_features
from cutlearn.energy.problem import Problem
from cutlearn.errors import InputError
from cutlearn.learn.oracle import Task

MOST_ROWS = 100_000
# Of a start that is one vector for all labels.
ROWS_OF_START = 20_000


def logistic(task: Task, w: Vector) -> Valued:
    """Give L_n of the unaries alone, and its gradient: zero but for node weights."""
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


def thinning(tasks: Sequence[Task], most: int | None = None) -> int:
    """Give the least k such that every k-th labelled node leaves at most so many, or `MOST_ROWS`.

    Logistic regression sees no edges, and neighbouring pixels tell it nearly the same: several
    labels, which cost a field each, need no more.
    """
    return -(-sum(int(task.known.sum()) for task in tasks) // (most or MOST_ROWS))


def every(task: Task, step: int) -> Task:
    """Give a task with every so many-th labelled node alone."""
    if step == 1:
        return task
    problem, rows = task.problem, np.flatnonzero(task.known)[::step]
    alone = Problem(
        problem.node_features[rows],
        edge_features=np.zeros((0, problem.n_edge_features)),
        regions=[[] for _ in problem.regions],
    )
    return replace(task, problem=alone, labels=task.labels[rows], known=task.known[rows])


def each_alone(tasks: Sequence[Task], w: Vector) -> Vector:
    """Give weights of fields, one a label, that say the same together and are right each alone.

    A softmax over labels does not hear what is added to the cost of all of them, but a field does:
    it is cut where its own cost is 0. So w_k + g takes the place of w_k, the same g for all labels,
    with the least

        sum_k mean_i log(1 + exp(s_ik (w_k + g) . f_i)),    s_ik = 1 where i has label k, else -1
    """
    thin = thinning(tasks, ROWS_OF_START)
    some = [every(task, thin) for task in tasks]
    x = np.concatenate([one.problem.node_features[one.known] for one in some]).astype(np.float64)
    labels = np.concatenate([one.labels[one.known] for one in some])
    counts = [int(one.known.sum()) for one in some]
    share = np.concatenate([np.full(n, 1 / (n * len(some))) for n in counts])
    layout = tasks[0].layout
    costs = x @ layout.unaries(w).T
    signs = np.where(labels[:, None] == np.arange(costs.shape[1]), 1.0, -1.0)

    def wrong(g: Vector) -> tuple[Vector, Vector]:
        """Give z = s (w + g) . f, and the sigmoid of it, of every node and label."""
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


def kohli_torr(task: Task, w: Vector) -> Valued:
    """Give L_n, and what stands in for the gradient; two labels, no envelopes."""
    problem, model = task.problem, task.model
    names = [p.name for p in model.potentials]
    if model.labels.name != "binary" or sorted(names) != ["edge", "node"]:
        raise InputError(
            "learner: 'kohli-torr' is for two labels with unaries and contrast only. Choose "
            "learner='likelihood', which has no such limits."
        )
    phi = model.labels.min_marginals(model, problem, w)
    y = task.known & (task.labels == 1)
    share = 1.0 / int(np.count_nonzero(task.known))
    q = np.where(task.known, softmax(phi)[:, 1], 0.0)
    tail, head = problem.edge_ends().T
    i, j = q[tail], q[head]
    # An edge of a void node has no label to compare with.
    expected = (i + j - 2.0 * i * j - (y[tail] != y[head])) * (task.known[tail] & task.known[head])
    parts = {
        "node": (q - y) @ problem.node_features,
        "edge": expected @ edge_features(problem),
    }
    total = binary_log_likelihood(phi, task.labels, task.known)
    return share * total, share * np.concatenate([parts[name] for name in names])
