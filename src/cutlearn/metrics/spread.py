"""How much a figure depends on which images were drawn: the bootstrap and the jackknife.

A figure is a function of sums over images: a mean of a sum and a number of images, a pooled IoU of
added tables. With V the values of the images, a row each, and T how often each draw has each image,
all draws are one matrix product T V, and the figure is taken of its rows at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cutlearn.errors import InputError

Floats = npt.NDArray[np.float64]
Figure = Callable[[Floats], Floats]

# Numbers of T that are in memory at a time.
BLOCK = 1 << 20


@dataclass(frozen=True)
class Spread:
    """A figure with the interval in which other draws of images would put it.

    Parameters
    ----------
    value, low, high : float
        The figure of all images, and the ends of its bootstrap interval.
    deviation : float
        The standard deviation over the bootstrap draws.
    """

    value: float
    low: float
    high: float
    deviation: float

    def plain(self) -> dict[str, float]:
        """Give the figure and its interval as JSON can hold them."""
        return {"value": self.value, "low": self.low, "high": self.high}


def means(values: npt.ArrayLike) -> Floats:
    """Give the values of images beside ones, (n, 2), whose sums have the mean as their `ratio`."""
    column = np.asarray(values, np.float64)
    return np.stack([column, np.ones_like(column)], axis=-1)


def ratio(sums: Floats) -> Floats:
    """Give the first of the last axis over the second; 0 / 0 is 0.

    Examples
    --------
    >>> import numpy as np
    >>> from cutlearn.metrics import ratio
    >>> ratio(np.array([[3.0, 4.0], [0.0, 0.0], [1.0, 0.0]])).tolist()
    [0.75, 0.0, inf]
    """
    above, below = sums[..., 0], sums[..., 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((above == 0) & (below == 0), 0.0, above / below)


def bootstrap(
    values: npt.ArrayLike,
    figure: Figure | None = None,
    draws: int = 1000,
    level: float = 0.95,
    random_state: int = 0,
) -> Spread:
    """Tell how much a figure depends on which images were drawn.

    Images, not pixels, are drawn again with replacement: pixels of one image are not independent.
    The draws depend on `random_state`, their number and the number of images only, so that figures
    of the same images are drawn together.

    Parameters
    ----------
    values : (n, ...) array
        What adds up over images, such as tables of labels; or (n,) numbers for their mean.
    figure : callable, optional
        From sums over images, (r, ...), to r numbers; the mean by default.
    draws : int, default 1000
        Number of draws.
    level : float, default 0.95
        Part of the draws inside the interval.
    random_state : int, default 0
        Seed of the draws.

    Returns
    -------
    Spread

    Examples
    --------
    >>> from cutlearn.metrics import bootstrap, ratio
    >>> spread = bootstrap([0.7, 0.8, 0.9])
    >>> spread.low <= spread.value <= spread.high
    True
    >>> bootstrap([[1, 1], [1, 2]], ratio, draws=100).value
    0.6666666666666666
    """
    table = np.asarray(values, np.float64)
    if not table.size:
        raise InputError("values is empty, but must hold one value or row for each image.")
    if draws < 1 or not 0 < level < 1:
        raise InputError(
            f"bootstrap needs at least 1 draw and a level between 0 and 1, not draws={draws} and "
            f"level={level}. Use draws=1000, level=0.95."
        )
    if figure is None:
        table, figure = means(table), ratio
    flat = table.reshape(len(table), -1)
    found = []
    for times in _times(len(table), draws, random_state):
        found.append(figure((times @ flat).reshape(-1, *table.shape[1:])))
    figures = np.concatenate(found)
    with np.errstate(invalid="ignore"):  # infinite figures have no interval
        low, high = np.quantile(figures, [(1 - level) / 2, (1 + level) / 2])
        deviation = figures.std()
    return Spread(float(figure(table.sum(axis=0)[None])[0]), float(low), float(high),
                  float(deviation))  # fmt: skip


def _times(n: int, draws: int, random_state: int) -> Iterator[Floats]:
    """How often each draw has each of n images, (draws, n), some draws at a time."""
    rng = np.random.default_rng(random_state)
    rows = max(1, BLOCK // n)
    for first in range(0, draws, rows):
        picks = rng.integers(n, size=(min(rows, draws - first), n))
        place = picks + n * np.arange(len(picks))[:, None]
        yield np.bincount(place.ravel(), minlength=place.size).reshape(place.shape).astype(float)


def left_out(values: Floats, figure: Figure) -> Floats:
    """Give the figure without each of the images in turn, (n,).

    Examples
    --------
    >>> from cutlearn.metrics import left_out, means, ratio
    >>> left_out(means([1.0, 2.0, 6.0]), ratio).tolist()
    [4.0, 3.5, 1.5]
    """
    return figure(values.sum(axis=0) - values)
