"""Single objects: discs that touch are parted, ragged ones are not; their figures."""

import json
from itertools import pairwise

import numpy as np
import pytest

from cutlearn.report.objects import Coco, find_objects, geojson, imagej, polygons

ROWS, COLUMNS = np.indices((60, 90))


def disc(y, x, r):
    return (ROWS - y) ** 2 + (COLUMNS - x) ** 2 <= r * r


TOUCHING = (disc(30, 25, 14) | disc(30, 51, 14)).astype(np.uint8)


def test_touching_discs_are_two_objects_unless_they_are_to_stay_together():
    numbers, objects, _ = find_objects(TOUCHING)
    assert [one.number for one in objects] == [1, 2]
    assert sorted(round(one.x) for one in objects) == [25, 51]
    assert all(abs(one.y - 30) < 0.5 for one in objects)
    assert sum(one.area for one in objects) == TOUCHING.sum() == (numbers > 0).sum()
    assert len(find_objects(TOUCHING, split=False)[1]) == 1


def test_a_ragged_object_stays_one():
    rng = np.random.default_rng(0)
    ragged = disc(30, 40, 20)
    border = disc(30, 40, 21) & ~disc(30, 40, 19)
    ragged = (ragged | (border & (rng.random(ragged.shape) < 0.5))).astype(np.uint8)
    numbers, objects, _ = find_objects(ragged)
    assert max(one.area for one in objects) > 0.99 * disc(30, 40, 19).sum()
    assert numbers[30, 40] > 0


def test_a_valley_of_the_probability_parts_what_the_shape_does_not():
    bar = np.zeros((60, 90), np.uint8)
    bar[20:40, 10:80] = 1
    p = np.where(bar == 1, 0.95, 0.02)
    assert len(find_objects(bar, np.stack([1 - p, p], -1))[1]) == 1
    p[:, 44:47] = np.minimum(p[:, 44:47], 0.3)
    p[:, 41:50] = np.minimum(p[:, 41:50], 0.5)
    assert len(find_objects(bar, np.stack([1 - p, p], -1))[1]) == 2


def test_figures_of_an_object():
    mask = np.zeros((20, 30), np.uint8)
    mask[0:4, 5:11], mask[12, 12] = 2, 1
    p = np.full((20, 30, 3), 0.25)
    p[0:2, 5:11, 2] = 0.75
    _, (small, large), _ = find_objects(mask, p)
    assert (small.label, small.area, small.at_border) == (1, 1, False)
    assert (large.label, large.area, large.at_border) == (2, 24, True)
    assert (large.x, large.y, large.box) == (7.5, 1.5, (5, 0, 11, 4))
    assert large.probability == pytest.approx(0.5)
    assert len(find_objects(mask, p, least_area=2)[1]) == 1


def test_fragments_are_not_counted():
    rng = np.random.default_rng(0)
    mask = (disc(15, 15, 8) | disc(15, 45, 8) | disc(42, 30, 9) | disc(45, 70, 8)).astype(np.uint8)
    whole = mask.copy()
    for y, x in rng.integers(0, (58, 88), (4, 2)):
        if not whole[max(y - 2, 0) : y + 4, max(x - 2, 0) : x + 4].any():
            mask[y : y + 2, x : x + 1 + y % 2] = 1
    numbers, objects, left_out = find_objects(mask)
    assert len(objects) == 4
    assert ((numbers > 0) == (whole > 0)).all()
    everything = find_objects(mask, least_area=0)
    assert everything.left_out == 0
    assert len(everything.objects) == 4 + left_out > 5
    # Each label has its own median.
    mask[mask > 0] = 2
    mask[50:53, 2:5] = 1
    assert sorted(one.area for one in find_objects(mask).objects)[0] == 9


def test_a_small_part_of_an_object_stays_in_it():
    bridge = (ROWS == 30) & (COLUMNS > 40) & (COLUMNS < 54)
    mask = (disc(30, 30, 14) | bridge | disc(30, 54, 5) | disc(30, 75, 13)).astype(np.uint8)
    assert len(find_objects(mask, least_area=0).objects) == 3
    numbers, objects, left_out = find_objects(mask, least_area=100)
    assert (len(objects), left_out) == (2, 0)
    assert ((numbers > 0) == (mask > 0)).all()
    assert numbers[30, 54] == numbers[30, 30]


def shoelace(line):
    """Return the signed area that a closed line encloses: a ring around pixels is positive."""
    x, y = np.array(line, float).T
    return (np.dot(x[:-1], y[1:]) - np.dot(y[:-1], x[1:])) / 2


def painted(rings, shape):
    """Return the pixels whose centres an odd number of rings surround."""
    y, x = np.mgrid[: shape[0], : shape[1]] + 0.5
    inside = np.zeros(shape, bool)
    for ring in rings:
        for (x0, y0), (x1, y1) in pairwise(np.asarray(ring, float).tolist()):
            if x0 == x1:  # a line along a column: a ray to the left crosses it or does not
                inside ^= (x > x0) & (min(y0, y1) < y) & (y < max(y0, y1))
    return inside


def unpacked(counts, shape):
    """Return the mask of uncompressed COCO run lengths, column by column from a run of zeros."""
    values = np.arange(len(counts)) % 2 == 1
    return np.repeat(values, counts).reshape(shape[::-1]).T


def drawing(*rows):
    return np.array([[c == "#" for c in row] for row in rows], np.uint8)


