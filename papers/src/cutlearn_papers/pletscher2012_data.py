"""The problems of pletscher2012: photographs with strokes, and mitochondria.

Photographs: three colours, the posterior of foreground and of background by mixtures fitted to the
strokes, and 1. Mitochondria: the response of a classifier (boosted trees; out of fold on training
slices), a smoothed intensity in place of the paper's response to synapses, and 1. Edges: the
difference of colour d as the pair d, 1 - d, whose non-negative weights are just those for which
every edge is submodular; the same for all directions, or a pair for each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.special import expit

from cutlearn.arrays import VOID, Floats, Image, Mask
from cutlearn.energy.problem import Problem
from cutlearn.features.mixtures import log_odds, palette, relabelled
from cutlearn.features.trees import Recipe
from cutlearn.grid import grid_edge_counts, grid_edges
from cutlearn.images.read import read_values
from cutlearn.images.resize import Shape, resize_channels
from cutlearn_papers.logits import boosted_logits
from cutlearn_papers.pictures import Pictures, read_pictures

LOSSES = ("hamming", "count")
# Neighbours, and whether each direction has weights of its own.
STRUCTURES = {"4/S": (4, False), "4/D": (4, True), "8/S": (8, False), "8/D": (8, True)}


@dataclass(frozen=True, eq=False)
class Nodes:
    """Images ready for any structure: names, node features (h, w, F), images and masks."""

    names: list[str]
    features: list[NDArray[np.float32]]
    images: list[Image]
    masks: list[Mask]

    def problems(self, structure: str) -> list[Problem]:
        """Give the problems with the edges of a structure."""
        connectivity, apart = STRUCTURES[structure]
        return [
            Problem(features, edge_features=edge_features(image, connectivity, apart),
                    shape=features.shape[:2], connectivity=connectivity)
            for features, image in zip(self.features, self.images)
        ]  # fmt: skip

    def take(self, index: Sequence[int]) -> "Nodes":
        """Give some of the images."""
        return Nodes(
            [self.names[i] for i in index],
            [self.features[i] for i in index],
            [self.images[i] for i in index],
            [self.masks[i] for i in index],
        )


# By "training", "validation" and "test".
Divided = dict[str, Nodes]


def edge_features(image: Image, connectivity: int, apart: bool) -> Floats:
    """Give d and 1 - d of every edge, d the largest difference of a channel; (m, 2) or (m, 2 D).

    With `apart` every direction has columns of its own.
    """
    shape = image.shape[:2]
    flat = image.reshape(shape[0] * shape[1], -1).astype(np.float64)
    counts = grid_edge_counts(shape, connectivity)
    columns = 2 * len(counts) if apart else 2
    out = np.zeros((sum(counts), columns))
    row = 0
    for k, edges in enumerate(grid_edges(shape, connectivity)):
        d = np.abs(flat[edges[:, 0]] - flat[edges[:, 1]]).max(axis=1)
        column = 2 * k if apart else 0
        out[row : row + len(d), column : column + 2] = np.stack([d, 1 - d], axis=1)
        row += len(d)
    return out


def photographs(
    folder: Path, side: int, strokes: str | None = "strokes_set1", again: bool = False
) -> Nodes:
    """Read photographs with strokes; give their node features.

    Mixtures are fitted at full size, where strokes are not too thin to be seen.

    Parameters
    ----------
    strokes : str, optional
        Where they are; None draws them, see `drawn_strokes`.
    again : bool
        Mixtures are fitted again to all pixels, as GrabCut does, until no label changes.
    """
    full, small = read_pictures(folder), read_pictures(folder, side=side)
    features = []
    for name, image, mask, to in zip(full.names, full.images, full.masks, small.masks):
        if strokes is None:
            given = drawn_strokes(mask)
        else:
            given = read_values(folder / strokes / f"{name}.png").astype(np.uint8)
        found = stroke_features(image, given, again)
        shape: Shape = (to.shape[0], to.shape[1])
        features.append(resize_channels(found, shape) if shape != image.shape[:2] else found)
    return Nodes(small.names, features, small.images, small.masks)


def drawn_strokes(mask: Mask) -> Mask:
    """Draw a stroke in the middle of the object and of the background: 1 and 2, else 0.

    Along the skeleton, where it is at least half as far from the border as anywhere.
    """
    from skimage.morphology import skeletonize

    strokes = np.zeros(mask.shape, np.uint8)
    for value, label in ((1, 1), (0, 2)):
        region = np.pad(mask == value, 1)
        far = ndimage.distance_transform_edt(region)
        line = ndimage.binary_dilation(skeletonize(region) & (far >= 0.5 * far.max()), iterations=2)
        strokes[(line & region)[1:-1, 1:-1]] = label
    return strokes


def together(*several: Nodes) -> Nodes:
    """Join the images of several sets."""
    lists = zip(*((n.names, n.features, n.images, n.masks) for n in several))
    return Nodes(*([item for part in parts for item in part] for parts in lists))


def stroke_features(image: Image, strokes: Mask, again: bool = False) -> NDArray[np.float32]:
    """Give colours, posteriors of both mixtures and 1; strokes: 1 foreground, 2 background."""
    colors = palette(image)
    known = colors.counts(strokes == 2), colors.counts(strokes == 1)
    odds = log_odds(colors, [colors.fit(counts) for counts in known])
    if again:
        open_counts = colors.counts(strokes == 0)
        odds = relabelled(colors, known, open_counts, np.where(odds > 0, open_counts, 0))[1]
    posterior = expit(np.clip(odds, -20, 20))[colors.index][..., None]
    one = np.ones_like(posterior)
    return np.concatenate([image, posterior, 1 - posterior, one], axis=2).astype(np.float32)


def split_of(count: int, parts: tuple[int, int], seed: int) -> dict[str, list[int]]:
    """Give random training and validation images; the rest is for testing."""
    order = np.random.default_rng(seed).permutation(count).tolist()
    first, second = parts[0], sum(parts)
    return {"training": order[:first], "validation": order[first:second], "test": order[second:]}


def blocks_of(count: int, parts: tuple[int, int], seed: int) -> dict[str, list[int]]:
    """Give neighbouring slices for training, for validation and for testing, turned by the seed.

    Slices next to each other are nearly the same picture: blocks keep them together.
    """
    turned = np.roll(np.arange(count), -seed * count // 4).tolist()
    first, second = parts[0], sum(parts)
    return {"training": turned[:first], "validation": turned[first:second], "test": turned[second:]}


def mitochondria(pictures: Pictures, split: dict[str, list[int]], recipe: Recipe | None) -> Divided:
    """Learn the classifier on the training slices; give the node features of all parts."""
    parts = {name: pictures.take(index) for name, index in split.items()}
    logits = boosted_logits(*parts.values(), recipe=recipe)
    return {
        name: Nodes(
            part.names, [_columns(image, logit) for image, logit in zip(part.images, found)],
            part.images, part.masks,
        )
        for (name, part), found in zip(parts.items(), logits)
    }  # fmt: skip


def _columns(image: Image, logit: Floats) -> NDArray[np.float32]:
    grey = image if image.ndim == 2 else image.mean(axis=2)
    smooth = ndimage.gaussian_filter(grey, 3)
    return np.stack([expit(logit), smooth, np.ones_like(grey)], axis=2).astype(np.float32)


def losses_of(mask: Mask, labels: Mask) -> tuple[float, float]:
    """Give both losses of a labelling as parts of the labelled pixels: Hamming, count."""
    known = mask != VOID
    truth, found = mask[known].astype(int), labels[known].astype(int)
    return float(np.mean(truth != found)), float(abs(found.mean() - truth.mean()))
