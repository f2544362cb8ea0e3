"""Options that several commands share, with the same words everywhere."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from cutlearn.app.exits import debug_option
from cutlearn.errors import InputError, quoted
from cutlearn.features import BUDGETS
from cutlearn.run.progress import Progress

Command = TypeVar("Command", bound=Callable[..., Any])

VERBOSITY = "cutlearn.verbosity"
JSON_LINES = "cutlearn.json_lines"
CLUSTER = "cutlearn.cluster"


class NameIn(click.ParamType):  # type: ignore[type-arg]
    """A name in a registry, looked up when the option is parsed, so that plugins count too.

    Parameters
    ----------
    names : callable
        Returns the known names.
    """

    name = "NAME"

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        self.names = names

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the name; refuse an unknown one with a list of the known ones."""
        known = list(self.names())
        if value not in known:
            self.fail(f"{quoted(value)} is not one of {', '.join(known)}.", param, ctx)
        return value


FOLDER = click.Path(file_okay=False)
FILE = click.Path(dir_okay=False)
# A folder of images, or a single one.
IMAGES = click.Path()


def together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return one decorator for several; the first comes first in the help."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def refuse_idle(names: Iterable[str], used: bool, why: str) -> None:
    """Refuse options that were given on the command line, but would change nothing.

    Parameters
    ----------
    names : parameters of the command that runs
    used : bool
        Whether they have an effect.
    why : str
        What comes after "has no effect".
    """
    context = click.get_current_context()
    flags = {param.name: param.opts[0] for param in context.command.params}
    for name in () if used else names:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise InputError(f"{flags[name]} has no effect {why}. Leave it out.")


def _object_value(_: click.Context, param: click.Parameter, value: str | None) -> int | str | None:
    """Read a number, or the word nonzero."""
    if value is None or value == "nonzero":
        return value
    try:
        return int(value)
    except ValueError:
        raise click.BadParameter(
            f"{value!r} is not a whole number. Give one, or the word nonzero.", param=param
        ) from None


def _colors(_: click.Context, param: click.Parameter, value: str | None) -> list[int] | None:
    """Read colours such as 000000,ff0000 or #000000,#ff0000."""
    if value is None:
        return None
    words = [word.strip().removeprefix("#") for word in value.split(",")]
    if len(words) < 2 or not all(re.fullmatch("[0-9a-fA-F]{6}", word) for word in words):
        raise click.BadParameter(
            f"{value!r} is not a list of two or more colours. Write them as in "
            "000000,ff0000,00ff00, with the colour of label 0 first.",
            param=param,
        )
    return [int(word, 16) for word in words]


