"""Tabs: marks become masks, survive everything, and do not mix."""

import numpy as np
import pytest
from PIL import Image

from cutlearn.model.session.engines import UntrainedEngine
from cutlearn.model.session.session import Answer
from served import BOX, OTHER, TAB, Client, blob, box, make_images, stroke


@pytest.fixture
def client(tmp_path):
    make_images(tmp_path / "images")
    with Client(tmp_path) as made:
        yield made


def tabs_of(client):
    return client.app.app.routes[0].endpoint.__self__.tabs


def tab_of(client):
    return tabs_of(client).of(TAB)


def iou(plane, truth):
    mask, truth = plane.reshape(truth.shape) == 1, truth == 1
    return (mask & truth).sum() / (mask | truth).sum()


def test_box_gives_a_mask_and_strokes_hold(client):
    meta, plane = client.open()
    assert not meta["known"]
    assert "Draw a box" in meta["told"]
    meta, plane = client.mark(0, box())
    assert (meta["known"], meta["position"], meta["undo"], meta["redo"]) == (True, 1, True, False)
    assert iou(plane, blob(0)[1]) > 0.95
    assert meta["box"] == BOX
    meta, plane = client.mark(1, stroke(0, 32, 24, radius=3), stroke(1, 5, 44))
    labels = plane.reshape(48, 64)
    assert (labels[23:26, 31:34] == 0).all()
    assert labels[44, 5] == 1
    assert meta["box"] == [8, 3, 46, 52]  # grown around the stroke that lay outside
    assert meta["position"] == 3


def test_undo_redo_and_clear_go_back_and_forth(client, monkeypatch):
    _, first = client.mark(0, box())
    _, second = client.mark(1, stroke(0, 32, 24, radius=5))
    monkeypatch.setattr(UntrainedEngine, "solve", None)  # nothing is computed again
    meta, plane = client.mark(2, step=-1)
    np.testing.assert_array_equal(plane, first)
    assert meta["redo"]
    meta, plane = client.mark(1, step=1)
    np.testing.assert_array_equal(plane, second)
    meta, _ = client.mark(2, step="clear")
    assert (meta["known"], meta["position"], meta["redo"]) == (False, 0, True)


def test_undo_computes_nothing_and_gives_what_was(client, monkeypatch):
    """Random steps; every answer is that of its marks, and undo and redo ask for no new one."""
    rng, known, asked = np.random.default_rng(0), {}, []
    solve = UntrainedEngine.solve
    monkeypatch.setattr(UntrainedEngine, "solve", lambda *a, **k: asked.append(1) or solve(*a, **k))
    monkeypatch.setattr("cutlearn.app.web.tabs.KEPT", 4)
    meta, plane = client.mark(0, box())
    for _ in range(60):
        known.setdefault(str(meta["marks"]), plane)
        np.testing.assert_array_equal(plane, known[str(meta["marks"])])
        before, step = len(asked), int(rng.choice([-1, -1, 1, 0, 0]))
        position = meta["position"]
        if step == 0:
            point = rng.integers(12, 40, 2).tolist()
            meta, plane = client.mark(position, stroke(int(rng.integers(2)), *point))
            assert len(asked) == before + 1
        elif position + step > 0:
            meta, plane = client.mark(position, step=step)
            assert len(asked) <= before + 1
        assert len(tab_of(client)._open.history._answers) <= 6
    assert len(asked) < 50


def drawn_strokes(count, seed=0):
    """Strokes of two labels anywhere in the image, with the rubber now and then."""
    rng = np.random.default_rng(seed)
    for k in range(count):
        points = rng.uniform(4, 44, 2) + np.linspace(0, 1, 6)[:, None] * rng.uniform(-12, 12, 2)
        label = int(rng.integers(2)) if k % 8 < 7 else -1
        yield stroke(label, *points.round(2).ravel().tolist(), radius=2.5)


