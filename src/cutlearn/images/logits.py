"""Your own logits: files of any network's output, matched to images by name.

In: a folder with one file per image: `.npy` or `.npz` with numbers of any kind (logits,
embeddings), or a PNG or TIFF of a probability. Out: samples with these arrays as `extra`, at the
size of their image. Probabilities become log-odds; arrays are probabilities if all numbers of all
of them lie in [0, 1]. Nothing else is clipped: logits have no bounds.
"""

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from cutlearn.arrays import AnyArray, Float32, Floats
from cutlearn.checks import path_of
from cutlearn.errors import InputError, clean, shown
from cutlearn.images.folder import Folder
from cutlearn.images.listing import name_of
from cutlearn.images.read import MAX_BYTES, read_image
from cutlearn.images.resize import Shape, resize_channels
from cutlearn.images.sample import Sample

ARRAYS, PICTURES = (".npy", ".npz"), (".png", ".tif", ".tiff")
# A probability of a picture is kept this far away from 0 and 1: half a step of 16 bits.
LEAST = 0.5 / 65535


@dataclass(frozen=True)
class GivenFolder(Folder):
    """A folder of images, each with the logits of its file; used as the folder itself is."""

    lasting: ClassVar[bool] = False  # logits have no fingerprint
    given: tuple[Path, ...] = ()
    probabilities: bool = False  # what the arrays hold

    def image(self, index: int) -> Sample:
        """Return the image at an index with its logits."""
        image = super().image(index)
        shape = image.shape[0], image.shape[1]
        return Sample(image, extra=read_logits(self.given[index], shape, self.probabilities))


def with_logits(folder: Folder, logits: Any, values: str = "auto") -> GivenFolder:
    """Match the files of a folder of logits to images; all that are missing are reported at once.

    `values`: what the arrays hold, "logits", "probabilities" or "auto".
    """
    place = path_of("logits", logits)
    if not place.is_dir():
        raise InputError(f"{shown(place)}: there is no such folder of logits. Check the path.")
    known: dict[str, list[Path]] = {}
    for path in sorted(place.iterdir()):
        if path.suffix.lower() in ARRAYS + PICTURES:
            known.setdefault(name_of(path), []).append(path)
    wrong = []
    for name in folder.names:
        found = known.get(name, [])
        if not found:
            endings = ", ".join(ARRAYS + PICTURES)
            wrong.append(f"{shown(place / name)}: the image has no logits. Add a file ({endings}).")
        elif len(found) > 1:
            names = " and ".join(shown(path.name) for path in found)
            wrong.append(f"{shown(place)}: {names} are both for one image. Remove one of them.")
    if wrong:
        raise InputError("\n".join(wrong))
    same = {field.name: getattr(folder, field.name) for field in fields(folder)}
    given = tuple(known[name][0] for name in folder.names)
    return GivenFolder(**same, given=given, probabilities=array_kind(given, values) != "logits")


def array_kind(paths: Sequence[Path], values: str = "auto", option: str = "") -> str:
    """Return what arrays hold, logits or probabilities; pictures among the files do not count.

    `option`: how the user states it, if there is a way.
    """
    arrays = [path for path in paths if path.suffix.lower() in ARRAYS]
    if values == "logits" or not arrays:
        return "logits" if arrays else "probabilities"
    likely = {path: like_probabilities(read_array(path)) for path in arrays}
    if all(likely.values()):
        return "probabilities"
    if values == "auto" and not any(likely.values()):
        return "logits"
    other = next(path for path, probable in likely.items() if not probable)
    if values == "probabilities":
        raise InputError(
            f"--values probabilities: {shown(other)} has numbers outside of [0, 1]. Use --values "
            "logits if these are logits."
        )
    one = next(path for path, probable in likely.items() if probable)
    raise InputError(
        f"{shown(one)} lies in [0, 1] throughout, as probabilities do, but {shown(other)} does "
        f"not. {option or 'Give logits of all images, or probabilities of all.'}"
    )


