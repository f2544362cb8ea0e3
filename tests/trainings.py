"""Random trainings with features of any size, and exact arithmetic on what they claim.

A claim is false if the lower bound is above the objective of some weights that keep the
constraints, or if the gap does not cover the objective of the weights that were returned. The
objective is a sum of fractions here. Weights are looked for by linear and quadratic programs over
all planes, in several units of the features and counted from the best weights so far.
"""

import math
import warnings
from fractions import Fraction
from itertools import product
from typing import NamedTuple

import daqp
import numpy as np
from scipy.optimize import linprog

import cutlearn as cl
from cutlearn.learn.learners import LEARNERS

DECADES = 3.0
MARGIN = [name for name, one in LEARNERS.items() if one.margin]


class World(NamedTuple):
    """A training set, and the options of `train`."""

    problems: list
    labels: list
    options: dict


def draw(rng, learner=None):
    """Draw a training set; feature sizes span six decades, between columns and within them."""
    learner = learner or MARGIN[rng.integers(len(MARGIN))]
    edges = bool(rng.random() < 0.5)
    d, count = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    column = 10.0 ** rng.uniform(-DECADES, DECADES, d) if rng.random() < 0.7 else np.ones(d)
    within = rng.choice([0.0, 0.0, DECADES])
    bias, dependent, line = rng.random(3) < (0.5, 0.2, 0.2)
    truth = rng.normal(size=d) / column
    problems, labels = [], []
    for _ in range(count):
        n = int(rng.integers(1, 7)) if edges else int(rng.integers(1, 42 // count))
        f = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-within, within, (n, d)) * column
        if line:
            f[:, 0] = np.linspace(-1, 1, n) * 10.0 ** rng.uniform(-DECADES, DECADES)
            f[-1, 0] = 10.0 ** rng.uniform(-DECADES, DECADES)
        if dependent and d > 2:
            f[:, 2] = f[:, 0] - 3 * f[:, 1]
        if bias:
            f[:, -1] = 1.0
        noise = rng.choice([0.0, 0.1, 1.0])
        score = f @ truth
        y = (score + noise * np.abs(score).max() * rng.normal(size=n) < 0).astype(np.uint8)
        pairs = [(i, j) for i in range(n) for j in range(i) if rng.random() < 0.6]
        if edges and pairs:
            g = rng.uniform(0, 1, (len(pairs), 2)) * 10.0 ** rng.uniform(-2, 2, 2)
            problems.append(cl.Problem(f, pairs, g))
        else:
            extra = {"edges": np.zeros((0, 2), int), "edge_features": np.zeros((0, 2))}
            problems.append(cl.Problem(f, **(extra if edges else {})))
        labels.append(y)
    free = LEARNERS[learner].allows_infinite_C and rng.random() < 0.7
    C = math.inf if free else 10.0 ** rng.uniform(-3, 7)
    options = {
        "learner": learner, "C": C, "tol": 10.0 ** rng.uniform(-5, -1.5),
        "loss": "count" if edges and rng.random() < 0.3 else "hamming",
        "normalize": ("pixels", "loss", "none")[rng.integers(3)],
        "groups": int(rng.integers(1, count + 1)) if rng.random() < 0.5 else None,
        "max_steps": 200,
    }  # fmt: skip
    return World(problems, labels, options)


def planes(world):
    """All planes of each image as lists of rows b, a in fractions, grouped by what is maximised.

    Without edges every node is maximised by itself.
    """
    out = []
    for problem, y in zip(world.problems, world.labels):
        n = len(y)
        r = Fraction(1) if world.options["normalize"] == "none" else Fraction(1, n)
        s = Fraction(1, n) if world.options["normalize"] == "pixels" else Fraction(1)
        f = [[Fraction(float(v)) for v in row] for row in problem.node_features]
        g = [[Fraction(float(v)) for v in row] for row in problem.edge_features]
        if problem.n_edge_features == 0 and world.options["loss"] == "hamming":
            for i in range(n):
                sign = 1 if y[i] else -1
                out.append([[r, *(s * sign * v for v in f[i])]])
            continue
        ends = [] if problem.edges is None else problem.edges.tolist()
        group = []
        for found in product((0, 1), repeat=n):
            wrong = sum(a != b for a, b in zip(found, y.tolist()))
            off = abs(sum(found) - int(y.sum()))
            a = [Fraction(0)] * problem.n_weights
            for i, (now, wanted) in enumerate(zip(found, y.tolist())):
                for j, v in enumerate(f[i]):
                    a[j] += (wanted - now) * v
            for (i, j), row in zip(ends, g):
                change = int(y[i] != y[j]) - int(found[i] != found[j])
                for k, v in enumerate(row):
                    a[problem.n_node_features + k] += change * v
            delta = wrong if world.options["loss"] == "hamming" else off
            group.append([r * delta, *(s * v for v in a)])
        out.append(group)
    return out


class Exact:
    """The objective of a world in exact arithmetic, and weights that make it small."""

    def __init__(self, world):
        self.count, self.groups = len(world.problems), planes(world)
        self.lam = 0 if world.options["C"] == math.inf else 1 / Fraction(world.options["C"])
        first = world.problems[0]
        self.signed = [False] * first.n_node_features + [True] * first.n_edge_features
        flat = [(k, row) for k, group in enumerate(self.groups) for row in group]
        self.member = np.array([k for k, _ in flat])
        self.b = np.array([float(row[0]) for _, row in flat])
        self.a = np.array([[float(v) for v in row[1:]] for _, row in flat])
        # Whole numbers over one denominator are added faster than fractions.
        self.unit = math.lcm(*(v.denominator for _, row in flat for v in row))
        self.rows = np.array([[int(v * self.unit) for v in row] for _, row in flat], object)

    def heights(self, w):
        """Return the heights of all planes at w, in order, and what they must be divided by."""
        w = [Fraction(float(v)) for v in w]
        unit = math.lcm(*(v.denominator for v in w))
        return self.rows @ np.array([unit, *(int(v * unit) for v in w)], object), self.unit * unit

    def value(self, w):
        """Return the objective at w."""
        heights, unit = self.heights(w)
        most = np.zeros(len(self.groups), object)
        np.maximum.at(most, self.member, heights)
        square = sum(Fraction(float(v)) ** 2 for v in w)
        return self.lam * square / 2 + Fraction(sum(most.tolist()), unit * self.count)

    def feasible(self, w):
        """Return w moved to where edge weights are at least zero."""
        return np.where(self.signed, np.maximum(w, 0.0), w)

    def best(self, starts, rounds=4):
        """Return the least objective that is found from these weights, and where."""
        known = [(self.value(w), w) for w in starts]
        value, w = min(known, key=lambda one: one[0])
        for _ in range(rounds):
            for scale in self.scales():
                for found in self.steps(w, scale, float(value)):
                    found = self.feasible(found)
                    if np.isfinite(found).all() and (now := self.value(found)) < value:
                        value, w = now, found
            if value == 0:
                break
        return value, w

    def scales(self):
        """Return units of the weights: by the largest, the middle and the least slopes."""
        sizes = np.abs(self.a)
        sizes[sizes == 0] = np.nan
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows = [np.nanmax(sizes, 0), np.nanmedian(sizes, 0), np.nanmin(sizes, 0)]
        return [np.where(np.isfinite(row), row, 1.0) for row in rows]

    def steps(self, w, scale, upper):
        """Return minimisers by float solvers, counted from w, where planes are exact."""
        unit = max(upper, 1e-300)
        heights, over = self.heights(w)
        b = np.array([h / over for h in heights]) / unit
        a = self.a / scale
        d, k = a.shape[1], len(self.groups)
        slack = np.zeros((len(b), k))
        slack[np.arange(len(b)), self.member] = -1.0
        matrix = np.concatenate([a, slack], axis=1)
        low = np.concatenate([np.where(self.signed, -w * scale / unit, -np.inf), np.zeros(k)])
        if self.lam == 0:
            cost = np.concatenate([np.zeros(d), np.ones(k)])
            steep = np.maximum(np.abs(matrix).max(axis=1), 1e-300)
            for rows in (np.ones(len(b)), steep):
                found = linprog(
                    cost, matrix / rows[:, None], -b / rows, method="highs",
                    bounds=list(zip(low, [None] * (d + k))),
                )  # fmt: skip
                if found.x is not None:
                    yield w + found.x[:d] * unit / scale
            return
        size = np.sqrt(2 * upper / float(self.lam))
        near = np.minimum(unit / scale, size)
        for step in (near, np.full(d, size), np.sqrt(near * size)):
            hessian = np.diag(np.concatenate([float(self.lam) * step**2 / unit, np.zeros(k)]))
            linear = np.concatenate([float(self.lam) * w * step / unit, np.full(k, 1 / self.count)])
            rows = np.concatenate([self.a * (step / unit), slack], axis=1)
            least = np.concatenate([np.where(self.signed, -w / step, -1e30), np.zeros(k)])
            x, _, flag, _ = daqp.solve(
                hessian, linear, np.concatenate([np.eye(d + k), rows]),
                np.concatenate([np.full(d + k, 1e30), -b]),
                np.concatenate([least, np.full(len(b), -1e30)]), None, eps_prox=1e-6,
            )  # fmt: skip
            if flag == 1:
                yield w + np.asarray(x[:d]) * step


def fault_of(world):
    """Train on a world; return what is false about the result, or nothing, and the result."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cl.ConvergenceWarning)
        result = cl.train(world.problems, world.labels, **world.options)
    exact = Exact(world)
    at = exact.value(result.w)
    if not (np.isfinite(result.w).all() and (exact.feasible(result.w) == result.w).all()):
        return "weights", result
    if at > Fraction(float(result.lower_bound)) + Fraction(float(result.gap)):
        return "gap", result
    if result.lower_bound > 0:
        least, _ = exact.best([result.w, np.zeros(len(result.w))])
        if least < Fraction(float(result.lower_bound)):
            return "lower bound", result
    return "", result
