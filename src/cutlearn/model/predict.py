"""From a problem and weights to its best labels: one exact cut.

E(y; w) = sum_i y_i (w_node . f_i) + sum_e [y_i != y_j] (w_edge . g_e) goes to the core as a grid;
nodes that a person has settled are fixed.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.energy.energy import Energy
from cutlearn.energy.linear import unary_of, weights_of
from cutlearn.features.featurizer import Featurizer
from cutlearn.features.problem import Problem
from cutlearn.graph.cut import Cut
from cutlearn.grid import grid_slices
from cutlearn.images.sample import Sample

Mask = NDArray[np.uint8]


def problem_of(
    sample: Sample,
    featurizer: Featurizer,
    node_features: NDArray[np.float32] | None = None,
    edges: bool = True,
) -> Problem:
    """Give the problem of a sample: its features, and its box and seeds as fixed nodes.

    Parameters
    ----------
    node_features : (h * w, F) float32, optional
        Out-of-fold features of a training image; computed when not given.
    edges : bool
        Whether neighbours are joined.
    """
    if node_features is None:
        node_features = featurizer.node_features(sample.image, sample.extra)
    fixed = None
    if sample.box is not None or sample.seeds is not None:
        fixed = sample.fixed().astype(np.int8).reshape(-1)
    return Problem(
        node_features,
        edge_features=featurizer.edge_features(sample.image) if edges else None,
        fixed=fixed,
        shape=sample.shape,
        connectivity=featurizer.connectivity,
    )


def grid_energy(problem: Problem, w: ArrayLike) -> Energy:
    """Give the energy of a problem on a grid at weights w."""
    assert problem.shape is not None
    assert problem.connectivity is not None
    unary = unary_of(problem, w).reshape(problem.shape)
    if problem.n_edges == 0:
        return Energy.grid(unary, 0.0, problem.connectivity)
    flat, weights, start = weights_of(problem, w), [], 0
    for first, _ in grid_slices(problem.shape, problem.connectivity):
        box = tuple(s.stop - s.start for s in first)
        size = int(np.prod(box))
        weights.append(flat[start : start + size].reshape(box))
        start += size
    return Energy.grid(unary, weights, problem.connectivity)


def best_cut(problem: Problem, w: ArrayLike) -> Cut:
    """Give the minimum of E(y; w) over all labelings that agree with the fixed nodes."""
    fixed = None if problem.fixed is None else problem.fixed.reshape(problem.shape or (-1,))
    return grid_energy(problem, w).minimize(fixed)


def best_mask(problem: Problem, w: ArrayLike) -> Mask:
    """Give the labels of the best cut, in the image's shape."""
    return best_cut(problem, w).labels.astype(np.uint8)