def like_probabilities(array: AnyArray) -> bool:
    """Return whether all numbers lie in [0, 1]."""
    numbers = array.dtype.kind in "fiub" and array.size
    return bool(numbers and array.min() >= 0 and array.max() <= 1)


def read_logits(path: Path, shape: Shape, probabilities: bool = False) -> Float32:
    """Read the logits of an image, (h, w, k) float32, at the size of the image.

    The file holds (h, w), (h, w, k) or (k, h, w) numbers, or a picture of a probability, with the
    rows and columns of the image, or these divided by a whole number. `probabilities`: whether
    arrays hold probabilities too.
    """
    if path.suffix.lower() in PICTURES:
        picture = read_image(path)
        if picture.ndim != 2:
            raise InputError(
                f"{shown(path)}: this picture is coloured, but a probability is grey. Save several "
                "channels as a .npy file."
            )
        array: AnyArray = _log_odds(picture)
    else:
        array = read_array(path)
        if probabilities:
            array = _log_odds(array)
    planes = _channels_last(array, shape, path).astype(np.float32)
    if not np.isfinite(planes).all():
        raise InputError(
            f"{shown(path)}: it holds NaN or infinite numbers. Replace them; logits of a certain "
            "label may be 20 or -20."
        )
    return resize_channels(np.ascontiguousarray(planes), shape)


def _log_odds(probabilities: AnyArray) -> Floats:
    p = np.clip(probabilities.astype(np.float64), LEAST, 1 - LEAST)
    return np.log(p / (1 - p))


def read_array(path: Path) -> AnyArray:
    """Return the array of a .npy or .npz file; of several in a .npz the one named logits."""
    try:
        size = path.stat().st_size
        if path.suffix.lower() == ".npz":
            with zipfile.ZipFile(path) as parts:
                size = sum(part.file_size for part in parts.infolist())
        if size > MAX_BYTES:
            raise InputError(f"{shown(path)}: it is larger than {MAX_BYTES} bytes. Use float16.")
        found = np.load(path, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return found
        with found:
            names: Sequence[str] = found.files
            name = names[0] if len(names) == 1 else "logits"
            if name not in names:
                raise InputError(
                    f"{shown(path)}: it holds several arrays, and none is called logits. Save one."
                )
            return np.asarray(found[name])
    except InputError:
        raise
    except Exception as error:  # numpy and zipfile raise many kinds on damaged files
        raise InputError(
            f"{shown(path)}: it could not be read as an array ({clean(str(error), 120)}). "
            "Save it again with numpy.save."
        ) from error


def _channels_last(array: AnyArray, shape: Shape, path: Path) -> AnyArray:
    """Return the array as (h, w, k); refuse rows and columns that do not divide the image's."""
    if array.dtype.kind in "fiub" and array.size:
        if array.ndim == 2:
            array = array[..., None]
        if array.ndim == 3 and _divides(array.shape[:2], shape):
            return array
        if array.ndim == 3 and _divides(array.shape[1:], shape):
            return np.moveaxis(array, 0, -1)
    raise InputError(
        f"{shown(path)}: it has shape {array.shape} and type {array.dtype}, but its image has "
        f"{shape[0]} rows and {shape[1]} columns. Give numbers of (rows, columns), with channels "
        "last or first, at this size or at this size divided by a whole number."
    )


def _divides(small: tuple[int, ...], shape: Shape) -> bool:
    """Return whether both sides are those of the shape over one whole number, rounded either way.

    Examples
    --------
    >>> _divides((5, 7), (20, 27)), _divides((5, 8), (20, 27))
    (True, False)
    """
    h, w = small
    tried = {max(1, round(shape[0] / h)), max(1, round(shape[1] / w))}
    return any(
        all(s in (size // d, -(-size // d)) for s, size in zip((h, w), shape)) for d in tried
    )
