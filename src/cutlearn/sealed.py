"""Sealed files: arrays and plain values in one file that tells when it was changed.

A sealed file is safetensors whose metadata holds one entry, under the key of its kind: a digest and
a JSON text, the digest being that of the text and of every array: name, type, shape and bytes (one
entry, because safetensors writes several in any order). Reading executes nothing, and a file with
one wrong bit is refused. The digest shows damage; it is no signature, so whoever reads
a file checks its numbers as well.
"""

import hashlib
import json
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from cutlearn.store import atomic_write

Arrays = dict[str, NDArray[Any]]
DIGITS = 64  # of the digest, in front of the text
# Bytes of names and values; a real file has some thousands. JSON takes 20 times as much in memory.
MOST_HEADER = 8 * 2**20


class ForeignError(ValueError):
    """A sound safetensors file of something else."""


def save_sealed(
    path: str | os.PathLike[str], key: str, header: dict[str, Any], arrays: Arrays
) -> None:
    """Write a sealed file, whole or not at all.

    Parameters
    ----------
    path : path
    key : str
        The kind of file; reading asks for the same.
    header : dict
        What JSON can hold, and numpy's scalars.
    arrays : dict of arrays
    """
    text = json.dumps(header, allow_nan=False, sort_keys=True, default=_python_scalar)
    atomic_write(path, sealed_bytes(key, text, arrays))


def _python_scalar(value: Any) -> Any:
    """Return the Python scalar that JSON can hold for one of numpy."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a {type(value).__name__} cannot be kept in a file")


def sealed_bytes(key: str, text: str, arrays: Arrays) -> bytes:
    """Give the bytes of a sealed file with this JSON text."""
    # safetensors ignores strides: a transposed array would come back scrambled.
    whole = {
        name: np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        for name, array in sorted(arrays.items())
    }
    sealed = f"{digest_of(key, text, whole)} {text}"
    made: bytes = safetensors.numpy.save(whole, metadata={key: sealed})
    return made


def load_sealed(
    path: str | os.PathLike[str], key: str, known: bool = False
) -> tuple[dict[str, Any], Arrays, bool]:
    """Read a sealed file of a kind, or one from before there were seals.

    Parameters
    ----------
    path : path
    key : str
    known : bool
        Whether this process has written the file, or compared its digest before.

    Returns
    -------
    header : dict
    arrays : dict of arrays
    sealed : bool
        Whether a digest was there; one that is there fits.

    Raises
    ------
    ForeignError
        If the file is of another kind.
    ValueError
        If it is damaged; the message is the reason.
    """
    try:
        _check_length(Path(path))
        with safetensors.safe_open(os.fspath(path), framework="numpy") as file:
            metadata: dict[str, str] = file.metadata() or {}
            ours = key in metadata
            names = list(file.keys()) if ours else []
            arrays = {name: file.get_tensor(name) for name in names}
        if not ours:
            raise ForeignError("a safetensors file of something else")
        if len(metadata) > 1:
            raise ValueError("metadata that no such file has")
        text = metadata[key]
        sealed = not text.startswith("{")
        if sealed:
            digest, text = text[:DIGITS], text[DIGITS + 1 :]
            if not known and digest != digest_of(key, text, arrays):
                raise ValueError("its digest does not fit its content")
        header = json.loads(text, parse_constant=_no_constant)
    except (safetensors.SafetensorError, TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    if not isinstance(header, dict):
        raise ForeignError("a file of something else")
    return header, arrays, sealed


def digest_of(key: str, text: str, arrays: Arrays) -> str:
    """Give the digest of a file's content; the order of the arrays does not count."""
    out = hashlib.blake2b(digest_size=32)
    for part in _parts(key, text, arrays):
        out.update(struct.pack("<Q", len(part)))  # so that no two contents run together alike
        out.update(part)
    return out.hexdigest()


def _parts(key: str, text: str, arrays: Arrays) -> Iterable[bytes | memoryview]:
    yield key.encode()
    yield text.encode("utf-8", "surrogatepass")
    for name, array in sorted(arrays.items()):
        yield name.encode()
        yield f"{array.dtype.str} {array.shape}".encode()
        yield array.reshape(-1).view(np.uint8).data


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} in the header")


def _check_length(path: Path) -> None:
    """Refuse a long header before it is read: parsing takes many times its length."""
    with path.open("rb") as file:
        start = file.read(8)
    if len(start) < 8 or struct.unpack("<Q", start)[0] > MOST_HEADER:
        raise ValueError("its header is cut off or too long")
