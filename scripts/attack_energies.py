"""Random energies against enumeration: cuts, bounds, min-marginals, planes, likelihoods, voids.

    python scripts/attack_energies.py [--count 1000] [--seed 0]

Of each kind so many energies are drawn: binary ones with envelopes and fixed nodes, on grids and as
lists; ordered ones with fixed nodes; planes and likelihoods of images with void pixels. Prints the
number of each kind and every failure; exits with 1 if there is one.
"""

import argparse
import sys
from itertools import product

import numpy as np

import cutlearn as cl
from cutlearn.energy.envelopes import EnvelopeSpec
from cutlearn.grid import grid_edges
from cutlearn.learn.oracle import training_image

SHAPES = [(2, 3), (3, 3), (1, 5), (2, 2), (1, 1), (4, 2)]


def labellings(n, L=2):
    """Return all labellings of n nodes."""
    return np.array(list(product(range(L), repeat=n)), int)


def numbers(rng, size):
    """Return whole numbers, fractions or numbers of many magnitudes."""
    kind = rng.integers(3)
    if kind == 0:
        return rng.integers(-9, 10, size) / 4.0
    return rng.normal(size=size) * (10.0 ** rng.integers(-4, 5, size) if kind == 1 else 1.0)


def drawn_edges(rng, n):
    """Return random pairs of nodes."""
    pairs = [rng.permutation(n)[:2] for _ in range(rng.integers(0, 2 * n))] if n > 1 else []
    return np.array(pairs, int).reshape(-1, 2)


def drawn_fixed(rng, n, L=2):
    """Return labels for some nodes, or None."""
    if rng.random() < 0.5:
        return None
    return np.where(rng.random(n) < 0.4, rng.integers(0, L, n), -1)


def compared(cut, marginals, values, y, fixed, size):
    """Return what is wrong with a cut and its min-marginals, given the value of every labelling."""
    allowed = np.ones(len(y), bool) if fixed is None else ((fixed < 0) | (y == fixed)).all(axis=1)
    least, tolerance = values[allowed].min(), 1e-11 * size + 1e-300
    labels = cut.labels.ravel()
    mine = values[(y == labels).all(axis=1)][0]
    if not allowed[(y == labels).all(axis=1)][0]:
        return "the labels are against fixed"
    if mine > least + tolerance or abs(cut.value - least) > tolerance:
        return f"value {cut.value} of labels of {mine}, least {least}"
    if cut.lower_bound > least + 1e-13 * size or cut.lower_bound < least - tolerance:
        return f"lower bound {cut.lower_bound}, least {least}"
    flat = marginals.reshape(labels.size, -1)
    for (d, k), found in np.ndenumerate(flat):
        some = allowed & (y[:, d] == k)
        wanted = values[some].min() if some.any() else np.inf
        if wanted != found and not abs(found - wanted) <= tolerance:
            return f"min-marginal {found} of node {d} and label {k}, not {wanted}"
    return ""


