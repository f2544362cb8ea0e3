"""The bundle master: ask near the minimum of the model."""

from cutlearn.arrays import Vector
from cutlearn.learn.margin.master import Master


class Bundle(Master):
    """The quadratic master: the minimum of the model over all planes."""

    def solve(self, best: float, fine: float, confirmed: bool = False) -> Vector | None:
        return self.minimum(best)

    def settled(self, known: float, best: float, fine: float) -> bool:
        return known - max(self.lower_bound, 0.0) <= fine
