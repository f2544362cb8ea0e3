"""Edge features on an implicit grid of any dimension: how much two neighbours differ.

Of every edge (i, j): bias 1; contrast exp(-|x_i - x_j|^2 / (2 beta)) / distance with beta the mean
squared difference over the image's edges; the difference d = |x_i - x_j| / sqrt(channels) as the
pair d, 1 - d. All lie in [0, 1] and are never centred, so weights >= 0 keep every edge submodular.
Edges come direction by direction, in each row-major by their first end; second = first + offset.
In a volume, slices are often further apart than pixels: edges between them have a beta of their
own, and columns of their own (`own`), or the same columns times how near slices are.
"""

from collections.abc import Callable
from math import sqrt

import numpy as np

from cutlearn.arrays import AnyArray, Float32, Floats
from cutlearn.grid import grid_offsets, grid_slices

# Edges that are worked on at a time.
BLOCK = 1 << 15
# Pixels whose differences are summed at a time.
ROWS = 1 << 20


def edge_names(ndim: int, connectivity: int, per_direction: bool = False) -> list[str]:
    """Return the names of the columns of `edge_features`."""
    base = ["bias", "contrast", "difference", "sameness"]
    if not per_direction:
        return base
    moves = [",".join(map(str, o)) for o in grid_offsets(ndim, connectivity)]
    return [f"{name} {move}" for move in moves for name in base]


def volume_edge_names(own: bool) -> list[str]:
    """Return the names of the columns of `volume_edge_features`."""
    base = edge_names(3, 6)
    return base + [f"{name} between slices" for name in base] if own else base


def edge_features(
    values: AnyArray,
    connectivity: int,
    per_direction: bool = False,
    ndim: int = 2,
) -> Float32:
    """Return the features of all edges of a grid.

    Parameters
    ----------
    values : grid shape, or grid shape + (channels,), float in [0, 1]
        An image, a volume.
    connectivity : int
        4 or 8 in two dimensions, 6, 10, 18 or 26 in three.
    per_direction : bool
        One set of columns for each direction (zero on the others' edges), or one set for all.
    ndim : int
        Number of axes of the grid.

    Returns
    -------
    (m, G) float32 in [0, 1]
    """
    moves = grid_offsets(ndim, connectivity)
    squares, channels = _differences(values, connectivity, ndim)
    scale, one = _scale(squares), np.empty((sum(map(len, squares)), 4), np.float32)
    begin = 0
    for square, move in zip(squares, moves):
        _fill(one[begin : begin + len(square)], square, scale, move, channels)
        begin += len(square)
    if not per_direction:
        return one
    wide = np.zeros((len(one), len(moves), one.shape[1]), np.float32)
    kind = np.repeat(np.arange(len(moves)), [len(s) for s in squares])
    wide[np.arange(len(one)), kind] = one
    return wide.reshape(len(one), -1)


def slice_nearness(spacing: tuple[float, float, float]) -> float:
    """Return the distance of pixels over that of slices, at most 1."""
    dz, dy, dx = spacing
    return min(1.0, (dy + dx) / (2 * dz))


def volume_edge_features(values: AnyArray, connectivity: int, own: bool, near: float) -> Float32:
    """Return the features of all edges of a volume.

    Parameters
    ----------
    values : (d, h, w) or (d, h, w, channels), float in [0, 1]
    connectivity : 6, 10, 18 or 26
    own : bool
        Whether edges between slices have columns of their own, so that their weights are learned.
    near : float in (0, 1]
        Without columns of their own: what those edges weigh, the distance of pixels over that of
        slices, as the area of a border would have it.

    Returns
    -------
    (m, 8) or (m, 4) float32 in [0, 1]
    """
    moves = grid_offsets(3, connectivity)
    squares, channels = _differences(values, connectivity, 3)
    scales = [_scale([s for s, move in zip(squares, moves) if bool(move[0]) == across])
              for across in (False, True)]  # fmt: skip
    made = np.zeros((sum(map(len, squares)), 8 if own else 4), np.float32)
    begin = 0
    for square, move in zip(squares, moves):
        across = bool(move[0])
        part = made[begin : begin + len(square)]
        here = part[:, 4:] if own and across else part[:, :4]
        _fill(here, square, scales[across], move, channels)
        if across and not own:
            here *= np.float32(near)
        begin += len(square)
    return made


