"""The terms of a large image without its problem: costs of all pixels, edges of any rows.

A problem holds some 150 bytes a pixel. Here only the costs of labels are kept, 8 bytes a pixel (and
label, of more than two), and what edges weigh is made when rows are asked for. An image is
described in tiles of TILE pixels a side with HALO more around them for every look that follows
another (times the scale of the bank), a volume slice by slice. Filters and nets reach no further
than the halo, and trees use intensity statistics of the whole image, so both agree with the whole
image up to rounding. The second stage of trees takes its palette, its rows and the size of pieces
from the tile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import Floats
from cutlearn.energy.energy import Energy
from cutlearn.energy.label_space import LabelSpace
from cutlearn.energy.moves import LinearTables
from cutlearn.energy.potentials import Contrast, Potential, Summands, Unary
from cutlearn.energy.problem import Problem
from cutlearn.features.describe import Intensities, one_if_grey
from cutlearn.features.edges import edge_scales, edge_weights, slice_nearness
from cutlearn.features.featurizer import with_neighbours
from cutlearn.images.sample import Sample, Volume

if TYPE_CHECKING:
    from cutlearn.model.segmenter import Segmenter

# Pixels of the side of a tile and around it, before the scale of the bank.
TILE, HALO = 1536, 128


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

    image: NDArray[Any]
    intensities: Intensities
    labels: LabelSpace
    unary: Floats
    weights: Floats
    connectivity: int
    scales: tuple[np.float32, np.float32]
    near: float

    @property
    def axes(self) -> int:
        """Two of an image, three of a volume."""
        return self.unary.ndim - (self.weights.ndim > 1)

    def terms(self, first: int, last: int) -> tuple[Floats, list[Floats]]:
        """Give what `energy` takes, of some rows or slices; of several labels edge features."""
        if self.weights.ndim == 1:
            return self.unary[first:last], self._weighed(first, last, self.weights)
        every = [self._weighed(first, last, one) for one in np.eye(len(self.weights))]
        return self.unary[first:last], [np.stack(parts, axis=-1) for parts in zip(*every)]

    def energy(self, unary: Floats, weights: list[Floats]) -> Any:
        """Give the energy of terms, which may be scaled."""
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
        return edge_weights(part, self.connectivity, self.axes, self.scales, v, self.near)


def fields_of(model: Segmenter, sample: Sample) -> list[Field]:
    """Give the energy of an image, or of surrogate labels one for each; costs are made at once."""
    featurizer, axes = model.featurizer_, len(sample.shape)
    featurizer.check_axes(sample)
    connectivity = featurizer.connectivity_of(sample)
    rows, image = _weights(model), one_if_grey(sample.image, axes)
    intensities = featurizer.intensities_
    scales = edge_scales(image, connectivity, axes, intensities.scaled)
    near = slice_nearness(sample.spacing) if isinstance(sample, Volume) else 1.0
    return [
        Field(image, intensities, model.model_.labels, unary, row.edges, connectivity, scales, near)
        for row, unary in zip(rows, _unaries(model, sample, rows))
    ]


@dataclass(frozen=True, eq=False)
class _Row:
    """The weights of a field: potentials of nodes with theirs, and weights of edge features."""

    nodes: list[tuple[Potential, Floats]]
    edges: Floats

    def costs(self, features: NDArray[np.float32]) -> Floats:
        """What labels cost nodes with these features, (n,) or (n, L)."""
        problem = Problem(features)
        made = [p.terms(problem, v).unary for p, v in self.nodes]
        return np.asarray(sum(part for part in made if part is not None))


def _weights(model: Segmenter) -> list[_Row]:
    featurizer, model_ = model.featurizer_, model.model_
    count = len(featurizer.edge_names_)
    one = Problem(
        np.zeros((2, len(featurizer.node_names_)), np.float32),
        edges=np.array([[0, 1]]),
        edge_features=np.zeros((1, count), np.float32),
    )
    layout, rows = model_.layout(one), []
    for row in layout.rows(model.w_):
        every = list(zip(model_.potentials, layout.potentials, layout.slices))
        nodes = [(p, row[s]) for given, p, s in every if isinstance(given, Unary)]
        joined = [_joined(p, one, row[s]) for given, p, s in every if isinstance(given, Contrast)]
        several = nodes[0][0].terms(one, nodes[0][1]).unary
        shape = () if several is None or several.ndim == 1 else (several.shape[1],) * 2
        rows.append(_Row(nodes, np.asarray(sum(joined, np.zeros((count, *shape))))))
    return rows


def _joined(potential: Potential, one: Problem, v: Floats) -> Floats:
    """The weights of edge features, or their tables."""
    tables = potential.terms(one, v).edges
    return tables.weights if isinstance(tables, LinearTables) else v


def _unaries(model: Segmenter, sample: Sample, rows: list[_Row]) -> list[Floats]:
    """The costs of labels at all pixels, of every field."""
    made: list[Floats] = []

    def put(at: Any, features: NDArray[np.float32], shape: tuple[int, ...], inner: Any) -> None:
        for k, row in enumerate(rows):
            found = row.costs(features)
            if len(made) == k:
                made.append(np.empty((*sample.shape, *found.shape[1:])))
            made[k][at] = found.reshape(*shape, *found.shape[1:])[inner]

    if isinstance(sample, Volume):
        for z, features in enumerate(_slices(model, sample)):
            put(z, features, sample.shape[1:], ...)
        return made
    featurizer = model.featurizer_
    statistics, scale = featurizer.image_statistics(sample.image), featurizer.bank_.scale
    shape = (sample.shape[0], sample.shape[1])
    for inner, outer in tiles(shape, scale, featurizer.fitted_.source.context_passes):
        part = Sample(
            np.ascontiguousarray(sample.image[outer]),
            extra=None if sample.extra is None else sample.extra[outer],
        )
        cut = tuple(slice(i.start - o.start, i.stop - o.start) for i, o in zip(inner, outer))
        put(inner, featurizer.node_features(part, statistics=statistics), part.shape, cut)
    return made


def _slices(model: Segmenter, volume: Volume) -> Iterator[NDArray[np.float32]]:
    """Node features of every slice, of which three are in memory at a time."""
    featurizer, depth = model.featurizer_, volume.shape[0]
    columns = featurizer.neighbour_columns()
    rows: dict[int, NDArray[np.float32]] = {}
    for z in range(depth):
        for k in range(max(0, z - 1), min(depth, z + 2)):
            if k not in rows:
                rows[k] = featurizer.node_features(volume.part(k, k + 1).slices()[0])
        rows.pop(z - 2, None)
        near = [rows[k] for k in range(max(0, z - 1), min(depth, z + 2))]
        at = min(z, 1)
        yield with_neighbours(near, columns).reshape(
            len(near), -1, rows[z].shape[1] + len(columns)
        )[at]


Tile = tuple[slice, slice]


def tiles(shape: tuple[int, int], scale: int, looks: int = 1) -> Iterator[tuple[Tile, Tile]]:
    """Give tiles of an image, by themselves and with a halo for so many looks around a pixel.

    All begin at multiples of 64 pixels times the scale: filters that work at a reduced size then
    see the same blocks of pixels as in the whole image.

    Examples
    --------
    >>> [inner[0] for inner, outer in tiles((2000, 10), 1)]
    [slice(0, 1536, None), slice(1536, 2000, None)]
    """
    step, halo = TILE * scale, HALO * scale * looks
    rows, columns = ([(a, min(a + step, n)) for a in range(0, n, step)] for n in shape)
    for top, bottom in rows:
        for left, right in columns:
            inner = slice(top, bottom), slice(left, right)
            outer = (
                slice(max(0, top - halo), min(shape[0], bottom + halo)),
                slice(max(0, left - halo), min(shape[1], right + halo)),
            )
            yield inner, outer
