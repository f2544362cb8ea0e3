"""How much memory is free: of the machine, of the process's own limit, of its control group."""

from pathlib import Path

# The root of the control groups of Linux.
GROUPS = Path("/sys/fs/cgroup")


def free_bytes() -> int | None:
    """Give the memory that this process may still take, or None where the system does not tell."""
    told = [room for room in (_machine(), _limit(), _group()) if room is not None]
    return max(0, min(told)) if told else None


def _machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(s.split()[1]) * 1024 for s in lines if s.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError, IndexError):
        return None


def _limit() -> int | None:
    """What is left of the address space that the process may have (`ulimit -v`)."""
    try:
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError, ValueError, IndexError):
        return None
    return None if most == resource.RLIM_INFINITY else most - pages * resource.getpagesize()


def own_group() -> Path:
    """The folder of the control group of this process, of the second version of such groups."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    own = next(line[3:] for line in lines if line.startswith("0::"))
    return GROUPS / own.lstrip("/")


def _group() -> int | None:
    """What is left of the memory of the control group, of which files that were read can go."""
    try:
        folder = own_group()
        most, used = ((folder / f"memory.{name}").read_text() for name in ("max", "current"))
        stat = (folder / "memory.stat").read_text().splitlines()
        files = next(int(s.split()[1]) for s in stat if s.startswith("inactive_file "))
        return None if most.strip() == "max" else int(most) - int(used) + files
    except (OSError, StopIteration, ValueError, IndexError):
        return None
