"""Folders of images and masks in, matched and checked; masks and probabilities out, atomically.

A mask belongs to the image with the same stem: images/a.jpg and masks/a.png. What the values of
the masks mean is decided over the whole folder, never for one file: a single mask with {0, 255}
may be "object and background" or "background and void", and only its neighbours can tell.
All problems of a folder are found before any work, and told in one error.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from cutlearn.checks import as_array, float_array, is_one_of, path_of, whole_number
from cutlearn.errors import InputError, quoted, shown
from cutlearn.images.read import MAX_BYTES, MAX_PIXELS, FloatImage, read_image, read_values
from cutlearn.metrics import VOID
from cutlearn.store import atomic_write

ENDINGS = (".png", ".jpg", ".jpeg", ".tif", ".tiff")
# A folder with more values than this holds a photograph or smoothed edges, not label ids.
MOST_LABELS = 64

LabelMap = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Coding:
    """What the values of the mask files mean, decided once for a whole folder.

    Parameters
    ----------
    kind : {"ids", "binary", "object", "nonzero"}
        "ids": the value is the label; "binary": 0 and 255 are labels 0 and 1; "object": one
        value is label 1 and all others 0; "nonzero": 0 is label 0 and all others 1.
    object_value : int or None
        The value of the object, where one is needed.
    void_value : int or None
        The value that means void; None if there is none.
    """

    kind: Literal["ids", "binary", "object", "nonzero"]
    object_value: int | None
    void_value: int | None

    def labels(self, values: npt.NDArray[Any]) -> LabelMap:
        """Labels of the values of a mask file: uint8, void is 255."""
        if self.kind == "ids":
            labels = np.where(values == self.void_value, VOID, values)
        elif self.kind == "nonzero":
            labels = values != 0
        else:
            labels = values == self.object_value
        labels = labels.astype(np.uint8)
        if self.void_value is not None:
            labels[values == self.void_value] = VOID
        return labels


@dataclass(frozen=True)
class Folder:
    """The matched and checked files of a folder; pixels are read when asked for.

    Parameters
    ----------
    names : tuple of str
        Stems, sorted: the order of everything else.
    images, masks : tuple of paths
        One for each name; `masks` is empty when no folder of masks was given.
    coding : Coding or None
        What the values of the masks mean.
    notes : tuple of str
        What was passed over or is mixed, in words: strangers, grey images among coloured ones.
    """

    names: tuple[str, ...]
    images: tuple[Path, ...]
    masks: tuple[Path, ...] = ()
    coding: Coding | None = None
    notes: tuple[str, ...] = ()
    max_bytes: int = MAX_BYTES
    max_pixels: int = MAX_PIXELS

    def __len__(self) -> int:
        return len(self.names)

    def image(self, index: int) -> FloatImage:
        """The image at an index, (h, w) or (h, w, 3) float32 in [0, 1]."""
        return read_image(self.images[index], None, self.max_bytes, self.max_pixels)

    def labels(self, index: int) -> LabelMap:
        """The labels at an index, (h, w) uint8 with 255 for void."""
        if self.coding is None:
            raise InputError("folder: no masks found; a folder of masks was wanted. Name one.")
        values = read_values(self.masks[index], None, self.max_bytes, self.max_pixels)
        return self.coding.labels(values)

    def __iter__(self) -> Iterator[tuple[FloatImage, LabelMap | None]]:
        """Images with their labels (None without masks), one at a time."""
        for i in range(len(self)):
            yield self.image(i), self.labels(i) if self.masks else None

    def load(self) -> tuple[list[FloatImage], list[LabelMap]]:
        """All images and all labels (an empty list without masks)."""
        labels = [self.labels(i) for i in range(len(self))] if self.masks else []
        return [self.image(i) for i in range(len(self))], labels


def read_folder(
    images: str | os.PathLike[str],
    masks: str | os.PathLike[str] | None = None,
    *,
    object_value: int | Literal["nonzero"] | None = None,
    void_value: int | None = None,
    n_labels: int | None = None,
    max_bytes: int = MAX_BYTES,
    max_pixels: int = MAX_PIXELS,
) -> Folder:
    """Match the images and masks of two folders, and check every file.

    Parameters
    ----------
    images, masks : path
        Folders of PNG, JPEG and TIFF files (masks: no JPEG). Other files, hidden files and
        folders inside are passed over and named in `notes`.
    object_value : int or "nonzero", optional
        The value that is label 1, all others being label 0; "nonzero" for masks that number
        their objects. By default the values of all masks together decide: if they are 0 and 255
        only, 255 is label 1; else values are label ids and 255 is void.
    void_value : int, optional
        The value that means void; by default 255, unless 255 is the object or values are
        numbers of objects.
    n_labels : int, optional
        Number of labels of masks of ids; by default ids must be 0, 1, ... without a hole.
    max_bytes, max_pixels : int
        Limits for each file.

    Returns
    -------
    Folder

    Raises
    ------
    InputError
        With all problems of the folder, one a line: images without a mask, masks without an
        image, two files of one stem, sizes that differ, unreadable files, strange values.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from cutlearn.images import cells, read_folder, write_mask, write_probability
    >>> with tempfile.TemporaryDirectory() as name:
    ...     for kind in ("images", "masks"):
    ...         (Path(name) / kind).mkdir()
    ...     world = cells(0)
    ...     write_probability(Path(name) / "images" / "a.png", world.image)
    ...     write_mask(Path(name) / "masks" / "a.png", world.labels)
    ...     folder = read_folder(Path(name) / "images", Path(name) / "masks")
    ...     folder.names, bool((folder.labels(0) == world.labels).all())
    (('a',), True)
    """
    images = path_of("images", images)
    masks = None if masks is None else path_of("masks", masks)
    for name, value, low, high in (
        ("object_value", object_value, 0, 65_535),
        ("void_value", void_value, -65_535, 65_535),
        ("n_labels", n_labels, 2, 65_536),
    ):
        if value is not None and not (name == "object_value" and is_one_of(value, ["nonzero"])):
            whole_number(name, value, low, high)
    if object_value is not None and object_value == void_value:
        raise InputError(
            f"object_value: {object_value} found, and the same for void_value; two values were "
            "wanted. State another void_value, or leave it out."
        )
    problems: list[str] = []
    notes: list[str] = []
    limits = (max_bytes, max_pixels)
    found = _list(Path(images), problems, notes)
    shapes = _shapes(found, limits, problems, notes)
    if masks is None:
        _refuse(str(images), problems)
        return Folder(tuple(found), tuple(found.values()), notes=tuple(notes),
                      max_bytes=max_bytes, max_pixels=max_pixels)  # fmt: skip
    matched = _list(Path(masks), problems, notes)
    for name in sorted(found.keys() ^ matched.keys()):
        path, other = (found[name], "mask") if name in found else (matched[name], "image")
        folder = masks if other == "mask" else images
        problems.append(f"{shown(path)}: no {other} of that stem in {folder}; one was wanted. "
                        "Add it, or remove this file.")  # fmt: skip
    seen = _mask_values(matched, shapes, limits, problems)
    coding = _decide(Path(masks), seen, object_value, void_value, n_labels, problems)
    _refuse(f"{images} and {masks}", problems)
    paths = tuple(matched[name] for name in found)
    return Folder(tuple(found), tuple(found.values()), paths, coding, tuple(notes), *limits)


def _list(folder: Path, problems: list[str], notes: list[str]) -> dict[str, Path]:
    """The image files of a folder by stem, sorted; strangers are noted, not refused."""
    if not folder.is_dir():
        problems.append(f"{folder}: no such folder; one with images was wanted. Check the path.")
        return {}
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        hidden = path.name.startswith(".")
        if hidden or path.suffix.lower() not in ENDINGS or not path.is_file():
            notes.append(f"{shown(path)}: passed over; it is no PNG, JPEG or TIFF file.")
        elif path.stem in found:
            problems.append(
                f"{shown(path)}: a second file of the stem '{shown(path.stem)}', beside "
                f"{shown(found[path.stem].name)}; one was wanted. Rename or remove one of them."
            )
        else:
            found[path.stem] = path
    if not found:
        problems.append(f"{folder}: no PNG, JPEG or TIFF file found; at least one was wanted. "
                        "Check the path.")  # fmt: skip
    return dict(sorted(found.items()))


def _shapes(
    found: Mapping[str, Path], limits: tuple[int, int], problems: list[str], notes: list[str]
) -> dict[str, tuple[int, int]]:
    """Rows and columns of the images that can be read: each is decoded, and let go."""
    shapes, grey = {}, 0
    for name, path in found.items():
        try:
            shape = read_image(path, None, *limits).shape
            shapes[name] = (shape[0], shape[1])
            grey += len(shape) == 2
        except InputError as error:
            problems.append(str(error))
    if 0 < grey < len(shapes):
        notes.append(f"{len(shapes) - grey} images in colour and {grey} in grey found.")
    return shapes


def _mask_values(
    found: Mapping[str, Path],
    shapes: Mapping[str, tuple[int, int]],
    limits: tuple[int, int],
    problems: list[str],
) -> dict[int, Path]:
    """Every value in the masks, with the first file that has it; sizes are compared on the way."""
    seen: dict[int, Path] = {}
    for name, path in found.items():
        try:
            values = read_values(path, None, *limits)
        except InputError as error:
            problems.append(str(error))
            continue
        wanted = shapes.get(name, values.shape)
        if values.shape != wanted:
            problems.append(
                f"{shown(path)}: {values.shape[0]} x {values.shape[1]} pixels found; the "
                f"{wanted[0]} x {wanted[1]} of its image (turned as its tag says) were wanted. "
                "Export it again."
            )
        for value in np.unique(values).tolist():
            seen.setdefault(value, path)
    return seen


def _decide(
    folder: Path,
    seen: Mapping[int, Path],
    object_value: int | Literal["nonzero"] | None,
    void_value: int | None,
    n_labels: int | None,
    problems: list[str],
) -> Coding | None:
    """What the values mean, or None after a problem was told."""
    if not seen:
        return None
    if object_value == "nonzero":
        return Coding("nonzero", None, void_value)
    if object_value is not None:
        if object_value not in seen:
            problems.append(f"{folder}: values {_few(seen)} found; the object's value "
                            f"{object_value} was wanted. State another object_value.")  # fmt: skip
        void = VOID if void_value is None and object_value != VOID else void_value
        return Coding("object", object_value, void)
    named = seen.keys() - {void_value}
    if named <= {0, VOID} and VOID in named and (n_labels is None or n_labels == 2):
        return Coding("binary", VOID, void_value)
    void = VOID if void_value is None else void_value
    ids = seen.keys() - {void}
    top = max(ids, default=0)
    whole = len(ids) == top + 1 <= MOST_LABELS if n_labels is None else top < n_labels
    if not whole or top >= VOID:
        strange = f" ({top} first in {shown(seen[top].name)})" if ids else ""
        span = f"0 to {n_labels - 1}" if n_labels else "0, 1, ... without a hole"
        problems.append(
            f"{folder}: values {_few(seen)} found over all masks{strange}; 0 and 255, or label "
            f"ids {span} with {void} for void, were wanted. State object_value (a value, or "
            "'nonzero' for numbered objects), void_value or n_labels."
        )
    return Coding("ids", None, void)


def _few(seen: Mapping[int, Path]) -> str:
    values = sorted(seen)
    text = ", ".join(map(str, values[:6]))
    return text if len(values) <= 6 else f"{text}, ... {values[-1]} ({len(values)} in all)"


def _refuse(where: str, problems: list[str]) -> None:
    """Raise one error with every problem, if there is any."""
    if len(problems) == 1:
        raise InputError(problems[0])
    if problems:
        lines = "\n  ".join(problems)
        raise InputError(f"{where}: {len(problems)} problems found; none was wanted.\n  {lines}")


def write_mask(
    path: str | os.PathLike[str], labels: npt.ArrayLike, object_value: int | None = None
) -> None:
    """Write labels as a grey 8-bit PNG, whole or not at all.

    Parameters
    ----------
    path : path
        The file, usually ending in .png.
    labels : (h, w) integer or bool array
        0 to 255; 255 is void.
    object_value : int, optional
        For two labels: the value that label 1 is written as, such as 255 so that any viewer
        shows the mask. By default the value is the label.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from cutlearn.images import read_values, write_mask
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_mask(Path(folder) / "a.png", [[0, 1]], object_value=255)
    ...     read_values(Path(folder) / "a.png").tolist()
    [[0, 255]]
    """
    array = as_array(shown(path_of("path", path)), labels)
    fits = array.ndim == 2 and array.size > 0 and array.dtype.kind in "iub"
    if not fits or array.min() < 0 or array.max() > 255:
        raise InputError(
            f"{path}: labels of shape {array.shape} and type {array.dtype} found; (h, w) integers "
            "from 0 to 255 were wanted. Give one label a pixel."
        )
    if object_value is not None:
        if not is_one_of(object_value, range(1, 256)) or array.max() > 1:
            raise InputError(
                f"{path}: labels up to {array.max()} and object_value={quoted(object_value)} "
                "found; labels 0 and 1 without void, and a value from 1 to 255, were wanted. "
                "Leave object_value out."
            )
        array = array * np.uint8(object_value)
    _write_png(path, array.astype(np.uint8))


def write_probability(path: str | os.PathLike[str], probability: npt.ArrayLike) -> None:
    """Write numbers in [0, 1] as a grey 16-bit PNG, whole or not at all.

    Parameters
    ----------
    path : path
        The file, usually ending in .png.
    probability : (h, w) float array in [0, 1]
        p is stored as round(65535 p), so `read_image` gives it back within 1 / 131070.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from cutlearn.images import read_image, write_probability
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_probability(Path(folder) / "p.png", [[0.0, 1.0]])
    ...     read_image(Path(folder) / "p.png").tolist()
    [[0.0, 1.0]]
    """
    array = float_array(shown(path_of("path", path)), probability)
    # Written so that NaN fails the test as well.
    if array.ndim != 2 or not array.size or not (array.min() >= 0 and array.max() <= 1):
        raise InputError(
            f"{path}: an array of shape {array.shape} found; (h, w) numbers in [0, 1] were wanted. "
            "Give the probability of one label."
        )
    _write_png(path, np.rint(array * 65535).astype(np.uint16))


def _write_png(path: str | os.PathLike[str], array: npt.NDArray[Any]) -> None:
    file = io.BytesIO()
    Image.fromarray(array).save(file, "PNG")
    atomic_write(path, file.getvalue())
