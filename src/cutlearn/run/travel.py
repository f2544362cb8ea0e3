"""What travels to a cluster and back, and what happens where it arrives.

Everything is pickled here: plain data and functions of modules, never closures. A value that stays
on a cluster is a `Seat` there and a `Held` here; an item that contains a `Held` travels without it.
"""

import hashlib
import io
import pickle
import platform
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cutlearn.errors import InputError
from cutlearn.loaded import Loaded
from cutlearn.run.single import as_task

# What must be the same everywhere, for the same bits.
Tag = dict[str, str]


class Seat:
    """A value where it is worked, beside what was made of it there, which does not travel."""

    def __init__(self, value: Any, size: int = 0) -> None:
        self.value, self.size = value, size
        self.lock = threading.Lock()
        self._made: dict[str, Any] = {}

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Give what was made under this name, made now if it was not."""
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    def __sizeof__(self) -> int:  # by which the scheduler judges whether to move it
        return self.size

    def __reduce__(self) -> tuple[Any, ...]:
        return Seat, (self.value, self.size)


class LoadedSeat:
    """A value that is loaded each time it is asked for; what is made of it does not stay either."""

    def __init__(self, values: Loaded[Any], place: int) -> None:
        self._values, self._place = values, place

    @property
    def value(self) -> Any:
        """Load it."""
        return self._values[self._place]

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Make it now; there is no room to keep it."""
        return make()


def seats_of(values: Sequence[Any]) -> list[Any]:
    """Give the seats of values on this machine."""
    if isinstance(values, Loaded):
        return [LoadedSeat(values, place) for place in range(len(values))]
    return [Seat(value) for value in values]


class Held:
    """The driver's handle of a value that stays on the cluster."""

    def __init__(self, future: Any, home: str) -> None:
        self.future, self.home = future, home

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a held value travels only as an item of Cluster.map")


def versions() -> Tag:
    """What must be the same everywhere, for the same bits."""
    import cutlearn

    python = ".".join(platform.python_version_tuple()[:2])
    return {"cutlearn": cutlearn.__version__, "numpy": np.__version__, "Python": python}


def _check_here(tag: Tag) -> None:
    here = versions()
    if here != tag:
        raise InputError(differs("a worker that came later", here, tag))


def differs(where: str, there: Tag, here: Tag) -> str:
    told = " and ".join(f"{k} {there.get(k)} instead of {v}" for k, v in here.items()
                        if there.get(k) != v)  # fmt: skip
    return (
        f"{where} has {told}, which may give other results. Install the same versions on all "
        "workers."
    )


def take(blob: bytes) -> Seat:
    return Seat(pickle.loads(blob), len(blob))


def can_make(blob: bytes) -> bool:
    """Whether a value that travels as its origin can be made here: its files are seen."""
    try:
        pickle.loads(blob)
    except (InputError, OSError):
        return False
    return True


def call(tag: Tag, work: "bytes | Seat", blob: bytes, *seats: Seat) -> bytes:
    _check_here(tag)
    function = pickle.loads(work) if isinstance(work, bytes) else work.value
    item = _Unpickler(io.BytesIO(blob), [seat.value for seat in seats]).load()
    with as_task():
        return packed(function(item))


def call_each(tag: Tag, work: "bytes | Seat", given: bytes, *seats: Seat) -> bytes:
    _check_here(tag)
    function = pickle.loads(work) if isinstance(work, bytes) else work.value
    (numbers, args), found = pickle.loads(given), []
    with as_task():
        for seat, number in zip(seats, numbers):
            with seat.lock:
                found.append(function(seat, number, *args))
    return packed(found)


def name_of(value: Any) -> str:
    """Give a name of a value's content, under which things are made of it `once`."""
    return hashlib.blake2b(packed(value), digest_size=16).hexdigest()


def packed(value: Any) -> bytes:
    """Give a value as it travels."""
    try:
        return pickle.dumps(value, 5)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InputError(
            f"n_jobs: this work cannot be sent to a cluster ({error}). What is given to it from "
            "outside must be made of classes and functions that a module has; or use threads."
        ) from error


class _Pickler(pickle.Pickler):
    """Leaves held values out, and remembers them."""

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


def packed_with_held(item: Any) -> tuple[bytes, list[Held]]:
    file = io.BytesIO()
    pickler = _Pickler(file)
    try:
        pickler.dump(item)
    except (pickle.PicklingError, AttributeError, TypeError):
        packed(item)  # says what is wrong
        raise
    return file.getvalue(), pickler.held
