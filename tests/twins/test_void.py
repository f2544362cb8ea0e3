"""Void pixels in max-margin training: every potential and kind of labels, by enumeration.

The planes of all labellings of the known nodes are summed by hand, over known nodes and over edges
between two of them; nodes keep their numbers, which a potential may look at.
"""

from itertools import product

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.energy.envelopes import EnvelopeSpec
from cutlearn.energy.potentials import OwnUnary
from cutlearn.errors import InputError
from cutlearn.learn.oracle import training_image
from recipes.test_potential import Across

SHAPE = (2, 3)
N = 6
ENDS = [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)]
REGIONS = [[0, 1, 2, 4], [3, 4, 5], [2]]
SPEC = EnvelopeSpec(3, "samples", "node")
COLUMNS = ((1, 2), (2, 0), (0, 1), (1, 0))


def unary(f, g, y, known, L):
    if L == 0:
        return sum((f[i] for i in range(N) if known[i] and y[i]), np.zeros(3))
    rows = [[f[i] for i in range(N) if known[i] and y[i] == k] for k in range(L)]
    return np.concatenate([np.sum([*row, np.zeros(3)], axis=0) for row in rows])


def contrast(f, g, y, known, L):
    alive = [e for e, (i, j) in enumerate(ENDS) if known[i] and known[j]]
    if L == 0:
        cut = [g[e] for e in alive if y[ENDS[e][0]] != y[ENDS[e][1]]]
        return np.sum([*cut, np.zeros(2)], axis=0)
    tables = np.zeros((2, L, L))
    for e in alive:
        tables[:, y[ENDS[e][0]], y[ENDS[e][1]]] += g[e]
    return tables.ravel()


def across(f, g, y, known, L):
    return np.array(
        [sum(float(known[i] and known[j] and y[i] != y[j]) for i, j in ENDS if j == i + 1)]
    )


def enveloped(f, g, y, known, L):
    total = np.zeros(SPEC.lines + 1)
    for region in REGIONS:
        left = [i for i in region if known[i]]
        if left:
            share = sum(bool(y[i]) for i in left) / len(left)
            total += len(left) * SPEC.features(np.array([share]))[0]
    return total


def own(f, g, y, known, L):
    at = [i for i in range(N) if known[i]]
    areas = np.bincount([y[i] for i in at], minlength=L)
    sums = [sum(f[i, COLUMNS[y[i]][s]] for i in at) for s in range(2)]
    return np.concatenate([areas, sums])


def borders(f, g, y, known, L):
    out = np.zeros((2, L))
    for e, (i, j) in enumerate(ENDS):
        if known[i] and known[j] and y[i] != y[j]:
            out[:, y[i]] += g[e]
            out[:, y[j]] += g[e]
    return out.ravel()


BINARY = [cl.Unary(), cl.Contrast()]
# A model; psi by hand; L for several labels.
CASES = {
    "binary": (cl.Model(BINARY), [unary, contrast], 0),
    "envelope": (cl.Model([*BINARY, cl.Enveloped(SPEC)]), [unary, contrast, enveloped], 0),
    "recipe": (cl.Model([*BINARY, Across()]), [unary, contrast, across], 0),
    "recipe alone": (cl.Model([Across(), cl.Unary()]), [across, unary], 0),
    "ordered": (cl.Model(BINARY, "ordered", 3), [unary, contrast], 3),
    "unordered": (cl.Model(BINARY, "unordered", 3), [unary, contrast], 3),
    "own": (
        cl.Model([OwnUnary(columns=COLUMNS), cl.Contrast()], "unordered", 4),
        [own, borders],
        4,
    ),
}


def drawn_weights(rng, model, problem):
    """Weights inside the cone of the constraints."""
    layout = model.layout(problem)
    z = rng.normal(size=layout.size)
    if "ordered" in model.labels.name:
        return layout.inside(z)
    A, bounded = layout.coordinates(problem, np.eye(3))
    w = A @ np.where(bounded, np.abs(z), z)
    w[layout.slice_of("across")] = rng.random()
    return w


def drawn_void(rng, turn):
    """A random mask; now and then one node, or none, is known to be void."""
    void = rng.random(N) < (0.0, 0.2, 0.5, 0.9)[turn % 4]
    void[rng.integers(N)] = False
    return void


