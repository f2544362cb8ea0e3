"""The addresses of the page, and their handlers.

    GET    /                              the page; /static/NAME its files
    GET    /api/state                     images with their states, labels, model, training
    GET    /api/images/ID[/thumb]         an image as PNG, or small as JPEG
    POST   /api/images?name=NAME          the body is an image that was dropped
    POST   /api/labels                    {"n": how many}
    POST   /api/tabs/TAB/ID/open          the marks that are kept, and the mask
    POST   /api/tabs/TAB/ID/marks         {"position": n, "marks": [..]} or {"position": n, "step":
                                          -1, 1 or "clear"}: the mask
    GET    /api/tabs/TAB/ID/beliefs?label=K    probability, doubt, area, where next
    POST   /api/tabs/TAB/ID/accept        {"position": n, "made": as answered with the mask that is
                                          shown}: it is written; its file, and the next image
    POST, DELETE   /api/learn             train, cancel
    GET    /api/export                    all of it as a zip

TAB is the key of a tab, ID and K are numbers. Whatever takes long runs in a few threads.
"""

import contextlib
from collections.abc import AsyncIterator, Callable
from importlib.resources import files
from typing import IO, Any, TypeVar

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, Router

from cutlearn.app.web.export import Exporter
from cutlearn.app.web.marks import parse
from cutlearn.app.web.models import Models, Training
from cutlearn.app.web.security import App, Guard, Keys, Refused
from cutlearn.app.web.tabs import Tab, Tabs
from cutlearn.app.web.workspace import Workspace, png_of
from cutlearn.errors import InputError
from cutlearn.images.write import PALETTE

Result = TypeVar("Result")

KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
# Threads that work for all tabs together, and bytes of a zip that are read at a time.
THREADS, PIECE = 4, 1 << 18


