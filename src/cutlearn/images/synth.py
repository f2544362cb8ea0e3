"""Worlds with known answers: a seed comes in, an image and its true labels come out.

`checkerboard` is the synthetic experiment of gould2011, section 5: unaries of noise that only
the squares can resolve. `cells` is a fluorescence microscope: light = lamp x (cells + haze +
debris), blurred by the lens, counted as photons: image = (Poisson(gain x light) / gain + read
noise). `pasture` has three labels with an order: grass, animals, sky. One seed gives the same bits
on every call.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from cutlearn.arrays import Bits, Float32, Floats, Mask
from cutlearn.errors import InputError


class Checkerboard(NamedTuple):
    """A noisy checkerboard: what is seen, what is true, and the squares.

    Parameters
    ----------
    x : (128, 128) float64 array
        The noisy input.
    labels : (128, 128) uint8 array
        0 for black squares, 1 for white ones.
    regions : (128, 128) int32 array
        The number of the square that a pixel lies in, 0 to 63, row by row.
    """

    x: Floats
    labels: Mask
    regions: npt.NDArray[np.int32]


class Cells(NamedTuple):
    """A micrograph and its true mask.

    Parameters
    ----------
    image : (h, w) float32 array in [0, 1]
    labels : (h, w) uint8 array
        1 on cells, 0 elsewhere.
    """

    image: Float32
    labels: Mask


class Pasture(NamedTuple):
    """A picture of animals between grass and sky, and its true labels.

    Parameters
    ----------
    image : (h, w, 3) float32 array in [0, 1]
    labels : (h, w) uint8 array
        0 on grass, 1 on animals, 2 on sky.
    """

    image: Float32
    labels: Mask


def checkerboard(seed: int, eta0: float = 0.1, eta1: float = 0.1) -> Checkerboard:
    """Make the noisy checkerboard of gould2011: x_i = eta0 [y_i=0] - eta1 [y_i=1] + U(-1, 1).

    8 x 8 squares of 16 x 16 pixels; the square at the top left is black (label 0).

    Parameters
    ----------
    seed : int
        Seed of the noise.
    eta0, eta1 : float, default 0.1
        Signal of the black and of the white squares; the noise has width 2.

    Returns
    -------
    Checkerboard
        x, labels and regions.

    Examples
    --------
    >>> from cutlearn.images import checkerboard
    >>> world = checkerboard(0, eta0=0.5, eta1=0.1)
    >>> world.x.shape, int(world.labels.sum()), int(world.regions.max())
    ((128, 128), 8192, 63)
    """
    rows, columns = np.indices((8, 8))
    square = np.ones((16, 16), np.int32)
    labels = np.kron((rows + columns) % 2, square).astype(np.uint8)
    regions = np.kron(8 * rows + columns, square).astype(np.int32)
    noise = np.random.default_rng(seed).uniform(-1, 1, labels.shape)
    return Checkerboard(np.where(labels == 0, eta0, -eta1) + noise, labels, regions)


def cells(seed: int, shape: tuple[int, int] = (192, 256)) -> Cells:
    """Make a fluorescence micrograph: cells of many sizes and strengths under uneven light.

    Some cells touch and some are hardly brighter than the haze around them; specks, fibres and
    out-of-focus shadows of other layers are as bright as cells and are none. So no threshold
    finds the cells, and a model that looks at size, shape and surroundings can.

    Parameters
    ----------
    seed : int
        Seed of everything in the world.
    shape : (int, int), default (192, 256)
        Rows and columns, at least 32 each.

    Returns
    -------
    Cells
        image and labels.

    Examples
    --------
    >>> from cutlearn.images import cells
    >>> world = cells(0)
    >>> world.image.shape, world.image.dtype, int(world.labels.max())
    ((192, 256), dtype('float32'), 1)
    """
    if np.shape(shape) != (2,) or min(shape) < 32:
        raise InputError(
            f"shape is {shape}, but must be two numbers of at least 32. Use (192, 256)."
        )
    rng = np.random.default_rng(seed)
    mask, light = _colony(rng, shape)
    light = np.maximum(light, _debris(rng, shape))
    lens = ndimage.gaussian_filter(light, rng.uniform(0.8, 1.3))
    seen = _lamp(rng, shape) * (_haze(rng, shape, light) + lens)
    gain = rng.uniform(60, 160)  # photons for full brightness: few, so shot noise is seen
    photons = rng.poisson(gain * seen) / gain
    image = photons + rng.normal(0, 0.012, shape)
    return Cells(np.clip(image, 0, 1).astype(np.float32), mask.astype(np.uint8))


class _Body(NamedTuple):
    """A blob within the window of the image that holds it: work stays local."""

    window: tuple[slice, slice]
    mask: Bits


def _colony(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Bits, Floats]:
    """Cells that touch but do not lie on one another: where they are, and their light."""
    mask = np.zeros(shape, bool)
    light = np.zeros(shape)
    wanted = shape[0] * shape[1] * rng.uniform(0.16, 0.30)
    mean_radius = rng.uniform(8.5, 12.5)
    placed: list[tuple[float, float, float]] = []
    # Tries are bounded: a crowded image may not have room for all that is wanted.
    for _ in range(40 + int(wanted / 20)):
        if mask.sum() >= wanted:
            break
        radius = mean_radius * rng.lognormal(0, 0.22)
        row, column = _place(rng, shape, radius, placed)
        window, body = _blob(rng, shape, (row, column), radius)
        taken = mask[window]
        if not body.any() or (body & taken).sum() > 0.12 * body.sum():
            continue  # cells of one layer push each other aside
        body &= ~taken
        # A darker seam of a pixel where membranes meet, as microscopes show it.
        seam = np.where(body & ndimage.binary_dilation(taken), 0.75, 1.0)
        light[window] = np.where(body, seam * _stain(rng, body, radius), light[window])
        mask[window] |= body
        placed.append((row, column, radius))
    return mask, light


def pasture(seed: int, shape: tuple[int, int] = (107, 160)) -> Pasture:
    """Make a picture of three ordered labels, in the manner of antoniuk2012's cows.

    Sky lies over grass, animals stand before both. Every label has colours of its own that
    overlap with the others' under changing light and noise, so single pixels are often wrong; and
    which label lies over which tells more than that two neighbours differ.

    Parameters
    ----------
    seed : int
        Seed of everything in the world.
    shape : pair of int, at least 16 x 16

    Returns
    -------
    Pasture
        image and labels.

    Examples
    --------
    >>> from cutlearn.images import pasture
    >>> world = pasture(0, (64, 96))
    >>> world.image.shape, sorted(set(world.labels.ravel().tolist()))
    ((64, 96, 3), [0, 1, 2])
    """
    if min(shape) < 16:
        raise InputError(
            f"shape is {shape}, but must be at least 16 x 16 for animals to fit. Use (107, 160)."
        )
    rng = np.random.default_rng(seed)
    h, w = shape
    bend = ndimage.gaussian_filter1d(rng.normal(size=w), w / 6, mode="nearest")
    horizon = h * (rng.uniform(0.3, 0.55) + 0.1 * bend / max(float(np.abs(bend).max()), 1e-9))
    labels = np.where(np.arange(h)[:, None] < horizon, 2, 0).astype(np.uint8)
    for _ in range(rng.integers(1, 4)):
        radius = rng.uniform(0.1, 0.2) * min(shape)
        column = rng.uniform(0.1, 0.9) * w
        row = horizon[int(column)] + rng.uniform(-0.3, 1.5) * radius
        window, body = _blob(rng, shape, (row, column), radius)
        labels[window][body] = 1
    means = np.array([[0.35, 0.50, 0.25], [0.45, 0.38, 0.30], [0.55, 0.60, 0.70]])
    means = means + rng.normal(0, 0.03, means.shape)
    light = ndimage.gaussian_filter(rng.normal(size=shape), 12, mode="nearest")
    light /= max(float(light.std()), 1e-9)
    noise = rng.normal(size=(h, w, 3)) + rng.normal(size=(h, w, 1))
    image = means[labels] * (1 + 0.12 * light[..., None]) + 0.09 * noise
    return Pasture(np.clip(image, 0, 1).astype(np.float32), labels)


def _place(
    rng: np.random.Generator,
    shape: tuple[int, int],
    radius: float,
    placed: list[tuple[float, float, float]],
) -> tuple[float, float]:
    """A centre: anywhere, or half of the time right beside a cell, as after a division."""
    if placed and rng.random() < 0.5:
        row, column, other = placed[rng.integers(len(placed))]
        angle, distance = rng.uniform(0, 2 * np.pi), rng.uniform(0.8, 1.0) * (radius + other)
        return row + distance * np.sin(angle), column + distance * np.cos(angle)
    return rng.uniform(0, shape[0]), rng.uniform(0, shape[1])


def _blob(
    rng: np.random.Generator, shape: tuple[int, int], center: tuple[float, float], radius: float
) -> _Body:
    """A lobed ellipse: the outline of a cell."""
    reach = 2 * radius + 2
    first = [int(np.clip(c - reach, 0, n)) for c, n in zip(center, shape)]
    last = [int(np.clip(c + reach, 0, n)) for c, n in zip(center, shape)]
    rows, columns = np.ogrid[first[0] : last[0], first[1] : last[1]]
    y, x = rows - center[0], columns - center[1]
    turn, stretch = rng.uniform(0, np.pi), rng.uniform(1.0, 1.35)
    along = (x * np.cos(turn) + y * np.sin(turn)) / stretch
    across = (y * np.cos(turn) - x * np.sin(turn)) * stretch
    angle = np.arctan2(across, along)
    outline = np.full(angle.shape, radius)
    for lobe in (2, 3, 4, 5):
        size = rng.normal(0, 0.07 / (lobe - 1) ** 0.5)
        outline += radius * size * np.cos(lobe * angle + rng.uniform(0, 2 * np.pi))
    inside: Bits = np.hypot(along, across) <= outline
    return _Body((slice(first[0], last[0]), slice(first[1], last[1])), inside)


def _stain(rng: np.random.Generator, body: Bits, radius: float) -> Floats:
    """The light of one cell: its own strength, rounded at the rim, with grains inside."""
    strength = float(np.clip(rng.lognormal(-1.1, 0.42), 0.15, 0.85))
    depth: Floats = ndimage.distance_transform_edt(body) / radius
    dome = 0.6 + 0.4 * np.minimum(1, depth / 0.5)
    grain = ndimage.gaussian_filter(rng.normal(size=body.shape), 1.6)
    grain /= max(float(grain.std()), 1e-9)
    stain: Floats = strength * dome * np.clip(1 + 0.22 * grain, 0.4, 1.7)
    return stain


def _debris(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Light that is no cell: specks, grains of dust and thin fibres."""
    area = shape[0] * shape[1] / (192 * 256)
    light = np.zeros(shape)
    for _ in range(rng.poisson(22 * area)):
        center = rng.uniform(0, shape[0]), rng.uniform(0, shape[1])
        window, speck = _blob(rng, shape, center, rng.uniform(0.7, 2.6))
        light[window] = np.maximum(light[window], speck * rng.uniform(0.2, 0.9))
    for _ in range(rng.poisson(1.6 * area)):
        light = np.maximum(light, _fibre(rng, shape) * rng.uniform(0.2, 0.5))
    return light