def both_forms(f, g):
    """The same problem on a grid and as a list."""
    regions = [np.array(r) for r in REGIONS]
    return [
        cl.Problem(f, edge_features=g, regions=regions, shape=SHAPE, connectivity=4),
        cl.Problem(f, ENDS, g, regions),
    ]


@pytest.mark.parametrize("turn", range(12))
@pytest.mark.parametrize("case", CASES)
def test_planes_are_those_of_the_known_nodes(case, turn):
    rng = np.random.default_rng([91, turn, len(case)])
    model, parts, L = CASES[case]
    f, g = rng.normal(size=(N, 3)), rng.uniform(0, 1, (len(ENDS), 2))
    void = drawn_void(rng, turn)
    known, many = ~void, max(L, 2)
    truth = rng.integers(0, many, N)
    wanted = np.concatenate([p(f, g, truth, known, L) for p in parts])
    rows, size = [], known.sum()
    for labels in product(range(many), repeat=int(size)):
        y = np.zeros(N, int)
        y[known] = labels
        a = wanted - np.concatenate([p(f, g, y, known, L) for p in parts])
        rows.append(np.concatenate([[(y != truth)[known].sum()], a]) / size)
    rows = np.array(rows)
    for problem in both_forms(f, g):
        task = training_image(problem, np.where(void, 255, truth), model, 0, cl.Hamming())
        w = drawn_weights(rng, model, problem)
        heights = rows @ np.concatenate([[1.0], w])
        for oracle in (task.plane, task.plane_of_terms):
            plane = oracle(w)
            found = np.concatenate([[plane.b], plane.a])
            assert np.abs(rows - found).max(axis=1).min() < 1e-9, "it belongs to a labelling"
            assert plane.value(w) <= heights.max() + 1e-9
            if model.labels.exact:
                assert plane.value(w) == pytest.approx(heights.max(), abs=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_a_mask_that_is_void_everywhere_is_refused(case):
    model = CASES[case][0]
    for problem in both_forms(np.ones((N, 3)), np.ones((len(ENDS), 2))):
        with pytest.raises(InputError, match="all void"):
            training_image(problem, np.full(N, 255), model, 0, cl.Hamming())


@pytest.mark.parametrize("labels", ["binary", "ordered", "surrogate"])
def test_a_likelihood_of_void_alone_is_refused(labels):
    for problem in both_forms(np.ones((N, 3)), np.ones((len(ENDS), 2))):
        with pytest.raises(InputError, match="all void"):
            cl.likelihood([problem], [np.full(N, 255)], np.ones(5), cl.Model(BINARY, labels))


@pytest.mark.parametrize("case", CASES)
def test_energy_of_a_training_problem_is_w_times_psi(case):
    rng = np.random.default_rng([92, len(case)])
    model = CASES[case][0]
    for turn in range(8):
        f, g = rng.normal(size=(N, 3)), rng.uniform(0, 1, (len(ENDS), 2))
        void = drawn_void(rng, turn)
        for problem in both_forms(f, g):
            y = rng.integers(0, model.n_labels, N)
            kept, _ = problem.training(np.where(void, 255, y), model.n_labels)
            w = drawn_weights(rng, model, problem)
            energy = model.energy(kept, w)
            psi = model.psi(kept, y)
            assert energy.value(y.reshape(energy.shape)) == pytest.approx(w @ psi, abs=1e-9)


def test_unordered_labels_learn_the_same_from_a_grid_and_a_list():
    rng = np.random.default_rng(93)
    model, _, L = CASES["own"]
    truth = [rng.integers(0, L, N) for _ in range(3)]
    void = [drawn_void(rng, 2) for _ in truth]
    forms = list(zip(*(both_forms(rng.normal(size=(N, 3)), np.ones((7, 2))) for _ in truth)))
    labels = [np.where(v, 255, y) for v, y in zip(void, truth)]
    grid, listed = (cl.train(list(p), labels, C=1.0, model=model, tol=1e-6) for p in forms)
    assert grid.objective == pytest.approx(listed.objective, rel=1e-4)
