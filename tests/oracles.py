"""Slow twins: answers by enumeration, written from the formulas and sharing nothing with src."""

from itertools import product

import numpy as np


def labelings(n):
    """All 2^n labelings, one a row."""
    return np.array(list(product((0, 1), repeat=n)), dtype=np.int64).reshape(-1, n)


def energies(parts, Y):
    """E of each row of Y, in extended precision.

    parts: dict with unary (n,), edges (m, 2), pq (m, 2), envelopes [(members, a, b, m)].
    """
    wide = np.longdouble
    total = Y @ np.asarray(parts["unary"], wide)
    for (i, j), (p, q) in zip(parts["edges"], parts["pq"]):
        total = total + wide(p) * ((1 - Y[:, i]) * Y[:, j]) + wide(q) * (Y[:, i] * (1 - Y[:, j]))
    for members, a, b, m in parts["envelopes"]:
        s = Y[:, members] @ np.asarray(m, wide)
        lines = np.multiply.outer(s, np.asarray(a, wide)) + np.asarray(b, wide)
        total = total + lines.min(axis=1)
    return total


def allowed(Y, fixed):
    """The rows that agree with fixed (-1 is free)."""
    return ((fixed < 0) | (fixed == Y)).all(axis=1)


def minimal(Y, values):
    """The least value, and the intersection of all labelings that have it."""
    best = values.min()
    return best, Y[values == best].min(axis=0)


def min_marginals(Y, values):
    """(n, 2): least value with each node at each label, inf where no row has it."""
    out = np.full((Y.shape[1], 2), np.inf, np.longdouble)
    for i in range(Y.shape[1]):
        for k in (0, 1):
            rows = values[Y[:, i] == k]
            if rows.size:
                out[i, k] = rows.min()
    return out
