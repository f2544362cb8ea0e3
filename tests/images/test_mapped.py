"""Large files that stay on disk."""

import numpy as np
import pytest
import tifffile

import cutlearn as cl
from cutlearn.images import decode, read_folder

PIXELS = np.random.default_rng(0).integers(0, 256, (30, 40), np.uint8)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Every file is large, and none may be read at once."""
    monkeypatch.setattr(decode, "MAPPED", 0)


@pytest.mark.parametrize(("ending", "write"), [(".npy", np.save), (".tif", tifffile.imwrite)])
def test_large_images_are_read_past_the_limits(tmp_path, ending, write):
    write(tmp_path / f"a{ending}", PIXELS)
    folder = read_folder(tmp_path, max_bytes=100, max_pixels=100)
    assert (folder.image(0) == PIXELS / np.float32(255)).all()


@pytest.mark.parametrize(("ending", "write"), [(".npy", np.save), (".tif", tifffile.imwrite)])
def test_large_volumes_too(tmp_path, ending, write):
    voxels = PIXELS.reshape(6, 5, 40)
    write(tmp_path / f"a{ending}", voxels)
    folder = read_folder(tmp_path, volume=True, max_bytes=100, max_pixels=100)
    assert (folder.image(0).image == voxels / np.float32(255)).all()


def test_compressed_files_keep_their_limits(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", PIXELS, compression="zlib")
    with pytest.raises(cl.InputError, match="at most 100"):
        read_folder(tmp_path, max_pixels=100)


def test_a_file_that_lies_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", PIXELS)
    (tmp_path / "a.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:-50])
    with pytest.raises(cl.InputError, match="could not be decoded"):
        read_folder(tmp_path)
