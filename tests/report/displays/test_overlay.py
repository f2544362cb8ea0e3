"""Borders over an image: of labels, and of single objects."""

import numpy as np

from cutlearn.images.write import PALETTE
from cutlearn.report.displays.overlay import borders_over

GREY = np.full((6, 8), 0.5)
COLOR = np.array(PALETTE[1]) / 255


def drawn(mask, numbers=None):
    return (borders_over(GREY, mask, numbers) == COLOR).all(axis=-1)


def test_objects_that_touch_are_parted():
    mask = np.zeros((6, 8), np.uint8)
    mask[1:5, 1:7] = 1
    numbers = mask.astype(np.int32)
    numbers[1:5, 4:7] = 2
    ring = mask > 0
    ring[2:4, 2:6] = False
    assert (drawn(mask) == ring).all()
    parted = ring.copy()
    parted[1:5, 3:5] = True
    assert (drawn(mask, numbers) == parted).all()


def test_pixels_of_no_object_have_no_border():
    mask = np.ones((6, 8), np.uint8)
    numbers = np.zeros((6, 8), np.int32)
    numbers[:3] = 1
    painted = borders_over(GREY, mask, numbers)
    found = drawn(mask, numbers)
    # The image's own margin is no border of an object that continues beyond it.
    assert found[2].all()
    assert found.sum() == 8
    assert (painted[3:] != rgb_of_grey()).any(axis=-1).all()


def rgb_of_grey():
    return borders_over(GREY, np.zeros((6, 8), np.uint8))[0, 0]


def test_borders_are_those_of_each_label():
    mask = np.zeros((6, 8), np.uint8)
    mask[:, 4:] = 2
    painted = borders_over(GREY, mask)
    second = (painted == np.array(PALETTE[2]) / 255).all(axis=-1)
    assert second[:, 4].all()
    assert second.sum() == 6
