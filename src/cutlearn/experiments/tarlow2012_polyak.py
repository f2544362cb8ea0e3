"""The paper's own optimiser of the likelihood: tarlow2012, section 7.1."""

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cutlearn.features.problem import Problem
from cutlearn.learn.likelihood.value import likelihood

Mask = NDArray[np.uint8]
Floats = NDArray[np.float64]
# What is taken for the optimum: this share of the best value so far.
SHARE = 0.95


def polyak(
    problems: Sequence[Problem], masks: Sequence[Mask], w: Floats, steps: int
) -> tuple[Floats, list[tuple[float, float]]]:
    """Lower f = -(average log-likelihood) from w by steps of (f - 0.95 f_best) / |g|^2 along -g.

    Weights of edges stay >= 0. Gives the best weights; CPU seconds and value of every evaluation.
    """
    begin, nodes = time.process_time(), problems[0].n_node_features
    best, best_w, told = np.inf, w, []
    for _ in range(steps):
        value, gradient = likelihood(problems, masks, w, n_jobs=-1)
        told.append((time.process_time() - begin, -value))
        if -value < best:
            best, best_w = -value, w
        size = max(float(gradient @ gradient), np.finfo(float).tiny)
        w = w + (-value - SHARE * best) / size * gradient
        w[nodes:] = np.maximum(w[nodes:], 0)
    return best_w, told
