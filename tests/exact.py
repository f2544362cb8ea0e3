"""Energies in exact arithmetic: every float is a whole number of 2^-2148, products of two too.

`extreme_parts` draws energies that hurt: numbers from 1e-320 to 1e300, near ties, dyadic ones, sums
that cancel. Sixteen shares of the range keep most of them from being refused as too large.
"""

from itertools import product

import numpy as np

import cutlearn as cl

UNIT = 2148
SPREADS = (0, 2, 30, 60, 200, 520, 900, 1020)


def whole(x):
    """A float, or a float times another, in units of 2^-2148."""
    n, d = float(x).as_integer_ratio()
    return (n << UNIT) // d


def number(rng, spread):
    """A float of magnitude 2^-spread .. 2^spread, or zero, or a dyadic fraction."""
    kind = rng.integers(0, 8)
    if kind == 0:
        return 0.0
    sign = 1.0 if rng.random() < 0.5 else -1.0
    if kind < 3:
        return sign * float(rng.integers(1, 64)) / 8.0
    lowest = -1070 if spread > 800 and rng.random() < 0.2 else -spread
    return sign * float(np.ldexp(rng.uniform(0.5, 1), int(rng.integers(lowest, spread + 1))))


def extreme_parts(rng, most=6):
    """A random energy of numbers of any size, as numbers; None for each part that it has not."""
    spread = int(rng.choice(SPREADS))
    n = int(rng.integers(1, most + 1))
    m = int(rng.integers(0, 2 * n)) if n > 1 else 0
    edges = np.array([rng.choice(n, 2, replace=False) for _ in range(m)], int).reshape(-1, 2)
    columns = 2 if rng.random() < 0.3 else 1
    unary = np.array([[number(rng, spread) for _ in range(columns)] for _ in range(n)])
    tables = np.zeros((m, 2, 2))
    for table in tables:
        table[:] = [[number(rng, spread) for _ in range(2)] for _ in range(2)]
        if rng.random() < 0.7:
            table[0, 0] = table[1, 1] = 0.0
        # Submodular in exact arithmetic: raise t01 until it is.
        while whole(table[0, 1]) + whole(table[1, 0]) < whole(table[0, 0]) + whole(table[1, 1]):
            table[0, 1] = np.abs(table).sum() * 4 or 1.0
    envelopes = []
    for _ in range(rng.integers(0, 2) if spread < 500 else 0):
        members = rng.choice(n, rng.integers(1, n + 1), replace=False)
        k = int(rng.integers(1, 4))
        a, b = ([number(rng, spread // 2) for _ in range(k)] for _ in range(2))
        mass = [abs(number(rng, spread // 2)) for _ in members]
        envelopes.append((members, a, b, mass))
    fixed = None
    if rng.random() < 0.3:
        fixed = np.where(rng.random(n) < 0.3, rng.integers(0, 2, n), -1)
    return {"unary": unary, "edges": edges, "tables": tables, "envelopes": envelopes,
            "fixed": fixed}  # fmt: skip


def energy_of(p):
    """The Energy of such parts; tables as pairs p, q where their diagonals are zero."""
    unary = p["unary"][:, 0] if p["unary"].shape[1] == 1 else p["unary"]
    weights = p["tables"]
    if not np.einsum("mii->mi", weights).any():
        weights = np.stack([weights[:, 0, 1], weights[:, 1, 0]], axis=1)
    envelopes = [cl.Envelope(*e) for e in p["envelopes"]]
    return cl.Energy(unary, p["edges"], weights, envelopes)


def exact_energy(p, y):
    """E(y) in units of 2^-2148."""
    u = p["unary"]
    two = u.shape[1] == 2
    total = sum(whole(row[k]) if two else whole(row[0]) * int(k) for row, k in zip(u, y))
    total += sum(whole(t[y[i], y[j]]) for (i, j), t in zip(p["edges"], p["tables"]))
    for members, a, b, mass in p["envelopes"]:
        s = sum(whole(m) for m, i in zip(mass, members) if y[i])
        total += min((whole(ak) * s >> UNIT) + whole(bk) for ak, bk in zip(a, b))
    return total


def exact_minimum(p):
    """The least energy over all labelings that agree with the fixed labels."""
    n, fixed = len(p["unary"]), p["fixed"]
    free = [(0, 1) if fixed is None or fixed[i] < 0 else (int(fixed[i]),) for i in range(n)]
    return min(exact_energy(p, y) for y in product(*free))


def extreme_ordered_parts(rng):
    """Three labels on a chain: tables w |a - b| + r(a) + s(b), submodular up to rounding."""
    spread = int(rng.choice(SPREADS[:-2]))
    n = int(rng.integers(1, 5))
    unary = np.array([[number(rng, spread) for _ in range(3)] for _ in range(n)])
    steps = np.abs(np.subtract.outer(np.arange(3), np.arange(3)))
    tables = np.array([steps * abs(number(rng, spread)) for _ in range(n - 1)]).reshape(-1, 3, 3)
    if rng.random() < 0.5:
        tables += np.array([[[number(rng, spread)], [0.0], [number(rng, spread)]]] * (n - 1)
                           ).reshape(-1, 3, 1)  # fmt: skip
    edges = [(k, k + 1) for k in range(n - 1)]
    return {"unary": unary, "edges": edges, "tables": tables, "envelopes": [], "fixed": None}


def ordered_fault(p, cut):
    """The same for ordered labels."""

    def energy(y):
        total = sum(whole(row[k]) for row, k in zip(p["unary"], y))
        return total + sum(whole(t[y[i], y[j]]) for (i, j), t in zip(p["edges"], p["tables"]))

    least = min(energy(y) for y in product(range(3), repeat=len(p["unary"])))
    return _fault(cut, least, energy(cut.labels))


def _fault(cut, least, found):
    if np.isneginf(cut.lower_bound):
        return "no bound"
    value, bound = whole(cut.value), whole(cut.lower_bound)
    if bound > least:
        return "the lower bound is above the minimum"
    return "the labels are worse than certified" if found > value + (value - bound) else ""


def certificate_fault(p, cut):
    """What is wrong with a cut of these parts, in exact arithmetic; empty if nothing is."""
    if fault := _fault(cut, exact_minimum(p), exact_energy(p, cut.labels)):
        return fault
    if p["fixed"] is not None and ((p["fixed"] >= 0) & (p["fixed"] != cut.labels)).any():
        return "a fixed label was changed"
    return ""


def is_dyadic(p):
    """Whether all numbers are eighths below 2^10, without envelopes of fractional mass."""
    arrays = [p["unary"], p["tables"], *(np.array(x) for e in p["envelopes"] for x in e[1:])]
    flat = np.concatenate([np.ravel(a) for a in arrays])
    return bool((flat * 8 == np.rint(flat * 8)).all() and (np.abs(flat) < 1024).all())
