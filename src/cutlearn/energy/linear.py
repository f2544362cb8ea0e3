"""Energies that are linear in the weights: E(y; w) = w . psi(y).

w comes in the order node, edge, envelope (one part for each family of regions), with named slices;
psi(y) sums node features over the ones, edge features over the edges whose ends differ, and the
features of the fraction p_c of ones over the regions of a family, each times 1 or its size r_c:
psi_node = sum_i y_i f_i,  psi_edge = sum_e [y_i != y_j] g_e,  psi_envelope = sum_c r_c spec(p_c).
Rows G w >= h keep the cut exact: w_edge >= 0, since g_e >= 0, and every envelope concave.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.checks import float_array, instance
from cutlearn.energy.energy import Energy
from cutlearn.energy.envelope import Envelope
from cutlearn.energy.forms import Envelopes, EnvelopeSpec, specs_of
from cutlearn.errors import InputError
from cutlearn.features.problem import Problem
from cutlearn.grid import grid_slices

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Layout:
    """Where each potential's weights lie in w.

    Attributes
    ----------
    node, edge : slice
    size : int
        Length of w.
    envelopes : tuple of slice
        One for each family of regions.
    specs : tuple of EnvelopeSpec
        Their forms.
    """

    node: slice
    edge: slice
    size: int
    envelopes: tuple[slice, ...] = ()
    specs: tuple[EnvelopeSpec, ...] = ()

    def split(self, w: ArrayLike) -> dict[str, Vector]:
        """Give the parts of w: node, edge, and envelope, or envelope0, envelope1, ..."""
        checked = checked_weights(w, self.size)
        parts = {"node": checked[self.node], "edge": checked[self.edge]}
        for f, at in enumerate(self.envelopes):
            parts["envelope" if len(self.envelopes) == 1 else f"envelope{f}"] = checked[at]
        return parts

    def inside(self, w: Vector) -> Vector:
        """Give w moved into the cone G w >= 0 where a solver's rounding left it."""
        out = w.copy()
        out[self.edge] = np.maximum(out[self.edge], 0.0)
        for at, spec in zip(self.envelopes, self.specs):
            out[at] = spec.inside(out[at])
        return out


def layout_of(problem: Problem, envelope: Envelopes = None) -> Layout:
    """Give the slices of w for a problem."""
    instance("problem", problem, Problem)
    nodes, size = problem.n_node_features, problem.n_weights
    specs = specs_of(envelope, len(problem.regions))
    ends = [size, *(size + np.cumsum([spec.lines + 1 for spec in specs])).tolist()]
    parts = tuple(slice(i, j) for i, j in pairwise(ends))
    return Layout(slice(0, nodes), slice(nodes, size), ends[-1], parts, specs)


def checked_weights(w: ArrayLike, size: int) -> Vector:
    """Check w (finite, of the right length) and give it as float64."""
    array = float_array("w", w)
    if array.shape != (size,) or not np.isfinite(array).all():
        raise InputError(
            f"w: shape {array.shape} found; {size} finite weights wanted: node, edge, envelope. "
            "Use the weights learned from problems with these features."
        )
    return array


def unary_of(problem: Problem, w: ArrayLike) -> Vector:
    """Give the unary terms u_i = w_node . f_i, (n,); envelope weights behind them do not matter."""
    return _product(problem.node_features, _leading(problem, w)[: problem.n_node_features])


def weights_of(problem: Problem, w: ArrayLike) -> Vector:
    """Give the edge weights w_edge . g_e, (m,), each the cost of two ends that differ."""
    weights = _leading(problem, w)[problem.n_node_features :]
    if weights.size and weights.min() < 0:
        raise InputError(
            f"w: edge weight {weights.min():g} found; values >= 0 wanted, so that the cut is "
            "exact. Train with the default constraints."
        )
    return _product(problem.edge_features, weights)


