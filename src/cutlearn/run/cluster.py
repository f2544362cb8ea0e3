"""A dask.distributed cluster with the face of `Workers`: work goes out, results come back in order.

What is used again (an image and its labels, a model) is sent once and stays as the *result of a
task*: when its worker dies, the scheduler makes it again elsewhere from what it was sent, and
nothing else is lost. Nothing is scattered and there are no actors: those do not survive a worker.
What travels is pickled here, so that it must be plain data and functions of modules, and so that
`sent` and `received` count its bytes. A worker with another cutlearn, numpy or Python is refused,
whenever it comes: it might give other bits.
"""

import asyncio
import contextlib
import hashlib
import math
import os
import pickle
import time
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from cutlearn.errors import InputError
from cutlearn.loaded import Loaded
from cutlearn.run.interrupt import Interrupted
from cutlearn.run.travel import (
    Held,
    call,
    call_each,
    can_make,
    packed,
    packed_with_held,
    take,
    versions,
)

Item = TypeVar("Item")
Result = TypeVar("Result")
# Functions up to so many bytes go with every task; larger ones stay where they were sent.
SMALL = 4096
# Functions that stay, the last ones used.
FUNCTIONS = 4
# Batches of residents, for each thread of their home: more of them even out slow workers.
BATCHES = 2
# Items that are sent before the first of them is done, for each thread.
AHEAD = 4
# Seconds for which the list of workers holds.
FRESH = 1.0


