"""One run at a time in a folder: a lock that the system takes back when its holder dies."""

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from cutlearn.errors import InputError, shown

LOCK = "lock"
# File systems that know no locks: there the user must see to it that one run is enough.
UNKNOWN = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}


@contextlib.contextmanager
def only_one(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Hold a folder, made when missing, for this run alone; an empty one is removed at the end.

    A run that is killed leaves the file of its lock, which then holds nobody up.

    Raises
    ------
    InputError
        If another run, of this or of another process, holds it.
    """
    place = Path(folder)
    handle = _held(place)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if sys.platform == "win32":
                os.close(handle)  # Windows removes no open file
                handle = -1
            (place / LOCK).unlink()
        if handle >= 0:
            os.close(handle)
        with contextlib.suppress(OSError):
            place.rmdir()


def _held(place: Path) -> int:
    """The open file of a lock that is ours."""
    while True:
        if place.exists() and not place.is_dir():
            raise InputError(
                f"{shown(place)} is a file, but the unfinished run needs a folder of this name. "
                "Remove the file, or name another model."
            )
        # Another run that held the folder may be removing it in this very moment.
        with contextlib.suppress(FileExistsError):
            place.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            handle = os.open(place / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
            if not _taken(handle):
                owner = os.read(handle, 20).decode("ascii", "replace").strip()
                os.close(handle)
                told = f"process {owner}" if owner else "just begun"
                raise InputError(
                    f"{shown(place)}: another run ({told}) is writing here, but only one can at a "
                    "time. Wait for its end, or name another model."
                )
            # The one before may have removed the file after we opened it: then we hold nothing.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), (place / LOCK).stat()):
                    os.ftruncate(handle, 0)
                    os.write(handle, f"{os.getpid()}".encode())
                    return handle
            os.close(handle)


def _taken(handle: int) -> bool:
    """Whether the lock of an open file could be taken."""
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(handle, 2**20, os.SEEK_SET)  # not on the bytes that others read
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
            os.lseek(handle, 0, os.SEEK_SET)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in UNKNOWN
    return True