def _verbosity(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """Store how much of a long run is shown."""
    if value:
        ctx.meta[VERBOSITY] = 0 if param.name == "quiet" else 2


def _as_lines(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    """Store that progress is written as JSON."""
    ctx.meta[JSON_LINES] = value


verbosity_options = together(
    click.option(
        "-q", "--quiet", is_flag=True, expose_value=False, callback=_verbosity,
        help="Show no progress.",
    ),
    click.option(
        "-v", "--verbose", is_flag=True, expose_value=False, callback=_verbosity,
        help="Show detailed progress.",
    ),
    click.option(
        "--progress-json", is_flag=True, expose_value=False, callback=_as_lines,
        help="Write progress as JSON lines on stderr, for programs.",
    ),
)  # fmt: skip


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
    "or TIFF, at the image's size or a whole fraction of it. Arrays whose numbers all lie in 0 to "
    "1 are read as probabilities.",
)
output_options = together(
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout."),
    verbosity_options,
    debug_option,
)


def shown_progress(
    phases: Mapping[str, float], runs: int = 1, title: str = "", seconds: float | None = None
) -> Progress:
    """Return the progress display of a run, as -q, -v and --progress-json ask."""
    context = click.get_current_context(silent=True)
    meta = context.meta if context else {}
    return Progress(phases, runs, title, verbosity=meta.get(VERBOSITY, 1), seconds=seconds,
                    as_json=meta.get(JSON_LINES, False))  # fmt: skip


jobs_option = click.option(
    "--jobs",
    type=int,
    help="Number of threads; all cores by default. Results do not depend on it.",
)


def _remember_cluster(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    ctx.meta[CLUSTER] = value


cluster_option = click.option(
    "--cluster",
    metavar="ADDRESS|local:N",
    expose_value=False,
    callback=_remember_cluster,
    help="Work on a dask.distributed cluster: the address of its scheduler, such as "
    "tcp://host:8786, or local:N for N processes of this machine. Results do not depend on it.",
)
place_options = together(jobs_option, cluster_option)
image_options = together(
    click.option(
        "--pattern", metavar="GLOB", help="Only images whose file name matches, as '*_raw.tif'."
    ),
    click.option(
        "--no-turn",
        "turned",
        flag_value=False,
        default=True,
        help="Read images as they are stored, without regard to a camera's rotation tag.",
    ),
)


def _spacing(_: click.Context, param: click.Parameter, value: str | None) -> list[float] | None:
    """Read three distances."""
    try:
        found = None if value is None else [float(word) for word in value.split(",")]
        if found is None or len(found) == 3:
            return found
    except ValueError:
        pass
    raise click.BadParameter(
        f"{value!r} is not three numbers. Write the distances of slices, rows and columns as in "
        "50,5,5.",
        param=param,
    )


spacing_option = click.option(
    "--spacing",
    callback=_spacing,
    metavar="Z,Y,X",
    help="Distances of the slices, rows and columns of volumes. [default: as the files say]",
)
volume_options = together(
    click.option(
        "--volume",
        is_flag=True,
        help="Take every file as one volume, not as a stack of images: TIFF of several pages, "
        "OME-TIFF, numpy arrays, NIfTI. Slices that are not annotated are void.",
    ),
    spacing_option,
    click.option(
        "--empty-void",
        is_flag=True,
        help="Slices of volumes whose mask is 0 throughout are not annotated, rather than empty.",
    ),
)
strict_reading = click.option(
    "--strict", is_flag=True, help="Stop at a file that cannot be used instead of leaving it out."
)
mask_options = together(
    click.option(
        "--object-value",
        callback=_object_value,
        metavar="VALUE",
        help="Value of the object in the masks; 'nonzero' for masks that number their objects. "
        "By default this is read from the masks (0 and 255, or label ids); `evaluate` reads masks "
        "as fit did.",
    ),
    click.option(
        "--void-value",
        type=int,
        help="Value of pixels that are not annotated. [default: 255, unless it is the object]",
    ),
    click.option(
        "--threshold",
        type=float,
        metavar="VALUE",
        help="Mask values from this one upwards are the object: for JPEG masks, smoothed edges, "
        "probabilities.",
    ),
    click.option(
        "--colors",
        callback=_colors,
        metavar="RRGGBB,...",
        help="Colours of the labels in masks that are colour pictures, label 0 first. By default "
        "every colour that is found is a label.",
    ),
    click.option(
        "--mask-suffix",
        metavar="TEXT",
        help="What the names of masks have behind those of images, as _mask. By default it is "
        "found.",
    ),
    image_options,
)


def _side(_: click.Context, param: click.Parameter, value: str | None) -> int | str | None:
    """Read a number of pixels, or the word full."""
    if value is None or value == "full":
        return value
    if not value.isdecimal() or int(value) < 1:
        raise click.BadParameter(
            f"{value!r} is not a number of pixels. Give one above 0, or the word full.", param=param
        )
    return int(value)


min_side_option = click.option(
    "--min-side",
    callback=_side,
    metavar="PIXELS|full",
    help="Resize images so that the smaller side has this many pixels; masks are written at full "
    "size. full: work at the size of the image, however large. [default: at 2 megapixels, if there "
    "are more]",
)
