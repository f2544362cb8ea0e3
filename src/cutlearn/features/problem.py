"""One image as arrays, free of weights: what learning and prediction start from.

A `Problem` holds node features f_i, edges with features g_e >= 0, and optional regions, so that
weights w give the energy E(y; w) = sum_i y_i (w_node . f_i) + sum_e [y_i != y_j] (w_edge . g_e).
On a grid (`shape` and `connectivity`) no edge list is stored: edges go direction by direction,
row-major by their first end. Void nodes leave the training problem with all their edges.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.errors import InputError

VOID = 255

Shape = tuple[int, ...]


def grid_offsets(ndim: int, connectivity: int) -> list[Shape]:
    """Give the step from the first to the second end of an edge, for each direction of a grid.

    Parameters
    ----------
    ndim : int
        Number of axes, 2 or 3.
    connectivity : int
        4 or 8 in two dimensions, 6, 18 or 26 in three.
    """
    if (ndim, connectivity) not in ((2, 4), (2, 8), (3, 6), (3, 18), (3, 26)):
        raise InputError(
            f"connectivity: {connectivity} found for {ndim} axes; 4 or 8 wanted in 2-D, 6, 18 "
            "or 26 in 3-D. Choose one of these."
        )
    zero = (0,) * ndim
    reach = {4: 1, 8: 2, 6: 1, 18: 2, 26: 3}[connectivity]
    steps = [step for step in product((-1, 0, 1), repeat=ndim) if step > zero]
    near = [step for step in steps if sum(map(abs, step)) <= reach]
    # Nearest first, along the last axis first: the order of grid_edges.
    return sorted(near, key=lambda s: (sum(map(abs, s)), [abs(k) for k in s], [-k for k in s]))


def grid_ends(step: Shape) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Give the slices of a grid that hold the first and the second ends of a direction's edges."""
    head = {0: slice(None), 1: slice(0, -1), -1: slice(1, None)}
    return tuple(head[s] for s in step), tuple(head[-s] for s in step)


def grid_edge_counts(shape: Shape, connectivity: int) -> list[int]:
    """Give the number of edges in each direction of a grid."""
    return [
        int(np.prod([max(size - abs(s), 0) for size, s in zip(shape, step)]))
        for step in grid_offsets(len(shape), connectivity)
    ]


