"""What probabilities are made of: min-marginals, and what each label costs at a pixel by itself.

A min-marginal tells how dear another label is with all neighbours free to follow. That is the right
question for a mask, and less than all that is known of a pixel: within a piece of one label the
least change is often the same for all of its pixels, however sure the features of each are. So the
costs of a pixel alone, which the features speak in, are kept beside it.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.arrays import Floats
from cutlearn.energy.model import Model
from cutlearn.energy.potentials import Unary
from cutlearn.energy.problem import Problem


class Evidence(NamedTuple):
    """What a model says of an image, (h, w, L) each.

    Attributes
    ----------
    min_marginals : least energy with each pixel at each label
    alone : cost of each label at a pixel without its neighbours; None: the model knows none
    """

    min_marginals: Floats
    alone: Floats | None = None

    @property
    def labels(self) -> NDArray[np.uint8]:
        """The labels of least min-marginal, the lower one of two alike: those of the cut."""
        return np.asarray(self.min_marginals.argmin(axis=-1), np.uint8)

    def take(self, rows: slice) -> "Evidence":
        """Give some rows of the image."""
        own = None if self.alone is None else self.alone[rows]
        return Evidence(self.min_marginals[rows], own)


def alone(model: Model, problem: Problem, w: ArrayLike) -> Floats:
    """Give what each label costs at each node by itself, the problem's shape + (L,).

    Of two labels, 0 costs nothing.
    """
    layout = model.layout(problem)
    # A field for each label, or one for all of them.
    fields: list[Floats] = []
    for row in layout.rows(w):
        every = zip(model.potentials, layout.potentials, layout.slices)
        own = [p.terms(problem, row[s]).unary for given, p, s in every if isinstance(given, Unary)]
        fields.append(np.sum([part for part in own if part is not None], axis=0))
    costs = fields[0] if len(fields) == 1 else np.stack(fields, axis=-1)
    if costs.ndim == 1:
        costs = np.stack([np.zeros_like(costs), costs], axis=-1)
    return costs.reshape(*(problem.shape or (-1,)), costs.shape[-1])
