"""Problems small enough to enumerate, and what enumeration says about them."""

from dataclasses import replace
from itertools import product

import numpy as np
import piqp
from scipy.optimize import linprog

from cutlearn.energy.envelopes import EnvelopeSpec
from cutlearn.energy.problem import Problem
from linear_energies import constraints_of, psi


def labellings(n):
    """Every labelling of n nodes, (2^n, n)."""
    return np.array(list(product((0, 1), repeat=n)), np.uint8)


def random_problem(rng, n=None, features=3, edge_features=2, grid=False):
    """A random problem with at most 8 nodes, on a grid or on a random graph."""
    if grid:
        shape = [(2, 3), (2, 4), (3, 2), (1, 5), (1, 1), (2, 2)][rng.integers(6)]
        n = int(np.prod(shape))
        bare = Problem(np.ones((n, 1)), edge_features=None, shape=shape)
        count = len(full_grid_edges(bare))
        return Problem(
            rng.normal(size=(n, features)),
            edge_features=rng.uniform(0, 1, (count, edge_features)),
            shape=shape,
            connectivity=4,
        )
    n = n or int(rng.integers(2, 9))
    pairs = [(i, j) for i in range(n) for j in range(i)]
    chosen = rng.permutation(len(pairs))[: int(rng.integers(1, 2 * n))]
    edges = np.array([pairs[k] for k in chosen])
    return Problem(
        rng.normal(size=(n, features)), edges, rng.uniform(0, 1, (len(edges), edge_features))
    )


def full_grid_edges(problem):
    """The edges of a 4-connected 2-D grid, written out by hand."""
    h, w = problem.shape
    right = [(r * w + c, r * w + c + 1) for r in range(h) for c in range(w - 1)]
    down = [(r * w + c, r * w + w + c) for r in range(h - 1) for c in range(w)]
    return right + down


def hamming(labels, truth, weights=(1.0, 1.0)):
    """The Hamming loss in plain words; void nodes are free."""
    return float(sum(weights[t] for y, t in zip(labels, truth) if t != 255 and y != t))


def count(labels, truth, side="both", tolerance=0.0):
    """The count loss in plain words; void nodes are free."""
    known = truth != 255
    off = float(labels[known].sum()) - float(truth[known].sum())
    signed = {"both": abs(off), "over": off, "under": -off}[side]
    return max(0.0, signed - tolerance)


def regional_count(labels, truth, regions, side="both", tolerance=0.0):
    """The count loss of each region, summed."""
    return sum(count(labels[r], truth[r], side, tolerance) for r in regions)


def random_regions(rng, n):
    """Some overlapping sets of the n nodes."""
    sizes = rng.integers(1, n + 1, rng.integers(1, 4))
    return [np.sort(rng.permutation(n)[:size]) for size in sizes]


def with_regions(problem, regions):
    """The problem with these regions."""
    return replace(problem, regions=regions)


def random_vector(rng, spec):
    """A random concave envelope in the spec's form."""
    steps = np.sort(rng.normal(size=spec.lines))[::-1]
    return EnvelopeSpec(spec.lines, "slopes").convert(np.append(rng.normal(), steps), spec.form)


def planes(problem, truth, delta, normalize, envelope=None):
    """All planes (b, a) of a problem without void nodes, one for each labelling."""
    n = problem.n_nodes
    loss_scale = 1.0 if normalize == "none" else 1.0 / n
    energy_scale = 1.0 / n if normalize == "pixels" else 1.0
    every = labellings(n)
    b = np.array([loss_scale * delta(y, truth) for y in every])
    target = psi(problem, truth, envelope)
    a = np.array([energy_scale * (target - psi(problem, y, envelope)) for y in every])
    return b, a


def full_optimum(plane_lists, lam, rows, least):
    """The optimum with every plane of every image, by piqp, or HiGHS at lam = 0: objective, w."""
    d, k = plane_lists[0][1].shape[1], len(plane_lists)
    linear = np.array([0.0] * d + [1.0 / k] * k)
    matrix, bound = [], []
    for image, (b, a) in enumerate(plane_lists):
        slack = np.zeros((len(b), k))
        slack[:, image] = -1.0
        matrix.append(np.concatenate([a, slack], axis=1))
        bound.append(-b)
    matrix.append(np.concatenate([-rows, np.zeros((len(rows), k))], axis=1))
    bound.append(-least)
    matrix, bound = np.concatenate(matrix), np.concatenate(bound)
    if lam == 0:
        found = linprog(linear, matrix, bound, bounds=(None, None), method="highs")
        assert found.status == 0
        w = found.x[:d]
    else:
        w = _quadratic(np.diag([lam] * d + [0.0] * k), linear, matrix, bound)[:d]
    # The objective at the solver's w, all planes looked at: an upper bound of the optimum.
    risk = np.mean([(b + a @ w).max() for b, a in plane_lists])
    return 0.5 * lam * float(w @ w) + float(risk), w


def _quadratic(hessian, linear, matrix, bound):
    solver = piqp.DenseSolver()
    solver.settings.eps_abs = 1e-11
    solver.settings.eps_rel = 1e-11
    solver.setup(hessian, linear, None, None, matrix, None, bound, None, None)
    status = solver.solve()
    assert status == piqp.PIQP_SOLVED
    return np.array(solver.result.x)


def tiny_set(rng, grid=False, images=None):
    """Two or three random problems with random labels."""
    problems = [random_problem(rng, grid=grid) for _ in range(images or rng.integers(2, 4))]
    truth = [rng.integers(0, 2, p.n_nodes).astype(np.uint8) for p in problems]
    return problems, truth, constraints_of(problems[0])
