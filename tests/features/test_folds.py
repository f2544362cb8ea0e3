"""Folds: groups stay together, and pictures that are nearly the same are found."""

import numpy as np
import pytest
from scipy import ndimage

from cutlearn.errors import InputError
from cutlearn.features.folds import alike, make_folds


def pictures(n, seed=0, shape=(40, 50)):
    rng = np.random.default_rng(seed)
    fields = [ndimage.gaussian_filter(rng.normal(size=shape), 4) for _ in range(n)]
    return [np.clip(0.5 + f, 0, 1).astype(np.float32) for f in fields]


def test_given_groups_share_a_fold():
    images = pictures(8)
    fold = make_folds(images, list("aabbccdd"), 3, seed=0)
    assert (fold[::2] == fold[1::2]).all()
    assert set(fold) == {0, 1, 2}
    assert len(set(make_folds(images[:4], None, 9, seed=0))) == 4


def test_near_duplicates_are_kept_together():
    a, b, c, d = pictures(4)
    noise = np.random.default_rng(1).normal(0, 0.01, a.shape).astype(np.float32)
    images = [a, b, np.clip(a + noise, 0, 1), c, d, np.clip(0.8 * c + noise, 0, 1), c[1:]]
    assert alike(images) == [0, 1, 0, 3, 4, 3, 6]
    fold = make_folds(images, None, 5, seed=0)
    assert fold[0] == fold[2]
    assert fold[3] == fold[5]
    assert len(set(fold)) == 5


def test_one_scene_is_cut_into_blocks():
    (a,) = pictures(1)
    assert make_folds([a] * 7, None, 3, seed=0).tolist() == [0, 0, 0, 1, 1, 2, 2]
    flat = np.full((1, 1), 0.5, np.float32)
    assert alike([flat] * 3) == [0, 1, 2]


def test_refusals():
    images = pictures(3)
    with pytest.raises(InputError, match="1 image found"):
        make_folds(images[:1], None, 5, seed=0)
    with pytest.raises(InputError, match="groups: one group found"):
        make_folds(images, ["a"] * 3, 5, seed=0)
    with pytest.raises(InputError, match="groups: 2 found; one for each of the 3"):
        make_folds(images, ["a", "b"], 5, seed=0)
