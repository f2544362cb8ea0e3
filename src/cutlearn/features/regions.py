"""Regions: families of node sets under one envelope each, and superpixels that make them.

A family is a label map (negative: in no region) or a list of index arrays; regions may overlap.
Several families (fine and coarse superpixels, say) stand side by side, each with its own weights.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.checks import as_array, real_number
from cutlearn.errors import InputError, quoted

KINDS = ("slic", "felzenszwalb")
# Mean number of pixels of a superpixel: about 1200 regions on 640 x 480, as gould2011 used.
SIZE = 256
MOST_SIZE, MOST_FAMILIES = 1e9, 16
# Felzenszwalb's scale for a wanted mean size depends on the image: it is looked for between these
# multiples of the size, in so many steps, to within this factor.
SCALES = (1e-3, 4.0)
TRIES, NEAR = 6, 1.25


@dataclass(frozen=True, eq=False)
class Family:
    """The regions of one family, end to end. A sequence of index arrays.

    Parameters
    ----------
    first : (R + 1,) int64
        Region c is members[first[c]:first[c + 1]].
    members : int32 array
    """

    first: NDArray[np.int64]
    members: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.first) - 1

    def __getitem__(self, c: int) -> NDArray[np.int32]:
        if not -len(self) <= c < len(self):
            raise IndexError(c)
        c %= len(self)
        return self.members[self.first[c] : self.first[c + 1]]

    def __iter__(self) -> Iterator[NDArray[np.int32]]:
        return (self[c] for c in range(len(self)))

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The number of nodes of each region."""
        return np.diff(self.first)

    def counts(self, labels: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Give the number of ones in each region."""
        ones = np.concatenate([[0], np.cumsum(labels[self.members])])
        return np.asarray(ones[self.first[1:]] - ones[self.first[:-1]], np.int64)

    def kept(self, keep: NDArray[np.bool_]) -> "Family":
        """Return the family without some nodes; regions left empty vanish."""
        alive = keep[self.members]
        owner = np.repeat(np.arange(len(self)), self.sizes)[alive]
        sizes = np.bincount(owner, minlength=len(self))
        return _family(sizes[sizes > 0], self.members[alive])


def families_of(value: Any, n: int) -> tuple[Family, ...]:
    """Read the regions of n nodes: one family, or a sequence of families.

    An array among several is a label map, unless it is flat and names distinct nodes: then it is a
    region of a single family.
    """
    if isinstance(value, Family):
        value = (value,)
    if isinstance(value, np.ndarray):
        if value.ndim > 1 and len(value) and value[0].size == n > 1:
            return tuple(_of_map(part, n) for part in value)
        return (_of_map(value, n),)
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise InputError("regions must be a map of region numbers or a list of regions.")
    if any(_is_family(part, n) for part in value):
        return tuple(_read(part, n, f"regions[{f}]") for f, part in enumerate(value))
    return (_of_lists(value, n, "regions"),) if len(value) else ()


def superpixels(image: ArrayLike, kind: str = "slic", size: float = SIZE) -> NDArray[np.int32]:
    """Return a label map of superpixels of about this many pixels, numbered from 0.

    Parameters
    ----------
    image : (h, w) or (h, w, 3) array
        As for `cutlearn.images.as_image`; colours count as the eye sees them.
    kind : "slic" (compact and even) or "felzenszwalb" (follows what is uniform, sizes vary)
    size : number >= 1

    Examples
    --------
    >>> import numpy as np
    >>> from cutlearn.features.regions import superpixels
    >>> superpixels(np.zeros((20, 30)), size=100).max() + 1
    np.int32(6)
    """
    from cutlearn.images.read import as_image  # Pillow, which `import cutlearn` can do without

    checked_families([(kind, size)])
    picture = as_image(image)
    colour = picture.ndim == 3
    if not colour:
        picture = picture[..., None]
    wanted = max(1, round(picture.shape[0] * picture.shape[1] / size))
    if kind == "slic":
        from skimage.segmentation import slic

        # In double, as the features: colours that differ in the last bit would move borders.
        found = slic(
            picture.astype(np.float64), n_segments=wanted, compactness=10 if colour else 0.1,
            convert2lab=colour, start_label=0,
        )  # fmt: skip
    else:
        found = _felzenszwalb(picture, size)
    _, numbered = np.unique(found, return_inverse=True)
    return numbered.reshape(picture.shape[:2]).astype(np.int32)


def _felzenszwalb(picture: NDArray[np.float32], size: float) -> NDArray[Any]:
    from skimage.segmentation import felzenszwalb

    low, high = (factor * size for factor in SCALES)
    for _ in range(TRIES):
        scale = (low * high) ** 0.5
        found = felzenszwalb(picture, scale=scale, sigma=0.8, min_size=max(1, round(size / 4)))
        mean = found.size / (found.max() + 1)
        if size / NEAR <= mean <= size * NEAR:
            break
        low, high = (scale, high) if mean < size else (low, scale)
    return np.asarray(found)


def checked_families(families: Sequence[Any]) -> list[tuple[str, float]]:
    """Check pairs of a kind and a size of superpixels."""
    if not isinstance(families, list | tuple) or len(families) > MOST_FAMILIES:
        raise InputError(
            f"superpixels must be a list of at most {MOST_FAMILIES} pairs of a kind and a size, "
            f"such as [('slic', {SIZE})], not {quoted(families)}."
        )
    for family in families:
        paired = isinstance(family, list | tuple) and len(family) == 2
        kind, size = family if paired else (None, None)
        if not isinstance(kind, str) or kind not in KINDS:
            raise InputError(
                f"superpixels must be pairs of a kind (one of {KINDS}) and a size, such as "
                f"('slic', {SIZE}), not {quoted(family)}."
            )
        real_number("superpixels: size", size, 1, MOST_SIZE)
    return [(kind, size) for kind, size in families]


def _family(sizes: NDArray[Any], members: ArrayLike) -> Family:
    first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    nodes = np.ascontiguousarray(members, dtype=np.int32)
    for array in (first, nodes):
        array.flags.writeable = False
    return Family(first, nodes)


def _is_family(part: Any, n: int) -> bool:
    if isinstance(part, Family):
        return True
    if isinstance(part, np.ndarray):
        flat = part.reshape(-1)
        distinct = len(np.unique(flat)) == len(flat) and (flat >= 0).all()
        return part.ndim > 1 or (flat.size == n and not distinct)
    return isinstance(part, Sequence) and len(part) > 0 and np.ndim(part[0]) > 0


def _read(part: Any, n: int, name: str) -> Family:
    if isinstance(part, Family):
        checked_indices(name, part.members, n)
        return part
    return _of_map(part, n, name) if isinstance(part, np.ndarray) else _of_lists(part, n, name)


def _of_map(value: NDArray[Any], n: int, name: str = "regions") -> Family:
    if value.size != n or value.dtype.kind not in "iu":
        raise InputError(
            f"{name} is a map of shape {value.shape} and type {value.dtype}, but must hold {n} "
            "integer region numbers. Give one for each node, or a list of index arrays."
        )
    flat = value.reshape(-1)
    order = np.argsort(flat, kind="stable").astype(np.int32)
    order = order[int(np.count_nonzero(flat < 0)) :]
    _, sizes = np.unique(flat[order], return_counts=True)
    return _family(sizes, order)


def _of_lists(value: Sequence[Any], n: int, name: str) -> Family:
    parts = [checked_indices(f"{name}[{c}]", part, n).reshape(-1) for c, part in enumerate(value)]
    for c, members in enumerate(parts):
        if len(members) == 0 or len(np.unique(members)) != len(members):
            raise InputError(
                f"{name}[{c}] is empty or names a node twice, but a region is a set of different "
                "nodes. Correct the region."
            )
    sizes = np.array([len(members) for members in parts], np.int64)
    return _family(sizes, np.concatenate(parts) if parts else np.zeros(0, np.int32))


def checked_indices(name: str, value: ArrayLike, n: int) -> NDArray[np.int32]:
    """Check node indices and give them as int32, in an array that nobody else can write to."""
    array = as_array(name, value)
    if array.size == 0:
        return array.astype(np.int32)
    if array is value or array.base is not None:
        array = array.copy()
    if array.dtype.kind not in "iu":
        raise InputError(f"{name} must hold integers, not values of type {array.dtype}.")
    low, high = int(array.min()), int(array.max())
    if low < 0 or high >= n:
        raise InputError(
            f"{name} has index {low if low < 0 else high}, but nodes run from 0 to {n - 1}. "
            "Correct the indices."
        )
    return array.astype(np.int32, copy=False)
