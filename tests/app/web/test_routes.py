"""The addresses: what they give, and that nothing else can be reached through them."""

import io

import pytest
from PIL import Image

from served import OTHER, TAB, Client, blob, make_images


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("routes")
    make_images(folder / "images")
    (folder / "secret.png").write_bytes(b"secret")
    with Client(folder) as made:
        yield made


def test_page_and_its_files(client):
    page = client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    for name in ("main.js", "style.css", "icon.svg"):
        reply = client.get(f"/static/{name}")
        assert reply.status == 200
        assert len(reply.body) > 100
    assert client.get("/static/main.js").headers["content-type"].startswith("text/javascript")


def test_every_module_is_there(client):
    import re

    names, seen = ["main.js"], set()
    while names:
        name = names.pop()
        if name in seen:
            continue
        seen.add(name)
        text = client.get(f"/static/{name}").text
        names += re.findall(r'from "\./([\w.]+)"', text)
        assert "innerHTML" not in text
        assert "eval(" not in text
    assert {"main.js", "view.js", "tools.js", "keys.js"} <= seen


def test_state(client):
    state = client.get("/api/state").json
    assert [one["name"] for one in state["images"]] == ["blob-0", "blob-1", "blob-2"]
    assert state["next"] == 0
    assert [one["name"] for one in state["labels"]] == ["background", "object"]
    assert state["model"] is None
    assert state["training"]["state"] == "idle"
    assert str(client.workspace.images) not in str(state)  # no path goes to the browser


def test_images_and_thumbs(client):
    picture = Image.open(io.BytesIO(client.get("/api/images/1").body))
    assert picture.tobytes() == blob(1)[0].tobytes()
    thumb = Image.open(io.BytesIO(client.get("/api/images/1/thumb").body))
    assert (thumb.format, thumb.size) == ("JPEG", (64, 48))


@pytest.mark.parametrize(
    "path",
    ["/static/../routes.py", "/static/..%2froutes.py", "/static//etc/passwd", "/static/",
     "/static/main.js/", "/static/.", "/static/__init__.py", "/api/images/..", "/api/images/x",
     "/api/images/1.0", "/api/images/0/../../secret.png", "/api/images/%2e%2e/secret.png",
     "/secret.png", "//", "/api", "/API/state", "/api/state/", "/api/tabs", "/\x00"],
)  # fmt: skip
def test_other_paths_lead_nowhere(client, path):
    reply = client.get(path)
    assert reply.status in (400, 404)
    assert b"secret" not in reply.body


@pytest.mark.parametrize("number", ["-1", "3", "9" * 40, "00000000000000000000000000003"])
def test_other_numbers_are_refused(client, number):
    assert client.get(f"/api/images/{number}").status in (400, 404)
    assert client.post(f"/api/tabs/{TAB}/{number}/open").status in (400, 404)


@pytest.mark.parametrize("tab", ["x", "..", "%2e%2e", "A" * 32, "a" * 31, "a" * 32 + "0", "é" * 32])
def test_other_tabs_are_refused(client, tab):
    assert client.post(f"/api/tabs/{tab}/0/open").status in (400, 404)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"null", b"[]", b"\xff\xfe", b"[" * 50_000, b'{"marks": 3}', b"{}",
             b'{"position": 0, "marks": [{"kind": "stroke"}]}',
             b'{"position": 0, "marks": [{"kind": "box", "box": [0,0,1e999,1]}]}',
             b'{"position": 0, "step": {"a": 1}}', b'{"position": 0, "step": 7}'],
)  # fmt: skip
def test_malformed_marks_change_nothing(client, body):
    reply = client.post(f"/api/tabs/{OTHER}/2/marks", body)
    assert reply.status in (200, 400)
    assert client.open(2, tab=OTHER)[0]["marks"] == []
    assert not client.workspace.drafts.begun(["blob-2"])


@pytest.mark.parametrize("body", [b"3", b'{"n": 1}', b'{"n": 1e3}', b'{"n": "2"}', b"{}"])
def test_malformed_labels_are_refused(client, body):
    assert client.post("/api/labels", body).status == 400
    assert client.workspace.n_labels == 2


def test_wrong_methods_are_refused(client):
    assert client.get("/api/labels").status == 405
    assert client.post("/api/state").status == 405
    assert client.ask("DELETE", "/api/images/0").status == 405


def test_learning_and_export_without_masks_are_told(client):
    assert "Accept some first" in client.post("/api/learn").text
    assert "Accept some first" in client.get("/api/export").text
    assert client.get("/api/learn").json["state"] == "idle"


def test_dropped_image_can_be_opened(client):
    file = io.BytesIO()
    Image.fromarray(blob(5)[0]).save(file, "PNG")
    number = client.post("/api/images?name=%3Cb%3E.png", file.getvalue()).json["image"]
    meta, _ = client.open(number)
    assert meta["name"] == "_b_"
    assert meta["shape"] == [48, 64]
