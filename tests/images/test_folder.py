"""Folders of files: matched by stem, values decided over the whole folder, problems in one list."""

import doctest

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image

from cutlearn.errors import InputError
from cutlearn.images import (  # fmt: skip
    folder,
    read_folder,
    read_image,
    read_values,
    write_mask,
    write_probability,
)

SHAPE = (3, 4)


def make(root, masks, images=None):
    """Write masks (name -> list of values, cycled) and an image of the same size for each."""
    for kind in ("images", "masks"):
        (root / kind).mkdir()
    for name, values in masks.items():
        array = np.resize(np.array(values), SHAPE)
        Image.fromarray(array.astype(np.uint16 if array.max() > 255 else np.uint8)).save(
            root / "masks" / f"{name}.png"
        )
    for name in images or masks:
        Image.new("RGB", SHAPE[::-1], (255, 0, 0)).save(root / "images" / f"{name}.jpg")
    return root / "images", root / "masks"


def labels_of(root, masks, **options):
    found = read_folder(*make(root, masks), **options)
    return {name: found.labels(i) for i, name in enumerate(found.names)}


def same(labels, wanted):
    assert labels.dtype == np.uint8
    return (labels == np.resize(np.array(wanted), SHAPE)).all()


def test_a_lazy_folder_reads_when_it_is_asked(tmp_path):
    found = read_folder(*make(tmp_path, {"a": [0, 1], "b": [1, 1]}))
    images, labels = found.lazy()
    whole = found.load()
    for lazy, loaded in zip((images, labels), whole):
        assert [one.tobytes() for one in lazy] == [one.tobytes() for one in loaded]
    (tmp_path / "images" / "b.jpg").unlink()
    assert (images[0] == whole[0][0]).all()
    with pytest.raises(InputError, match=r"b\.jpg"):
        images[1].any()
    bare = read_folder(tmp_path / "images")
    assert [len(part) for part in bare.lazy()] == [1, 0]


def test_pairs_by_stem_in_sorted_order(tmp_path):
    found = read_folder(*make(tmp_path, {"b": [0, 1], "a": [1, 1], "a.2": [0, 0]}))
    assert found.names == ("a", "a.2", "b")
    assert [p.name for p in found.images] == ["a.jpg", "a.2.jpg", "b.jpg"]
    assert [p.name for p in found.masks] == ["a.png", "a.2.png", "b.png"]
    images, labels = found.load()
    assert len(found) == len(images) == len(labels) == 3
    assert images[0].shape == (*SHAPE, 3)
    assert [m.sum() for m in labels] == [12, 0, 6]
    assert all((a[1] == b).all() for a, b in zip(found, labels))


def test_ids_with_255_as_void(tmp_path):
    got = labels_of(tmp_path, {"a": [0, 1, 255], "b": [0, 255], "c": [2, 1]})
    assert same(got["a"], [0, 1, 255])
    assert same(got["b"], [0, 255])  # alone it would be an object: its neighbours tell
    assert same(got["c"], [2, 1])


def test_0_and_255_only_is_binary(tmp_path):
    got = labels_of(tmp_path, {"a": [0, 255], "b": [255], "c": [0]})
    assert same(got["a"], [0, 1])
    assert same(got["b"], [1])
    assert same(got["c"], [0])


def test_a_mix_of_codings_is_refused_unless_it_is_told(tmp_path):
    images, masks = make(tmp_path, {"a": [0, 1], "b": [0, 255]})
    with pytest.raises(InputError, match="1 of the masks hold only 0 and 255, but 1 hold 1 and no"):
        read_folder(images, masks)
    assert same(read_folder(images, masks, object_value="nonzero").labels(1), [0, 1])
    assert same(read_folder(images, masks, void_value=255).labels(1), [0, 255])


@pytest.mark.parametrize(
    ("masks", "options", "wanted"),
    [
        ([0, 255], {"void_value": 255}, [0, 255]),
        ([0, 128, 255], {"void_value": 128}, [0, 255, 1]),
        ([0, 128, 255], {"object_value": 128}, [0, 1, 255]),
        ([0, 128, 255], {"object_value": 255}, [0, 0, 1]),
        ([0, 128, 255], {"object_value": 255, "void_value": 128}, [0, 255, 1]),
        ([1, 2, 3], {"object_value": 1, "void_value": 3}, [1, 0, 255]),
        ([0, 7, 255, 900], {"object_value": "nonzero"}, [0, 1, 1, 1]),
        ([0, 7, 255, 900], {"object_value": "nonzero", "void_value": 7}, [0, 255, 1, 1]),
        ([0, 17, 255], {"n_labels": 21}, [0, 17, 255]),
        ([0, 255], {"n_labels": 3}, [0, 255]),
        ([0, 255], {"n_labels": 2}, [0, 1]),
        ([1, 2, 0], {"void_value": 0, "n_labels": 3}, [1, 2, 255]),
    ],
)
def test_stated_values(tmp_path, masks, options, wanted):
    assert same(labels_of(tmp_path, {"a": masks}, **options)["a"], wanted)


