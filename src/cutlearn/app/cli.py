"""The command line: `cutlearn fit`, `predict`, `evaluate`, `rank`, `show`, `demo` and `reproduce`.

Only the words of the commands are here, so that `cutlearn --help` answers at once; what a command
does is imported when it runs.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from cutlearn.app.door import Door, debug_option

Command = TypeVar("Command", bound=Callable[..., Any])

FOLDER = click.Path(file_okay=False)
FILE = click.Path(dir_okay=False)


def _together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
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


def _strength(_: click.Context, param: click.Parameter, value: str) -> float | str:
    """Read a positive number, or the word auto."""
    try:
        return value if value == "auto" else float(value)
    except ValueError:
        raise click.BadParameter(
            f"{value!r} found; a number > 0 or the word auto was wanted.", param=param
        ) from None


_machines = _together(
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout."),
    debug_option,
)
_jobs = click.option(
    "--jobs", type=int, help="Threads; all cores by default. Results do not depend on it."
)
_masks = _together(
    click.option(
        "--object-value",
        callback=_object_value,
        metavar="VALUE",
        help="Value of the object in the masks; 'nonzero' for masks that number their objects. "
        "By default the masks tell: 0/255, or label ids.",
    ),
    click.option(
        "--void-value",
        type=int,
        help="Value of pixels that are not annotated. [default: 255, unless it is the object]",
    ),
)
_min_side = click.option(
    "--min-side",
    type=click.IntRange(min=1),
    metavar="PIXELS",
    help="Resize so that the smaller side has so many pixels; masks come back at full size.",
)


@click.group(
    "cutlearn",
    cls=Door,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="cutlearn", prog_name="cutlearn")
@debug_option
@click.pass_context
def main(ctx: click.Context) -> None:
    """Learn to segment images; every answer is an exact minimum cut.

    \b
      cutlearn demo                              see it work, nothing to download
      cutlearn fit images/ masks/ -o my.model    learn from your own images
      cutlearn predict my.model more/ -o out/    masks for other images
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@main.command()
@click.argument("images", type=FOLDER)
@click.argument("masks", type=FOLDER)
@click.option("-o", "--output", "model", type=FILE, required=True, help="The model to write.")
@click.option(
    "--labels",
    type=click.Choice(["binary", "ordered", "surrogate", "unordered"]),
    default="binary",
    show_default=True,
    help="What the masks hold: two labels, or ids from 0: ordered, such as layers; without an "
    "order, for probabilities (surrogate, by --learner likelihood) or for masks (unordered).",
)
@click.option(
    "--loss",
    type=click.Choice(["hamming", "count"]),
    default="hamming",
    show_default=True,
    help="What a wrong mask costs: wrong pixels (tuned for IoU), or a wrong area.",
)
@click.option(
    "--learner",
    type=click.Choice(["bundle", "nslack", "accpm", "likelihood", "logistic"]),
    default="bundle",
    show_default=True,
    help="bundle, nslack, accpm: masks, to a certified gap; likelihood: probabilities, nothing is "
    "certified; logistic: the same without edges.",
)
@click.option(
    "--C",
    "C",
    callback=_strength,
    metavar="NUMBER",
    default="auto",
    show_default=True,
    help="Trust in the training images, > 0; auto: chosen on held-out ones.",
)
@click.option(
    "--tol",
    type=float,
    default=0.01,
    show_default=True,
    help="Relative gap to certify, > 0; of a likelihood, the progress below which it ends.",
)
@click.option(
    "--features",
    type=click.Choice(["auto", "linear"]),
    default="auto",
    show_default=True,
    help="auto: boosted trees, good masks; linear: filters, seconds.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of all random choices.")
@_jobs
@_masks
@_min_side
@click.option(
    "--strict",
    is_flag=True,
    help="Leave with 3 if the gap (or the end of progress) is not reached.",
)
@_machines
def fit(**options: Any) -> int:
    """Learn a model from IMAGES and the MASKS of the same names.

    A run that is interrupted (Ctrl-C, SIGTERM) or killed leaves MODEL.part; the same command goes
    on from there.
    """
    from cutlearn.app.fit import fit_command

    return fit_command(**options)


