import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from cutlearn.errors import InputError
from cutlearn.report.displays import AreaDisplay, MasksDisplay, TrainingDisplay
from cutlearn.report.displays.overlay import COLORS, errors_over, rgb


def steps(n):
    return [
        SimpleNamespace(
            number=k, best=1 + 1 / k, lower_bound=1 - 1 / k, relative_gap=2 / k, tol=0.01
        )
        for k in range(1, n + 1)
    ]


def test_training_curve_keeps_its_numbers_and_shows_them():
    curve = TrainingDisplay.from_steps(steps(9)).plot()
    upper, lower = curve.ax_.lines
    assert np.array_equal(upper.get_ydata(), 1 + 1 / np.arange(1, 10))
    assert np.array_equal(lower.get_ydata(), 1 - 1 / np.arange(1, 10))
    bottom, top = curve.ax_.get_ylim()
    assert bottom < curve.lower_bound[-1] < curve.objective[-1] < top
    assert "22.22%" in curve.ax_.get_legend().get_title().get_text()
    assert curve.ax_.get_xlabel() == "step"


def test_training_curve_without_a_bound_shows_none():
    curve = TrainingDisplay.from_steps(steps(9), bounded=False).plot()
    (only,) = curve.ax_.lines
    assert np.array_equal(only.get_ydata(), 1 + 1 / np.arange(1, 10))
    bottom, top = curve.ax_.get_ylim()
    assert bottom < 1 + 1 / 9 < 1 + 1 / 5 < top
    assert "%" not in curve.ax_.get_legend().get_title().get_text()


def test_training_curve_of_one_step_and_of_none():
    curve = TrainingDisplay.from_steps(steps(1)).plot()
    bottom, top = curve.ax_.get_ylim()
    assert bottom < top
    with pytest.raises(InputError, match="Train first"):
        TrainingDisplay.from_steps([])


def test_displays_draw_into_given_axes():
    from matplotlib.figure import Figure

    left, right = Figure().subplots(1, 2)
    assert TrainingDisplay.from_steps(steps(3)).plot(left).ax_ is left
    area = AreaDisplay([10, 30], {"a": [12, 29], "b": [9, 40]}).plot(right)
    assert area.ax_ is right
    low, high = right.get_xlim()
    assert right.get_ylim() == (low, high)
    assert 0 <= low < 9
    assert 40 < high < 50
    assert [text.get_text() for text in right.get_legend().get_texts()] == ["a", "b"]


def test_errors_are_painted_where_they_are():
    truth = np.array([[1, 1, 0, 0, 255]])
    guess = np.array([[1, 0, 1, 0, 1]])
    dark = np.zeros((1, 5, 3))
    painted = errors_over(dark, truth, guess)
    for column, kind in enumerate(("hit", "missed", "extra")):
        color = painted[0, column] / painted[0, column].max()
        wanted = np.array(COLORS[kind]) / max(COLORS[kind])
        assert color == pytest.approx(wanted, abs=1e-12)
    assert np.array_equal(painted[0, 3], [0, 0, 0])
    assert painted[0, 4, 0] == painted[0, 4, 1] == painted[0, 4, 2] > 0  # void is grey
    assert not dark.any()  # the image itself is left as it was


def test_masks_of_two_models():
    image = np.linspace(0, 1, 20).reshape(4, 5)
    mask = (image > 0.5).astype(np.uint8)
    models = {"good": [mask, mask], "none": [0 * mask, 0 * mask]}
    shown = MasksDisplay.from_predictions([image, image], [mask, mask], models).plot()
    assert shown.axes_.shape == (2, 4)
    assert [ax.get_title() for ax in shown.axes_[0]] == ["image", "truth", "good", "none"]
    assert shown.axes_[1, 2].get_xlabel() == "IoU 1.00, area +0.0%"
    assert shown.axes_[1, 3].get_xlabel() == "IoU 0.00, area -100.0%"


def test_masks_of_other_lengths_are_refused():
    blank = np.zeros((2, 2))
    with pytest.raises(InputError, match="lengths"):
        MasksDisplay.from_predictions([blank], [blank], [blank, blank])
    with pytest.raises(InputError, match="lengths"):
        MasksDisplay.from_predictions([], [], [])


def test_grey_and_colour_become_rgb_and_hot_pixels_do_not_darken():
    grey = np.full((50, 50), 0.2)
    grey[:25] = 0.1
    grey[0, 0] = 1.0
    shown = rgb(grey)
    assert shown.shape == (50, 50, 3)
    assert shown[-1, -1, 0] == 1
    assert rgb(np.random.default_rng(0).random((4, 5, 3))).shape == (4, 5, 3)
    assert np.array_equal(rgb(np.full((3, 3), 0.7)), np.zeros((3, 3, 3)))


ALONE = """
import sys
from cutlearn.report.displays import AreaDisplay
AreaDisplay([10, 30], {"a": [12, 29]}).plot()
assert "matplotlib.figure" in sys.modules
assert "matplotlib.pyplot" not in sys.modules
"""


def test_no_global_state_of_matplotlib_is_touched():
    # In a process of its own: another test may have imported pyplot.
    subprocess.run([sys.executable, "-c", ALONE], check=True)
