"""Images by number, dropped images, masks on the disk."""

import io
import json

import numpy as np
import pytest
from PIL import Image

from cutlearn.app.web.security import PageLimits
from cutlearn.app.web.workspace import Workspace
from cutlearn.errors import InputError
from cutlearn.images import read_values
from hostile_images import bombs
from served import blob, make_images


@pytest.fixture
def workspace(tmp_path):
    make_images(tmp_path / "images")
    return Workspace(tmp_path / "images", tmp_path / "masks")


def png(array):
    file = io.BytesIO()
    Image.fromarray(array).save(file, "PNG")
    return file.getvalue()


def test_mask_is_written_beside_the_images_and_found_again(workspace, tmp_path):
    labels = blob(0)[1]
    assert workspace.accept(1, labels) == tmp_path / "masks" / "blob-1.png"
    assert workspace.done == [1]
    again = Workspace(workspace.images, workspace.masks)
    assert again.done == [1]
    np.testing.assert_array_equal(again.mask(1), labels)
    np.testing.assert_array_equal(read_values(tmp_path / "masks" / "blob-1.png"), labels)
    assert sorted(p.name for p in (tmp_path / "masks").iterdir()) == ["blob-1.png"]


def test_first_version_is_kept_once(workspace, tmp_path):
    zero, one = np.zeros((48, 64), np.uint8), np.ones((48, 64), np.uint8)
    workspace.accept(0, zero)
    workspace.accept(0, blob(0)[1])
    workspace.accept(0, one)
    first = tmp_path / ".masks.cutlearn" / "first" / "blob-0.png"
    np.testing.assert_array_equal(read_values(first), zero)
    np.testing.assert_array_equal(workspace.mask(0), one)


def test_masks_of_0_and_255_stay_so(tmp_path):
    make_images(tmp_path / "images")
    (tmp_path / "masks").mkdir()
    Image.fromarray(255 * blob(0)[1]).save(tmp_path / "masks" / "blob-0.png")
    workspace = Workspace(tmp_path / "images", tmp_path / "masks")
    np.testing.assert_array_equal(workspace.mask(0), blob(0)[1])
    workspace.accept(1, blob(1)[1])
    assert np.unique(read_values(tmp_path / "masks" / "blob-1.png")).tolist() == [0, 255]
    with pytest.raises(InputError, match="third label"):
        workspace.set_labels(3)


def test_masks_that_number_objects_are_not_mixed_with_ours(tmp_path):
    make_images(tmp_path / "images")
    (tmp_path / "masks").mkdir()
    colors = np.zeros((48, 64, 3), np.uint8)
    colors[:20] = 200, 30, 30
    Image.fromarray(colors).save(tmp_path / "masks" / "blob-0.png")
    with pytest.raises(InputError, match="--masks"):
        Workspace(tmp_path / "images", tmp_path / "masks")


def test_one_folder_for_both_is_refused(tmp_path):
    make_images(tmp_path / "images")
    with pytest.raises(InputError, match="--masks"):
        Workspace(tmp_path / "images", tmp_path / "images" / ".." / "images")


def test_labels_are_remembered(workspace):
    workspace.set_labels(4)
    assert workspace.values == (0, 1, 2, 3)
    again = Workspace(workspace.images, workspace.masks)
    assert (again.n_labels, again.values) == (4, (0, 1, 2, 3))


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"n_labels": 99}', b'{"n_labels": "3"}'])
def test_damaged_settings_are_forgotten(workspace, damage):
    workspace.set_labels(3)
    (workspace.hidden / "settings.json").write_bytes(damage)
    assert Workspace(workspace.images, workspace.masks).n_labels == 2


@pytest.mark.parametrize("n", [1, 11, "3", None, True, 2.0])
def test_other_numbers_of_labels_are_refused(workspace, n):
    with pytest.raises(InputError, match="labels"):
        workspace.set_labels(n)


