"""pletscher2012, section 4.3: what loss-augmented inference costs."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from cutlearn.arrays import Floats
from cutlearn.energy.energy import Energy
from cutlearn.energy.envelopes import Envelope
from cutlearn.energy.model import unary_of
from cutlearn.learn.train import train
from cutlearn_papers.course import Figures
from cutlearn_papers.pletscher2012_data import LOSSES, Nodes

# Of the model whose energies are solved.
C = 1e-3


def inference_times(nodes: Nodes, repeats: int = 3) -> Figures:
    """Time one loss-augmented inference in both ways, and the cut without any loss.

    The energies are those of a model that was trained for the count; learning it for both losses is
    timed too. -Delta(y) = min(a s - a c, a c - a s), s the number of ones, c the true one, a = 1/n.
    """
    problems, rows, seconds = nodes.problems("4/S"), [], []
    for loss in LOSSES:
        begin = time.process_time()
        result = train(problems, nodes.masks, loss=loss, C=C, tol=0.01, normalize="loss",
                       n_jobs=1)  # fmt: skip
        seconds.append(time.process_time() - begin)
    for problem, mask in zip(problems, nodes.masks):
        n, count = mask.size, float((mask == 1).sum())
        unary = unary_of(problem, result.w).ravel()
        assert problem.edge_features is not None
        weights = problem.edge_features @ result.w[problem.n_node_features :]
        lines = [(1 / n, -count / n), (-1 / n, count / n)]
        envelope = Envelope(np.arange(n), *map(np.array, zip(*lines)))
        least = partial(_least, problem.edge_ends(), weights)
        ways = (partial(least, unary), partial(least, unary, [envelope]),
                partial(_least_of_two, least, unary, lines))  # fmt: skip
        if abs(ways[1]() - ways[2]()) > 1e-9 * n:
            raise RuntimeError("the two ways of loss-augmented inference differ")
        rows.append([_least_seconds(work, repeats) for work in ways])
    return {"milliseconds": (1000 * np.median(rows, axis=0)).tolist(), "training": seconds}


def _least(edges: Any, weights: Floats, unary: Floats, envelopes: Sequence[Envelope] = ()) -> float:
    return float(Energy(unary, edges, weights, envelopes=envelopes).minimize().value)


def _least_of_two(
    least: Callable[[Floats], float], unary: Floats, lines: Sequence[tuple[float, float]]
) -> float:
    return min(least(unary + slope) + intercept for slope, intercept in lines)


def _least_seconds(work: Callable[[], Any], repeats: int) -> float:
    seconds = []
    for _ in range(repeats):
        begin = time.process_time()
        work()
        seconds.append(time.process_time() - begin)
    return min(seconds)
