"""The commands of `cutlearn`, each of which adds itself here; commands from outside do the same.

A package that is installed beside cutlearn names its command as an entry point of the group
`cutlearn.commands`; a script calls `register` before it calls `cutlearn.app.cli.main`.
"""

from importlib.metadata import EntryPoint, entry_points
from typing import Any

import click

from cutlearn.errors import InputError, clean

GROUP = "cutlearn.commands"
COMMANDS: dict[str, click.Command] = {}


def register(command: Any) -> click.Command:
    """Add a command; also as a decorator above `click.command`.

    Parameters
    ----------
    command : click.Command
        Its name is what a person types after `cutlearn`. What its function returns is the exit
        code; an `InputError` that it raises becomes one line and exit code 2.

    Returns
    -------
    click.Command
        The same command.
    """
    if not isinstance(command, click.Command) or not command.name:
        raise InputError(
            f"register: an object of type {type(command).__name__} was given, but a click command "
            "with a name is needed. "
            "Write @register above @click.command()."
        )
    if command.name in COMMANDS:
        raise InputError(
            f"register: there is a command {command.name!r} already; each name can be used once. "
            "Give yours another name."
        )
    COMMANDS[command.name] = command
    return command


def command_names() -> list[str]:
    """Return the names of all commands, also of other packages, in alphabetical order."""
    return sorted({*COMMANDS, *_outside()})


def command_of(name: str) -> click.Command | None:
    """Return the command of a name, or None; one that cannot be loaded fails when it is run."""
    if name in COMMANDS:
        return COMMANDS[name]
    point = _outside().get(name)
    if point is None:
        return None
    try:
        command = point.load()
    except Exception as error:  # whatever another package does, our commands go on working
        return _broken(point, f"{type(error).__name__}: {clean(str(error), 200)}")
    if not isinstance(command, click.Command):
        return _broken(point, f"a {type(command).__name__} is no click command")
    return command


def _outside() -> dict[str, EntryPoint]:
    """Commands that installed packages name."""
    return {point.name: point for point in entry_points(group=GROUP)}


def _broken(point: EntryPoint, why: str) -> click.Command:
    """Stand in for a command that cannot be loaded: listed, and refused with the reason."""

    def refuse() -> None:
        raise InputError(
            f"{point.name}: the package that adds this command could not be loaded ({why}). "
            f"Repair or remove the package that provides {point.value}."
        )

    help_text = f"Cannot be loaded: {why}."
    return click.Command(point.name, callback=refuse, help=help_text)
