"""The bank of micrographs: intensity, Hessian, rings, orientations, openings.

A few numbers are those of the whole image (`Light`); a tile of a large image is given them.
"""

from typing import NamedTuple

import numpy as np
from scipy import ndimage

from cutlearn.features.columns import Stack
from cutlearn.features.filters import (
    beside,
    blur,
    blurred,
    hessian,
    mean_and_spread,
    middle,
    orientations,
    rings,
    slopes,
)
from cutlearn.features.planes import Float32, Planes, whole

# Means and slopes are those of these deviations.
SIGMAS = (1.0, 2.0, 4.0, 8.0)
# Of a larger image about so many pixels tell its light, evenly drawn.
MOST_SEEN = 1 << 22


class Light(NamedTuple):
    """What is taken from all of an image.

    Attributes
    ----------
    mean, deviation : float
        Of its intensities.
    dark : float
        Three in ten of its pixels are darker.
    centres : of every deviation, about what means and slopes lie around
        Rings are summed up as differences from these, which changes nothing but roundings.
    """

    mean: float
    deviation: float
    dark: np.floating
    centres: dict[float, tuple[np.float32, np.float32]]


def light_of(grey: Float32) -> Light:
    """Give the light of an image."""
    means = _means(grey) if grey.size <= MOST_SEEN else {}
    return _light(grey, means, _steep(means))


def _light(grey: Float32, means: dict[float, Planes], steep: dict[float, Planes]) -> Light:
    step = int(np.ceil(np.sqrt(grey.size / MOST_SEEN)))
    some = grey[::step, ::step]
    mean, deviation = float(some.mean(dtype=np.float64)), float(some.std(dtype=np.float64))
    centres = {sigma: (np.float32(mean), np.float32(0)) for sigma in SIGMAS}
    if step == 1:
        centres = {sigma: (middle(means[sigma]), middle(steep[sigma])) for sigma in SIGMAS}
    return Light(mean, deviation, np.quantile(some, 0.3), centres)


def _means(grey: Float32) -> dict[float, Planes]:
    plane = whole(grey)
    fine: dict[float, Planes] = {sigma: whole(blur(grey, sigma)) for sigma in (1.0, 2.0)}
    return fine | {sigma: blurred(plane, sigma) for sigma in SIGMAS if sigma not in fine}


def _steep(means: dict[float, Planes]) -> dict[float, Planes]:
    return {sigma: whole(_slope(mean, sigma).all()) for sigma, mean in means.items()}


def microscopy(stack: Stack, grey: Float32, light: Light | None = None) -> None:
    """Add all planes of a micrograph to a stack; of a tile with the light of the whole image."""
    plane, means = whole(grey), _means(grey)
    fine = means[1.0]
    stack.add("grey", plane)
    for sigma in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0):
        both = mean_and_spread(plane, sigma)
        names = [f"mean{sigma:g}", f"spread{sigma:g}"]
        if sigma >= 8:
            names.append(f"local{sigma:g}")
            both = beside(both, _local(fine, both))
        stack.add(names, both)
    for sigma in SIGMAS:
        stack.add(f"hessian{sigma:g}", hessian(plane, sigma))
    steep = _steep(means)
    for sigma, slope in steep.items():
        stack.add(f"slope{sigma:g}", slope)
    if light is None:
        light = _light(grey, means, steep)
    centres = light.centres
    for radius, sigma in ((3, 1.0), (6, 2.0), (10, 2.0), (16, 4.0), (24, 4.0), (36, 8.0)):
        stack.add(f"ring{radius}", rings(means[sigma], radius, centres[sigma][0]))
        stack.add(f"slopering{radius}", rings(steep[sigma], radius, centres[sigma][1]))
    edges = orientations(fine)
    for scale in (2, 4, 8):
        names = [f"hog{scale}.{k}" for k in range(8)] + [f"coherence{scale}.{k}" for k in range(4)]
        stack.add(names, blurred(edges, scale).each(_coherence, 12))
    mean, deviation, quantile, _ = light
    stack.add("score", means[4.0].each(lambda part: (part - mean) / (deviation + 0.01)))
    dark = fine.each(lambda part: (part < quantile).astype(np.float32))
    stack.add("dark", beside(blurred(dark, 8.0), blurred(dark, 24.0)))
    for size in (9, 21):
        stack.add(f"shape{size}", _opened(fine, size))


def _local(fine: Planes, both: Planes) -> Planes:
    """Intensity against mean and deviation around it."""

    def rows(first: int, last: int) -> Float32:
        mean, spread = both.rows(first, last)
        made: Float32 = (fine.rows(first, last) - mean) / (spread + 0.02)
        return made

    return Planes(1, fine.shape, rows)


def _slope(plane: Planes, sigma: float) -> Planes:
    down, across = slopes(plane)

    def rows(first: int, last: int) -> Float32:
        gy, gx = down.rows(first, last), across.rows(first, last)
        made: Float32 = np.sqrt(gy * gy + gx * gx) * np.float32(sigma)
        return made

    return Planes(1, plane.shape, rows)


# Pairs that sort eight numbers (Batcher's merge exchange).
NETWORK = (
    (0, 4), (1, 5), (2, 6), (3, 7), (0, 2), (1, 3), (4, 6), (5, 7), (2, 4), (3, 5),
    (0, 1), (2, 3), (4, 5), (6, 7), (1, 4), (3, 6), (1, 2), (3, 4), (5, 6),
)  # fmt: skip


def _coherence(local: Float32) -> Float32:
    """Shares of orientations, and the least, two in the middle and the largest of them."""
    made = np.empty((12, *local.shape[1:]), np.float32)
    np.divide(local, local.sum(axis=0) + np.float32(0.003), out=made[:8])
    ordered = list(made[:8])
    for low, high in NETWORK:
        one, other = ordered[low], ordered[high]
        ordered[low], ordered[high] = np.minimum(one, other), np.maximum(one, other)
    for k, rank in enumerate((0, 3, 5, 7)):
        made[8 + k] = ordered[rank]
    return made


def _opened(plane: Planes, size: int) -> Planes:
    """Opening, closing, and what the opening takes away."""

    def rows(first: int, last: int) -> Float32:
        part, inside = plane.around(first, last, 2 * (size // 2))
        opened = ndimage.grey_opening(part[0], size=(size, size))[inside]
        closed = ndimage.grey_closing(part[0], size=(size, size))[inside]
        return np.stack([opened, closed, part[0][inside] - opened])

    return Planes(3, plane.shape, rows)