def test_any_way_to_some_marks_leads_to_their_answer(tmp_path):
    """Strokes, previews, undo, redo and clear at random, against a tab that gets the marks only."""
    for folder in ("seen", "plain"):
        misty(tmp_path / folder / "images")
    rng, lines = np.random.default_rng(2), drawn_strokes(100, seed=2)
    with Client(tmp_path / "seen") as client, Client(tmp_path / "plain") as plain:
        meta, _ = client.open()
        for turn in range(30):
            position = meta["position"]
            if rng.random() < 0.4:
                client.mark(position, next(lines), preview=True)
            what = rng.choice(["draw", "draw", "draw", "undo", "redo", "box", "clear"])
            if what == "draw":
                meta, found = client.mark(position, next(lines))
            elif what == "box":
                top, left = rng.integers(0, 20, 2).tolist()
                meta, found = client.mark(position, box([top, left, top + 25, left + 40]))
            else:
                way = {"undo": -1, "redo": 1, "clear": "clear"}[what]
                meta, found = client.mark(position, step=way)
            if turn % 3 == 2 and meta["marks"]:
                _, expected = plain.mark(0, *meta["marks"], tab=f"{turn:032x}")
                np.testing.assert_array_equal(found, expected)
                plain.mark(len(meta["marks"]), step="clear", tab=f"{turn:032x}")


def misty(folder):
    """An image without clear objects, where every stroke matters far around it."""
    rng = np.random.default_rng(0)
    low = rng.uniform(90, 160, (7, 9, 3)).astype(np.uint8)
    smooth = np.asarray(Image.fromarray(low).resize((64, 48), Image.Resampling.BICUBIC))
    pixels = smooth + rng.normal(0, 8, smooth.shape)
    folder.mkdir(parents=True)
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / "misty.png")


def previewed(client, position, line):
    """Preview a stroke while it grows, then mark it."""
    for points in range(2, len(line["points"]), 2):
        client.mark(position, {**line, "points": line["points"][:points]}, preview=True)
    return client.mark(position, line)


@pytest.mark.parametrize("begin", [[], [box()]])
def test_previews_and_reloads_change_no_answer(tmp_path, begin):
    """An answer is that of its marks: previews, a thrown away tab, a new server do not matter."""
    lines = list(drawn_strokes(6))
    for folder in ("seen", "plain"):
        misty(tmp_path / folder / "images")
    with Client(tmp_path / "seen") as client, Client(tmp_path / "plain") as plain:
        for position, mark in enumerate(begin):
            client.mark(position, mark)
            plain.mark(position, mark)
        for position, line in enumerate(lines, len(begin)):
            _, expected = plain.mark(position, line)
            _, found = previewed(client, position, line)
            np.testing.assert_array_equal(found, expected)
            tab_of(client)._open = None
            np.testing.assert_array_equal(client.open()[1], expected)
    with Client(tmp_path / "seen") as again:
        np.testing.assert_array_equal(again.open()[1], expected)


def test_the_first_stroke_does_not_depend_on_its_previews(tmp_path):
    """A stroke that is drawn slowly is previewed many times; drawn fast, not once."""
    found = []
    line = stroke(1, *(v for k in range(12) for v in (70 + 10 * k, 128 + 3 * k)), radius=6)
    for folder, marked in (("slow", previewed), ("fast", Client.mark)):
        make_images(tmp_path / folder / "images", 1, (256, 256))
        with Client(tmp_path / folder) as client:
            found.append(marked(client, 0, line)[1])
            found.append(client.open()[1])
    for plane in found[1:]:
        assert (plane != found[0]).sum() == 0


@pytest.mark.parametrize("together", [1, 3])
def test_many_strokes_have_the_answer_that_a_reload_gives(tmp_path, monkeypatch, together):
    """Also of strokes in one request, and of more than are kept; undo returns what was."""
    monkeypatch.setattr("cutlearn.app.web.tabs.KEPT", 3)
    monkeypatch.setattr("cutlearn.app.web.tabs.KEPT_PIXELS", 2 * 48 * 64)
    misty(tmp_path / "images")
    lines = list(drawn_strokes(18, seed=1))
    planes = []
    with Client(tmp_path) as client:
        client.mark(0, box())
        for begin in range(0, len(lines), together):
            _, found = client.mark(1 + begin, *lines[begin : begin + together])
            planes.append(found)
            live = tab_of(client)._open
            tab_of(client)._open = None
            _, expected = client.open()
            np.testing.assert_array_equal(found, expected)
            tab_of(client)._open = live
        for position in range(len(lines), 0, -1):
            if position % together == 0:
                np.testing.assert_array_equal(found, planes.pop())
            _, found = client.mark(position + 1, step=-1)
            assert len(live.history._answers) <= 6


def test_what_was_cleared_is_not_heard(client, tmp_path):
    line = stroke(1, 32, 24, 36, 28, radius=3)
    _, expected = client.mark(0, line)
    client.mark(1, stroke(0, 10, 10, 20, 12, radius=4))
    client.mark(2, step="clear")
    _, found = client.mark(0, line, stroke(-1, 2, 2))
    np.testing.assert_array_equal(found, expected)