class ClusterLost(Interrupted):
    """The scheduler is gone; what was kept on disk is still there."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Cluster:
    """A connected cluster.

    Parameters
    ----------
    client : distributed.Client
    name : str
        What the user called it.
    own : client and cluster that are closed with it; none that a user brought

    Attributes
    ----------
    sent, received : int
        Bytes of what was sent to the cluster, and of results that came back.
    tasks : int
        Tasks that were sent.
    """

    def __init__(self, client: Any, name: str, own: Sequence[Any]) -> None:
        self.client, self.name, self._own = client, name, own
        self.sent = self.received = self.tasks = 0
        self._live: weakref.WeakValueDictionary[str, Held] = weakref.WeakValueDictionary()
        self._functions: OrderedDict[str, Held] = OrderedDict()
        self._known_homes: dict[str, int] = {}
        self._looked = -math.inf
        self._tag = versions()

    # A parameter of estimators: copying one must not copy this.
    def __copy__(self) -> "Cluster":
        return self

    def __deepcopy__(self, _: Any) -> "Cluster":
        return self

    def __repr__(self) -> str:
        return f"Cluster({self.name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a cluster cannot be sent to its own workers")

    @property
    def threads(self) -> int:
        """Threads of all workers together, at least 1."""
        return max(1, sum(self._homes().values()))

    def hold(self, values: Sequence[Any]) -> list[Held]:
        """Send values once; they stay as results of tasks, spread over the workers in order.

        Of those that all workers can make from files only the way is sent.
        """
        given = self.sent_as(values)
        homes = [home for home, threads in sorted(self._homes().items()) for _ in range(threads)]
        return [
            self._held(packed(value), homes[i * len(homes) // len(values)] if homes else "")
            for i, value in enumerate(given)
        ]

    def sent_as(self, values: Sequence[Any]) -> Sequence[Any]:
        """Give values as they travel: how they are made, if all workers can make the first one."""
        known = isinstance(values, Loaded) and len(values) and values.origin is not None
        if not known:
            return values
        blob = packed(values.origin(0))  # type: ignore[attr-defined]
        with self._watched():
            made = self.client.run(can_make, blob)
        if not made or not all(made.values()):
            return values
        return Loaded(len(values), values.origin)  # type: ignore[attr-defined]

    def each(
        self,
        function: Callable[..., Result],
        held: Sequence[Held],
        numbers: Sequence[int],
        args: tuple[Any, ...],
    ) -> list[Any]:
        """Give function(seat, number, *args) of all held values, in order, a batch of them a task.

        Every value has a number, which travels with the question and not with the value.
        """
        work = self._function(function)
        threads, homes = self._homes(), OrderedDict[str, list[int]]()
        for place, one in enumerate(held):
            homes.setdefault(one.home, []).append(place)
        batches = []
        for home, places in homes.items():
            count = min(len(places), BATCHES * threads.get(home, 1))
            batches += [places[k * len(places) // count : (k + 1) * len(places) // count]
                        for k in range(count)]  # fmt: skip
        results: dict[int, Any] = {}

        def took(k: int, found: Sequence[Any]) -> None:
            results.update(zip(batches[k], found))

        def submit(k: int) -> Any:
            given = packed(([numbers[place] for place in batches[k]], args))
            self.sent += len(given)
            seats = [held[place].future for place in batches[k]]
            return self._submit(call_each, self._tag, work, given, *seats)

        self._run(submit, range(len(batches)), took, len(batches))
        return [results[place] for place in range(len(held))]

    def rounds(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        took: Callable[[int, Result], Item | None],
    ) -> None:
        """As `Workers.rounds`."""
        work = self._function(function)
        self._run(lambda item: self._begin(work, item), items, took, AHEAD * self.threads)

    def stream(
        self, function: Callable[[Item], Result], items: Iterable[Item], ahead: int
    ) -> Iterator[Result]:
        """As `Workers.stream`."""
        work, begun, source = self._function(function), deque[Any](), iter(items)
        try:
            with self._watched():
                for item in source:
                    begun.append(self._begin(work, item))
                    if len(begun) >= ahead:
                        yield self._read(begun.popleft().result())
                while begun:
                    yield self._read(begun.popleft().result())
        finally:
            self._drop(begun)

    def close(self) -> None:
        """Leave the cluster; end it if it is this machine's own."""
        for one in self._own:
            with contextlib.suppress(Exception):
                one.close(timeout=5)

    # -- how it is done --------------------------------------------------------------------------

    def _run(
        self,
        submit: Callable[[Any], Any],
        items: Iterable[Any],
        took: Callable[[int, Any], Any],
        ahead: int,
    ) -> None:
        """Submit items, so many ahead of what is done; an item may be followed by another."""
        from distributed import as_completed

        line, source, places = deque[tuple[int, Any]](), enumerate(items), dict[Any, int]()

        def fill() -> None:
            while len(places) < ahead:
                chosen = line.popleft() if line else next(source, None)
                if chosen is None:
                    return
                future = submit(chosen[1])
                places[future] = chosen[0]
                done.add(future)

        try:
            with self._watched():
                # Results are fetched as they come, beside each other.
                done = as_completed(loop=self.client.loop, with_results=True)
                fill()
                for future, blob in done:
                    place, result = places.pop(future), self._read(blob)
                    again = took(place, result)
                    if again is not None:
                        line.append((place, again))
                    fill()
        finally:
            self._drop(places)

    def _begin(self, work: "bytes | Held", item: Any) -> Any:
        blob, held = packed_with_held(item)
        self.sent += len(blob)
        return self._submit(call, self._tag, work, blob, *(one.future for one in held))

    def _submit(self, function: Callable[..., Any], tag: Any, work: Any, *args: Any) -> Any:
        self.tasks += 1
        if isinstance(work, bytes):
            self.sent += len(work)
        else:
            work = work.future
        return self._send(function, tag, work, *args, key=_key("call"))

    def _function(self, function: Callable[..., Any]) -> "bytes | Held":
        blob = packed(function)
        if len(blob) <= SMALL:
            return blob
        held = self._held(blob, "")
        self._functions[held.future.key] = held
        self._functions.move_to_end(held.future.key)
        while len(self._functions) > FUNCTIONS:
            self._functions.popitem(last=False)
        return held

    def _held(self, blob: bytes, home: str) -> Held:
        digest = hashlib.blake2b(blob, digest_size=16).hexdigest()
        held = self._live.get(digest)
        if held is None or held.future.cancelled():
            self.sent += len(blob)
            near = {"workers": [home], "allow_other_workers": True} if home else {}
            held = Held(self._send(take, blob, key=_key(digest), **near), home)
            self._live[digest] = held
        return held

    def _send(self, function: Callable[..., Any], *args: Any, **how: Any) -> Any:
        import dask

        # The size of what is sent is known; a warning about it would help nobody.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            return self.client.submit(function, *args, pure=False, **how)

    def _read(self, blob: "bytes | BaseException") -> Any:
        if isinstance(blob, BaseException):
            raise blob
        self.received += len(blob)
        return pickle.loads(blob)

    def _homes(self) -> dict[str, int]:
        """Workers and their threads, as of a moment ago."""
        now = time.monotonic()
        if now > self._looked + FRESH:
            with self._watched():
                self._known_homes, self._looked = dict(self.client.nthreads()), now
        return self._known_homes

    def _drop(self, futures: Iterable[Any]) -> None:
        left = list(futures)
        if left and self.client.status == "running":
            with contextlib.suppress(Exception):
                self.client.cancel(left)

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """Say in one sentence that workers die of a task, or that the scheduler is gone."""
        from distributed import KilledWorker
        from distributed.comm import CommClosedError

        try:
            yield
        except KilledWorker as error:
            raise InputError(
                f"{self.name}: one task ended several workers, the last of them {error.last_worker}"
                ". Workers that run out of memory end so: use smaller images (min_side), or "
                "workers with more memory or fewer threads."
            ) from error
        except GeneratorExit:
            raise
        except BaseException as error:
            # A client that has lost its scheduler cancels what it waits for.
            gone = isinstance(error, CancelledError | asyncio.CancelledError | CommClosedError)
            if gone or (isinstance(error, Exception) and self.client.status != "running"):
                raise ClusterLost(
                    f"{self.name}: the cluster's scheduler does not answer any more."
                ) from error
            raise


def _key(what: str) -> str:
    return f"cutlearn-{what}-{os.urandom(8).hex()}"
