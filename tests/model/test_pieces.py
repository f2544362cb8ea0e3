"""Volumes in pieces: which slices are learned from, and what is held out together."""

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.model.pieces import in_pieces, volume_blocks


def stack(annotated, depth):
    mask = np.full((depth, 1, 2), 255, np.uint8)
    mask[list(annotated)] = 1
    image = np.repeat(np.arange(depth, dtype=np.uint8)[:, None, None], 2, axis=2)
    return cl.Volume(image), mask


def slices(piece):
    return np.rint(piece.image[:, 0, 0] * 255).astype(int).tolist()


def known(mask):
    return np.flatnonzero((mask != 255).any(axis=(1, 2))).tolist()


def test_void_slices_stay_only_beside_annotated_ones():
    volume, mask = stack([2, 3, 9], 12)
    pieces, truth, groups = in_pieces([volume], [mask])
    assert [slices(p) for p in pieces] == [[1, 2, 3, 4], [8, 9, 10]]
    assert [known(y) for y in truth] == [[1, 2], [1]]
    assert groups == [0, 1]


def test_blocks_of_one_volume_do_not_look_at_each_other():
    volume, mask = stack(range(7), 8)
    pieces, truth, groups = in_pieces([volume], [mask])
    assert [slices(p) for p in pieces] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert [known(y) for y in truth] == [[0, 1, 2, 3], [0, 1, 2]]
    assert groups == [0, 1]


def test_pieces_of_a_volume_among_others_are_held_out_together():
    pairs = [stack(range(9), 9), stack([0], 2)]
    pieces, truth, groups = in_pieces(*zip(*pairs))
    assert [slices(p) for p in pieces] == [[*range(7)], [*range(5, 9)], [0, 1]]
    # Every slice is learned from once.
    assert [known(y) for y in truth] == [[*range(6)], [1, 2, 3], [0]]
    assert groups == [0, 0, 1]


def test_groups_of_the_user_hold():
    pairs = [stack([0], 1)] * 3
    assert in_pieces(*zip(*pairs), groups=["a", "b", "a"])[2] == [0, 1, 0]
    with pytest.raises(cl.InputError, match="one for each volume"):
        in_pieces(*zip(*pairs), groups=["a"])


def test_blocks_are_runs():
    assert volume_blocks([5]) == {5: 0}
    assert list(volume_blocks(range(15)).values()) == [0] * 5 + [1] * 5 + [2] * 5
    assert max(volume_blocks(range(100)).values()) == 4
