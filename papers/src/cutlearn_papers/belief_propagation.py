"""Loopy belief propagation, and learning by its beliefs: what tarlow2012 compares with.

Labels y_d in 0 .. L-1 with a row w_k = (a_k, b_k) of weights each, as the surrogate has them:

    E(y) = sum_d a_(y_d) . f_d + sum_(d,e) [y_d != y_e] (b_(y_d) + b_(y_e)) . g_de

It is what the L binary fields of the surrogate add up to where every pixel has one label. p(y) =
exp(-E(y)) / Z, whose marginals sum-product messages find on trees and approximate elsewhere. All
messages are sent at once and damped: m = (1 - damping) new + damping old.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from cutlearn.arrays import Floats
from cutlearn.energy.problem import Problem

DAMPING, MOST, STILL = 0.3, 100, 1e-4
LEAST = 1e-300


class Beliefs(NamedTuple):
    """What messages came to.

    Attributes
    ----------
    nodes : (n, L)
        Probabilities of the labels of every node.
    leaving : (m, L)
        Of every edge the probability that just one of its ends has label k, for every k.
    log_z : float
        Bethe's approximation of log Z; its slopes are those of beliefs that settled.
    iterations : int
    settled : bool
        Whether no message moved by more than STILL in the end.
    """

    nodes: Floats
    leaving: Floats
    log_z: float
    iterations: int
    settled: bool


@dataclass(frozen=True, eq=False)
class Field:
    """Costs of labels, (n, L), edges, (m, 2), and exp(-b_k . g) of every edge and label, (m, L)."""

    unary: Floats
    ends: NDArray[np.int64]
    stay: Floats

    @staticmethod
    def of(problem: Problem, rows: Floats) -> "Field":
        """Give the field of a problem under one row of weights a label."""
        F = problem.n_node_features
        assert problem.edge_features is not None
        unary = problem.node_features.astype(np.float64) @ rows[:, :F].T
        costs = problem.edge_features.astype(np.float64) @ rows[:, F:].T
        return Field(unary, np.asarray(problem.edge_ends(), np.int64), np.exp(-costs))


def believe(field: Field, damping: float = DAMPING, most: int = MOST) -> Beliefs:
    """Send messages until none moves by more than STILL, at most so often."""
    first, second = field.ends.T
    n, L = field.unary.shape
    # Messages forth (to the second end) and back, in logarithms.
    forth = np.full(field.stay.shape, -np.log(L))
    back = forth.copy()
    settled, iteration = False, 0
    while not settled and iteration < most:
        iteration += 1
        total = _gathered(field, forth, back, n)
        sent = [
            _passed(total[first] - back, field.stay), _passed(total[second] - forth, field.stay)
        ]  # fmt: skip
        change = 0.0
        for old, new in zip((forth, back), sent):
            before = np.exp(old)
            mixed = (1 - damping) * new + damping * before
            change = max(change, float(np.abs(mixed - before).max(initial=0.0)))
            old[:] = np.log(np.maximum(mixed, LEAST))
        settled = change < STILL
    total = _gathered(field, forth, back, n)
    nodes = _normalised(total)
    p, q = _normalised(total[first] - back), _normalised(total[second] - forth)
    leaving, pairs = _leaving(p, q, field.stay)
    # Z = prod_nodes Z_d prod_edges Z_de / prod of what a message and its way back share.
    shared = (p * np.exp(back)).sum(axis=1) * (q * np.exp(forth)).sum(axis=1)
    log_z = logsumexp(total, axis=1).sum() + (np.log(pairs) - np.log(shared)).sum()
    return Beliefs(nodes, leaving, float(log_z), iteration, settled)


def _gathered(field: Field, forth: Floats, back: Floats, n: int) -> Floats:
    """The logarithm of every node's own factor times all messages to it."""
    first, second = field.ends.T
    total = -field.unary
    for k in range(total.shape[1]):
        total[:, k] += np.bincount(second, forth[:, k], n) + np.bincount(first, back[:, k], n)
    return total


def _passed(logs: Floats, stay: Floats) -> Floats:
    """sum_k exp(logs_k) V(k, l), V(k, l) = stay_k stay_l for k != l, else 1; normalised."""
    h = _normalised(logs)
    out = stay * (h * stay).sum(axis=1, keepdims=True) + h * (1 - stay * stay)
    return np.asarray(out / out.sum(axis=1, keepdims=True))


def _leaving(p: Floats, q: Floats, stay: Floats) -> tuple[Floats, Floats]:
    """P(just one end has label k), from what both ends believe without the edge between them.

    Also the sum over all pairs of labels, by which it is divided.
    """
    a, b = p * stay, q * stay
    # The weight of all pairs of different labels, of those with k at the one end, at the other.
    both = a.sum(axis=1) * b.sum(axis=1) - (a * b).sum(axis=1)
    one = a * (b.sum(axis=1, keepdims=True) - b) + b * (a.sum(axis=1, keepdims=True) - a)
    pairs = both + (p * q).sum(axis=1)
    return one / pairs[:, None], pairs


def _normalised(logs: Floats) -> Floats:
    h = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(h / h.sum(axis=1, keepdims=True))


def log_likelihood(
    problem: Problem, labels: NDArray[np.uint8], rows: Floats, most: int = MOST
) -> tuple[float, Floats, Beliefs]:
    """Give log p(y) / n by Bethe's Z, its gradient like rows, (L, F + G), and the beliefs."""
    field = Field.of(problem, rows)
    found = believe(field, most=most)
    y, L = labels.ravel().astype(np.int64), len(rows)
    truth, (first, second) = np.eye(L)[y], field.ends.T
    differ = (truth[first] + truth[second]) * (y[first] != y[second])[:, None]
    energy = float((field.unary * truth).sum() - (np.log(field.stay) * differ).sum())
    assert problem.edge_features is not None
    nodes = (found.nodes - truth).T @ problem.node_features
    edges = (found.leaving - differ).T @ problem.edge_features
    slope = np.concatenate([nodes, edges], axis=1) / y.size
    return (-energy - found.log_z) / y.size, np.asarray(slope, np.float64), found
