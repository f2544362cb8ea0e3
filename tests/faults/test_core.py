"""The core under attack: sizes beyond 32 bits, no nodes, no threads, arrays that change, Ctrl-C."""

import contextlib
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

import cutlearn as cl
from cutlearn.errors import InputError
from cutlearn.grid import check_grid


def blurred(shape, seed=0):
    f = gaussian_filter(np.random.default_rng(seed).standard_normal(shape), 6.0)
    return f / f.std()


def run(code, **options):
    """A child that may die without taking the tests with it."""
    asked = [sys.executable, "-c", code]
    return subprocess.run(asked, capture_output=True, text=True, timeout=250, **options)


@pytest.mark.parametrize(
    "make",
    [
        lambda: cl.Energy.grid(np.broadcast_to(0.0, (1, 1, 2**29)), 0.0, 6),
        lambda: cl.Energy.grid(np.broadcast_to(0.0, (2**16, 2**16)), 0.0),
        lambda: cl.Energy.grid(np.broadcast_to(0.0, (2**36, 2**20)), 0.0),
        lambda: cl.Energy(np.broadcast_to(0.0, 2**31)),
        lambda: cl.Energy(np.broadcast_to(0.0, (2**31, 2))),
        lambda: cl.Energy([0.0, 0.0], np.broadcast_to(np.array([0, 1]), (2**30, 2)), 1.0),
        lambda: cl.max_flow(np.broadcast_to(np.array([0, 1]), (2**30, 2)), 1.0, 0, 1),
        lambda: cl.OrderedEnergy.grid(np.broadcast_to(0.0, (2**15, 2**15, 3)), np.zeros((3, 3))),
    ],
)
def test_what_32_bits_cannot_count_is_refused_before_it_is_copied(make):
    with pytest.raises(InputError, match=r"one (graph|network) can have|at most|too many"):
        make()


def test_the_largest_grids_that_fit_are_not_refused():
    check_grid((40_000, 50_000), 8)
    check_grid((1_000, 1_000, 2_000), 26)


@pytest.mark.parametrize("shape", [(5, 0), (0, 5), (0, 0)])
def test_grids_without_pixels_have_answers_without_numbers(shape):
    energy = cl.Energy.grid(np.zeros(shape), 1.0)
    assert energy.minimize().labels.shape == shape
    assert energy.min_marginals().shape == (*shape, 2)
    assert energy.argmin_sums(weights=np.zeros(shape)).node.size == 0


def test_a_million_threads_are_as_good_as_one():
    energy = cl.Energy.grid(blurred((120, 100)), 0.5)
    truth = (blurred((120, 100), 1) > 0).astype(int)
    one = energy.argmin_sums(truth=truth)
    many = energy.argmin_sums(truth=truth, threads=10**6)
    assert np.array_equal(one.min_marginals, many.min_marginals)
    assert np.array_equal(one.node, many.node)
    assert np.array_equal(one.edge, many.edge)


FEW_THREADS = """
import resource
import numpy as np
import cutlearn as cl
from cutlearn.learn.train import train
rng = np.random.default_rng(0)
energy = cl.Energy.grid(rng.normal(size=(300, 300)), 0.3)
wanted = energy.min_marginals()
images = [cl.Problem(rng.normal(size=(400, 3))) for _ in range(64)]
labels = [(p.node_features[:, 0] > 0).astype(np.uint8) for p in images]
one = train(images, labels, C=1.0, n_jobs=1)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
# Room for one more thread, whose stack is a gigabyte, and for all the networks.
resource.setrlimit(resource.RLIMIT_AS, (used + 1_700_000_000,) * 2)
assert np.array_equal(energy.min_marginals(threads=60), wanted)
assert np.array_equal(train(images, labels, C=1.0, n_jobs=60).w, one.w)
print("as with one thread")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a limit of memory that Linux keeps")
def test_threads_that_cannot_start_are_done_without():
    import resource

    most = resource.getrlimit(resource.RLIMIT_STACK)[1]
    done = run(
        FEW_THREADS,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (2**30, most)),
    )
    assert done.stdout.strip() == "as with one thread", done.stderr[-2000:]


TOO_LARGE = """
import resource
import numpy as np
import cutlearn as cl
u = np.broadcast_to(np.float64(0), (4000, 4000))
energy = cl.Energy.grid(u, 1.0, 8)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 300_000_000,) * 2)
try:
    energy.minimize()
