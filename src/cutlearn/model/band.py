"""A mask that was found on a smaller image, made sharp: one more cut in a band along its border.

Only pixels within a few of the enlarged border are open; their costs are those of the smaller
image, interpolated, and the edges between them are those of the full image. So a large image costs
what its border is long.
"""

import numpy as np
from numpy.typing import NDArray

from cutlearn.energy.energy import Energy
from cutlearn.features.filters import Float32
from cutlearn.images.resize import resize_channels, resize_labels

# Width of the band on each side of the border, in pixels of the smaller image.
WIDTH = 1.5


def sharpened(
    labels: NDArray[np.uint8],
    unary: NDArray[np.float64],
    image: Float32,
    fixed: NDArray[np.int16],
    strength: tuple[float, float],
) -> NDArray[np.uint8]:
    """Give the labels at the size of the image.

    Parameters
    ----------
    labels, unary : (h, w)
        Of the smaller image: its mask, and what label 1 costs more than label 0.
    image : (H, W) or (H, W, 3)
    fixed : (H, W), -1 where a pixel is free
    strength : weights of the edge features "bias" and "contrast"
    """
    from scipy import ndimage

    shape = fixed.shape
    large = np.where(fixed >= 0, fixed, resize_labels(labels, (shape[0], shape[1])))
    factor = shape[0] / labels.shape[0]
    border = ndimage.morphological_gradient(large, size=3) > 0
    reach = max(1, round(WIDTH * factor))
    near = ndimage.maximum_filter(border, size=2 * reach + 1)
    nodes = np.flatnonzero(near & (fixed < 0))
    if not len(nodes):
        return large.astype(np.uint8)
    number = np.full(large.size, -1, np.int64)
    number[nodes] = np.arange(len(nodes))
    costs = _interpolated(unary, nodes, shape)
    edges, weights = [], []
    pixels = np.asarray(image, np.float32).reshape(large.size, -1)
    beta = _mean_square(pixels.reshape(*shape, -1))
    flat = large.ravel()
    rows, columns = np.divmod(nodes, shape[1])
    for down, across in ((0, 1), (1, 0), (1, 1), (1, -1), (0, -1), (-1, 0), (-1, -1), (-1, 1)):
        y, x = rows + down, columns + across
        inside = np.flatnonzero((y >= 0) & (y < shape[0]) & (x >= 0) & (x < shape[1]))
        other = y[inside] * shape[1] + x[inside]
        square = ((pixels[nodes[inside]] - pixels[other]) ** 2).sum(axis=1)
        weight = strength[0] + strength[1] * np.exp(-square / (2 * beta)) / np.hypot(down, across)
        settled = number[other] < 0
        # A neighbour outside of the band has its label: that is a cost of the node alone.
        pull = np.where(flat[other] == 1, -weight, weight)[settled]
        np.add.at(costs, inside[settled], pull)
        if down > 0 or (down == 0 and across > 0):
            edges.append(np.stack([inside[~settled], number[other[~settled]]], axis=1))
            weights.append(weight[~settled])
    cut = Energy(costs, np.concatenate(edges), np.concatenate(weights)).minimize()
    flat[nodes] = cut.labels
    return large.astype(np.uint8)


def _interpolated(
    unary: NDArray[np.float64], nodes: NDArray[np.int64], shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """Costs at some pixels of the large image; a large pixel has its part of a small one's."""
    large = resize_channels(unary.astype(np.float32)[..., None], (shape[0], shape[1]))
    factor = unary.size / (shape[0] * shape[1])
    # Costs are areas and edges are lengths: n times as fine, n^2 times the pixels, n times the
    # border. Divided by n, not n^2, both keep their proportion.
    return np.asarray(large.ravel()[nodes].astype(np.float64) * np.sqrt(factor))


def _mean_square(pixels: Float32) -> float:
    """The mean square difference of neighbours, as `edge_contrast` has it for four of them."""
    parts = [np.diff(pixels, axis=axis) for axis in (0, 1)]
    total = sum(float(np.einsum("ijk,ijk->", d, d, dtype=np.float64)) for d in parts)
    count = sum(d.shape[0] * d.shape[1] for d in parts)
    return float(max(total / max(count, 1), 1e-9))
