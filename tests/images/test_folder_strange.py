"""The folders that people have: names, formats, values, tags; each is read or refused in words."""

import io

import numpy as np
import pytest
import tifffile
from PIL import Image

from cutlearn.errors import InputError, InputWarning
from cutlearn.images import as_image, folder, read_folder, read_image
from cutlearn.images.listing import pair

SHAPE = (12, 16)
RNG = np.random.default_rng(0)
PHOTO = RNG.integers(0, 256, (*SHAPE, 3), dtype=np.uint8)
MASK = np.zeros(SHAPE, np.uint8)
MASK[3:9, 4:12] = 1


def picture(path, array, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path, **options)


def folders(root, image_names, mask_names, mask=MASK * 255):
    for name in image_names:
        picture(root / "images" / name, PHOTO)
    for name in mask_names:
        picture(root / "masks" / name, mask)
    return root / "images", root / "masks"


@pytest.mark.parametrize(
    ("images", "masks"),
    [
        (["a1", "b2"], ["a1_mask", "b2_mask"]),
        (["a1", "b2"], ["mask_a1", "mask_b2"]),
        (["a1", "b2"], ["a1_gt", "b2_gt"]),
        (["a1", "b2"], ["a1.manual1", "b2.manual1"]),
        (["IMG_1", "IMG_2"], ["img_1", "img_2"]),
        (["img_1", "img_2"], ["mask_1", "mask_2"]),
        (["1_image", "2_image"], ["1_label", "2_label"]),
        (["x/a1", "y/b2"], ["a1", "b2"]),
        (["x/a1", "y/b2"], ["x/a1_seg", "y/b2_seg"]),
        (["img_1", "img_10"], ["img_1_mask", "img_10_mask"]),
        (["image1", "image2"], ["mask1", "mask2"]),
        (["a1.nii", "b2.nii"], ["a1", "b2"]),
    ],
)
def test_names_that_differ_are_matched_and_told(images, masks):
    found = pair(images, masks)
    assert found.names == dict(zip(images, masks))
    assert f"mask {masks[0]!r} belongs to image {images[0]!r}" in found.told


def test_equal_names_need_no_words_and_win():
    found = pair(["a", "a_mask", "b"], ["a", "b"])
    assert found == ({"a": "a", "b": "b"}, "")


def test_ambiguous_names_are_not_matched():
    assert pair(["x/a", "y/a"], ["a"]).names == {}
    assert pair(["a", "b"], ["c", "d"]).names == {}


def test_a_suffix_that_is_stated_is_the_only_way(tmp_path):
    found = folders(tmp_path, ["a.png", "b.png"], ["a_x.png", "b_x.png", "b.png"])
    assert [p.name for p in read_folder(*found, mask_suffix="_x").masks] == ["a_x.png", "b_x.png"]
    with pytest.raises(InputError, match=r"no mask has the name of an image.*mask_suffix"):
        read_folder(*found, mask_suffix="_y")


def test_masks_beside_their_images(tmp_path):
    for name in ("a", "b"):
        picture(tmp_path / f"{name}.png", PHOTO)
        picture(tmp_path / f"{name}_mask.png", MASK)
    found = read_folder(tmp_path, tmp_path)
    assert found.names == ("a", "b")
    assert (found.labels(1) == MASK).all()


def test_folders_inside_folders(tmp_path):
    found = read_folder(*folders(tmp_path, ["x/a.png", "y/b.png"], ["x/a.png", "y/b.png"]))
    assert found.names == ("x/a", "y/b")


def test_a_mask_folder_inside_the_image_folder_does_not_count(tmp_path):
    picture(tmp_path / "one" / "a.png", PHOTO)
    picture(tmp_path / "masks" / "a.png", MASK)
    assert read_folder(tmp_path, tmp_path / "masks").names == ("one/a",)


def test_a_pattern_chooses(tmp_path):
    found = folders(tmp_path, ["a_raw.png", "a_dark.png"], ["a_raw.png"])
    assert read_folder(*found, pattern="*_raw.png").names == ("a_raw",)
    with pytest.raises(InputError, match=r"whose name matches '\*\.nothing'"):
        read_folder(*found, pattern="*.nothing")


def test_many_strangers_are_one_line(tmp_path):
    images, masks = folders(tmp_path, [f"{i}.png" for i in range(9)], ["3.png"])
    for i in range(300):
        (images / f"{i}.txt").write_text("x")
    found = read_folder(images, masks)
    assert len(found.notes) == 3  # strangers, images without masks, what 0 and 255 mean
    assert "300 files" in found.notes[0]
    assert found.notes[1] == "8 images of 9 without a mask left out: 0, 1, 2, ... (8 in all)"


