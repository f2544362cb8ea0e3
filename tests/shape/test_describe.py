"""What a machine sees: frames, codebooks, codes, histograms."""

import numpy as np
import pytest
from scipy import ndimage

from cutlearn.shape.describe import Describer, codes, descriptors, hog, learn_words, superpixels
from cutlearn.shape.frame import SCALE, Frame, Patches, filled


@pytest.mark.parametrize("image", [(40, 60), (60, 40), (7, 90), (1, 1), (32, 32), (33, 31)])
@pytest.mark.parametrize("mask", [(32, 32), (64, 32), (12, 16)])
def test_any_image_fits_the_frame_and_comes_back(image, mask):
    frame = Frame(mask, image)
    picture = frame.picture(np.random.default_rng(0).random((*image, 3)).astype(np.float32))
    assert picture.shape == (SCALE * mask[0], SCALE * mask[1], 3)
    assert frame.paint(np.full(mask, 0.25, np.float32)) == pytest.approx(0.25)
    assert frame.paint(np.zeros(mask, np.float32)).shape == image
    assert (frame.labels(np.ones(image, np.uint8)) != frame.inside()).mean() < 0.1


def test_a_mask_painted_back_is_nearly_itself():
    rows, columns = np.mgrid[:90, :120]
    mask = ((rows - 50) ** 2 + (columns - 40) ** 2 < 30**2).astype(np.uint8)
    frame = Frame((32, 32), mask.shape)
    back = frame.paint(frame.labels(mask).astype(np.float32)) > 0.5
    assert (back != mask).mean() < 0.02


def test_the_padding_is_a_mirror_and_known_as_padding():
    frame = Frame((4, 4), (2, 4))
    image = np.arange(8, dtype=np.float32).reshape(2, 4) / 8
    assert frame.padding == ((1, 1), (0, 0))
    wide = np.concatenate([image[:1], image, image[1:]])
    picture = frame.picture(image)[..., 0]
    corners = np.ix_([0, -1], [0, -1])
    assert picture[corners] == pytest.approx(wide[corners], abs=0.02)
    assert frame.inside().tolist() == [[False] * 4, [True] * 4, [True] * 4, [False] * 4]
    assert frame.labels(np.ones((2, 4), np.uint8)).tolist() == frame.inside().astype(int).tolist()


def test_void_wins_a_cell_only_where_little_is_known():
    mask = np.full((8, 8), 255, np.uint8)
    mask[:4] = 1
    mask[4, :4] = 0
    small = Frame((4, 4), (8, 8)).labels(mask)
    assert (small[:2] == 1).all()
    assert (small[3] == 255).all()


def test_void_is_filled_by_the_nearest_label():
    mask = np.array([[1, 255, 255, 0]], np.uint8)
    assert filled(mask).tolist() == [[1, 1, 0, 0]]
    assert filled(np.full((2, 2), 255, np.uint8)).tolist() == [[0, 0], [0, 0]]


def test_codes_sum_to_one_and_rebuild_the_descriptor():
    rng = np.random.default_rng(1)
    words = rng.normal(size=(30, 8)).astype(np.float32)
    near = words[3] + 0.01 * rng.normal(size=8).astype(np.float32)
    rows = np.stack([near, words[7]])
    index, share = codes(rows, words)
    assert share.sum(axis=1) == pytest.approx([1, 1], abs=1e-5)
    rebuilt = np.einsum("rk,rkd->rd", share, words[index])
    assert np.abs(rebuilt - rows).max() < 0.05
    assert share[1][index[1] == 7] == pytest.approx(1, abs=0.01)


def test_codes_are_the_best_under_their_constraint():
    """Against a least-squares solution of the same few words."""
    rng = np.random.default_rng(2)
    words, rows = rng.normal(size=(3, 12)), rng.normal(size=(5, 12))
    words, rows = words.astype(np.float32), rows.astype(np.float32)
    index, share = codes(rows, words)
    for row, near, found in zip(rows, index, share):
        base = words[near[0]]
        free, *_ = np.linalg.lstsq((words[near[1:]] - base).T, row - base, rcond=None)
        assert found[1:] == pytest.approx(free, abs=0.01)


def test_a_codebook_of_few_distinct_rows_is_those_rows():
    rows = np.repeat(np.eye(3, dtype=np.float32), 5, axis=0)
    assert np.array_equal(learn_words(rows, 10, 0), np.unique(rows, axis=0))
    many = np.random.default_rng(0).random((300, 3)).astype(np.float32)
    assert learn_words(many, 10, 0).shape == (10, 3)


def test_descriptors_see_the_orientation_and_not_the_contrast():
    plane = np.sin(np.arange(32) / 2)[None, None] * np.ones((1, 32, 1))
    first, _ = descriptors(plane.astype(np.float32))
    faint, _ = descriptors((0.3 * plane).astype(np.float32))
    turned, _ = descriptors(plane.transpose(0, 2, 1).astype(np.float32))
    assert first.shape == (256, 128)
    assert np.abs(first - faint).mean() < 0.02
    assert np.abs(first - turned).mean() > 0.05
    assert np.abs(hog(np.repeat(plane[0][..., None], 3, 2).astype("f4")).sum(axis=(1, 2))).max() > 1


def test_views_tell_superpixels_of_other_colours_apart():
    rng = np.random.default_rng(0)
    picture = np.full((48, 64, 3), 0.2, np.float32)
    picture[:, 32:] = (0.9, 0.4, 0.1)
    picture += rng.normal(0, 0.01, picture.shape).astype(np.float32)
    picture = picture.clip(0, 1)
    describer = Describer.fit([picture], Patches.layout((12, 16)), (16, 8), 0)
    view = describer.view(picture)
    assert view.regions.shape == (192,)
    assert view.regions.max() < len(view.x0)
    assert (view.x0[:, 0] == 1).all()
    assert len(view.x1) == 4
    sides = ndimage.mean(np.tile(np.arange(16) >= 8, 12), view.regions, np.arange(len(view.x0)))
    colors = view.x0[:, 17:25]
    left, right = colors[sides == 0].mean(axis=0), colors[sides == 1].mean(axis=0)
    assert left @ right < 0.1 * (left @ left)


def test_superpixels_are_numbered_without_gaps_down_to_one_colour():
    for picture in (
        np.zeros((16, 16, 3), np.float32),
        np.random.default_rng(0).random((40, 60, 3)),
    ):
        found = superpixels(picture.astype(np.float32))
        assert set(np.unique(found)) == set(range(found.max() + 1))


def test_hog_of_a_flat_place_beside_faint_and_strong_edges_is_finite():
    rng = np.random.default_rng(0)
    for _ in range(20):
        picture = np.full((128, 128, 3), 0.5, np.float32)
        picture[:, :12] += 0.4 * rng.random((128, 12, 1), np.float32)
        picture[:, 12:24] += rng.choice(np.float32([0, 1e-7]), (128, 12, 1))
        assert np.isfinite(hog(picture)).all()
