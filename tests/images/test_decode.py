"""TIFF files as Fiji and OME write them: channels, slices, times and samples, by their axes."""

import numpy as np
import pytest
import tifffile
from click.testing import CliRunner
from PIL import Image

from cutlearn.app.cli import main
from cutlearn.errors import InputError
from cutlearn.images import cells, read_folder, read_image, read_values

GREY = np.round(255 * cells(0, (40, 48)).image).astype(np.uint8)
MASK = cells(0, (40, 48)).labels
FORMATS = {"ImageJ": {"imagej": True}, "OME": {"ome": True}, "plain": {}}


def write(path, array, axes, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    options = {"photometric": "minisblack", "metadata": {"axes": axes}} | options
    tifffile.imwrite(path, array, **options)


def masks_of(root, *names):
    (root / "masks").mkdir(parents=True)
    for name in names:
        Image.fromarray(MASK).save(root / "masks" / f"{name}.png")
    return root / "masks"


@pytest.mark.parametrize("axes", ["CYX", "ZCYX", "TCYX"])
@pytest.mark.parametrize("program", FORMATS)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_channels_are_refused_and_all_their_files_named(tmp_path, axes, program, dtype):
    stack = np.broadcast_to(GREY.astype(dtype), (*(2 for _ in axes[:-2]), *GREY.shape))
    for name in ("a", "b", "c", "d", "e"):
        write(tmp_path / "images" / f"{name}.tif", stack, axes, **FORMATS[program])
    Image.fromarray(GREY).save(tmp_path / "images" / "g.png")
    masks = masks_of(tmp_path, *"abcdeg")
    for settings in ({"masks": masks}, {}, {"volume": True, "masks": masks}):
        with pytest.raises(InputError, match="2 channels") as refused:
            read_folder(tmp_path / "images", **settings)
        assert all(f"{name}.tif" in str(refused.value) for name in "abcde")
        assert "\n" not in str(refused.value)
        assert "g.png" not in str(refused.value)
    with pytest.raises(InputError, match=f"2 channels.*{axes}"):
        read_image(tmp_path / "images" / "a.tif")


def test_fit_refuses_channels_before_any_work(tmp_path):
    for name in "abc":
        write(tmp_path / "images" / f"{name}.tif", np.stack([GREY, GREY]), "CYX", imagej=True)
    Image.fromarray(GREY).save(tmp_path / "images" / "d.png")
    masks = masks_of(tmp_path, *"abcd")
    words = ["fit", tmp_path / "images", masks, "-o", tmp_path / "m", "--features", "linear"]
    done = CliRunner().invoke(main, list(map(str, words)))
    assert done.exit_code == 2, done.stderr
    assert "a.tif" in done.stderr
    assert "c.tif" in done.stderr
    assert "channels" in done.stderr
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("axes", ["ZYX", "TYX"])
@pytest.mark.parametrize("program", FORMATS)
def test_slices_and_times_stay_stacks(tmp_path, axes, program):
    stack = np.stack([GREY, GREY[::-1], GREY])
    for kind, array in (("images", stack), ("masks", np.stack([MASK, MASK[::-1], MASK]))):
        write(tmp_path / kind / "a.tif", array, axes, **FORMATS[program])
    found = read_folder(tmp_path / "images", tmp_path / "masks")
    assert len(found) == 3
    assert (found.labels(1) == MASK[::-1]).all()
    whole = read_folder(tmp_path / "images", tmp_path / "masks", volume=True)
    assert whole.image(0).shape == (3, *GREY.shape)


@pytest.mark.parametrize("program", FORMATS)
def test_one_channel_and_colours_are_images(tmp_path, program):
    write(tmp_path / "grey.tif", GREY[None], "CYX", **FORMATS[program])
    colors = np.stack([GREY, GREY[::-1], MASK], axis=-1)
    write(tmp_path / "rgb.tif", colors, "YXS", photometric="rgb", **FORMATS[program])
    assert read_image(tmp_path / "grey.tif").shape == GREY.shape
    assert read_image(tmp_path / "rgb.tif").shape == colors.shape
    assert len(read_folder(tmp_path)) == 2


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("planar", ["contig", "separate"])
def test_two_samples_are_channels(tmp_path, dtype, planar):
    pair = np.stack([GREY, GREY], axis=-1 if planar == "contig" else 0).astype(dtype)
    axes = "YXS" if planar == "contig" else "SYX"
    write(tmp_path / "a.tif", pair, axes, planarconfig=planar)
    for read in (read_image, read_values, lambda path: read_folder(path.parent)):
        with pytest.raises(InputError, match=f"2 channels.*{axes}"):
            read(tmp_path / "a.tif")


def test_a_second_sample_that_is_opacity_is_no_channel(tmp_path):
    pair = np.dstack([GREY, np.full_like(GREY, 255)])
    write(tmp_path / "a.tif", pair, "YXS", planarconfig="contig", extrasamples=["unassalpha"])
    assert (read_image(tmp_path / "a.tif") == GREY / np.float32(255)).all()


def test_a_stack_with_a_mask_of_one_page_is_refused_for_what_it_is(tmp_path):
    write(tmp_path / "images" / "a.tif", np.stack([GREY] * 3), "ZYX", imagej=True)
    masks = masks_of(tmp_path, "a")
    with pytest.raises(InputError, match=r"a\.png.*1 page.*3 slices"):
        read_folder(tmp_path / "images", masks)
    write(tmp_path / "masks" / "a.tif", np.stack([MASK] * 4), "ZYX", imagej=True)
    (masks / "a.png").unlink()
    with pytest.raises(InputError, match=r"a\.tif.*4 pages.*3 slices"):
        read_folder(tmp_path / "images", masks)


@pytest.mark.parametrize(
    ("image", "mask"),
    [
        ("a0.ome.tif", "a0.tif"), ("a0.tif", "a0.ome.tif"), ("a0.ome.tif", "a0.ome.tif"),
        ("a0.tif", "a0_mask.ome.tif"), ("a0.ome.tif", "a0_mask.tif"), ("a0.OME.TIFF", "a0.png"),
        ("a0.ome.tif", "a0_mask.ome.tif"),
    ],
)  # fmt: skip
def test_the_double_ending_of_ome_is_no_part_of_a_name(tmp_path, image, mask):
    for name, array, kind in ((image, GREY, "images"), (mask, MASK, "masks")):
        (tmp_path / kind).mkdir()
        if name.endswith("png"):
            Image.fromarray(array).save(tmp_path / kind / name)
        else:
            write(tmp_path / kind / name, array, "YX", ome="ome" in name.lower())
    found = read_folder(tmp_path / "images", tmp_path / "masks")
    assert found.names == ("a0",)
    assert found.masks == (tmp_path / "masks" / mask,)
    assert (found.labels(0) == MASK).all()
    assert read_folder(tmp_path / "images" / image).names == ("a0",)


INVERTED = {
    "ImageJ": {"imagej": True}, "plain": {}, "deflated": {"compression": "zlib"},
}  # fmt: skip


@pytest.mark.parametrize("program", INVERTED)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_masks_with_an_inverting_lookup_table_keep_their_stored_values(tmp_path, dtype, program):
    masks = tmp_path / "masks"
    values = MASK.astype(dtype) * 255
    write(masks / "a.tif", values, "YX", photometric="miniswhite", **INVERTED[program])
    write(tmp_path / "images" / "a.tif", GREY, "YX")
    assert (read_values(masks / "a.tif") == values).all()
    found = read_folder(tmp_path / "images", masks)
    assert (found.labels(0) == MASK).all()
    (note,) = (note for note in found.notes if "WhiteIsZero" in note)
    assert "a.tif" in note
    assert "stored" in note
    # An image is what is displayed.
    top = np.float32(np.iinfo(dtype).max)
    assert np.allclose(read_image(masks / "a.tif"), (top - values) / top)


@pytest.mark.parametrize("photometric", ["miniswhite", "minisblack"])
def test_masks_of_one_bit_are_what_is_displayed(tmp_path, photometric):
    white = photometric == "miniswhite"
    write(tmp_path / "masks" / "a.tif", (MASK == 0) == white, "YX", photometric=photometric)
    write(tmp_path / "images" / "a.tif", GREY, "YX")
    found = read_folder(tmp_path / "images", tmp_path / "masks")
    assert (found.labels(0) == MASK).all()
    assert any("displayed white" in note for note in found.notes) == white


def test_volumes_of_inverted_masks_keep_their_stored_values(tmp_path):
    voxels = np.stack([MASK, MASK[::-1], MASK]) * np.uint8(255)
    write(tmp_path / "masks" / "a.tif", voxels, "ZYX", photometric="miniswhite", imagej=True)
    write(tmp_path / "images" / "a.tif", np.stack([GREY] * 3), "ZYX")
    found = read_folder(tmp_path / "images", tmp_path / "masks", volume=True)
    assert (found.labels(0) == (voxels > 0)).all()
    assert any("WhiteIsZero" in note for note in found.notes)
    pages = read_folder(tmp_path / "images", tmp_path / "masks")
    assert all((pages.labels(k) == (voxels[k] > 0)).all() for k in range(3))
    assert sum("WhiteIsZero" in note for note in pages.notes) == 1


@pytest.mark.parametrize("dtype", [np.uint16, np.int16, np.int32, np.uint32, np.float32])
def test_label_images_of_every_type_are_whole_numbers(tmp_path, dtype):
    numbers = (MASK * np.arange(MASK.size).reshape(MASK.shape) % 300).astype(dtype)
    write(tmp_path / "a.tif", numbers, "YX")
    assert (read_values(tmp_path / "a.tif") == numbers).all()
    assert read_values(tmp_path / "a.tif").dtype == np.uint16
    if dtype == np.float32:
        write(tmp_path / "b.tif", numbers + dtype(0.5), "YX")
        with pytest.raises(InputError, match="float32"):
            read_values(tmp_path / "b.tif")
