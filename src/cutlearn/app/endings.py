"""How a training ended, in one line: `cutlearn fit` and `cutlearn show` say the same."""

import math
from typing import TYPE_CHECKING

from cutlearn.app.tables import percent

if TYPE_CHECKING:
    from cutlearn.model.segmenter import Segmenter


def ending_of(estimator: "Segmenter") -> str:
    """Say how the training ended: at a certified gap, or where a likelihood came to rest."""
    if math.isnan(estimator.gap_):
        end = "converged" if estimator.converged_ else "NOT CONVERGED"
        return f"likelihood ({end}; no gap is proved)"
    proof = "certified" if estimator.certified_ else "not certified"
    state = proof if estimator.converged_ else "NOT REACHED"
    return f"gap {percent(estimator.gap_)} ({percent(estimator.tol)} wanted, {state})"
