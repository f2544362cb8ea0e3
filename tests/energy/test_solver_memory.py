"""The memory of one cut serves the next: nothing of the last energy may be left in it."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import cutlearn as cl

SHAPES = [(150, 160), (420, 400), (760, 700)]  # small blocks, kept ones, and large pages


def energies(shape, count):
    """Energies that leave flow on most edges, of whole numbers and of others in turn."""
    for seed in range(count):
        rng = np.random.default_rng([seed, *shape])
        unary = rng.normal(0, 40, shape)
        weights = [rng.uniform(0, 30, (shape[0] - i, shape[1] - j)) for i, j in ((0, 1), (1, 0))]
        if seed % 2:
            unary, weights = np.rint(unary), [np.rint(w) for w in weights]
        yield cl.Energy.grid(unary, weights)


@pytest.mark.parametrize("shape", SHAPES)
def test_cuts_one_after_the_other_are_proved(shape):
    for energy in energies(shape, 4):
        once = energy.minimize()
        solver = energy.solver()
        again = solver.minimize()
        solver.prove()
        assert (once.labels == again.labels).all()
        assert once.value == again.value


def test_threads_share_the_memory_that_is_kept():
    given = [e for shape in SHAPES[:2] for e in energies(shape, 3)]
    alone = [e.minimize() for e in given]
    with ThreadPoolExecutor(3) as threads:
        together = list(threads.map(cl.Energy.minimize, given * 3))
    for cut, wanted in zip(together, alone * 3, strict=True):
        assert cut.value == wanted.value
        assert (cut.labels == wanted.labels).all()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux for the memory")
def test_a_loop_of_cuts_does_not_grow():
    def resident_mb():
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024

    given = [e for shape in SHAPES for e in energies(shape, 2)]
    for e in given * 2:
        e.minimize()
    before = resident_mb()
    for e in given * 6:
        e.minimize()
    assert resident_mb() - before < 30
