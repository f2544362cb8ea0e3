"""The live handle: threads, masks as indices, growth beyond its scale, grid numbering."""

import threading

import numpy as np
import pytest

import cutlearn as cl

IN_USE = "this solver is at work in another thread; give each thread a solver of its own"


def blurred(shape, seed=0):
    from scipy.ndimage import gaussian_filter

    rng = np.random.default_rng(seed)
    f = gaussian_filter(rng.standard_normal(shape), 6.0)
    return f / f.std(), rng


def test_a_second_thread_is_refused_or_waits_never_worse():
    u, _ = blurred((400, 400))
    solver = cl.Energy.grid(u, 1.0, 8).solver()
    expected = cl.Energy.grid(u, 1.0, 8).minimize().labels
    answers, refused = [], []

    def work():
        for _ in range(10):
            try:
                answers.append(solver.minimize().labels)
            except RuntimeError as error:
                refused.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert answers
    assert len(answers) + len(refused) == 40
    assert [(labels != expected).sum() for labels in answers] == [0] * len(answers)
    assert set(refused) <= {IN_USE}


def test_a_second_thread_is_refused_while_the_first_is_at_work():
    solver = cl.Energy([1.0, -1.0], [[0, 1]], [0.5]).solver()
    for asked in (solver.minimize, solver.min_marginals, solver.prove):
        with solver._alone(), pytest.raises(RuntimeError) as refused:
            asked()
        assert str(refused.value) == IN_USE
    assert solver.minimize().labels.tolist() == [0, 1]


def test_the_interpreter_runs_while_a_cut_is_solved():
    u, _ = blurred((700, 700))
    energy = cl.Energy.grid(u, 1.0, 8)
    ticks, done = [], threading.Event()

    def tick():
        while not done.wait(0.002):
            ticks.append(1)

    watcher = threading.Thread(target=tick)
    watcher.start()
    solver = energy.solver()
    before = len(ticks)
    solver.minimize()
    during = len(ticks) - before
    done.set()
    watcher.join()
    assert during > 3


def test_masks_and_scalars_as_changes():
    energy = cl.Energy.grid(np.ones((3, 4)), 0.25)
    solver = energy.solver()
    mask = np.zeros((3, 4), bool)
    mask[1] = True
    solver.set_unary(mask, -2.0)
    cut = solver.minimize()
    assert (cut.labels == mask).all()
    assert cut.changed.tolist() == [4, 5, 6, 7]
    solver.set_fixed(mask, 0)
    assert solver.minimize().labels.sum() == 0
    solver.set_fixed(mask, -1)
    assert (solver.minimize().labels == mask).all()


def test_grid_edges_number_the_weights():
    shape = (3, 4, 2)
    for connectivity in (6, 10, 18, 26):
        edges = np.concatenate(cl.grid_edges(shape, connectivity))
        for e in range(0, len(edges), 7):
            u = np.zeros(24)
            u[edges[e]] = -1.0, 0.5
            solver = cl.Energy.grid(u.reshape(shape), 0.0, connectivity).solver()
            solver.set_weights([e], [0.75])
            labels = solver.minimize().labels.ravel()
            assert labels[edges[e]].tolist() == [1, 1]
            assert labels.sum() == 2


def test_growth_beyond_the_scale_rebuilds():
    solver = cl.Energy([1.0, -1.0], [[0, 1]], [0.5]).solver()
    assert solver.minimize().labels.tolist() == [0, 1]
    solver.set_unary([0], [-1e200])
    cut = solver.minimize()
    assert cut.labels.tolist() == [1, 1]
    assert cut.changed.tolist() == [0]
    solver.set_unary([0], [1e-200])
    solver.set_weights([0], [1e-300])
    assert solver.minimize().labels.tolist() == [0, 1]
    solver.prove()


def test_values_of_the_wrong_size_are_refused():
    solver = cl.Energy([1.0, -1.0], [[0, 1]], [0.5]).solver()
    with pytest.raises(cl.InputError, match=r"values has shape \(3,\), but must have shape \(2,\)"):
        solver.set_unary([0, 1], [1.0, 2.0, 3.0])
    with pytest.raises(cl.InputError, match=r"pq has shape \(2, 3\)"):
        solver.set_weights([0, 0], [[1.0, 2.0, 3.0]] * 2)


def test_a_proof_can_fail():
    solver = cl.Energy([1.0, -1.0], [[0, 1]], [0.5]).solver()
    solver.minimize()
    solver._terms.unary[0] = 7.0  # behind the solver's back
    with pytest.raises(AssertionError, match="broken"):
        solver.prove()
