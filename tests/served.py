"""A small folder behind the page's server, and a client that can say anything to it."""

import asyncio
import gzip
import json
from typing import NamedTuple

import numpy as np
from PIL import Image

from cutlearn.app.web.models import Models, Training
from cutlearn.app.web.routes import make_app
from cutlearn.app.web.security import LIMITS, Keys
from cutlearn.app.web.workspace import Workspace

TAB, OTHER = "a" * 32, "b" * 32
BOX = [8, 10, 40, 52]


def blob(seed, shape=(48, 64)):
    """A red disc on green, with noise; and its mask."""
    rng = np.random.default_rng(seed)
    y, x = np.indices(shape)
    middle = shape[0] / 2 + rng.uniform(-2, 2), shape[1] / 2 + rng.uniform(-2, 2)
    mask = np.hypot(y - middle[0], x - middle[1]) < 0.26 * min(shape)
    colors = np.where(mask[..., None], (200, 80, 60), (70, 130, 80))
    image = (colors + rng.normal(0, 10, (*shape, 3))).clip(0, 255).astype(np.uint8)
    return image, mask.astype(np.uint8)


def make_images(folder, n=3, shape=(48, 64)):
    folder.mkdir(parents=True)
    for k in range(n):
        Image.fromarray(blob(k, shape)[0]).save(folder / f"blob-{k}.png")
    return folder


class Reply(NamedTuple):
    status: int
    headers: dict
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def text(self):
        return self.body.decode()

    def unpacked(self):
        """The values and planes of a packed answer."""
        assert self.status == 200, self.text
        assert self.headers["content-encoding"] == "gzip"
        return unpack(self.body)


def unpack(body):
    raw = gzip.decompress(body)
    end = 4 + int.from_bytes(raw[:4], "little")
    return json.loads(raw[4:end]), np.frombuffer(raw[end:], np.uint8)


class Client:
    """Sends requests to the application; by default those of its own page."""

    def __init__(self, folder, limits=LIMITS, fit=()):
        self.workspace = Workspace(folder / "images", folder / "masks", limits)
        self.models = Models(self.workspace)
        self.training = Training(self.workspace, self.models, fit)
        self.keys = Keys(8000)
        self.app = make_app(self.workspace, self.models, self.training, self.keys)
        self.runner = asyncio.Runner()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.training.close()
        self.runner.close()

    @property
    def own(self):
        """The headers that the page sends."""
        host = self.keys.hosts[0]
        return {"host": host, "origin": f"http://{host}", "sec-fetch-site": "same-origin",
                "cookie": f"{self.keys.name}={self.keys.secret}"}  # fmt: skip

    def ask(self, method, path, body=b"", headers=None, parts=None, more=()):
        """One request; `parts` are pieces of a body, or seconds to wait."""
        return self.runner.run(self.asking(method, path, body, headers, parts, more))

    async def asking(self, method, path, body=b"", headers=None, parts=None, more=()):
        if isinstance(body, dict | list):
            body = json.dumps(body).encode()
        given = self.own if headers is None else headers
        pairs = [(k.encode(), v.encode("latin-1")) for k, v in given.items()] + list(more)
        if parts is None:
            pairs.append((b"content-length", str(len(body)).encode()))
        plain, _, query = path.partition("?")
        scope = {
            "type": "http", "method": method, "path": plain, "raw_path": plain.encode(),
            "query_string": query.encode(), "headers": pairs, "http_version": "1.1",
            "scheme": "http", "server": ("127.0.0.1", 8000), "client": ("127.0.0.1", 1),
            "root_path": "", "asgi": {"version": "3.0"},
        }  # fmt: skip
        pieces, sent = list([body] if parts is None else parts), []

        async def receive():
            while pieces and isinstance(pieces[0], float):
                await asyncio.sleep(pieces.pop(0))
            if not pieces:
                await asyncio.sleep(60)
            return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

        async def send(message):
            sent.append(message)

        await self.app(scope, receive, send)
        start = sent[0]
        names = {k.decode(): v.decode() for k, v in start["headers"]}
        return Reply(start["status"], names, b"".join(m.get("body", b"") for m in sent[1:]))

    def get(self, path):
        return self.ask("GET", path)

    def post(self, path, body=b""):
        return self.ask("POST", path, body)

    def mark(self, position, *marks, image=0, tab=TAB, **more):
        body = {"position": position, "marks": list(marks), **more}
        return self.post(f"/api/tabs/{tab}/{image}/marks", body).unpacked()

    def open(self, image=0, tab=TAB):
        return self.post(f"/api/tabs/{tab}/{image}/open").unpacked()


def box(corners=BOX):
    return {"kind": "box", "box": list(corners)}


def stroke(label, *points, radius=2.0):
    return {"kind": "stroke", "label": label, "radius": radius, "points": list(points)}
