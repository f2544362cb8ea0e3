"""Exit codes: a failure becomes one line on stderr and an exit code.

0 done, 2 your input (or no room for it in memory or on the disk), 3 stopped before the gap (with
--strict), 130 interrupted by Ctrl-C, 143 by SIGTERM, both after a checkpoint, 1 an internal error,
which asks for --debug. Results go to stdout, everything else to stderr; a name that a terminal
cannot take, or that would steer it, is written with its bytes as numbers.
"""

import contextlib
import errno
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import click

from cutlearn.errors import InputError, clean

OURS, YOURS, UNFINISHED, INTERRUPTED, TERMINATED = 1, 2, 3, 130, 143
DEBUG = "cutlearn.debug"
# Parameters of Python that have an option of their own.
NAMES = (
    "object_value|void_value|min_side|min_area|mask_suffix|threshold(?==)|colors(?==)|pattern(?==)|"
    "labels(?==)|learner(?==)|features(?==)|n_jobs(?==)"
)
# Parameters of estimators whose rules name them, and those with options of another name.
RULED = "C|tol|budget|backbone|min_side|features|labels|loss|learner|n_jobs|random_state"
OTHERWISE = {"n_jobs": "jobs", "random_state": "seed"}

Command = TypeVar("Command", bound=Callable[..., Any])


class _Stop:
    """Lets SIGTERM end a command as Ctrl-C does, and remembers which it was. A context manager."""

    def __init__(self) -> None:
        self.code = INTERRUPTED
        self._ours = False

    def __enter__(self) -> None:
        self.code = INTERRUPTED
        main = threading.current_thread() is threading.main_thread()
        self._ours = main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        if self._ours:
            signal.signal(signal.SIGTERM, self._interrupt)

    def _interrupt(self, *_: object) -> None:
        self.code = TERMINATED
        raise KeyboardInterrupt

    def __exit__(self, *_: object) -> None:
        if self._ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


_STOP = _Stop()


class ReportingGroup(click.Group):
    """A group of commands whose failures are printed in one line."""

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run a command and leave with its exit code."""
        program = not args and not extra  # not called by other code, which lives on
        extra["standalone_mode"] = False
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError):  # not every stand-in can
                stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        try:
            with _STOP:
                code = super().main(*args, **extra)
        except click.ClickException as error:
            where = getattr(error, "ctx", None)
            path = where.command_path if where is not None else "cutlearn"
            _leave(YOURS, f"{error.format_message()} See {path} --help.")
        except click.Abort:
            _leave(_STOP.code, "interrupted.")
        except SystemExit as end:
            if program and end.code in (INTERRUPTED, TERMINATED):
                _leave_threads(end.code)
            raise
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; print its failures."""
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()  # here, where a full disk can still be reported
            return code
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt as error:
            _trace(ctx)
            _leave(_STOP.code, str(error) or "interrupted.")
        except InputError as error:
            _trace(ctx)
            _leave(YOURS, in_options(str(error)))
        except BrokenPipeError:
            _give_up_stdout()
            sys.exit(OURS)
        except OSError as error:
            _trace(ctx)
            place = error.filename
            if place is None:
                place = "the output"
                _give_up_stdout()
            what, full = error.strerror or str(error), error.errno in (errno.ENOSPC, errno.EDQUOT)
            advice = "Check the path, its rights and disk."
            if full:
                advice = "Make room there and run the same command again; what was kept is sound."
            _leave(YOURS, f"{_name(place)}: {what}. {advice}")
        except MemoryError as error:
            _trace(ctx)
            what = clean(str(error), 200) or "no more to be had"
            advice = "Use smaller images (--min-side), fewer --jobs, or a larger machine."
            _leave(YOURS, f"not enough memory ({what}). {advice}")
        except Exception as error:
            _trace(ctx)
            what = f"{type(error).__name__}: {clean(str(error), 300)}"
            again = "" if ctx.meta.get(DEBUG) else "Run the same command again with --debug, and "
            advice = f"{again}report what it prints to the issue tracker of cutlearn."
            _leave(OURS, f"internal error ({what}). {advice[0].upper()}{advice[1:]}")


def debug_option(command: Command) -> Command:
    """Add the option --debug to a command."""
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


def in_options(message: str) -> str:
    """Return a message with parameters named as on the command line."""
    message = message.replace("turned=False", "--no-turn")

    def option(found: re.Match[str]) -> str:
        word = (found[2] or "").strip("'")
        # What a shell would take apart keeps its quotes.
        plain = re.fullmatch(r"[\w.+-]*", word) is not None
        value = "" if found[2] is None else f" {word if plain else found[2]}"
        return f"{_flag(found[1])}{value}"

    message = re.sub(rf"The '({RULED})' parameter(?: of \w+)?(?= must)",
                     lambda found: _flag(found[1]), message)  # fmt: skip
    return re.sub(rf"(?<![\w-])({NAMES})(?:=('[^']*'|[\w.]+))?(?![\w])", option, message)


def _flag(parameter: str) -> str:
    """Return the option of a parameter."""
    return f"--{OTHERWISE.get(parameter, parameter).replace('_', '-')}"


def _trace(ctx: click.Context) -> None:
    if ctx.meta.get(DEBUG):
        click.echo(traceback.format_exc(), err=True, nl=False)


def say(text: str, err: bool = False) -> None:
    """Write lines to stdout, or stderr; nothing in them can steer a terminal."""
    lines = (clean(line, joined=False) for line in text.split("\n"))
    click.echo("\n".join(lines), err=err)


def _name(path: object) -> str:
    return os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else str(path)


def _give_up_stdout() -> None:
    """Send to nowhere what stdout still holds: Python would complain once more at its end."""
    with contextlib.suppress(OSError, ValueError):  # a stand-in has no number
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _leave_threads(code: int) -> None:
    """End at once if threads are still at work: Python would wait for them, and nobody else does.

    They write nothing, and all that was to be kept is on disk.
    """
    main = threading.main_thread()
    if any(thread is not main and not thread.daemon for thread in threading.enumerate()):
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def _leave(code: int, message: str) -> NoReturn:
    say(f"cutlearn: {message}", err=True)
    sys.exit(code)