@main.command()
@click.argument("model", type=FILE)
@click.argument("images", type=FOLDER)
@click.option(
    "-o", "--output", type=FOLDER, required=True, help="Folder for the masks; made if missing."
)
@click.option(
    "--probability",
    is_flag=True,
    help="Write DIR/probability/name.png too: 16-bit grey, 65535 is a probability of 1. Of "
    "several labels, name.0.png, name.1.png, ..",
)
@click.option(
    "--areas",
    type=FILE,
    metavar="AREAS.csv",
    help="Write a table too: areas in the masks, expected areas and their 95 % intervals, pixels.",
)
@click.option(
    "--object-value",
    type=click.IntRange(1, 255),
    default=255,
    show_default=True,
    help="Value of the object in the masks that are written; of several labels, their ids are.",
)
@_jobs
@_min_side
@_machines
def predict(**options: Any) -> int:
    """Write a mask for every image of IMAGES: DIR/name.png."""
    from cutlearn.app.commands import predict_command

    return predict_command(**options)


@main.command(short_help="Compare a model's masks with true ones.")
@click.argument("model", type=FILE)
@click.argument("images", type=FOLDER)
@click.argument("masks", type=FOLDER)
@_jobs
@_masks
@_min_side
@click.option(
    "--label",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="The label that is judged, against all others.",
)
@click.option(
    "--report",
    type=FILE,
    metavar="PAGE.html",
    help="Write a page too: masks, probabilities, reliability, areas, what was learned.",
)
@_machines
def evaluate(**options: Any) -> int:
    """Compare a model's masks of IMAGES with the true MASKS, image by image and pooled."""
    from cutlearn.app.commands import evaluate_command

    return evaluate_command(**options)


@main.command(short_help="Say which images to annotate next.")
@click.argument("model", type=FILE)
@click.argument("images", type=FOLDER)
@click.option(
    "-o", "--output", type=FILE, metavar="PAGE.html", help="Write a page with the first ones too."
)
@_jobs
@_min_side
@_machines
def rank(**options: Any) -> int:
    """Order IMAGES, which have no masks, by what annotating them would tell of all of them."""
    from cutlearn.app.rank import rank_command

    return rank_command(**options)


@main.command()
@click.argument("model", type=FILE)
@_machines
def show(**options: Any) -> int:
    """Show a model: its card, its weights by name, its training curve."""
    from cutlearn.app.show import show_command

    return show_command(**options)


@main.command(short_help="Train, predict and compare on a built-in world of cells.")
@click.option(
    "-o",
    "--output",
    type=FOLDER,
    default="demo",
    show_default=True,
    help="Folder for the picture; made if missing.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Which world of cells.")
@_jobs
@_machines
def demo(**options: Any) -> int:
    """Train, predict and compare two losses on a built-in world of cells.

    Nothing to download; about half a minute on two cores.
    """
    from cutlearn.app.demo import demo_command

    return demo_command(**options)


@main.command(short_help="Run a paper's experiment again.")
@click.argument(
    "paper", type=click.Choice(["gould2011", "antoniuk2012", "tarlow2012", "yang2014", "all"])
)
@click.option("--data", type=FOLDER, help="Folder of the data sets, for papers that need any.")
@click.option("-o", "--output", type=FOLDER, required=True, help="Folder for tables and pictures.")
@_machines
def reproduce(**options: Any) -> int:
    """Run the experiment of PAPER again: a table beside the paper's figures, and pictures.

    gould2011: envelopes over the squares of a noisy checkerboard; about a minute.

    antoniuk2012: two learners on pictures of three ordered labels; some minutes.

    tarlow2012: probabilities of aeroplanes, cars, cows and dogs (--data); about an hour.

    yang2014: learned shapes on horses and pedestrians (--data); about half an hour.
    """
    from cutlearn.app.reproduce import reproduce_command

    return reproduce_command(**options)
