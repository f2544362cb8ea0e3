"""The model that `cutlearn fit` writes, and the folder MODEL.part of a run that is not finished."""

import contextlib
import sys
from pathlib import Path

import click

from cutlearn.app.exits import say
from cutlearn.errors import InputError

# The files of a run.
KEPT = "*.safetensors"


def target_of(model: str, force: bool) -> Path:
    """The file to write, refused before any work if it cannot be written."""
    target = Path(model)
    if target.exists() and not force and not _agreed(target):
        raise InputError(
            f"{target}: this model exists already. Write it elsewhere, or overwrite it with "
            "--force."
        )
    if not target.parent.is_dir():
        raise InputError(
            f"{target}: its folder does not exist. Make it first, or write the model elsewhere."
        )
    return target


def _agreed(target: Path) -> bool:
    """Whether the person at the terminal agrees to overwrite a file; nobody there does not."""
    if not sys.stdin.isatty():
        return False
    return click.confirm(f"{target} exists already. Overwrite it?", err=True)


def found_unfinished(part: Path, target: Path, restart: bool) -> bool:
    """Whether there is an unfinished run to go on with; what a kill left besides is removed."""
    from cutlearn.store import remove_leftovers

    remove_leftovers(part)
    remove_leftovers(target)
    if restart:
        remove_unfinished(part)
    found = any(part.rglob(KEPT))
    if found:
        say(f"going on with the unfinished run in {part}", err=True)
    return found


def remove_unfinished(part: Path) -> None:
    """Remove the files of a finished run, its own only; empty folders go too."""
    files = list(part.rglob(KEPT))
    for file in files:
        file.unlink()
    for folder in {file.parent for file in files} - {part}:
        with contextlib.suppress(OSError):
            folder.rmdir()


def farewell(part: Path) -> str:
    """What an interrupted fit leaves."""
    if any(part.rglob(KEPT)):
        return (
            f"interrupted; what was done is kept in {part}. "
            "Run the same command again to go on from there."
        )
    return "interrupted before anything was finished; nothing is kept. Run the same command again."