except MemoryError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a limit of memory that Linux keeps")
def test_a_network_without_room_tells_what_it_needs():
    done = run(TOO_LARGE)
    assert "about 1.5 GB" in done.stdout, done.stderr[-2000:]


def test_an_energy_keeps_nothing_that_the_caller_can_change():
    u, w = blurred((30, 30)), [np.full((30, 29), 0.5), np.full((29, 30), 0.5)]
    edges, pq = np.array([[0, 1], [1, 2]]), np.array([[1.0, 0.5], [0.25, 2.0]])
    grid, listed = cl.Energy.grid(u, w), cl.Energy(u[0, :3].copy(), edges, pq)
    wanted = grid.minimize().labels, listed.minimize().value
    for array in (u, *w, pq):
        array[:] = -7.0
    edges[:] = 2**40
    assert np.array_equal(grid.minimize().labels, wanted[0])
    assert listed.minimize().value == wanted[1]


def test_a_problem_keeps_no_indices_that_the_caller_can_change():
    edges, members = np.array([[0, 1], [1, 2]], np.int32), np.array([0, 2], np.int32)
    problem = cl.Problem(np.ones((3, 1)), edges=edges, regions=[[members]])
    edges[:], members[:] = 2**30, 2**30
    assert problem.edges.tolist() == [[0, 1], [1, 2]]
    assert problem.regions[0].members.tolist() == [0, 2]


def test_indices_that_another_thread_rewrites_cannot_lead_astray():
    solver = cl.Energy.grid(blurred((60, 60)), 0.5).solver()
    index = np.zeros(20_000, np.int64)
    done = threading.Event()

    def rewrite():
        while not done.is_set():
            index[:] = 2**45
            index[:] = 0

    writer = threading.Thread(target=rewrite)
    writer.start()
    try:
        for k in range(300):
            with contextlib.suppress(InputError):  # an index was seen beyond the last node
                solver.set_unary(index, float(k))
                solver.set_fixed(index, -1)
    finally:
        done.set()
        writer.join()
    assert solver.minimize().labels.shape == (60, 60)


def test_a_refused_change_changes_nothing():
    u = blurred((60, 60))
    solver = cl.Energy.grid(u, 0.5).solver()
    wanted = solver.minimize().labels
    with solver._alone():  # as if another thread were at work
        for change in (
            lambda: solver.set_fixed(np.arange(3600), 1),
            lambda: solver.set_unary(np.arange(3600), -9.0),
            lambda: solver.set_weights([0], 3.0),
        ):
            with pytest.raises(RuntimeError, match="another thread"):
                change()
    assert np.array_equal(solver.minimize().labels, wanted)
    solver.prove()


class Alarm(Exception):
    pass


@pytest.fixture
def alarm():
    def ring(*_):
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer on this system")
def test_a_signal_ends_min_marginals(alarm):
    solver = cl.Energy.grid(blurred((500, 500)), 1.5, 8).solver()
    solver.minimize()
    begin = time.thread_time()
    solver.min_marginals()
    whole = time.thread_time() - begin
    begin = time.thread_time()
    alarm(0.05)
    with pytest.raises(Alarm):
        solver.min_marginals()
    assert time.thread_time() - begin < whole / 2


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer on this system")
def test_a_solver_that_was_interrupted_goes_on_right(alarm):
    shape = (1200, 1200)
    energy = cl.Energy.grid(blurred(shape), 2.0, 8)
    solver, wanted = energy.solver(), energy.minimize()
    alarm(0.03)
    with pytest.raises(Alarm):
        solver.minimize()
    assert solver._flow.outgrown, "broken off in the middle"
    again = solver.minimize()
    assert np.array_equal(again.labels, wanted.labels)
    assert again.value == wanted.value
    solver.prove()