def _fibre(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """A bent thread, one to two pixels wide."""
    length = int(rng.uniform(0.2, 0.6) * max(shape))
    heading = rng.uniform(0, 2 * np.pi) + np.cumsum(rng.normal(0, 0.06, length))
    rows = (rng.uniform(0, shape[0]) + np.cumsum(np.sin(heading))).astype(int)
    columns = (rng.uniform(0, shape[1]) + np.cumsum(np.cos(heading))).astype(int)
    kept = (rows >= 0) & (rows < shape[0]) & (columns >= 0) & (columns < shape[1])
    line = np.zeros(shape)
    line[rows[kept], columns[kept]] = 1
    thread: Floats = np.minimum(1, 1.6 * ndimage.gaussian_filter(line, 0.6))
    return thread


def _haze(rng: np.random.Generator, shape: tuple[int, int], light: Floats) -> Floats:
    """Background: medium, glow of the cells, and blurred shadows of layers out of focus."""
    cloud = ndimage.gaussian_filter(rng.normal(size=shape), 28, mode="wrap")
    # In a small image the blur leaves hardly more than a mean, which is no cloud.
    cloud = (cloud - cloud.mean()) / cloud.std()
    haze: Floats = 0.09 + 0.03 * cloud + 0.25 * ndimage.gaussian_filter(light, 14)
    for _ in range(rng.poisson(5 * shape[0] * shape[1] / (192 * 256))):
        center = rng.uniform(0, shape[0]), rng.uniform(0, shape[1])
        window, body = _blob(rng, shape, center, rng.uniform(7, 15))
        shadow = np.zeros(shape)
        shadow[window] = body
        haze += rng.uniform(0.15, 0.40) * ndimage.gaussian_filter(shadow, rng.uniform(3.5, 6.5))
    return np.maximum(haze, 0.03)


def _lamp(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Uneven light: a lamp that is off centre, and the dark corners of the lens."""
    rows, columns = np.indices(shape)
    y, x = 2 * rows / shape[0] - 1, 2 * columns / shape[1] - 1
    turn = rng.uniform(0, 2 * np.pi)
    tilt = 1 + rng.uniform(0.15, 0.35) * (x * np.cos(turn) + y * np.sin(turn))
    vignette = 1 / (1 + rng.uniform(0.12, 0.28) * (x**2 + y**2)) ** 2
    lamp: Floats = tilt * vignette
    return lamp / float(lamp.max())
