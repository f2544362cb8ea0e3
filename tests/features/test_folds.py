"""Folds: groups stay together, and pictures that are nearly the same are found."""

import numpy as np
import pytest
from scipy import ndimage

from cutlearn.errors import InputError
from cutlearn.features.folds import alike, find_groups, held_out_parts, make_folds


def pictures(n, seed=0, shape=(40, 50)):
    rng = np.random.default_rng(seed)
    fields = [ndimage.gaussian_filter(rng.normal(size=shape), 4) for _ in range(n)]
    return [np.clip(0.5 + f, 0, 1).astype(np.float32) for f in fields]


def test_given_groups_share_a_fold():
    images = pictures(8)
    groups = find_groups(images, list("aabbccdd"))
    assert groups == [0, 0, 1, 1, 2, 2, 3, 3]
    assert held_out_parts(groups) == [[0, 1, 4, 5], [2, 3, 6, 7]]
    fold = make_folds(groups, 3, seed=0)
    assert (fold[::2] == fold[1::2]).all()
    assert set(fold) == {0, 1, 2}
    assert find_groups(images) == list(range(8))
    assert len(set(make_folds(range(4), 9, seed=0))) == 4


def test_near_duplicates_are_kept_together():
    a, b, c, d = pictures(4)
    noise = np.random.default_rng(1).normal(0, 0.01, a.shape).astype(np.float32)
    images = [a, b, np.clip(a + noise, 0, 1), c, d, np.clip(0.8 * c + noise, 0, 1), c[1:]]
    assert alike(images) == [0, 1, 0, 3, 4, 3, 6]
    groups = find_groups(images)
    assert groups == [0, 1, 0, 2, 3, 2, 4]
    assert held_out_parts(groups) == [[0, 2, 3, 5, 6], [1, 4]]
    fold = make_folds(groups, 5, seed=0)
    assert fold[0] == fold[2]
    assert fold[3] == fold[5]
    assert len(set(fold)) == 5


def test_one_scene_is_cut_into_blocks():
    (a,) = pictures(1)
    assert find_groups([a] * 12) == [0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 4, 4]
    assert find_groups([a] * 2) == [0, 1]
    assert held_out_parts(find_groups([a])) == [[0]]
    flat = np.full((1, 1), 0.5, np.float32)
    assert alike([flat] * 3) == [0, 1, 2]


def test_refusals():
    images = pictures(3)
    with pytest.raises(InputError, match="only one image"):
        make_folds([0], 5, seed=0)
    with pytest.raises(InputError, match="groups: all images are in one group"):
        make_folds(["a"] * 3, 5, seed=0)
    with pytest.raises(InputError, match="groups has 2 entries, but there are 3 images"):
        find_groups(images, ["a", "b"])
    with pytest.raises(InputError, match=r"groups must .*, not lists or arrays"):
        find_groups(images, [["a"], ["b"], ["c"]])
