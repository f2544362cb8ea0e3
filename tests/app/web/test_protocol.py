"""A real server on this machine: slow clients are cut, many at once are survived."""

import contextlib
import socket
import threading
import time
from dataclasses import replace

import pytest
import uvicorn

from cutlearn.app.web.limits import LIMITS
from cutlearn.app.web.protocol import TimedProtocol
from cutlearn.app.web.security import Guard, Keys
from served import Client, make_images

HURRIED = replace(LIMITS, head_seconds=0.4, send_seconds=0.4, body_seconds=0.4, requests=20)


class Hurried(TimedProtocol):
    limits = HURRIED


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Its port and keys, the application being that of the page and an endless answer."""
    folder = tmp_path_factory.mktemp("real")
    make_images(folder / "images", 1)
    with Client(folder, HURRIED) as made, socket.create_server(("127.0.0.1", 0)) as listener:
        keys = Keys(listener.getsockname()[1])

        async def app(scope, receive, send):
            if scope["type"] == "http" and scope["path"] == "/endless":
                await send({"type": "http.response.start", "status": 200, "headers": []})
                for _ in range(64):
                    await send({"type": "http.response.body", "body": bytes(1 << 20),
                                "more_body": True})  # fmt: skip
            else:
                await made.app.app(scope, receive, send)

        config = uvicorn.Config(
            Guard(app, keys, HURRIED), http=Hurried, ws="none", log_level="critical",
            timeout_keep_alive=2, limit_concurrency=40, lifespan="off",
            timeout_graceful_shutdown=1,
        )  # fmt: skip
        running = uvicorn.Server(config)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
        thread.start()
        yield keys
        running.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


def connect(keys):
    made = socket.create_connection(("127.0.0.1", int(keys.name.split("_")[1])), 10)
    made.settimeout(10)
    return made


def request(keys, path="/api/state"):
    lines = [f"GET {path} HTTP/1.1", f"Host: {keys.hosts[0]}",
             f"Cookie: {keys.name}={keys.secret}", "Connection: close", "", ""]  # fmt: skip
    return "\r\n".join(lines).encode()


def everything(one):
    found = b""
    with contextlib.suppress(ConnectionError):
        while part := one.recv(1 << 16):
            found += part
    return found


def status(keys, path="/api/state"):
    with connect(keys) as one:
        one.sendall(request(keys, path))
        return everything(one).split(b"\r\n")[0]


def answers_again(keys, seconds=8):
    """Whether the server answers within so many seconds."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if status(keys) == b"HTTP/1.1 200 OK":
            return True
        time.sleep(0.05)
    return False


def test_it_answers(server):
    assert status(server) == b"HTTP/1.1 200 OK"


@pytest.mark.parametrize("head", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX:"])
def test_head_that_does_not_come_is_cut(server, head):
    with connect(server) as one:
        one.sendall(head)
        begin = time.monotonic()
        assert everything(one) in (b"",)
        assert time.monotonic() - begin < 8


def test_second_head_is_waited_for_no_longer(server):
    with connect(server) as one:
        one.sendall(request(server).replace(b"close", b"keep-alive"))
        one.recv(1 << 16)
        one.sendall(b"GET / HTTP/1.1\r\nHo")
        everything(one)  # ends: a hung connection would run into the time-out of the socket


def test_drips_of_a_head_do_not_help(server):
    with connect(server) as one:
        begin = time.monotonic()
        with contextlib.suppress(ConnectionError):
            for letter in request(server):
                one.sendall(bytes([letter]))
                time.sleep(0.05)
        assert everything(one) == b""
        assert time.monotonic() - begin < 10


def test_answer_that_is_not_taken_is_cut(server):
    with connect(server) as one:
        one.sendall(request(server, "/endless"))
        time.sleep(1.2)
        assert len(everything(one)) < 40 << 20  # what was on its way


def test_body_that_does_not_come_is_cut(server):
    with connect(server) as one:
        head = request(server, "/api/labels").replace(b"GET", b"POST")
        own = f"Origin: http://{server.hosts[0]}\r\nContent-Length: 9\r\n\r\n{{".encode()
        one.sendall(head[:-2] + own)
        assert b" 408 " in everything(one).split(b"\r\n")[0]


def test_a_thousand_requests_at_once(server):
    found = []
    for _ in range(4):  # 250 at a time: a process may have only so many files open
        clients = [connect(server) for _ in range(250)]
        for one in clients:
            with contextlib.suppress(ConnectionError):
                one.sendall(request(server))
        for one in clients:
            with one:
                found.append(everything(one).split(b"\r\n")[0])
    assert len(found) == 1000
    assert set(found) <= {b"HTTP/1.1 200 OK", b"HTTP/1.1 503 Service Unavailable", b""}
    assert answers_again(server)


def test_many_idle_connections_do_not_lock_others_out_for_long(server):
    idle = [connect(server) for _ in range(60)]
    assert answers_again(server)  # none of them is closed by its client
    for one in idle:
        one.close()