def envelopes_of(problem: Problem, w: ArrayLike, envelope: Envelopes) -> list[Envelope]:
    """Give the envelope of every region, family by family."""
    layout = layout_of(problem, envelope)
    weights = checked_weights(w, layout.size)
    out = []
    for f, (family, spec, at) in enumerate(zip(problem.regions, layout.specs, layout.envelopes)):
        if not spec.is_concave(weights[at]):
            raise InputError(
                f"w: an envelope that is not concave found for family {f}; concave ones wanted, so "
                "that the cut is exact. Train with the default constraints."
            )
        vector = spec.inside(weights[at])
        out += [spec.envelope(vector, members) for members in family]
    return out


def energy_of(problem: Problem, w: ArrayLike, envelope: Envelopes = None) -> Energy:
    """Give the energy E(y; w) of a problem, on its grid when it has one.

    Fixed nodes are no part of an energy: pass `problem.fixed` to `minimize`, in the energy's shape.

    Examples
    --------
    >>> p = Problem([[1.0], [-3.0]], edges=[[0, 1]])
    >>> energy_of(p, [1.0, 2.0]).minimize().labels.tolist()
    [1, 1]
    """
    w = checked_weights(w, layout_of(problem, envelope).size)
    unary, weights = unary_of(problem, w), weights_of(problem, w)
    regions = envelopes_of(problem, w, envelope)
    if problem.shape is None:
        return Energy(unary, problem.edges, weights, regions)
    connectivity = int(problem.connectivity or 0)
    unary = unary.reshape(problem.shape)
    if problem.n_edges == 0:
        return Energy.grid(unary, 0.0, connectivity, regions)
    parts, begin = [], 0
    for first, _ in grid_slices(problem.shape, connectivity):
        box = [along.stop - along.start for along in first]
        count = int(np.prod(box))
        parts.append(weights[begin : begin + count].reshape(box))
        begin += count
    return Energy.grid(unary, parts, connectivity, regions)


def psi(problem: Problem, labels: ArrayLike, envelope: Envelopes = None) -> Vector:
    """Give the joint features of a labelling, in the order of w, with E(y; w) = w . psi(y).

    Parameters
    ----------
    labels : (n,) array of 0 and 1, or in the grid's shape
    envelope : EnvelopeSpec, or one for each family of regions, optional
    """
    y = np.asarray(labels).reshape(-1)
    if y.size != problem.n_nodes:
        raise InputError(
            f"labels: {y.size} found for {problem.n_nodes} nodes; one a node wanted. "
            "Use the labelling of this problem."
        )
    y = y.astype(bool)
    nodes = problem.node_features[y].sum(axis=0, dtype=np.float64)
    features = problem.edge_features
    assert features is not None
    ends = problem.edge_ends()
    edges = features[y[ends[:, 0]] != y[ends[:, 1]]].sum(axis=0, dtype=np.float64)
    parts = [nodes, edges]
    for family, spec in zip(problem.regions, specs_of(envelope, len(problem.regions))):
        weigh = family.sizes if spec.per == "node" else np.ones(len(family))
        parts.append(weigh @ spec.features(family.counts(y) / family.sizes))
    return np.concatenate(parts)


def constraints_of(
    problem: Problem, envelope: Envelopes = None
) -> tuple[NDArray[np.float64], Vector]:
    """Give the rows (G, h) with G w >= h that keep the cut exact.

    w_edge >= 0, and the concavity of every family's envelope.
    """
    layout = layout_of(problem, envelope)
    rows = [np.eye(layout.size)[layout.edge]]
    for at, spec in zip(layout.envelopes, layout.specs):
        bends = spec.constraints()
        rows.append(np.zeros((len(bends), layout.size)))
        rows[-1][:, at] = bends
    stacked = np.concatenate(rows)
    return stacked, np.zeros(len(stacked))


def _leading(problem: Problem, w: ArrayLike) -> Vector:
    """The node and edge weights, checked; envelope weights may come behind them."""
    return checked_weights(np.asarray(w, np.float64)[: problem.n_weights], problem.n_weights)


def _product(features: NDArray[Any] | None, weights: Vector) -> Vector:
    assert features is not None
    # Not by a BLAS, whose order of sums may depend on its threads.
    return np.asarray(np.einsum("ij,j->i", features, weights))
