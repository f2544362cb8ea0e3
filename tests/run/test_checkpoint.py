"""Checkpoints: the identity on a good file, one sentence for a bad one."""

import numpy as np
import pytest
import safetensors.numpy

from cutlearn.errors import InputError
from cutlearn.run.checkpoint import load_checkpoint, save_checkpoint


def test_save_then_load_is_the_identity(tmp_path):
    arrays = {
        "float": np.arange(6.0).reshape(2, 3).T,
        "flags": np.array([True, False]),
        "none": np.zeros((0, 4)),
        "whole": np.array([-1, 2**40]),
    }
    save_checkpoint(tmp_path / "c", "train", {"a": [1, "x", 0.1]}, arrays)
    values, found = load_checkpoint(tmp_path / "c", "train")
    assert values == {"a": [1, "x", 0.1]}
    assert set(found) == set(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert found[name].tolist() == array.tolist()


def test_another_kind_is_refused(tmp_path):
    save_checkpoint(tmp_path / "c", "train", {}, {})
    with pytest.raises(InputError, match=r"kind 'train'.*kind 'other'"):
        load_checkpoint(tmp_path / "c", "other")


@pytest.mark.parametrize("keep", [0, 4, 20, -1])
def test_truncated_files_are_refused(tmp_path, keep):
    save_checkpoint(tmp_path / "c", "train", {}, {"x": np.arange(100.0)})
    data = (tmp_path / "c").read_bytes()
    (tmp_path / "c").write_bytes(data[:keep])
    with pytest.raises(InputError, match="is not a checkpoint of an unfinished run, or is damaged"):
        load_checkpoint(tmp_path / "c", "train")


def test_foreign_files_are_refused(tmp_path):
    for data in (b"hello", safetensors.numpy.save({"x": np.zeros(2)})):
        (tmp_path / "c").write_bytes(data)
        with pytest.raises(InputError, match="not a checkpoint"):
            load_checkpoint(tmp_path / "c", "train")
    for header in ("[]", "{", '{"kind": "train", "version": 99, "values": {}}'):
        foreign = safetensors.numpy.save({"x": np.zeros(2)}, metadata={"cutlearn": header})
        (tmp_path / "c").write_bytes(foreign)
        with pytest.raises(InputError, match=r"Remove it to start anew"):
            load_checkpoint(tmp_path / "c", "train")


def test_a_checkpoint_from_before_there_were_digests_starts_anew(tmp_path):
    old = '{"kind": "train", "version": 1, "values": {}}'
    for text in (old, old.replace("1", "2")):
        data = safetensors.numpy.save({"x": np.zeros(2)}, metadata={"cutlearn": text})
        (tmp_path / "c").write_bytes(data)
        with pytest.raises(InputError, match=r"version 2\. Remove it to start anew"):
            load_checkpoint(tmp_path / "c", "train")
