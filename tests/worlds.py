"""Random energies for the tests, as plain numbers beside the Energy made of them."""

import numpy as np

import cutlearn as cl


def numbers(rng, size, whole):
    """Whole numbers with many zeros and ties, or floats of mixed scale."""
    if whole:
        return rng.integers(-6, 7, size).astype(float)
    return rng.standard_normal(size) * 10.0 ** rng.uniform(-4, 4, size)


def pairs(rng, m, whole):
    """p, q with p + q >= 0, one of them negative now and then."""
    pq = np.abs(numbers(rng, (m, 2), whole))
    negative = rng.random(m) < 0.3
    share = rng.random(m) if not whole else rng.integers(0, 2, m)
    pq[negative, 0] = -(pq[negative, 1] * share[negative])
    return pq[:, ::-1].copy() if rng.random() < 0.5 else pq


def envelope(rng, n, whole):
    members = rng.choice(n, rng.integers(0, n + 1), replace=False)
    k = rng.integers(1, 6)
    m = np.abs(numbers(rng, members.size, whole)) if rng.random() < 0.5 else np.ones(members.size)
    return members, numbers(rng, k, whole), 3 * numbers(rng, k, whole), m


def parts(rng, whole, most=10):
    """A random energy as numbers: a list of edges."""
    n = int(rng.integers(1, most + 1))
    m = int(rng.integers(0, 3 * n)) if n > 1 else 0
    edges = np.array([rng.choice(n, 2, replace=False) for _ in range(m)], int).reshape(-1, 2)
    return {
        "unary": numbers(rng, n, whole),
        "edges": edges,
        "pq": pairs(rng, m, whole),
        "envelopes": [envelope(rng, n, whole) for _ in range(rng.integers(0, 4))],
    }


def grid_parts(rng, whole, shape, connectivity):
    """The same over a grid; edges in the order of grid_edges."""
    n = int(np.prod(shape))
    edges = np.concatenate(cl.grid_edges(shape, connectivity))
    return {
        "unary": numbers(rng, n, whole),
        "edges": edges,
        "pq": pairs(rng, len(edges), whole),
        "envelopes": [envelope(rng, n, whole) for _ in range(rng.integers(0, 2))],
    }


def envelopes_of(p):
    return [cl.Envelope(members, a, b, m) for members, a, b, m in p["envelopes"]]


def energy_of(p):
    return cl.Energy(p["unary"], p["edges"], p["pq"], envelopes_of(p))


def grid_energy_of(p, shape, connectivity):
    weights, start = [], 0
    for edges, (tail, _) in zip(
        cl.grid_edges(shape, connectivity), cl.grid.grid_slices(shape, connectivity)
    ):
        box = tuple(s.stop - s.start for s in tail)
        weights.append(p["pq"][start : start + len(edges)].reshape(*box, 2))
        start += len(edges)
    return cl.Energy.grid(p["unary"].reshape(shape), weights, connectivity, envelopes_of(p))
