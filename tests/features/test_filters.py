"""Filters of the core beside their slow twins in numpy and scipy, and on any rows of an image."""

import numpy as np
import pytest
from scipy import ndimage

from cutlearn import _core
from cutlearn.features.boosted import pieces
from cutlearn.features.filters import (
    DENSE_DIRECTIONS,
    ColorHistogram,
    Planes,
    bands,
    enlarged,
    gaussian,
    reduce,
    rings,
    smooth,
    whole,
)

SHAPES = [(1, 1, 1), (2, 3, 40), (1, 50, 2), (3, 31, 300)]


def noise(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("sigma", "down", "across"), [(0.7, 0, 0), (2.0, 1, 1), (8.0, 2, 0)])
def test_gaussians_are_those_of_scipy(shape, sigma, down, across):
    stack = noise(shape)
    slow = ndimage.gaussian_filter1d(stack, sigma, axis=1, order=down, truncate=3.0)
    slow = ndimage.gaussian_filter1d(slow, sigma, axis=2, order=across, truncate=3.0)
    rows = slice(shape[1] // 3, shape[1])
    fast = smooth(stack, rows, gaussian(sigma, down), gaussian(sigma, across))
    np.testing.assert_allclose(fast, slow[:, rows], rtol=0, atol=1e-6)


@pytest.mark.parametrize("step", [2, 3, 8, 11, 16])
def test_means_of_blocks(step):
    stack = noise((2, 5 * step, 3 * step))
    slow = stack.astype(float).reshape(2, 5, step, 3, step).mean(axis=(2, 4))
    np.testing.assert_allclose(reduce(stack, step), slow, rtol=0, atol=1e-6)
    more = np.pad(stack, ((0, 0), (0, 1), (0, 1)), mode="edge")  # borders are continued
    np.testing.assert_array_equal(reduce(more, step)[:, :5, :3], reduce(stack, step))
    np.testing.assert_allclose(reduce(more, step)[:, 5, 3], more[:, -1, -1], rtol=1e-6)


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("small", [(1, 1), (1, 7), (6, 1), (9, 12)])
def test_enlarged_planes_are_interpolated(small, centred):
    step, stack = 4, noise((2, *small))
    shape = (4 * small[0] - 1, 4 * small[1] - 3)
    shift = 1.5 if centred else 0.0
    place = [np.clip((np.arange(n) - shift) / step, 0, k - 1) for n, k in zip(shape, small)]
    slow = [
        ndimage.map_coordinates(plane.astype(float), np.meshgrid(*place, indexing="ij"), order=1)
        for plane in stack
    ]
    made = enlarged(stack, step, shape, centred)
    np.testing.assert_allclose(made.all(), slow, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(made.rows(1, 3), made.all()[:, 1:3])


def test_rings_are_samples_on_a_circle():
    plane, radius = noise((30, 41)), 6
    y, x = np.mgrid[:30, :41]
    seen = np.stack([
        plane[np.clip(y + round(radius * dy), 0, 29), np.clip(x + round(radius * dx), 0, 40)]
        for dy, dx in DENSE_DIRECTIONS
    ]).astype(float)  # fmt: skip
    slow = [seen.mean(axis=0), seen.std(axis=0), seen.min(axis=0), seen.max(axis=0)]
    made = rings(whole(plane), radius, np.float32(0.25))
    np.testing.assert_allclose(made.all(), slow, rtol=0, atol=1e-5)


def test_sums_of_a_palette_are_those_of_one_histogram():
    plane, weights = noise((150, 20)), noise((150, 20), 1)
    palette = ColorHistogram(whole(plane), [-2.0], [2.0], [9])
    code = np.clip((plane + 2) * (9 / 4), 0, 8).astype(int)
    np.testing.assert_array_equal(palette.code, code)
    count = np.bincount(code.ravel(), minlength=9).astype(np.float32)
    total = np.bincount(code.ravel(), weights.ravel(), minlength=9).astype(np.float32)
    wide = {"sigma": 1.0, "mode": "constant", "truncate": 3.0}
    slow = ndimage.gaussian_filter(total, **wide)
    slow /= ndimage.gaussian_filter(count, **wide) + np.float32(1e-6)
    np.testing.assert_array_equal(palette.mean_tables(whole(weights))[0], slow)


@pytest.mark.parametrize("labels", ["mixed", "ones"])
def test_pieces_have_an_area_and_a_depth(labels):
    inside = noise((90, 40)) > -0.5 if labels == "mixed" else np.ones((90, 40), bool)
    inside = ndimage.binary_opening(inside) if labels == "mixed" else inside
    size, depth = pieces(inside)
    for sign, part in ((1, inside), (-1, ~inside)):
        number, _ = ndimage.label(part)
        area = np.bincount(number.ravel())[number]
        np.testing.assert_allclose(sign * size[part], np.sqrt(area)[part], rtol=1e-6)
        away = np.full(part.shape, np.hypot(90, 40))
        if not part.all():
            away = ndimage.distance_transform_edt(part)
        np.testing.assert_allclose(sign * depth[part], away[part], rtol=1e-6)


def test_bands_cover_all_rows_once():
    for height in (1, 63, 64, 65, 1000):
        for multiple in (1, 3, 64, 100):
            found = list(bands(height, multiple))
            assert [a for a, _ in found] == [0, *(b for _, b in found[:-1])]
            assert found[-1][1] == height
            assert all(a % multiple == 0 for a, _ in found)


def test_lying_arguments_never_read_outside():
    stack, out = np.zeros((1, 4, 5), np.float32), np.zeros((1, 4, 5), np.float32)
    kernel, none = np.ones(2), np.zeros(0)
    for first, weights in ((1, kernel), (-1, kernel), (0, none)):
        with pytest.raises(ValueError, match="smooth: rows outside"):
            _core.smooth(stack, first, weights, 1.0, kernel, 1.0, out)
    with pytest.raises(ValueError, match="further than the padding"):
        _core.rings(
            np.zeros((1, 6, 7), np.float32), np.array([[0, 2]]), 1, np.zeros((4, 4, 5), np.float32)
        )
    with pytest.raises(ValueError, match="too small"):
        _core.rings(stack, np.array([[0, 1]]), 1, np.zeros((4, 4, 5), np.float32))
    low, part = np.arange(4), np.zeros(4, np.float32)
    with pytest.raises(ValueError, match="a row outside"):
        _core.enlarge(stack, low + 1, part, low, part, np.zeros((1, 4, 4), np.float32))
    with pytest.raises(ValueError, match="a column outside"):
        _core.enlarge(stack, low, part, low - 1, part, np.zeros((1, 4, 4), np.float32))
    with pytest.raises(ValueError, match="do not agree"):
        _core.enlarge(stack, low, part, low, part, out)


def test_planes_know_their_rows():
    made = Planes(1, (5, 2), lambda a, b: np.arange(a, b, dtype=np.float32)[None, :, None] * [1, 1])
    part, inside = made.around(1, 3, 4)
    assert part.shape == (1, 5, 2)
    assert part[0, inside, 0].tolist() == [1, 2]
