"""What a run shares with the system: interrupts, the lock of its folder, free memory."""

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from cutlearn.errors import InputError, shown

LOCK = "lock"
# Errors of file systems without locks: there the user must see to it that only one run writes.
UNKNOWN = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}
# The root of the control groups of Linux.
GROUPS = Path("/sys/fs/cgroup")


class Interrupted(KeyboardInterrupt):
    """A long run was stopped by the keyboard; the message states what is saved and how to resume.

    `why` is empty, or a sentence about another cause.
    """

    why = ""


def interrupted(stop: KeyboardInterrupt, left: str) -> Interrupted:
    """Return the interrupt of a run with a sentence about what is left of it."""
    why = getattr(stop, "why", "")
    made = Interrupted(f"{why} {left[:1].upper()}{left[1:]}" if why else left)
    made.why = why
    return made


@contextlib.contextmanager
def only_one(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Lock a folder, made when missing, for this run alone; an empty one is removed at the end.

    The system releases the lock of a killed run, whose lock file stays.

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
    """Open the file of the lock, and take it."""
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
                holder = f"process {owner}" if owner else "just begun"
                raise InputError(
                    f"{shown(place)}: another run ({holder}) is writing here, but only one can at "
                    "a time. Wait for its end, or name another model."
                )
            # The previous holder may have removed the file after it was opened here.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), (place / LOCK).stat()):
                    os.ftruncate(handle, 0)
                    os.write(handle, f"{os.getpid()}".encode())
                    return handle
            os.close(handle)


def _taken(handle: int) -> bool:
    """Take the lock of an open file; return whether that was possible."""
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


def free_bytes() -> int | None:
    """Return the memory that this process may still take, or None where it is unknown."""
    known = [left for left in (_machine(), _limit(), _group()) if left is not None]
    return max(0, min(known)) if known else None


def _machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(s.split()[1]) * 1024 for s in lines if s.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError, IndexError):
        return None


def _limit() -> int | None:
    """Return what is left of the address space of the process (`ulimit -v`)."""
    try:
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError, ValueError, IndexError):
        return None
    return None if most == resource.RLIM_INFINITY else most - pages * resource.getpagesize()


def own_group() -> Path:
    """Return the folder of the control group (version 2) of this process."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    own = next(line[3:] for line in lines if line.startswith("0::"))
    return GROUPS / own.lstrip("/")


def _group() -> int | None:
    """Return what is left of the memory of the control group; caches of files count as free."""
    try:
        folder = own_group()
        most, used = ((folder / f"memory.{name}").read_text() for name in ("max", "current"))
        stat = (folder / "memory.stat").read_text().splitlines()
        files = next(int(s.split()[1]) for s in stat if s.startswith("inactive_file "))
        return None if most.strip() == "max" else int(most) - int(used) + files
    except (OSError, StopIteration, ValueError, IndexError):
        return None
