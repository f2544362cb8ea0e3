"""Single objects of a mask: touching ones parted, counted, measured, outlined.

A mask says where objects are, not which. Connected pixels of a label are one object, unless a
watershed parts them. The relief is f = d p, with d the distance to the border of the mask and p the
probability of the label, smoothed; an object is what drains to one summit of f. A summit counts if
the pass to a higher one lies below SADDLE of its height: small bumps of a ragged border do not
split an object, the waist between two touching discs does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.int32]

# Of two touching summits the lower one counts if the pass between them is below this part of it.
SADDLE = 0.75
# Pixels over which distance and probability are smoothed, as a part of an object's radius.
SMOOTH = 0.15


@dataclass(frozen=True)
class Object:
    """An object of an image.

    Parameters
    ----------
    number : int
        Its value in the map of objects, from 1.
    label : int
        Its label in the mask.
    area : int
        Pixels.
    x, y : float
        Its centre: column and row, in pixels from the top left.
    box : (left, top, right, bottom)
        Half-open.
    probability : float or None
        The mean probability of its label over its pixels.
    at_border : bool
        Whether it touches the border of the image, and so may go on beyond it.
    """

    number: int
    label: int
    area: int
    x: float
    y: float
    box: tuple[int, int, int, int]
    probability: float | None
    at_border: bool


def find_objects(
    mask: NDArray[np.uint8],
    belief: NDArray[Any] | None = None,
    split: bool = True,
    least_area: int = 0,
) -> tuple[Labels, list[Object]]:
    """Number the objects of a mask.

    Parameters
    ----------
    mask : (h, w) labels, 0 for the background
    belief : (h, w, L) array, optional
        Probabilities of the labels, which help to part touching objects.
    split : bool
        Part touching objects; else connected pixels are one object.
    least_area : int
        Smaller objects are left out.

    Returns
    -------
    numbers : (h, w) int32
        0 for no object, else its number.
    objects : list of Object

    Examples
    --------
    >>> import numpy as np
    >>> from cutlearn.report.objects import find_objects
    >>> numbers, objects = find_objects(np.array([[1, 0, 1, 1]], np.uint8))
    >>> numbers.tolist(), [one.area for one in objects]
    ([[1, 0, 2, 2]], [1, 2])
    """
    from skimage.measure import label as connected
    from skimage.measure import regionprops

    numbers = np.zeros(mask.shape, np.int32)
    objects: list[Object] = []
    for value in (int(v) for v in np.unique(mask) if v != 0):
        p = None if belief is None else np.asarray(belief[..., value], np.float64)
        whole: Labels = connected(mask == value, connectivity=2).astype(np.int32)
        parts = _parted(whole, p) if split else whole
        for found in regionprops(parts):
            if found.area < max(least_area, 1):
                continue
            top, left, bottom, right = found.bbox
            inside = found.image
            number = len(objects) + 1
            numbers[top:bottom, left:right][inside] = number
            sure = None if p is None else float(p[top:bottom, left:right][inside].mean())
            y, x = found.centroid
            edge = top == 0 or left == 0 or bottom == mask.shape[0] or right == mask.shape[1]
            objects.append(Object(number, value, int(found.area), float(x), float(y),
                                  (left, top, right, bottom), sure, edge))  # fmt: skip
    return numbers, objects


def _parted(whole: Labels, p: NDArray[np.float64] | None) -> Labels:
    """Connected regions, each parted where a watershed finds several summits."""
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
    """The parts of one connected region, numbered from 1."""
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
    return np.asarray(watershed(-relief, seeds, mask=inside), np.int32)


def outlines(numbers: Labels, one: Object) -> list[list[tuple[float, float]]]:
    """Give the closed outer borders of an object as lists of (x, y), in pixels."""
    from skimage.measure import find_contours

    left, top, right, bottom = one.box
    inside = np.pad(numbers[top:bottom, left:right] == one.number, 1).astype(np.float64)
    lines = sorted(find_contours(inside, 0.5), key=len, reverse=True)
    return [[(float(x) + left - 0.5, float(y) + top - 0.5) for y, x in line] for line in lines[:1]]


def geojson(numbers: Labels, objects: Sequence[Object], names: Sequence[str]) -> dict[str, Any]:
    """Give the outlines of objects as GeoJSON, in pixels with y downwards."""
    features = [
        {
            "type": "Feature",
            "id": one.number,
            "geometry": {"type": "Polygon", "coordinates": outlines(numbers, one)},
            "properties": {
                "label": names[one.label], "area": one.area, "probability": one.probability,
            },
        }
        for one in objects
    ]  # fmt: skip
    return {"type": "FeatureCollection", "features": features}


class Coco:
    """The objects of many images as one COCO file."""

    def __init__(self, names: Sequence[str]) -> None:
        self.categories = [{"id": k, "name": name} for k, name in enumerate(names) if k > 0]
        self.images: list[dict[str, Any]] = []
        self.annotations: list[dict[str, Any]] = []

    def add(self, file: str, numbers: Labels, objects: Sequence[Object]) -> None:
        """Add the objects of an image."""
        number = len(self.images) + 1
        height, width = numbers.shape
        self.images.append({"id": number, "file_name": file, "width": width, "height": height})
        for one in objects:
            left, top, right, bottom = one.box
            lines = [[v for point in line for v in point] for line in outlines(numbers, one)]
            self.annotations.append({
                "id": len(self.annotations) + 1, "image_id": number, "category_id": one.label,
                "segmentation": lines, "area": one.area, "iscrowd": 0,
                "bbox": [left, top, right - left, bottom - top],
            })  # fmt: skip

    def to_plain(self) -> dict[str, Any]:
        """Give the file as JSON can hold it."""
        return {
            "images": self.images, "categories": self.categories, "annotations": self.annotations,
        }  # fmt: skip