@pytest.mark.parametrize("number", [-1, 3, 10**30, True, "0", 0.0, None])
def test_only_numbers_of_images_open_files(workspace, number):
    with pytest.raises(InputError, match="image"):
        workspace.image(number)


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("cell.png", "cell.png"), ("../../etc/passwd.png", "passwd.png"), ("a/b/c.PNG", "c.png"),
        ("..\\..\\win.png", "win.png"), ("..png", "image.png"), ("\x00\x1b[31m.png", "_31m.png"),
        (".hidden.png", "hidden.png"), ("ü ö.png", "ü ö.png"), ("<img src=x>.png", None),
        ("x" * 500 + ".png", "x" * 80 + ".png"), ("blob-0.png", "blob-0 1.png"),
        ("BLOB-0.png", "BLOB-0 1.png"),
    ],
)  # fmt: skip
def test_dropped_image_gets_a_harmless_name(workspace, name, kept):
    before = {p.name for p in workspace.images.iterdir()}
    number = workspace.add(name, png(blob(7)[0]))
    new = {p.name for p in workspace.images.iterdir()} - before
    assert len(new) == 1
    assert kept is None or new == {kept}
    assert not set("/\\<>\x00\x1b") & set(new.pop())
    np.testing.assert_array_equal(np.round(255 * workspace.image(number)), blob(7)[0])
    assert workspace.names.index(workspace.names[number]) == number


@pytest.mark.parametrize("name", ["a.exe", "a", "", "a.png.html", "a.svg"])
def test_dropped_file_must_be_called_an_image(workspace, name):
    with pytest.raises(InputError, match="end in"):
        workspace.add(name, png(blob(7)[0]))


@pytest.mark.parametrize("data", [b"", b"GIF89a", b"<svg/>", b"\x89PNG\r\n\x1a\n" + b"\0" * 40])
def test_dropped_file_must_be_an_image(workspace, data):
    with pytest.raises(InputError):
        workspace.add("a.png", data)
    assert len(workspace.names) == 3
    assert len(list(workspace.images.iterdir())) == 3


def test_decompression_bombs_are_refused_or_stay_small(workspace):
    for name, data in bombs(20 * 2**20).items():
        try:
            number = workspace.add(f"{name}.png", data)
        except InputError:
            continue
        assert workspace.image(number).shape == (8, 8), name  # read no further than its header says
    assert len(workspace.names) <= 5


def test_pixels_and_images_are_bounded(tmp_path):
    make_images(tmp_path / "images")
    limits = PageLimits(pixels=48 * 64, images=4)
    workspace = Workspace(tmp_path / "images", tmp_path / "masks", limits)
    with pytest.raises(InputError, match="pixels"):
        workspace.add("a.png", png(blob(0, (48, 65))[0]))
    workspace.add("a.png", png(blob(0)[0]))
    with pytest.raises(InputError, match="all"):
        workspace.add("b.png", png(blob(0)[0]))


def test_no_folder_is_made_before_something_is_kept(tmp_path):
    workspace = Workspace(tmp_path / "w" / "images", tmp_path / "w" / "masks")
    assert workspace.names == []
    assert not (tmp_path / "w").exists()
    workspace.add("a.png", png(blob(0)[0]))
    assert (tmp_path / "w" / "images" / "a.png").is_file()


def test_mask_in_another_format_is_replaced_by_a_png_and_kept(tmp_path):
    make_images(tmp_path / "images", 1)
    (tmp_path / "masks").mkdir()
    Image.fromarray(blob(0)[1]).save(tmp_path / "masks" / "blob-0.tif")
    workspace = Workspace(tmp_path / "images", tmp_path / "masks")
    workspace.accept(0, 1 - blob(0)[1])
    assert [p.name for p in (tmp_path / "masks").iterdir()] == ["blob-0.png"]
    kept = tmp_path / ".masks.cutlearn" / "first" / "blob-0.tif"
    np.testing.assert_array_equal(read_values(kept), blob(0)[1])
    assert json.dumps(workspace.done) == "[0]"
