"""Energies of the kinds that segmentation makes, for measuring cuts.

Every number is a multiple of 2^-16, so that integer and floating-point solvers get the same
problem and must find the same value. Kinds of grids:

    seg     unaries decide most pixels, edges regularise
    blur    unaries in blobs of one sign: flow travels several of their widths
    seeds   a few hard seeds and hardly any unary: very long paths
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.ndimage import gaussian_filter

import cutlearn as cl

CONNECTIVITY = {"2d4": (4, 1.0), "2d8": (8, 1.8), "3d6": (6, 1.4)}


@dataclass
class Instance:
    """A grid (unary in its shape, one weights array a direction) or a list, with envelopes."""

    unary: np.ndarray
    weights: list[np.ndarray]
    connectivity: int
    envelopes: list[cl.Envelope] = field(default_factory=list)

    def energy(self) -> cl.Energy:
        if self.connectivity:
            return cl.Energy.grid(self.unary, self.weights, self.connectivity, self.envelopes)
        return cl.Energy(self.unary, envelopes=self.envelopes)


def dyadic(x):
    return np.rint(np.asarray(x) * 2.0**16) / 2.0**16


def scene(rng, shape, width, noise=0.45):
    """Blobs on a ground, blurred, noisy, unevenly lit; and the truth."""
    field_ = gaussian_filter(rng.standard_normal(shape), width, mode="nearest")
    truth = field_ > np.quantile(field_, 0.6)
    light = gaussian_filter(rng.standard_normal(shape), 1.5 * width)
    image = gaussian_filter(truth.astype(float), 1.0) + 0.25 * light
    return truth, image + noise * rng.standard_normal(shape)


def log_odds(image):
    """Cost of label 1 less that of 0 under two rough mixtures of two Gaussians each."""

    def density(means, widths):
        parts = zip((0.7, 0.3), means, widths)
        return sum(p / s * np.exp(-0.5 * ((image - m) / s) ** 2) for p, m, s in parts)

    return np.log(density((0.0, 0.35), (0.45, 0.5)) + 1e-4) - np.log(
        density((1.0, 0.6), (0.45, 0.5)) + 1e-4
    )


def contrast(image, connectivity, strength):
    """Edge weights that fall with the squared difference, one array a direction."""
    slices = cl.graph.grid.grid_slices(image.shape, connectivity)
    squares = [(image[tail] - image[head]) ** 2 for tail, head in slices]
    beta = 0.5 / np.mean([s.mean() for s in squares])
    lengths = [
        np.sqrt(sum(d * d for d in o)) for o in cl.graph.grid.grid_offsets(image.ndim, connectivity)
    ]
    return [
        dyadic(strength / length * (0.1 + 0.9 * np.exp(-beta * s)))
        for s, length in zip(squares, lengths)
    ]


def grid(kind, graph, side, seed):
    """A square or a cube of one kind; graph is a key of CONNECTIVITY."""
    connectivity, divisor = CONNECTIVITY[graph]
    shape = (side,) * int(graph[0])
    rng = np.random.default_rng(seed)
    width = max(4.0, side / 24)
    truth, image = scene(rng, shape, width)
    u = log_odds(image)
    if kind == "blur":
        f = gaussian_filter(rng.standard_normal(shape), 8.0 if len(shape) == 2 else 4.0)
        u = 0.15 * u + 0.6 * f / f.std()
    elif kind == "seeds":
        inner = gaussian_filter(truth.astype(float), width / 2)
        low, high = np.quantile(inner, [0.015, 0.985])
        u = np.where(inner > high, -1000.0, np.where(inner < low, 1000.0, 0.02 * u))
    weights = contrast(gaussian_filter(image, 0.7), connectivity, 1.0 / divisor)
    return Instance(dyadic(u), weights, connectivity)


def arches(rng, regions, lines, height):
    """One concave arch over each region, as tangents at the middle of `lines` intervals."""
    x = (np.arange(lines) + 0.5) / lines
    out = []
    for members in regions:
        top = 4 * height * members.size * rng.uniform(0.2, 0.6)
        out.append(
            cl.Envelope(members, dyadic(top * (1 - 2 * x) / members.size), dyadic(top * x * x))
        )
    return out


def envelopes(side=128, block=16, lines=10, seed=6):
    """Disjoint square regions under arches, no edges (gould2011's checkerboard)."""
    rng = np.random.default_rng(seed)
    _, image = scene(rng, (side, side), side / 10, 0.6)
    nodes = np.arange(side * side).reshape(side // block, block, side // block, block)
    regions = nodes.transpose(0, 2, 1, 3).reshape(-1, block * block)
    return Instance(dyadic(0.5 * log_odds(image)).ravel(), [], 0, arches(rng, regions, lines, 1.0))


def regions(shape=(480, 640), cells=(15, 20), lines=10, seed=7):
    """An 8-connected image whose superpixels (here rectangles) each have an arch."""
    rng = np.random.default_rng(seed)
    _, image = scene(rng, shape, 24.0)
    nodes = np.arange(image.size).reshape(shape)
    blocks = [
        part.ravel()
        for row in np.array_split(nodes, cells[0], axis=0)
        for part in np.array_split(row, cells[1], axis=1)
    ]
    weights = contrast(gaussian_filter(image, 0.7), 8, 1 / 1.8)
    return Instance(dyadic(log_odds(image)), weights, 8, arches(rng, blocks, lines, 0.1))


def count(shape=(184, 246), seed=7):
    """Loss-augmented inference with a count loss: one envelope over the whole image."""
    rng = np.random.default_rng(seed)
    truth, image = scene(rng, shape, 40.0)
    u = dyadic(log_odds(image))
    target = float(truth.sum())
    whole = cl.Envelope(np.arange(u.size), [1.0, -1.0], [-target, target])
    return Instance(u, contrast(gaussian_filter(image, 0.7), 4, 1.0), 4, [whole])


INSTANCES = {
    **{f"2d4-512-{k}": (grid, (k, "2d4", 512, 1)) for k in ("seg", "blur", "seeds")},
    **{f"2d4-1024-{k}": (grid, (k, "2d4", 1024, 2)) for k in ("seg", "blur", "seeds")},
    **{f"2d8-1024-{k}": (grid, (k, "2d8", 1024, 4)) for k in ("seg", "blur")},
    **{f"3d6-96-{k}": (grid, (k, "3d6", 96, 5)) for k in ("seg", "blur", "seeds")},
    "envelopes-64x256": (envelopes, ()),
    "regions-640x480": (regions, ()),
    "count-184x246": (count, ()),
}


def make(name):
    function, arguments = INSTANCES[name]
    return function(*arguments)
