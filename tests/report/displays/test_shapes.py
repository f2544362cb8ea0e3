"""The picture of learned shapes shows what the model says, where it says it."""

import numpy as np
import pytest
from matplotlib.patches import Rectangle

import cutlearn as cl
from cutlearn.report.displays.shapes import COLUMNS, ShapesDisplay
from cutlearn.shape.generative import fit_shapes

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