@dataclass(frozen=True, eq=False)
class Problem:
    """The arrays of one image. A value: nothing changes it after it is made.

    Parameters
    ----------
    node_features : (n, F) array, or the grid's shape + (F,)
        Kept as float32 when it is float32, else float64.
    edges : (m, 2) int array, optional
        Pairs of node indices. Not given for a grid.
    edge_features : (m, G) array >= 0, optional
        For a grid: (m, G), or a list with one array for each direction. Without it every edge
        has the one feature 1, and a grid without it has no edges.
    regions : sequence of index arrays, or a map of n region numbers (negative: in no region)
        Sets of nodes for higher-order terms.
    fixed : (n,) int array, optional
        -1 where a node is free, else its label.
    shape, connectivity : optional
        The grid on which the nodes lie, row-major.

    Examples
    --------
    >>> import numpy as np
    >>> p = Problem(np.ones((2, 3, 4)), edge_features=np.ones((7, 1)), shape=(2, 3), connectivity=4)
    >>> p.n_nodes, p.n_edges, p.n_weights
    (6, 7, 5)
    """

    node_features: NDArray[Any]
    edges: NDArray[np.int32] | None = None
    edge_features: NDArray[Any] | None = None
    regions: Any = ()
    fixed: NDArray[np.int8] | None = None
    shape: Shape | None = None
    connectivity: int | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        if self.shape is not None:
            put(self, "shape", tuple(int(size) for size in self.shape))
        nodes = _checked_nodes(self.node_features, self.shape)
        put(self, "node_features", _frozen(nodes))
        n = nodes.shape[0]
        if self.shape is not None:
            if self.edges is not None:
                raise InputError(
                    "edges: an edge list found beside a grid's shape; one of the two wanted. "
                    "Leave out edges, or leave out shape."
                )
            if self.connectivity is None:
                put(self, "connectivity", 4 if len(self.shape) == 2 else 6)
            counts = grid_edge_counts(self.shape, int(self.connectivity or 0))
            features = _checked_grid_features(self.edge_features, counts)
        else:
            put(self, "edges", _frozen(_checked_edges(self.edges, n)))
            features = _checked_edge_features(self.edge_features, len(self._edges))
        put(self, "edge_features", _frozen(features))
        put(self, "regions", _checked_regions(self.regions, n))
        if self.fixed is not None:
            put(self, "fixed", _frozen(_checked_fixed(self.fixed, n)))

    @property
    def _edges(self) -> NDArray[np.int32]:
        assert self.edges is not None
        return self.edges

    @property
    def _edge_features(self) -> NDArray[Any]:
        assert self.edge_features is not None
        return self.edge_features

    @property
    def n_nodes(self) -> int:
        """Number of nodes n."""
        return int(self.node_features.shape[0])

    @property
    def n_edges(self) -> int:
        """Number of edges m (0 for a grid without edge features)."""
        return int(self._edge_features.shape[0])

    @property
    def n_node_features(self) -> int:
        """Number of node features F."""
        return int(self.node_features.shape[1])

    @property
    def n_edge_features(self) -> int:
        """Number of edge features G."""
        return int(self._edge_features.shape[1])

    @property
    def n_weights(self) -> int:
        """Length of w: F + G."""
        return self.n_node_features + self.n_edge_features

    def edge_ends(self) -> NDArray[np.int32]:
        """Give the edges as (m, 2) node indices; a grid's are made on the way."""
        if self.shape is None:
            return self._edges
        if self.n_edges == 0:
            return np.zeros((0, 2), np.int32)
        ids = np.arange(self.n_nodes, dtype=np.int32).reshape(self.shape)
        pairs = []
        for step in grid_offsets(len(self.shape), int(self.connectivity or 0)):
            first, second = grid_ends(step)
            pairs.append(np.stack([ids[first].ravel(), ids[second].ravel()], axis=1))
        return np.concatenate(pairs)

    def training(self, labels: ArrayLike) -> "tuple[Problem, NDArray[np.uint8]]":
        """Give the problem of the labelled nodes only, and their labels.

        Void nodes (255) are removed with their edges and region memberships. A grid stays a grid:
        its void nodes get zero features, zero edges and the label 0, which is the same problem,
        since such a node costs nothing.

        Parameters
        ----------
        labels : (n,) array, or in the grid's shape
            0, 1 or 255.
        """
        given = checked_labels(self, labels)
        void = given == VOID
        if not void.any():
            return self, given
        if void.all():
            raise InputError(
                "labels: only void (255) found; at least one labelled node wanted. "
                "Leave this image out."
            )
        return self._emptied(void, given) if self.shape is not None else self._without(void, given)

    def _emptied(
        self, void: NDArray[np.bool_], labels: NDArray[np.uint8]
    ) -> "tuple[Problem, NDArray[np.uint8]]":
        nodes = np.where(void[:, None], 0, self.node_features).astype(
            self.node_features.dtype, copy=False
        )
        features = self._edge_features
        if self.n_edges:
            ends = self.edge_ends()
            dead = void[ends[:, 0]] | void[ends[:, 1]]
            features = np.where(dead[:, None], 0, features).astype(features.dtype, copy=False)
        fixed = None if self.fixed is None else np.where(void, -1, self.fixed).astype(np.int8)
        regions = tuple(members[~void[members]] for members in self.regions)
        regions = tuple(members for members in regions if len(members))
        problem = replace(
            self, node_features=nodes, edge_features=features, fixed=fixed, regions=regions
        )
        return problem, np.where(void, 0, labels).astype(np.uint8)

    def _without(
        self, void: NDArray[np.bool_], labels: NDArray[np.uint8]
    ) -> "tuple[Problem, NDArray[np.uint8]]":
        keep = ~void
        number = np.cumsum(keep) - 1
        alive = keep[self._edges].all(axis=1)
        regions = [number[members[keep[members]]] for members in self.regions]
        problem = Problem(
            self.node_features[keep],
            number[self._edges[alive]].astype(np.int32),
            self._edge_features[alive],
            [members for members in regions if len(members)],
            None if self.fixed is None else self.fixed[keep],
        )
        return problem, labels[keep]


def checked_labels(problem: Problem, labels: ArrayLike) -> NDArray[np.uint8]:
    """Check labels (0, 1 or 255 for void) against a problem and give them flat, as uint8."""
    given = np.asarray(labels)
    if given.size != problem.n_nodes:
        raise InputError(
            f"labels: shape {given.shape} found for {problem.n_nodes} nodes; one label a node "
            "wanted. Use the mask of this image."
        )
    flat = given.reshape(-1)
    odd = (flat != 0) & (flat != 1) & (flat != VOID)
    if odd.any():
        found = ", ".join(str(v) for v in np.unique(flat[odd])[:5])
        raise InputError(
            f"labels: values {found} found; 0, 1 and 255 (void) wanted. Convert the mask first."
        )
    out = flat.astype(np.uint8)
    if problem.fixed is not None:
        wrong = (problem.fixed >= 0) & (out != VOID) & (problem.fixed != out)
        if wrong.any():
            raise InputError(
                f"labels: {int(wrong.sum())} nodes are fixed to the other label (first: node "
                f"{int(np.flatnonzero(wrong)[0])}); labels that agree wanted. Correct the fixed "
                "nodes or mark these void (255)."
            )
    return out


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def _float(name: str, value: ArrayLike) -> NDArray[Any]:
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name}: {array.dtype} values found; numbers wanted. Convert them.")
    array = array.astype(np.float32 if array.dtype == np.float32 else np.float64, copy=False)
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise InputError(
            f"{name}: NaN or infinity found at {where}; finite numbers wanted. Clean the features."
        )
    return array


