"""Files of volumes: read and written again, and refused where they are none."""

import sys

import numpy as np
import pytest
import tifffile
from PIL import Image

import cutlearn as cl
from cutlearn.images import read_folder
from cutlearn.images.write import write_voxels

VOXELS = np.random.default_rng(0).integers(0, 256, (6, 5, 7), np.uint8)


def pair(folder, write, ending, masks=None):
    """Folders of one volume and its mask."""
    for kind, voxels in (("images", VOXELS), ("masks", VOXELS > 127 if masks is None else masks)):
        (folder / kind).mkdir()
        write(folder / kind / f"a{ending}", voxels.astype(np.uint8))
    return folder / "images", folder / "masks"


def read(folder, write, ending, **settings):
    return read_folder(*pair(folder, write, ending), volume=True, **settings)


def by_pillow(path, voxels):
    first, *rest = (Image.fromarray(page) for page in voxels)
    first.save(path, save_all=True, append_images=rest, compression="tiff_lzw")


WRITERS = {
    "plain": (tifffile.imwrite, ".tif"),
    "lzw": (by_pillow, ".tif"),
    "ome": (
        lambda path, voxels: tifffile.imwrite(path, voxels, ome=True, metadata={"axes": "ZYX"}),
        ".ome.tif",
    ),
    "numpy": (np.save, ".npy"),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_a_file_of_slices_is_one_volume(tmp_path, kind):
    folder = read(tmp_path, *WRITERS[kind])
    assert len(folder) == 1
    assert (folder.image(0).image == VOXELS / np.float32(255)).all()
    assert (folder.labels(0) == (VOXELS > 127)).all()
    assert folder.facts[0].depth == 6


def test_without_volume_the_pages_are_images(tmp_path):
    assert len(read_folder(*pair(tmp_path, tifffile.imwrite, ".tif"))) == 6


ONE_PAGE = {
    "shaped": {"truncate": True},
    "imagej": {"imagej": True, "truncate": True, "metadata": {"axes": "ZYX"}},
    "volumetric": {"volumetric": True, "tile": (16, 16, 16), "compression": "zlib"},
}


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("kind", ONE_PAGE)
def test_slices_in_one_page_of_a_tiff_are_slices(tmp_path, kind, dtype):
    def write(path, voxels):
        tifffile.imwrite(path, voxels.astype(dtype), photometric="minisblack", **ONE_PAGE[kind])

    top = np.float32(np.iinfo(dtype).max)
    folder = read(tmp_path, write, ".tif")
    assert (folder.image(0).image == VOXELS / top).all()
    assert (folder.labels(0) == (VOXELS > 127)).all()
    pages = read_folder(tmp_path / "images", tmp_path / "masks")
    assert len(pages) == 6
    for k, (image, labels) in enumerate(pages):
        assert (image == VOXELS[k] / top).all()
        assert (labels == (VOXELS[k] > 127)).all()
    with pytest.raises(cl.InputError, match="has 6 pages, but must have one"):
        cl.images.read_image(tmp_path / "images" / "a.tif")
    with pytest.raises(cl.InputError, match="has 6 pages, but must have one"):
        cl.images.read_values(tmp_path / "masks" / "a.tif")


def test_channels_in_one_page_of_a_tiff_are_refused(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", VOXELS[:3], imagej=True, truncate=True,
                     metadata={"axes": "CYX"})  # fmt: skip
    with pytest.raises(cl.InputError, match="3 channels, axes CYX"):
        read_folder(tmp_path)


@pytest.mark.parametrize("cut", [1, 500])
def test_slices_that_are_promised_but_not_there_are_refused(tmp_path, cut):
    tifffile.imwrite(tmp_path / "a.tif", VOXELS.repeat(9, 1), truncate=True)
    data = (tmp_path / "a.tif").read_bytes()
    (tmp_path / "a.tif").write_bytes(data[:-cut])
    with pytest.raises(cl.InputError, match=r"could not be decoded|no file of it"):
        read_folder(tmp_path)


def test_the_file_tells_how_far_apart_slices_are(tmp_path):
    def imagej(path, voxels):
        tifffile.imwrite(path, voxels, imagej=True, resolution=(1 / 5, 1 / 5),
                         metadata={"spacing": 50, "axes": "ZYX"})  # fmt: skip

    def ome(path, voxels):
        sizes = {"PhysicalSizeX": 5, "PhysicalSizeY": 5, "PhysicalSizeZ": 50, "axes": "ZYX"}
        tifffile.imwrite(path, voxels, ome=True, metadata=sizes)

    for name, write, ending in (("i", imagej, ".tif"), ("o", ome, ".ome.tif")):
        (tmp_path / name).mkdir()
        assert read(tmp_path / name, write, ending).image(0).spacing == (50, 5, 5)
    (tmp_path / "s").mkdir()
    told = read(tmp_path / "s", tifffile.imwrite, ".tif", spacing=(9, 2, 1))
    assert told.image(0).spacing == (9, 2, 1)


def test_tiff_comes_back_as_it_was_written(tmp_path):
    write_voxels(tmp_path / "a.tif", VOXELS, tmp_path / "b.tif")
    assert (tifffile.imread(tmp_path / "a.tif") == VOXELS).all()


def test_nifti_keeps_its_header(tmp_path):
    nibabel = pytest.importorskip("nibabel")

    def nifti(path, voxels):
        image = nibabel.Nifti1Image(voxels.transpose(2, 1, 0), np.diag([2, 2, 9, 1]))
        nibabel.save(image, path)

    folder = read(tmp_path, nifti, ".nii.gz")
    assert folder.names == ("a.nii",)
    assert folder.image(0).spacing == (9, 2, 2)
    assert (folder.image(0).image == VOXELS / np.float32(255)).all()
    assert (folder.labels(0) == (VOXELS > 127)).all()
    write_voxels(tmp_path / "c.nii.gz", VOXELS, folder.images[0])
    made = nibabel.load(tmp_path / "c.nii.gz")
    assert (made.affine == np.diag([2, 2, 9, 1])).all()
    assert (np.asarray(made.dataobj).transpose(2, 1, 0) == VOXELS).all()


def test_the_range_of_display_of_a_nifti_file_scales_it(tmp_path):
    nibabel = pytest.importorskip("nibabel")

    def scan(path, voxels):
        numbers = voxels if "masks" in str(path) else voxels.astype(np.int16) * 4 - 500
        image = nibabel.Nifti1Image(numbers.transpose(2, 1, 0), np.eye(4))
        if "masks" not in str(path) and "told" in str(path):
            image.header["cal_min"], image.header["cal_max"] = -500, 520
        nibabel.save(image, path)

    for name in ("told", "not"):
        (tmp_path / name).mkdir()
    found = read(tmp_path / "told", scan, ".nii").image(0).image
    assert np.abs(found - VOXELS / 255).max() < 1e-6
    with pytest.raises(cl.InputError, match="cal_min"):
        read(tmp_path / "not", scan, ".nii")


def test_without_nibabel_the_line_to_type_is_told(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "nibabel", None)
    (tmp_path / "a.nii").write_bytes(b"")
    with pytest.raises(cl.InputError, match=r"pip install cutlearn\[medical\]"):
        read_folder(tmp_path, volume=True)


def test_a_single_image_is_no_volume(tmp_path):
    Image.fromarray(VOXELS[0]).save(tmp_path / "a.png")
    with pytest.raises(cl.InputError, match="a file of several slices"):
        read_folder(tmp_path, volume=True)


def test_channels_are_no_slices(tmp_path):
    tifffile.imwrite(tmp_path / "a.ome.tif", np.zeros((2, 3, 5, 6), np.uint8), ome=True,
                     metadata={"axes": "ZCYX"})  # fmt: skip
    with pytest.raises(cl.InputError, match="axes ZCYX"):
        read_folder(tmp_path, volume=True)


def test_slices_of_two_sizes_are_refused(tmp_path):
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        file.write(VOXELS[0])
        file.write(VOXELS[0, :3])
    with pytest.raises(cl.InputError, match="of one size"):
        read_folder(tmp_path, volume=True)


def test_a_mask_of_other_slices_is_refused(tmp_path):
    images, masks = pair(tmp_path, tifffile.imwrite, ".tif", masks=VOXELS[:5] > 127)
    with pytest.raises(cl.InputError, match=r"5 slices of 7 x 5 pixels .* has 6 slices of 7 x 5"):
        read_folder(images, masks, volume=True)
