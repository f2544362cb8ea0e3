"""Where work runs: an ordered map over threads.

Results come in the order of the items whatever the number of threads, so sums over them have the
same bits. The work must release the interpreter's lock (the C++ core and numpy do) to gain.
A failure, or an interrupt of the thread that waits, drops what has not begun.
"""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

from cutlearn.errors import InputError, quoted

Item = TypeVar("Item")
Result = TypeVar("Result")
MOST_THREADS = 4096


def thread_count(n_jobs: int | None) -> int:
    """Give the number of threads that `n_jobs` means: None is 1, -1 all processors, -2 all but one.

    Examples
    --------
    >>> thread_count(None), thread_count(3)
    (1, 3)
    """
    if n_jobs is None:
        return 1
    if type(n_jobs) is not int or not 1 <= abs(n_jobs) <= MOST_THREADS:
        raise InputError(
            f"The 'n_jobs' parameter must be None, a positive integer up to {MOST_THREADS}, or -1 "
            f"for all processors. Got {quoted(n_jobs)} instead."
        )
    if n_jobs > 0:
        return n_jobs
    try:
        processors = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        processors = os.cpu_count() or 1
    return max(1, processors + 1 + n_jobs)


class Workers:
    """A pool of threads with an ordered map. Use as a context manager.

    Parameters
    ----------
    n_jobs : int or None
        See `thread_count`.
    patient : bool
        Whether an interrupt waits for what runs. Work that may take many seconds need not be waited
        for, as nobody wants its results any more, if it changes nothing that outlives it.

    Examples
    --------
    >>> with Workers(2) as workers:
    ...     workers.map(abs, [-1, 2, -3])
    [1, 2, 3]
    """

    def __init__(self, n_jobs: int | None = None, patient: bool = True) -> None:
        self.threads = thread_count(n_jobs)
        self._patient = patient
        self._pool = ThreadPoolExecutor(self.threads) if self.threads > 1 else None

    def map(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        finished: Callable[[int, Result], None] | None = None,
    ) -> list[Result]:
        """Give function(item) for every item, in their order; the first failure is raised.

        Parameters
        ----------
        finished : callable (place, result), optional
            Called by the waiting thread for every result as soon as it is there, in any order.
        """
        if self._pool is None:
            results = []
            for place, item in enumerate(items):
                results.append(function(item))
                if finished is not None:
                    finished(place, results[-1])
            return results
        futures = [self._pool.submit(function, item) for item in items]
        places = {future: place for place, future in enumerate(futures)}
        try:
            if finished is not None:
                for future in as_completed(futures):
                    finished(places[future], future.result())
            return [future.result() for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            raise

    def close(self, wait: bool = True) -> None:
        """End the threads; work that has not begun is dropped."""
        if self._pool is not None:
            self._pool.shutdown(wait=wait, cancel_futures=True)

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        interrupted = kind is not None and issubclass(kind, KeyboardInterrupt)
        self.close(wait=self._patient or not interrupted)
