"""Banks and filters: any size works, offsets mean what they say, choices are recorded."""

import gc
import weakref

import numpy as np
import pytest
from scipy import ndimage

from cutlearn.features import filters
from cutlearn.features.boosted import add_context
from cutlearn.features.columns import Stack
from cutlearn.features.describe import Bank, Picture
from cutlearn.features.filters import blur, hessian, orientations, rings, whole


@pytest.mark.parametrize("kind", ["photograph", "microscopy"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (1, 40), (37, 2), (20, 31)])
def test_any_size_gives_finite_columns(kind, shape):
    image = np.random.default_rng(0).uniform(size=(*shape, 3)).astype(np.float32)
    stack = Bank(kind, True).stack(Picture(image))
    rows = stack.rows(np.arange(shape[0] * shape[1]))
    assert rows.shape == (shape[0] * shape[1], len(stack.names))
    assert len(set(stack.names)) == len(stack.names)
    assert np.isfinite(rows).all()
    channels, names = Bank(kind, True).linear(Picture(image))
    assert channels.shape == (len(names), *shape)


def described(kind, image, logit, extra, index):
    """All columns of some pixels, context included, and the small bank."""
    picture, bank = Picture(image), Bank(kind, True)
    stack = bank.stack(picture, extra)
    add_context(stack, logit, picture, kind)
    return stack.rows(index), bank.linear(picture)[0], bank.raw(picture)[0]


@pytest.mark.parametrize("kind", ["photograph", "microscopy"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 90), (150, 3), (131, 70)])
def test_bands_change_nothing_but_rounding(kind, shape, monkeypatch):
    rng = np.random.default_rng(1)
    image = ndimage.gaussian_filter(rng.uniform(size=(*shape, 3)), (1, 1, 0)).astype(np.float32)
    logit = ndimage.gaussian_filter(rng.normal(size=shape) * 20, 3).astype(np.float32)
    extra = rng.normal(size=(*shape, 2)).astype(np.float32)
    size = shape[0] * shape[1]
    # Also pixels in few bands only, as in training.
    index = np.unique(rng.integers(size // 3, size, 500)) if size > 1 else np.array([0])
    found = []
    for height in (10**6, 64, 9):
        monkeypatch.setattr(filters, "BAND", height)
        found.append(described(kind, image, logit, extra, index))
    for other in found[1:]:
        for a, b in zip(found[0], other):
            np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


def test_offsets_see_the_shifted_plane(monkeypatch):
    monkeypatch.setattr(filters, "BAND", 2)
    plane = np.random.default_rng(0).uniform(size=(9, 11)).astype(np.float32)
    stack = Stack(plane.shape)
    stack.offsets("x", stack.add("x", plane), 3)
    rows = stack.rows(np.arange(plane.size)).reshape(9, 11, -1)
    for k, (_, dy, dx) in enumerate(stack.seen):
        y = np.clip(np.arange(9) + dy, 0, 8)
        x = np.clip(np.arange(11) + dx, 0, 10)
        np.testing.assert_array_equal(rows[..., k], plane[y[:, None], x[None, :]])
    assert {(dy, dx) for _, dy, dx in stack.seen} >= {(0, 3), (3, 0), (2, 2), (-2, 2), (0, 0)}


def test_a_picture_and_its_planes_go_when_nobody_holds_them():
    picture = Picture(np.zeros((9, 9, 3), np.float32))
    assert picture.shrunk(1) is picture
    assert picture.shrunk(2).shape == (5, 5)
    stack = Bank("photograph", True).stack(picture)
    stack.rows(np.arange(3))
    gone = weakref.ref(picture)
    gc.disable()  # a cycle would wait for it
    try:
        del picture, stack
        assert gone() is None
    finally:
        gc.enable()


def test_choice_of_the_bank():
    grey = np.zeros((4, 4), np.float32)
    color = np.random.default_rng(0).uniform(size=(4, 4, 3)).astype(np.float32)
    assert Bank.choose([grey, np.repeat(grey[..., None], 3, 2)]) == Bank("microscopy", False)
    assert Bank.choose([grey, color]) == Bank("photograph", True)
    assert Bank.choose([color], position=False) == Bank("photograph", False)
    assert Bank.choose([color], kind="microscopy") == Bank("microscopy", False)


def test_large_images_are_described_at_a_smaller_scale():
    assert Bank.choose([np.zeros((1024, 1344), np.float32)]).scale == 2
    assert Bank.choose([np.zeros((500, 700), np.float32)]).scale == 1
    photograph = np.random.default_rng(0).uniform(size=(610, 900, 3)).astype(np.float32)
    assert Bank.choose([photograph]).scale == 2
    assert Bank.choose([photograph[:300, :400]]).scale == 1


@pytest.mark.parametrize("sigma", [1.0, 4.0, 16.0])
def test_blur_is_near_the_direct_one(sigma):
    x = np.random.default_rng(0).uniform(size=(120, 150)).astype(np.float32)
    direct = ndimage.gaussian_filter(x.astype(float), sigma)
    assert np.abs(blur(x, sigma) - direct).max() < 0.012
    np.testing.assert_allclose(blur(np.full_like(x, 0.25), sigma), 0.25, atol=1e-5)


def test_orientations_of_a_ramp():
    y, x = np.mgrid[:20, :20].astype(np.float32)
    along_x, along_y = (orientations(whole(plane)).all() for plane in (x, y))
    np.testing.assert_allclose(along_x[:, 5, 5], np.eye(8)[0], atol=1e-5)
    np.testing.assert_allclose(along_y[:, 5, 5], np.eye(8)[4], atol=1e-5)


def test_hessian_and_rings_of_a_bowl():
    y, x = np.mgrid[-20:21, -20:21].astype(np.float32)
    bowl = (x * x + 3 * y * y) / 1000
    large, small = hessian(whole(bowl), 1.0).all()[:, 20, 20]
    np.testing.assert_allclose([large, small], [0.006, 0.002], rtol=0.1)
    mean, spread, low, high = rings(whole(bowl), 5, np.float32(0.1)).all()[:, 20, 20]
    assert low <= mean <= high
    np.testing.assert_allclose([low, high], [0.025, 0.075], rtol=0.1)
    assert 0.01 < spread < 0.025
