"""Features of volumes: slices are described one by one, then each sees those beside it.

In: volumes, and the node features of their slices. Out: node features with further columns, the
mean of the two slices beside it of every logit (of every column where there are no logits), and
edge features of a grid of three axes. In training, slices beside an annotated one may be void: they
are described by a model that has seen neither, and only tell what lies beside.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cutlearn.arrays import VOID
from cutlearn.errors import InputError
from cutlearn.features.describe import one_if_grey
from cutlearn.features.edges import (
    edge_features,
    edge_names,
    volume_edge_features,
    volume_edge_names,
)
from cutlearn.features.filters import Float32
from cutlearn.images.sample import Volume

if TYPE_CHECKING:
    from cutlearn.features.featurizer import Featurizer

# The neighbours of a voxel, by those of a pixel within its slice.
NEIGHBOURS = {4: 6, 8: 10}


@dataclass(frozen=True)
class Third:
    """What a fit on volumes has learned of their third axis.

    Attributes
    ----------
    own : bool
        Whether edges between slices have columns, and so weights, of their own: only where
        neighbouring slices were annotated.
    """

    own: bool


def neighbours_annotated(masks: Sequence[npt.NDArray[Any]]) -> bool:
    """Whether any two neighbouring slices are both annotated at the same pixel."""
    known = (np.asarray(mask) != VOID for mask in masks)
    return any(bool((seen[1:] & seen[:-1]).any()) for seen in known)


def fit_volumes(
    featurizer: "Featurizer",
    volumes: Sequence[Volume],
    masks: Sequence[npt.NDArray[Any]],
    groups: Sequence[Any] | None,
    fit: Callable[[list[Any], list[Any], list[Any]], Sequence[Float32]],
) -> list[Float32]:
    """Fit on all slices; give the node features of every volume, (d * h * w, F).

    Parameters
    ----------
    masks : one for each volume, (d, h, w) or (d, h, w, T)
    groups : one for each volume, optional
        By default each is held out by itself.
    fit : callable (images, masks, groups)
        Fits the featurizer on slices and gives their node features, out of fold.
    """
    names = range(len(volumes)) if groups is None else groups
    for volume, mask in zip(volumes, masks):
        if np.shape(mask)[:3] != volume.shape:
            raise InputError(
                f"masks: one has shape {np.shape(mask)}, but its volume is {volume.shape}. Give "
                "each volume a mask of its own size."
            )
    slices = [one for volume in volumes for one in volume.slices()]
    truth = [part for mask in masks for part in mask]
    together = [name for name, volume in zip(names, volumes) for _ in range(volume.shape[0])]
    rows = fit(slices, truth, together)
    one_answer = [np.asarray(mask).reshape(*v.shape, -1)[..., 0] for v, mask in zip(volumes, masks)]
    featurizer.third_ = Third(neighbours_annotated(one_answer))
    made, begin = [], 0
    columns = seen_beside(featurizer)
    for volume in volumes:
        end = begin + volume.shape[0]
        made.append(with_beside(rows[begin:end], columns))
        begin = end
    return made


def seen_beside(featurizer: "Featurizer") -> list[int]:
    """Give the columns of a slice's node features that its neighbours see: logits, if any."""
    fitted = featurizer.fitted_
    stages = len(fitted.source.stages)
    if not stages:
        return list(range(1, len(fitted.names)))
    return [1 + t * stages for t in range(fitted.questions)]


def beside_names(featurizer: "Featurizer") -> list[str]:
    """Names of the further columns."""
    return [f"{featurizer.fitted_.names[k]} beside" for k in seen_beside(featurizer)]


def with_beside(rows: Sequence[Float32], columns: Sequence[int]) -> Float32:
    """Node features of slices, (n, F) each, with the mean of some columns in the slices beside.

    The first and the last slice have one beside them; a slice by itself stands for both.

    Returns
    -------
    (d * n, F + len(columns)) float32
    """
    d, (n, count) = len(rows), rows[0].shape
    made = np.empty((d, n, count + len(columns)), np.float32)
    for z in range(d):
        made[z, :, :count] = rows[z]
        near = [rows[k] for k in (z - 1, z + 1) if 0 <= k < d] or [rows[z]]
        made[z, :, count:] = sum(part[:, columns] for part in near) / np.float32(len(near))
    return made.reshape(d * n, -1)


def volume_nodes(featurizer: "Featurizer", volume: Volume) -> Float32:
    """Node features of a new volume, (d * h * w, F) float32."""
    rows = [featurizer.node_features(one) for one in volume.slices()]
    return with_beside(rows, seen_beside(featurizer))


def volume_edges(featurizer: "Featurizer", volume: Volume) -> Float32:
    """Edge features of a volume, (m, G) float32 in [0, 1]."""
    values = featurizer.intensities_.scaled(one_if_grey(volume.image, 3))
    connectivity = NEIGHBOURS[featurizer.connectivity]
    if featurizer.per_direction:
        return edge_features(values, connectivity, True, 3)
    return volume_edge_features(values, connectivity, third_of(featurizer).own, nearness(volume))


def nearness(volume: Volume) -> float:
    """How near slices are: the distance of pixels over theirs, at most 1."""
    dz, dy, dx = volume.spacing
    return min(1.0, (dy + dx) / (2 * dz))


def names_of_edges(featurizer: "Featurizer") -> list[str]:
    """Names of the edge features: those of volumes if it was fitted on such."""
    axes, connectivity = 2, featurizer.connectivity
    if featurizer.third_ is not None:
        axes, connectivity = 3, NEIGHBOURS[featurizer.connectivity]
        if not featurizer.per_direction:
            return volume_edge_names(featurizer.third_.own)
    return edge_names(axes, connectivity, featurizer.per_direction)


def neighbours_of(featurizer: "Featurizer", sample: Any) -> int:
    """The connectivity of the grid of an image, or of a volume."""
    of_pixels = featurizer.connectivity
    return NEIGHBOURS[of_pixels] if isinstance(sample, Volume) else of_pixels


def volume_regions(featurizer: "Featurizer", volume: Volume) -> list[npt.NDArray[np.int32]]:
    """Superpixels of every slice, numbered on from one to the next, (d, h, w) a family."""
    every = [featurizer.regions(one) for one in volume.slices()]
    made = []
    for family in zip(*every):
        begin, parts = 0, []
        for part in family:
            parts.append(part + begin)
            begin += int(part.max()) + 1
        made.append(np.stack(parts).astype(np.int32))
    return made


def third_from(plain: Any) -> Third | None:
    """Read what a model file keeps; None for a model of images."""
    if plain is None:
        return None
    if not isinstance(plain, dict) or type(plain["own"]) is not bool:
        raise InputError("features: what they keep of volumes is damaged. Refit the model.")
    return Third(plain["own"])


def third_of(featurizer: "Featurizer") -> Third:
    """What was learned of the third axis; refused where only images were seen."""
    if featurizer.third_ is None:
        raise InputError(
            "images: a volume was given, but the model was fitted on images. Fit it on volumes, or "
            "give the slices: volume.slices()."
        )
    return featurizer.third_


def check_axes(featurizer: "Featurizer", sample: Any) -> None:
    """Refuse a volume where images were learned from, and an image where volumes were."""
    if isinstance(sample, Volume):
        third_of(featurizer)
    elif featurizer.third_ is not None:
        raise InputError(
            "images: an image was given, but the model was fitted on volumes. Give volumes, "
            "Volume(array) or files of several slices, or fit a model on images."
        )
