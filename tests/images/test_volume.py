"""Volumes as values: what they hold, their slices, and what is refused."""

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.images.sample import of_slices


def test_a_volume_has_the_values_of_an_image():
    voxels = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    volume = cl.Volume(voxels, spacing=(3, 1, 1))
    assert volume.shape == (2, 3, 4)
    assert (volume.image == voxels / np.float32(255)).all()
    assert volume.spacing == (3.0, 1.0, 1.0)
    assert (volume.slices()[1].image == volume.image[1]).all()
    assert volume.part(1, 2).shape == (1, 3, 4)


def test_a_volume_does_not_change_with_the_array_it_was_made_of():
    voxels = np.zeros((2, 3, 4), np.float32)
    volume = cl.Volume(voxels)
    voxels[:] = 1
    assert volume.image.max() == 0
    with pytest.raises(ValueError, match="read-only"):
        volume.image[0, 0, 0] = 1


def test_colours_and_seeds_go_with_their_slices():
    seeds = np.full((2, 3, 4), -1, np.int16)
    seeds[1, 2, 3] = 1
    volume = cl.Volume(np.zeros((2, 3, 4, 3)), seeds=seeds, extra=np.ones((2, 3, 4)))
    again = of_slices(volume.slices(), volume.spacing)
    assert again.image.shape == (2, 3, 4, 3)
    assert (again.seeds == seeds).all()
    assert again.extra.shape == (2, 3, 4, 1)
    assert (volume.fixed() == seeds).all()


def test_facts_tell_the_slices():
    volume = cl.Volume(np.full((5, 3, 4), 51, np.uint8))
    facts = volume.facts()
    assert facts[:4] == (3, 4, False, 0.2)
    assert facts.depth == 5
    assert facts.digest != cl.Volume(np.full((3, 5, 4), 52, np.uint8)).facts().digest


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"image": np.zeros((3, 4))}, "Put slices first"),
        ({"image": np.zeros((0, 3, 4))}, "at least one voxel"),
        ({"image": np.full((1, 3, 4), 7.0)}, "must lie in"),
        ({"image": np.zeros((1, 3, 4)), "spacing": (1, 1)}, "three numbers above 0"),
        ({"image": np.zeros((1, 3, 4)), "spacing": (0, 1, 1)}, "three numbers above 0"),
        ({"image": np.zeros((1, 3, 4)), "seeds": np.zeros((3, 4), int)}, "the image's shape"),
        ({"image": np.zeros((1, 3, 4)), "extra": np.zeros((3, 4))}, "Put channels last"),
        ({"image": np.zeros((1, 3, 4)), "extra": np.full((1, 3, 4), np.nan)}, "finite"),
    ],
)
def test_what_cannot_be_is_refused(given, said):
    with pytest.raises(cl.InputError, match=said):
        cl.Volume(**given)
