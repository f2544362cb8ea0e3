"""Displays against hand-made pictures and numbers, and what they refuse."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.patches import Rectangle

import cutlearn as cl
from cutlearn.errors import InputError
from cutlearn.images.write import PALETTE
from cutlearn.metrics import beliefs
from cutlearn.report.displays import (
    COLORS,
    COLUMNS,
    AreaDisplay,
    MasksDisplay,
    ProbabilityDisplay,
    ReliabilityDisplay,
    RocDisplay,
    ShapesDisplay,
    TrainingDisplay,
    borders_over,
    errors_over,
    rgb,
)
from cutlearn.shape.generative import fit_shapes
from drawn_probabilities import drawn

GREY = np.full((6, 8), 0.5)
COLOR = np.array(PALETTE[1]) / 255


def bordered(mask, numbers=None):
    return (borders_over(GREY, mask, numbers) == COLOR).all(axis=-1)


def test_objects_that_touch_are_parted():
    mask = np.zeros((6, 8), np.uint8)
    mask[1:5, 1:7] = 1
    numbers = mask.astype(np.int32)
    numbers[1:5, 4:7] = 2
    ring = mask > 0
    ring[2:4, 2:6] = False
    assert (bordered(mask) == ring).all()
    parted = ring.copy()
    parted[1:5, 3:5] = True
    assert (bordered(mask, numbers) == parted).all()


def test_pixels_of_no_object_have_no_border():
    mask = np.ones((6, 8), np.uint8)
    numbers = np.zeros((6, 8), np.int32)
    numbers[:3] = 1
    painted = borders_over(GREY, mask, numbers)
    found = bordered(mask, numbers)
    # The image's own margin is no border of an object that continues beyond it.
    assert found[2].all()
    assert found.sum() == 8
    assert (painted[3:] != rgb_of_grey()).any(axis=-1).all()


def rgb_of_grey():
    return borders_over(GREY, np.zeros((6, 8), np.uint8))[0, 0]


def test_borders_are_those_of_each_label():
    mask = np.zeros((6, 8), np.uint8)
    mask[:, 4:] = 2
    painted = borders_over(GREY, mask)
    second = (painted == np.array(PALETTE[2]) / 255).all(axis=-1)
    assert second[:, 4].all()
    assert second.sum() == 6


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


def test_displays_show_the_figures():
    from matplotlib.figure import Figure

    rng = np.random.default_rng(3)
    models = {"honest": beliefs(*drawn(rng)), "bold": beliefs(*drawn(rng, honest=False))}
    left, right = Figure().subplots(1, 2)
    shown = ReliabilityDisplay(models).plot(left)
    assert shown.ax_ is left
    words = [text.get_text() for text in left.get_legend().get_texts()]
    assert words == [f"{n}: error {b.calibration_error():.2%}" for n, b in models.items()]
    x, y = left.lines[1].get_data()
    assert np.abs(y - x).max() < 0.25
    RocDisplay(models).plot(right)
    assert f"{models['bold'].auc():.4f}" in right.get_legend().get_texts()[1].get_text()
    assert right.lines[1].get_ydata()[-1] == 1


def test_maps_show_probability_and_entropy():
    _, q = drawn(np.random.default_rng(4))
    shown = ProbabilityDisplay([q[..., 1]], [q]).plot()
    assert np.array_equal(shown.axes_[0, 1].images[0].get_array(), q[..., 1])
    assert shown.axes_[0, 2].images[0].get_clim() == (0, 1)
    with pytest.raises(InputError, match="one for each"):
        ProbabilityDisplay([q[..., 1]], []).plot()


MASKS = np.stack([np.pad(np.ones((6, 4)), ((k % 3, 6 - k % 3), (k, 8 - k))) for k in range(9)])


@pytest.mark.parametrize("hidden", [(8,), (8, 4)])
def test_rows_hold_what_the_model_says(hidden):
    model = fit_shapes(MASKS, hidden, (30, 30))
    known = np.zeros((12, 12), bool)
    known[:, :7] = True
    shown = ShapesDisplay.from_model(model, MASKS, known)
    assert shown.rows["filters"].shape == (8 // (4 if len(hidden) == 2 else 1), *model.patches.size)
    first = shown.rows["filters"][0].ravel()
    assert any(np.array_equal(first, column) for column in model.W.T)
    assert np.array_equal(shown.rows["mask"], MASKS)
    assert (shown.rows["given"][:, ~known] == 0.5).all()
    assert (shown.rows["completed"][:, known] == MASKS[:, known]).all()
    assert np.array_equal(shown.rows["seen through"], model.reconstruct(MASKS))
    assert ("patches" in shown.rows) == (len(hidden) == 2)


def test_patches_are_framed_where_they_lie():
    model = fit_shapes(MASKS, (8, 4), (3, 3))
    ax = ShapesDisplay.from_model(model).plot().axes_["patches"]
    frames = [shape for shape in ax.patches if isinstance(shape, Rectangle)]
    assert len(frames) == 4
    for k, (frame, (row, column)) in enumerate(zip(frames, model.patches.corners)):
        assert frame.get_xy() == (k * 13 + column - 0.5, row - 0.5)
        assert (frame.get_height(), frame.get_width()) == model.patches.size


def test_many_masks_fill_one_line_and_rows_share_their_scale():
    model = fit_shapes(MASKS, (30,), (3,))
    shown = ShapesDisplay.from_model(model, np.concatenate([MASKS, MASKS])).plot()
    assert len(shown.rows["mask"]) == COLUMNS
    widths = {tuple(ax.get_xlim()) for ax in shown.axes_.values()}
    assert len(widths) == 1


def test_a_fitted_segmenter_shows_its_shapes():
    rng = np.random.default_rng(0)
    images = [0.3 * m[..., None] + rng.random((12, 12, 3)) / 2 for m in MASKS]
    sizes = {"shape": (12, 12), "hidden": (8, 4), "words": (8, 4), "epochs": (3, 3), "cycles": 1}
    model = cl.BoltzmannSegmenter(2, refine=False, n_jobs=1, **sizes).fit(images, list(MASKS))
    shown = ShapesDisplay.from_model(model, MASKS[:2])
    assert np.array_equal(shown.rows["seen through"], model.shapes().reconstruct(MASKS[:2]))
    bare = cl.BoltzmannSegmenter(0, refine=False, n_jobs=1, **sizes).fit(images, list(MASKS))
    with pytest.raises(cl.InputError, match="has no hidden layers"):
        ShapesDisplay.from_model(bare)
