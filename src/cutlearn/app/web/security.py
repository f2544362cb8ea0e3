"""Access to the server: every request is checked here before other code handles it.

The server listens on this machine only, but other pages in the same browser, other users and other
programs of the machine can reach it too. So a request needs, in this order:

1. a Host header that names this server (a foreign name that resolves to 127.0.0.1 has its own);
2. the cookie, which only the address with the token gives, and which other sites cannot send;
3. to come from this very page, where the browser says from where (Sec-Fetch-Site);
4. for everything that changes something, an Origin header that names this server;
5. a body within bounds, sent in time.

There is no CORS: no other page can read an answer. Pages may run only the files of this server.

Everything a client can send or hold is bounded (`PageLimits`). uvicorn has no bound on how long the
head of a request may take, nor on how long a client may leave an answer unread; a few such
connections would use up all that are allowed, so `TimedProtocol` cuts them.
"""

import asyncio
import hmac
import logging
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

from uvicorn.protocols.http.h11_impl import H11Protocol

from cutlearn.errors import InputError, clean

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

READS, WRITES = ("GET", "HEAD"), ("POST", "DELETE")
UPLOADS = "/api/images"
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
NO_COOKIE = (
    "This page needs the address that `cutlearn serve` has printed, with its token. "
    "Copy it from the terminal."
)


@dataclass(frozen=True)
class PageLimits:
    """Bounds of everything that a client can send or hold.

    Attributes
    ----------
    body_bytes, upload_bytes : int
        Of a request, and of an image that is dropped on the page.
    pixels : int
        Of an image.
    images, tabs : int
        Images that are known, and tabs whose image is kept in memory; an older tab is read from
        the disk again when it comes back.
    marks, points : int
        Marks of an image, and points of one stroke.
    radius : float
        Of a brush, in pixels.
    ink : float
        Pixels around a stroke that are looked at, in units of the image.
    labels : int
        Labels of a mask.
    requests : int
        Requests and connections at once; more are told to come back later.
    head_seconds, body_seconds, send_seconds : float
        How long a client may take to send a request's head, its body, and to take an answer.
    """

    body_bytes: int = 1 << 20
    upload_bytes: int = 64 << 20
    pixels: int = 16_000_000
    images: int = 20_000
    tabs: int = 6
    marks: int = 2_000
    points: int = 4_000
    radius: float = 500.0
    ink: float = 64.0
    labels: int = 10
    requests: int = 100
    head_seconds: float = 10.0
    body_seconds: float = 60.0
    send_seconds: float = 60.0


LIMITS = PageLimits()


