"""Map functions over items, in order, on threads; a cluster has the same interface (`cluster.py`).

`n_jobs` chooses the executor: a number of threads, the address of a dask.distributed scheduler,
"local:4" for so many processes of this machine, or a `Client`. Results come in the order of the
items wherever they are computed, so sums over them have the same bits. On threads the work must
release the interpreter's lock (the C++ core and numpy do) to gain. A cluster pickles the work, so
there it must be a function of a module, or a `partial` of one, and its items plain data. BLAS has
one thread during a map: it may split a product by the number of its threads, which changes last
bits, and its threads would compete with ours. A failure, or an interrupt of the waiting thread,
drops the items that have not begun.
"""

import hashlib
import itertools
import os
import pickle
import re
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache, partial
from numbers import Integral
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar

from cutlearn.errors import InputError, quoted
from cutlearn.loaded import Loaded

Item = TypeVar("Item")
Result = TypeVar("Result")
# What a user passes as n_jobs.
Jobs: TypeAlias = Any
MOST_THREADS = 4096
# Items that are begun before the first of them is taken, for each thread.
AHEAD = 2
ADDRESS = re.compile(r"((tcp|tls)://\S+|local:[1-9]\d{0,3})")

# Whether this is a task of a cluster, which has one thread of its own.
_in_task: ContextVar[bool] = ContextVar("in_task", default=False)
_blas_lock = threading.Lock()
_blas: dict[str, Any] = {"count": 0, "limit": None}


class Resident:
    """A value that is used again and again, with what was derived from it, which is never sent."""

    def __init__(self, value: Any, size: int = 0) -> None:
        self.value, self.size = value, size
        self.lock = threading.Lock()
        self._made: dict[str, Any] = {}

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what was made under this name; make it now if it was not."""
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    def __sizeof__(self) -> int:  # by which a scheduler decides whether to move it
        return self.size

    def __reduce__(self) -> tuple[Any, ...]:
        return Resident, (self.value, self.size)


class LoadedResident:
    """A value that is loaded for every use; what is made of it does not stay either."""

    def __init__(self, values: Loaded[Any], place: int) -> None:
        self._values, self._place = values, place

    @property
    def value(self) -> Any:
        """Load it."""
        return self._values[self._place]

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Make it now; memory is too small to keep it."""
        return make()


class Residents:
    """Values that stay where they are used; each has a number, by default its index."""

    def __init__(self, executor: "Executor", values: Sequence[Any]) -> None:
        self.executor, self.values, self.numbers = executor, values, list(range(len(values)))

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, places: Sequence[int]) -> "Residents":
        """Return some of them, with the same numbers; nothing is sent."""
        part = Residents(self.executor, [self.values[i] for i in places])
        part.numbers = [self.numbers[i] for i in places]
        return part

    def map(self, function: Callable[..., Result], *args: Any) -> list[Result]:
        """Return function(resident, number, *args) of each of them, in order.

        The function must be of a module, or a `partial` of one. It may be large, and stays like the
        values; `args` are sent every time.
        """
        return self.executor.each(function, self.values, self.numbers, args)


