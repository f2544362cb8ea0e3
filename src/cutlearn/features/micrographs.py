"""The bank of micrographs: intensity, Hessian, rings, orientations, openings."""

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


def microscopy(stack: Stack, grey: Float32) -> None:
    """Add all planes of a micrograph to a stack."""
    plane = whole(grey)
    stack.add("grey", plane)
    fine = whole(blur(grey, 1.0))
    means: dict[float, Planes] = {1.0: fine, 2.0: whole(blur(grey, 2.0))}
    for sigma in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0):
        both = mean_and_spread(plane, sigma)
        means.setdefault(sigma, both[0])
        names = [f"mean{sigma:g}", f"spread{sigma:g}"]
        if sigma >= 8:
            names.append(f"local{sigma:g}")
            both = beside(both, _local(fine, both))
        stack.add(names, both)
    for sigma in (1.0, 2.0, 4.0, 8.0):
        stack.add(f"hessian{sigma:g}", hessian(plane, sigma))
    steep = {sigma: whole(_slope(means[sigma], sigma).all()) for sigma in (1.0, 2.0, 4.0, 8.0)}
    for sigma, slope in steep.items():
        stack.add(f"slope{sigma:g}", slope)
    centres = {sigma: (middle(means[sigma]), middle(slope)) for sigma, slope in steep.items()}
    for radius, sigma in ((3, 1.0), (6, 2.0), (10, 2.0), (16, 4.0), (24, 4.0), (36, 8.0)):
        stack.add(f"ring{radius}", rings(means[sigma], radius, centres[sigma][0]))
        stack.add(f"slopering{radius}", rings(steep[sigma], radius, centres[sigma][1]))
    edges = orientations(fine)
    for scale in (2, 4, 8):
        names = [f"hog{scale}.{k}" for k in range(8)] + [f"coherence{scale}.{k}" for k in range(4)]
        stack.add(names, blurred(edges, scale).each(_coherence, 12))
    mean, deviation = float(grey.mean(dtype=np.float64)), float(grey.std(dtype=np.float64))
    stack.add("score", means[4.0].each(lambda part: (part - mean) / (deviation + 0.01)))
    quantile = np.quantile(grey, 0.3)
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
