"""The graph of one image that stays alive: node costs and fixed labels in, labels out.

A change of a few costs or fixed labels costs what it changes, because the core goes on from the
last flow; the labels are those of a fresh solve (`tests/model/test_live.py`).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import Floats
from cutlearn.energy.energy import Energy
from cutlearn.energy.solver import Solver
from cutlearn.grid import grid_slices

Fixed = NDArray[np.int16]


class Live:
    """An energy over the pixels of an image whose edges never change.

    Parameters
    ----------
    weights : one array for each direction, as `Energy.grid` takes them
    connectivity : 4 or 8
    """

    def __init__(self, weights: Sequence[Floats], connectivity: int = 8) -> None:
        self.weights = list(weights)
        self.connectivity = connectivity
        self._solver: Solver | None = None
        self._unary: Floats = np.empty(0)
        self._fixed: Fixed = np.empty(0, np.int16)

    def energy(self, unary: Floats) -> Energy:
        """Give the energy with these node costs, (h, w): what label 1 costs more than label 0."""
        return Energy.grid(unary, self.weights, self.connectivity)

    def solve(self, unary: Floats, fixed: Fixed) -> NDArray[np.uint8]:
        """Give the best labels, (h, w) uint8; `fixed`: -1 is free, else the label."""
        if self._solver is None:
            self._solver = self.energy(unary).solver(fixed)
        else:
            changed = np.flatnonzero(unary != self._unary)
            self._solver.set_unary(changed, unary.ravel()[changed])
            changed = np.flatnonzero(fixed != self._fixed)
            self._solver.set_fixed(changed, fixed.ravel()[changed])
        self._unary, self._fixed = unary.copy(), fixed.copy()
        return self._solver.minimize().labels


def by_direction(weights: Floats, shape: tuple[int, ...]) -> list[Floats]:
    """Weights of all edges of an 8-connected grid, one array for each direction."""
    sizes = [tuple(s.stop - s.start for s in tail) for tail, _ in grid_slices(shape, 8)]
    ends = np.cumsum([h * w for h, w in sizes])
    return [weights[e - h * w : e].reshape(h, w) for (h, w), e in zip(sizes, ends)]
