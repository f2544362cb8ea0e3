"""Options that several commands share, with the same words everywhere."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from cutlearn.app.exits import debug_option
from cutlearn.features.modes import BUDGETS

Command = TypeVar("Command", bound=Callable[..., Any])

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


def _budget(_: click.Context, param: click.Parameter, value: str) -> float | str:
    """Read a name, or seconds."""
    if value in BUDGETS:
        return value
    try:
        return float(value)
    except ValueError:
        raise click.BadParameter(
            f"{value!r} is neither one of {', '.join(BUDGETS)} nor a number of seconds.",
            param=param,
        ) from None


budget_option = click.option(
    "--budget",
    callback=_budget,
    metavar="NAME|SECONDS",
    default="normal",
    show_default=True,
    help=f"What --features auto may cost: {', '.join(BUDGETS)}, or seconds of one core.",
)
logits_option = click.option(
    "--logits",
    type=FOLDER,
    metavar="DIR",
    help="Logits of your own network for each image, by name: .npy, .npz, or probabilities as PNG "
    "or TIFF, at the image's size or a whole fraction of it.",
)
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
