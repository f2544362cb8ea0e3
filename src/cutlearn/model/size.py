"""The size at which a model works: samples and masks resized to it, results resized back.

Everything between is at the model's own size, `min_side`, and inputs and outputs are at that of
the image. What a box or seeds fix holds at both. The slices of a volume are resized, not
their number.
"""

import math

import numpy as np
from numpy.typing import NDArray

from cutlearn.images.resize import (
    Shape,
    resize_channels,
    resize_image,
    resize_labels,
    side_shape,
)
from cutlearn.images.sample import FREE, Sample, Volume, of_slices

# Without a size of the user's own an image of more pixels is worked at about so many: a model sees
# objects at about the size at which it was trained, and every image of a fit keeps its problem.
MOST_WORKED = 2_000_000


Side = int | str | None
# Images are worked at their own size, however large they are.
FULL = "full"


def worked_shape(shape: Shape, min_side: Side) -> Shape:
    """Return the rows and columns at which an image of this shape is worked."""
    if min_side == FULL:
        return shape
    if min_side is not None:
        return side_shape(shape, int(min_side))
    if shape[0] * shape[1] <= MOST_WORKED:
        return shape
    factor = math.sqrt(MOST_WORKED / (shape[0] * shape[1]))
    return max(1, int(shape[0] * factor)), max(1, int(shape[1] * factor))


def at_side(sample: Sample, min_side: Side, image: NDArray[np.float32] | None = None) -> Sample:
    """Return a sample at the size at which it is worked; at that size it stays itself.

    `image` is the image at that size, where it is known already.
    """
    if isinstance(sample, Volume):
        return _volume_at(sample, min_side)
    shape = worked_shape(sample.shape, min_side)
    if shape == sample.shape:
        return sample
    return Sample(
        resize_image(sample.image, shape) if image is None else image,
        None if sample.box is None else _box_at(sample.box, sample.shape, shape),
        None if sample.seeds is None else _seeds_at(sample.seeds, shape),
        None if sample.extra is None else resize_channels(sample.extra, shape),
    )


def mask_at_side(mask: NDArray[np.uint8], min_side: Side) -> NDArray[np.uint8]:
    """Return a mask at the size at which its image is worked."""
    if mask.ndim == 3:
        return np.stack([mask_at_side(part, min_side) for part in mask])
    return resize_labels(mask, worked_shape((mask.shape[0], mask.shape[1]), min_side))


def to_full_size(labels: NDArray[np.uint8], sample: Sample) -> NDArray[np.uint8]:
    """Return labels at the sample's own size: those of the nearest pixel, fixed ones exact."""
    if labels.shape == sample.shape:
        return labels
    if isinstance(sample, Volume):
        return np.stack([to_full_size(y, one) for y, one in zip(labels, sample.slices())])
    made, fixed = resize_labels(labels, sample.shape), sample.fixed()
    return np.where(fixed == FREE, made, fixed).astype(np.uint8)


def probabilities_at_full_size(q: NDArray[np.float32], sample: Sample) -> NDArray[np.float32]:
    """Return probabilities (h, w, L) at the sample's own size: interpolated, fixed ones exact."""
    if q.shape[:-1] == sample.shape:
        return q
    if isinstance(sample, Volume):
        parts = zip(q, sample.slices())
        return np.stack([probabilities_at_full_size(part, one) for part, one in parts])
    made, fixed = resize_image(q, sample.shape), sample.fixed()
    known = fixed != FREE
    made[known] = np.eye(q.shape[-1], dtype=np.float32)[fixed[known]]
    return made


def _volume_at(volume: Volume, min_side: Side) -> Volume:
    """Return a volume at the size of its slices; pixels that grow are as far apart as before."""
    _, h, w = volume.shape
    rows, columns = worked_shape((h, w), min_side)
    if (rows, columns) == (h, w):
        return volume
    dz, dy, dx = volume.spacing
    slices = [at_side(one, min_side) for one in volume.slices()]
    return of_slices(slices, (dz, dy * h / rows, dx * w / columns))


def _box_at(box: tuple[int, int, int, int], old: Shape, new: Shape) -> tuple[int, int, int, int]:
    """Return the box with every pixel that it touches, so that no part of the object is cut off."""
    down, across = new[0] / old[0], new[1] / old[1]
    top, left = math.floor(box[0] * down), math.floor(box[1] * across)
    return (
        top, left,
        min(new[0], max(top + 1, math.ceil(box[2] * down))),
        min(new[1], max(left + 1, math.ceil(box[3] * across))),
    )  # fmt: skip


def _seeds_at(seeds: NDArray[np.int16], shape: Shape) -> NDArray[np.int16]:
    """Return seeds at another size; none is lost, and pixels whose seeds differ are free."""
    rows, columns = (
        ((np.arange(new) + 0.5) * old / new).astype(np.intp) for new, old in zip(shape, seeds.shape)
    )
    made = seeds[np.ix_(rows, columns)]
    marked = np.nonzero(seeds != FREE)
    place = tuple(
        ((part + 0.5) * new / old).astype(np.intp)
        for part, new, old in zip(marked, shape, seeds.shape)
    )
    low, high = np.full(shape, 255, np.int16), np.full(shape, FREE, np.int16)
    np.minimum.at(low, place, seeds[marked])
    np.maximum.at(high, place, seeds[marked])
    return np.where(high == FREE, made, np.where(low == high, high, FREE)).astype(np.int16)