def binary(rng):
    """Return what is wrong with a random binary energy."""
    grid = rng.random() < 0.5
    shape = SHAPES[rng.integers(len(SHAPES))] if grid else (int(rng.integers(1, 9)),)
    n = int(np.prod(shape))
    edges = np.concatenate(grid_edges(shape, 4)) if grid else drawn_edges(rng, n)
    u, pq = numbers(rng, n), np.abs(numbers(rng, (len(edges), 2)))
    envelopes = []
    for _ in range(rng.integers(0, 3)):
        members = rng.permutation(n)[: rng.integers(1, n + 1)]
        lines = numbers(rng, (2, rng.integers(1, 5)))
        mass = rng.integers(1, 4, len(members)) * 1.0
        envelopes.append(cl.Envelope(members, *lines, weights=mass))
    if grid:
        ends = np.cumsum([len(part) for part in grid_edges(shape, 4)])[:-1]
        boxes = [(shape[0], shape[1] - 1, 2), (shape[0] - 1, shape[1], 2)]
        parts = [w.reshape(box) for w, box in zip(np.split(pq, ends), boxes)]
        energy = cl.Energy.grid(u.reshape(shape), parts, 4, envelopes)
    else:
        energy = cl.Energy(u, edges, pq, envelopes)
    more = numbers(rng, n) if rng.random() < 0.3 else np.zeros(n)
    if more.any():
        energy = energy.plus(more.reshape(shape))
    y = labellings(n)
    a, b = y[:, edges[:, 0]], y[:, edges[:, 1]]
    values = y @ u + y @ more + ((1 - a) * b) @ pq[:, 0] + (a * (1 - b)) @ pq[:, 1]
    size = np.abs(u).sum() + np.abs(more).sum() + pq.sum()
    for e in envelopes:
        s = y[:, e.members] @ e.weights
        lines = np.multiply.outer(s, e.slopes) + e.intercepts
        values = values + lines.min(axis=1)
        size += 4 * np.abs(lines).max() * len(e.slopes) * len(e.members)
    fixed = drawn_fixed(rng, n)
    given = None if fixed is None else fixed.reshape(shape)
    cut = energy.minimize(given, threads=int(rng.integers(1, 3)))
    wrong = compared(cut, energy.min_marginals(given), values, y, fixed, size)
    if wrong or rng.random() < 0.5:
        return wrong
    # A live solver after changes is as good as a new one.
    solver = energy.solver(given)
    solver.minimize()
    new = numbers(rng, n)
    solver.set_unary(np.arange(n), new)
    values = values + y @ (new - u - more)
    size += np.abs(new).sum()
    return compared(solver.minimize(), solver.min_marginals(), values, y, fixed, size)


def ordered(rng):
    """Return what is wrong with a random energy of ordered labels."""
    L, grid = int(rng.integers(2, 5)), rng.random() < 0.5
    shape = [(2, 2), (1, 4), (2, 3)][rng.integers(3)] if grid else (int(rng.integers(1, 6)),)
    n = int(np.prod(shape))
    if L == 4 and n > 5:
        L = 3
    edges = np.concatenate(grid_edges(shape, 4)) if grid else drawn_edges(rng, n)
    u = numbers(rng, (n, L))
    c = np.abs(numbers(rng, (len(edges), L, L)))
    c[:, 0], c[:, :, 0] = 0.0, 0.0
    tables = -np.cumsum(np.cumsum(c, axis=1), axis=2)
    tables += numbers(rng, (len(edges), L, 1)) + numbers(rng, (len(edges), 1, L))
    if grid:
        ends = np.cumsum([len(part) for part in grid_edges(shape, 4)])[:-1]
        boxes = [(shape[0], shape[1] - 1, L, L), (shape[0] - 1, shape[1], L, L)]
        parts = [t.reshape(box) for t, box in zip(np.split(tables, ends), boxes)]
        energy = cl.OrderedEnergy.grid(u.reshape(*shape, L), parts, 4)
    else:
        energy = cl.OrderedEnergy(u, edges, tables)
    y = labellings(n, L)
    values = u[np.arange(n), y].sum(axis=1)
    values = values + tables[np.arange(len(edges)), y[:, edges[:, 0]], y[:, edges[:, 1]]].sum(
        axis=1
    )
    fixed = drawn_fixed(rng, n, L)
    given = None if fixed is None else fixed.reshape(shape)
    size = L * (np.abs(u).sum() + 4 * np.abs(tables).sum())
    return compared(energy.minimize(given), energy.min_marginals(given), values, y, fixed, size)


