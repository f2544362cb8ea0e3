"""Damaged checkpoints: a flipped bit is refused, never gone on with."""

import contextlib

import numpy as np
import pytest

from cutlearn.errors import InputError
from cutlearn.learn.train import train
from cutlearn.run.checkpoint import load_checkpoint, save_checkpoint
from tiny_problems import tiny_set


def flipped(data, rng, count):
    for place in rng.integers(0, len(data), count):
        changed = bytearray(data)
        changed[place] ^= 1 << int(rng.integers(8))
        yield int(place), bytes(changed)


def test_flipped_bits_are_refused_or_change_nothing(tmp_path):
    arrays = {"w": np.arange(30.0), "flags": np.array([True, False]), "none": np.zeros((0, 3))}
    values = {"digest": "ab12", "done": [1, 2.5], "complete": False}
    file = tmp_path / "run"
    save_checkpoint(file, "train", values, arrays)
    content = {name: (a.dtype, a.shape, a.tobytes()) for name, a in arrays.items()}
    for place, data in flipped(file.read_bytes(), np.random.default_rng(5), 400):
        file.write_bytes(data)
        with contextlib.suppress(InputError):
            found, read = load_checkpoint(file, "train")
            assert found == values, f"byte {place}"
            again = {name: (a.dtype, a.shape, a.tobytes()) for name, a in read.items()}
            assert again == content, f"byte {place}"


def test_a_run_does_not_go_on_from_a_flipped_checkpoint(tmp_path):
    problems, truth = tiny_set(np.random.default_rng(11), images=4)[:2]
    file = tmp_path / "run"

    def interrupt(step):
        if step.number == 2:
            raise KeyboardInterrupt

    settings = {"C": 30.0, "tol": 1e-7, "groups": 1, "checkpoint": file}
    with pytest.raises(KeyboardInterrupt):
        train(problems, truth, **settings, callback=interrupt)
    _, arrays = load_checkpoint(file, "train")
    data, planes = file.read_bytes(), arrays["planes"].tobytes()
    changed = bytearray(data)
    changed[data.index(planes) + 6] ^= 1
    file.write_bytes(bytes(changed))
    with pytest.raises(InputError, match="Remove it to start anew"):
        train(problems, truth, **settings)


WRONG_PARTS = {
    "train": lambda arrays: arrays.pop("planes"),
    "train, counts": lambda arrays: arrays.update(counts=np.array([10**15] * 4)),
    "train, steps": lambda arrays: arrays.update(steps=np.zeros((0, 11))),
    "train, rounds": lambda arrays: arrays.update(rounds=np.full((1, 4), 10**6, np.int32)),
}


@pytest.mark.parametrize("wrong", WRONG_PARTS)
def test_a_sealed_checkpoint_whose_parts_do_not_fit_is_refused(tmp_path, wrong):
    problems, truth = tiny_set(np.random.default_rng(11), images=4)[:2]
    settings = {"C": 30.0, "tol": 0.1, "groups": 1, "checkpoint": tmp_path / "run"}
    train(problems, truth, **settings)
    values, arrays = load_checkpoint(tmp_path / "run", "train")
    WRONG_PARTS[wrong](arrays)
    save_checkpoint(tmp_path / "run", "train", values, arrays)
    with pytest.raises(InputError, match="Remove it to start anew"):
        train(problems, truth, **settings)