@pytest.mark.parametrize(
    ("masks", "options", "message"),
    [
        (
            [0, 128, 255],
            {},
            r"values 0, 128, 255 \(128 first in a\.png\).*grey levels.*object_value",
        ),
        (range(12), {"n_labels": 3}, r"0, 1, 2, 3, 4, 5, \.\.\. 11 \(12 in all\).*3 labels are"),
        ([0, 1, 300, 255], {}, "300 first"),
        ([0, 300], {"n_labels": 400}, "300 first"),
        ([0, 1], {"object_value": 255}, "but not the object's value 255"),
        ([0, 1], {"object_value": 1, "void_value": 1}, "must differ"),
    ],
)
def test_strange_values_are_refused(tmp_path, masks, options, message):
    with pytest.raises(InputError, match=message):
        labels_of(tmp_path, {"a": list(masks)}, **options)


def test_a_photograph_in_place_of_a_mask_is_refused(tmp_path):
    images, masks = make(tmp_path, {"a": [0, 1]})
    Image.fromarray(np.arange(100, dtype=np.uint8).reshape(10, 10)).save(masks / "a.png")
    Image.new("L", (10, 10)).save(images / "a.jpg")
    with pytest.raises(InputError, match=r"100 in all"):
        read_folder(images, masks)


def test_palette_masks_keep_their_indices(tmp_path):
    images, masks = make(tmp_path, {"a": [0, 1]})
    picture = Image.fromarray(np.resize(np.array([0, 1, 2], np.uint8), SHAPE), "P")
    picture.putpalette([0, 0, 0, 128, 0, 0, 224, 224, 192])
    picture.save(masks / "a.png")
    assert same(read_folder(images, masks).labels(0), [0, 1, 2])


def test_strangers_are_passed_over_with_a_note(tmp_path):
    images, masks = make(tmp_path, {"a": [0, 1]})
    for name in ("Thumbs.db", ".DS_Store", "README", "._a.png", "notes.txt"):
        (images / name).write_bytes(b"strange")
    (masks / "old.png").mkdir()
    found = read_folder(images, masks)
    assert found.names == ("a",)
    first, second = found.notes
    assert "5 files" in first
    assert "passed over" in first
    assert ".DS_Store, ._a.png, README, ... (5 in all)" in first
    assert "old.png" in second


def test_grey_among_colours_is_noted(tmp_path):
    images, masks = make(tmp_path, {"a": [0, 1], "b": [0, 1], "c": [0, 1]})
    Image.new("L", SHAPE[::-1]).save(images / "b.jpg")
    assert read_folder(images, masks).notes == ("2 images in colour and 1 in grey",)


def test_images_alone(tmp_path):
    images, _ = make(tmp_path, {"a": [0], "b": [0]})
    found = read_folder(images)
    assert found.names == ("a", "b")
    assert found.masks == ()
    assert [labels for _, labels in found] == [None, None]
    assert len(found.load()[0]) == 2
    with pytest.raises(InputError, match="read without masks"):
        found.labels(0)


def test_endings_in_capitals(tmp_path):
    images, masks = make(tmp_path, {"a": [0, 1]})
    (images / "a.jpg").rename(images / "a.JPG")
    assert read_folder(images, masks).names == ("a",)


@settings(max_examples=40, deadline=None)  # each writes and syncs a file
@given(hnp.arrays(np.uint8, hnp.array_shapes(min_dims=2, max_dims=2)))
def test_writing_a_mask_and_reading_it_is_the_identity(tmp_path_factory, labels):
    path = tmp_path_factory.mktemp("mask") / "a.png"
    write_mask(path, labels)
    assert (read_values(path) == labels).all()


@settings(max_examples=40, deadline=None)
@given(hnp.arrays(np.float64, (3, 4), elements=st.floats(0, 1)))
def test_probabilities_come_back_within_half_a_step(tmp_path_factory, probability):
    path = tmp_path_factory.mktemp("map") / "p.png"
    write_probability(path, probability)
    assert np.abs(read_image(path) - probability).max() <= 0.5 / 65535 + 1e-7


def test_object_value_makes_a_mask_that_viewers_show(tmp_path):
    write_mask(tmp_path / "a.png", np.array([[False, True]]), object_value=255)
    assert read_values(tmp_path / "a.png").tolist() == [[0, 255]]


@pytest.mark.parametrize(
    ("labels", "options"),
    [
        ([[0, 256]], {}), ([[-1]], {}), ([[0.5]], {}), ([0, 1], {}), (np.zeros((0, 3), int), {}),
        ([[0, 2]], {"object_value": 255}), ([[0, 255]], {"object_value": 255}),
        ([[0, 1]], {"object_value": 0}),
    ],
)  # fmt: skip
def test_what_is_no_mask_is_not_written(tmp_path, labels, options):
    with pytest.raises(InputError, match=r"a\.png: .*, but .*must be .*\. [A-Z]"):
        write_mask(tmp_path / "a.png", labels, **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("probability", [[[1.5]], [[-0.1]], [[np.nan]], [0.5], np.zeros((0, 2))])
def test_what_is_no_probability_is_not_written(tmp_path, probability):
    with pytest.raises(InputError, match="in \\[0, 1\\] are needed"):
        write_probability(tmp_path / "p.png", probability)
    assert list(tmp_path.iterdir()) == []


def test_examples_of_the_docstrings():
    assert doctest.testmod(folder).failed == 0
