"""Machines small enough to enumerate, and their slow twins."""

import itertools

import numpy as np

import cutlearn as cl


def numbers(seed, n=7, m=4, m2=0, edges=0, scale=1.0):
    """Random W, c, b (W2, c2) and edges of a machine, as keywords."""
    rng = np.random.default_rng(seed)
    given = {
        "W": scale * rng.normal(size=(n, m)),
        "c": scale * rng.normal(size=m),
        "b": scale * rng.normal(size=n),
    }
    if m2:
        given |= {"W2": scale * rng.normal(size=(m, m2)), "c2": scale * rng.normal(size=m2)}
    if edges:
        pairs = np.array(list(itertools.combinations(range(n), 2)))
        given["edges"] = pairs[rng.permutation(len(pairs))[:edges]]
        given["weights"] = rng.uniform(0, 1, edges)
    return given


def machine(seed, **sizes):
    return cl.Boltzmann(**numbers(seed, **sizes))


def bits(n):
    return [np.array(b, np.int8) for b in itertools.product((0, 1), repeat=n)]


def slow_energy(given, y, h, h2=None):
    """E term by term, in plain loops."""
    total = 0.0
    for i, on in enumerate(y):
        total -= given["b"][i] * on
        for j, unit in enumerate(h):
            total -= given["W"][i, j] * on * unit
    for j, unit in enumerate(h):
        total -= given["c"][j] * unit
    if h2 is not None:
        for k, top in enumerate(h2):
            total -= given["c2"][k] * top
            for j, unit in enumerate(h):
                total -= given["W2"][j, k] * unit * top
    for (i, j), w in zip(given.get("edges", ()), given.get("weights", ())):
        total += w * (y[i] != y[j])
    return total


def all_states(given):
    """Every (y, *hidden) with its slow energy."""
    sizes = [given["b"].size, given["c"].size] + ([given["c2"].size] if "c2" in given else [])
    for layers in itertools.product(*(bits(size) for size in sizes)):
        yield layers, slow_energy(given, *layers)
