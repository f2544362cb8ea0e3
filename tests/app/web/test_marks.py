"""Marks, painted as they are defined, bounded, undone and redone; drafts on the disk."""

import itertools
import json
import math
import os

import numpy as np
import pytest

from cutlearn.app.web.marks import KEPT_FILES, Box, Drafts, Marks, Stroke, marks_of, parse
from cutlearn.errors import InputError
from served import OTHER, TAB

SHAPE = (30, 40)


def slow_paint(stroke, seeds):
    """Every pixel against every part of the line, one by one."""
    reach = max(stroke.radius, math.sqrt(0.5))
    points = [tuple(p) for p in stroke.points]
    parts = list(itertools.pairwise(points)) or [(points[0], points[0])]
    for i in range(seeds.shape[0]):
        for j in range(seeds.shape[1]):
            for (ax, ay), (bx, by) in parts:
                x, y, dx, dy = j + 0.5 - ax, i + 0.5 - ay, bx - ax, by - ay
                length = dx * dx + dy * dy
                t = min(1, max(0, (x * dx + y * dy) / length)) if length else 0
                if (x - t * dx) ** 2 + (y - t * dy) ** 2 <= reach * reach:
                    seeds[i, j] = stroke.label


@pytest.mark.parametrize("seed", range(12))
def test_paint_is_what_its_slow_twin_says(seed):
    rng = np.random.default_rng(seed)
    # Halves and quarters: distances that are exact, so that no rounding decides.
    points = rng.integers(-40, 200, (rng.integers(1, 5), 2)) / 4
    stroke = Stroke(int(rng.integers(-1, 3)), float(rng.integers(1, 20)) / 4 + 0.1, points)
    fast, slow = np.full((2, *SHAPE), 5, np.int16)
    stroke.paint(fast)
    slow_paint(stroke, slow)
    np.testing.assert_array_equal(fast, slow)


def test_smallest_brush_marks_the_pixel_it_is_in():
    seeds = np.full(SHAPE, -1, np.int16)
    Stroke(1, 0.01, np.array([[7.9, 3.1]])).paint(seeds)
    assert seeds[3, 7] == 1
    assert (seeds == 1).sum() <= 3


@pytest.mark.parametrize("seed", range(5))
def test_kept_seeds_are_those_painted_anew(seed):
    rng = np.random.default_rng(seed)
    marks = Marks(SHAPE)
    for _ in range(40):
        what = rng.integers(5)
        if what == 0:
            marks.move(-1)
        elif what == 1:
            marks.move(1)
        elif what == 2 and rng.random() < 0.2:
            marks.clear()
        else:
            marks.add([Stroke(int(rng.integers(-1, 3)), 3.0, rng.uniform(0, 30, (3, 2)))])
        if rng.random() < 0.5:  # not asked for after every step
            continue
        fresh = Marks(SHAPE, list(marks.marks), marks.position)
        np.testing.assert_array_equal(marks.seeds(), fresh.seeds())
    assert marks.marks


def test_undo_redo_clear_and_the_last_box():
    marks = Marks(SHAPE)
    marks.add([Box((1, 2, 3, 4))])
    marks.add([Box((5, 6, 7, 8)), Stroke(1, 1.0, np.array([[3.0, 3.0]]))])
    assert marks.box == (5, 6, 7, 8)
    marks.move(-1)
    assert (marks.seeds() == -1).all()
    marks.move(-1)
    assert marks.box == (1, 2, 3, 4)
    marks.move(1)
    assert marks.box == (5, 6, 7, 8)
    marks.clear()
    assert marks.box is None
    marks.move(-1)
    assert marks.position == 0
    marks.move(1)
    marks.add([Box(None)])
    assert marks.box is None
    assert len(marks.marks) == 2


def test_json_brings_marks_back():
    marks = Marks(SHAPE)
    marks.add([Box((0, 0, 30, 40)), Stroke(2, 1.5, np.array([[1.25, 2.0], [3.0, 4.5]])), Box(None)])
    text = json.loads(json.dumps(marks.to_json()))
    back = marks_of(text["marks"], SHAPE, 3)
    assert [one.to_json() for one in back] == text["marks"]


LINE = {"kind": "stroke", "label": 1, "radius": 2, "points": [1, 1, 2, 2]}


