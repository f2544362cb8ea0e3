"""Where work runs: an ordered map over threads, or over a cluster with the same face.

`n_jobs` says where: a number of threads, the address of a dask.distributed scheduler, "local:4" for
so many processes of this machine, or a `Client`. Results come in the order of the items wherever
they are worked, so sums over them have the same bits. On threads the work must release the
interpreter's lock (the C++ core and numpy do) to gain; to a cluster it travels, so that it must be
a function of a module, or a `partial` of one, and its items plain data. BLAS has one thread while
work is mapped. A failure, or an interrupt of the thread that waits, drops what has not begun.
"""

import itertools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from numbers import Integral
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar

from cutlearn.errors import InputError, quoted
from cutlearn.run.cluster import Cluster
from cutlearn.run.connect import cluster_of, is_cluster
from cutlearn.run.single import in_task, one_thread

Item = TypeVar("Item")
Result = TypeVar("Result")
# What a user gives, and what becomes of it: a number of threads, or a cluster.
Jobs: TypeAlias = Any
Place: TypeAlias = int | Cluster
MOST_THREADS = 4096
# Items of a stream that are begun before the first of them is taken, for each thread.
AHEAD = 2


def thread_count(n_jobs: int | None) -> int:
    """Give the number of threads that `n_jobs` means: None is 1, -1 all processors, -2 all but one.

    Examples
    --------
    >>> thread_count(None), thread_count(3)
    (1, 3)
    """
    if n_jobs is None:
        return 1
    if not _is_count(n_jobs):
        raise InputError(
            f"The 'n_jobs' parameter must be None, a positive integer up to {MOST_THREADS}, or -1 "
            "for all processors; for a cluster the address of its scheduler, local:N or a Client. "
            f"Got {quoted(n_jobs)} instead."
        )
    if n_jobs > 0:
        return int(n_jobs)
    if in_task.get():
        return 1
    try:
        processors = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        processors = os.cpu_count() or 1
    return max(1, processors + 1 + int(n_jobs))


def place_of(n_jobs: Jobs) -> Place:
    """Give where work runs: a number of threads, or a cluster, which is connected to once."""
    return cluster_of(n_jobs) if is_cluster(n_jobs) else thread_count(n_jobs)


def is_place(n_jobs: Jobs) -> bool:
    """Whether `n_jobs` can say where work runs; nothing is connected to."""
    return n_jobs is None or _is_count(n_jobs) or is_cluster(n_jobs)


def own_threads(n_jobs: Jobs) -> int:
    """Give the threads of this process for what does not travel: one where work runs elsewhere."""
    place = place_of(n_jobs)
    return place if isinstance(place, int) else 1


def width_of(place: Place) -> int:
    """Give how many items are worked at once in a place."""
    return place.threads if isinstance(place, Cluster) else place


def hold(place: Place, values: Sequence[Item]) -> Sequence[Any]:
    """Send values once to where they are worked; items of `map` may contain what this gives.

    On threads these are the values themselves.
    """
    return place.hold(values) if isinstance(place, Cluster) else values


def sent_as(place: Place, values: Sequence[Item]) -> Sequence[Any]:
    """Give values as they go to where they are worked; of some a cluster is told how to make them.

    On threads these are the values themselves.
    """
    return place.sent_as(values) if isinstance(place, Cluster) else values


def _is_count(n_jobs: Jobs) -> bool:
    whole = isinstance(n_jobs, Integral) and not isinstance(n_jobs, bool)
    return whole and 1 <= abs(int(n_jobs)) <= MOST_THREADS


