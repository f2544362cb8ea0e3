"""The facts of images: fingerprints tell different pixels apart, and know equal ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cutlearn.images import as_image
from cutlearn.images.sample import facts_of


def digest(array):
    return facts_of(as_image(array)).digest


def test_dark_16_bit_images_have_digests_of_their_own():
    rng = np.random.default_rng(0)
    dark = [rng.integers(0, 100, (30, 40)).astype(np.uint16) for _ in range(6)]
    assert len({digest(one) for one in dark}) == 6
    bright = 60_000 * np.ones((3, 4), np.uint16)
    other = bright.copy()
    other[1, 2] += 1
    assert digest(bright) != digest(other)
    assert digest(np.full((3, 4), 1e-7)) != digest(np.full((3, 4), 2e-7))


@given(hnp.arrays(np.uint8, (3, 5)))
def test_equal_pixels_have_one_digest_in_every_type(pixels):
    wide = pixels.astype(np.uint16) * 257
    grey = np.dstack([pixels] * 3)
    alike = [wide, grey, pixels / 255, (pixels / 255).astype(np.float32), np.asfortranarray(pixels)]
    assert {digest(one) for one in alike} == {digest(pixels)}


@given(hnp.arrays(np.uint16, (2, 3)), st.integers(0, 5), st.integers(1, 65_535))
def test_one_other_value_is_another_digest(pixels, place, step):
    other = pixels.copy()
    other.flat[place] = (int(other.flat[place]) + step) % 65_536
    assert digest(other) != digest(pixels)


@pytest.mark.parametrize("shape", [(2, 6), (6, 2), (12, 1)])
def test_the_shape_counts(shape):
    assert digest(np.zeros((3, 4))) != digest(np.zeros(shape))


def test_zero_has_no_sign():
    assert digest(np.zeros((3, 4), np.float32)) == digest(-np.zeros((3, 4), np.float32))
