"""Sequences whose values are loaded when they are needed: training sets larger than memory.

Code that reads them one after the other works with both kinds. Code that makes one list of another
uses `mapped` and `taken`: lists give lists, loaded sequences give loaded ones, which make a value
whenever it is needed. A sequence may have the origins of its values, from which another process
makes them from the same files (`Origin`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, overload

T = TypeVar("T")


@dataclass(frozen=True)
class Origin:
    """How a value is made: a function of a module, and what it is given, origins among it.

    Pickled, it is small, and what arrives elsewhere is the value, made there.

    Examples
    --------
    >>> import pickle
    >>> pickle.loads(pickle.dumps(Origin(pow, (Origin(abs, (-2,)), 3))))
    8
    """

    function: Callable[..., Any]
    given: tuple[Any, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return self.function, self.given


class Loaded(Sequence[T]):
    """Values that are loaded one by one, and kept by nobody.

    `load` returns the value at a place, the same every time, and may be called by several threads
    at once. `origin` returns how the value is made elsewhere; a sequence that has it can be
    pickled, and what arrives is a list of values.

    Examples
    --------
    >>> squares = Loaded(4, lambda k: k * k)
    >>> squares[3], list(squares), len(squares[1:])
    (9, [0, 1, 4, 9], 3)
    """

    def __init__(
        self, count: int, load: Callable[[int], T], origin: Callable[[int], Origin] | None = None
    ) -> None:
        self._count, self._load, self.origin = count, load, origin

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> "Loaded[T]": ...
    def __getitem__(self, place: int | slice) -> "T | Loaded[T]":
        if isinstance(place, slice):
            return self.take(range(self._count)[place])
        return self._load(range(self._count)[place])  # which knows negative places, and its end

    def take(self, places: Sequence[int]) -> "Loaded[T]":
        """Return the values at some indices; nothing is loaded."""
        made = self.origin
        how = None if made is None else lambda k: made(places[k])
        return Loaded(len(places), lambda k: self[places[k]], how)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.origin is None:
            raise TypeError("these values cannot be made elsewhere: they have no origin")
        return list, ([self.origin(place) for place in range(self._count)],)


def mapped(function: Callable[..., T], *values: Sequence[Any]) -> Sequence[T]:
    """Return function(a, b, ...) of values that belong together: a list, or loaded if one is.

    Examples
    --------
    >>> mapped(pow, [2, 3], [3, 2])
    [8, 9]
    >>> mapped(pow, [2, 3], Loaded(2, lambda k: k))[1]
    3
    """
    if not any(isinstance(one, Loaded) for one in values):
        return [function(*given) for given in zip(*values)]

    def origin(k: int) -> Origin:
        return Origin(function, tuple(_part(one, k) for one in values))

    return Loaded(
        len(values[0]), lambda k: function(*(one[k] for one in values)),
        origin if _have_origins(values) else None,
    )  # fmt: skip


def _have_origins(values: Sequence[Sequence[Any]]) -> bool:
    return all(one.origin is not None for one in values if isinstance(one, Loaded))


def _part(values: Sequence[Any], place: int) -> Any:
    """Return the value at an index, or how it is made."""
    known = isinstance(values, Loaded) and values.origin is not None
    return values.origin(place) if known else values[place]  # type: ignore[attr-defined]


def taken(values: Sequence[T], places: Sequence[int]) -> Sequence[T]:
    """Return the values at some indices: a list, or loaded if they are."""
    if isinstance(values, Loaded):
        return values.take(places)
    return [values[k] for k in places]


def chained(*values: Sequence[T]) -> Sequence[T]:
    """Return the values of several sequences, one after the other: a list, or loaded if one is.

    Examples
    --------
    >>> chained([2, 3], [5])
    [2, 3, 5]
    >>> chained([2, 3], Loaded(1, lambda k: 5))[2]
    5
    """
    if not any(isinstance(part, Loaded) for part in values):
        return [one for part in values for one in part]
    places = [(part, k) for part in values for k in range(len(part))]

    def load(place: int) -> T:
        part, k = places[place]
        return part[k]

    def origin(place: int) -> Origin:
        return Origin(_same, (_part(*places[place]),))

    return Loaded(len(places), load, origin if _have_origins(values) else None)


def _same(value: T) -> T:
    return value


def evenly_spaced(count: int, most: int) -> list[int]:
    """Return at most so many of the indices 0 .. count - 1, evenly spaced.

    Examples
    --------
    >>> evenly_spaced(3, 5), evenly_spaced(10, 4)
    ([0, 1, 2], [0, 2, 5, 7])
    """
    few = min(count, most)
    return [k * count // few for k in range(few)]


def together(*values: Sequence[Any]) -> Sequence[tuple[Any, ...]]:
    """Return tuples of values that belong together, as `mapped` does."""
    return mapped(_tuple, *values)


def _tuple(*given: Any) -> tuple[Any, ...]:
    return given
