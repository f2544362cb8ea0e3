"""Pretrained networks as fixed descriptions of pixels: an image in, maps at several scales out.

A `Backbone` is the network; `Maps` are what it returns for one image, each a coarse picture with
many channels. They are read at single pixels (to learn from), or through a linear function of the
channels, which is applied before a map is enlarged: interpolation is linear, too.
"""

import contextlib
import hashlib
import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from cutlearn.arrays import AnyArray, Image, Indices
from cutlearn.errors import InputError, MissingBackboneError, clean, quoted
from cutlearn.features.backbone_store import KNOWN, known_of, load
from cutlearn.images.resize import resize_channels
from cutlearn.run.checkpoint import fingerprint

# Pixels of the longer side at which built-in networks see an image, whatever its size is.
SIDE = 512
# Bytes of maps that stay in memory, of the images that were used last, and in temporary files.
MOST_BYTES, MOST_SPILLED = 1 << 29, 1 << 33
# Largest number that a map keeps; it stays within float16.
LARGEST = 6e4
# Functions that users have given, by their names: a model file has the name only.
CALLABLES: dict[str, Callable[[Image], Iterable[AnyArray]]] = {}


class Backbone(ABC):
    """A network with fixed weights.

    Attributes
    ----------
    name : str
        By which `backbone_of` finds it again.
    digest : str
        Another one for other weights; a model refuses them.
    """

    name: str
    digest: str

    @abstractmethod
    def maps(self, image: Image) -> list[Image]:
        """Return maps (h', w', channels) of an image (h, w, 3 or more) in [0, 1]."""


class Installed(Backbone):
    """A network of `KNOWN`, from the user's cache."""

    def __init__(self, name: str, side: int = SIDE) -> None:
        self.name, self.digest = name, known_of(name).digest
        self._side, self._run = side, load(name)

    def __reduce__(self) -> tuple[Any, ...]:  # another process has weights of its own
        return Installed, (self.name, self._side)

    def maps(self, image: Image) -> list[Image]:
        """Return the network's maps of the image, its longer side enlarged or reduced to `side`."""
        factor = self._side / max(image.shape[:2])
        h, w = (max(16, round(n * factor / 16) * 16) for n in image.shape[:2])
        found = [self._run(one) for one in color_triples(resize_channels(image, (h, w)))]
        return [np.concatenate(parts, axis=-1) for parts in zip(*found)]


class Function(Backbone):
    """A function of the user: image (h, w, 3 or more) in [0, 1] -> arrays (channels, h', w')."""

    def __init__(self, function: Callable[[Image], Iterable[AnyArray]]) -> None:
        named = function if hasattr(function, "__qualname__") else type(function)
        self.name = str(getattr(function, "name", f"{named.__module__}.{named.__qualname__}"))
        # A function has no weights to compare; an object may say what it depends on.
        self.digest = str(getattr(function, "digest", fingerprint(self.name, ())))
        self._function = function
        CALLABLES[self.name] = function

    def maps(self, image: Image) -> list[Image]:
        """Return the function's maps; refuse what cannot be maps."""
        found = [np.asarray(a) for a in self._function(image)]
        for a in found:
            if a.ndim != 3 or not a.size or a.dtype.kind not in "fiub":
                raise InputError(
                    f"backbone {clean(self.name, 80)}: an array of shape {a.shape} and type "
                    f"{a.dtype} was returned, but maps are (channels, rows, columns) of numbers."
                )
        if not found:
            raise InputError(f"backbone {clean(self.name, 80)} has returned no maps.")
        return [np.moveaxis(a.astype(np.float32), 0, -1) for a in found]


