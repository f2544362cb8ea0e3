"""A dask.distributed cluster as an executor: work is sent, results come back in order.

What is used again (an image and its labels, a model) is sent once and stays as the *result of a
task*: when its worker dies, the scheduler makes it again elsewhere from what was sent, and nothing
else is lost. Nothing is scattered and there are no actors, which do not survive a worker. All that
is sent is pickled here, so that it must be plain data and functions of modules, and so that `sent`
and `received` count its bytes. A value that stays is a `Resident` there and a `Held` here; an item
that contains a `Held` is sent without it. A worker with another cutlearn, numpy or Python is
refused, whenever it joins: its results might differ.
"""

import asyncio
import atexit
import contextlib
import hashlib
import io
import logging
import math
import os
import pickle
import platform
import re
import time
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any

import numpy as np

from cutlearn.errors import InputError
from cutlearn.loaded import Loaded
from cutlearn.run.executor import Executor, Resident, as_task, packed
from cutlearn.run.process import Interrupted

# What must be the same everywhere, for the same bits.
Tag = dict[str, str]

# Functions up to so many bytes go with every task; larger ones stay where they were sent.
SMALL = 4096
# Functions that stay, the last ones used.
FUNCTIONS = 4
# Batches of residents, for each thread of their home: more of them even out slow workers.
BATCHES = 2
# Items that are sent before the first of them is done, for each thread.
ITEMS_AHEAD = 4
LOCAL = re.compile(r"local:([1-9]\d{0,3})")
# Seconds to find the scheduler, and to wait for a first worker.
CONNECT, FIRST_WORKER = 10.0, 60.0
# Seconds for which the list of workers holds.
FRESH = 1.0


class ClusterLost(Interrupted):
    """The scheduler is gone; what was kept on disk is still there."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Cluster(Executor):
    """A connected cluster.

    Parameters
    ----------
    client : distributed.Client
    name : str
        Its address, in messages.
    own : client and cluster that are closed with it; not those of the user

    Attributes
    ----------
    sent, received : int
        Bytes of what was sent to the cluster, and of results that came back.
    tasks : int
        Tasks that were sent.
    """

    remote, threads = True, 1

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
    def width(self) -> int:
        """Threads of all workers together, at least 1."""
        return max(1, sum(self._homes().values()))

    def hold(self, values: Sequence[Any]) -> "list[Held]":
        """Send values once; they stay as results of tasks, spread over the workers in order.

        Values that all workers can load themselves are sent as references to their files.
        """
        given = self.by_reference(values)
        homes = [home for home, threads in sorted(self._homes().items()) for _ in range(threads)]
        return [
            self._held(packed(value), homes[i * len(homes) // len(values)] if homes else "")
            for i, value in enumerate(given)
        ]

    def by_reference(self, values: Sequence[Any]) -> Sequence[Any]:
        """Return values as they are sent: as references, if all workers can load the first one."""
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
        function: Callable[..., Any],
        held: "Sequence[Held]",
        numbers: Sequence[int],
        args: tuple[Any, ...],
    ) -> list[Any]:
        """Return function(resident, number, *args) of all held values; a task has a batch of them.

        Every value has a number, which is sent with each call and not with the value.
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
            residents = [held[place].future for place in batches[k]]
            return self._submit(call_each, self._tag, work, given, *residents)

        self._run(submit, range(len(batches)), took, len(batches))
        return [results[place] for place in range(len(held))]

    def rounds(
        self,
        function: Callable[[Any], Any],
        items: Iterable[Any],
        took: Callable[[int, Any], Any],
        patient: bool = True,
    ) -> None:
        """Process items; an interrupt never waits for workers."""
        work = self._function(function)
        self._run(lambda item: self._begin(work, item), items, took, ITEMS_AHEAD * self.width)

    @contextlib.contextmanager
    def _submitting(
        self, function: Callable[[Any], Any]
    ) -> Iterator[Callable[[Any], Callable[[], Any]]]:
        work, begun = self._function(function), set[Any]()

        def submit(item: Any) -> Callable[[], Any]:
            future = self._begin(work, item)
            begun.add(future)

            def result() -> Any:
                begun.discard(future)
                return self._read(future.result())

            return result

        try:
            with self._watched():
                yield submit
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
        file = io.BytesIO()
        pickler = _Pickler(file)
        try:
            pickler.dump(item)
        except (pickle.PicklingError, AttributeError, TypeError):
            packed(item)  # raises what is wrong
            raise
        self.sent += file.tell()
        futures = (one.future for one in pickler.held)
        return self._submit(call, self._tag, work, file.getvalue(), *futures)

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

    def _held(self, blob: bytes, home: str) -> "Held":
        digest = hashlib.blake2b(blob, digest_size=16).hexdigest()
        held = self._live.get(digest)
        if held is None or held.future.cancelled():
            self.sent += len(blob)
            near = {"workers": [home], "allow_other_workers": True} if home else {}
            held = Held(self._send(_unpacked, blob, key=_key(digest), **near), home)
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
        """Return workers and their threads, as of a moment ago."""
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
        """Raise one sentence where workers die of a task, or the scheduler is gone."""
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


