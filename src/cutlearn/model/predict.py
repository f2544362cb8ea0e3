"""From a sample to its problem: features, neighbours, regions, and what a person has settled."""

import numpy as np
from numpy.typing import NDArray

from cutlearn.features.featurizer import Featurizer
from cutlearn.features.problem import Problem
from cutlearn.images.sample import Sample


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
