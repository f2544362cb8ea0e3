"""Sequences whose values are loaded when they are asked for: training sets larger than memory.

What reads them one after the other need not know. What makes one list of another uses `mapped` and
`taken`: lists give lists, loaded sequences give loaded ones, in which nothing is computed before
somebody asks, and then each time again.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

T = TypeVar("T")


class Loaded(Sequence[T]):
    """Values that are loaded one by one, and kept by nobody.

    Parameters
    ----------
    count : int
        How many there are.
    load : callable (place)
        Gives the value at a place, the same every time; may be called by several threads at once.

    Examples
    --------
    >>> squares = Loaded(4, lambda k: k * k)
    >>> squares[3], list(squares), len(squares[1:])
    (9, [0, 1, 4, 9], 3)
    """

    def __init__(self, count: int, load: Callable[[int], T]) -> None:
        self._count, self._load = count, load

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
        """Give those at some places; nothing is loaded."""
        return Loaded(len(places), lambda k: self[places[k]])


def mapped(function: Callable[..., T], *values: Sequence[Any]) -> Sequence[T]:
    """Give function(a, b, ...) of values that belong together: a list, or loaded if one is.

    Examples
    --------
    >>> mapped(pow, [2, 3], [3, 2])
    [8, 9]
    >>> mapped(pow, [2, 3], Loaded(2, lambda k: k))[1]
    3
    """
    if any(isinstance(one, Loaded) for one in values):
        return Loaded(len(values[0]), lambda k: function(*(one[k] for one in values)))
    return [function(*given) for given in zip(*values)]


def taken(values: Sequence[T], places: Sequence[int]) -> Sequence[T]:
    """Give the values at some places: a list, or loaded if they are."""
    if isinstance(values, Loaded):
        return values.take(places)
    return [values[k] for k in places]


def chained(*values: Sequence[T]) -> Sequence[T]:
    """Give the values of several sequences, one after the other: a list, or loaded if one is.

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

    return Loaded(len(places), load)


def spread(count: int, most: int) -> list[int]:
    """Give at most so many of the places 0 .. count - 1, evenly spread.

    Examples
    --------
    >>> spread(3, 5), spread(10, 4)
    ([0, 1, 2], [0, 2, 5, 7])
    """
    few = min(count, most)
    return [k * count // few for k in range(few)]


def together(*values: Sequence[Any]) -> Sequence[tuple[Any, ...]]:
    """Give tuples of values that belong together, as `mapped` does."""
    return mapped(lambda *given: given, *values)
