"""The optimisers of tarlow2012, section 7.1: the paper's own, and that of Kohli and Torr.

Kohli-Torr training moves by a fixed step along the gradient of a Gibbs distribution in which
softmaxed min-marginals stand for the marginals: (q_i - y_i) f_i of a node and (q_ij - [y_i !=
y_j]) g_ij of an edge, q_ij the chance that its ends differ. That chance is either the one of
independent ends, or, as the gradient asks for, a softmax of the min-marginals of pairs,
Phi_ij(a, b) = min E with y_i = a and y_j = b: three more cuts for every edge, each warm.
"""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import Floats, Mask
from cutlearn.energy.compiled import softmax
from cutlearn.energy.energy import Energy
from cutlearn.energy.model import unary_of
from cutlearn.energy.problem import Problem
from cutlearn.learn.likelihood import likelihood

# What is taken for the optimum: this share of the best value so far.
SHARE = 0.95
# The step of Kohli-Torr training, of 0.1, 0.3 and 1: at 0.1 it takes long to rest, at 1 it swings.
STEP = 0.3
FAR = 1e4


class Walk(NamedTuple):
    """Where steps led: the weights of the best value, the last ones, seconds and values."""

    best: Floats
    last: Floats
    told: list[tuple[float, float]]


def polyak(problems: Sequence[Problem], masks: Sequence[Mask], w: Floats, steps: int) -> Walk:
    """Lower f = -(average log-likelihood) from w by steps of (f - 0.95 f_best) / |g|^2 along -g.

    Weights of edges stay >= 0.
    """

    def move(w: Floats, value: float, gradient: Floats, best: float) -> Floats:
        size = max(float(gradient @ gradient), np.finfo(float).tiny)
        return w + (value - SHARE * best) / size * gradient

    def ask(w: Floats) -> tuple[float, Floats]:
        return likelihood(problems, masks, w, n_jobs=-1)

    return _walk(ask, move, w, steps, problems[0].n_node_features)


def kohli_torr(
    problems: Sequence[Problem],
    masks: Sequence[Mask],
    w: Floats,
    steps: int,
    pairs: bool = False,
) -> Walk:
    """Move from w by a fixed step along the pseudo-gradient."""

    def ask(w: Floats) -> tuple[float, Floats]:
        found = [pseudo_gradient(p, m, w, pairs) for p, m in zip(problems, masks)]
        return float(np.mean([f[0] for f in found])), np.mean([f[1] for f in found], axis=0)

    def move(w: Floats, value: float, gradient: Floats, best: float) -> Floats:
        return w + STEP * gradient

    return _walk(ask, move, w, steps, problems[0].n_node_features)


def _walk(
    ask: Callable[[Floats], tuple[float, Floats]],
    move: Callable[[Floats, float, Floats, float], Floats],
    w: Floats,
    steps: int,
    nodes: int,
) -> Walk:
    begin, best, best_w = time.process_time(), np.inf, w
    told: list[tuple[float, float]] = []
    for _ in range(steps):
        last = w
        value, gradient = ask(w)
        told.append((time.process_time() - begin, -value))
        if -value < best:
            best, best_w = -value, w
        w = move(w, -value, gradient, best)
        w[nodes:] = np.maximum(w[nodes:], 0)
    return Walk(best_w, last, told)


def pseudo_gradient(
    problem: Problem, mask: Mask, w: Floats, pairs: bool = False
) -> tuple[float, Floats]:
    """Give the mean log-likelihood of an image, and what Kohli-Torr training takes for its slope.

    Every pixel must be labelled.
    """
    energy = Energy.of(problem, w)
    q = softmax(energy.min_marginals().reshape(-1, 2))
    y, ends = mask.ravel().astype(np.int64), np.asarray(problem.edge_ends(), np.int64)
    i, j = q[ends[:, 0], 1], q[ends[:, 1], 1]
    differ = (
        disagreement(energy, unary_of(problem, w).ravel(), ends) if pairs else i + j - 2 * i * j
    )
    assert problem.edge_features is not None
    slope = np.concatenate([
        (q[:, 1] - y).astype(np.float32) @ problem.node_features,
        (differ - (y[ends[:, 0]] != y[ends[:, 1]])) @ problem.edge_features,
    ])  # fmt: skip
    likely = np.log(np.maximum(q[np.arange(y.size), y], np.finfo(float).tiny)).mean()
    return float(likely), slope / y.size


def disagreement(energy: Energy, cost: Floats, ends: NDArray[np.int64]) -> Floats:
    """Give the chance that the ends of each edge differ, by a softmax of min-marginals of pairs.

    cost : (n,), of label 1 at every node.
    """
    solver = energy.solver()
    first = solver.minimize()
    least = float(first.value)
    best = first.labels.ravel().astype(np.int64)
    out = np.empty(len(ends))
    for m, (i, j) in enumerate(ends):
        pair = np.array([i, j])
        Phi = np.full((2, 2), least)
        for a, b in ((0, 0), (0, 1), (1, 0), (1, 1)):
            if (a, b) == (best[i], best[j]):
                continue
            # The cost of label 1, far up or far down, holds the pixel at its label.
            solver.set_unary(pair, cost[pair] + FAR * np.array([1 - 2 * a, 1 - 2 * b]))
            Phi[a, b] = solver.minimize().value + FAR * (a + b)
        solver.set_unary(pair, cost[pair])
        weights = np.exp(least - Phi)
        out[m] = (weights[0, 1] + weights[1, 0]) / weights.sum()
    return out
