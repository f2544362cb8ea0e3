"""Random energies of ordered labels as plain numbers, and what enumeration says about them."""

from itertools import product

import numpy as np

import cutlearn as cl
from worlds import numbers

MOST = {2: 8, 3: 6, 4: 5, 5: 4}  # nodes, so that enumeration stays small


def table(rng, L, whole):
    """A submodular table; some of its second differences are zero."""
    c = np.abs(numbers(rng, (L - 1, L - 1), whole)) * (rng.random((L - 1, L - 1)) < 0.6)
    V = numbers(rng, (L, 1), whole) + numbers(rng, (1, L), whole)
    for k in range(1, L):
        for j in range(1, L):
            V[k:, j:] -= c[k - 1, j - 1]
    return V


def parts(rng, whole):
    """Unary (n, L), edges (m, 2), one table each, and fixed labels, mostly none."""
    L = int(rng.integers(2, 6))
    n = int(rng.integers(1, MOST[L] + 1))
    m = int(rng.integers(0, 2 * n)) if n > 1 else 0
    unary = numbers(rng, (n, L), whole)
    if rng.random() < 0.2:
        unary[rng.random((n, L)) < 0.3] *= 2.0**30
    fixed = np.full(n, -1)
    if rng.random() < 0.3:
        some = rng.random(n) < 0.3
        fixed[some] = rng.integers(0, L, some.sum())
    return {
        "unary": unary,
        "edges": np.array([rng.choice(n, 2, replace=False) for _ in range(m)], int).reshape(-1, 2),
        "tables": np.array([table(rng, L, whole) for _ in range(m)]).reshape(-1, L, L),
        "fixed": fixed,
    }


def energy_of(p):
    return cl.OrderedEnergy(p["unary"], p["edges"], p["tables"])


def energies(p, Y):
    """E of each row of Y, in extended precision."""
    total = np.zeros(len(Y), np.longdouble)
    for t, u in enumerate(p["unary"]):
        total += u[Y[:, t]]
    for (i, j), V in zip(p["edges"], p["tables"]):
        total += V[Y[:, i], Y[:, j]]
    return total


def labelings(n, L, fixed):
    """All labelings that agree with fixed, one a row."""
    return np.array(list(product(*(range(L) if f < 0 else (f,) for f in fixed))), int).reshape(
        -1, n
    )


def min_marginals(Y, values, L):
    out = np.full((Y.shape[1], L), np.inf, np.longdouble)
    for t in range(Y.shape[1]):
        for label in range(L):
            rows = values[Y[:, t] == label]
            if rows.size:
                out[t, label] = rows.min()
    return out


def size(p):
    return np.abs(p["unary"]).sum() + np.abs(p["tables"]).sum()