def test_preview_is_what_the_stroke_will_give_and_keeps_nothing(client, tmp_path):
    line = stroke(0, 32, 20, 32, 28, radius=4)
    meta, _ = client.mark(0, line, preview=True)
    assert (meta["known"], meta["position"]) == (True, 0)
    assert client.open()[0]["marks"] == []
    meta, before = client.mark(0, box())
    for part in (stroke(0, 32, 20, radius=4), line):
        meta, shown = client.mark(1, part, preview=True)
        assert (meta["position"], meta["known"]) == (1, True)
    assert client.workspace.drafts.read("blob-0", TAB, (48, 64), 2).marks[0].corners == tuple(BOX)
    client.mark(1, stroke(0, 20, 20))
    client.mark(2, step=-1)
    client.mark(1, line, preview=True)
    meta, plane = client.mark(1, step=1)  # previews leave what can be redone
    assert meta["marks"][1] == stroke(0, 20, 20)
    client.mark(2, step=-1)
    meta, plane = client.mark(1, line)
    np.testing.assert_array_equal(plane, shown)
    assert meta["position"] == 2
    meta, plane = client.mark(2, step=-1)
    np.testing.assert_array_equal(plane, before)
    assert client.post(f"/api/tabs/{TAB}/0/marks", {"preview": True, "marks": [{}]}).status == 400


def test_accepted_mask_stays_until_somebody_draws(client, tmp_path):
    client.mark(0, box())
    client.post(f"/api/tabs/{TAB}/0/accept")
    client.workspace.accept(0, blob(9)[1])  # as another model would have it
    with Client(tmp_path) as again:
        meta, plane = again.open()
        assert (meta["accepted"], meta["position"]) == (True, 1)
        np.testing.assert_array_equal(plane.reshape(48, 64), blob(9)[1])
        meta, plane = again.mark(1, stroke(1, 32, 24))
        assert not meta["accepted"]
        assert iou(plane, blob(0)[1]) > 0.9
    with Client(tmp_path) as again:
        meta, _ = again.open()
        assert (meta["accepted"], meta["position"]) == (False, 2)


def test_marks_that_were_taken_already_are_not_taken_again(client):
    client.mark(0, box())
    meta, _ = client.mark(0, box([0, 0, 9, 9]))  # as after an answer that was lost
    assert meta["position"] == 1
    assert meta["marks"] == [box()]


def test_marks_survive_a_new_server(client, tmp_path):
    _, plane = client.mark(0, box(), stroke(0, 32, 24))
    with Client(tmp_path) as again:
        meta, same = again.open()
        assert len(meta["marks"]) == 2
        np.testing.assert_array_equal(same, plane)
        meta, _ = again.mark(2, step=-1)
        assert meta["marks"] == [box()]


def test_two_tabs_do_not_mix(client):
    client.mark(0, box())
    meta, _ = client.open(tab=OTHER)
    assert meta["marks"] == [box()]  # begins with what there is
    client.mark(1, stroke(1, 32, 24), tab=OTHER)
    meta, _ = client.open(tab=TAB)
    assert meta["marks"] == [box()]
    meta, _ = client.open(tab=OTHER)
    assert meta["position"] == 2


def test_tabs_in_memory_are_bounded_and_come_back(client):
    client.mark(0, box())
    for k in range(20):
        client.open(1, tab=f"{k:032x}")
    assert len(tabs_of(client)) == client.workspace.limits.tabs
    meta, plane = client.mark(1, stroke(1, 32, 24))
    assert meta["position"] == 2
    assert iou(plane, blob(0)[1]) > 0.9


def test_beliefs_tell_probability_doubt_area_and_where_next(client):
    path = f"/api/tabs/{TAB}/0/beliefs?label=1"
    assert client.get(path).unpacked()[0] == {"known": False}
    _, labels = client.mark(0, box())
    meta, planes = client.get(path).unpacked()
    probability, doubt = planes.reshape(2, 48, 64)
    low, high = meta["interval"]
    assert low <= meta["area"] <= high
    assert ((probability > 127) == (labels.reshape(48, 64) == 1)).mean() > 0.98
    assert probability[0, 0] == 0  # outside of the box
    assert doubt[0, 0] == 0
    other = client.get(f"/api/tabs/{TAB}/0/beliefs?label=0").unpacked()[1].reshape(2, 48, 64)
    np.testing.assert_allclose(other[0].astype(int) + probability, 255, atol=1)
    if meta["next"] is not None:
        top, left, bottom, right = meta["next"]
        assert 0 <= top < bottom <= 48
        assert 0 <= left < right <= 64


