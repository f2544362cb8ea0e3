"""Both losses against plain sums, edges, blocks, wins; and the experiment in brief."""

import numpy as np
import pytest

from cutlearn_papers.pletscher2012 import share_of, wins_of
from cutlearn_papers.pletscher2012_data import (
    LOSSES,
    STRUCTURES,
    blocks_of,
    drawn_strokes,
    edge_features,
    losses_of,
    split_of,
    stroke_features,
)


def test_losses_leave_void_out():
    mask = np.array([[0, 1, 1, 255]], np.uint8)
    labels = np.array([[1, 0, 1, 1]], np.uint8)
    assert losses_of(mask, labels) == pytest.approx((2 / 3, 0.0))
    assert losses_of(mask, np.ones_like(mask)) == pytest.approx((1 / 3, 1 / 3))


@pytest.mark.parametrize("structure", STRUCTURES)
def test_weights_of_edges_span_all_submodular_ones(structure):
    connectivity, apart = STRUCTURES[structure]
    image = np.random.default_rng(0).random((4, 5, 3)).astype(np.float32)
    features = edge_features(image, connectivity, apart)
    assert features.shape[1] == (2 if not apart else connectivity)
    assert features.min() >= 0
    # Each edge has d and 1 - d in the columns of its direction, and nothing elsewhere.
    assert np.allclose(features.sum(axis=1), 1)
    first = np.abs(image[0, 0] - image[0, 1]).max()
    assert np.isclose(features, first).any()


def test_splits_are_whole_and_blocks_stay_together():
    for seed in range(4):
        for split in (split_of(10, (4, 2), seed), blocks_of(10, (4, 2), seed)):
            assert sorted(i for part in split.values() for i in part) == list(range(10))
        block = blocks_of(10, (4, 2), seed)["training"]
        assert [(b - block[0]) % 10 for b in block] == [0, 1, 2, 3]
    assert blocks_of(10, (4, 2), 0) != blocks_of(10, (4, 2), 1)


def test_posteriors_follow_the_strokes():
    image = np.zeros((12, 16, 3), np.float32)
    image[:, 8:] = 0.8
    image += np.random.default_rng(1).normal(0, 0.02, image.shape).astype(np.float32)
    strokes = np.zeros((12, 16), np.uint8)
    strokes[:, 12:], strokes[:, :4] = 1, 2
    features = stroke_features(np.clip(image, 0, 1), strokes)
    assert features.shape == (12, 16, 6)
    assert features[:, 8:, 3].min() > 0.9 > 0.1 > features[:, :8, 3].max()
    assert np.allclose(features[..., 3] + features[..., 4], features[..., 5])


def test_wins_leave_ties_out():
    losses = np.zeros((2, 4, 2))
    losses[0, :, 1] = [3, 1, 2, 5]
    losses[1, :, 1] = [1, 2, 2, 4]
    won, ties = wins_of([{"losses": losses}], 1)
    assert won.tolist() == pytest.approx([200 / 3])
    assert ties == 1
    share = share_of([[{"losses": losses, "images": list("abcd")}]], 1)
    assert share.mean == pytest.approx(200 / 3)
    assert share.low <= share.mean <= share.high


def test_the_experiment_in_brief(quick):
    told = quick("pletscher2012")
    assert len(told["figures"]) == 4 + 2 + 2
    for name, splits in told["figures"].items():
        if name not in ("milliseconds", "training"):
            losses = np.array(splits[0]["losses"])
            assert losses.shape[0] == losses.shape[2] == len(LOSSES)
            # What counts are off by is never more than the pixels that are wrong.
            assert (losses[..., 1] <= losses[..., 0] + 1e-12).all()
    assert (quick.folder / "pletscher2012-masks.png").exists()
    text = (quick.folder / "pletscher2012.md").read_text()
    assert "| count loss lowered directly |" in text


def test_strokes_are_drawn_inside_their_regions():
    mask = np.zeros((30, 40), np.uint8)
    mask[8:22, 10:30] = 1
    strokes = drawn_strokes(mask)
    assert set(np.unique(strokes)) == {0, 1, 2}
    assert (mask[strokes == 1] == 1).all()
    assert (mask[strokes == 2] == 0).all()


def test_mixtures_that_are_fitted_again_leave_strokes_as_they_are():
    rng = np.random.default_rng(2)
    image = np.zeros((12, 16, 3), np.float32)
    image[:, 8:] = 0.8
    image = np.clip(image + rng.normal(0, 0.02, image.shape), 0, 1).astype(np.float32)
    strokes = np.zeros((12, 16), np.uint8)
    strokes[:, 12:], strokes[:, :4] = 1, 2
    features = stroke_features(image, strokes, again=True)
    assert features[:, 8:, 3].min() > 0.9 > 0.1 > features[:, :8, 3].max()
