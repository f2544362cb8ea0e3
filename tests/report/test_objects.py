"""Single objects: discs that touch are parted, ragged ones are not; their figures."""

import numpy as np
import pytest

from cutlearn.report.objects import Coco, find_objects, geojson, outlines

ROWS, COLUMNS = np.indices((60, 90))


def disc(y, x, r):
    return (ROWS - y) ** 2 + (COLUMNS - x) ** 2 <= r * r


TOUCHING = (disc(30, 25, 14) | disc(30, 51, 14)).astype(np.uint8)


def test_touching_discs_are_two_objects_unless_they_are_to_stay_together():
    numbers, objects = find_objects(TOUCHING)
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
    numbers, objects = find_objects(ragged)
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
    _, (small, large) = find_objects(mask, p)
    assert (small.label, small.area, small.at_border) == (1, 1, False)
    assert (large.label, large.area, large.at_border) == (2, 24, True)
    assert (large.x, large.y, large.box) == (7.5, 1.5, (5, 0, 11, 4))
    assert large.probability == pytest.approx(0.5)
    assert len(find_objects(mask, p, least_area=2)[1]) == 1


def shoelace(line):
    x, y = np.array(line).T
    return abs(np.dot(x[:-1], y[1:]) - np.dot(y[:-1], x[1:])) / 2


def test_outlines_go_around_the_object():
    numbers, objects = find_objects(TOUCHING)
    for one in objects:
        (line,) = outlines(numbers, one)
        assert line[0] == line[-1]
        # Between the middles and the outer corners of the border's pixels.
        assert abs(shoelace(line) - one.area) < 0.05 * one.area
        x, y = np.array(line).mean(axis=0)
        assert abs(x - one.x - 0.0) < 1
        assert abs(y - one.y - 0.0) < 1
    made = geojson(numbers, objects, ["background", "nucleus"])
    assert [part["properties"]["label"] for part in made["features"]] == ["nucleus"] * 2
    coco = Coco(["background", "nucleus"])
    coco.add("a", numbers, objects)
    coco.add("b", numbers, objects[:1])
    said = coco.to_plain()
    assert [a["image_id"] for a in said["annotations"]] == [1, 1, 2]
    assert [a["id"] for a in said["annotations"]] == [1, 2, 3]
    left, top, right, bottom = objects[0].box
    assert said["annotations"][0]["bbox"] == [left, top, right - left, bottom - top]
    assert said["categories"] == [{"id": 1, "name": "nucleus"}]


def test_no_object():
    numbers, objects = find_objects(np.zeros((5, 6), np.uint8))
    assert objects == []
    assert not numbers.any()
