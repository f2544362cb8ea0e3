"""Damaged checkpoints: a flipped bit is never gone on with; the checkpoint before it is."""

import contextlib
import errno

import numpy as np
import pytest

from cutlearn.errors import InputError, InputWarning
from cutlearn.learn.train import train
from cutlearn.run import checkpoint
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


def damage(file):
    """Flip one bit of the planes."""
    data, planes = file.read_bytes(), load_checkpoint(file, "train")[1]["planes"].tobytes()
    changed = bytearray(data)
    changed[data.index(planes) + 6] ^= 1
    file.write_bytes(bytes(changed))


def test_a_run_goes_on_from_the_checkpoint_before_a_damaged_one(tmp_path):
    problems, truth = tiny_set(np.random.default_rng(11), images=4)[:2]
    file, before = tmp_path / "run", tmp_path / "run-before"

    def interrupt(step):
        if step.number == 3:
            raise KeyboardInterrupt

    settings = {"C": 30.0, "tol": 1e-7, "groups": 1}
    whole = train(problems, truth, **settings)
    assert len(whole.steps) > 3
    settings["checkpoint"] = file
    with pytest.raises(KeyboardInterrupt):
        train(problems, truth, **settings, callback=interrupt)
    damage(file)
    told = []
    with pytest.warns(InputWarning, match=r"run is damaged; the run goes on from .*run-before"):
        again = train(problems, truth, **settings, callback=told.append)
    assert told[0].number == 3
    assert again.w.tobytes() == whole.w.tobytes()
    for place in (file, before):
        damage(place)
    with (
        pytest.warns(InputWarning, match="run is damaged"),
        pytest.raises(InputError, match=r"run-before is not a checkpoint.*Remove it to start anew"),
    ):
        train(problems, truth, **settings)


def test_killed_between_two_checkpoints_the_older_one_is_there(tmp_path, monkeypatch):
    """Between the rename of the last one and the write of the next, a kill leaves one."""
    problems, truth = tiny_set(np.random.default_rng(11), images=4)[:2]
    settings = {"C": 30.0, "tol": 1e-7, "groups": 1}
    whole = train(problems, truth, **settings)
    settings["checkpoint"] = tmp_path / "run"
    save, left = checkpoint.save_checkpoint, iter(range(3))

    def full(*given):
        if next(left, None) is None:
            raise OSError(errno.ENOSPC, "disk full")
        save(*given)

    monkeypatch.setattr(checkpoint, "save_checkpoint", full)
    with pytest.raises(OSError, match="disk full"):
        train(problems, truth, **settings)
    assert [path.name for path in tmp_path.iterdir()] == ["run-before"]
    monkeypatch.undo()
    told = []
    again = train(problems, truth, **settings, callback=told.append)
    assert told[0].number == 4
    assert again.w.tobytes() == whole.w.tobytes()


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
