"""Access: hosts, tokens, cookies, origins, bounds, and clients that are too slow."""

import asyncio
import contextlib
import socket
import threading
import time
from dataclasses import replace

import pytest
import uvicorn

from cutlearn.app.web.security import LIMITS, Guard, Keys, TimedProtocol
from served import Client, make_images

SMALL = replace(LIMITS, body_bytes=1000, upload_bytes=4000, body_seconds=0.2, requests=5)


@pytest.fixture
def client(tmp_path):
    make_images(tmp_path / "images", 1)
    with Client(tmp_path, SMALL) as made:
        yield made


def without(headers, name):
    return {k: v for k, v in headers.items() if k != name}


def test_token_is_changed_for_a_strict_cookie(client):
    host = {"host": client.keys.hosts[1]}
    reply = client.ask("GET", f"/?token={client.keys.token}", headers=host)
    assert reply.status == 303
    assert reply.headers["location"] == "/"
    cookie = reply.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    assert client.keys.token not in cookie
    given = host | {"cookie": cookie.split(";")[0]}
    assert client.ask("GET", "/", headers=given).status == 200


@pytest.mark.parametrize("token", ["", "x", "ü"])
def test_wrong_token_is_refused(client, token):
    reply = client.ask("GET", f"/?token={token}a", headers={"host": client.keys.hosts[0]})
    assert reply.status == 403
    assert "set-cookie" not in reply.headers


@pytest.mark.parametrize("path", ["/", "/static/main.js", "/api/state", "/api/images/0"])
@pytest.mark.parametrize("cookie", [None, "cutlearn_8000=x", "cutlearn_8000=", ";;=", "\x80=\x81"])
def test_nothing_without_the_cookie(client, path, cookie):
    headers = without(client.own, "cookie") | ({} if cookie is None else {"cookie": cookie})
    reply = client.ask("GET", path, headers=headers)
    assert reply.status == 403
    assert "token" in reply.text


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8000", "127.0.0.1", "127.0.0.1:8001", "127.0.0.1:8000.evil", "",
     "0.0.0.0:8000", "LOCALHOST:8000@evil"],
)  # fmt: skip
def test_foreign_host_is_refused_even_with_the_token(client, host):
    headers = client.own | {"host": host}
    assert client.ask("GET", "/api/state", headers=headers).status == 421
    assert client.ask("GET", f"/?token={client.keys.token}", headers={"host": host}).status == 421


def test_host_must_be_there_once(client):
    assert client.ask("GET", "/", headers=without(client.own, "host")).status == 421
    twice = client.ask("GET", "/", more=[(b"Host", b"evil.example")])
    assert twice.status == 400


@pytest.mark.parametrize(
    "origin", [None, "null", "http://evil.example", "https://127.0.0.1:8000", "http://127.0.0.1:9"]
)
@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_writes_need_the_own_origin(client, origin, method):
    headers = without(client.own, "origin") | ({} if origin is None else {"origin": origin})
    assert client.ask(method, "/api/learn", headers=headers).status == 403


@pytest.mark.parametrize("place", ["cross-site", "same-site"])
def test_other_pages_of_the_browser_may_not_even_read(client, place):
    headers = client.own | {"sec-fetch-site": place}
    assert client.ask("GET", "/api/images/0", headers=headers).status == 403


@pytest.mark.parametrize("method", ["PUT", "OPTIONS", "TRACE", "PATCH", "CONNECT"])
def test_other_methods_are_refused(client, method):
    assert client.ask(method, "/api/state").status == 405


def test_every_answer_has_a_policy_and_no_cors(client):
    wrong = client.ask("GET", "/", headers={"host": "evil"})
    for reply in (client.get("/"), client.get("/nothing"), client.get("/api/state"), wrong):
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["cross-origin-resource-policy"] == "same-origin"
        assert not [name for name in reply.headers if name.startswith("access-control")]


def test_page_has_no_inline_code(client):
    page = client.get("/").text
    assert "<script>" not in page
    assert " style=" not in page
    assert " onclick" not in page
    assert "http://" not in page
    assert "https://" not in page


@pytest.mark.parametrize("length", ["1001", "-1", "1e2", "9" * 400, "0x10", "٣"])
def test_stated_length_is_bounded(client, length):
    headers = client.own | {"content-length": length} if length.isascii() else client.own
    more = [] if length.isascii() else [(b"content-length", length.encode())]
    reply = client.ask("POST", "/api/labels", headers=headers, parts=[b"{}"], more=more)
    assert reply.status == 413


def test_length_is_counted_where_none_is_stated(client):
    reply = client.ask("POST", "/api/labels", parts=[b"x" * 600, b"x" * 600, b""])
    assert reply.status == 413


def test_upload_may_be_longer_but_not_endless(client):
    parts = [b"x" * 1000] * 4
    assert client.ask("POST", "/api/images?name=a.png", parts=[*parts, b""]).status == 400
    assert client.ask("POST", "/api/images?name=a.png", parts=[*parts, b"x"]).status == 413


def test_slow_body_is_given_up(client):
    reply = client.ask("POST", "/api/labels", parts=[b"{", 0.1, b'"n"', 0.3, b": 3}"])
    assert reply.status == 408
    assert client.workspace.n_labels == 2


def test_requests_at_once_are_bounded(client):
    async def many():
        slow = [client.asking("POST", "/api/labels", parts=[0.1, b"{}"]) for _ in range(8)]
        return await asyncio.gather(*slow)

    replies = client.runner.run(many())
    assert sorted(reply.status for reply in replies) == [400] * 5 + [503] * 3
    assert client.get("/api/state").status == 200


def test_bug_of_ours_is_told_and_survived(client, monkeypatch, caplog):
    monkeypatch.setattr(client.models, "gallery", lambda: 1 / 0)
    reply = client.get("/api/state")
    assert (reply.status, "ZeroDivisionError" in reply.text) == (500, True)
    assert "content-security-policy" in reply.headers
    assert "test_security.py" in caplog.text  # the trace is for the terminal
    assert client.get("/api/learn").status == 200


def test_websockets_are_closed(client):
    sent = []

    async def send(message):
        sent.append(message)

    client.runner.run(client.app({"type": "websocket", "headers": []}, None, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]


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
