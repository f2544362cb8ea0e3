"""The simulated user: boxes with room, strokes in the middle of the largest error."""

import numpy as np
from simulated_user import drawn_box, next_stroke


def test_the_box_stays_in_the_image_and_holds_the_object():
    truth = np.zeros((20, 30), np.uint8)
    truth[2:12, 5:25] = 1
    assert drawn_box(truth, 0.0) == (2, 5, 12, 25)
    assert drawn_box(truth, 1.0) == (0, 0, 20, 30)
    assert drawn_box(truth, np.array([0.1, 0.2, 0.3, 0.1])) == (1, 1, 15, 27)


def test_a_stroke_marks_the_largest_error_with_the_truth():
    truth = np.zeros((60, 60), np.uint8)
    truth[10:50, 10:30] = 1
    labels = np.zeros_like(truth)
    labels[0:5, 0:5] = 1  # a small error of the other kind
    seeds = np.full(truth.shape, -1, np.int16)
    found = next_stroke(truth, labels, seeds)
    assert set(np.unique(found)) == {-1, 1}
    assert (truth[found == 1] == 1).all()
    rows, columns = np.nonzero(found == 1)
    assert 15 <= rows.mean() <= 45
    assert abs(columns.mean() - 19.5) <= 1
    assert (seeds == -1).all()  # what was given is not changed


def test_nothing_wrong_or_void_asks_for_no_stroke():
    truth = np.zeros((8, 8), np.uint8)
    truth[2:4] = 255
    seeds = np.full(truth.shape, -1, np.int16)
    assert (next_stroke(truth, np.where(truth == 255, 1, 0).astype(np.uint8), seeds) == -1).all()
