"""Bad images: each is refused with one sentence that tells where, what, and what to do."""

import io
import os
import re
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import tifffile
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from cutlearn.errors import InputError
from cutlearn.images import as_image, read_folder, read_image, read_values, write_mask

# where: found; wanted. What to do.
SENTENCE = re.compile(r"^[^:]+: [^\n]+(, but|\. It must) [^\n]+\. [A-Z][^\n]+\.$")
NOISE = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)


def saved(array, kind="PNG", **options):
    file = io.BytesIO()
    Image.fromarray(array).save(file, kind, **options)
    return file.getvalue()


def tiff(array, **options):
    file = io.BytesIO()
    tifffile.imwrite(file, array, **options)
    return file.getvalue()


WHOLE = {
    "png": saved(NOISE),
    "jpeg": saved(NOISE, "JPEG"),
    "tiff": saved(NOISE, "TIFF"),
    "tiff lzw": saved(NOISE, "TIFF", compression="tiff_lzw"),
    "tiff 16 bit": tiff(NOISE.astype(np.uint16), photometric="rgb"),
    "tiff 16 bit deflate": tiff(NOISE[..., 0].astype(np.uint16), compression="zlib"),
}


def refused(data, match, read=read_image, **options):
    with pytest.raises(InputError, match=match) as caught:
        read(data, "a.png", **options)
    assert SENTENCE.match(str(caught.value)), str(caught.value)


@pytest.mark.parametrize("data", WHOLE.values(), ids=WHOLE.keys())
@pytest.mark.parametrize("part", [0.0, 0.02, 0.3, 0.6, 0.9])
def test_truncated_files(data, part):
    refused(data[: int(part * len(data))], "a.png: ")


@pytest.mark.parametrize("data", [b"", b"GIF89a" + b"\0" * 99, b"\0" * 1000, b"%PDF-1.4", b"II*\0"])
def test_foreign_content(data):
    refused(data, "PNG, JPEG or TIFF")
    refused(data, "PNG, JPEG or TIFF", read_values)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(WHOLE)), st.data())
def test_flipped_bytes_give_an_image_or_one_sentence(kind, data):
    damaged = bytearray(WHOLE[kind])
    for _ in range(data.draw(st.integers(1, 4))):
        where = data.draw(st.integers(0, min(len(damaged), 400) - 1))
        damaged[where] = data.draw(st.integers(0, 255))
    for read in (read_image, read_values):
        said = ""
        try:
            # A limit, because a flipped byte may well promise a million rows.
            assert read(bytes(damaged), "a.png", max_pixels=100_000).size
        except InputError as error:
            said = str(error)
        assert not said or SENTENCE.match(said), said


def bomb(height, width):
    def chunk(kind, body):
        check = struct.pack(">I", zlib.crc32(kind + body))
        return struct.pack(">I", len(body)) + kind + body + check

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 99))


@pytest.mark.parametrize("size", [(9_000, 9_000), (10_000, 10_000), (60_000, 60_000)])
def test_files_that_promise_too_many_pixels(size):
    refused(bomb(*size), "at most 64000000 pixels")


@pytest.mark.parametrize("data", WHOLE.values(), ids=WHOLE.keys())
def test_limits_hold_for_every_format(data, tmp_path):
    refused(data, r"30 x 20 pixels .width x height., but at most 599 pixels", max_pixels=599)
    assert read_image(data, max_pixels=600).shape[:2] == (20, 30)
    refused(data, "bytes, but at most 100", max_bytes=100)
    (tmp_path / "a.png").write_bytes(data)
    refused(tmp_path / "a.png", "bytes, but at most 100", max_bytes=100)


def test_several_pages(tmp_path):
    pages = np.zeros((3, 9, 9), np.uint8)
    refused(tiff(pages, photometric="minisblack"), "3 pages, but must have one")
    refused(tiff(pages.astype(np.uint16), photometric="minisblack"), "3 pages, but must have one")
    planes = tiff(pages.astype(np.uint16), photometric="minisblack", planarconfig="separate")
    refused(planes, "3 channels, axes SYX")


def test_tiffs_of_other_worlds():
    refused(tiff(np.zeros((4, 4), np.uint32)), "type uint32, but")
    refused(tiff(np.full((4, 4), 7.5, np.float32)), "floats run from 7.5 to 7.5, but")
    refused(tiff(np.full((4, 4), np.nan, np.float32)), "NaN")
    bands = np.zeros((4, 4, 7), np.uint16)
    refused(tiff(bands, photometric="minisblack", planarconfig="contig"), "7 channels")


@pytest.mark.parametrize("path", ["nothing.png", "."])
def test_no_file(tmp_path, path):
    with pytest.raises(InputError, match="no such file"):
        read_image(tmp_path / path)


