"""The bundle master: ask near the minimum of the model."""

import numpy as np
from numpy.typing import NDArray

from cutlearn.learn.margin.master import Master

Vector = NDArray[np.float64]


class Bundle(Master):
    """The quadratic master: the minimum of the model over all planes."""

    def solve(self, best: float, fine: float, confirmed: bool = False) -> Vector | None:
        return self.minimum(best)

    def settled(self, known: float, best: float, fine: float) -> bool:
        return known - max(self.lower_bound, 0.0) <= fine