def backbone_of(given: Any) -> Backbone:
    """Return the network that a user names: an object, a function, or a name.

    Examples
    --------
    >>> from cutlearn.features.backbone import backbone_of
    >>> backbone_of(lambda image: [image.transpose(2, 0, 1)]).maps(np.ones((4, 6, 1)))[0].shape
    (4, 6, 1)
    """
    if isinstance(given, Backbone):
        return given
    if callable(given):
        return Function(given)
    if isinstance(given, str) and given in CALLABLES:
        return Function(CALLABLES[given])
    if isinstance(given, str) and given in KNOWN:
        return Installed(given)
    raise MissingBackboneError(
        f"backbone must be {' or '.join(map(repr, KNOWN))}, or a function image -> arrays, not "
        f"{quoted(given)}. A model that was fitted with a function needs "
        "cutlearn.features.backbone.Function(function) to be called before it is read."
    )


def is_network(given: Any) -> bool:
    """Return whether `backbone_of` takes a value, installed or not."""
    named = isinstance(given, str) and (given in KNOWN or given in CALLABLES)
    return named or callable(given) or isinstance(given, Backbone)


def is_installed(name: str) -> bool:
    """Return whether a network's weights are in the user's cache."""
    return name in CALLABLES or (name in KNOWN and known_of(name).path.is_file())


def color_triples(image: Image) -> list[Image]:
    """Return the colour images, (h, w, 3), that show all channels of an image.

    One channel is repeated; of two, the third colour is the mean. More than three are taken in
    threes, the last ones filled up from the end.

    Examples
    --------
    >>> import numpy as np
    >>> [len(color_triples(np.zeros((2, 2, n), np.float32))) for n in (1, 2, 3, 4, 7)]
    [1, 1, 1, 2, 3]
    """
    k = image.shape[2]
    if k == 1:
        return [np.repeat(image, 3, axis=2)]
    if k == 2:
        return [np.concatenate([image, image.mean(axis=2, keepdims=True)], axis=2)]
    starts = [min(start, k - 3) for start in range(0, k, 3)]
    return [image[..., start : start + 3] for start in starts]


@dataclass(frozen=True)
class Maps:
    """What a network returns for one image; float16, which its channels do not need more than."""

    shape: tuple[int, int]  # rows and columns of the image
    planes: tuple[AnyArray, ...]  # (h', w', channels) float16 each

    @property
    def channels(self) -> int:
        """Return the number of channels of all maps together."""
        return sum(plane.shape[2] for plane in self.planes)

    @property
    def nbytes(self) -> int:
        """Return the bytes of all maps."""
        return sum(plane.nbytes for plane in self.planes)

    def joined(self, extra: AnyArray | None) -> "Maps":
        """Return the maps and one more, of arrays that the user brings."""
        if extra is None:
            return self
        more = np.clip(extra, -LARGEST, LARGEST).astype(np.float16)
        return Maps(self.shape, (*self.planes, more))

    def rows(self, index: Indices) -> Image:
        """Return all channels at pixels of the image, (n, channels), interpolated bilinearly."""
        y, x = np.divmod(index, self.shape[1])
        return np.concatenate([_at(plane, self.shape, y, x) for plane in self.planes], axis=1)

    def linear(self, weights: Image, shape: tuple[int, int]) -> Image:
        """Return linear functions of the channels, (rows, columns, k), at a shape.

        Parameters
        ----------
        weights : (channels, k) float32
        shape : (int, int)
            Rows and columns of the result.
        """
        made = np.zeros((*shape, weights.shape[1]), np.float32)
        start = 0
        for plane in self.planes:
            part = weights[start : start + plane.shape[2]]
            made += enlarged(plane.astype(np.float32) @ part, shape)
            start += plane.shape[2]
        return made


