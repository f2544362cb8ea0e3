"""`cutlearn serve`: a page on this machine to segment images by hand, and to teach a model."""

import contextlib
import shlex
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cutlearn.app.exits import debug_option, say
from cutlearn.app.inputs import remark
from cutlearn.app.options import FILE, FOLDER
from cutlearn.app.registry import register
from cutlearn.errors import InputError, shown

if TYPE_CHECKING:
    from cutlearn.app.web.workspace import Workspace

HOST = "127.0.0.1"
# Where dropped images go if no folder is named.
DROPPED = Path("cutlearn-images") / "images"
# Seconds for answers that are under way when the server is stopped.
GRACE = 3
# Connections that wait to be taken.
BACKLOG = 128


@register
@click.command(short_help="Segment images by hand in a browser, and teach a model.")
@click.argument("model", type=FILE, required=False)
@click.option(
    "--images",
    type=FOLDER,
    metavar="DIR",
    help=f"The images. [default: those that are dropped on the page, kept in {DROPPED}]",
)
@click.option(
    "--masks",
    type=FOLDER,
    metavar="DIR",
    help="Where masks are written. [default: the folder masks beside that of the images]",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="N",
    help="The port to listen on. [default: a free one]",
)
@click.option("--no-browser", is_flag=True, help="Open no browser; only print the address.")
@click.option(
    "--fit",
    "fit_options",
    metavar="OPTIONS",
    default="",
    help="What `cutlearn fit` is given when the page learns, as '--budget fast --labels ordered'.",
)
@debug_option
def serve(
    model: str | None,
    images: str | None,
    masks: str | None,
    port: int,
    no_browser: bool,
    fit_options: str,
) -> int:
    """Open a page to segment images by box and strokes; with a MODEL its masks are the start.

    Only this machine, and only who has the address with its token, can open the page. Masks are
    written when they are accepted. Ctrl-C ends the server; nothing that was drawn is lost.
    """
    _check_installed()
    from cutlearn.app.web.models import Models, Training
    from cutlearn.app.web.routes import make_app
    from cutlearn.app.web.security import Keys
    from cutlearn.app.web.workspace import Workspace

    given = Path(images) if images is not None else DROPPED
    if images is not None and not given.is_dir():
        raise InputError(f"{shown(given)}: there is no such folder to read images from.")
    folder = Workspace(given, Path(masks) if masks is not None else given.parent / "masks")
    models = Models(folder, _first_model(model, folder))
    training = Training(folder, models, _split(fit_options))
    with _listening(port) as listener:
        keys = Keys(listener.getsockname()[1])
        say(f"{len(folder.names)} images in {shown(given)}, masks go to {shown(folder.masks)}")
        say(f"open {keys.address}\nCtrl-C ends the server.")
        _run(make_app(folder, models, training, keys), listener, keys.address, not no_browser)
    say(f"ended: {len(folder.done)} masks in {shown(folder.masks)}")
    return 0


def _check_installed() -> None:
    try:
        import starlette
        import uvicorn  # noqa: F401
    except ImportError:
        raise InputError(
            "serve: starlette and uvicorn are not installed. "
            "Install them with: pip install 'cutlearn[app]'"
        ) from None
    del starlette


def _first_model(model: str | None, folder: "Workspace") -> Path | None:
    """Return the first model: the named one, else what the page has learned before."""
    from cutlearn.app.web.models import LEARNED

    if model is not None:
        return Path(model)
    learned = folder.hidden / LEARNED
    if not learned.is_file():
        return None
    remark(f"{shown(learned)}, learned from these masks before, is used")
    return learned


def _split(options: str) -> list[str]:
    try:
        return shlex.split(options)
    except ValueError as error:
        raise InputError(f"--fit: {error}. Check the quotes.") from None


def _listening(port: int) -> socket.socket:
    """Listen on this machine only."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen(BACKLOG)  # who has the address may come before the server is up
    except OSError as error:
        listener.close()
        raise InputError(
            f"--port: {port} cannot be used ({error.strerror}). Leave it out for a free one."
        ) from None
    return listener


def _run(app: object, listener: socket.socket, address: str, browser: bool) -> None:
    """Serve until Ctrl-C or SIGTERM."""
    import threading
    import webbrowser

    import uvicorn

    from cutlearn.app.web.security import LIMITS, TimedProtocol

    config = uvicorn.Config(
        app, http=TimedProtocol, ws="none", log_level="warning", access_log=False,  # type: ignore[arg-type]
        server_header=False, date_header=False, timeout_keep_alive=15, backlog=BACKLOG,
        limit_concurrency=2 * LIMITS.requests, timeout_graceful_shutdown=GRACE,
    )  # fmt: skip
    if browser:
        threading.Timer(0.5, webbrowser.open, [address]).start()
    # uvicorn raises the signal again when all is closed; that it came is no failure of ours.
    before = signal.getsignal(signal.SIGTERM)
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])
    signal.signal(signal.SIGTERM, before)
