"""Options that several commands share, with the same words everywhere."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from cutlearn.app.exits import debug_option
from cutlearn.errors import quoted

Command = TypeVar("Command", bound=Callable[..., Any])


class NameIn(click.ParamType):  # type: ignore[type-arg]
    """A name in a registry that is asked when the name is given: one from outside counts too.

    Parameters
    ----------
    names : callable
        Gives the names that there are.
    """

    name = "NAME"

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        self.names = names

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Give the name, or say which there are."""
        known = list(self.names())
        if value not in known:
            self.fail(f"{quoted(value)} is not one of {', '.join(known)}.", param, ctx)
        return value


class ToldOption(click.Option):
    """An option whose help ends with what a registry says, read when the help is shown.

    Parameters
    ----------
    told : callable
        Gives the end of the help.
    """

    def __init__(self, *names: Any, told: Callable[[], str], **options: Any) -> None:
        super().__init__(*names, **options)
        self.told = told

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Give the option and its help."""
        record = super().get_help_record(ctx)
        return None if record is None else (record[0], f"{record[1]} {self.told()}")


FOLDER = click.Path(file_okay=False)
FILE = click.Path(dir_okay=False)


def together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Make one decorator of several; the first comes first in the help."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _object_value(_: click.Context, param: click.Parameter, value: str | None) -> int | str | None:
    """Read a number, or the word nonzero."""
    if value is None or value == "nonzero":
        return value
    try:
        return int(value)
    except ValueError:
        raise click.BadParameter(
            f"{value!r} found; a number or the word nonzero was wanted.", param=param
        ) from None


output_options = together(
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout."),
    debug_option,
)
jobs_option = click.option(
    "--jobs",
    type=int,
    help="Number of threads; all cores by default. Results do not depend on it.",
)
mask_options = together(
    click.option(
        "--object-value",
        callback=_object_value,
        metavar="VALUE",
        help="Value of the object in the masks; 'nonzero' for masks that number their objects. "
        "By default this is read from the masks: 0 and 255, or label ids.",
    ),
    click.option(
        "--void-value",
        type=int,
        help="Value of pixels that are not annotated. [default: 255, unless it is the object]",
    ),
)
min_side_option = click.option(
    "--min-side",
    type=click.IntRange(min=1),
    metavar="PIXELS",
    help="Resize images so that the smaller side has this many pixels; masks are written at full "
    "size.",
)