def _checked_nodes(value: ArrayLike, shape: Shape | None) -> NDArray[Any]:
    array = _float("node_features", value)
    if shape is not None and array.shape[:-1] == shape:
        array = array.reshape(-1, array.shape[-1])
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(
            f"node_features: shape {array.shape} found; (n, F) with at least one node and one "
            "feature wanted. Reshape the array."
        )
    if shape is not None and array.shape[0] != np.prod(shape):
        raise InputError(
            f"node_features: {array.shape[0]} nodes found for a grid of shape {shape}; "
            f"{int(np.prod(shape))} wanted. Give one row a pixel."
        )
    return array


def _indices(name: str, value: ArrayLike, n: int) -> NDArray[np.int32]:
    array = np.asarray(value)
    if array.size == 0:
        return array.astype(np.int32)
    if array.dtype.kind not in "iu":
        raise InputError(f"{name}: {array.dtype} values found; integers wanted. Convert them.")
    low, high = int(array.min()), int(array.max())
    if low < 0 or high >= n:
        raise InputError(
            f"{name}: index {low if low < 0 else high} found with {n} nodes; 0 to {n - 1} wanted. "
            "Correct the indices."
        )
    return array.astype(np.int32, copy=False)


def _checked_edges(value: ArrayLike | None, n: int) -> NDArray[np.int32]:
    if value is None:
        return np.zeros((0, 2), np.int32)
    array = _indices("edges", value, n)
    if array.size == 0:
        return np.zeros((0, 2), np.int32)
    if array.ndim != 2 or array.shape[1] != 2:
        raise InputError(f"edges: shape {array.shape} found; (m, 2) wanted. Give pairs of nodes.")
    loops = np.flatnonzero(array[:, 0] == array[:, 1])
    if len(loops):
        raise InputError(
            f"edges: edge {int(loops[0])} joins a node to itself; two different nodes wanted. "
            "Remove such edges."
        )
    return array


def _checked_edge_features(value: ArrayLike | None, m: int) -> NDArray[Any]:
    if value is None:
        return np.ones((m, 1 if m else 0))
    array = _float("edge_features", value)
    if array.ndim != 2 or array.shape[0] != m:
        raise InputError(
            f"edge_features: shape {array.shape} found for {m} edges; ({m}, G) wanted. "
            "Give one row an edge, in the order of the edges."
        )
    if array.size and array.min() < 0:
        row, column = (int(i) for i in np.argwhere(array < 0)[0])
        raise InputError(
            f"edge_features: {array[row, column]:g} found at edge {row}, feature {column}; values "
            ">= 0 wanted, so that weights >= 0 keep the cut exact. Scale to [0, 1]; give a "
            "difference d as the pair d, 1 - d."
        )
    return array


def _checked_grid_features(value: Any, counts: list[int]) -> NDArray[Any]:
    # (0, 0) is what a grid without edges holds itself, and hands on to its training problem.
    if value is None or (isinstance(value, np.ndarray) and value.shape == (0, 0)):
        return np.zeros((0, 0))
    if isinstance(value, list | tuple):
        if len(value) != len(counts):
            raise InputError(
                f"edge_features: {len(value)} arrays found; {len(counts)} wanted, one for each "
                "direction of the grid. See grid_edges for their order."
            )
        rows = [np.asarray(part) for part in value]
        value = np.concatenate([part.reshape(-1, part.shape[-1]) for part in rows])
    return _checked_edge_features(value, sum(counts))


def _checked_regions(value: Any, n: int) -> tuple[NDArray[np.int32], ...]:
    if isinstance(value, np.ndarray):
        if value.size != n or value.dtype.kind not in "iu":
            raise InputError(
                f"regions: a map of shape {value.shape} and type {value.dtype} found; {n} integer "
                "region numbers wanted. Give one a node, or a list of index arrays."
            )
        flat = value.reshape(-1)
        order = np.argsort(flat, kind="stable").astype(np.int32)
        ordered = flat[order]
        parts = np.split(order, np.flatnonzero(np.diff(ordered)) + 1)
        return tuple(_frozen(part) for part in parts if flat[part[0]] >= 0)
    if not isinstance(value, Sequence):
        raise InputError("regions: neither a sequence nor a map found; one of these wanted.")
    out = []
    for number, part in enumerate(value):
        members = _indices(f"regions[{number}]", part, n).reshape(-1)
        if len(members) == 0 or len(np.unique(members)) != len(members):
            raise InputError(
                f"regions[{number}]: an empty region or a node named twice found; distinct nodes "
                "wanted. Correct the region."
            )
        out.append(_frozen(members))
    return tuple(out)


def _checked_fixed(value: ArrayLike, n: int) -> NDArray[np.int8]:
    array = np.asarray(value).reshape(-1)
    if array.size != n or not np.isin(array, (-1, 0, 1)).all():
        raise InputError(
            f"fixed: {array.size} values found for {n} nodes, each to be -1 (free), 0 or 1; "
            "one a node wanted. Give -1 where nothing is known."
        )
    return array.astype(np.int8)
