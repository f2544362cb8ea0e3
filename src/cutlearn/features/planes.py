"""Planes of an image that are made by rows, so that a band of them is in memory and never all.

In: functions that make any rows of some planes. Out: the same, of filtered planes; what a filter
needs of other rows it asks for itself. Numbers do not depend on the bands, up to rounding.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Float32: TypeAlias = npt.NDArray[np.float32]
Shape: TypeAlias = tuple[int, int]
# Rows that are made at a time: fewer repeat more of what lies around them, more need more memory.
BAND = 64


@dataclass(frozen=True)
class Planes:
    """Some planes of an image, by rows.

    Attributes
    ----------
    count : number of planes
    shape : (h, w)
    rows : callable (first, last)
        Gives the rows first to last - 1 of all planes, (count, last - first, w) float32.
    """

    count: int
    shape: Shape
    rows: Callable[[int, int], Float32]

    def all(self) -> Float32:
        """All rows, (count, h, w) float32."""
        made = np.empty((self.count, *self.shape), np.float32)
        for first, last in bands(self.shape[0]):
            made[:, first:last] = self.rows(first, last)
        return made

    def around(self, first: int, last: int, reach: int) -> tuple[Float32, slice]:
        """Rows with `reach` more on both sides, as far as there are any; where the asked lie."""
        top, bottom = max(0, first - reach), min(self.shape[0], last + reach)
        return self.rows(top, bottom), slice(first - top, last - top)

    def each(self, work: Callable[[Float32], Any], count: int | None = None) -> "Planes":
        """Planes that `work` makes of every row by itself; count: how many, if others."""
        made = self.count if count is None else count
        return Planes(made, self.shape, lambda first, last: work(self.rows(first, last)))

    def __getitem__(self, plane: int) -> "Planes":
        """One of the planes."""
        return self.each(lambda part: part[plane : plane + 1], 1)


def whole(stack: npt.NDArray[Any]) -> Planes:
    """Planes that are in memory already, (h, w) or (c, h, w)."""
    planes = stack.reshape(-1, *stack.shape[-2:])
    shape = (planes.shape[1], planes.shape[2])
    return Planes(len(planes), shape, lambda first, last: planes[:, first:last])


def bands(height: int, multiple: int = 1) -> Iterator[tuple[int, int]]:
    """First and last row of every band; all but the last end at a multiple.

    Examples
    --------
    >>> from cutlearn.features.planes import bands
    >>> list(bands(150, 5))
    [(0, 60), (60, 120), (120, 150)]
    """
    size = max(1, BAND // multiple) * multiple
    for first in range(0, height, size):
        yield first, min(first + size, height)
