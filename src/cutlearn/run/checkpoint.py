"""The state of a long run on disk: arrays and plain values, written whole or not at all.

A checkpoint is a sealed file of kind, version and values beside the arrays. Loading executes
nothing; a damaged or foreign file, or one of an older version, gets one sentence.
"""

import hashlib
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.checks import path_of
from cutlearn.errors import InputError, InputWarning, quoted
from cutlearn.store import Arrays, ForeignError, load_sealed, save_sealed

# Version 1 had no digest; such an unfinished run starts over.
VERSION = 2
KEY = "cutlearn"
# The name of the checkpoint before the last one.
BEFORE = "before"


class DamagedError(InputError):
    """A file that is no whole checkpoint: cut off, or changed."""


def check_place(path: str | Path) -> Path:
    """Return a path; refuse, before work starts, one where no checkpoint can be written."""
    file = path_of("checkpoint", path)
    if file.is_dir() or not file.parent.is_dir():
        raise InputError(
            f"{path} cannot be the checkpoint: it is a folder, or lies in one that does not exist. "
            "Name a file, and make its folder first."
        )
    return file


def fingerprint(settings: str, arrays: Iterable[NDArray[Any] | None]) -> str:
    """Return a hash of settings and arrays, with their lengths, types and shapes."""
    out = hashlib.blake2b(f"{len(settings)} {settings}".encode(), digest_size=16)
    for array in arrays:
        if array is None:
            out.update(b"None")
        else:
            out.update(f"{array.dtype}{array.shape}".encode())
            out.update(np.ascontiguousarray(array).data)
    return out.hexdigest()


def refuse_other(path: str | Path, found: object, wanted: str, what: str) -> None:
    """Refuse the checkpoint of another run, by the fingerprints of both."""
    if found != wanted:
        raise InputError(
            f"{path} holds {what} or settings, so this run cannot go on from it. Remove it to "
            "start anew, or name another place."
        )


@contextmanager
def restoring(path: str | Path) -> Iterator[None]:
    """Raise one sentence where the content of a checkpoint does not fit."""
    try:
        yield
    except InputError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(
            f"{path} is a checkpoint whose parts do not fit each other ({quoted(error)}). Remove "
            "it to start anew."
        ) from error


def save_checkpoint(path: str | Path, kind: str, values: dict[str, Any], arrays: Arrays) -> None:
    """Write a checkpoint atomically.

    Parameters
    ----------
    path : path
    kind : str
        What the state is of, such as "train"; loading needs the same.
    values : dict
        What JSON can hold.
    arrays : dict of arrays
    """
    save_sealed(path, KEY, {"kind": kind, "version": VERSION, "values": values}, arrays)


def beside(path: str | Path, name: str) -> Path:
    """Return the file of a part of a run, whose name follows that of its checkpoint.

    Examples
    --------
    >>> beside("run/train.safetensors", "before").as_posix()
    'run/train-before.safetensors'
    """
    file = Path(path)
    return file.with_name(f"{file.stem}-{name}{file.suffix}")


def rotate_checkpoint(path: str | Path, kind: str, values: dict[str, Any], arrays: Arrays) -> None:
    """Write a checkpoint as `save_checkpoint` does, and keep the previous one."""
    if Path(path).exists():
        Path(path).replace(beside(path, BEFORE))
    save_checkpoint(path, kind, values, arrays)


def last_checkpoint(path: str | Path, kind: str) -> tuple[Path, dict[str, Any], Arrays] | None:
    """Read the newer of the last two checkpoints that is sound; None if there is none at all.

    A damaged one causes a warning, and an error if there is no other.
    """
    files = [file for file in (Path(path), beside(path, BEFORE)) if file.exists()]
    for file in files:
        try:
            return file, *load_checkpoint(file, kind)
        except DamagedError:
            if file is files[-1]:
                raise
            warnings.warn(
                f"{file} is damaged; the run goes on from the checkpoint before it, {files[-1]}",
                InputWarning, stacklevel=2,
            )  # fmt: skip
    return None


def remove_checkpoint(path: str | Path) -> None:
    """Remove a checkpoint and the one before it."""
    for file in (Path(path), beside(path, BEFORE)):
        file.unlink(missing_ok=True)


def load_checkpoint(
    path: str | Path, kind: str, known: bool = False
) -> tuple[dict[str, Any], Arrays]:
    """Return the values and arrays of a checkpoint of a kind; `known` as in `load_sealed`."""
    try:
        header, arrays, sealed = load_sealed(path, KEY, known)
        found, version, values = header["kind"], header["version"], header["values"]
    except (KeyError, ValueError) as error:
        # A sound file of something else is never removed.
        kind_of_error = InputError if isinstance(error, ForeignError) else DamagedError
        raise kind_of_error(
            f"{path} is not a checkpoint of an unfinished run, or is damaged ({error}). Remove it "
            "to start anew."
        ) from error
    if found != kind or version != VERSION or not sealed or not isinstance(values, dict):
        raise InputError(
            f"{path} is a checkpoint of kind {quoted(found)}, version {quoted(version)}, but this "
            f"run needs kind {kind!r}, version {VERSION}. Remove it to start anew."
        )
    return values, arrays