class Executor(ABC):
    """An ordered map over items."""

    remote: bool
    """Whether work is done in other processes."""
    threads: int
    """Threads of this process for work that is never sent: one if there are other processes."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Items that are processed at once."""

    @property
    def local(self) -> "Executor":
        """The executor for work that is never sent."""
        return Threads(self.threads)

    def hold(self, values: Sequence[Any]) -> Sequence[Any]:
        """Send values once; items of `map` may contain the handles that this returns."""
        return values

    def by_reference(self, values: Sequence[Any]) -> Sequence[Any]:
        """Return values as they are sent: as references to files, if all workers can read these."""
        return values

    def residents(self, values: Sequence[Any]) -> Residents:
        """Place values where they are used again and again."""
        return Residents(self, self.hold(values))

    @abstractmethod
    def each(
        self,
        function: Callable[..., Any],
        held: Sequence[Any],
        numbers: Sequence[int],
        args: tuple[Any, ...],
    ) -> list[Any]:
        """Return function(resident, number, *args) of residents: `Residents.map`."""

    @abstractmethod
    def rounds(
        self,
        function: Callable[[Any], Any],
        items: Iterable[Any],
        took: Callable[[int, Any], Any],
        patient: bool = True,
    ) -> None:
        """Process items again and again, each as soon as its last round is done.

        Parameters
        ----------
        took : callable (index, result)
            Called by the waiting thread for every result; returns the next item at this index, or
            None when it is done.
        patient : bool
            Whether an interrupt waits for running work of this process. Work that takes long and
            changes nothing that outlives it need not be waited for.
        """

    def map(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        finished: Callable[[int, Result], None] | None = None,
        patient: bool = True,
    ) -> list[Result]:
        """Return function(item) for every item, in their order; raise the first failure.

        Parameters
        ----------
        finished : callable (index, result), optional
            Called by the waiting thread for every result as soon as it is there, in any order.
        patient : bool
            As of `rounds`.
        """
        results: dict[int, Result] = {}

        def took(index: int, result: Result) -> None:
            results[index] = result
            if finished is not None:
                finished(index, result)

        self.rounds(function, items, took, patient)
        return [results[index] for index in range(len(results))]

    def stream(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield function(item) for every item, in their order, as a consumer takes them.

        The next item is taken from `items` only when its work begins. An interrupt does not wait
        for running work.
        """
        begun: deque[Callable[[], Result]] = deque()
        with self._submitting(function) as submit:
            for item in items:
                begun.append(submit(item))
                if len(begun) >= self._ahead:
                    yield begun.popleft()()
            while begun:
                yield begun.popleft()()

    @property
    def _ahead(self) -> int:
        """Items of a stream that are begun before the first of them is taken."""
        return AHEAD * self.width

    @abstractmethod
    def _submitting(
        self, function: Callable[[Item], Result]
    ) -> AbstractContextManager[Callable[[Item], Callable[[], Result]]]:
        """Return what begins the work of an item; it returns what waits for the result."""


class Threads(Executor):
    """Threads of this process; one is a plain loop.

    Parameters
    ----------
    count : int, default 1

    Examples
    --------
    >>> Threads(2).map(abs, [-1, 2, -3])
    [1, 2, 3]
    """

    remote = False

    def __init__(self, count: int = 1) -> None:
        self.threads = count

    def __repr__(self) -> str:
        return f"Threads({self.threads})"

    @property
    def width(self) -> int:
        return self.threads

    def residents(self, values: Sequence[Any]) -> Residents:
        if isinstance(values, Loaded):
            return Residents(self, [LoadedResident(values, k) for k in range(len(values))])
        return Residents(self, [Resident(value) for value in values])

    def each(
        self,
        function: Callable[..., Any],
        held: Sequence[Any],
        numbers: Sequence[int],
        args: tuple[Any, ...],
    ) -> list[Any]:
        return self.map(lambda one: function(*one, *args), zip(held, numbers))

    def map(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        finished: Callable[[int, Result], None] | None = None,
        patient: bool = True,
    ) -> list[Result]:
        if self.threads > 1:
            return super().map(function, items, finished, patient)
        results: list[Result] = []
        with one_thread():
            for index, item in enumerate(items):
                results.append(function(item))
                if finished is not None:
                    finished(index, results[-1])
        return results

    def rounds(
        self,
        function: Callable[[Any], Any],
        items: Iterable[Any],
        took: Callable[[int, Any], Any],
        patient: bool = True,
    ) -> None:
        # A few items at a time: they may be large, and loaded only now.
        source = enumerate(items)
        with one_thread():
            if self.threads > 1:
                with _pool(self.threads, patient) as pool:
                    _on_threads(pool, AHEAD * self.threads, function, source, took)
                return
            again: deque[tuple[int, Any]] = deque()
            while (entry := next(source, None) or (again.popleft() if again else None)) is not None:
                index, item = entry
                new = took(index, function(item))
                if new is not None:
                    again.append((index, new))

    @property
    def _ahead(self) -> int:
        return 1 if self.threads == 1 else super()._ahead

    @contextmanager
    def _submitting(
        self, function: Callable[[Item], Result]
    ) -> Iterator[Callable[[Item], Callable[[], Result]]]:
        with one_thread():
            if self.threads == 1:
                yield partial(partial, function)
            else:
                with _pool(self.threads, patient=False) as pool:
                    yield lambda item: pool.submit(function, item).result


ONE_THREAD = Threads()


def name_of(value: Any) -> str:
    """Return a name of a value's content, under which things are made of it `once`."""
    return hashlib.blake2b(packed(value), digest_size=16).hexdigest()


def packed(value: Any) -> bytes:
    """Return a value as it is sent to other processes."""
    try:
        return pickle.dumps(value, 5)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InputError(
            f"n_jobs: this work cannot be sent to a cluster, because it cannot be pickled ({error})"
            ". Define custom objects and functions at module level, or use threads."
        ) from error


def executor_of(n_jobs: Jobs) -> Executor:
    """Return the executor that `n_jobs` chooses; a cluster is connected to once."""
    if isinstance(n_jobs, Executor):
        return n_jobs
    if is_cluster(n_jobs):
        from cutlearn.run.cluster import cluster_of

        return cluster_of(n_jobs)
    return Threads(thread_count(n_jobs))


def is_jobs(n_jobs: Jobs) -> bool:
    """Return whether `n_jobs` can choose an executor; nothing is connected to."""
    return n_jobs is None or _is_count(n_jobs) or isinstance(n_jobs, Executor) or (
        is_cluster(n_jobs)
    )  # fmt: skip


def thread_count(n_jobs: int | None) -> int:
    """Return the number of threads that `n_jobs` means.

    None is 1, -1 all processors, -2 all but one.

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
    if _in_task.get():
        return 1
    try:
        processors = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        processors = os.cpu_count() or 1
    return max(1, processors + 1 + int(n_jobs))


def _is_count(n_jobs: Jobs) -> bool:
    whole = isinstance(n_jobs, Integral) and not isinstance(n_jobs, bool)
    return whole and 1 <= abs(int(n_jobs)) <= MOST_THREADS


def is_cluster(n_jobs: Jobs) -> bool:
    """Return whether `n_jobs` names a cluster or is its client; nothing is connected to."""
    if isinstance(n_jobs, Executor):
        return n_jobs.remote
    if isinstance(n_jobs, str):
        return ADDRESS.fullmatch(n_jobs) is not None
    # A client is recognised without an import of its package.
    return any(f"{c.__module__}.{c.__name__}" == "distributed.client.Client"
               for c in type(n_jobs).__mro__)  # fmt: skip


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread until the last of all concurrent callers has left."""
    with _blas_lock:
        if _blas["count"] == 0:
            _blas["limit"] = _controller().limit(limits=1, user_api="blas")
            _blas["limit"].__enter__()
        _blas["count"] += 1
    try:
        yield
    finally:
        with _blas_lock:
            _blas["count"] -= 1
            if _blas["count"] == 0:
                _blas["limit"].__exit__(None, None, None)


@contextmanager
def as_task() -> Iterator[None]:
    """Work as one task of a cluster: in one thread, even where all processors are asked for."""
    token = _in_task.set(True)
    try:
        with one_thread():
            yield
    finally:
        _in_task.reset(token)


@contextmanager
def _pool(count: int, patient: bool) -> Iterator[ThreadPoolExecutor]:
    """Return a pool that drops waiting work at its end."""
    pool, wait = ThreadPoolExecutor(count), True
    try:
        yield pool
    except (KeyboardInterrupt, GeneratorExit):
        wait = patient
        raise
    finally:
        pool.shutdown(wait=wait, cancel_futures=True)


def _on_threads(
    pool: ThreadPoolExecutor,
    ahead: int,
    function: Callable[[Any], Any],
    source: Iterator[tuple[int, Any]],
    took: Callable[[int, Any], Any],
) -> None:
    ended: SimpleQueue[tuple[int, Future[Any]]] = SimpleQueue()
    running: dict[int, Future[Any]] = {}

    def begin(index: int, item: Any) -> None:
        running[index] = pool.submit(function, item)
        running[index].add_done_callback(lambda future: ended.put((index, future)))

    for index, item in itertools.islice(source, ahead):
        begin(index, item)
    while running:
        index, future = ended.get()
        if future.exception() is not None:
            # Raise the failure of the first item that failed; earlier ones may still run.
            for early in sorted(k for k in running if k <= index):
                if not running[early].cancel():
                    running[early].result()
        del running[index]
        again = took(index, future.result())
        if again is not None:
            begin(index, again)
        elif (new := next(source, None)) is not None:
            begin(*new)
