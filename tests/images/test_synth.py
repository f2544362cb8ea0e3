"""The worlds are what they say: reproducible, of the stated law, neither trivial nor hopeless."""

import doctest

import numpy as np
import pytest
from scipy import ndimage

from cutlearn.errors import InputError
from cutlearn.images import cells, checkerboard, pasture, synth
from cutlearn.metrics import iou


def test_the_checkerboard_follows_its_formula():
    x, labels, regions = checkerboard(3, eta0=0.5, eta1=0.1)
    noise = x - np.where(labels == 0, 0.5, -0.1)
    assert np.abs(noise).max() <= 1
    assert noise.mean() == pytest.approx(0, abs=0.02)
    assert noise.std() == pytest.approx(1 / np.sqrt(3), rel=0.02)
    assert x.shape == labels.shape == regions.shape == (128, 128)
    for region in range(64):
        inside = regions == region
        assert inside.sum() == 256
        # Alternating, black at the top left.
        assert (labels[inside] == (region // 8 + region % 8) % 2).all()
    assert labels[0, 0] == 0
    assert (labels[:, 15] != labels[:, 16]).all()
    assert (labels[15] != labels[16]).all()


@pytest.mark.parametrize("world", [checkerboard, cells])
def test_a_seed_gives_the_same_bits_and_another_seed_others(world):
    first, again, other = world(7), world(7), world(8)
    assert all((a == b).all() for a, b in zip(first, again))
    assert (first[0] != other[0]).any()


def test_cells_have_the_stated_form():
    for shape in ((192, 256), (64, 32)):
        image, labels = cells(1, shape)
        assert image.shape == labels.shape == shape
        assert image.dtype == np.float32
        assert labels.dtype == np.uint8
        assert 0 <= image.min() <= image.max() <= 1
        assert set(np.unique(labels)) == {0, 1}


@pytest.mark.parametrize("seed", range(6))
def test_cells_are_neither_trivial_nor_hopeless(seed):
    image, labels = cells(seed)
    assert 0.12 < labels.mean() < 0.35
    best = max(iou(labels, image > t) for t in np.linspace(0.02, 0.9, 45))
    assert 0.4 < best < 0.88  # even the threshold that knows the truth
    # Light is uneven and cells are brighter than their own surroundings.
    smooth = ndimage.gaussian_filter(image, 1.5)
    near = ndimage.binary_dilation(labels, iterations=6) & (labels == 0)
    assert smooth[labels == 1].mean() > 1.5 * smooth[near].mean()
    assert ndimage.label(labels)[1] >= 5


def test_some_bright_things_are_no_cells_and_some_cells_are_dim():
    bright = dim = 0
    for seed in range(6):
        image, labels = cells(seed)
        smooth = ndimage.gaussian_filter(image, 1)
        middle = np.median(smooth[labels == 1])
        bright += int((smooth[labels == 0] > middle).sum())
        dim += int((smooth[labels == 1] < np.quantile(smooth[labels == 0], 0.9)).sum())
    assert bright > 300
    assert dim > 300


def test_refuses_a_shape_without_room():
    with pytest.raises(InputError, match=r"shape is \(8, 8\), but"):
        cells(0, (8, 8))


def test_examples_of_the_docstrings():
    assert doctest.testmod(synth).failed == 0


@pytest.mark.parametrize("shape", [(32, 32), (40, 48), (96, 128), (192, 256)])
def test_cells_of_every_size_are_seen(shape):
    for seed in range(12):
        world = cells(seed, shape)
        inside, outside = (world.image[world.labels == k].mean() for k in (1, 0))
        assert outside < 0.35  # dark, neither black nor burnt out
        assert inside > outside + 0.02


@pytest.mark.parametrize("seed", range(5))
def test_pastures_have_three_labels_that_colours_do_not_tell(seed):
    world = pasture(seed)
    assert world.image.shape == (107, 160, 3)
    assert world.image.dtype == np.float32
    assert 0 <= world.image.min() <= world.image.max() <= 1
    assert world.labels.dtype == np.uint8
    counts = np.bincount(world.labels.ravel(), minlength=3) / world.labels.size
    assert counts.shape == (3,)
    assert counts.min() > 0.005
    # Sky over grass: never the other way round beside each other.
    above, below = world.labels[:-1], world.labels[1:]
    assert not ((above == 0) & (below == 2)).any()
    # The nearest mean colour is right often, but far from always.
    means = np.array([world.image[world.labels == k].mean(axis=0) for k in range(3)])
    nearest = ((world.image[:, :, None] - means) ** 2).sum(axis=-1).argmin(axis=-1)
    assert 0.55 < np.mean(nearest == world.labels) < 0.95


def test_pastures_refuse_no_room_and_repeat_their_bits():
    with pytest.raises(InputError, match="at least 16 x 16"):
        pasture(0, (8, 90))
    assert pasture(3).image.tobytes() == pasture(3).image.tobytes()
    assert pasture(3).image.tobytes() != pasture(4).image.tobytes()
