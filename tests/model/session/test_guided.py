"""What the shipped net sees: views of boxes, seeds that are felt, log-odds of colours."""

import numpy as np
import pytest

from cutlearn.features.mixtures import palette
from cutlearn.model.session.guided import (
    BEFORE,
    CHANNELS,
    REACH,
    SIDE,
    View,
    channels,
    lab_planes,
    mixture_odds,
    nearest,
    spoken,
)


def test_a_view_has_room_and_stays_in_the_image():
    assert View.of((40, 50, 80, 150), (100, 400), 0.25) == View(30, 25, 90, 175)
    assert View.of((0, 0, 80, 150), (90, 160), 0.5) == View(0, 0, 90, 160)
    assert View.of(None, (90, 160)) == View(0, 0, 90, 160)


def test_small_and_large_are_inverse_for_smooth_planes():
    y, x = np.mgrid[:200, :300]
    plane = (y + 2 * x).astype(np.float32)
    view = View(20, 30, 180, 290)
    small = view.small(plane)
    assert small.shape == (SIDE, SIDE)
    assert small.mean() == pytest.approx(plane[20:180, 30:290].mean(), rel=1e-3)
    back = view.large(small, (200, 300), -7)
    assert (back[:20] == -7).all()
    assert back[25:175, 40:280] == pytest.approx(plane[25:175, 40:280], abs=2)


def test_seeds_are_felt_around_them():
    image = np.random.default_rng(0).random((64, 64, 3)).astype(np.float32)
    found = palette(image)
    seeds = np.full((64, 64), -1, np.int16)
    seeds[32, 32] = 1
    odds = np.zeros((64, 64), np.float32)
    view = View.of(None, (64, 64))
    planes = channels(lab_planes(found), (10, 10, 50, 50), seeds, (odds, odds), view)
    assert planes.shape == (CHANNELS, SIDE, SIDE)
    zero, one = planes[6], planes[7]
    assert not zero.any()
    assert one[64, 64] == 1
    away = 66 + int(2 * REACH)  # a seed is felt as a pixel of the net more
    assert one[64, away] == pytest.approx(np.exp(-2), abs=0.02)
    assert planes[3].mean() == pytest.approx((40 / 64) ** 2, abs=1e-3)


def test_odds_need_a_background():
    found = palette(np.random.default_rng(0).random((20, 20, 3)).astype(np.float32))
    open_ = np.full((20, 20), -1, np.int16)
    for odds in mixture_odds(found, open_, True):
        assert not odds.any()
    open_[5:8, 5:8] = 1  # seeds of one label alone
    for odds in mixture_odds(found, open_, False):
        assert not odds.any()


def test_strokes_speak_for_near_pixels_of_their_color():
    """Two halves of different colours: a stroke in one says little of the other."""
    image = np.zeros((96, 96, 3), np.float32)
    image[:, :48], image[:, 48:] = (0.8, 0.2, 0.2), (0.2, 0.3, 0.8)
    lab = lab_planes(palette(image))
    marked = np.zeros((96, 96), bool)
    view = View.of(None, (96, 96))
    assert not spoken(lab, marked, view).any()
    marked[46:50, 38:42] = True
    found = spoken(lab, marked, view)
    assert found[48, 40] > 0.95  # itself
    assert found[48, 45] > 0.7  # near, the same colour
    assert abs(found[48, 50]) < 0.05  # near, the other colour
    assert abs(found[2, 2]) < 0.05  # far away


@pytest.mark.parametrize("count", [1, 7, 300])
def test_the_nearest_mark_is_the_nearest(count):
    rng = np.random.default_rng(count)
    marked = np.zeros((40, 60), bool)
    marked.ravel()[rng.choice(marked.size, count, replace=False)] = True
    square, row, column = nearest(marked)
    rows, columns = np.nonzero(marked)
    y, x = np.mgrid[:40, :60]
    every = (y[..., None] - rows) ** 2 + (x[..., None] - columns) ** 2
    assert (square == every.min(axis=-1)).all()
    assert ((y - row) ** 2 + (x - column) ** 2 == square).all()
    assert marked[row, column].all()


def test_what_was_said_before_is_seen():
    image = np.random.default_rng(0).random((64, 64, 3)).astype(np.float32)
    lab, odds = lab_planes(palette(image)), np.zeros((64, 64), np.float32)
    view = View(10, 10, 40, 50)
    assert not channels(lab, None, None, (odds, odds), view)[BEFORE].any()
    seen = channels(lab, None, None, (odds, odds), view, odds + 3)
    assert (seen[BEFORE] == 3).all()
