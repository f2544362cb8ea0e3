"""The edges of n-D grids: which directions there are, and their order.

The core never lists them; these functions do it for users and for tests.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlearn import _core
from cutlearn.arrays import Indices
from cutlearn.checks import MOST_NODES, is_one_of, listed, whole_number
from cutlearn.errors import InputError, quoted

# 10: within a slice as 8 in an image, and one neighbour in each of the slices beside it.
CONNECTIVITY = {2: (4, 8), 3: (6, 10, 18, 26)}


def grid_offsets(ndim: int, connectivity: int) -> list[tuple[int, ...]]:
    """Return the forward directions, nearest first: (0, 1), (1, 0), (1, 1), (1, -1) for 8."""
    if ndim not in CONNECTIVITY:
        raise InputError(f"shape has {ndim} dimensions, but a grid must have 2 or 3.")
    allowed = CONNECTIVITY[ndim]
    if not is_one_of(connectivity, allowed):
        raise InputError(
            f"connectivity must be {' or '.join(map(str, allowed))} on a grid of {ndim} "
            f"dimensions, not {quoted(connectivity)}."
        )
    return [tuple(o[3 - ndim :]) for o in _core.forward_offsets(connectivity)]


def check_grid(shape: tuple[int, ...], connectivity: int) -> None:
    """Refuse a grid that is too large for the core."""
    grid_offsets(len(shape), connectivity)
    try:
        _core.check_grid(list(shape))
    except ValueError as error:
        raise InputError(
            f"unary: a grid of shape {shape} is too large: {error}. Cut it into overlapping parts, "
            "or work at a smaller size."
        ) from None


def grid_edges(shape: tuple[int, ...], connectivity: int) -> list[Indices]:
    """Return the edges of a grid as (m_d, 2) arrays of flat node indices, one for each direction.

    Examples
    --------
    >>> import cutlearn as cl
    >>> [e.tolist() for e in cl.grid_edges((2, 2), 4)]
    [[[0, 1], [2, 3]], [[0, 2], [1, 3]]]
    """
    shape = checked_shape(shape)
    nodes = np.arange(math.prod(shape)).reshape(shape)
    return [
        np.stack([nodes[tail].ravel(), nodes[head].ravel()], axis=1)
        for tail, head in grid_slices(shape, connectivity)
    ]


def checked_shape(shape: Any) -> tuple[int, ...]:
    """Return the shape of a grid; refuse other than whole numbers, and too many nodes."""
    sides = listed("shape", shape)
    if not 2 <= len(sides) <= 3:
        raise InputError(f"shape has {len(sides)} dimensions, but a grid must have 2 or 3.")
    sizes = tuple(whole_number("shape", side, 0, MOST_NODES) for side in sides)
    whole_number("shape: number of nodes", math.prod(sizes), 0, MOST_NODES)
    return sizes


def grid_slices(
    shape: tuple[int, ...], connectivity: int
) -> list[tuple[tuple[slice, ...], tuple[slice, ...]]]:
    """Return for each direction the slices of an image with the first and the second ends."""
    return [
        (
            tuple(slice(max(0, -d), max(0, s - max(0, d))) for s, d in zip(shape, offset)),
            tuple(slice(max(0, d), max(0, s - max(0, -d))) for s, d in zip(shape, offset)),
        )
        for offset in grid_offsets(len(shape), connectivity)
    ]


def grid_edge_counts(shape: tuple[int, ...], connectivity: int) -> list[int]:
    """Return the number of edges in each direction."""
    return [
        int(np.prod([max(0, s - abs(d)) for s, d in zip(shape, offset)]))
        for offset in grid_offsets(len(shape), connectivity)
    ]


def edge_ends(
    shape: tuple[int, ...], connectivity: int, direction: int, edge: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the coordinates of both ends of one edge of one direction."""
    offset = grid_offsets(len(shape), connectivity)[direction]
    box = [s - abs(d) for s, d in zip(shape, offset)]
    corner = [max(0, -d) for d in offset]
    tail = tuple(int(c + i) for c, i in zip(corner, np.unravel_index(edge, box)))
    return tail, tuple(t + d for t, d in zip(tail, offset))


def direction_features(shape: tuple[int, ...], connectivity: int) -> list[NDArray[np.float32]]:
    """Return edge features of the directions of a grid: one indicator each.

    Examples
    --------
    >>> import cutlearn as cl
    >>> [f.tolist() for f in cl.direction_features((1, 3), 4)]
    [[[1.0, 0.0], [1.0, 0.0]], []]
    """
    counts = grid_edge_counts(checked_shape(shape), connectivity)
    every = np.eye(len(counts), dtype=np.float32)
    return [np.repeat(row[None], count, axis=0) for row, count in zip(every, counts)]
