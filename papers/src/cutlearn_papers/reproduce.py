"""`cutlearn reproduce`: a paper's experiments again, its tables printed, its files in a folder."""

import json
import tempfile
import time
from pathlib import Path

import click

from cutlearn.app.inputs import where_to_work
from cutlearn.app.options import FOLDER, cluster_option, output_options
from cutlearn.errors import InputError
from cutlearn.run.progress import clock
from cutlearn_papers.papers import PAPERS

ABOUT = "\n\n".join(f"{name}: {paper.about}" for name, paper in PAPERS.items())


@click.command(
    short_help="Run a paper's experiments again.",
    help="Run the experiments of PAPER again: tables beside the paper's figures, pictures, a page."
    "\n\nA run that is stopped goes on where it was when the command is given again."
    f"\n\n{ABOUT}",
)
@click.argument("paper", type=click.Choice([*PAPERS, "all"]))
@click.option("--data", type=FOLDER, help="Folder of the data sets, for papers that need any.")
@click.option("-o", "--output", type=FOLDER, required=True, help="Folder for tables and pictures.")
@click.option(
    "--scale",
    type=click.Choice(["full", "brief"]),
    default="full",
    help="Brief: fewer splits or folds, as the pages tell; a full run goes on from it.",
)
@click.option("--quick", is_flag=True, help="A minute on small images that are made on the spot: "
              "shows that everything runs, and no more.")  # fmt: skip
@click.option("--restart", is_flag=True, help="Forget what an earlier run has finished.")
@click.option("--kept", is_flag=True, help="Run nothing: write what the finished parts give.")
@cluster_option
@output_options
def reproduce(
    paper: str, data: str | None, output: str, scale: str, quick: bool, restart: bool,
    kept: bool, as_json: bool,
) -> int:  # fmt: skip
    """Run one paper, or all whose data are there."""
    if restart and kept:
        raise InputError("--restart forgets what --kept needs. Give one of them.")
    if data is not None and not Path(data).is_dir():
        raise InputError(
            f"{data}: there is no such folder. Give --data the folder that holds the data sets."
        )
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as made:
        if quick:
            from cutlearn_papers.made import make_data

            data, scale = str(make_data(Path(made))), "quick"
        figures = _run_all(paper, data, Path(output), scale, restart, kept, as_json)
    seconds = time.monotonic() - begin
    if as_json:
        click.echo(json.dumps({"seconds": round(seconds, 2), **figures}))
    else:
        click.echo(f"done in {clock(seconds)}")
    return 0


def _run_all(
    paper: str,
    data: str | None,
    output: Path,
    scale: str,
    restart: bool,
    kept: bool,
    as_json: bool,
) -> dict[str, object]:
    """Run the papers that are asked for; of all papers, leave out those whose data are missing."""
    from cutlearn.run.executor import executor_of
    from cutlearn_papers.course import Course
    from cutlearn_papers.page import claims_page

    place = executor_of(where_to_work(None))
    figures: dict[str, object] = {}
    for name in PAPERS if paper == "all" else (paper,):
        course = Course(
            name, output, None if data is None else Path(data), scale,
            lambda line: click.echo(line, err=True), restart, place,
            kept_only=kept,
        )  # fmt: skip
        try:
            figures[name] = PAPERS[name].run(course)
        except InputError as error:
            if paper != "all":
                raise
            click.echo(f"{name} is left out: {error}", err=True)
            continue
        if not as_json:
            text = (output / f"{name}.md").read_text()
            click.echo(f"{text}\n{name}: wrote {', '.join(str(file) for file in course.files)}")
    path = claims_page(output)
    if not as_json:
        click.echo(f"every claim in one table: {path}")
    return figures
