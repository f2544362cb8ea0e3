"""Banks and filters: any size works, offsets mean what they say, choices are recorded."""

import numpy as np
import pytest
from scipy import ndimage

from cutlearn.features.describe import Bank, Picture, Stack
from cutlearn.features.filters import blur, hessian, orientations, rings


@pytest.mark.parametrize("kind", ["photograph", "microscopy"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (1, 40), (37, 2), (20, 31)])
def test_any_size_gives_finite_columns(kind, shape):
    image = np.random.default_rng(0).uniform(size=(*shape, 3)).astype(np.float32)
    columns = Bank(kind, True).stack(Picture(image)).columns()
    rows = columns.rows(np.arange(shape[0] * shape[1]))
    assert rows.shape == (shape[0] * shape[1], len(columns.names))
    assert len(set(columns.names)) == len(columns.names)
    assert np.isfinite(rows).all()
    channels, names = Bank(kind, True).linear(Picture(image))
    assert channels.shape == (len(names), *shape)


def test_offsets_see_the_shifted_plane():
    plane = np.random.default_rng(0).uniform(size=(9, 11)).astype(np.float32)
    stack = Stack(plane.shape)
    stack.offsets("x", stack.add("x", plane), 3)
    columns = stack.columns()
    rows = columns.rows(np.arange(plane.size)).reshape(9, 11, -1)
    for k, (_, dy, dx) in enumerate(stack.seen):
        y = np.clip(np.arange(9) + dy, 0, 8)
        x = np.clip(np.arange(11) + dx, 0, 10)
        np.testing.assert_array_equal(rows[..., k], plane[y[:, None], x[None, :]])
    assert {(dy, dx) for _, dy, dx in stack.seen} >= {(0, 3), (3, 0), (2, 2), (-2, 2), (0, 0)}


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
    along_x, along_y = orientations(x[None]), orientations(y[None])
    np.testing.assert_allclose(along_x[:, 5, 5], np.eye(8)[0], atol=1e-5)
    np.testing.assert_allclose(along_y[:, 5, 5], np.eye(8)[4], atol=1e-5)


def test_hessian_and_rings_of_a_bowl():
    y, x = np.mgrid[-20:21, -20:21].astype(np.float32)
    bowl = (x * x + 3 * y * y) / 1000
    large, small = hessian(bowl, 1.0)[:, 20, 20]
    np.testing.assert_allclose([large, small], [0.006, 0.002], rtol=0.1)
    mean, spread, low, high = rings(bowl, 5)[:, 20, 20]
    assert low <= mean <= high
    np.testing.assert_allclose([low, high], [0.025, 0.075], rtol=0.1)
    assert 0.01 < spread < 0.025