def test_images_without_masks_are_looked_at_when_asked_for(tmp_path, monkeypatch):
    images, masks = folders(tmp_path, [f"{i}.png" for i in range(9)], ["3.png"])
    (images / "5.png").write_bytes(b"no picture")
    assert len(read_folder(images, masks).unannotated) == 0
    told = []
    found = read_folder(images, masks, unannotated=True, progress=lambda *at: told.append(at))
    assert told == [(k, 9) for k in range(1, 10)]
    assert found.names == ("3",)
    assert found.notes[0] == "8 images of 9 without a mask only looked at: 0, 1, 2, ... (8 in all)"
    assert "1 file of 8 that cannot be read left out" in found.notes[-1]
    assert [path.name for path, _ in found.bare] == [f"{i}.png" for i in (0, 1, 2, 4, 6, 7, 8)]
    assert np.array_equal(found.unannotated[6], read_folder(images / "8.png").image(0))
    monkeypatch.setattr(folder, "MOST_UNANNOTATED", 2)
    few = read_folder(images, masks, unannotated=True)
    assert [path.name for path, _ in few.bare] == ["0.png"]  # of 0 and 5


def test_one_file_for_a_folder(tmp_path):
    images, masks = folders(tmp_path, ["a.png"], ["b.png"])
    found = read_folder(images / "a.png", masks / "b.png")
    assert found.names == ("a",)
    assert (found.labels(0) == MASK).all()
    assert read_folder(images / "a.png").names == ("a",)


@pytest.mark.parametrize("ending", ["png", "bmp", "gif", "webp", "tif", "npy", "npz"])
def test_formats_of_images(tmp_path, ending):
    path = tmp_path / f"a.{ending}"
    if ending == "npy":
        np.save(path, PHOTO)
    elif ending == "npz":
        np.savez_compressed(path, PHOTO)
    else:
        picture(path, PHOTO, **({"lossless": True} if ending == "webp" else {}))
    image = read_folder(tmp_path).image(0)
    assert image.shape == (*SHAPE, 3)
    if ending != "gif":  # which has 256 colours
        assert (image == as_image(PHOTO)).all()


def test_arrays_of_numpy_that_are_no_images(tmp_path):
    objects = io.BytesIO()
    np.save(objects, np.array([{"a": 1}], object), allow_pickle=True)
    with pytest.raises(InputError, match="array of object"):
        read_image(objects.getvalue())
    two = io.BytesIO()
    np.savez(two, a=PHOTO, b=PHOTO)
    with pytest.raises(InputError, match="the file holds 2 arrays"):
        read_image(two.getvalue())
    large = io.BytesIO()
    np.save(large, np.zeros((40, 50), np.uint8))
    with pytest.raises(InputError, match="at most 100 pixels"):
        read_image(large.getvalue(), max_pixels=100)
    with pytest.raises(InputError):
        read_image(large.getvalue()[:300])


def masks_of(root, write):
    """One image with a mask that `write(path without ending)` makes."""
    picture(root / "images" / "a.png", PHOTO)
    (root / "masks").mkdir()
    write(root / "masks" / "a")
    return root / "images", root / "masks"


def test_float_masks_of_zero_and_one(tmp_path):
    found = masks_of(tmp_path, lambda p: tifffile.imwrite(f"{p}.tif", MASK.astype(np.float32)))
    assert (read_folder(*found).labels(0) == MASK).all()


def test_probabilities_as_masks_need_a_threshold(tmp_path):
    found = masks_of(tmp_path, lambda p: np.save(f"{p}.npy", MASK * 0.8 + 0.1))
    with pytest.raises(InputError, match=r"numbers from 0\.1 to 0\.9 that are no labels"):
        read_folder(*found)
    assert (read_folder(*found, threshold=0.5).labels(0) == MASK).all()


def test_jpeg_masks_need_a_threshold(tmp_path):
    found = masks_of(tmp_path, lambda p: picture(p.with_suffix(".jpg"), MASK * 255))
    with pytest.raises(InputError, match=r"a JPEG changes the values.*threshold=128"):
        read_folder(*found)
    assert (read_folder(*found, threshold=128).labels(0) == MASK).all()


def test_smoothed_edges_need_a_threshold(tmp_path):
    smooth = (MASK * 255).astype(np.float64)
    smooth[3, 4:12], smooth[9, 4:12] = 191, 64
    found = masks_of(tmp_path, lambda p: picture(p.with_suffix(".png"), smooth.astype(np.uint8)))
    with pytest.raises(InputError, match=r"grey levels, or smoothed edges.*threshold=128"):
        read_folder(*found)
    assert (read_folder(*found, threshold=128).labels(0) == MASK).all()


def test_colours_are_labels(tmp_path):
    colors = np.array([[0, 0, 0], [255, 0, 0], [0, 0, 255]], np.uint8)
    labels = MASK.copy()
    labels[0] = 2
    found = masks_of(tmp_path, lambda p: picture(p.with_suffix(".png"), colors[labels]))
    folder = read_folder(*found)
    assert folder.coding.values == (0, 0x0000FF, 0xFF0000)
    assert "0 = #000000, 1 = #0000ff, 2 = #ff0000" in folder.notes[-1]
    stated = read_folder(*found, colors=[0, 0xFF0000, 0x0000FF])
    assert (stated.labels(0) == labels).all()
    with pytest.raises(InputError, match=r"the colour #0000ff .*but only.*Add it to colors"):
        read_folder(*found, colors=[0, 0xFF0000])


