"""Marks on the disk: each tab its own, the newest for a new one, nothing from damaged files."""

import os

import pytest

from cutlearn.app.web.drafts import KEPT, Drafts
from cutlearn.app.web.marks import Box, Marks
from cutlearn.errors import InputError
from served import OTHER, TAB

SHAPE = (10, 12)


def boxed(*corners):
    return Marks(SHAPE, [Box(corners)], 1)


def test_two_tabs_do_not_mix_and_a_new_one_begins_with_the_newest(tmp_path):
    drafts = Drafts(tmp_path / "drafts")
    assert drafts.read("a", TAB, SHAPE, 2).marks == []
    drafts.write("a", TAB, boxed(0, 0, 5, 5))
    drafts.write("a", OTHER, boxed(1, 1, 6, 6))
    for age, path in enumerate(sorted((tmp_path / "drafts").iterdir())):
        os.utime(path, (1000 + age, 1000 + age))  # that of OTHER is newer
    assert drafts.read("a", TAB, SHAPE, 2).box == (0, 0, 5, 5)
    assert drafts.read("a", OTHER, SHAPE, 2).box == (1, 1, 6, 6)
    assert drafts.read("a", "c" * 32, SHAPE, 2).box == (1, 1, 6, 6)
    assert drafts.read("b", TAB, SHAPE, 2).marks == []
    assert drafts.begun(["a", "b"]) == {"a"}


def test_undone_marks_are_kept_too(tmp_path):
    drafts = Drafts(tmp_path)
    drafts.write("a", TAB, Marks(SHAPE, [Box((0, 0, 5, 5)), Box(None)], 1))
    back = drafts.read("a", TAB, SHAPE, 2)
    assert (back.position, len(back.marks)) == (1, 2)


@pytest.mark.parametrize("damage", [b"", b"{}", b"\x00\xff", b'{"marks": [], "position": 3}'])
def test_damaged_draft_is_none(tmp_path, damage):
    drafts = Drafts(tmp_path)
    drafts.write("a", TAB, boxed(0, 0, 5, 5))
    next(tmp_path.iterdir()).write_bytes(damage)
    assert drafts.read("a", TAB, SHAPE, 2).marks == []


def test_draft_of_another_size_is_none(tmp_path):
    drafts = Drafts(tmp_path)
    drafts.write("a", TAB, boxed(0, 0, 5, 5))
    assert drafts.read("a", TAB, (11, 12), 2).marks == []


def test_names_of_any_kind_stay_in_the_folder(tmp_path):
    drafts = Drafts(tmp_path / "d")
    for name in ("../../x", "a/b", "x" * 5000, "\udcff", "ü\n"):
        drafts.write(name, TAB, boxed(0, 0, 5, 5))
        assert drafts.read(name, TAB, SHAPE, 2).box == (0, 0, 5, 5)
    assert {path.name for path in tmp_path.iterdir()} == {"d"}


@pytest.mark.parametrize("tab", ["", "../x", "A" * 32, "a" * 31, "a" * 33, "a" * 32 + "\n"])
def test_other_keys_of_tabs_write_nothing(tmp_path, tab):
    with pytest.raises(InputError, match="tab"):
        Drafts(tmp_path).write("a", tab, boxed(0, 0, 5, 5))
    assert not list(tmp_path.iterdir())


def test_files_of_an_image_are_bounded(tmp_path):
    drafts = Drafts(tmp_path)
    for k in range(KEPT + 3):
        drafts.write("a", f"{k:032x}", boxed(0, 0, 5, 5))
    assert len(list(tmp_path.iterdir())) == KEPT