def test_no_permission(tmp_path, monkeypatch):
    (tmp_path / "a.png").write_bytes(WHOLE["png"])

    def denied(_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", denied)
    refused(tmp_path / "a.png", r"could not be read \(Permission denied\)")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((0, 0), np.uint8), r"shape \(0, 0\)"),
        (np.zeros((0, 5, 3), np.uint8), r"shape \(0, 5, 3\)"),
        (np.zeros(5, np.uint8), r"shape \(5,\)"),
        (np.zeros((3, 5, 5), np.uint8), "channels last"),
        (np.zeros((5, 5, 2), np.uint8), "shape"),
        (np.zeros((5, 5), np.int64), "type int64"),
        (np.zeros((5, 5), complex), "type complex128"),
        (np.array([[None]]), "type object"),
        (np.full((5, 5), np.nan), "NaN"),
        (np.full((5, 5), np.inf), "infinite"),
        (np.full((5, 5), 255.0), r"must lie in \[0, 1\]"),
        (np.full((5, 5), -0.1), r"must lie in \[0, 1\]"),
    ],
)
def test_arrays_that_are_no_images(array, message):
    refused(array, message, as_image)


def test_the_smallest_and_the_flattest_images_are_images():
    assert as_image(np.zeros((1, 1), np.uint8)).shape == (1, 1)
    assert read_image(saved(np.full((1, 1), 255, np.uint8))).tolist() == [[1]]
    assert np.ptp(read_image(saved(np.full((9, 9, 3), 77, np.uint8)))) == 0


def world(root):
    for kind in ("images", "masks"):
        (root / kind).mkdir()
    for name in "abcdefgh":
        (root / "images" / f"{name}.png").write_bytes(WHOLE["png"])
        write_mask(root / "masks" / f"{name}.png", NOISE[..., 0] % 2)
    return root / "images", root / "masks"


def test_every_problem_of_a_folder_is_told_at_once(tmp_path):
    images, masks = world(tmp_path)
    (masks / "a.png").unlink()
    (images / "b.png").unlink()
    write_mask(masks / "c.png", np.zeros((30, 20), int))
    (images / "d.png").write_bytes(WHOLE["png"][:200])
    (masks / "e.png").write_bytes(b"")
    (images / "f.jpg").write_bytes(WHOLE["jpeg"])
    write_mask(masks / "g.png", NOISE[..., 0])
    (masks / "h.png").unlink()
    (masks / "h.jpg").write_bytes(WHOLE["jpeg"])
    with pytest.raises(InputError, match=r"f\.jpg and f\.png have one name"):
        read_folder(images, masks)
    (images / "f.jpg").unlink()
    with pytest.raises(InputError) as caught:
        read_folder(images, masks)
    first, *lines = str(caught.value).split("\n  ")
    assert first.endswith("images: 3 problems found.")
    wanted = {
        r"masks/c\.png: the mask has 20 x 30 pixels .*, but its image has 30 x 20",
        r"masks: the masks hold the values 0, 1, .*grey levels",
        r"masks/h\.jpg: a JPEG changes the values",
    }
    assert len(lines) == len(wanted)
    for pattern in wanted:
        assert sum(bool(re.search(pattern, line)) for line in lines) == 1, pattern


def test_what_cannot_be_used_alone_is_left_out_and_told(tmp_path):
    images, masks = world(tmp_path)
    (masks / "a.png").unlink()
    (images / "b.png").unlink()
    (images / "d.png").write_bytes(WHOLE["png"][:200])
    (masks / "e.png").write_bytes(b"")
    found = read_folder(images, masks)
    assert found.names == tuple("cfgh")
    bare, stray, unread = found.notes
    assert bare == "1 image of 7 without a mask left out: a"
    assert stray == "1 mask without an image left out: b"
    assert unread.startswith("2 files of 6 that cannot be read left out: ")
    assert "d.png: it could not be decoded" in unread
    assert "e.png: this is not an image" in unread
    with pytest.raises(InputError, match="without a mask left out"):
        read_folder(images, masks, strict=True)


def test_missing_and_empty_folders(tmp_path):
    images, masks = world(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="nowhere: there is no such folder"):
        read_folder(tmp_path / "nowhere")
    with pytest.raises(InputError, match="empty: no image file in this folder"):
        read_folder(tmp_path / "empty")
    with pytest.raises(InputError, match=r"no\.png: there is no such folder or file"):
        read_folder(images / "no.png", masks)
    with pytest.raises(InputError, match="nowhere: there is no such folder"):
        read_folder(images, tmp_path / "nowhere")


def test_limits_reach_the_files_of_a_folder(tmp_path):
    images, masks = world(tmp_path)
    with pytest.raises(InputError, match="no file of it can be used") as caught:
        read_folder(images, masks, max_pixels=100)
    assert str(caught.value).count("at most 100 pixels") == 3
    assert "8 files of 8" in str(caught.value)


def test_a_mask_whose_disk_is_full_leaves_the_old_one(tmp_path, monkeypatch):
    write_mask(tmp_path / "a.png", [[0, 1]])

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_mask(tmp_path / "a.png", [[1, 1]])
    assert read_values(tmp_path / "a.png").tolist() == [[0, 1]]
    assert [p.name for p in tmp_path.iterdir()] == ["a.png"]