class MapCache:
    """Computes the maps of images once: those used last are in memory, others in temporary files.

    Parameters
    ----------
    most, most_spilled : int
        Bytes in memory, and in files; beyond them maps are computed again.
    """

    def __init__(self, most: int = MOST_BYTES, most_spilled: int = MOST_SPILLED) -> None:
        self._most, self._most_spilled, self._lock = most, most_spilled, Lock()
        self._kept: OrderedDict[str, Maps] = OrderedDict()
        self._spilled: dict[str, tuple[Path, tuple[int, int]]] = {}
        self._folder: Path | None = None
        self._written = 0

    def maps(self, backbone: Backbone, image: Image) -> Maps:
        """Return the maps of an image (h, w) or (h, w, channels) in [0, 1]."""
        mark = hashlib.blake2b(np.ascontiguousarray(image).data, digest_size=16)
        mark.update(f"{image.shape} {image.dtype} {backbone.name} {backbone.digest}".encode())
        name = mark.hexdigest()
        with self._lock:
            if name in self._kept:
                self._kept.move_to_end(name)
                return self._kept[name]
            if name in self._spilled:
                return self._read(name)
        shown = np.asarray(np.atleast_3d(image), np.float32)
        # Grey images and colour images have maps of as many channels.
        found = backbone.maps(np.repeat(shown, 3, axis=2) if shown.shape[2] == 1 else shown)
        planes = tuple(np.clip(a, -LARGEST, LARGEST).astype(np.float16) for a in found)
        if not all(np.isfinite(plane).all() for plane in planes):
            raise InputError(f"backbone {clean(backbone.name, 80)} returned numbers that are none.")
        made = Maps((image.shape[0], image.shape[1]), planes)
        with self._lock:
            self._kept[name] = made
            while sum(kept.nbytes for kept in self._kept.values()) > self._most:
                self._spill(*self._kept.popitem(last=False))
        return made

    def _spill(self, name: str, maps: Maps) -> None:
        """Write maps to a file, if there is room."""
        if name in self._spilled or self._written + maps.nbytes > self._most_spilled:
            return
        with contextlib.suppress(OSError):  # a full disk costs time, and nothing else
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="cutlearn-maps-"))
                weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
            path = self._folder / f"{name}.npz"
            np.savez(path, *maps.planes)
            self._spilled[name], self._written = (path, maps.shape), self._written + maps.nbytes

    def _read(self, name: str) -> Maps:
        path, shape = self._spilled[name]
        with np.load(path, allow_pickle=False) as file:
            return Maps(shape, tuple(file[f"arr_{k}"] for k in range(len(file.files))))

    def clear(self) -> None:
        """Forget all maps."""
        with self._lock:
            self._kept.clear()
            for path, _ in self._spilled.values():
                path.unlink(missing_ok=True)
            self._spilled.clear()
            self._written = 0


MAPS = MapCache()


def enlarged(plane: Image, shape: tuple[int, int]) -> Image:
    """Return a map (h', w', k) at another shape, interpolated bilinearly.

    Examples
    --------
    >>> import numpy as np
    >>> enlarged(np.array([[[0.0], [4.0]]], np.float32), (1, 4)).ravel().tolist()
    [0.0, 1.0, 3.0, 4.0]
    """
    (low, high, part), (left, right, share) = (
        _between(np.arange(n, dtype=np.float32), n, size) for n, size in zip(shape, plane.shape)
    )
    across = plane[:, left] + (plane[:, right] - plane[:, left]) * share[:, None]
    made: Image = across[high] - across[low]
    made *= part[:, None, None]
    made += across[low]
    return made


def _at(plane: AnyArray, shape: tuple[int, int], y: Indices, x: Indices) -> Image:
    """Return the channels of a map at pixels, (n, k) float32, interpolated bilinearly."""
    low, high, part = _between(y.astype(np.float32), shape[0], plane.shape[0])
    left, right, share = _between(x.astype(np.float32), shape[1], plane.shape[1])
    made = np.zeros((len(y), plane.shape[2]), np.float32)
    for rows, down in ((low, 1 - part), (high, part)):
        for columns, across in ((left, 1 - share), (right, share)):
            made += plane[rows, columns] * (down * across)[:, None]
    return made


def _between(pixels: Image, size: int, cells: int) -> tuple[Indices, Indices, Image]:
    """Return the two cells whose centres a pixel lies between, and the share of the second."""
    place = np.clip((pixels + np.float32(0.5)) * np.float32(cells / size) - np.float32(0.5),
                    0, cells - 1)  # fmt: skip
    low = place.astype(np.int64)
    return low, np.minimum(low + 1, cells - 1), place - low.astype(np.float32)
