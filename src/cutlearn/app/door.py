"""The door of every command: what went wrong becomes one line on stderr and an exit code.

0 done, 2 your input, 3 stopped before the gap (with --strict), 130 interrupted, 1 our bug, which
asks for --debug. Results go to stdout, everything else to stderr.
"""

import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import click

from cutlearn.errors import InputError

OURS, YOURS, UNFINISHED, INTERRUPTED = 1, 2, 3, 130
DEBUG = "cutlearn.debug"

Command = TypeVar("Command", bound=Callable[..., Any])


class Door(click.Group):
    """A group of commands whose failures are told in one line."""

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run a command and leave with its exit code."""
        extra["standalone_mode"] = False
        try:
            code = super().main(*args, **extra)
        except click.ClickException as error:
            where = getattr(error, "ctx", None)
            path = where.command_path if where is not None else "cutlearn"
            _leave(YOURS, f"{error.format_message()} See {path} --help.")
        except click.Abort:
            _leave(INTERRUPTED, "interrupted.")
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was asked for; tell its failures."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt as error:
            _trace(ctx)
            _leave(INTERRUPTED, str(error) or "interrupted.")
        except InputError as error:
            _trace(ctx)
            _leave(YOURS, _in_options(str(error)))
        except BrokenPipeError:
            # The reader of stdout has gone; Python would complain once more at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(OURS)
        except OSError as error:
            _trace(ctx)
            place = f"{error.filename}: " if error.filename else ""
            _leave(YOURS, f"{place}{error.strerror or error}. Check the path, its rights and disk.")
        except Exception as error:
            _trace(ctx)
            what = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            advice = "" if ctx.meta.get(DEBUG) else " Run again with --debug and send us the trace."
            _leave(OURS, f"a bug of ours ({what}).{advice}")


def debug_option(command: Command) -> Command:
    """Give a command the option --debug."""
    return click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_remember,
        help="Show the whole trace of a failure.",
    )(command)


def _remember(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    ctx.meta[DEBUG] = ctx.meta.get(DEBUG, False) or value


def _in_options(message: str) -> str:
    """Call parameters by the names that they have on the command line."""
    for name in ("object_value", "void_value", "min_side"):
        message = message.replace(name, f"--{name.replace('_', '-')}")
    return message


def _trace(ctx: click.Context) -> None:
    if ctx.meta.get(DEBUG):
        click.echo(traceback.format_exc(), err=True, nl=False)


def _leave(code: int, message: str) -> NoReturn:
    click.echo(f"cutlearn: {message}", err=True)
    sys.exit(code)
