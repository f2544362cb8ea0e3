"""Learning from masks in a process of its own: done, cancelled, failed; then used and exported."""

import csv
import io
import time
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest
import tifffile

from cutlearn.app.web.models import LEARNED, POINTS, Models
from served import TAB, Client, blob, box, make_images, stroke

QUICK = ["--features", "linear", "--C", "1", "--tol", "0.5"]


def ended(client, seconds=120):
    until = time.monotonic() + seconds
    while (told := client.get("/api/learn").json)["state"] == "running":
        assert time.monotonic() < until
        time.sleep(0.05)
    return told


def accepted(client, numbers):
    for number in numbers:
        client.mark(0, box(), image=number)
        assert client.post(f"/api/tabs/{TAB}/{number}/accept").status == 200


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_images(tmp_path_factory.mktemp("learn") / "images", 4).parent


@pytest.fixture(scope="module")
def client(folder):
    """A page that has learned from two of four images."""
    with Client(folder, fit=QUICK) as made:
        accepted(made, [0, 1])
        assert made.post("/api/learn").json["state"] == "running"
        assert "running already" in made.post("/api/learn").text
        told = ended(made)
        assert told["state"] == "done", told
        yield made


def test_new_model_is_used_at_once(client):
    state = client.get("/api/state").json
    assert state["model"]["used"]
    assert state["model"]["images"] == 2
    meta, plane = client.open(2)
    assert meta["live"]
    mask, truth = plane.reshape(48, 64) == 1, blob(2)[1] == 1
    assert (mask & truth).sum() / (mask | truth).sum() > 0.8
    meta, plane = client.mark(0, stroke(0, 32, 24, radius=3), image=2)
    assert (plane.reshape(48, 64)[23:26, 31:34] == 0).all()


def test_next_server_uses_what_was_learned_unless_told_otherwise(client, folder):
    from cutlearn.app.serve import _first_model

    learned = client.workspace.hidden / LEARNED
    assert _first_model(None, client.workspace) == learned
    assert str(_first_model("mine.model", client.workspace)) == "mine.model"
    again = Models(client.workspace, learned)
    assert again.described()["images"] == 2
    assert again.session().model is again.estimator


def test_both_bounds_are_told(client):
    told = client.get("/api/learn").json
    assert told["images"] == 2
    assert told["curve"]
    for best, bound in told["curve"]:
        assert bound <= best * (1 + 1e-9)


def test_open_images_are_ranked(client):
    until = time.monotonic() + 60
    while not any(one["score"] for one in client.get("/api/state").json["images"]):
        assert time.monotonic() < until
        time.sleep(0.05)
    images = client.get("/api/state").json["images"]
    scores = [one["score"] for one in images]
    assert scores[:2] == [None, None]  # done already
    best = 2 + int(np.argmax(scores[2:]))
    assert client.get("/api/state").json["next"] == best
    assert images[best]["state"] in ("doubtful", "begun")


def test_export_holds_masks_probabilities_areas_report_and_model(client):
    reply = client.get("/api/export")
    assert reply.headers["content-type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(reply.body)) as archive:
        names = set(archive.namelist())
        assert {"masks/blob-0.png", "masks/blob-1.png", "probability/blob-0.tif", "areas.csv",
                "report.html", "model/learned.model"} <= names  # fmt: skip
        planes = tifffile.imread(io.BytesIO(archive.read("probability/blob-0.tif")))
        assert planes.shape == (2, 48, 64)
        np.testing.assert_allclose(planes.sum(axis=0), 1, atol=1e-5)
        rows = list(csv.DictReader(archive.read("areas.csv").decode().splitlines()))
        mask = client.workspace.mask(0)
        assert int(rows[0]["mask_pixels"]) == mask.sum()
        assert float(rows[0]["expected_pixels"]) > 0
        assert rows[0]["low"] == rows[0]["high"] == ""  # two images are too few for an interval
        assert b"<html" in archive.read("report.html")[:2000]
    left = {path.name for path in client.workspace.hidden.iterdir()}
    assert left <= {"drafts", "training.txt", LEARNED, "first"}


def test_more_labels_than_the_model_knows(client):
    client.workspace.set_labels(3)
    try:
        assert not client.get("/api/state").json["model"]["used"]
        assert not client.open(3)[0]["live"]
    finally:
        client.workspace.set_labels(2)
    assert client.open(3)[0]["live"]


def test_failure_is_told_and_cancel_keeps_the_work(tmp_path):
    make_images(tmp_path / "images", 2)
    with Client(tmp_path, fit=["--features", "nonsense"]) as client:
        accepted(client, [0])
        client.post("/api/learn")
        told = ended(client)
        assert told["state"] == "failed"
        assert "nonsense" in told["note"]
        client.training.options = ["--budget", "best"]
        accepted(client, [1])
        client.post("/api/learn")
        time.sleep(0.3)
        client.ask("DELETE", "/api/learn")
        assert ended(client)["state"] == "cancelled"
        assert client.get("/api/state").json["model"] is None
        client.ask("DELETE", "/api/learn")  # nothing runs: nothing happens
        assert client.training.state()["state"] == "cancelled"


def test_only_other_masks_or_options_begin_anew(tmp_path):
    make_images(tmp_path / "images", 2)
    with Client(tmp_path) as client:
        client.workspace.accept(0, blob(0)[1])
        client.workspace.hidden.mkdir()
        assert client.training._fresh() == ["--restart"]
        assert client.training._fresh() == []
        client.workspace.accept(1, blob(1)[1])
        assert client.training._fresh() == ["--restart"]
        client.training.options = ["--budget", "fast"]
        assert client.training._fresh() == ["--restart"]
        assert client.training._fresh() == []


def test_curve_is_that_of_the_last_run_and_bounded(tmp_path):
    make_images(tmp_path / "images", 1)
    with Client(tmp_path) as client:
        for number in range(1, 1000):
            client.training._record({"step": number, "best": 2.0, "lower_bound": 1.0})
        assert 100 < len(client.training.state()["curve"]) <= POINTS
        client.training._record({"step": 1, "best": 5.0, "lower_bound": 0.0})
        assert client.training.state()["curve"] == [(5.0, 0.0)]
        client.training._record({"phase": "features", "done": 0.5})
        assert client.training.state()["best"] is None


def test_model_of_three_labels_brings_the_third(tmp_path, monkeypatch):
    make_images(tmp_path / "images", 1)
    three = SimpleNamespace(classes_=[0, 1, 2])
    monkeypatch.setattr("cutlearn.model.model_files.load", lambda path: three)
    with Client(tmp_path) as client:
        client.models.use(tmp_path / "a.model")
        assert client.workspace.n_labels == 3
        assert client.models.estimator is three
        assert client.models.names() == ["background", "object", "label 2"]
