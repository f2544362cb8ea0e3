"""Images and volumes too large for a problem of their own: described in tiles, cut in strips.

A problem holds some 150 bytes a pixel. Here only unaries are kept, 8 bytes a pixel, and the weights
of edges are made when a strip is cut. An image is described in tiles of TILE pixels a side with
HALO more around them (times the scale of the bank), a volume slice by slice. Filters reach no
further than the halo, so they have the bits of the whole image; what trees and nets take from all
of an image (its palette, its quantiles) they take from the tile. Up to WHOLE pixels there is one
exact cut; above, exact cuts of strips with a bound on what the seams cost (`energy.strips`).

Min-marginals above WHOLE pixels are those of strips whose neighbours have the labels of the mask:
min over y with y_d = k, and y as in the mask beyond the strip. If the mask has the least energy
there, what a label costs more is at least what it costs more in the whole image, and the same where
the labels that change with d lie within the strip, which reaches OVERLAP rows further than what is
taken of it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.energy.energy import Energy
from cutlearn.energy.potentials import Contrast, Unary, product
from cutlearn.energy.strips import Joined, RowTerms, minimize_strips
from cutlearn.errors import ConvergenceWarning, InputError
from cutlearn.features.describe import is_grey
from cutlearn.features.edges import edge_scales, edge_weights
from cutlearn.features.volumes import (
    NEIGHBOURS,
    check_axes,
    nearness,
    seen_beside,
    with_beside,
)
from cutlearn.images.sample import FREE, Sample
from cutlearn.images.volume import Volume
from cutlearn.model.memory import STRIP, WHOLE, refuse_beyond
from cutlearn.model.probability.evidence import Evidence

if TYPE_CHECKING:
    from cutlearn.model.segmenter import Segmenter

# Pixels from which on no problem is made.
LARGE = 1 << 22
# Pixels of the side of a tile and around it, before the scale of the bank.
TILE, HALO = 1536, 128
# Rows, or slices, that two strips share.
OVERLAP = {2: 128, 3: 16}
# A gap below this is that of rounding, which grows with the number of pixels.
PROVED = 1e-7


def is_large(model: Segmenter, sample: Sample) -> bool:
    """Whether an image is worked in tiles: it is large, and the model has what tiles can do."""
    pixels = math.prod(sample.shape)
    if pixels <= LARGE:
        return False
    fits = all(type(p) in (Unary, Contrast) for p in model.model_.potentials)
    fits = fits and model.model_.labels.name == "binary"
    fits = fits and not model.featurizer_.per_direction and not model.featurizer_.bank_.position
    if not fits and pixels > WHOLE:
        raise InputError(
            f"images: {pixels / 1e6:.0f} million pixels are too many for this model. Above "
            f"{WHOLE / 1e6:.0f} million it needs two labels, no envelopes, one set of edge "
            "features and no position (Featurizer(position=False)). Work at a smaller size with "
            "min_side."
        )
    return fits


def large_mask(model: Segmenter, sample: Sample, threads: int = 1) -> NDArray[np.uint8]:
    """Give the labels of a large image; a warning tells what is not proved to be the least."""
    found = large_cut(model, sample, threads)
    if found.strips > 1 and found.relative_gap > PROVED:
        warnings.warn(
            f"images: one of {' x '.join(map(str, sample.shape))} was cut in {found.strips} strips."
            f" Its energy is proved to be within {100 * found.relative_gap:.2g} % of the least.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return found.labels


def large_cut(model: Segmenter, sample: Sample, threads: int = 1) -> Joined:
    """Give the labels of a large image with their energy and a bound on the least."""
    refuse_beyond(math.prod(sample.shape))
    return _joined(sample, *row_terms(model, sample), threads)


def _joined(sample: Sample, terms: RowTerms, connectivity: int, threads: int = 1) -> Joined:
    """The labels of an image of these terms, from one cut or from strips."""
    shape, fixed = sample.shape, _settled(sample)
    rows = shape[0]
    if math.prod(shape) > WHOLE:
        rows = max(1, STRIP // math.prod(shape[1:]))
    return minimize_strips(shape, connectivity, terms, rows, OVERLAP[len(shape)], fixed, threads)


def _settled(sample: Sample) -> NDArray[np.int16] | None:
    """What a person has settled, if anything."""
    return None if sample.box is None and sample.seeds is None else sample.fixed()


def large_evidence(model: Segmenter, sample: Sample) -> Evidence:
    """Give the min-marginals of a large image, and the costs of pixels alone."""
    pixels = math.prod(sample.shape)
    refuse_beyond(pixels, believed=True)
    terms, connectivity = row_terms(model, sample)
    fixed = _settled(sample)
    if pixels > WHOLE:
        return _strip_evidence(sample, terms, connectivity, fixed)
    unary, weights = terms(0, sample.shape[0])
    found = np.asarray(Energy.grid(unary, weights, connectivity).min_marginals(fixed))
    return Evidence(found, np.stack([np.zeros_like(unary), unary], axis=-1))


def _strip_evidence(
    sample: Sample, terms: RowTerms, connectivity: int, fixed: NDArray[np.int16] | None
) -> Evidence:
    """Min-marginals over the least of both labels, strip by strip, as the head of this file says.

    Half of the rows of a strip that is only cut: min-marginals take more memory.
    """
    (n, *rest), overlap = sample.shape, OVERLAP[len(sample.shape)]
    labels = _joined(sample, terms, connectivity).labels
    rows = max(1, STRIP // 2 // math.prod(rest))
    made, own = np.empty((n, *rest, 2)), np.zeros((n, *rest, 2))
    for first in range(0, n, rows):
        last = min(first + rows, n)
        low, high = max(0, first - overlap), min(n, last + overlap)
        held = np.full((high - low, *rest), FREE, np.int16) if fixed is None else fixed[low:high]
        held = held.copy()
        if low > 0:
            held[0] = labels[low]
        if high < n:
            held[-1] = labels[high - 1]
        unary, weights = terms(low, high)
        part = np.asarray(Energy.grid(unary, weights, connectivity).min_marginals(held))
        inner = slice(first - low, last - low)
        made[first:last] = part[inner] - part[inner].min(axis=-1, keepdims=True)
        own[first:last, ..., 1] = unary[inner]
    return Evidence(made, own)


def row_terms(model: Segmenter, sample: Sample) -> tuple[RowTerms, int]:
    """Give what makes the terms of any rows, and the connectivity; unaries are made at once."""
    featurizer = model.featurizer_
    check_axes(featurizer, sample)
    axes = len(sample.shape)
    connectivity = featurizer.connectivity if axes == 2 else NEIGHBOURS[featurizer.connectivity]
    count = len(featurizer.node_names_)
    unary = _unaries(model, sample, model.w_[:count])
    v, image = model.w_[count:], sample.image
    if image.ndim > axes and is_grey(image.reshape(-1, 1, 3)):
        image = image[..., :1]
    scales = edge_scales(image, connectivity, axes)
    near = nearness(sample) if isinstance(sample, Volume) else 1.0

    def terms(first: int, last: int) -> tuple[NDArray[Any], list[NDArray[Any]]]:
        part = image[first:last]
        if not v.size:  # no edges
            v4 = np.zeros(4)
            return unary[first:last], edge_weights(part, connectivity, axes, scales, v4, near)
        return unary[first:last], edge_weights(part, connectivity, axes, scales, v, near)

    return terms, connectivity


def _unaries(model: Segmenter, sample: Sample, w: NDArray[np.float64]) -> NDArray[np.float64]:
    made = np.empty(sample.shape)
    if isinstance(sample, Volume):
        for z, rows in enumerate(_slices(model, sample)):
            made[z] = product(rows, w).reshape(sample.shape[1:])
        return made
    scale = model.featurizer_.bank_.scale
    for inner, outer in tiles((sample.shape[0], sample.shape[1]), scale):
        part = Sample(
            np.ascontiguousarray(sample.image[outer]),
            extra=None if sample.extra is None else sample.extra[outer],
        )
        found = product(model.featurizer_.node_features(part), w).reshape(part.shape)
        cut = tuple(slice(i.start - o.start, i.stop - o.start) for i, o in zip(inner, outer))
        made[inner] = found[cut]
    return made


def _slices(model: Segmenter, volume: Volume) -> Iterator[NDArray[np.float32]]:
    """Node features of every slice, of which three are in memory at a time."""
    featurizer, depth = model.featurizer_, volume.shape[0]
    columns = seen_beside(featurizer)
    rows: dict[int, NDArray[np.float32]] = {}
    for z in range(depth):
        for k in range(max(0, z - 1), min(depth, z + 2)):
            if k not in rows:
                rows[k] = featurizer.node_features(volume.part(k, k + 1).slices()[0])
        rows.pop(z - 2, None)
        near = [rows[k] for k in range(max(0, z - 1), min(depth, z + 2))]
        at = min(z, 1)
        yield with_beside(near, columns).reshape(len(near), -1, rows[z].shape[1] + len(columns))[at]


Tile = tuple[slice, slice]


def tiles(shape: tuple[int, int], scale: int) -> Iterator[tuple[Tile, Tile]]:
    """Give tiles of an image, by themselves and with their halo.

    All begin at multiples of 64 pixels times the scale: filters that work at a reduced size then
    see the same blocks of pixels as in the whole image.

    Examples
    --------
    >>> [inner[0] for inner, outer in tiles((2000, 10), 1)]
    [slice(0, 1536, None), slice(1536, 2000, None)]
    """
    step, halo = TILE * scale, HALO * scale
    rows, columns = ([(a, min(a + step, n)) for a in range(0, n, step)] for n in shape)
    for top, bottom in rows:
        for left, right in columns:
            inner = slice(top, bottom), slice(left, right)
            outer = (
                slice(max(0, top - halo), min(shape[0], bottom + halo)),
                slice(max(0, left - halo), min(shape[1], right + halo)),
            )
            yield inner, outer
