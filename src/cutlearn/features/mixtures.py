"""Mixtures of colours: from masks, a box or seeds of one image to log-odds at every pixel.

The colours of an image are first counted in small cells (`Palette`), some thousand in a photograph,
so that everything below takes milliseconds whatever the size of the image. A label's colours have
the density of a Gaussian mixture, p(x) = sum_k pi_k N(x; m_k, S_k), fitted by expectation
maximisation to the counts of the cells. What label 1 has for it at a pixel of colour x is the log
of p_1(x) / p_0(x).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.arrays import AnyArray, Bits, Float32, Floats, Indices
from cutlearn.checks import as_array
from cutlearn.errors import InputError

# Linear sRGB to XYZ in parts of the white of daylight (D65, 2 degrees).
TO_XYZ = np.array(
    [
        [0.412453, 0.357580, 0.180423],
        [0.212671, 0.715160, 0.072169],
        [0.019334, 0.119193, 0.950227],
    ]
) / np.array([[0.95047], [1.0], [1.08883]])
# Where the cube root gives way to a line, and the line.
KNEE, SLOPE, START = 0.008856, 7.787, 16 / 116


def srgb_to_lab(colors: Floats) -> Floats:
    """Return CIE Lab / 100 of sRGB colours (n, 3) in [0, 1].

    With f(t) = cube root of t (a line near 0): L = 1.16 f(Y) - 0.16, a = 5 (f(X) - f(Y)),
    b = 2 (f(Y) - f(Z)).

    Examples
    --------
    >>> import numpy as np
    >>> from cutlearn.features.mixtures import (srgb_to_lab)
    >>> srgb_to_lab(np.array([[1.0, 0.0, 0.0]])).round(3).tolist()
    [[0.532, 0.801, 0.672]]
    """
    linear = np.where(colors > 0.04045, ((colors + 0.055) / 1.055) ** 2.4, colors / 12.92)
    xyz = linear @ TO_XYZ.T
    f = np.where(xyz > KNEE, np.cbrt(xyz), SLOPE * xyz + START)
    return np.stack(
        [1.16 * f[:, 1] - 0.16, 5 * (f[:, 0] - f[:, 1]), 2 * (f[:, 1] - f[:, 2])], axis=1
    )


COMPONENTS = 5
# Cells along each axis of the colours, and how many of them make a coarse one: 63 and 21 in each
# of three channels, all grey levels of a byte.
CELLS, COARSE = {3: 63, 1: 256}, {3: 3, 1: 1}
# Steps of expectation maximisation, after a start and after a mixture of nearly the same colours;
# steps of the k-means that starts it.
STEPS, STEPS_AGAIN, STARTS = 10, 3, 4
# A component of fewer pixels than this has no covariance worth the name, and goes.
FEWEST = 12.0
# Added to every covariance: a deviation of two units of Lab, of which just one is visible.
LEAST_DEVIATION = 0.02
# Part of the density that is even over the colours, so that no colour is ever impossible.
ANY_COLOR = 1e-3
EVEN = 1.0
# Log-odds beyond this are as sure as any.
SUREST = 6.0
# Rounds of relabelling; few colours change after the third.
ROUNDS = 5


@dataclass(frozen=True, eq=False)
class Palette:
    """The colours of an image, counted in cells.

    Attributes
    ----------
    index : (h, w) int32
        The cell of every pixel.
    colors : (K, c) float64
        The mean colour of the cells: Lab / 100, or one grey level.
    coarse : (K,) int32
        The coarse cell of every cell; mixtures are fitted to these.
    coarse_colors : (C, c) float64
    """

    index: NDArray[np.int32]
    colors: Floats
    coarse: NDArray[np.int32]
    coarse_colors: Floats

    def counts(self, weights: AnyArray) -> Floats:
        """Sum weights, or count a mask, over the pixels of each cell, (K,)."""
        if weights.dtype == np.bool_:
            found = np.bincount(self.index[weights], minlength=len(self.colors))
        else:
            found = np.bincount(self.index.ravel(), weights.ravel(), minlength=len(self.colors))
        return np.asarray(found, np.float64)

    def fit(self, counts: Floats, start: "Mixture | None" = None) -> "Mixture":
        """Fit a mixture to counts of the cells; `start`: one of nearly the same colours."""
        coarse = np.bincount(self.coarse, counts, minlength=len(self.coarse_colors))
        return fit_mixture(self.coarse_colors, coarse, start=start)


def palette(image: NDArray[np.floating]) -> Palette:
    """Count the colours of an image (h, w) or (h, w, 3) in [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> from cutlearn.features.mixtures import (palette)
    >>> palette(np.array([[0.0, 1.0, 1.0]])).index.tolist()
    [[0, 1, 1]]
    """
    grid = image.shape[:2]
    pixels = np.asarray(image, np.float32).reshape(grid[0] * grid[1], -1)
    cells = CELLS[pixels.shape[1]]
    parts = np.minimum((pixels * np.float32(cells)).astype(np.int32), cells - 1)
    key = parts[:, 0]
    for column in parts.T[1:]:
        key = key * np.int32(cells) + column
    used, index, number = _numbered(key, cells ** pixels.shape[1])
    colors = _means(pixels, index, number)
    coarse_key = np.zeros(len(used), np.int64)
    for place in reversed(range(pixels.shape[1])):
        part = used // cells**place % cells
        coarse_key = coarse_key * cells + part // COARSE[pixels.shape[1]]
    _, coarse, _ = _numbered(coarse_key, cells ** pixels.shape[1])
    if pixels.shape[1] == 3:
        colors = srgb_to_lab(np.clip(colors, 0, 1))
    mass = np.bincount(coarse, number)
    sums = [np.bincount(coarse, number * column) for column in colors.T]
    coarse_colors = np.stack(sums, axis=1) / mass[:, None]
    return Palette(index.reshape(grid), colors, coarse, coarse_colors)


def _numbered(key: AnyArray, most: int) -> tuple[Indices, NDArray[np.int32], Indices]:
    """Return the keys that occur, the place of every entry among them, and their counts."""
    found = np.bincount(key, minlength=most)
    used = np.flatnonzero(found)
    place = np.zeros(most, np.int32)
    place[used] = np.arange(len(used), dtype=np.int32)
    return used, place[key], found[used]


def _means(pixels: Float32, index: NDArray[np.int32], number: Any) -> Floats:
    sums = [np.bincount(index, column) for column in pixels.T]
    return np.asarray(np.stack(sums, axis=1) / number[:, None], np.float64)


@dataclass(frozen=True, eq=False)
class Mixture:
    """A Gaussian mixture: weights (k,), means (k, c), covariances (k, c, c)."""

    weights: Floats
    means: Floats
    covariances: Floats

    def log_density(self, colors: ArrayLike) -> Floats:
        """Return the log of the density at colours (n, c), with a trace of any colour mixed in."""
        joint = _log_joint(_squares(np.asarray(colors, np.float64)), self)
        top = joint.max(axis=0)
        own = top + np.log(np.exp(joint - top).sum(axis=0))
        return np.asarray(np.logaddexp(own + np.log1p(-ANY_COLOR), np.log(ANY_COLOR * EVEN)))


def fit_mixture(
    colors: ArrayLike,
    counts: ArrayLike,
    components: int = COMPONENTS,
    random_state: int = 0,
    start: Mixture | None = None,
) -> Mixture:
    """Fit a mixture to colours that occur `counts` times, by expectation maximisation.

    Starts are drawn by k-means++. A component that falls below a dozen pixels is left out, so the
    mixture of a few pixels has few components, at the least one.

    Parameters
    ----------
    colors : (n, c) array
    counts : (n,) array, >= 0, not all 0
    components : int
        At most so many.
    random_state : int
    start : Mixture, optional
        One of nearly the same colours, from which fewer steps are enough.

    Examples
    --------
    >>> from cutlearn.features.mixtures import (fit_mixture)
    >>> fit_mixture([[0.0], [1.0]], [20, 60], components=2).weights.round(2).tolist()
    [0.75, 0.25]
    """
    x, n = as_array("colors", colors).astype(np.float64), as_array("counts", counts)
    if x.ndim != 2 or n.shape != x.shape[:1] or not n.sum() > 0 or n.min() < 0:
        raise InputError(
            f"colors has shape {x.shape} and counts {n.shape}, but must be (n, c) colours and "
            "(n,) numbers >= 0 with a sum above 0. Give one count for each colour."
        )
    some = n > 0
    x, n = x[some], n[some].astype(np.float64)
    squares = _squares(x)
    # Arrays are (component, colour): sums over few components are quick along the first axis.
    if start is None:
        most = min(components, len(x), max(1, int(n.sum() // FEWEST)))
        owner = _starts(x, n, most, np.random.default_rng(random_state))
        share = (owner == np.arange(owner.max() + 1)[:, None]) * n
        start = _of_moments(share @ squares.T, x.shape[1])
        steps = STEPS
    else:
        steps = STEPS_AGAIN
    for _ in range(steps):
        joint = _log_joint(squares, start)
        share = np.exp(joint - joint.max(axis=0))
        share *= n / share.sum(axis=0)
        start = _of_moments(share @ squares.T, x.shape[1])
    return start


def _starts(x: Floats, n: Floats, components: int, rng: np.random.Generator) -> Indices:
    """Return the cluster of each colour: k-means++, then a few steps of k-means."""
    centers = x[[_drawn(n, rng)]]
    distance = _distances(x, centers)[0]
    while len(centers) < components and (distance * n).sum() > 0:
        centers = np.concatenate([centers, x[[_drawn(distance * n, rng)]]])
        distance = np.minimum(distance, _distances(x, centers[-1:])[0])
    for _ in range(STARTS):
        owner = _distances(x, centers).argmin(axis=0)
        used = np.flatnonzero(np.bincount(owner, minlength=len(centers)))
        owner = np.searchsorted(used, owner)
        mass = np.bincount(owner, n)
        centers = np.stack([np.bincount(owner, n * column) for column in x.T], axis=1)
        centers /= mass[:, None]
    return np.asarray(owner, np.int64)


def _drawn(worth: Floats, rng: np.random.Generator) -> int:
    """Return a place, drawn in proportion to its worth."""
    total = np.cumsum(worth)
    place = int(np.searchsorted(total, rng.random() * total[-1], side="right"))
    return min(place, len(worth) - 1)


def _distances(x: Floats, centers: Floats) -> Floats:
    """Return square distances, (k, n)."""
    return np.asarray(sum((x[:, i] - centers[:, i, None]) ** 2 for i in range(x.shape[1])))


def _squares(x: Floats) -> Floats:
    """Return 1, x, and all products of two, in which Gaussians are linear, (1 + c + c^2, n)."""
    columns = np.ascontiguousarray(x.T)
    products = (columns[:, None] * columns).reshape(-1, len(x))
    return np.concatenate([np.ones((1, len(x))), columns, products])


def _of_moments(moments: Floats, c: int) -> Mixture:
    """Return the mixture whose components have these sums of 1, x and xx'; drop faint ones."""
    mass = moments[:, 0]
    kept = mass >= min(FEWEST, float(mass.max()))
    moments, mass = moments[kept], mass[kept]
    means = moments[:, 1 : 1 + c] / mass[:, None]
    seconds = moments[:, 1 + c :].reshape(-1, c, c) / mass[:, None, None]
    covariances = seconds - means[:, :, None] * means[:, None]
    covariances += LEAST_DEVIATION**2 * np.eye(c)
    return Mixture(mass / mass.sum(), means, covariances)


def _log_joint(squares: Floats, mixture: Mixture) -> Floats:
    """Return log pi_k + log N(x; m_k, S_k) of colours by their `_squares`, (k, n)."""
    c = mixture.means.shape[1]
    precision = np.linalg.inv(mixture.covariances)
    _, volume = np.linalg.slogdet(2 * np.pi * mixture.covariances)
    pull = np.einsum("kij,kj->ki", precision, mixture.means)
    constant = np.log(mixture.weights) - 0.5 * (volume + (pull * mixture.means).sum(axis=1))
    rows = np.concatenate([constant[:, None], pull, -0.5 * precision.reshape(-1, c * c)], axis=1)
    return np.asarray(rows @ squares)


def log_odds(palette: Palette, mixtures: Sequence[Mixture]) -> Floats:
    """Return the log of p_1 / p_0 in every cell, for the mixtures of labels 0 and 1, (K,)."""
    zero, one = (mixture.log_density(palette.colors) for mixture in mixtures)
    return np.asarray(one - zero)


def odds_of(palette: Palette, mask: Bits, most: float = SUREST) -> Floats:
    """Return the log-odds of the colour of every pixel, given a mask (h, w) of label 1.

    Within +-most; 0 everywhere if the mask is empty or full.
    """
    counts = [palette.counts(part) for part in (~mask, mask)]
    if not all(part.any() for part in counts):
        return np.zeros(mask.shape)
    cells = log_odds(palette, [palette.fit(part) for part in counts])
    return np.clip(cells, -most, most)[palette.index]


def relabelled(
    palette: Palette, known: tuple[Floats, Floats], open_counts: Floats, ones: Floats
) -> tuple[Floats, Floats]:
    """Return log-odds in every cell if some labels are open; the first and the last.

    Each open pixel is given the label that its colour has more of, and the mixtures are fitted
    again, until no cell changes its label.

    Parameters
    ----------
    palette : Palette
    known : (K,) counts of the pixels that are known to have label 0, and 1
    open_counts : (K,) counts of the others
    ones : (K,) counts of the open pixels that begin as label 1; those that begin as none are
        open_counts - ones, which begin as label 0
    """
    zero, one = palette.fit(known[0] + open_counts - ones), palette.fit(known[1] + ones)
    first = odds = log_odds(palette, (zero, one))
    for _ in range(ROUNDS):
        before, ones = ones, np.where(odds > 0, open_counts, 0.0)
        if (ones == before).all() or not (ones + known[1]).any():
            break
        zero = palette.fit(known[0] + open_counts - ones, zero)
        one = palette.fit(known[1] + ones, one)
        odds = log_odds(palette, (zero, one))
    return first, odds
