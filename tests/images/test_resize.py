import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutlearn.errors import InputError
from cutlearn.images.resize import resize_image, resize_labels, side_shape

SIDES = st.integers(1, 60)


@given(SIDES, SIDES, SIDES)
def test_the_smaller_side_has_the_wanted_length(rows, columns, side):
    shape = side_shape((rows, columns), side)
    assert min(shape) == side
    factor = side / min(rows, columns)
    assert abs(shape[0] - factor * rows) <= 0.5
    assert abs(shape[1] - factor * columns) <= 0.5


def test_refuses_no_pixels():
    with pytest.raises(InputError, match="min_side"):
        side_shape((3, 4), 0)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 5), st.integers(0, 99))
def test_labels_there_and_back_by_a_whole_factor_are_the_same(rows, columns, factor, seed):
    labels = np.random.default_rng(seed).choice(np.array([0, 1, 255], np.uint8), (rows, columns))
    large = resize_labels(labels, (factor * rows, factor * columns))
    assert np.array_equal(large, np.kron(labels, np.ones((factor, factor), np.uint8)))
    assert np.array_equal(resize_labels(large, (rows, columns)), labels)


def test_images_are_averaged_and_stay_in_range():
    fine = np.indices((40, 60)).sum(axis=0) % 2
    small = resize_image(fine.astype(np.float32), (10, 15))
    assert small.dtype == np.float32
    assert small[2:-2, 2:-2] == pytest.approx(0.5, abs=0.02)  # sampling would give 0 or 1
    colour = np.random.default_rng(0).random((20, 30, 3)).astype(np.float32)
    large = resize_image(colour, (50, 75))
    assert large.shape == (50, 75, 3)
    assert 0 <= large.min() < large.max() <= 1


def test_the_same_size_changes_nothing():
    image = np.random.default_rng(0).random((7, 9)).astype(np.float32)
    assert resize_image(image, (7, 9)) is image