@pytest.mark.parametrize(
    "wrong",
    [
        None, {}, [None], [[]], ["stroke"], [{}], [{"kind": "line"}], [{"kind": "box", "box": 3}],
        [{"kind": "box", "box": [1, 2, 3]}], [{"kind": "box", "box": [0, 0, 31, 40]}],
        [{"kind": "box", "box": [5, 5, 5, 9]}], [{"kind": "box", "box": [-1, 0, 5, 5]}],
        [{"kind": "box", "box": [0.5, 0, 5, 5]}], [{"kind": "box", "box": [True, 0, 5, 5]}],
        [{**LINE, "label": 2}], [{**LINE, "label": -2}], [{**LINE, "label": "1"}],
        [{**LINE, "label": True}], [{**LINE, "radius": 0}], [{**LINE, "radius": 1e9}],
        [{**LINE, "radius": math.nan}], [{**LINE, "radius": "2"}], [{**LINE, "radius": 10**400}],
        [{**LINE, "points": []}], [{**LINE, "points": [1]}], [{**LINE, "points": [1, 2, 3]}],
        [{**LINE, "points": [1, math.inf]}], [{**LINE, "points": [1, math.nan]}],
        [{**LINE, "points": [1, 10**400]}], [{**LINE, "points": [1, None]}],
        [{**LINE, "points": {"0": 1}}], [{**LINE, "points": [1.0] * 8002}],
        [{**LINE, "radius": 500, "points": [0, 0, 40, 30] * 400}], [LINE] * 2001,
    ],
)  # fmt: skip
def test_wrong_marks_are_refused(wrong):
    with pytest.raises(InputError):
        marks_of(wrong, SHAPE, 2)


def test_too_many_marks_are_refused_and_nothing_changes():
    marks = Marks(SHAPE)
    marks.add([Box(None)] * 2000)
    with pytest.raises(InputError, match="2001"):
        marks.add([Box(None)])
    assert marks.position == 2000


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"3", b"\xff", b"[" * 100_000, b'{"a":' * 9999])
def test_what_is_no_object_is_refused(data):
    with pytest.raises(InputError, match="JSON"):
        parse(data)


DRAWN_SHAPE = (10, 12)


def boxed(*corners):
    return Marks(DRAWN_SHAPE, [Box(corners)], 1)


def test_two_tabs_do_not_mix_and_a_new_one_begins_with_the_newest(tmp_path):
    drafts = Drafts(tmp_path / "drafts")
    assert drafts.read("a", TAB, DRAWN_SHAPE, 2).marks == []
    drafts.write("a", TAB, boxed(0, 0, 5, 5))
    drafts.write("a", OTHER, boxed(1, 1, 6, 6))
    for age, path in enumerate(sorted((tmp_path / "drafts").iterdir())):
        os.utime(path, (1000 + age, 1000 + age))  # that of OTHER is newer
    assert drafts.read("a", TAB, DRAWN_SHAPE, 2).box == (0, 0, 5, 5)
    assert drafts.read("a", OTHER, DRAWN_SHAPE, 2).box == (1, 1, 6, 6)
    assert drafts.read("a", "c" * 32, DRAWN_SHAPE, 2).box == (1, 1, 6, 6)
    assert drafts.read("b", TAB, DRAWN_SHAPE, 2).marks == []
    assert drafts.begun(["a", "b"]) == {"a"}


def test_undone_marks_are_kept_too(tmp_path):
    drafts = Drafts(tmp_path)
    drafts.write("a", TAB, Marks(DRAWN_SHAPE, [Box((0, 0, 5, 5)), Box(None)], 1))
    back = drafts.read("a", TAB, DRAWN_SHAPE, 2)
    assert (back.position, len(back.marks)) == (1, 2)


@pytest.mark.parametrize("damage", [b"", b"{}", b"\x00\xff", b'{"marks": [], "position": 3}'])
def test_damaged_draft_is_none(tmp_path, damage):
    drafts = Drafts(tmp_path)
    drafts.write("a", TAB, boxed(0, 0, 5, 5))
    next(tmp_path.iterdir()).write_bytes(damage)
    assert drafts.read("a", TAB, DRAWN_SHAPE, 2).marks == []


def test_draft_of_another_size_is_none(tmp_path):
    drafts = Drafts(tmp_path)
    drafts.write("a", TAB, boxed(0, 0, 5, 5))
    assert drafts.read("a", TAB, (11, 12), 2).marks == []


def test_names_of_any_kind_stay_in_the_folder(tmp_path):
    drafts = Drafts(tmp_path / "d")
    for name in ("../../x", "a/b", "x" * 5000, "\udcff", "ü\n"):
        drafts.write(name, TAB, boxed(0, 0, 5, 5))
        assert drafts.read(name, TAB, DRAWN_SHAPE, 2).box == (0, 0, 5, 5)
    assert {path.name for path in tmp_path.iterdir()} == {"d"}


@pytest.mark.parametrize("tab", ["", "../x", "A" * 32, "a" * 31, "a" * 33, "a" * 32 + "\n"])
def test_other_keys_of_tabs_write_nothing(tmp_path, tab):
    with pytest.raises(InputError, match="tab"):
        Drafts(tmp_path).write("a", tab, boxed(0, 0, 5, 5))
    assert not list(tmp_path.iterdir())


def test_files_of_an_image_are_bounded(tmp_path):
    drafts = Drafts(tmp_path)
    for k in range(KEPT_FILES + 3):
        drafts.write("a", f"{k:032x}", boxed(0, 0, 5, 5))
    assert len(list(tmp_path.iterdir())) == KEPT_FILES
