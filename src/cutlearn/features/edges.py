"""Edge features on an implicit grid of any dimension: how much two neighbours differ.

Of every edge (i, j): bias 1; contrast exp(-|x_i - x_j|^2 / (2 beta)) / distance with beta the mean
squared difference over the image's edges; the difference d = |x_i - x_j| / sqrt(channels) as the
pair d, 1 - d. All lie in [0, 1] and are never centred, so weights >= 0 keep every edge submodular.
Edges come direction by direction, in each row-major by their first end; second = first + offset.
"""

from itertools import product
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from cutlearn.errors import InputError
from cutlearn.features.filters import Float32


def directions(ndim: int, connectivity: int) -> list[tuple[int, ...]]:
    """Offsets from first to second end: along the axes, the last axis first, then diagonals.

    Examples
    --------
    >>> directions(2, 8)
    [(0, 1), (1, 0), (1, 1), (1, -1)]
    """
    axes = [tuple(int(k == a) for k in range(ndim)) for a in reversed(range(ndim))]
    if connectivity == 2 * ndim:
        return axes
    if connectivity == 3**ndim - 1:
        full = [o for o in product((0, 1, -1), repeat=ndim) if any(o)]
        positive = [o for o in full if next(k for k in o if k) > 0 and sum(map(abs, o)) > 1]
        return axes + positive
    raise InputError(
        f"connectivity: {connectivity} found; {2 * ndim} or {3**ndim - 1} was wanted on a "
        f"{ndim}-dimensional grid."
    )


def ends(offset: tuple[int, ...]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Slices of the grid that hold the first and the second ends of one direction's edges."""
    first = tuple(slice(max(0, -o), -o if o > 0 else None) for o in offset)
    second = tuple(slice(max(0, o), o if o < 0 else None) for o in offset)
    return first, second


def edge_names(ndim: int, connectivity: int, per_direction: bool = False) -> list[str]:
    """Names of the columns of `edge_features`."""
    base = ["bias", "contrast", "difference", "sameness"]
    if not per_direction:
        return base
    moves = [",".join(map(str, o)) for o in directions(ndim, connectivity)]
    return [f"{name} {move}" for move in moves for name in base]


def edge_features(
    values: npt.NDArray[Any],
    connectivity: int,
    per_direction: bool = False,
    ndim: int = 2,
) -> Float32:
    """Features of all edges of a grid.

    Parameters
    ----------
    values : grid shape, or grid shape + (channels,), float in [0, 1]
        An image, a volume.
    connectivity : int
        4 or 8 in two dimensions, 6 or 26 in three.
    per_direction : bool
        One set of columns for each direction (zero on the others' edges), or one set for all.
    ndim : int
        Number of axes of the grid.

    Returns
    -------
    (m, G) float32 in [0, 1]
    """
    moves = directions(ndim, connectivity)
    grid = values.shape[:ndim]
    stack = np.asarray(values, np.float32).reshape(*grid, -1)
    squares = [_squares(stack, move) for move in moves]
    columns = [np.ones(sum(map(len, squares)), np.float32)]
    columns.append(_contrast(squares, moves))
    d = np.sqrt(np.concatenate(squares) / np.float32(stack.shape[-1]))
    d = np.clip(d, 0, 1)
    columns += [d, 1 - d]
    one = np.stack(columns, axis=1)
    if not per_direction:
        return one
    wide = np.zeros((len(one), len(moves), one.shape[1]), np.float32)
    kind = np.repeat(np.arange(len(moves)), [len(s) for s in squares])
    wide[np.arange(len(one)), kind] = one
    return wide.reshape(len(one), -1)


def _squares(stack: Float32, move: tuple[int, ...]) -> Float32:
    first, second = ends(move)
    difference = stack[first] - stack[second]
    square: Float32 = np.einsum("...c,...c->...", difference, difference).reshape(-1)
    return square


def _contrast(squares: list[Float32], moves: list[tuple[int, ...]]) -> Float32:
    count = sum(map(len, squares))
    total = sum(float(s.sum(dtype=np.float64)) for s in squares)
    beta = total / max(count, 1)
    # A flat image has no scale of differences: its contrast is that of equals.
    scale = np.float32(-0.5 / beta) if beta > 1e-12 else np.float32(0)
    parts = [
        np.exp(scale * s) / np.float32(sqrt(sum(o * o for o in move)))
        for s, move in zip(squares, moves)
    ]
    return np.concatenate(parts).astype(np.float32)
