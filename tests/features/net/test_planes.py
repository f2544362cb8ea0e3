"""The layers in the core beside slow twins in numpy, on sizes beyond a tile and a block."""

import numpy as np
import pytest

from cutlearn import _core
from cutlearn.features.net.body import (
    LEAST,
    PlaneLayout,
    convolve,
    convolve_back,
    enlarge,
    enlarge_back,
    kernel_back,
    normalise,
    normalise_back,
    pool,
    pool_back,
    rectify,
)

# Pictures, rows, columns: less than a tile; more than a block; odd rests of both.
SIZES = [(1, 2, 2), (1, 4, 6), (3, 20, 18), (2, 24, 70)]


def drawn(layout, channels, seed=0):
    rng = np.random.default_rng(seed)
    pixels = rng.normal(size=(channels, *layout.size)).astype(np.float32)
    return layout.put(pixels), pixels.astype(float)


def neighbours(pixels):
    """(9, c, n, h, w): the pixel in every direction, row by row, zero outside."""
    h, w = pixels.shape[2:]
    wide = np.pad(pixels, [(0, 0), (0, 0), (1, 1), (1, 1)])
    return np.stack([wide[:, :, y : y + h, x : x + w] for y in range(3) for x in range(3)])


def is_clean(planes, layout):
    """Nothing lies between the pictures."""
    return np.array_equal(layout.put(layout.view(planes)), planes)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("c", "o"), [(1, 1), (3, 5), (8, 20), (5, 33)])
def test_convolution_and_its_gradients(size, c, o):
    layout, rng = PlaneLayout(*size), np.random.default_rng(1)
    planes, pixels = drawn(layout, c)
    slope, steep = drawn(layout, o, 2)
    kernel = rng.normal(size=(o, 9 * c)).astype(np.float32)
    taps = kernel.reshape(o, 9, c).astype(float)
    found = convolve(planes, kernel, layout)
    assert is_clean(found, layout)
    slow = np.einsum("oki,kinhw->onhw", taps, neighbours(pixels))
    np.testing.assert_allclose(layout.view(found), slow, rtol=0, atol=2e-5 * c)
    back = convolve_back(slope, kernel, layout)
    slow = np.einsum("oki,konhw->inhw", taps[:, ::-1], neighbours(steep))
    np.testing.assert_allclose(layout.view(back), slow, rtol=0, atol=2e-5 * o)
    slow = np.einsum("onhw,kinhw->oki", steep, neighbours(pixels)).reshape(o, 9 * c)
    found = kernel_back(slope, planes, layout)
    np.testing.assert_allclose(found, slow, rtol=0, atol=1e-6 * layout.pixels + 1e-5)


@pytest.mark.parametrize("size", SIZES)
def test_normalising_and_back(size):
    layout = PlaneLayout(*size)
    planes, u = drawn(layout, 3)
    gain, shift = (np.array(part, np.float32) for part in ([1, 0.5, -2], [0, 1, -0.25]))
    out, mean, variance = normalise(planes, gain, shift, layout)
    axes = (1, 2, 3)
    np.testing.assert_allclose(mean, u.mean(axis=axes), rtol=0, atol=1e-5)
    np.testing.assert_allclose(variance, u.var(axis=axes), rtol=1e-4)
    each = np.s_[:, None, None, None]
    deviation = np.sqrt(u.var(axis=axes) + LEAST)[each]
    v = (u - u.mean(axis=axes)[each]) / deviation
    z = np.maximum(0, v * gain[each] + shift[each])
    np.testing.assert_allclose(layout.view(out), z, rtol=0, atol=1e-4)
    slope, steep = drawn(layout, 3, 4)
    steep = steep * (layout.view(out) > 0)
    by_shift, by_gain = normalise_back(slope, planes, out, (mean, variance), gain, layout)
    np.testing.assert_allclose(by_shift, steep.sum(axis=axes), rtol=0, atol=1e-3)
    np.testing.assert_allclose(by_gain, (steep * v).sum(axis=axes), rtol=0, atol=1e-3)
    flat = steep - steep.mean(axis=axes)[each] - v * (steep * v).mean(axis=axes)[each]
    np.testing.assert_allclose(layout.view(slope), gain[each] / deviation * flat, rtol=0, atol=1e-3)
    assert is_clean(out, layout)
    assert is_clean(slope, layout)


@pytest.mark.parametrize("size", SIZES)
def test_between_levels(size):
    layout, half = PlaneLayout(*size), PlaneLayout(*size).halved()
    planes, pixels = drawn(layout, 2)
    blocks = pixels.reshape(2, half.n, half.h, 2, half.w, 2)
    pooled = pool(planes, layout)
    assert np.array_equal(half.view(pooled), blocks.max(axis=(3, 5)))
    low, deep = drawn(half, 2, 1)
    slope, steep = drawn(layout, 2, 2)
    large = np.repeat(np.repeat(deep, 2, axis=2), 2, axis=3)
    wanted = steep + large * (pixels == np.repeat(np.repeat(blocks.max(axis=(3, 5)), 2, 2), 2, 3))
    pool_back(low, pooled, planes, slope, layout)
    np.testing.assert_allclose(layout.view(slope), wanted, rtol=0, atol=1e-6)
    made = enlarge(low, planes, layout)
    np.testing.assert_allclose(layout.view(made), pixels + large, rtol=0, atol=1e-6)
    small = enlarge_back(planes, layout)
    np.testing.assert_allclose(half.view(small), blocks.sum(axis=(3, 5)), rtol=0, atol=1e-5)
    rectify(planes, np.array([0.5, -1], np.float32), layout)
    shifted = np.maximum(0, pixels + np.array([0.5, -1])[:, None, None, None])
    np.testing.assert_allclose(layout.view(planes), shifted, rtol=0, atol=1e-6)
    for part, where in ((pooled, half), (slope, layout), (made, layout), (small, half)):
        assert is_clean(part, where)


def test_the_core_refuses_arrays_that_do_not_agree():
    layout = PlaneLayout(1, 4, 4)
    planes, _ = drawn(layout, 2)
    kernel = np.zeros((3, 18), np.float32)
    with pytest.raises(ValueError, match="length"):
        _core.net_convolve(planes[:, 1:].copy(), kernel, layout.size, layout.empty(3, np.float32))
    with pytest.raises(ValueError, match="channels"):
        _core.net_convolve(planes, kernel, layout.size, layout.empty(4, np.float32))
    with pytest.raises(ValueError, match="no or too many"):
        _core.net_pool(planes, (0, 4, 4), planes)
    with pytest.raises(TypeError):
        _core.net_convolve(planes, kernel.astype(float), layout.size, layout.empty(3, np.float32))
