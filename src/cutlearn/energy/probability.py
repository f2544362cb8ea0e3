"""From weights to beliefs: the probability of every label at every node.

q_d = softmax over k of -Phi_d(k), with the min-marginals Phi of the energy: exact ones for two
labels and for ordered ones, the surrogate S (`surrogate`) for any others.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.energy.energy import Energy
from cutlearn.energy.model import ModelLike
from cutlearn.energy.ordered import OrderedEnergy
from cutlearn.energy.surrogate import surrogate_min_marginals
from cutlearn.errors import InputError
from cutlearn.features.problem import Problem
from cutlearn.run.workers import thread_count

Floats = NDArray[np.float64]

KINDS = ("binary", "ordered", "surrogate")


def probabilities(
    problem: Problem,
    w: ArrayLike,
    envelope: ModelLike = None,
    *,
    kind: str = "binary",
    n_jobs: int | None = None,
) -> Floats:
    """Give the probability of every label at every node, (n, L).

    Calibrated if w was learned with `train(learner="likelihood")`; beliefs of other weights keep
    their order, but may be too sure or too shy.

    Parameters
    ----------
    problem : Problem
        Its fixed nodes are certain.
    w : array
        Learned weights.
    envelope : EnvelopeSpec, or one for each family of regions, optional
        As in training; or a Model.
    kind : "binary", "ordered" or "surrogate"
        As in training.
    n_jobs : int, optional
        Threads; the result has the same bits for every number.

    Examples
    --------
    >>> p = Problem([[1.0], [-3.0]], edges=[[0, 1]])
    >>> probabilities(p, [1.0, 0.0]).round(2).tolist()
    [[0.73, 0.27], [0.05, 0.95]]
    """
    if kind not in KINDS:
        raise InputError(f"The 'kind' parameter must be one of {KINDS}. Got {kind!r} instead.")
    threads = thread_count(n_jobs)
    if kind == "surrogate":
        return softmax(surrogate_min_marginals(problem, w, envelope, threads))
    if kind == "ordered":
        if envelope is not None:
            raise InputError(
                "envelope: found with kind='ordered'; none wanted there. Leave out envelope."
            )
        ordered = OrderedEnergy.of(problem, w)
        return softmax(ordered.min_marginals(_fixed(problem, ordered.shape)))
    energy = Energy.of(problem, w, envelope)
    return softmax(energy.min_marginals(_fixed(problem, energy.shape), threads))


def softmax(costs: Floats) -> Floats:
    """Give exp(-cost) over its sum along the last axis, one row a node; infinite costs give 0."""
    return softened(costs)[0]


def softened(costs: Floats) -> tuple[Floats, Floats]:
    """Give q = softmax(-costs), one row a node, and the soft minimum s = -log sum_k exp(-cost_k).

    log q_k = s - cost_k, also where q_k is too small for a number.
    """
    # Labels in front: numpy is slow along a short last axis.
    table = np.ascontiguousarray(costs.reshape(-1, costs.shape[-1]).T)
    lowest = table.min(axis=0)
    e = np.exp(lowest - table)
    mass = e.sum(axis=0)
    q = np.empty(table.shape[::-1])
    np.divide(e, mass, out=q.T)
    return q, lowest - np.log(mass)


def _fixed(problem: Problem, shape: tuple[int, ...]) -> NDArray[np.int8] | None:
    return None if problem.fixed is None else problem.fixed.reshape(shape)
