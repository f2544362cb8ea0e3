"""Edge features on an implicit grid of any dimension: how much two neighbours differ.

Of every edge (i, j): bias 1; contrast exp(-|x_i - x_j|^2 / (2 beta)) / distance with beta the mean
squared difference over the image's edges; the difference d = |x_i - x_j| / sqrt(channels) as the
pair d, 1 - d. All lie in [0, 1] and are never centred, so weights >= 0 keep every edge submodular.
Edges come direction by direction, in each row-major by their first end; second = first + offset.
"""

from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from cutlearn.features.filters import Float32
from cutlearn.grid import grid_offsets, grid_slices


def edge_names(ndim: int, connectivity: int, per_direction: bool = False) -> list[str]:
    """Names of the columns of `edge_features`."""
    base = ["bias", "contrast", "difference", "sameness"]
    if not per_direction:
        return base
    moves = [",".join(map(str, o)) for o in grid_offsets(ndim, connectivity)]
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
        4 or 8 in two dimensions, 6, 18 or 26 in three.
    per_direction : bool
        One set of columns for each direction (zero on the others' edges), or one set for all.
    ndim : int
        Number of axes of the grid.

    Returns
    -------
    (m, G) float32 in [0, 1]
    """
    moves = grid_offsets(ndim, connectivity)
    grid = values.shape[:ndim]
    stack = np.asarray(values, np.float32).reshape(*grid, -1)
    squares = [_squares(stack, *ends) for ends in grid_slices(grid, connectivity)]
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


def edge_contrast(values: npt.NDArray[Any], connectivity: int, ndim: int = 2) -> Float32:
    """The column "contrast" of `edge_features` by itself, (m,) float32."""
    grid = values.shape[:ndim]
    stack = np.asarray(values, np.float32).reshape(*grid, -1)
    squares = [_squares(stack, *ends) for ends in grid_slices(grid, connectivity)]
    return _contrast(squares, grid_offsets(ndim, connectivity))


def _squares(stack: Float32, first: tuple[slice, ...], second: tuple[slice, ...]) -> Float32:
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
        np.exp(scale * s, dtype=np.float64) / sqrt(sum(o * o for o in move))
        for s, move in zip(squares, moves)
    ]
    return np.concatenate(parts).astype(np.float32)
