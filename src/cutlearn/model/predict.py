"""From a sample to its problem, from a problem and weights to its best labels or min-marginals.

Labels are one exact cut, min-marginals one more pass over it; nodes that a person has settled are
fixed.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.features.featurizer import Featurizer
from cutlearn.features.problem import Problem
from cutlearn.images.sample import Sample
from cutlearn.model.kinds import BINARY, Kind, Mask


def problem_of(
    sample: Sample,
    featurizer: Featurizer,
    node_features: NDArray[np.float32] | None = None,
    edges: bool = True,
    regions: bool = False,
) -> Problem:
    """Give the problem of a sample: its features, and its box and seeds as fixed nodes.

    Parameters
    ----------
    node_features : (h * w, F) float32, optional
        Out-of-fold features of a training image; computed when not given.
    edges : bool
        Whether neighbours are joined.
    regions : bool
        Whether the featurizer's superpixels become regions.
    """
    if node_features is None:
        node_features = featurizer.node_features(sample.image, sample.extra)
    fixed = None
    if sample.box is not None or sample.seeds is not None:
        fixed = sample.fixed().astype(np.int8).reshape(-1)
    return Problem(
        node_features,
        edge_features=featurizer.edge_features(sample.image) if edges else None,
        regions=featurizer.regions(sample.image) if regions else (),
        fixed=fixed,
        shape=sample.shape,
        connectivity=featurizer.connectivity,
    )


def best_mask(problem: Problem, w: ArrayLike, kind: Kind = BINARY) -> Mask:
    """Give the labels of least energy, in the image's shape."""
    return kind.mask(problem, w)


def least_energies(problem: Problem, w: ArrayLike, kind: Kind = BINARY) -> NDArray[np.float64]:
    """Give the min-marginals, the image's shape + (L,): the least E(y; w) with a node at a label.

    They are infinite against a fixed label.
    """
    return kind.least(problem, w)
