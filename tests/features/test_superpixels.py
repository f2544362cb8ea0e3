"""Superpixels: every pixel in one connected piece of about the wanted size, borders followed."""

import numpy as np
import pytest
from scipy import ndimage

from cutlearn.energy.problem import Problem
from cutlearn.errors import InputError
from cutlearn.features.featurizer import Featurizer
from cutlearn.features.superpixels import superpixels


@pytest.fixture
def halves():
    """Left and right differ in colour, under little noise."""
    rng = np.random.default_rng(0)
    image = np.full((60, 90, 3), 0.3)
    image[:, 40:, 0] = 0.8
    return np.clip(image + rng.normal(0, 0.02, image.shape), 0, 1)


@pytest.mark.parametrize("kind", ["slic", "felzenszwalb"])
@pytest.mark.parametrize("grey", [False, True])
def test_superpixels_follow_borders(halves, kind, grey):
    picture = halves[..., 0] if grey else halves
    found = superpixels(picture, kind, 100)
    assert found.shape == (60, 90)
    assert found.dtype == np.int32
    numbers, sizes = np.unique(found, return_counts=True)
    assert numbers.tolist() == list(range(len(numbers)))
    assert 60 < sizes.mean() < 170
    across = [len(np.unique(np.arange(90)[np.any(found == k, axis=0)] >= 40)) for k in numbers]
    assert np.mean(np.array(across) == 1) > 0.9, "few lie on both sides"
    if kind == "slic":
        assert all(ndimage.label(found == k)[1] == 1 for k in numbers)


def test_size_is_the_size(halves):
    few, many = (superpixels(halves, "slic", size).max() for size in (600, 50))
    assert few < 15 < 60 < many


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (1, 40), (5, 3, 3)])
@pytest.mark.parametrize("kind", ["slic", "felzenszwalb"])
def test_small_and_flat_images(shape, kind):
    assert superpixels(np.zeros(shape), kind).shape == shape[:2]


def test_a_featurizer_gives_families_for_a_problem(halves):
    featurizer = Featurizer("linear", superpixels=(("slic", 100), ("felzenszwalb", 400)))
    assert featurizer.region_names_ == ["slic100", "felzenszwalb400"]
    maps = featurizer.regions(halves)
    p = Problem(np.ones((60, 90, 1)), regions=maps, shape=(60, 90))
    assert [int(family.sizes.sum()) for family in p.regions] == [5400, 5400]


@pytest.mark.parametrize(
    "wrong", [[("voronoi", 100)], [("slic", 0)], [("slic", "big")], [("slic",)], [("slic", True)]]
)
def test_refusals(wrong):
    with pytest.raises(InputError, match=r"^superpixels"):
        Featurizer(superpixels=wrong).region_names_  # noqa: B018
