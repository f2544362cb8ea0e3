"""Energies of the kinds that segmentation makes, for measuring cuts. Knows no solver.

Every number is whole, so that integer and floating-point solvers get the same problem and must
find the same value to the last bit. UNIT of them make a 1 of the model behind. Kinds of grids:

    seg     unaries decide most pixels, edges regularise
    blur    unaries in blobs of one sign: flow travels several of their widths
    seeds   a few hard seeds and hardly any unary: very long paths
    real    blur before rounding: what a user's model has

and over a grid, or without one, regions that cost min_k (a_k s + b_k), s counting their ones.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.ndimage import gaussian_filter, zoom

UNIT = 2.0**16
OFFSETS = {
    0: [],
    4: [(0, 1), (1, 0)],
    8: [(0, 1), (1, 0), (1, 1), (1, -1)],
    6: [(0, 0, 1), (0, 1, 0), (1, 0, 0)],
}
# The graph's name: its connectivity, and by how much to divide weights for like smoothness.
GRAPHS = {"2d4": (4, 1.0), "2d8": (8, 1.8), "3d6": (6, 1.4)}


@dataclass
class Instance:
    """A grid (one weights array a direction) or loose nodes (connectivity 0), with regions.

    A region is (members, a, b): its lines by falling slope, each lowest somewhere.
    """

    unary: np.ndarray
    weights: list = field(default_factory=list)
    connectivity: int = 0
    regions: list = field(default_factory=list)
    label_map: np.ndarray | None = None  # the region of each node, where all have as many lines

    def __post_init__(self):
        if len({a.size for _, a, _ in self.regions}) == 1:
            label_map = np.full(self.unary.size, -1)
            for c, (members, _, _) in enumerate(self.regions):
                label_map[members] = c
            self.label_map = label_map.reshape(self.unary.shape)

    def slices(self):
        """For each direction, where the first and the second ends of its edges lie."""
        shape = self.unary.shape
        for offset in OFFSETS[self.connectivity]:
            yield (
                tuple(slice(max(0, -d), s - max(0, d)) for s, d in zip(shape, offset)),
                tuple(slice(max(0, d), s - max(0, -d)) for s, d in zip(shape, offset)),
            )

    def value(self, labels):
        """The energy of labels, term by term."""
        on = np.asarray(labels, bool).reshape(self.unary.shape)
        total = float(self.unary[on].sum())
        for (tail, head), weights in zip(self.slices(), self.weights):
            total += float(weights[on[tail] != on[head]].sum())
        for members, a, b in self.regions:
            total += float((a * np.count_nonzero(on.ravel()[members]) + b).min())
        return total

    def plain(self):
        """The same without its regions."""
        return replace(self, regions=[], label_map=None)

    def save(self, path):
        parts = {f"weights{k}": w for k, w in enumerate(self.weights)}
        for k, region in enumerate(self.regions):
            parts |= {f"region{k}.{j}": part for j, part in enumerate(region)}
        sizes = [self.connectivity, len(self.weights), len(self.regions)]
        np.savez(path, unary=self.unary, sizes=sizes, **parts)

    @classmethod
    def load(cls, path):
        with np.load(path) as file:
            connectivity, directions, regions = file["sizes"].tolist()
            return cls(
                file["unary"],
                [file[f"weights{k}"] for k in range(directions)],
                connectivity,
                [tuple(file[f"region{k}.{j}"] for j in range(3)) for k in range(regions)],
            )


def blurred_noise(rng, shape, width):
    """Noise under a Gaussian; a wide one is drawn coarsely and stretched, which is quick."""
    step = max(1, int(width // 4))
    coarse = gaussian_filter(
        rng.standard_normal([-(-s // step) + 1 for s in shape]), width / step, mode="nearest"
    )
    if step > 1:
        coarse = zoom(coarse, step, order=1, grid_mode=True, mode="nearest")
    return coarse[tuple(slice(s) for s in shape)]


def scene(rng, shape, width, noise=0.45):
    """Blobs on a ground, blurred, noisy, unevenly lit; and the truth."""
    field_ = blurred_noise(rng, shape, width)
    truth = field_ > np.quantile(field_, 0.6)
    image = gaussian_filter(truth.astype(float), 1.0)
    image += 0.25 * blurred_noise(rng, shape, 1.5 * width)
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
    """Edge weights that fall with the squared difference, one array a direction.

    An image may have channels, along an axis before those of the grid.
    """
    size = len(OFFSETS[connectivity][0])
    channels = image.reshape(-1, *image.shape[-size:])
    grid_ = Instance(channels[0], connectivity=connectivity)
    squares = [sum((c[tail] - c[head]) ** 2 for c in channels) for tail, head in grid_.slices()]
    beta = 0.5 / np.mean([s.mean() for s in squares])
    lengths = [np.linalg.norm(offset) for offset in OFFSETS[connectivity]]
    return [
        strength / length * (0.1 + 0.9 * np.exp(-beta * s)) for s, length in zip(squares, lengths)
    ]


def whole(unary, weights, unit=UNIT):
    return np.rint(unit * unary), [np.rint(unit * w) for w in weights]


def grid(graph, shape, kind, seed):
    """A grid of one kind; graph is a key of GRAPHS."""
    connectivity, divisor = GRAPHS[graph]
    rng = np.random.default_rng(seed)
    width = max(4.0, shape[0] / 24)
    truth, image = scene(rng, shape, width)
    u = log_odds(image)
    if kind in ("blur", "real"):
        f = gaussian_filter(rng.standard_normal(shape), 8.0 if len(shape) == 2 else 4.0)
        u = 0.15 * u + 0.6 * f / f.std()
    elif kind == "seeds":
        inner = gaussian_filter(truth.astype(float), width / 2)
        low, high = np.quantile(inner, [0.015, 0.985])
        u = np.where(inner > high, -1000.0, np.where(inner < low, 1000.0, 0.02 * u))
    weights = contrast(gaussian_filter(image, 0.7), connectivity, 1.0 / divisor)
    if kind != "real":
        u, weights = whole(u, weights)
    return Instance(u, weights, connectivity)


def arches(rng, parts, lines, height):
    """One concave arch over each region, as tangents at the middle of `lines` intervals."""
    x = (np.arange(lines) + 0.5) / lines
    for members in parts:
        top = 4 * UNIT * height * rng.uniform(0.2, 0.6)
        yield members, np.rint(top * (1 - 2 * x)), np.rint(top * members.size * x * x)


def blocks(shape, cells):
    """The nodes of each cell of an image cut into rows and columns of cells."""
    nodes = np.arange(np.prod(shape)).reshape(shape)
    return [
        part.ravel()
        for row in np.array_split(nodes, cells[0], axis=0)
        for part in np.array_split(row, cells[1], axis=1)
    ]


def envelopes(side, cells, seed):
    """Disjoint square regions under arches of 10 lines, no edges (gould2011's checkerboard)."""
    rng = np.random.default_rng(seed)
    _, image = scene(rng, (side, side), side / 10, 0.6)
    u, _ = whole(0.5 * log_odds(image), [])
    parts = blocks(image.shape, (cells, cells))
    return Instance(u.ravel(), regions=list(arches(rng, parts, 10, 1.0)))


def superpixels(shape, cells, seed, balance=1.0, height=0.1):
    """An 8-connected image whose superpixels (here rectangles) each have an arch.

    With little left of the unaries (`balance`), edges and arches decide.
    """
    rng = np.random.default_rng(seed)
    _, image = scene(rng, shape, 24.0)
    weights = contrast(gaussian_filter(image, 0.7), 8, 1 / 1.8)
    parts = blocks(shape, cells)
    unary, weights = whole(balance * log_odds(image), weights)
    return Instance(unary, weights, 8, list(arches(rng, parts, 10, height)))


def count(shape, cells, per_pixel, tolerance, seed):
    """E(y) less a count loss max(0, |s - c| - tolerance) of each region; c is the true count.

    One pixel of the count weighs `per_pixel` of the model's 1: 1/N where the loss alone is divided
    by the number of pixels N, and 1 where the energy is divided too.
    """
    rng = np.random.default_rng(seed)
    truth, image = scene(rng, shape, 40.0)
    unit = 2.0**24 if per_pixel < 1 else 2.0**9
    slope = np.rint(unit * per_pixel)
    regions = []
    for members in blocks(shape, cells):
        c, t = slope * truth.ravel()[members].sum(), slope * round(tolerance * members.size)
        # -max(0, |s - c| - t) = min(s - c + t, 0, c - s + t), without 0 where t is.
        lines = [(slope, t - c), (0.0, 0.0), (-slope, t + c)]
        a, b = np.array(lines if tolerance else lines[::2]).T
        regions.append((members, a, b))
    weights = contrast(gaussian_filter(image, 0.7), 4, 1.0)
    return Instance(*whole(log_odds(image), weights, unit), 4, regions)


def changes(instance, fraction, rounds=5, seed=9):
    """Changes of some unaries, one after the other: nodes, and what is added to each."""
    rng = np.random.default_rng(seed)
    n = instance.unary.size
    size = 0.5 * instance.unary.std()
    for _ in range(rounds):
        at = rng.choice(n, max(1, round(fraction * n)), replace=False)
        yield at, np.rint(size * rng.standard_normal(at.size))


PHOTO = (735, 986)
INSTANCES = {
    **{
        f"{graph}-{side}-{kind}": (grid, graph, (side,) * int(graph[0]), kind, seed)
        for graph, sides, kinds, seed in (
            ("2d4", (100, 256, 512, 1024, 2048, 4096), ("seg", "blur"), 1),
            ("2d4", (512, 1024), ("seeds",), 2),
            ("2d4", (1024,), ("real",), 2),
            ("2d8", (1024,), ("seg", "blur"), 4),
            ("3d6", (64, 96, 128, 192), ("seg", "blur"), 5),
            ("3d6", (96,), ("seeds",), 5),
        )
        for side in sides
        for kind in kinds
    },
    "2d4-480x640-seg": (grid, "2d4", (480, 640), "seg", 3),
    "2d4-480x640-blur": (grid, "2d4", (480, 640), "blur", 3),
    "envelopes-64x256": (envelopes, 128, 8, 6),
    "regions-300": (superpixels, (480, 640), (15, 20), 7),
    "regions-hard": (superpixels, (480, 640), (15, 20), 7, 0.02),
    "count-2/N": (count, PHOTO, (1, 1), 1 / (PHOTO[0] * PHOTO[1]), 0.0, 8),
    "count": (count, PHOTO, (1, 1), 1.0, 0.0, 8),
    "count-3-lines": (count, PHOTO, (1, 1), 1.0, 0.01, 8),
    "count-4-regions": (count, PHOTO, (2, 2), 1.0, 0.0, 8),
}


def make(name):
    function, *arguments = INSTANCES[name]
    return function(*arguments)
