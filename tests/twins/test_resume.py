"""A solver that is changed and solved again gives what a new one gives, and can prove it."""

import numpy as np
import pytest

import worlds

GRIDS = [((5, 6), 4), ((6, 5), 8), ((3, 3, 4), 6), ((3, 4, 3), 26), ((3, 3, 3), 18)]


def change(rng, solver, p, fixed, whole):
    """One random change of the solver and of the plain numbers."""
    n, m = p["unary"].size, len(p["edges"])
    kind = rng.integers(3)
    if kind == 0:
        at = rng.integers(0, n, rng.integers(1, n + 1))
        values = worlds.numbers(rng, at.size, whole)
        solver.set_unary(at, values)
        for i, v in zip(at, values):
            p["unary"][i] = v
    elif kind == 1 and m:
        at = rng.integers(0, m, rng.integers(1, m + 1))
        pq = worlds.pairs(rng, at.size, whole)
        solver.set_weights(at, pq)
        for e, v in zip(at, pq):
            p["pq"][e] = v
    else:
        at = rng.integers(0, n, rng.integers(1, 4))
        labels = rng.integers(-1, 2, at.size)
        solver.set_fixed(at, labels)
        for i, v in zip(at, labels):
            fixed[i] = v


@pytest.mark.parametrize("chunk", range(20))
def test_labels_after_changes_are_those_of_a_cold_solve(chunk):
    rng = np.random.default_rng([4, chunk])
    for sequence in range(100):
        whole = sequence % 3 != 0
        if rng.random() < 0.5:
            p = worlds.parts(rng, whole, most=25)
            make = worlds.energy_of
        else:
            shape, connectivity = GRIDS[rng.integers(len(GRIDS))]
            p = worlds.grid_parts(rng, whole, shape, connectivity)
            make = lambda p, s=shape, c=connectivity: worlds.grid_energy_of(p, s, c)  # noqa: E731
        solver = make(p).solver()
        fixed = np.full(p["unary"].size, -1)
        before = np.zeros(p["unary"].size, np.uint8)
        for _ in range(5):
            warm = solver.minimize()
            cold = make(p).minimize(fixed.reshape(warm.labels.shape))
            assert warm.labels.tolist() == cold.labels.tolist()
            assert warm.value == cold.value
            assert warm.changed.tolist() == np.flatnonzero(before != warm.labels.ravel()).tolist()
            before = warm.labels.ravel()
            solver.prove()
            for _ in range(rng.integers(1, 4)):
                change(rng, solver, p, fixed, whole)


@pytest.mark.parametrize("huge", [1e3, 1e15, 1e18, 1e19, 1e300])
def test_a_number_that_is_replaced_twice_at_once_leaves_no_trace(huge):
    rng = np.random.default_rng(6)
    for _ in range(20):
        p = worlds.parts(rng, False, most=12)
        if not len(p["edges"]):
            continue
        solver = worlds.energy_of(p).solver()
        solver.minimize()
        i, e = int(rng.integers(p["unary"].size)), int(rng.integers(len(p["edges"])))
        pq, value = worlds.pairs(rng, 1, False)[0], float(rng.normal())
        solver.set_weights(np.array([e, e]), np.array([[huge, huge], pq]))
        solver.set_unary(np.array([i, i]), np.array([huge, value]))
        p["pq"][e], p["unary"][i] = pq, value
        warm, cold = solver.minimize(), worlds.energy_of(p).minimize()
        assert warm.labels.tolist() == cold.labels.tolist()
        assert warm.value == cold.value
        solver.prove()


def test_min_marginals_leave_the_solver_as_it_was():
    rng = np.random.default_rng(5)
    p = worlds.grid_parts(rng, True, (6, 7), 8)
    solver = worlds.grid_energy_of(p, (6, 7), 8).solver()
    cut = solver.minimize()
    solver.min_marginals()
    solver.prove()
    again = solver.minimize()
    assert again.value == cut.value
    assert (again.labels == cut.labels).all()
    assert again.changed.size == 0


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(("shape", "connectivity"), [((23, 31), 4), ((19, 22), 8), ((7, 8, 9), 6)])
def test_all_numbers_changed_at_once_beside_a_cold_solve(shape, connectivity, whole):
    """More numbers than a block has, nodes fixed among them, symmetric weights or pairs."""
    rng = np.random.default_rng([11, connectivity, whole])
    p = worlds.grid_parts(rng, whole, shape, connectivity)
    n, m = p["unary"].size, len(p["edges"])
    solver = worlds.grid_energy_of(p, shape, connectivity).solver()
    fixed = np.full(n, -1)
    fixed[rng.choice(n, 20, replace=False)] = rng.integers(0, 2, 20)
    solver.set_fixed(np.arange(n), fixed)
    for moved in range(6):
        p["unary"] = worlds.numbers(rng, n, whole)
        solver.set_unary(np.arange(n), p["unary"])
        if moved % 2:
            p["pq"] = worlds.pairs(rng, m, whole)
            solver.set_weights(np.arange(m), p["pq"])
        else:
            weights = np.abs(worlds.numbers(rng, m, whole))
            p["pq"] = np.repeat(weights[:, None], 2, axis=1)
            solver.set_weights(np.arange(m), weights)
        warm = solver.minimize()
        cold = worlds.grid_energy_of(p, shape, connectivity).minimize(fixed.reshape(shape))
        assert (warm.labels == cold.labels).all()
        assert (warm.value, warm.lower_bound) == (cold.value, cold.lower_bound)
        solver.prove()