def edge_scales(
    values: AnyArray,
    connectivity: int,
    ndim: int,
    scaled: Callable[[Float32], Float32] = np.asarray,
) -> tuple[np.float32, np.float32]:
    """Return -1 / (2 beta) of the edges of an image; of a volume, within slices and between.

    Some rows at a time, after `scaled`, so that images of any size need little memory.
    """
    moves, n = grid_offsets(ndim, connectivity), values.shape[0]
    totals, counts = np.zeros(2), np.zeros(2)
    rows = max(1, ROWS // max(1, int(np.prod(values.shape[1:ndim]))))
    for first in range(0, n, rows):
        part = scaled(np.asarray(values[first : first + rows + 1], np.float32))
        stack = part.reshape(*part.shape[:ndim], -1)
        own = min(rows, n - first)
        for (tail, head), move in zip(grid_slices(stack.shape[:ndim], connectivity), moves):
            # Edges belong to the rows of their first ends; the row behind is there for the others.
            last = slice(tail[0].start, min(tail[0].stop, own))
            shift = head[0].start - tail[0].start
            ends = (last, *tail[1:]), (slice(last.start + shift, last.stop + shift), *head[1:])
            across = int(ndim == 3 and move[0] != 0)
            squares = _squares(stack, *ends)
            totals[across] += float(squares.sum(dtype=np.float64))
            counts[across] += len(squares)
    beta = totals / np.maximum(counts, 1)
    within, between = (np.float32(-0.5 / b) if b > 1e-12 else np.float32(0) for b in beta)
    return within, between


def edge_weights(
    values: AnyArray,
    connectivity: int,
    ndim: int,
    scales: tuple[np.float32, np.float32],
    v: Floats,
    near: float = 1.0,
) -> list[Floats]:
    """Return the weights w_edge . g_e of the edges of a grid, an array for each direction.

    Parameters
    ----------
    values, connectivity, ndim : as of `edge_features`
    scales : pair
        What `edge_scales` gives of the whole image, of which this may be a part.
    v : (4,) or (8,) array
        The weights of the four features; of edges between slices the last four, if there are.
    near : float
        As of `volume_edge_features`.
    """
    grid = values.shape[:ndim]
    stack = np.asarray(values, np.float32).reshape(*grid, -1)
    made = []
    moves = grid_offsets(ndim, connectivity)
    for (tail, head), move in zip(grid_slices(grid, connectivity), moves):
        across = ndim == 3 and move[0] != 0
        part = v[4:] if across and len(v) == 8 else v[:4]
        part = part * near if across and len(v) == 4 else part
        squares = _squares(stack, tail, head)
        weights = np.empty(len(squares))
        four = np.empty((min(BLOCK, len(squares)), 4), np.float32)
        for first in range(0, len(squares), BLOCK):
            some = squares[first : first + BLOCK]
            _fill(four[: len(some)], some, scales[across], move, stack.shape[-1])
            weights[first : first + len(some)] = np.einsum("ij,j->i", four[: len(some)], part)
        made.append(weights.reshape([s.stop - s.start for s in tail]))
    return made


def _fill(
    made: Float32, squares: Float32, scale: np.float32, move: tuple[int, ...], channels: int
) -> None:
    """Fill the four columns of the edges of one direction, some at a time."""
    for first in range(0, len(squares), BLOCK):
        part = squares[first : first + BLOCK]
        rows = made[first : first + BLOCK]
        rows[:, 0] = 1
        rows[:, 1] = _contrast(part, scale, move)
        rows[:, 2] = np.clip(np.sqrt(part / np.float32(channels)), 0, 1)
        rows[:, 3] = 1 - rows[:, 2]


def edge_contrast(values: AnyArray, connectivity: int, ndim: int = 2) -> Float32:
    """Return the column "contrast" of `edge_features` by itself, (m,) float32."""
    squares, _ = _differences(values, connectivity, ndim)
    scale, moves = _scale(squares), grid_offsets(ndim, connectivity)
    parts = [_contrast(s, scale, move).astype(np.float32) for s, move in zip(squares, moves)]
    return np.concatenate(parts)


def _differences(values: AnyArray, connectivity: int, ndim: int) -> tuple[list[Float32], int]:
    """Return the squared differences of all edges by direction, and the number of channels."""
    grid = values.shape[:ndim]
    stack = np.asarray(values, np.float32).reshape(*grid, -1)
    ends = grid_slices(grid, connectivity)
    return [_squares(stack, *pair) for pair in ends], stack.shape[-1]


def _squares(stack: Float32, first: tuple[slice, ...], second: tuple[slice, ...]) -> Float32:
    """Return squared differences between the ends of edges, some rows at a time."""
    a, b = stack[first], stack[second]
    made = np.empty(a.shape[:-1], np.float32)
    rows = max(1, BLOCK // max(1, int(np.prod(a.shape[1:]))))
    for begin in range(0, len(a), rows):
        difference = a[begin : begin + rows] - b[begin : begin + rows]
        np.einsum("...c,...c->...", difference, difference, out=made[begin : begin + rows])
    return made.reshape(-1)


def _scale(squares: list[Float32]) -> np.float32:
    """Return -1 / (2 beta); 0 for a flat image, which has no scale of differences."""
    count = sum(map(len, squares))
    total = sum(float(s.sum(dtype=np.float64)) for s in squares)
    beta = total / max(count, 1)
    return np.float32(-0.5 / beta) if beta > 1e-12 else np.float32(0)


def _contrast(square: Float32, scale: np.float32, move: tuple[int, ...]) -> Floats:
    return np.asarray(np.exp(scale * square, dtype=np.float64) / sqrt(sum(o * o for o in move)))
