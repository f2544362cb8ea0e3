"""Compositions in brief; what a second look sees of colours and shapes."""

import numpy as np

from cutlearn_papers import beyond
from cutlearn_papers.beyond_second import FOLDS, Rbm, color_columns, shape_columns
from cutlearn_papers.pictures import Pictures


def test_every_composition_stands_beside_its_parts(quick):
    told = quick("beyond")
    for name in beyond.SETS:
        parts = told["figures"][name]
        for model in beyond.FITS:
            figures = parts[0][model]
            assert list(figures) == list(beyond.MEASURES), name
            assert 0 <= figures["iou"] <= 1
            assert figures["likely"] <= 0
    assert len(told["claims"]) == 2 * 19
    assert all(c["paper"] == beyond.NEW for c in told["claims"])


def test_colours_of_an_image_mend_labels_that_miss_a_part():
    image = np.zeros((12, 12, 3), np.float32)
    image[:, 6:] = (0.9, 0.1, 0.1)
    truth = (image[..., 0] > 0.5).astype(np.uint8)
    first = truth.copy()
    first[:3] = 0
    (found,) = color_columns(Pictures(["a"], [image], [truth]), [first])
    assert ((found > 0) == (truth == 1)).all()


def test_shapes_complete_labels_and_do_not_know_a_training_mask_by_heart():
    usual, odd = np.zeros((4, 6), np.uint8), np.zeros((4, 6), np.uint8)
    usual[:, :3] = 1
    odd[:, 3:] = 1
    masks = [odd, *[usual] * 11]
    first = usual.copy()
    first[0] = 0
    rbm = Rbm((4, 6), 6, 200)
    inside, outside = shape_columns(rbm, masks, 0, [first] * len(masks), [first])
    assert ((outside[0] > 0) == (usual == 1)).all()
    # The RBMs of the other folds have never seen the odd mask, the one for new images has.
    others = rbm.learn([mask for i, mask in enumerate(masks) if i % FOLDS != 0], 0)
    assert np.array_equal(inside[0], rbm.odds(others, first))
    assert not np.array_equal(inside[0], outside[0])
