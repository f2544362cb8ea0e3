"""Images and volumes too large for a problem of their own: described in tiles, cut in strips.

A problem holds some 150 bytes per pixel. Here only the costs of labels are kept, 8 bytes per pixel
(and label, with more than two), and edge weights are made when rows are needed. An image is
described in tiles of TILE pixels a side with HALO more around them for every pass of context (times
the scale of the bank), a volume slice by slice. Filters and nets reach no further than the halo,
and trees use intensity statistics of the whole image, so both agree with the whole image up to
rounding. The second stage of trees takes its palette, its rows and the size of pieces from the
tile.

Up to a number of pixels (`Load.whole`) there is one exact cut; above, exact cuts of strips with a
bound on what the seams cost (`minimize_strips`). Unordered labels are moved strip by strip, with no
bound, as in one piece; surrogate labels are one field after the other.

Min-marginals above that are those of strips whose neighbours have the labels of the mask: min over
y with y_d = k, and y as in the mask beyond the strip. If the mask has the least energy there, what
a label costs more is at least what it costs more in the whole image, and the same where the labels
that change with d lie within the strip, which reaches OVERLAP rows further than what is taken of
it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import AnyArray, Floats, Image, Mask, Vector
from cutlearn.energy.energy import Energy, Joined, minimize_strips
from cutlearn.energy.label_space import LabelSpace, Surrogate
from cutlearn.energy.model import Model
from cutlearn.energy.moves import LinearTables
from cutlearn.energy.potentials import Contrast, Potential, Summands, Unary
from cutlearn.energy.problem import Problem
from cutlearn.errors import ConvergenceWarning, InputError
from cutlearn.features.describe import Intensities, one_if_grey
from cutlearn.features.edges import edge_scales, edge_weights, slice_nearness
from cutlearn.features.featurizer import Featurizer, with_neighbours
from cutlearn.images.sample import FREE, Sample, Volume
from cutlearn.model.budget import Load, refuse_beyond
from cutlearn.model.calibration import Evidence

Fixed = NDArray[np.int16] | None
Tile = tuple[slice, slice]
# Pixels from which on no problem is made.
LARGE = 1 << 22
# Rows, or slices, that two strips share.
OVERLAP = {2: 128, 3: 16}
# A gap below this is that of rounding, which grows with the number of pixels.
PROVED = 1e-7
# Pixels of the side of a tile and around it, before the scale of the bank.
TILE, HALO = 1536, 128


def is_large(featurizer: Featurizer, model: Model, shape: tuple[int, ...]) -> bool:
    """Return whether an image is processed in tiles: it is large, and the model allows it."""
    pixels, whole = math.prod(shape), Load.of(model.labels).whole
    if pixels <= min(LARGE, whole):
        return False
    fits = all(type(p) in (Unary, Contrast) for p in model.potentials)
    fits = fits and not featurizer.per_direction and not featurizer.bank_.position
    # A net resizes a photograph as a whole: a tile would be seen larger.
    net = "net" in featurizer.fitted_.source.stages and featurizer.bank_.kind == "photograph"
    fits = fits and not net
    if not fits and pixels > whole:
        raise InputError(
            f"images: {pixels / 1e6:.0f} million pixels are too many for this model. Above "
            f"{whole / 1e6:.0f} million it needs no envelopes, one set of edge features, no "
            "position (Featurizer(position=False)), and no net for photographs "
            "(features='trees'). Work at a smaller size with min_side."
        )
    return fits


class LargeImage:
    """A large image or volume under a fitted model.

    Parameters
    ----------
    featurizer, model, w : as a Segmenter has them
    sample : Sample or Volume
    """

    def __init__(self, featurizer: Featurizer, model: Model, w: Vector, sample: Sample) -> None:
        self.featurizer, self.model, self.w, self.sample = featurizer, model, w, sample
        self.fixed = None if sample.box is None and sample.seeds is None else sample.fixed()

    def mask(self) -> Mask:
        """Return the labels; a warning names what is not proved to be the least."""
        if isinstance(self.model.labels, Surrogate):
            return self.evidence().labels
        found = self.cut()
        if found.strips > 1 and found.relative_gap > PROVED:
            proved = f"is proved to be within {100 * found.relative_gap:.2g} % of the least"
            if not self.model.labels.exact:
                proved = "is that of moves within them: nothing is proved, as of smaller images"
            warnings.warn(
                f"images: one of {' x '.join(map(str, self.sample.shape))} was cut in "
                f"{found.strips} strips. Its energy {proved}.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return found.labels

    def cut(self) -> Joined:
        """Return the labels with their energy and a bound on the least."""
        refuse_beyond(math.prod(self.sample.shape), load=Load.of(self.model.labels))
        (field,) = self.fields
        return field.cut(self.fixed)

    def evidence(self) -> Evidence:
        """Return the min-marginals, and the costs of pixels alone."""
        shape, fixed = self.sample.shape, self.fixed
        refuse_beyond(math.prod(shape), probabilities=True, load=Load.of(self.model.labels))
        fields = self.fields
        if not isinstance(self.model.labels, Surrogate):
            own = fields[0].unary
            if own.ndim == len(shape):
                own = np.stack([np.zeros_like(own), own], axis=-1)
            return Evidence(fields[0].min_marginals(fixed), own)
        made = np.empty((*shape, len(fields)))
        for k, field in enumerate(fields):
            here = None if fixed is None else np.where(fixed < 0, FREE, fixed == k).astype(np.int16)
            both = field.min_marginals(here)
            made[..., k] = both[..., 1] - both[..., 0]
        if fixed is not None:  # as in a problem of its own
            held = fixed >= 0
            made[held] = np.inf
            made[held, fixed[held]] = 0.0
        return Evidence(made, np.stack([field.unary for field in fields], axis=-1))

    @cached_property
    def fields(self) -> list[Field]:
        """The energy of the image, or one for each surrogate label, with the costs of pixels."""
        featurizer, sample, axes = self.featurizer, self.sample, len(self.sample.shape)
        featurizer.check_axes(sample)
        connectivity = featurizer.connectivity_of(sample)
        rows, image = self._rows(), one_if_grey(sample.image, axes)
        scaling, labels = featurizer.intensities_, self.model.labels
        scales = edge_scales(image, connectivity, axes, scaling.scaled)
        near = slice_nearness(sample.spacing) if isinstance(sample, Volume) else 1.0
        return [
            Field(image, scaling, labels, unary, row.edges, connectivity, scales, near)
            for row, unary in zip(rows, self._unaries(rows))
        ]

    def _rows(self) -> list[_Row]:
        count = len(self.featurizer.edge_names_)
        one = Problem(
            np.zeros((2, len(self.featurizer.node_names_)), np.float32),
            edges=np.array([[0, 1]]),
            edge_features=np.zeros((1, count), np.float32),
        )
        layout, rows = self.model.layout(one), []
        for row in layout.rows(self.w):
            every = list(zip(self.model.potentials, layout.potentials, layout.slices))
            nodes = [(p, row[s]) for given, p, s in every if isinstance(given, Unary)]
            joined = [
                tables.weights if isinstance(tables := p.terms(one, row[s]).edges, LinearTables)
                else row[s]
                for given, p, s in every if isinstance(given, Contrast)
            ]  # fmt: skip
            several = nodes[0][0].terms(one, nodes[0][1]).unary
            shape = () if several is None or several.ndim == 1 else (several.shape[1],) * 2
            rows.append(_Row(nodes, np.asarray(sum(joined, np.zeros((count, *shape))))))
        return rows

    def _unaries(self, rows: list[_Row]) -> list[Floats]:
        """Return the costs of labels at all pixels, of every field."""
        made: list[Floats] = []
        for at, features, shape, inner in self._described():
            for k, row in enumerate(rows):
                found = row.costs(features)
                if len(made) == k:
                    made.append(np.empty((*self.sample.shape, *found.shape[1:])))
                made[k][at] = found.reshape(*shape, *found.shape[1:])[inner]
        return made

    def _described(self) -> Iterator[tuple[Any, Image, tuple[int, ...], Any]]:
        """Yield parts of the image, their features, the shape of these, and which of it counts."""
        sample, featurizer = self.sample, self.featurizer
        if isinstance(sample, Volume):
            for z, features in enumerate(self._slices(sample)):
                yield z, features, sample.shape[1:], ...
            return
        if featurizer.fitted_.source.needs_whole:
            raise InputError(
                f"images: {sample.shape[1]} x {sample.shape[0]} pixels are segmented in tiles, but "
                f"features='{featurizer.chosen_}' need whole images. Use a min_side in fit, or "
                "other features."
            )
        statistics, scale = featurizer.image_statistics(sample.image), featurizer.bank_.scale
        shape = (sample.shape[0], sample.shape[1])
        for inner, outer in tiles(shape, scale, featurizer.fitted_.source.context_passes):
            part = Sample(
                np.ascontiguousarray(sample.image[outer]),
                extra=None if sample.extra is None else sample.extra[outer],
            )
            cut = tuple(slice(i.start - o.start, i.stop - o.start) for i, o in zip(inner, outer))
            yield inner, featurizer.node_features(part, statistics=statistics), part.shape, cut

    def _slices(self, volume: Volume) -> Iterator[Image]:
        """Yield node features of every slice, of which three are in memory at a time."""
        featurizer, depth = self.featurizer, volume.shape[0]
        columns = featurizer.neighbour_columns()
        rows: dict[int, Image] = {}
        for z in range(depth):
            seen = range(max(0, z - 1), min(depth, z + 2))
            for k in seen:
                if k not in rows:
                    rows[k] = featurizer.node_features(volume.part(k, k + 1).slices()[0])
            rows.pop(z - 2, None)
            width = rows[z].shape[1] + len(columns)
            near = with_neighbours([rows[k] for k in seen], columns)
            yield near.reshape(len(seen), -1, width)[min(z, 1)]


@dataclass(frozen=True, eq=False)
class _Row:
    """The weights of a field: potentials of nodes with theirs, and weights of edge features."""

    nodes: list[tuple[Potential, Floats]]
    edges: Floats

    def costs(self, features: Image) -> Floats:
        """Return what labels cost nodes with these features, (n,) or (n, L)."""
        problem = Problem(features)
        made = [p.terms(problem, v).unary for p, v in self.nodes]
        return np.asarray(sum(part for part in made if part is not None))


@dataclass(frozen=True, eq=False)
class Field:
    """One energy over a large image: of all labels, or of one of several that have none in common.

    Attributes
    ----------
    labels : LabelSpace
        What is joined; two labels where fields are apart.
    unary : the image's shape, or that + (L,)
    weights : (G,) or (G, L, L) array
        Of edge features.
    intensities : Intensities
        By which rows of the image are scaled when they are asked for.
    """

    image: AnyArray
    intensities: Intensities
    labels: LabelSpace
    unary: Floats
    weights: Floats
    connectivity: int
    scales: tuple[np.float32, np.float32]
    near: float

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the image; a volume has three axes."""
        return self.unary.shape[: self.unary.ndim - (self.weights.ndim > 1)]

    def cut(self, fixed: Fixed) -> Joined:
        """Return the labels, from one cut or from strips."""
        shape, load = self.shape, Load.of(self.labels)
        rows = shape[0]
        if math.prod(shape) > load.whole:
            rows = max(1, load.strip // math.prod(shape[1:]))
        return minimize_strips(shape, self.connectivity, self._terms, rows, OVERLAP[len(shape)],
                               fixed, self._energy)  # fmt: skip

    def min_marginals(self, fixed: Fixed) -> Floats:
        """Return min-marginals; in strips, as the head of this file says, over the least one.

        Strips have half of the rows of those that are only cut: min-marginals take more memory.
        """
        n, *rest = shape = self.shape
        load, overlap = Load.of(self.labels), OVERLAP[len(shape)]
        if math.prod(shape) <= load.whole:
            return self._part(0, n, fixed)
        labels, made = self.cut(fixed).labels, np.empty(0)
        rows = max(1, load.strip // 2 // math.prod(rest))
        for first in range(0, n, rows):
            last = min(first + rows, n)
            low, high = max(0, first - overlap), min(n, last + overlap)
            held = np.full((high - low, *rest), FREE, np.int16)
            if fixed is not None:
                held[:] = fixed[low:high]
            if low > 0:
                held[0] = labels[low]
            if high < n:
                held[-1] = labels[high - 1]
            part = self._part(low, high, held)[first - low : last - low]
            made = np.empty((n, *part.shape[1:])) if first == 0 else made
            made[first:last] = part - part.min(axis=-1, keepdims=True)
        return made

    def _part(self, first: int, last: int, fixed: Fixed) -> Floats:
        found = np.asarray(self._energy(*self._terms(first, last)).min_marginals(fixed))
        return found.reshape(last - first, *self.shape[1:], -1)

    def _terms(self, first: int, last: int) -> tuple[Floats, list[Floats]]:
        """Return what `_energy` takes, of some rows or slices; of several labels edge features."""
        if self.weights.ndim == 1:
            return self.unary[first:last], self._weighed(first, last, self.weights)
        every = [self._weighed(first, last, one) for one in np.eye(len(self.weights))]
        return self.unary[first:last], [np.stack(parts, axis=-1) for parts in zip(*every)]

    def _energy(self, unary: Floats, weights: list[Floats]) -> Any:
        """Return the energy of terms, which may be scaled."""
        if self.weights.ndim == 1:
            return Energy.grid(unary, weights, self.connectivity)
        shape, G = unary.shape[:-1], len(self.weights)
        problem = Problem(
            np.zeros((*shape, 1), np.float32),
            edge_features=np.concatenate([part.reshape(-1, G) for part in weights]),
            shape=shape,
            connectivity=self.connectivity,
        )
        assert problem.edge_features is not None
        tables = LinearTables(problem.edge_features, self.weights)
        return self.labels.energy(problem, Summands(unary, tables))

    def _weighed(self, first: int, last: int, v: Floats) -> list[Floats]:
        part = self.intensities.scaled(self.image[first:last])
        return edge_weights(part, self.connectivity, len(self.shape), self.scales, v, self.near)


def tiles(shape: tuple[int, int], scale: int, passes: int = 1) -> Iterator[tuple[Tile, Tile]]:
    """Yield tiles of an image, by themselves and with a halo for so many passes of context.

    All begin at multiples of 64 pixels times the scale: filters of a reduced size then
    have the same blocks of pixels as in the whole image.

    Examples
    --------
    >>> [inner[0] for inner, outer in tiles((2000, 10), 1)]
    [slice(0, 1536, None), slice(1536, 2000, None)]
    """
    step, halo = TILE * scale, HALO * scale * passes
    rows, columns = ([(a, min(a + step, n)) for a in range(0, n, step)] for n in shape)
    for top, bottom in rows:
        for left, right in columns:
            inner = slice(top, bottom), slice(left, right)
            outer = (
                slice(max(0, top - halo), min(shape[0], bottom + halo)),
                slice(max(0, left - halo), min(shape[1], right + halo)),
            )
            yield inner, outer