class Held:
    """The driver's handle of a value that stays on the cluster."""

    def __init__(self, future: Any, home: str) -> None:
        self.future, self.home = future, home

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a held value can only be sent as an item of Cluster.map")


def versions() -> Tag:
    """Return the versions that must be the same everywhere, for the same bits."""
    import cutlearn

    python = ".".join(platform.python_version_tuple()[:2])
    return {"cutlearn": cutlearn.__version__, "numpy": np.__version__, "Python": python}


def _check_here(tag: Tag) -> None:
    here = versions()
    if here != tag:
        raise InputError(differs("a worker that came later", here, tag))


def differs(where: str, there: Tag, here: Tag) -> str:
    found = " and ".join(f"{k} {there.get(k)} instead of {v}" for k, v in here.items()
                        if there.get(k) != v)  # fmt: skip
    return (
        f"{where} has {found}, which may give other results. Install the same versions on all "
        "workers."
    )


def _unpacked(blob: bytes) -> Resident:
    return Resident(pickle.loads(blob), len(blob))


def can_make(blob: bytes) -> bool:
    """Return whether a value that is sent as a reference to files can be made here."""
    try:
        pickle.loads(blob)
    except (InputError, OSError):
        return False
    return True


def call(tag: Tag, work: "bytes | Resident", blob: bytes, *residents: Resident) -> bytes:
    _check_here(tag)
    function = pickle.loads(work) if isinstance(work, bytes) else work.value
    item = _Unpickler(io.BytesIO(blob), [one.value for one in residents]).load()
    with as_task():
        return packed(function(item))


def call_each(tag: Tag, work: "bytes | Resident", given: bytes, *residents: Resident) -> bytes:
    _check_here(tag)
    function = pickle.loads(work) if isinstance(work, bytes) else work.value
    (numbers, args), found = pickle.loads(given), []
    with as_task():
        for resident, number in zip(residents, numbers):
            with resident.lock:
                found.append(function(resident, number, *args))
    return packed(found)


class _Pickler(pickle.Pickler):
    """Leaves held values out, and lists them."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, 5)
        self.held: list[Held] = []

    def persistent_id(self, value: Any) -> int | None:
        if not isinstance(value, Held):
            return None
        self.held.append(value)
        return len(self.held) - 1


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, values: Sequence[Any]) -> None:
        super().__init__(file)
        self.values = values

    def persistent_load(self, number: int) -> Any:
        return self.values[number]


def _check_workers(client: Any, name: str, tag: Tag) -> None:
    try:
        client.wait_for_workers(1, timeout=FIRST_WORKER)
    except TimeoutError:
        raise InputError(
            f"{name}: the cluster has no workers, though {FIRST_WORKER:.0f} seconds were waited. "
            f"Start some with `dask worker {name}`."
        ) from None
    try:
        found = client.run(versions)
    except ImportError as error:
        raise InputError(
            f"{name}: its workers cannot import cutlearn ({error}). Install the same cutlearn for "
            "the Python of all workers."
        ) from None
    for address, there in sorted(found.items()):
        if there != tag:
            raise InputError(differs(f"{name}: the worker {address}", there, tag))


# Clusters that are connected, by their names.
_OPEN: dict[str, Cluster] = {}


def cluster_of(given: Any) -> Cluster:
    """Connect to a cluster, once for each address or client; this process leaves it at its end."""
    name = given if isinstance(given, str) else str(given.scheduler.address)
    known = _OPEN.get(name)
    if known is not None and known.client.status == "running":
        return known
    made = _connected(name) if isinstance(given, str) else Cluster(given, name, ())
    try:
        _check_workers(made.client, name, versions())
    except BaseException:
        made.close()
        raise
    _OPEN[name] = made
    return made


def _connected(name: str) -> Cluster:
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise InputError(
            f"n_jobs={name!r}: the package distributed, which clusters need, is not installed. "
            "Install it with `pip install cutlearn[cluster]`."
        ) from None
    local, own = LOCAL.fullmatch(name), None
    if local is not None:
        own = LocalCluster(
            n_workers=int(local[1]), threads_per_worker=1, processes=True, host="127.0.0.1",
            dashboard_address=None, memory_limit=None, silence_logs=logging.CRITICAL,
        )  # fmt: skip
    # The state of the scheduler is reported by an error, in one sentence.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    try:
        client = Client(own or name, timeout=CONNECT, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise InputError(
            f"{name}: no scheduler of a cluster answers there. Check the address and that "
            "`dask scheduler` runs."
        ) from error
    return Cluster(client, name, (client,) if own is None else (client, own))


def leave_clusters() -> None:
    """Leave all clusters that were connected to by name, and end those of this machine."""
    for cluster in list(_OPEN.values()):
        cluster.close()


atexit.register(leave_clusters)
