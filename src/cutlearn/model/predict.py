"""From a sample to its problem, from a problem and weights to its best labels or min-marginals.

Labels are one exact cut, min-marginals one more pass over it; nodes that a person has settled are
fixed.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.energy.forms import EnvelopeSpec
from cutlearn.energy.linear import energy_of
from cutlearn.energy.ordered import OrderedEnergy
from cutlearn.features.featurizer import Featurizer
from cutlearn.features.problem import Problem
from cutlearn.graph.cut import Cut
from cutlearn.images.sample import Sample

Mask = NDArray[np.uint8]


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


def best_cut(
    problem: Problem, w: ArrayLike, envelope: EnvelopeSpec | None = None, ordered: bool = False
) -> Cut:
    """Give the minimum of E(y; w) over all labelings that agree with the fixed nodes."""
    fixed = None if problem.fixed is None else problem.fixed.reshape(problem.shape or (-1,))
    if ordered:
        return OrderedEnergy.of(problem, w).minimize(fixed)
    return energy_of(problem, w, envelope).minimize(fixed)


def best_mask(
    problem: Problem, w: ArrayLike, envelope: EnvelopeSpec | None = None, ordered: bool = False
) -> Mask:
    """Give the labels of the best cut, in the image's shape."""
    return best_cut(problem, w, envelope, ordered).labels.astype(np.uint8)


def least_energies(
    problem: Problem, w: ArrayLike, envelope: EnvelopeSpec | None = None, ordered: bool = False
) -> NDArray[np.float64]:
    """Give the min-marginals, the image's shape + (L,): the least E(y; w) with a node at a label.

    They are infinite against a fixed label.
    """
    fixed = None if problem.fixed is None else problem.fixed.reshape(problem.shape or (-1,))
    if ordered:
        return OrderedEnergy.of(problem, w).min_marginals(fixed)
    return energy_of(problem, w, envelope).min_marginals(fixed)
