"""`cutlearn reproduce`: a paper's experiment again, its table printed, its files in a folder."""

import json
import time
from importlib import import_module
from pathlib import Path

import click

from cutlearn.app.options import FOLDER, output_options
from cutlearn.app.registry import register
from cutlearn.errors import InputError
from cutlearn.run.progress import clock

PAPERS = ("gould2011", "antoniuk2012", "tarlow2012", "yang2014")


@register
@click.command(short_help="Run a paper's experiment again.")
@click.argument("paper", type=click.Choice([*PAPERS, "all"]))
@click.option("--data", type=FOLDER, help="Folder of the data sets, for papers that need any.")
@click.option("-o", "--output", type=FOLDER, required=True, help="Folder for tables and pictures.")
@output_options
def reproduce(paper: str, data: str | None, output: str, as_json: bool) -> int:
    """Run the experiment of PAPER again: a table beside the paper's figures, and pictures.

    gould2011: envelopes over the squares of a noisy checkerboard; about a minute.

    antoniuk2012: two learners on pictures of three ordered labels; some minutes.

    tarlow2012: probabilities of aeroplanes, cars, cows and dogs (--data); about an hour.

    yang2014: learned shapes on horses and pedestrians (--data); about half an hour.
    """

    if data is not None and not Path(data).is_dir():
        raise InputError(
            f"{data}: there is no such folder. Give --data the folder that holds the data sets."
        )
    begin = time.monotonic()
    figures = {}
    for name in PAPERS if paper == "all" else (paper,):
        experiment = import_module(f"cutlearn.experiments.{name}")
        try:
            said = experiment.run(
                Path(output), None if data is None else Path(data),
                lambda line: click.echo(line, err=True),
            )  # fmt: skip
        except InputError as error:
            if paper != "all":
                raise
            click.echo(f"{name} is left out: {error}", err=True)
            continue
        figures[name] = said.figures
        if not as_json:
            files = ", ".join(str(file) for file in said.files)
            click.echo(f"{said.table}\n\n{name}: wrote {files}")
    seconds = time.monotonic() - begin
    if as_json:
        click.echo(json.dumps({"seconds": round(seconds, 2), **figures}))
    else:
        click.echo(f"done in {clock(seconds)}")
    return 0