class Workers:
    """Threads or a cluster, with an ordered map. Use as a context manager.

    Parameters
    ----------
    n_jobs : int, None, address, Client or Cluster
        See `place_of`.
    patient : bool
        Whether an interrupt waits for what runs. Work that may take many seconds need not be waited
        for, as nobody wants its results any more, if it changes nothing that outlives it.

    Examples
    --------
    >>> with Workers(2) as workers:
    ...     workers.map(abs, [-1, 2, -3])
    [1, 2, 3]
    """

    def __init__(self, n_jobs: Jobs = None, patient: bool = True) -> None:
        self.place = place_of(n_jobs)
        self._patient = patient
        many = isinstance(self.place, int) and self.place > 1
        self._pool = ThreadPoolExecutor(width_of(self.place)) if many else None

    def map(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        finished: Callable[[int, Result], None] | None = None,
    ) -> list[Result]:
        """Give function(item) for every item, in their order; a failure is raised.

        Parameters
        ----------
        finished : callable (place, result), optional
            Called by the waiting thread for every result as soon as it is there, in any order.
        """
        results: dict[int, Result] = {}

        def took(place: int, result: Result) -> None:
            results[place] = result
            if finished is not None:
                finished(place, result)

        self.rounds(function, items, took)
        return [results[place] for place in range(len(results))]

    def rounds(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        took: Callable[[int, Result], Item | None],
    ) -> None:
        """Work on items again and again, each as soon as its last round is done.

        Parameters
        ----------
        took : callable (place, result)
            Called by the waiting thread for every result; gives the next item of this place, or
            None where it is done.
        """
        if isinstance(self.place, Cluster):
            self.place.rounds(function, items, took)
            return
        with one_thread():
            if self._pool is None:
                _one_by_one(function, items, took)
            else:
                _on_threads(self._pool, width_of(self.place), function, items, took)

    def stream(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        ahead: int | None = None,
    ) -> Iterator[Result]:
        """Give function(item) for every item, in their order, as a consumer takes them.

        Parameters
        ----------
        items : iterable
            Asked for the next item only when its work begins.
        ahead : int, optional
            How many results there may be that nobody has taken.
        """
        most = ahead or AHEAD * width_of(self.place)
        if isinstance(self.place, Cluster):
            yield from self.place.stream(function, items, most)
            return
        with one_thread():
            if self._pool is None:
                yield from map(function, items)
                return
            begun: deque[Future[Result]] = deque()
            source = iter(items)
            try:
                for item in source:
                    begun.append(self._pool.submit(function, item))
                    if len(begun) >= most:
                        yield begun.popleft().result()
                while begun:
                    yield begun.popleft().result()
            finally:
                for future in begun:
                    future.cancel()

    def close(self, wait: bool = True) -> None:
        """End the threads; work that has not begun is dropped. A cluster stays."""
        if self._pool is not None:
            self._pool.shutdown(wait=wait, cancel_futures=True)

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        interrupted = kind is not None and issubclass(kind, KeyboardInterrupt)
        self.close(wait=self._patient or not interrupted)


def _one_by_one(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    took: Callable[[int, Result], Item | None],
) -> None:
    later: deque[tuple[int, Item]] = deque()
    for place, item in itertools.chain(enumerate(items), _emptied(later)):
        again = took(place, function(item))
        if again is not None:
            later.append((place, again))


def _emptied(later: deque[tuple[int, Item]]) -> Iterator[tuple[int, Item]]:
    while later:
        yield later.popleft()


def _on_threads(
    pool: ThreadPoolExecutor,
    width: int,
    function: Callable[[Item], Result],
    items: Iterable[Item],
    took: Callable[[int, Result], Item | None],
) -> None:
    ended: SimpleQueue[tuple[int, Future[Result]]] = SimpleQueue()
    running: dict[int, Future[Result]] = {}
    # Asked for a few at a time: they may be large, and loaded only now.
    source = enumerate(items)

    def begin(place: int, item: Item) -> None:
        running[place] = pool.submit(function, item)
        running[place].add_done_callback(lambda future: ended.put((place, future)))

    try:
        for place, item in itertools.islice(source, AHEAD * width):
            begin(place, item)
        while running:
            place, future = ended.get()
            if future.exception() is not None:
                _raise_first({p: f for p, f in running.items() if p <= place})
            del running[place]
            again = took(place, future.result())
            if again is not None:
                begin(place, again)
            elif (new := next(source, None)) is not None:
                begin(*new)
    except BaseException:
        for future in running.values():
            future.cancel()
        raise


def _raise_first(running: dict[int, Future[Result]]) -> None:
    """Raise the failure of the first item of some, one of which has failed."""
    for place in sorted(running):
        if not running[place].cancel():
            running[place].result()
