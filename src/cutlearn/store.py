"""The files that the library writes: whole or not there, and sealed.

A file at a path holds either all bytes or what it held before. A rename alone is not enough:
without the fsync of the file a crash can leave a name without bytes, and without the fsync of the
folder the rename itself can be lost.

A sealed file is safetensors whose metadata holds one entry, under the key of its kind: a digest and
a JSON text, the digest being that of the text and of every array: name, type, shape and bytes (one
entry, because safetensors writes several in any order). Reading executes nothing, and a file with
one wrong bit is refused. The digest shows damage; it is no signature, so readers of a file check
its numbers as well.
"""

import contextlib
import hashlib
import json
import os
import re
import secrets
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from cutlearn.arrays import AnyArray
from cutlearn.checks import path_of
from cutlearn.errors import InputError

Arrays = dict[str, AnyArray]
# The name of a temporary file; older ones do not name their target.
LEFT = re.compile(r"\.(cutlearn-[0-9a-f]{8}-)?[0-9a-f]{16}\.tmp")
DIGITS = 64  # of the digest, in front of the text
# Bytes of names and values; a real file has some thousands. JSON takes 20 times as much in memory.
MOST_HEADER = 8 * 2**20


def atomic_write(path: str | os.PathLike[str], data: bytes) -> None:
    """Write bytes to a file so that a failure leaves the old file or the new one, never a part.

    The steps are: a temporary file in the same folder, write, fsync, rename, fsync of the folder.
    Whatever step fails, the temporary file is removed and the error is passed on. A link is
    followed: the file that it names is replaced.

    Parameters
    ----------
    path : str or path
        The file to write; its folder must exist.
    data : bytes
        All the content.

    Raises
    ------
    InputError
        If the folder is missing, or the path is a folder.
    OSError
        If the system refuses a step (disk full, no permission); it names the path.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from cutlearn.store import atomic_write
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     atomic_write(Path(folder) / "note.txt", b"whole")
    ...     (Path(folder) / "note.txt").read_bytes()
    b'whole'
    """
    target = _target(path)
    with _temporary(path, target) as temporary:
        _fill(temporary, data)
        os.replace(temporary, target)  # noqa: PTH105 - the tests make this very call fail
        _sync_folder(target.parent)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise what `atomic_write` would raise, before the work whose results go there."""
    with _temporary(path, _target(path)) as temporary:
        _fill(temporary, b"")
        temporary.unlink()


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove the temporary files that killed writers left: of a file, or of all files of a folder.

    Only where no other process can be writing.
    """
    target = Path(os.path.realpath(path))
    folder = target if target.is_dir() else target.parent
    start = "" if target.is_dir() else _start(target)
    for found in folder.iterdir() if folder.is_dir() else ():
        if LEFT.fullmatch(found.name) and found.name.startswith(start):
            found.unlink(missing_ok=True)


def _target(path: str | os.PathLike[str]) -> Path:
    """Return the file that a path names; refuse what cannot be one."""
    target = Path(os.path.realpath(path_of("path", path)))
    if not target.parent.is_dir():
        raise InputError(
            f"{path} cannot be written: its folder does not exist. Make the folder first."
        )
    if target.is_dir():
        raise InputError(f"{path} is a folder, but a file is to be written. Add a file name.")
    return target


@contextlib.contextmanager
def _temporary(path: str | os.PathLike[str], target: Path) -> Iterator[Path]:
    """Return a temporary file next to a target; a failure removes it and names the path."""
    # Hidden, and named by chance: two writers of one path do not meet in the temporary file.
    temporary = target.with_name(f"{_start(target)}{secrets.token_hex(8)}.tmp")
    try:
        yield temporary
    except BaseException as error:
        if isinstance(error, OSError):  # a full disk names no file, a rename the temporary one
            error.filename, error.filename2 = os.fspath(path), None
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def _start(target: Path) -> str:
    """Return how the names of a file's temporary files begin; short, whatever its own length."""
    return f".cutlearn-{hashlib.blake2b(os.fsencode(target.name), digest_size=4).hexdigest()}-"


def _fill(path: Path, data: bytes) -> None:
    """Write a new file with these bytes and wait until they are on the disk."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags, 0o666)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(handle, rest) :]  # the system may take less than all
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    """Wait until the names of a folder are on the disk."""
    if os.name == "nt":  # Windows cannot open a folder, and journals the rename itself
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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
        The kind of file; reading needs the same.
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
    """Return the bytes of a sealed file with this JSON text."""
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
    """Return the digest of a file's content; the order of the arrays does not count."""
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