class Handlers:
    """The handlers of all addresses.

    Parameters
    ----------
    workspace : Workspace
    models : Models
    training : Training
    """

    def __init__(self, workspace: Workspace, models: Models, training: Training) -> None:
        self.workspace, self.models, self.training = workspace, models, training
        self.tabs = Tabs(workspace, models)
        self.exporter = Exporter(workspace, models)
        found = files("cutlearn.app.web").joinpath("static").iterdir()
        self.static = {one.name: one.read_bytes() for one in found if one.is_file()}
        self._threads: anyio.CapacityLimiter | None = None
        self._exporting = False

    async def _run(self, work: Callable[..., Result], *args: Any) -> Result:
        """Run a function in one of the few threads."""
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(THREADS)
        return await anyio.to_thread.run_sync(work, *args, limiter=self._threads)

    async def index(self, request: Request) -> Response:
        """Return the page."""
        return self._file("index.html")

    async def file(self, request: Request) -> Response:
        """Return one of the page's files."""
        return self._file(request.path_params["name"])

    def _file(self, name: str) -> Response:
        if name not in self.static:
            raise Refused(404, "There is nothing here.")
        kind = KINDS[name.rsplit(".", 1)[-1]]
        headers = {"content-type": f"{kind}; charset=utf-8"}
        return Response(self.static[name], headers=headers)

    async def state(self, request: Request) -> Response:
        """Return images, labels, model and training."""
        return JSONResponse(await self._run(self._state))

    def _state(self) -> dict[str, Any]:
        # The background is black in mask files, where strokes of it would be seen on no dark image.
        colors = ["#ffffff", *("#" + bytes(one).hex() for one in PALETTE[1:])]
        limits = self.workspace.limits
        return {
            "images": self.models.gallery(),
            "next": self.models.next_after(None),
            "labels": [
                {"name": name, "color": color} for name, color in zip(self.models.names(), colors)
            ],
            "model": self.models.described(),
            "boxes": self.models.estimator is not None or self.workspace.n_labels == 2,
            "training": self.training.state(),
            "limits": {"labels": limits.labels, "bytes": limits.upload_bytes,
                       "radius": limits.radius, "points": limits.points},
        }  # fmt: skip

    async def image(self, request: Request) -> Response:
        """Return an image."""
        number = self.workspace.check(request.path_params["id"])
        made = await self._run(lambda: png_of(self.workspace.image(number)))
        return Response(made, media_type="image/png")

    async def thumb(self, request: Request) -> Response:
        """Return a small image."""
        made = await self._run(self.workspace.thumb, request.path_params["id"])
        return Response(made, media_type="image/jpeg")

    async def add(self, request: Request) -> Response:
        """Add an image that was dropped."""
        data, name = await request.body(), request.query_params.get("name", "")
        number = await self._run(self.workspace.add, name[:300], data)
        return JSONResponse({"image": number})

    async def labels(self, request: Request) -> Response:
        """Change the number of labels."""
        found = parse(await request.body())
        await self._run(self.workspace.set_labels, found.get("n"))
        return JSONResponse(await self._run(self._state))

    def _tab(self, request: Request) -> tuple[Tab, int]:
        number = self.workspace.check(request.path_params["id"])
        return self.tabs.of(request.path_params["tab"]), number

    async def open(self, request: Request) -> Response:
        """Open an image in a tab."""
        tab, number = self._tab(request)
        return _packed(await self._run(tab.open, number))

    async def marks(self, request: Request) -> Response:
        """Change the marks of a tab."""
        tab, number = self._tab(request)
        found = parse(await request.body())
        return _packed(await self._run(tab.mark, number, found))

    async def beliefs(self, request: Request) -> Response:
        """Return probability and entropy."""
        tab, number = self._tab(request)
        label = request.query_params.get("label", "1")
        if not label.isdecimal() or len(label) > 3:
            raise InputError("label: a number was wanted.")
        return _packed(await self._run(tab.beliefs, number, int(label)))

    async def accept(self, request: Request) -> Response:
        """Write a mask."""
        tab, number = self._tab(request)
        body = await request.body()
        return JSONResponse(await self._run(tab.accept, number, parse(body) if body else {}))

    async def learn(self, request: Request) -> Response:
        """Start a training, or cancel it."""
        await self._run(self.training.start if request.method == "POST" else self.training.cancel)
        return JSONResponse(self.training.state())

    async def progress(self, request: Request) -> Response:
        """Return the progress of the training."""
        return JSONResponse(self.training.state())

    async def export(self, request: Request) -> Response:
        """Return all results as a zip."""
        if self._exporting:
            raise Refused(503, "An export is being made already. Wait for it.")
        self._exporting = True
        try:
            file = await self._run(self.exporter.make)
        finally:
            self._exporting = False
        headers = {"content-disposition": 'attachment; filename="cutlearn.zip"'}
        return StreamingResponse(_pieces(file), media_type="application/zip", headers=headers)

    def routes(self) -> list[Route]:
        """Return every address."""
        tab = "/api/tabs/{tab}/{id:int}"
        return [
            Route("/", self.index),
            Route("/static/{name}", self.file),
            Route("/api/state", self.state),
            Route("/api/images", self.add, methods=["POST"]),
            Route("/api/images/{id:int}", self.image),
            Route("/api/images/{id:int}/thumb", self.thumb),
            Route("/api/labels", self.labels, methods=["POST"]),
            Route(f"{tab}/open", self.open, methods=["POST"]),
            Route(f"{tab}/marks", self.marks, methods=["POST"]),
            Route(f"{tab}/beliefs", self.beliefs),
            Route(f"{tab}/accept", self.accept, methods=["POST"]),
            Route("/api/learn", self.progress),
            Route("/api/learn", self.learn, methods=["POST", "DELETE"]),
            Route("/api/export", self.export),
        ]


def _packed(body: bytes) -> Response:
    headers = {"content-encoding": "gzip"}
    return Response(body, media_type="application/octet-stream", headers=headers)


async def _pieces(file: IO[bytes]) -> AsyncIterator[bytes]:
    """Read a file piece by piece, then close it."""
    with contextlib.closing(file):
        while piece := await anyio.to_thread.run_sync(file.read, PIECE):
            yield piece


def make_app(workspace: Workspace, models: Models, training: Training, keys: Keys) -> App:
    """Return the whole application, guarded."""

    @contextlib.asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        yield
        pages.exporter.close()
        await anyio.to_thread.run_sync(training.close)

    pages = Handlers(workspace, models, training)
    router = Router(pages.routes(), redirect_slashes=False, lifespan=lifespan)
    return Guard(router, keys, workspace.limits)
