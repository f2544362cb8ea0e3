"""Means of paired differences with 95 % intervals, over splits and over images."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

DRAWS = 2000
ENDS = (0.025, 0.975)


class Interval(NamedTuple):
    """A mean and the ends of its 95 % interval; without ends where there is one value only."""

    mean: float
    low: float
    high: float

    def text(self, digits: int = 2, unit: float = 1.0) -> str:
        """Write it with signs, times a unit: "+0.30 (+0.10 to +0.50)"."""
        mean, low, high = (f"{unit * value:+.{digits}f}" for value in self)
        return f"{mean} ({low} to {high})" if np.isfinite(self.low) else mean


def over_splits(values: Sequence[float]) -> Interval:
    """Give the mean over splits, with Student's interval.

    Splits of one set share images, so that it is rather too narrow than too wide.

    Examples
    --------
    >>> over_splits([1.0, 2.0, 3.0]).text()
    '+2.00 (-0.48 to +4.48)'
    """
    found = np.asarray(values, np.float64)
    mean = float(found.mean())
    if len(found) < 2:
        return Interval(mean, -np.inf, np.inf)
    half = stats.t.ppf(ENDS[1], len(found) - 1) * found.std(ddof=1) / np.sqrt(len(found))
    return Interval(mean, mean - float(half), mean + float(half))


def over_images(values: ArrayLike, images: ArrayLike | None = None) -> Interval:
    """Give the mean of values with an interval by a bootstrap over images.

    Parameters
    ----------
    values : (n,)
    images : (n,) int, optional
        The image of each value: those of one image, from several splits, are drawn together.
    """
    found = np.asarray(values, np.float64)
    which = np.arange(len(found)) if images is None else np.unique(images, return_inverse=True)[1]
    sums, counts = np.bincount(which, found), np.bincount(which)
    rng = np.random.default_rng(0)
    drawn: NDArray[np.int64] = rng.integers(0, len(sums), (DRAWS, len(sums)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.quantile(means, ENDS)
    return Interval(float(found.mean()), float(low), float(high))
