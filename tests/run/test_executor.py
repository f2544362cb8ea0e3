"""The ordered map on threads."""

import threading
import time

import pytest

from cutlearn.errors import InputError
from cutlearn.run.executor import Threads, executor_of, thread_count


@pytest.mark.parametrize("n_jobs", [None, 1, 2, 5, -1])
def test_results_come_in_order(n_jobs):
    def slow(i):
        time.sleep(0.002 * (i % 3 == 0))
        return i * i

    assert executor_of(n_jobs).map(slow, range(20)) == [i * i for i in range(20)]


def test_threads_are_used():
    barrier = threading.Barrier(2, timeout=10)
    executor_of(2).map(lambda _: barrier.wait(), range(2))


def test_the_first_failure_is_raised():
    def fail(i):
        if i >= 3:
            raise RuntimeError(str(i))
        return i

    with pytest.raises(RuntimeError, match="3"):
        Threads(2).map(fail, range(8))


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_results_are_handed_over_as_they_come(n_jobs):
    here, heard = threading.current_thread(), {}

    def finished(place, result):
        assert threading.current_thread() is here
        heard[place] = result

    assert executor_of(n_jobs).map(abs, [-1, 2, -3], finished) == [1, 2, 3]
    assert heard == {0: 1, 1: 2, 2: 3}


@pytest.mark.parametrize("patient", [True, False])
def test_an_interrupt_waits_for_what_runs_if_it_must(patient):
    begun, ended, release = [], [], threading.Event()

    def slow(i):
        begun.append(i)
        release.wait(0.3 if patient else 10)
        ended.append(i)

    def interrupt(i):
        if i == 0:
            raise KeyboardInterrupt
        return slow(i)

    with pytest.raises(KeyboardInterrupt):
        Threads(2).map(interrupt, range(20), lambda *_: None, patient=patient)
    assert sorted(ended) == (sorted(begun) if patient else [])
    assert len(begun) < 19, "what had not begun was dropped"
    release.set()


def test_numbers_of_threads():
    assert thread_count(None) == 1
    assert thread_count(7) == 7
    assert thread_count(-1) >= 1
    assert thread_count(-1000) == 1
    for odd in (0, 1.5, "2", True):
        with pytest.raises(InputError, match="'n_jobs' parameter"):
            thread_count(odd)