def drawn_image(rng):
    """Return a problem with regions, its parts, its truth, void and fixed nodes."""
    grid = rng.random() < 0.5
    shape = (2, 3) if grid else None
    n = 6 if grid else int(rng.integers(2, 7))
    edges = np.concatenate(grid_edges(shape, 4)) if grid else drawn_edges(rng, n)
    f, g = rng.normal(size=(n, 2)), rng.uniform(0, 1, (len(edges), 2))
    regions = [[rng.permutation(n)[: rng.integers(1, n + 1)] for _ in range(2)]]
    truth = rng.integers(0, 2, n)
    void = rng.random(n) < rng.choice([0.0, 0.3, 0.7])
    void[rng.integers(n)] = False
    given = None if rng.random() < 0.7 else np.where(rng.random(n) < 0.3, truth, -1)
    form = {"shape": shape} if grid else {"edges": edges}
    problem = cl.Problem(f, edge_features=g, regions=regions, fixed=given, **form)
    return problem, f, g, edges, regions[0], truth, void, given


SPEC = EnvelopeSpec(3, "slopes")


def features(f, g, edges, regions, y, known):
    """Return psi of the known nodes, summed by hand."""
    alive = known[edges].all(axis=1)
    cut = alive & (y[edges[:, 0]] != y[edges[:, 1]])
    total = np.zeros(SPEC.lines + 1)
    for region in regions:
        left = region[known[region]]
        if left.size:
            total += SPEC.features(np.array([y[left].mean()]))[0]
    return np.concatenate([f[known & (y == 1)].sum(axis=0), g[cut].sum(axis=0), total])


def drawn_weights(rng):
    """Return weights inside the cone: edges >= 0, falling slopes."""
    slopes = np.sort(rng.normal(size=SPEC.lines))[::-1]
    return np.concatenate([rng.normal(size=2), rng.random(2), [rng.normal()], slopes])


def plane(rng):
    """Return what is wrong with the plane of an image with void pixels."""
    problem, f, g, edges, regions, truth, void, fixed = drawn_image(rng)
    known, w = ~void, drawn_weights(rng)
    loss = [cl.Hamming(), cl.Count()][rng.integers(2)]
    model = cl.Model([[cl.Unary(), cl.Contrast(), cl.Enveloped(SPEC)][k] for k in (0, 1, 2)])
    found = training_image(problem, np.where(void, 255, truth), model, 0, loss).plane(w)
    best, target = -np.inf, features(f, g, edges, regions, truth, known)
    for y in labellings(len(f)):
        if (y[void] != 0).any() or (fixed is not None and (y != fixed)[known & (fixed >= 0)].any()):
            continue
        off = (y - truth)[known]
        delta = np.abs(off).sum() if isinstance(loss, cl.Hamming) else abs(off.sum())
        rise = w @ (target - features(f, g, edges, regions, y, known))
        best = max(best, (delta + rise) / known.sum())
    height = found.value(w)
    return "" if abs(height - best) <= 1e-9 * (1 + abs(best)) else f"plane {height}, not {best}"


def likelihood(rng):
    """Return what is wrong with the likelihood of an image with void pixels."""
    problem, f, g, edges, regions, truth, void, fixed = drawn_image(rng)
    w, all_known = drawn_weights(rng), np.ones(len(f), bool)
    y = labellings(len(f))
    if fixed is not None:
        y = y[((fixed < 0) | (y == fixed)).all(axis=1)]
    values = np.array([w @ features(f, g, edges, regions, one, all_known) for one in y])
    logs = []
    for d in np.flatnonzero(~void):
        phi = [values[y[:, d] == k].min(initial=np.inf) for k in (0, 1)]
        logs.append(-phi[truth[d]] - np.logaddexp(-phi[0], -phi[1]))
    wanted = float(np.mean(logs))
    found, _ = cl.likelihood([problem], [np.where(void, 255, truth)], w, SPEC)
    return "" if abs(found - wanted) <= 1e-9 * (1 + abs(wanted)) else f"{found}, not {wanted}"


def main():
    """Draw, compare and count."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000, help="energies of each kind")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    failures = 0
    for number, kind in enumerate((binary, ordered, plane, likelihood)):
        for k in range(asked.count):
            wrong = kind(np.random.default_rng([asked.seed, number, k]))
            if wrong:
                failures += 1
                print(f"{kind.__name__} {asked.seed} {number} {k}: {wrong}", flush=True)
        print(f"{kind.__name__}: {asked.count} drawn, {failures} failures so far", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
