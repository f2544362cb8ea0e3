"""Files that are whole or not there: the one way in which the library writes.

Bytes come in; the file at a path holds either all of them or what it held before. A rename alone
is not enough: without the fsync of the file a crash can leave a name with no bytes behind it, and
without the fsync of the folder the rename itself can be lost.
"""

import contextlib
import hashlib
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from cutlearn.checks import path_of
from cutlearn.errors import InputError

# The name of a temporary file of ours; older ones do not tell whose they are.
LEFT = re.compile(r"\.(cutlearn-[0-9a-f]{8}-)?[0-9a-f]{16}\.tmp")


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

    Only for somebody who knows that nobody else is writing there.
    """
    target = Path(os.path.realpath(path))
    folder = target if target.is_dir() else target.parent
    start = "" if target.is_dir() else _start(target)
    for found in folder.iterdir() if folder.is_dir() else ():
        if LEFT.fullmatch(found.name) and found.name.startswith(start):
            found.unlink(missing_ok=True)


def _target(path: str | os.PathLike[str]) -> Path:
    """Return the file that a path names; refuses what cannot be one."""
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
    """Name a temporary file beside a target; a failure removes it and names the path."""
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
    """How the names of a file's temporary files begin; short, whatever the length of its own."""
    return f".cutlearn-{hashlib.blake2b(os.fsencode(target.name), digest_size=4).hexdigest()}-"


def _fill(path: Path, data: bytes) -> None:
    """Make a new file with these bytes and wait until they are on the disk."""
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
