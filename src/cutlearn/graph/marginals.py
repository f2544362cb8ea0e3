"""Min-marginals of a solved network, and sums over the labellings that attain them.

Phi_d(k) is the least energy with node d at label k: the minimum itself for the label that d has in
the cut. For the other label, argmin_d is the labelling nearest to the cut that attains it, and A_d
the nodes where the two differ.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cutlearn import _core
from cutlearn.arrays import VOID, Floats, Indices
from cutlearn.checks import (
    finite,
    float_array,
    index_array,
    label_array,
    shape_of,
)
from cutlearn.errors import InputError


@dataclass(frozen=True, eq=False)
class Argmins:
    """Min-marginals and where their labellings differ from the cut.

    Attributes
    ----------
    min_marginals : shape of the labels + (2,)
    first : (n + 1,) int64
    nodes : int64
        Flat indices: `nodes[first[d] : first[d + 1]]` is A_d, in order; empty for a fixed node.
    """

    min_marginals: Floats
    first: Indices
    nodes: Indices


@dataclass(frozen=True, eq=False)
class ArgminSums:
    """Min-marginals and sums over the labellings that attain them, for weights c and the cut y.

    With node features f, edge features g and any function h_c of the number of ones in region c,

        sum_d c_d [psi(argmin_d) - psi(y)] = (node @ f, edge @ g, sum_c region[c] @ h_c)

    Attributes
    ----------
    min_marginals : shape of the labels + (2,)
    node : (n,) float64, sum over d of c_d (argmin_d - y)
    edge : (m,) float64, sum over d of c_d ([argmin_d cuts the edge] - [y cuts it])
    region : one (size + 1,) float64 array for each region, likewise for 0, 1, ... ones in it
    """

    min_marginals: Floats
    node: Floats
    edge: Floats
    region: tuple[Floats, ...]


def min_marginals(flow: _core.Flow, shape: tuple[int, ...], threads: int) -> Floats:
    """Phi of every node and label; infinite against a fixed label."""
    return flow.min_marginals(threads).reshape(*shape, 2)


def argmins(flow: _core.Flow, shape: tuple[int, ...], threads: int) -> Argmins:
    """Phi, and for every node the nodes that turn when it does."""
    values, first, nodes = flow.argmins(threads)
    return Argmins(values.reshape(*shape, 2), first, nodes)


def argmin_sums(
    flow: _core.Flow,
    shape: tuple[int, ...],
    weights: ArrayLike | None,
    truth: ArrayLike | None,
    regions: Sequence[ArrayLike],
    threads: int,
) -> ArgminSums:
    """Phi, and sums with the weights given or with those of the likelihood of `truth`."""
    if (weights is None) == (truth is None):
        given = "neither is" if weights is None else "both are"
        raise InputError(f"weights and truth: {given} given. Give one of them.")
    c, y = np.empty(0), np.empty(0, np.uint8)
    if weights is not None:
        c = finite("weights", float_array("weights", weights))
        shape_of("weights", c, shape, "the shape of the labels")
    if truth is not None:
        void = np.asarray(truth) == VOID
        y = label_array("truth", np.where(void, 0, truth)).astype(np.uint8)
        y[void] = VOID
        shape_of("truth", y, shape, "the shape of the labels")
    n = int(np.prod(shape))
    parts = [index_array(f"regions[{k}]", r, n).ravel() for k, r in enumerate(regions)]
    ends = np.cumsum([0] + [p.size for p in parts])
    members = np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int32)
    values, node, edge, region = flow.argmin_sums(
        np.ascontiguousarray(c.ravel()), np.ascontiguousarray(y.ravel()), ends, members,
        threads,
    )  # fmt: skip
    counts = np.split(region, (ends + np.arange(ends.size))[1:-1]) if parts else []
    return ArgminSums(values.reshape(*shape, 2), node, edge, tuple(counts))
