"""Figures by hand, against plain loops over pixels, and the laws of adding up."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cutlearn import metrics
from cutlearn.errors import InputError
from cutlearn.metrics import confusion, confusions, total

SHAPE = (4, 5)
truths = hnp.arrays(np.uint8, SHAPE, elements=st.sampled_from([0, 1, 2, 255]))
guesses = hnp.arrays(np.uint8, SHAPE, elements=st.integers(0, 2))


def by_sets(truth, predicted, label):
    pixels = [i for i in range(truth.size) if truth.flat[i] != 255]
    a = {i for i in pixels if truth.flat[i] == label}
    b = {i for i in pixels if predicted.flat[i] == label}
    return len(a), len(b), len(a & b), len(a | b), len(pixels)


@given(truths, guesses, st.integers(0, 3))
def test_figures_equal_those_of_sets_of_pixels(truth, predicted, label):
    n_true, n_guess, both, either, _ = by_sets(truth, predicted, label)
    table = confusion(truth, predicted)
    assert table.area(label) == (n_true, n_guess)
    assert table.iou(label) == (both / either if either else 1.0)
    assert table.count_error(label) == abs(n_true - n_guess)
    if n_true:
        assert table.count_error(label, relative=True) == abs(n_true - n_guess) / n_true


@given(truths, guesses)
def test_mean_iou_and_pixel_error_of_one_image(truth, predicted):
    assume((truth != 255).any())
    parts = [by_sets(truth, predicted, k) for k in range(3)]
    present = [both / either for _, _, both, either, _ in parts if either]
    assert metrics.mean_iou([truth], [predicted]) == pytest.approx(sum(present) / len(present))
    right, n = sum(p[2] for p in parts), parts[0][4]
    assert metrics.pixel_error([truth], [predicted]) == pytest.approx(1 - right / n)


@given(truths, guesses, guesses)
def test_what_is_predicted_on_void_does_not_matter(truth, predicted, other):
    mixed = np.where(truth == 255, other, predicted)
    assert confusion(truth, predicted, 3) == confusion(truth, mixed, 3)


@given(st.lists(st.tuples(truths, guesses), min_size=1, max_size=4), st.integers(0, 2))
def test_pooled_is_the_figure_of_one_long_image(pairs, label):
    masks, predictions = zip(*pairs)
    joined = confusion(np.concatenate(masks), np.concatenate(predictions), 3)
    tables = confusions(masks, predictions, 3)
    assert total(tables) == joined
    assert total(reversed(tables)) == joined
    assert metrics.pooled_iou(masks, predictions, label) == joined.iou(label)


@given(truths)
def test_the_truth_itself_is_perfect(truth):
    table = confusion(truth, np.where(truth == 255, 0, truth))
    assert all(table.iou(k) == 1 and table.count_error(k) == 0 for k in range(3))


def test_tables_of_different_numbers_of_labels_add_up():
    small, large = confusion([0, 1], [1, 1]), confusion([2, 0], [1, 0])
    assert (small + large).counts.tolist() == [[1, 1, 0], [0, 1, 0], [0, 1, 0]]
    assert small + large == large + small


def test_means_are_over_labels_then_over_images():
    # Image 1: IoU 1/2 and 2/3; image 2 has label 0 only, all right.
    value = metrics.mean_iou([[0, 0, 1, 1], [0, 0]], [[0, 1, 1, 1], [0, 0]])
    assert value == pytest.approx(((1 / 2 + 2 / 3) / 2 + 1) / 2)
    assert metrics.pixel_error([[0, 0, 1, 1], [0, 0]], [[0, 1, 1, 1], [0, 0]]) == 1 / 8
    assert metrics.count_error([[0, 0, 1, 1], [0, 0]], [[0, 1, 1, 1], [0, 0]]) == 1 / 2


def test_an_area_that_is_truly_nothing():
    assert confusion([0, 0], [0, 0]).count_error(relative=True) == 0
    assert confusion([0, 0], [0, 1]).count_error(relative=True) == math.inf


def test_another_void_value_and_bool_masks():
    assert metrics.iou([0, 1, 7], [0, 1, 0], void=7) == 1
    assert metrics.iou(np.array([False, True]), np.array([True, True])) == 1 / 2


def test_all_void_images_do_not_count_and_alone_are_refused():
    assert metrics.mean_iou([[255, 255], [0, 1]], [[0, 1], [0, 1]]) == 1
    for figure in (metrics.mean_iou, metrics.pixel_error, metrics.count_error):
        with pytest.raises(InputError, match="only void pixels"):
            figure([[255, 255]], [[0, 1]])


@pytest.mark.parametrize(
    ("truth", "predicted", "message"),
    [
        ([[0, 1]], [[0], [1]], r"has shape \(2, 1\), but the truth has shape \(1, 2\)"),
        ([0, 1], [0.2, 0.8], "type float64, but"),
        ([0, 1], [0, 255], "labels from 0 to 255, but"),
        ([0, -1], [0, 1], "labels from -1"),
    ],
)
def test_refuses_what_are_not_two_masks(truth, predicted, message):
    with pytest.raises(InputError, match=message):
        confusion(truth, predicted)


def test_refuses_lists_that_do_not_match_and_labels_beyond_the_stated():
    with pytest.raises(InputError, match="predictions has 1 masks, but there are 2 true masks"):
        confusions([[0], [1]], [[0]])
    with pytest.raises(InputError, match="at least one mask each"):
        confusions([], [])
    with pytest.raises(InputError, match="labels run from 0 to 1"):
        confusion([0, 2], [0, 1], n_labels=2)