def test_beliefs_without_an_interval_have_none(client, monkeypatch):
    client.mark(0, box())
    monkeypatch.setattr(Answer, "area", lambda *_: (5.0, (np.nan, np.nan)))
    meta, _ = client.get(f"/api/tabs/{TAB}/0/beliefs?label=1").unpacked()
    assert (meta["area"], meta["interval"]) == (5.0, None)


@pytest.mark.parametrize("label", ["2", "-1", "x", "99999999", ""])
def test_beliefs_of_other_labels_are_refused(client, label):
    assert client.get(f"/api/tabs/{TAB}/0/beliefs?label={label}").status == 400


def test_accept_writes_what_was_shown_and_offers_the_next(client):
    assert client.post(f"/api/tabs/{TAB}/0/accept").status == 400  # nothing to accept
    _, plane = client.mark(0, box())
    said = client.post(f"/api/tabs/{TAB}/0/accept").json
    assert said == {"file": "blob-0.png", "next": 1}
    np.testing.assert_array_equal(client.workspace.mask(0).ravel(), plane)
    states = [one["state"] for one in client.get("/api/state").json["images"]]
    assert states == ["done", "open", "open"]


def test_accept_writes_no_mask_that_was_not_shown(client):
    """A model that is learned, or a label that is added, meanwhile makes another mask."""
    meta, _ = client.mark(0, box())
    shown = {"position": meta["position"], "made": meta["made"]}
    reply = client.post(f"/api/tabs/{TAB}/0/accept", {**shown, "position": 0})
    assert (reply.status, client.workspace.done) == (400, [])
    client.post("/api/labels", {"n": 3})
    reply = client.post(f"/api/tabs/{TAB}/0/accept", shown)
    assert (reply.status, client.workspace.done) == (400, [])
    client.workspace.set_labels(2)
    assert client.post(f"/api/tabs/{TAB}/0/accept", shown).status == 200


def test_mask_on_the_disk_is_shown_where_nothing_was_drawn(client, tmp_path):
    client.workspace.accept(2, blob(2)[1])
    meta, plane = client.open(2)
    assert meta["accepted"]
    np.testing.assert_array_equal(plane.reshape(48, 64), blob(2)[1])


def test_three_labels_by_strokes(client):
    assert client.post("/api/labels", {"n": 3}).status == 200
    state = client.get("/api/state").json
    assert len(state["labels"]) == 3
    assert not state["boxes"]
    strokes = stroke(0, 4, 4, 60, 4), stroke(1, 32, 24, radius=4), stroke(2, 4, 44, 60, 44)
    meta, plane = client.mark(0, box(BOX), *strokes)  # a box tells two labels only: left out
    assert meta["known"], meta["told"]
    labels = plane.reshape(48, 64)
    assert (labels[4, 10], labels[24, 32], labels[44, 10]) == (0, 1, 2)
    client.post(f"/api/tabs/{TAB}/0/accept")
    assert np.unique(client.workspace.mask(0)).tolist() == [0, 1, 2]


def test_damaged_image_is_told(client, tmp_path):
    (tmp_path / "images" / "blob-1.png").write_bytes(b"\x89PNG nothing")
    reply = client.post(f"/api/tabs/{TAB}/1/open")
    assert reply.status == 400
    assert "blob-1.png" in reply.text
    assert str(tmp_path) not in reply.text
    assert client.open(0)[0]["name"] == "blob-0"


def test_full_disk_is_told(client, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("cutlearn.app.web.marks.atomic_write", full)
    reply = client.post(f"/api/tabs/{TAB}/0/marks", {"position": 0, "marks": [box()]})
    assert reply.status == 507
    assert "No space left" in reply.text


def test_a_tab_that_was_thrown_away_comes_back_with_the_same_mask(client):
    """Each stroke is heard on top of those before: they are heard again in their order."""
    client.mark(0, box())
    for k, (x, y) in enumerate([(32, 24), (20, 20), (40, 30)]):
        _, plane = client.mark(1 + k, stroke(k % 2, x, y, radius=3))
    tab_of(client)._open = None
    _, again = client.open()
    np.testing.assert_array_equal(again, plane)
