"""The command `cutlearn`: a group of the commands that have registered themselves.

Commands are in files of this folder, which import what they need when they run, so that
`cutlearn --help` is quick.
"""

import click

# Importing a command's file registers it.
from cutlearn.app import (  # noqa: F401
    backbone,
    demo,
    evaluate,
    fit,
    predict,
    rank,
    segment,
    serve,
    show,
)
from cutlearn.app.exits import ReportingGroup, debug_option
from cutlearn.app.registry import COMMANDS, command_names, command_of


class RegisteredCommands(ReportingGroup):
    """A group that has all registered commands, also those of other packages."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return command_names()

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by its name."""
        return command_of(cmd_name)


@click.group(
    "cutlearn",
    cls=RegisteredCommands,
    commands=COMMANDS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="cutlearn", prog_name="cutlearn")
@debug_option
@click.pass_context
def main(ctx: click.Context) -> None:
    """Learn to segment images with graph cuts, exact for two labels and for labels with an order.

    \b
      cutlearn demo                              see it work, nothing to download
      cutlearn fit images/ masks/ -o my.model    learn from your own images
      cutlearn predict my.model more/ -o out/    masks for other images
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
