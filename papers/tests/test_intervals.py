"""Intervals of means that are known."""

import numpy as np
import pytest

from cutlearn_papers.intervals import over_images, over_splits


def test_one_split_has_no_interval():
    assert over_splits([0.5]).text(1) == "+0.5"
    assert not over_splits([0.5]).low > 0


def test_the_bootstrap_has_the_spread_of_a_mean():
    values = np.random.default_rng(0).normal(0.02, 0.01, 40)
    found = over_images(values)
    assert found.mean == pytest.approx(values.mean())
    assert found.high - found.low == pytest.approx(2 * 1.96 * values.std() / 40**0.5, rel=0.15)
    assert found.text(1, 100) == "+1.9 (+1.7 to +2.2)"


def test_values_of_one_image_are_drawn_together():
    values = np.random.default_rng(1).normal(0, 1, 30)
    twice = over_images(np.repeat(values, 4), np.repeat(np.arange(30), 4))
    once = over_images(values)
    assert twice.high - twice.low == pytest.approx(once.high - once.low, rel=1e-9)
