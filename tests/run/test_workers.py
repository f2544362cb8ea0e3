"""The ordered map over threads."""

import threading
import time

import pytest

from cutlearn.errors import InputError
from cutlearn.run.workers import Workers, thread_count


@pytest.mark.parametrize("n_jobs", [None, 1, 2, 5, -1])
def test_results_come_in_order(n_jobs):
    def slow(i):
        time.sleep(0.002 * (i % 3 == 0))
        return i * i

    with Workers(n_jobs) as workers:
        assert workers.map(slow, range(20)) == [i * i for i in range(20)]


def test_threads_are_used():
    with Workers(2) as workers:
        barrier = threading.Barrier(2, timeout=10)
        workers.map(lambda _: barrier.wait(), range(2))


def test_the_first_failure_is_raised():
    def fail(i):
        if i >= 3:
            raise RuntimeError(str(i))
        return i

    with Workers(2) as workers, pytest.raises(RuntimeError, match="3"):
        workers.map(fail, range(8))


def test_numbers_of_threads():
    assert thread_count(None) == 1
    assert thread_count(7) == 7
    assert thread_count(-1) >= 1
    assert thread_count(-1000) == 1
    for odd in (0, 1.5, "2", True):
        with pytest.raises(InputError, match="'n_jobs' parameter"):
            thread_count(odd)
