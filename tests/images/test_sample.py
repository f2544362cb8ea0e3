"""What a person gave is checked once, and cannot change afterwards."""

import doctest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutlearn.errors import InputError
from cutlearn.images import Sample, as_sample, sample

IMAGE = np.zeros((4, 6), np.uint8)


@given(st.data())
def test_fixed_is_seeds_inside_of_the_box_and_0_outside(data):
    top, left = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 5))
    bottom, right = data.draw(st.integers(top + 1, 4)), data.draw(st.integers(left + 1, 6))
    inside = np.zeros((4, 6), bool)
    inside[top:bottom, left:right] = True
    marks = data.draw(st.lists(st.integers(-1, 3), min_size=24, max_size=24))
    seeds = np.array(marks).reshape(4, 6)
    seeds[~inside] = np.minimum(seeds[~inside], 0)
    fixed = Sample(IMAGE, box=(top, left, bottom, right), seeds=seeds).fixed()
    assert (fixed == np.where(inside, seeds, 0)).all()
    assert (Sample(IMAGE, seeds=seeds).fixed() == seeds).all()


def test_nothing_given_leaves_all_free():
    assert (Sample(IMAGE).fixed() == -1).all()
    assert Sample(IMAGE).shape == (4, 6)


def test_it_holds_the_canonical_forms():
    one = Sample(IMAGE + np.uint8(255), np.array([0.0, 0, 4, 6]), extra=np.ones((4, 6), np.int64))
    assert one.image.dtype == np.float32
    assert one.image.max() == 1
    assert one.box == (0, 0, 4, 6)
    assert all(isinstance(v, int) for v in one.box)
    assert one.extra.shape == (4, 6, 1)
    assert one.extra.dtype == np.float32


def test_it_cannot_be_changed_and_leaves_the_giver_free():
    mine = np.zeros((4, 6), np.float32)
    one = Sample(mine, seeds=np.full((4, 6), -1))
    for array in (one.image, one.seeds):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 1
    with pytest.raises(AttributeError):
        one.box = (0, 0, 1, 1)
    mine[0, 0] = 0.5  # the caller's own array stays writeable, and apart
    assert one.image[0, 0] == 0
    assert np.shares_memory(Sample(one.image).image, one.image)


def test_a_sample_is_accepted_as_itself():
    one = Sample(IMAGE)
    assert as_sample(one) is one
    assert as_sample(IMAGE).shape == (4, 6)


SEEDS = np.full((4, 6), -1)
OUTSIDE = SEEDS.copy()
OUTSIDE[3, 5] = 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"box": (0, 0, 5, 6)}, r"^box is \(0, 0, 5, 6\), but .* 4 rows and 6 columns"),
        ({"box": (2, 0, 2, 6)}, "top < bottom"),
        ({"box": (0, -1, 2, 6)}, "^box"),
        ({"box": (0, 0, 2)}, "^box"),
        ({"box": (0, 0, 1.5, 2)}, "whole numbers"),
        ({"box": "abcd"}, "^box"),
        ({"seeds": SEEDS[:2]}, r"shape \(2, 6\)"),
        ({"seeds": np.zeros((4, 6), np.uint8)}, "signed integers"),
        ({"seeds": SEEDS + 300}, "299"),
        ({"seeds": SEEDS - 1}, "from -2"),
        ({"seeds": OUTSIDE, "box": (0, 0, 2, 2)}, "outside of the box"),
        ({"extra": np.zeros((6, 4))}, r"shape \(6, 4\)"),
        ({"extra": np.full((4, 6), np.nan)}, "NaN"),
        ({"extra": np.full((4, 6), 1e300)}, "infinite"),
        ({"extra": np.full((4, 6), "a")}, "type <U1"),
    ],
)
def test_refusals(given, message):
    with pytest.raises(InputError, match=message):
        Sample(IMAGE, **given)


def test_examples_of_the_docstrings():
    assert doctest.testmod(sample).failed == 0