class Refused(Exception):
    """A request that is answered with a status and a sentence."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


class Keys:
    """The secrets of one server: the token of its address, and the cookie given for it.

    Parameters
    ----------
    port : int
        Where the server listens. The cookie is named after it, since browsers give cookies to all
        ports of a host.
    """

    def __init__(self, port: int) -> None:
        self.token, self.secret = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        self.name = f"cutlearn_{port}"
        self.hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
        self.address = f"http://127.0.0.1:{port}/?token={self.token}"

    @property
    def cookie(self) -> str:
        """The header that sets the cookie: no script reads it, no other site sends it."""
        return f"{self.name}={self.secret}; HttpOnly; SameSite=Strict; Path=/"

    def has_cookie(self, header: str) -> bool:
        """Return whether a Cookie header holds the secret."""
        try:
            found = SimpleCookie(header).get(self.name)
        except CookieError:
            return False
        return found is not None and same(found.value, self.secret)


def same(given: str, wanted: str) -> bool:
    """Compare secrets in constant time."""
    return hmac.compare_digest(given.encode(), wanted.encode())


class Guard:
    """The outermost layer of the app: refuses what is not allowed, bounds what is.

    Parameters
    ----------
    app : ASGI application
    keys : Keys
    limits : PageLimits
    """

    def __init__(self, app: App, keys: Keys, limits: PageLimits = LIMITS) -> None:
        self.app, self.keys, self.limits = app, keys, limits
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        guarded = _with_headers(send)
        if self._running >= self.limits.requests:
            await _say(guarded, 503, "Too many requests at once. Try again.", {"retry-after": "1"})
            return
        self._running += 1
        try:
            headers = _headers(scope)
            if await self._entered(scope, headers, guarded):
                return
            self._check(scope, headers)
            await self.app(scope, self._bounded(scope, headers, receive), guarded)
        except Refused as error:
            await _say(guarded, error.status, error.why, {"connection": "close"})
        except InputError as error:
            await _say(guarded, 400, str(error), {})
        except (OSError, MemoryError) as error:
            why = getattr(error, "strerror", None) or "not enough memory"
            await _say(guarded, 507, f"{why}. Check the disk, its rights and the memory.", {})
        except Exception as error:
            logging.getLogger(__name__).exception("a request failed")
            what = f"{type(error).__name__}: {clean(str(error), 200)}"
            await _say(guarded, 500, f"A bug of ours ({what}); the terminal shows more.", {})
        finally:
            self._running -= 1

    async def _entered(self, scope: Scope, headers: dict[str, str], send: Send) -> bool:
        """Exchange the token of the address for the cookie; return whether that was the request."""
        self._check_host(headers)
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token")
        if scope["path"] != "/" or given is None:
            return False
        if scope["method"] not in READS or not same(given[0], self.keys.token):
            raise Refused(403, f"The token is not the right one. {NO_COOKIE}")
        await _say(send, 303, "", {"location": "/", "set-cookie": self.keys.cookie})
        return True

    def _check_host(self, headers: dict[str, str]) -> None:
        if headers.get("host") not in self.keys.hosts:
            raise Refused(421, "The Host header does not name this server.")

    def _check(self, scope: Scope, headers: dict[str, str]) -> None:
        """Refuse a request that does not come from the page of this server."""
        method = scope["method"]
        if method not in READS + WRITES:
            raise Refused(405, "Only GET, HEAD, POST and DELETE are answered.")
        if not self.keys.has_cookie(headers.get("cookie", "")):
            raise Refused(403, NO_COOKIE)
        # "none": typed into the address bar. Older browsers do not say.
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise Refused(403, "Only this server's own page may ask.")
        if method in WRITES:
            origin = f"http://{headers['host']}"
            if headers.get("origin") != origin:
                raise Refused(403, "The Origin header does not name this server.")

    def _bounded(self, scope: Scope, headers: dict[str, str], receive: Receive) -> Receive:
        """Return a receiver of the body within bounds of length and time."""
        upload = scope["path"] == UPLOADS
        most = self.limits.upload_bytes if upload else self.limits.body_bytes
        said = headers.get("content-length", "0")
        too_long = Refused(413, f"The request is too long: at most {most} bytes are taken.")
        if not said.isdecimal() or len(said) > 15 or int(said) > most:
            raise too_long
        loop = asyncio.get_running_loop()
        end, total, whole = loop.time() + self.limits.body_seconds, 0, False

        async def next_part() -> Message:
            nonlocal total, whole
            if whole:  # then it waits for the client to hang up, however long that takes
                return await receive()
            try:
                async with asyncio.timeout_at(end):
                    message = await receive()
            except TimeoutError:
                raise Refused(408, "The request took too long to arrive.") from None
            total += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if total > most:
                raise too_long
            return message

        return next_part


def _with_headers(send: Send) -> Send:
    """Add the headers of every answer."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = message.get("headers", [])
            names = {bytes(name).lower() for name, _ in given}
            added = [(k.encode(), v.encode()) for k, v in HEADERS.items()]
            message["headers"] = [*given, *(one for one in added if one[0] not in names)]
        await send(message)

    return sent


def _headers(scope: Scope) -> dict[str, str]:
    """Return the headers by name; refuse repeated ones that decide something."""
    found: dict[str, str] = {}
    for raw_name, raw in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw.decode("latin-1")
        if name in found and name in ("host", "origin", "content-length", "cookie"):
            raise Refused(400, f"The header {name} is there twice.")
        found[name] = value
    return found


async def _say(send: Send, status: int, text: str, headers: dict[str, str]) -> None:
    """Answer with a sentence."""
    given = {"content-type": "text/plain; charset=utf-8", **headers}
    coded = [(name.encode(), value.encode()) for name, value in given.items()]
    body = text.encode()
    coded.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": coded})
    await send({"type": "http.response.body", "body": body})


class TimedProtocol(H11Protocol):
    """HTTP/1.1 with deadlines for sending a request and for reading the answer."""

    limits: PageLimits = LIMITS
    _head: asyncio.TimerHandle | None = None
    _taking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for the head of a first request."""
        super().connection_made(transport)
        self._head = self.loop.call_later(self.limits.head_seconds, self._cut)

    def data_received(self, data: bytes) -> None:
        """Keep the deadline while a head is incomplete."""
        super().data_received(data)
        cycle: Any = self.cycle  # None before the first request
        if cycle is not None and not cycle.response_complete:
            self._head = _stopped(self._head)
        elif self._head is None:
            self._head = self.loop.call_later(self.limits.head_seconds, self._cut)

    def pause_writing(self) -> None:
        """Wait for the client to take what was sent."""
        super().pause_writing()
        self._taking = self.loop.call_later(self.limits.send_seconds, self._cut)

    def resume_writing(self) -> None:
        """Stop the deadline: the client has read the answer."""
        super().resume_writing()
        self._taking = _stopped(self._taking)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clocks."""
        self._head, self._taking = _stopped(self._head), _stopped(self._taking)
        super().connection_lost(exc)

    def _cut(self) -> None:
        self.transport.abort()


def _stopped(clock: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Cancel a timer; return None in its place."""
    if clock is not None:
        clock.cancel()
    return None
