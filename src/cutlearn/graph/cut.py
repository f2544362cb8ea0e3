"""The answer of a solve."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Cut:
    """A minimum cut.

    Attributes
    ----------
    labels : uint8 array in the shape of the labels
        1 on the source side; 0 to L - 1 of an ordered energy. Among all minimisers the one with
        the lowest labels, so that it does not depend on the way it was found.
    value : float
        The minimum.
    lower_bound : float
        No labelling has a smaller energy, and that of `labels` is at most as far above `value` as
        this is below it. Equal to `value` where all the numbers were represented exactly (integers
        and dyadic fractions with room), else below it by a quantum for each one that was rounded,
        and itself rounded down.
    """

    labels: NDArray[np.uint8]
    value: float
    lower_bound: float
    _changed: NDArray[np.int64] | None = None  # None after a first solve

    @property
    def changed(self) -> NDArray[np.int64]:
        """Flat indices of the nodes whose label differs from the previous solve of the same solver;
        after the first solve, those with label 1."""
        return np.flatnonzero(self.labels) if self._changed is None else self._changed
