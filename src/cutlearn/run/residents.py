"""Values that stay where they are worked, and are asked again and again: images and their labels.

On threads they stay here. On a cluster each is sent once, as the result of a task; after that only
a few numbers go out with every question, and the answers come back. What a function makes of a
value (an oracle with its last flow) stays beside it and does not travel. Values that are loaded
are loaded for every question anew, and nothing stays.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from cutlearn.run.cluster import Cluster
from cutlearn.run.travel import seats_of
from cutlearn.run.workers import Jobs, Workers, place_of

Result = TypeVar("Result")


class Residents:
    """Values with a number each, by default their place in the list.

    Parameters
    ----------
    n_jobs : int, None, address, Client or Cluster
    values : sequence

    Examples
    --------
    >>> def product(seat, number, factor):
    ...     return seat.value * factor
    >>> Residents(1, [1, 2, 3]).take([0, 2]).map(product, 10)
    [10, 30]
    """

    def __init__(self, n_jobs: Jobs, values: Sequence[Any]) -> None:
        self.place = place_of(n_jobs)
        self.numbers = list(range(len(values)))
        self._seats: list[Any]
        if isinstance(self.place, Cluster):
            self._seats = self.place.hold(values)
        else:
            self._seats = seats_of(values)

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, places: Sequence[int]) -> "Residents":
        """Give some of them; they keep their numbers, and nothing is sent."""
        part = object.__new__(Residents)
        part.place = self.place
        part.numbers = [self.numbers[i] for i in places]
        part._seats = [self._seats[i] for i in places]
        return part

    def map(self, function: Callable[..., Result], *args: Any) -> list[Result]:
        """Give function(seat, number, *args) of each of them, in order.

        The function must be of a module, or a `partial` of one. It may be large, and stays like the
        values; `args` go out every time.
        """
        if isinstance(self.place, Cluster):
            return self.place.each(function, self._seats, self.numbers, args)
        with Workers(self.place) as workers:
            return workers.map(partial(_asked, function, args), zip(self._seats, self.numbers))


def _asked(
    function: Callable[..., Result], args: tuple[Any, ...], given: tuple[Any, int]
) -> Result:
    return function(*given, *args)
