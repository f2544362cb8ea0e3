"""One image as arrays, free of weights: what learning and prediction start from.

A `Problem` holds node features f_i, edges with features g_e >= 0, and optional regions, so that
weights w give the energy E(y; w) = sum_i y_i (w_node . f_i) + sum_e [y_i != y_j] (w_edge . g_e),
and an envelope of the fraction of ones in every region beside it.
On a grid (`shape` and `connectivity`) no edge list is stored: edges go direction by direction,
row-major by their first end. In max-margin training void nodes take no part (`training`); in
likelihood training and in prediction they are nodes like any other, without a label to learn from.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.arrays import VOID, Shape
from cutlearn.checks import as_array, edge_array, index_array
from cutlearn.errors import InputError
from cutlearn.grid import grid_edge_counts, grid_edges


@dataclass(frozen=True, eq=False)
class Family:
    """The regions of one family, end to end. A sequence of index arrays.

    Parameters
    ----------
    first : (R + 1,) int64
        Region c is members[first[c]:first[c + 1]].
    members : int32 array
    """

    first: NDArray[np.int64]
    members: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.first) - 1

    def __getitem__(self, c: int) -> NDArray[np.int32]:
        if not -len(self) <= c < len(self):
            raise IndexError(c)
        c %= len(self)
        return self.members[self.first[c] : self.first[c + 1]]

    def __iter__(self) -> Iterator[NDArray[np.int32]]:
        return (self[c] for c in range(len(self)))

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The number of nodes of each region."""
        return np.diff(self.first)

    def counts(self, labels: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the number of ones in each region."""
        ones = np.concatenate([[0], np.cumsum(labels[self.members])])
        return np.asarray(ones[self.first[1:]] - ones[self.first[:-1]], np.int64)

    def kept(self, keep: NDArray[np.bool_]) -> "Family":
        """Return the family without some nodes; regions left empty vanish."""
        alive = keep[self.members]
        owner = np.repeat(np.arange(len(self)), self.sizes)[alive]
        sizes = np.bincount(owner, minlength=len(self))
        return _family(sizes[sizes > 0], self.members[alive])


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
    regions : family, or sequence of families
        Sets of nodes for envelopes. A family is a map of n region numbers (negative: in no region)
        or a sequence of index arrays; regions may overlap. Kept as a tuple of `Family`.
    fixed : (n,) int array, optional
        -1 where a node is free, else its label.
    shape, connectivity : optional
        The grid on which the nodes lie, row-major.
    known : (n,) bool array, optional
        False for nodes that take no part, as `training` makes void ones. Whatever a potential
        says of such a node or of its edges does not count (`Model.terms`).

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
    known: NDArray[np.bool_] | None = None

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
                    "edges and shape are both given, but a grid's shape says what its edges are. "
                    "Leave out edges, or leave out shape."
                )
            if self.connectivity is None:
                put(self, "connectivity", 4 if len(self.shape) == 2 else 6)
            counts = grid_edge_counts(self.shape, int(self.connectivity or 0))
            features = _checked_grid_features(self.edge_features, counts)
        else:
            put(self, "edges", _frozen(edge_array(self.edges, n).astype(np.int32)))
            features = _checked_edge_features(self.edge_features, len(self._edges))
        put(self, "edge_features", _frozen(features))
        put(self, "regions", families_of(self.regions, n))
        if self.fixed is not None:
            put(self, "fixed", _frozen(_checked_fixed(self.fixed, n)))
        if self.known is not None:
            put(self, "known", _frozen(_checked_known(self.known, n)))

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
        """Length of w without envelopes: F + G."""
        return self.n_node_features + self.n_edge_features

    def edge_ends(self) -> NDArray[np.int32]:
        """Return the edges as (m, 2) node indices; a grid's are made on the way.

        On a grid the edges of an unknown node are loops at it: they join nothing.
        """
        ends = self._all_ends()
        if self.known is None or not ends.size:
            return ends
        first, second = ends.T
        lost = np.where(self.known[first], second, first)
        return np.where(self._joins(self.known)[:, None], ends, lost[:, None])

    def edge_counts(self) -> list[int]:
        """Return the number of edges in each direction of the grid."""
        assert self.shape is not None
        return grid_edge_counts(self.shape, int(self.connectivity or 0))

    def split_edges(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """Return what the edges have, (m, ..), direction by direction."""
        return np.split(values, np.cumsum(self.edge_counts())[:-1])

    def without_features(self) -> "Problem":
        """Return the problem with zeros for features, which take no memory."""
        made = copy(self)
        for name in ("node_features", "edge_features"):
            shape = getattr(self, name).shape
            object.__setattr__(made, name, np.broadcast_to(np.float32(0), shape))
        return made

    def _joins(self, known: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which edges have two known ends."""
        first, second = self._all_ends().T
        alive: NDArray[np.bool_] = known[first] & known[second]
        return alive

    def _all_ends(self) -> NDArray[np.int32]:
        if self.shape is None:
            return self._edges
        if self.n_edges == 0:
            return np.zeros((0, 2), np.int32)
        return np.concatenate(grid_edges(self.shape, int(self.connectivity or 0)), dtype=np.int32)

    def training(self, labels: ArrayLike, n_labels: int = 2) -> "tuple[Problem, NDArray[np.uint8]]":
        """Return the problem of max-margin training: void nodes (255) are unknown.

        An unknown node keeps its number, loses its features, its edges and its memberships of
        regions, and has the label 0. The last node that is known cannot leave.

        Parameters
        ----------
        labels : (n,) array, or in the grid's shape
            0 to n_labels - 1, or 255.
        n_labels : int
        """
        given = checked_labels(self, labels, n_labels)
        known = self.known_of(given)
        if known.all():
            return self, given
        nodes = np.where(known[:, None], self.node_features, 0)
        edges, features = self.edges, self._edge_features
        if self.shape is None:
            alive = self._joins(known)
            edges, features = self._edges[alive], features[alive]
        elif self.n_edges:
            alive = self._joins(known)
            features = np.where(alive[:, None], features, 0)
        problem = replace(
            self,
            node_features=nodes.astype(self.node_features.dtype, copy=False),
            edges=edges,
            edge_features=features.astype(self._edge_features.dtype, copy=False),
            regions=tuple(family.kept(known) for family in self.regions),
            fixed=None if self.fixed is None else np.where(known, self.fixed, -1),
            known=known,
        )
        return problem, np.where(known, given, 0).astype(np.uint8)

    def known_of(self, labels: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Return which nodes are known and not void (255); refuse labels that leave none."""
        known = np.not_equal(labels, VOID)
        if self.known is not None:
            known = np.logical_and(known, self.known)
        if not known.any():
            raise InputError(
                "labels are all void (255), but at least one labelled node is needed. Leave this "
                "image out."
            )
        return known


def checked_labels(problem: Problem, labels: ArrayLike, n_labels: int = 2) -> NDArray[np.uint8]:
    """Check labels (0 to n_labels - 1, or 255 for void) and return them flat, as uint8."""
    given = as_array("labels", labels)
    # A mask on its side has as many labels as the right one.
    turned = given.ndim > 1 and problem.shape is not None and given.shape != problem.shape
    if given.size != problem.n_nodes or turned:
        of = "" if problem.shape is None else f" of shape {problem.shape}"
        raise InputError(
            f"labels has shape {given.shape}, but the problem has {problem.n_nodes} nodes{of}. Use "
            "the mask of this image."
        )
    flat = given.reshape(-1)
    odd = ~np.isin(flat, [*range(n_labels), VOID])
    wanted = "0, 1" if n_labels == 2 else f"0 to {n_labels - 1}"
    if odd.any():
        found = ", ".join(str(v) for v in np.unique(flat[odd])[:5])
        raise InputError(
            f"labels has values {found}, but only {wanted} and 255 (void) are possible. Convert "
            "the mask first."
        )
    out = flat.astype(np.uint8)
    if problem.fixed is not None:
        if problem.fixed.max() >= n_labels:
            raise InputError(
                f"fixed has the value {problem.fixed.max()}, but only -1 (free) and labels "
                f"{wanted} are possible."
            )
        wrong = (problem.fixed >= 0) & (out != VOID) & (problem.fixed != out)
        if wrong.any():
            raise InputError(
                f"labels disagree with fixed at {int(wrong.sum())} nodes (the first is node "
                f"{int(np.flatnonzero(wrong)[0])}). Correct the fixed nodes, or mark these void "
                "(255)."
            )
    return out


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def _float(name: str, value: ArrayLike) -> NDArray[Any]:
    array = as_array(name, value)
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name} must hold real numbers, not values of type {array.dtype}.")
    array = array.astype(np.float32 if array.dtype == np.float32 else np.float64, copy=False)
    # The least and the largest number tell it without a copy.
    if array.size and not np.isfinite([array.min(), array.max()]).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise InputError(
            f"{name} has NaN or infinity at {where}, but every number must be finite. Clean the "
            "features."
        )
    return array


def _checked_nodes(value: ArrayLike, shape: Shape | None) -> NDArray[Any]:
    array = _float("node_features", value)
    if shape is not None and array.shape[:-1] == shape:
        array = array.reshape(-1, array.shape[-1])
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(
            f"node_features has shape {array.shape}, but must have shape (n, F), with at least one "
            "node and one feature. Reshape the array."
        )
    if shape is not None and array.shape[0] != np.prod(shape):
        raise InputError(
            f"node_features has {array.shape[0]} rows, but a grid of shape {shape} has "
            f"{int(np.prod(shape))} nodes. Give one row for each pixel."
        )
    return array


def _checked_edge_features(value: ArrayLike | None, m: int) -> NDArray[Any]:
    if value is None:
        return np.ones((m, 1 if m else 0))
    array = _float("edge_features", value)
    if array.ndim != 2 or array.shape[0] != m:
        raise InputError(
            f"edge_features has shape {array.shape}, but must have shape ({m}, G), for {m} edges. "
            "Give one row for each edge, in the order of the edges."
        )
    if array.size and array.min() < 0:
        row, column = (int(i) for i in np.argwhere(array < 0)[0])
        raise InputError(
            f"edge_features is {array[row, column]:g} at edge {row}, feature {column}, but must be "
            ">= 0, so that weights >= 0 keep the cut exact. Scale to [0, 1], and give a difference "
            "d as the pair d, 1 - d."
        )
    return array


def _checked_grid_features(value: Any, counts: list[int]) -> NDArray[Any]:
    # (0, 0) is what a grid without edges holds itself, and hands on to its training problem.
    if value is None or (isinstance(value, np.ndarray) and value.shape == (0, 0)):
        return np.zeros((0, 0))
    if isinstance(value, list | tuple):
        if len(value) != len(counts):
            raise InputError(
                f"edge_features has {len(value)} arrays, but this grid has {len(counts)} "
                "directions of edges. Give one array for each; grid_edges shows their order."
            )
        rows = [np.asarray(part) for part in value]
        value = np.concatenate([part.reshape(-1, part.shape[-1]) for part in rows])
    return _checked_edge_features(value, sum(counts))


def _checked_known(value: ArrayLike, n: int) -> NDArray[np.bool_]:
    array = as_array("known", value).reshape(-1)
    if array.size != n or array.dtype != np.bool_:
        raise InputError(
            f"known has {array.size} values of type {array.dtype}, but must have a bool for each "
            f"of the {n} nodes. Pass False where a node takes no part."
        )
    return array


def _checked_fixed(value: ArrayLike, n: int) -> NDArray[np.int8]:
    array = as_array("fixed", value).reshape(-1)
    known = array.dtype.kind in "iubf" and np.isin(array, np.arange(-1, 127)).all()
    if array.size != n or not known:
        raise InputError(
            f"fixed must hold -1 (free) or a label for each of the {n} nodes, but has {array.size} "
            "values, or others than these. Give -1 where nothing is known."
        )
    return array.astype(np.int8)


def families_of(value: Any, n: int) -> tuple[Family, ...]:
    """Read the regions of n nodes: one family, or a sequence of families.

    An array among several is a label map, unless it is flat and names distinct nodes: then it is a
    region of a single family.
    """
    if isinstance(value, Family):
        value = (value,)
    if isinstance(value, np.ndarray):
        if value.ndim > 1 and len(value) and value[0].size == n > 1:
            return tuple(_of_map(part, n) for part in value)
        return (_of_map(value, n),)
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise InputError("regions must be a map of region numbers or a list of regions.")
    if any(_is_family(part, n) for part in value):
        return tuple(_read(part, n, f"regions[{f}]") for f, part in enumerate(value))
    return (_of_lists(value, n, "regions"),) if len(value) else ()


def _family(sizes: NDArray[Any], members: ArrayLike) -> Family:
    first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    nodes = np.ascontiguousarray(members, dtype=np.int32)
    for array in (first, nodes):
        array.flags.writeable = False
    return Family(first, nodes)


def _is_family(part: Any, n: int) -> bool:
    if isinstance(part, Family):
        return True
    if isinstance(part, np.ndarray):
        flat = part.reshape(-1)
        distinct = len(np.unique(flat)) == len(flat) and (flat >= 0).all()
        return part.ndim > 1 or (flat.size == n and not distinct)
    return isinstance(part, Sequence) and len(part) > 0 and np.ndim(part[0]) > 0


def _read(part: Any, n: int, name: str) -> Family:
    if isinstance(part, Family):
        index_array(name, part.members, n)
        return part
    return _of_map(part, n, name) if isinstance(part, np.ndarray) else _of_lists(part, n, name)


def _of_map(value: NDArray[Any], n: int, name: str = "regions") -> Family:
    if value.size != n or value.dtype.kind not in "iu":
        raise InputError(
            f"{name} is a map of shape {value.shape} and type {value.dtype}, but must hold {n} "
            "integer region numbers. Give one for each node, or a list of index arrays."
        )
    flat = value.reshape(-1)
    order = np.argsort(flat, kind="stable").astype(np.int32)
    order = order[int(np.count_nonzero(flat < 0)) :]
    _, sizes = np.unique(flat[order], return_counts=True)
    return _family(sizes, order)


def _of_lists(value: Sequence[Any], n: int, name: str) -> Family:
    parts = [index_array(f"{name}[{c}]", part, n).reshape(-1) for c, part in enumerate(value)]
    for c, members in enumerate(parts):
        if len(members) == 0 or len(np.unique(members)) != len(members):
            raise InputError(
                f"{name}[{c}] is empty or names a node twice, but a region is a set of different "
                "nodes. Correct the region."
            )
    sizes = np.array([len(members) for members in parts], np.int64)
    return _family(sizes, np.concatenate(parts) if parts else np.zeros(0, np.int32))
