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


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_results_are_handed_over_as_they_come(n_jobs):
    here, heard = threading.current_thread(), {}

    def finished(place, result):
        assert threading.current_thread() is here
        heard[place] = result

    with Workers(n_jobs) as workers:
        assert workers.map(abs, [-1, 2, -3], finished) == [1, 2, 3]
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

    with pytest.raises(KeyboardInterrupt), Workers(2, patient) as workers:
        workers.map(interrupt, range(20), lambda *_: None)
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
