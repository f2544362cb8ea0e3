"""Single objects of a mask: touching ones parted, counted, measured, outlined.

A mask says where objects are, not which. Connected pixels of a label are one object, unless a
watershed parts them. The relief is f = d p, with d the distance to the border of the mask and p the
probability of the label, smoothed; an object is what drains to one summit of f. A summit counts if
the pass to a higher one lies below SADDLE of its height: small bumps of a ragged border do not
split an object, the waist between two touching discs does.

Masks have fragments at ragged borders and at dirt, which would be counted. By default objects below
FRAGMENT of the median area, of the objects of one label in one image, are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.int32]
# The corners of a closed line, (x, y); the last is the first.
Ring = list[tuple[int, int]]

# Of two touching summits the lower one counts if the pass between them is below this part of it.
SADDLE = 0.75
# Pixels over which distance and probability are smoothed, as a part of the largest radius of a
# connected region: bumps of ragged borders are no summits, nor are parts that small.
SMOOTH = 0.3
# Objects below this part of the median area are fragments: about a third of the width. Chosen on
# mitochondria, where it leaves out 2 of 425 true objects; 1 / 4 would leave out 13.
FRAGMENT = 1 / 8


@dataclass(frozen=True)
class Object:
    """An object of an image: its value in the map of objects, from 1, its label, its pixels.

    `x`, `y`: its centre, column and row in pixels from the top left. `box`: (left, top, right,
    bottom), half-open. `probability`: the mean of its label's over its pixels. `at_border`: whether
    it touches the border of the image, and so may extend beyond it.
    """

    number: int
    label: int
    area: int
    x: float
    y: float
    box: tuple[int, int, int, int]
    probability: float | None
    at_border: bool


class Found(NamedTuple):
    """The objects of a mask: their map, 0 for no object, and how many were too small."""

    numbers: Labels
    objects: list[Object]
    left_out: int


def find_objects(
    mask: NDArray[np.uint8],
    belief: NDArray[Any] | None = None,
    split: bool = True,
    least_area: int | None = None,
) -> Found:
    """Number the objects of a mask of labels, 0 for the background.

    `belief`: (h, w, L) probabilities, which help to part touching objects. Without `split`,
    connected pixels are one object. Objects below `least_area` are left out, and smaller parts of a
    larger object are not parted; by default it is an eighth of the median area of the label's
    objects in this image.

    Examples
    --------
    >>> import numpy as np
    >>> from cutlearn.report.objects import find_objects
    >>> found = find_objects(np.array([[1, 0, 1, 1]], np.uint8))
    >>> found.numbers.tolist(), [one.area for one in found.objects]
    ([[1, 0, 2, 2]], [1, 2])
    """
    from skimage.measure import label as connected
    from skimage.measure import regionprops

    numbers = np.zeros(mask.shape, np.int32)
    objects: list[Object] = []
    left_out = 0
    for value in (int(v) for v in np.unique(mask) if v != 0):
        p = None if belief is None else np.asarray(belief[..., value], np.float64)
        whole: Labels = connected(mask == value, connectivity=2).astype(np.int32)
        parts = _parted(whole, p) if split else whole
        areas = np.bincount(parts.ravel())[1:]
        least = float(np.median(areas)) * FRAGMENT if least_area is None else float(least_area)
        parts = _joined(parts, whole, areas < least)
        left_out += int(whole.max()) - len(np.unique(whole[parts > 0]))
        for found in regionprops(parts):
            top, left, bottom, right = found.bbox
            inside = found.image
            number = len(objects) + 1
            numbers[top:bottom, left:right][inside] = number
            sure = None if p is None else float(p[top:bottom, left:right][inside].mean())
            y, x = found.centroid
            edge = top == 0 or left == 0 or bottom == mask.shape[0] or right == mask.shape[1]
            objects.append(Object(number, value, int(found.area), float(x), float(y),
                                  (left, top, right, bottom), sure, edge))  # fmt: skip
    return Found(numbers, objects, left_out)


def _joined(parts: Labels, whole: Labels, small: NDArray[np.bool_]) -> Labels:
    """Join small parts to others of the same connected region; drop those without others."""
    from skimage.segmentation import watershed

    kept = np.where(np.append(False, small)[parts], 0, parts)
    rest = np.isin(whole, np.unique(whole[kept > 0])) & (whole > 0)
    if not small.any() or not rest.any():
        return kept
    level = np.zeros(parts.shape)
    return np.asarray(watershed(level, kept, connectivity=2, mask=rest), np.int32)


def _parted(whole: Labels, p: NDArray[np.float64] | None) -> Labels:
    """Return connected regions, each parted where a watershed finds several summits."""
    from skimage.measure import regionprops

    parts, count = np.zeros_like(whole), 0
    for found in regionprops(whole):
        top, left, bottom, right = found.bbox
        inside = np.pad(found.image, 1)
        chance = None if p is None else np.pad(p[top:bottom, left:right], 1)
        made = _watershed(inside, chance)[1:-1, 1:-1]
        window = parts[top:bottom, left:right]
        window[made > 0] = made[made > 0] + count
        count += int(made.max())
    return parts


def _watershed(inside: NDArray[np.bool_], p: NDArray[np.float64] | None) -> Labels:
    """Return the parts of one connected region, numbered from 1."""
    from scipy import ndimage
    from skimage.measure import label as connected
    from skimage.morphology import reconstruction
    from skimage.segmentation import watershed

    d = ndimage.distance_transform_edt(inside)
    sigma = SMOOTH * float(d.max())
    relief = ndimage.gaussian_filter(d * (1.0 if p is None else p), max(sigma, 0.5)) * inside
    # What remains after flooding every summit down to SADDLE of its height: one core each.
    cores = relief - reconstruction(SADDLE * relief, relief) > 1e-9
    seeds = connected(cores & inside, connectivity=2)
    if seeds.max() < 2:
        return inside.astype(np.int32)
    # Pixels connected by a corner belong to the region, so the flood must reach them.
    return np.asarray(watershed(-relief, seeds, connectivity=2, mask=inside), np.int32)


def polygons(numbers: Labels, one: Object) -> list[list[Ring]]:
    """Return the borders of an object along the corners of its pixels: polygons of rings of (x, y).

    Pixels connected by their sides are one polygon, which encloses exactly these pixels. An object
    whose parts meet only at corners has several polygons. The first ring is the outer border, with
    a positive signed area. The others are holes, with a negative one. A ring ends where it begins,
    and visits no other point twice. A pixel in column x extends from x to x + 1.

    Examples
    --------
    >>> import numpy as np
    >>> from cutlearn.report.objects import find_objects, polygons
    >>> numbers, (one,), _ = find_objects(np.array([[0, 1, 1]], np.uint8))
    >>> polygons(numbers, one)
    [[[(1, 0), (3, 0), (3, 1), (1, 1), (1, 0)]]]
    """
    from skimage.measure import label as connected
    from skimage.measure import regionprops

    left, top, right, bottom = one.box
    parts = connected(numbers[top:bottom, left:right] == one.number, connectivity=1)
    return [
        _rings(part.image, left + part.bbox[1], top + part.bbox[0]) for part in regionprops(parts)
    ]


def _rings(inside: NDArray[np.bool_], left: int, top: int) -> list[Ring]:
    """Trace the borders of pixels that are connected by their sides, the outer one first."""
    padded = np.pad(inside, 1)
    # The sides of pixels next to the background, by where they begin: clockwise on the screen.
    sides: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for (dx, dy), (x, y), way in (
        ((0, -1), (0, 0), (1, 0)),
        ((1, 0), (1, 0), (0, 1)),
        ((0, 1), (1, 1), (-1, 0)),
        ((-1, 0), (0, 1), (0, -1)),
    ):
        found = np.argwhere(padded & ~np.roll(padded, (-dy, -dx), (0, 1)))
        for i, j in (found + [top - 1 + y, left - 1 + x]).tolist():
            sides.setdefault((j, i), []).append(way)
    rings: list[Ring] = []
    for first in sorted(sides):
        place, came, ring = first, (0, 0), Ring()
        while place in sides:
            # Where two pixels meet at a corner, stay at the background: its other side may be a
            # hole, and a ring must not touch itself.
            turn, ways = (came[1], -came[0]), sides[place]
            way = turn if turn in ways else ways[0]
            if way != came:
                ring.append(place)
            ways.remove(way)
            if not ways:
                del sides[place]
            place, came = (place[0] + way[0], place[1] + way[1]), way
            if place == first:
                break
        if ring:
            rings.append([*ring, first])
    return rings


def geojson(numbers: Labels, objects: Sequence[Object], names: Sequence[str]) -> dict[str, Any]:
    """Return the polygons of objects as GeoJSON, in pixels with y downwards.

    Holes are interior rings. An object whose parts meet only at corners is a MultiPolygon.
    """
    features = []
    for one in objects:
        parts = polygons(numbers, one)
        single = len(parts) == 1
        features.append({
            "type": "Feature",
            "id": one.number,
            "geometry": {
                "type": "Polygon" if single else "MultiPolygon",
                "coordinates": parts[0] if single else parts,
            },
            "properties": {
                "label": names[one.label], "area": one.area, "probability": one.probability,
            },
        })  # fmt: skip
    return {"type": "FeatureCollection", "features": features}


def imagej(numbers: Labels, one: Object) -> Any:
    """Return an object as an ImageJ ROI of the package roifile.

    An object with holes or of several parts is a composite ROI.
    """
    import roifile

    rings = [ring[:-1] for part in polygons(numbers, one) for ring in part]
    made = roifile.ImagejRoi.frompoints(rings[0], name=str(one.number))
    made.left, made.top, made.right, made.bottom = one.box
    if len(rings) == 1:
        return made
    path: list[float] = []
    for ring in rings:
        for move, point in enumerate(ring):
            path += [min(move, 1), *point]  # 0: begin a line here, 1: draw it to here
        path.append(4)  # close it
    made.roitype = roifile.ROI_TYPE.RECT
    made.integer_coordinates, made.n_coordinates = None, 0
    made.multi_coordinates, made.shape_roi_size = np.array(path, np.float32), len(path)
    return made


class Coco:
    """The objects of many images as one COCO file."""

    def __init__(self, names: Sequence[str]) -> None:
        self.categories = [{"id": k, "name": name} for k, name in enumerate(names) if k > 0]
        self.images: list[dict[str, Any]] = []
        self.annotations: list[dict[str, Any]] = []

    def add(self, file: str, numbers: Labels, objects: Sequence[Object]) -> None:
        """Add the objects of an image, whose file is named with its extension.

        Objects without holes are polygons. The format knows no holes in polygons, so objects with
        holes are uncompressed run lengths.
        """
        number = len(self.images) + 1
        height, width = numbers.shape
        self.images.append({"id": number, "file_name": file, "width": width, "height": height})
        for one in objects:
            left, top, right, bottom = one.box
            parts = polygons(numbers, one)
            self.annotations.append({
                "id": len(self.annotations) + 1, "image_id": number, "category_id": one.label,
                "segmentation": [[v for point in ring[:-1] for v in point] for (ring,) in parts]
                if all(len(rings) == 1 for rings in parts)
                else _run_lengths(numbers == one.number),
                "area": one.area, "iscrowd": 0,
                "bbox": [left, top, right - left, bottom - top],
            })  # fmt: skip

    def to_plain(self) -> dict[str, Any]:
        """Return the file as JSON can hold it."""
        return {
            "images": self.images, "categories": self.categories, "annotations": self.annotations,
        }  # fmt: skip


def _run_lengths(inside: NDArray[np.bool_]) -> dict[str, Any]:
    """Return a mask as COCO's lengths of runs of zeros and ones in turn, column by column."""
    flat = inside.ravel(order="F")
    ends = np.flatnonzero(np.diff(flat, prepend=False, append=not flat[-1])).tolist()
    return {"size": list(inside.shape), "counts": [b - a for a, b in zip([0, *ends], ends)]}
