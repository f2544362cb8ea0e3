"""A mask of a smaller image, made sharp at the size of the image."""

import numpy as np

from cutlearn.images.resize import resize_image, resize_labels
from cutlearn.model.band import sharpened


def disc(n=120):
    y, x = np.mgrid[:n, :n]
    truth = ((y - 57) ** 2 + (x - 63) ** 2 < 34**2).astype(np.uint8)
    noise = np.random.default_rng(0).normal(0, 0.03, (n, n, 3))
    image = np.where(truth[..., None] == 1, (0.8, 0.3, 0.2), (0.2, 0.4, 0.5)) + noise
    return np.clip(image, 0, 1).astype(np.float32), truth


def test_the_border_follows_the_full_image():
    image, truth = disc()
    labels = resize_labels(truth, (30, 30))
    unary = np.where(labels == 1, -1.0, 1.0)
    free = np.full(truth.shape, -1, np.int16)
    before = (resize_labels(labels, truth.shape) != truth).sum()
    found = sharpened(labels, unary, image, free, (0.0, 8.0))
    assert before > 100
    assert (found != truth).sum() <= 10


def test_fixed_pixels_hold_and_far_ones_stay():
    image, truth = disc()
    labels = resize_labels(truth, (30, 30))
    fixed = np.full(truth.shape, -1, np.int16)
    fixed[55:60, 95:98] = 1  # against the image, close to the border
    fixed[2:4, 2:4] = 1
    found = sharpened(labels, np.where(labels == 1, -1.0, 1.0), image, fixed, (0.0, 8.0))
    assert (found[fixed == 1] == 1).all()
    assert found[:40, 110:].sum() == 0


def test_a_mask_without_a_border_stays_as_it_is():
    image, _ = disc()
    nothing = np.zeros((30, 30), np.uint8)
    free = np.full(image.shape[:2], -1, np.int16)
    assert not sharpened(nothing, np.ones((30, 30)), image, free, (0.0, 8.0)).any()
    small = resize_image(image, (30, 30))
    assert small.shape == (30, 30, 3)