def test_a_photograph_for_a_mask_is_no_map_of_colours(tmp_path):
    found = masks_of(tmp_path, lambda p: picture(p.with_suffix(".png"), PHOTO))
    with pytest.raises(InputError, match=r"pictures of \d+ colours, but a label is one colour"):
        read_folder(*found)


@pytest.mark.parametrize(
    ("values", "labels", "told"),
    [
        ([1, 2, 3, 255], [0, 1, 2, 255], "1, 2, 3 are labels 0 to 2 in this order; 255 is not"),
        ([0, 3, 17], [0, 1, 2], "0, 3, 17 are labels 0 to 2"),
        ([0, 300, 4000], [0, 1, 2], "0, 300, 4000 are labels"),
        ([0, 2], [0, 1], "0, 2 are labels 0 to 1"),
        ([0, 1, 2], [0, 1, 2], ""),
    ],
)
def test_ids_with_holes_are_numbered_and_told(tmp_path, values, labels, told):
    array = np.resize(np.array(values, np.uint16), SHAPE)
    found = masks_of(tmp_path, lambda p: picture(p.with_suffix(".png"), array))
    folder = read_folder(*found)
    assert (folder.labels(0) == np.resize(np.array(labels, np.uint8), SHAPE)).all()
    assert told in (folder.notes[-1] if folder.notes else "")
    assert folder.coding.values == tuple(v for v in values if v != 255)


def test_a_stack_is_a_group_of_slices(tmp_path):
    for kind, array in (("images", PHOTO[..., 0]), ("masks", MASK)):
        (tmp_path / kind).mkdir()
        for name in ("s", "t"):
            stack = np.stack([array, array[::-1], array * (kind == "images")])
            tifffile.imwrite(tmp_path / kind / f"{name}.tif", stack, photometric="minisblack")
    found = read_folder(tmp_path / "images", tmp_path / "masks")
    assert found.names == ("s_001", "s_002", "s_003", "t_001", "t_002", "t_003")
    assert (found.labels(1) == MASK[::-1]).all()
    assert (found.image(4) == as_image(PHOTO[::-1, :, 0])).all()
    assert len(set(found.groups[:3])) == 1
    assert found.groups[0] != found.groups[3]


def test_a_file_of_many_channels_is_named_for_what_it_is(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((9, 9, 7), np.uint16), photometric="minisblack",
                     planarconfig="contig")  # fmt: skip
    with pytest.raises(InputError, match="7 channels"):
        read_folder(tmp_path)


def rotated(path, array, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    picture(path, array, exif=exif)


def test_a_turned_image_with_an_unturned_mask_is_told(tmp_path):
    rotated(tmp_path / "images" / "a.jpg", PHOTO, 3)
    picture(tmp_path / "masks" / "a.png", MASK)
    found = read_folder(tmp_path / "images", tmp_path / "masks")
    assert "1 image turned as the rotation tag" in found.notes[0]
    assert "turned=False" in found.notes[0]
    stored = read_folder(tmp_path / "images", tmp_path / "masks", turned=False)
    assert stored.notes == ()
    assert (stored.image(0)[::-1, ::-1] == found.image(0)).all()


def test_a_mask_that_lacks_the_quarter_turn_of_its_image_is_refused_with_the_way_out(tmp_path):
    rotated(tmp_path / "images" / "a.jpg", PHOTO, 6)
    picture(tmp_path / "masks" / "a.png", MASK)
    with pytest.raises(InputError, match=r"rotation tag that its mask lacks.*turned=False"):
        read_folder(tmp_path / "images", tmp_path / "masks")
    assert read_folder(tmp_path / "images", tmp_path / "masks", turned=False).names == ("a",)


def test_transparency_is_told():
    clear = np.dstack([PHOTO, MASK * 255])
    with pytest.warns(InputWarning, match=r"transparent pixels.*the model would see the answer"):
        as_image(clear)
    as_image(np.dstack([PHOTO, np.full(SHAPE, 255, np.uint8)]))  # opaque: no word


def test_transparency_in_a_folder_is_told_once(tmp_path):
    for name in "abcd":
        picture(tmp_path / f"{name}.png", np.dstack([PHOTO, MASK * 255]))
    (note,) = read_folder(tmp_path).notes
    assert note.startswith("4 images with transparent pixels, which are shown as white: a.png, b.")


def test_one_damaged_file_among_many_is_left_out(tmp_path):
    images, masks = folders(
        tmp_path, [f"{i}.png" for i in range(6)], [f"{i}.png" for i in range(6)]
    )
    (images / "3.png").write_bytes((images / "3.png").read_bytes()[:90])
    found = read_folder(images, masks)
    assert found.names == tuple("01245")
    assert any("1 file of 6 that cannot be read left out" in note for note in found.notes)
    with pytest.raises(InputError, match="cannot be read"):
        read_folder(images, masks, strict=True)