RING = drawing("#####", "#...#", "#...#", "#####")
SHAPES = {
    "pixel": drawing("...", ".#.", "..."),
    "all": drawing("##", "##"),
    "ring": RING,
    "nested rings": drawing("#######", "#.....#", "#.###.#", "#.#.#.#", "#.###.#", "#.....#",
                            "#######"),
    "diagonal": drawing("##..", "##..", "..##", "..##"),
    "open corner": drawing(".####", "#...#", "#...#", "#####"),
    "holes in touch": drawing("#####", "#.###", "##.##", "#####"),
    "hole at a corner": drawing("####", "#.##", "##.#", "###."),
    "border": drawing("#..#", "....", "#..#"),
    "touching discs": TOUCHING,
    "large ring": (disc(30, 40, 20) & ~disc(30, 40, 15)).astype(np.uint8),
    "noise": (np.random.default_rng(0).random((23, 31)) < 0.6).astype(np.uint8),
    "labels": np.random.default_rng(1).integers(0, 3, (17, 19)).astype(np.uint8),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("split", [True, False])
def test_polygons_hold_exactly_the_pixels_of_their_object(name, split):
    mask = SHAPES[name]
    numbers, objects, _ = find_objects(mask, split=split, least_area=0)
    assert ((numbers > 0) == (mask > 0)).all()
    made = geojson(numbers, objects, ["a", "b", "c"])["features"]
    assert len(made) == len(objects) > 0
    for one, feature in zip(objects, made):
        whole = numbers == one.number
        parts, geometry = polygons(numbers, one), feature["geometry"]
        rings = [ring for part in parts for ring in part]
        assert (painted(rings, mask.shape) == whole).all()
        assert sum(map(shoelace, rings)) == one.area == whole.sum()
        for first, *holes in parts:
            assert shoelace(first) > 0 > max(map(shoelace, holes), default=-1)
            # Simple rings, closed, of corners alone: valid in every geographic tool.
            for ring in (first, *holes):
                assert ring[0] == ring[-1]
                assert len(set(ring)) == len(ring) - 1 >= 4
                assert not (np.diff(np.array(ring + ring[1:2])[:, 0], n=2) == 0).any()
        if geometry["type"] == "Polygon":
            assert geometry["coordinates"] == parts[0]
            assert len(parts) == 1
        else:
            assert (geometry["type"], geometry["coordinates"]) == ("MultiPolygon", parts)


def test_a_ring_has_a_hole_in_every_format():
    numbers, objects, _ = find_objects(SHAPES["large ring"])
    (one,) = objects
    (part,) = polygons(numbers, one)
    assert len(part) == 2
    (note,) = coco_of({"a.png": (numbers, objects)})["annotations"]
    size = list(numbers.shape)
    assert note["segmentation"]["size"] == size
    assert (unpacked(note["segmentation"]["counts"], size) == (numbers > 0)).all()
    assert note["area"] == one.area == (numbers > 0).sum()


def coco_of(images):
    coco = Coco(["background", "nucleus", "cell"])
    for name, (numbers, objects) in images.items():
        coco.add(name, numbers, objects)
    return json.loads(json.dumps(coco.to_plain()))


def test_a_coco_file_is_complete():
    images = {f"{k}.tif": find_objects(SHAPES[k], least_area=0)[:2] for k in SHAPES}
    said = coco_of(images)
    assert said["categories"] == [{"id": 1, "name": "nucleus"}, {"id": 2, "name": "cell"}]
    assert [part["file_name"] for part in said["images"]] == list(images)
    assert [part["id"] for part in said["images"]] == list(range(1, 1 + len(images)))
    ids = [note["id"] for note in said["annotations"]]
    assert ids == list(range(1, 1 + sum(len(found) for _, found in images.values())))
    notes = iter(said["annotations"])
    for part, (numbers, objects) in zip(said["images"], images.values()):
        assert (part["height"], part["width"]) == numbers.shape
        for one in objects:
            note, whole = next(notes), numbers == one.number
            assert (note["image_id"], note["category_id"]) == (part["id"], one.label)
            assert (note["iscrowd"], note["area"]) == (0, whole.sum())
            rows, columns = np.nonzero(whole)
            assert note["bbox"] == [columns.min(), rows.min(), np.ptp(columns) + 1,
                                    np.ptp(rows) + 1]  # fmt: skip
            lines = note["segmentation"]
            if isinstance(lines, dict):
                assert any(len(rings) > 1 for rings in polygons(numbers, one))
                found = unpacked(lines["counts"], numbers.shape)
            else:
                rings = [np.reshape(line, (-1, 2)) for line in lines]
                found = painted([np.concatenate([r, r[:1]]) for r in rings], numbers.shape)
            assert (found == whole).all()


@pytest.mark.parametrize("name", SHAPES)
def test_imagej_reads_the_pixels_back(name, tmp_path):
    roifile = pytest.importorskip("roifile")
    numbers, objects, _ = find_objects(SHAPES[name], least_area=0)
    roifile.roiwrite(tmp_path / "a.zip", [imagej(numbers, one) for one in objects])
    read = roifile.roiread(tmp_path / "a.zip")
    assert len(read) == len(objects)
    for one, roi in zip(objects, read):
        rings = [np.concatenate([r, r[:1]]) for r in roi.coordinates(multi=True)]
        assert (painted(rings, numbers.shape) == (numbers == one.number)).all()
        assert (roi.left, roi.top, roi.right, roi.bottom) == one.box
        assert roi.name == str(one.number)
        assert roi.subpixel_coordinates is None


def test_no_object():
    numbers, objects, left_out = find_objects(np.zeros((5, 6), np.uint8))
    assert (objects, left_out) == ([], 0)
    assert not numbers.any()
