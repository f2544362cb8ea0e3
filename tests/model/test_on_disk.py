"""Training sets larger than memory: the same bits as in memory, little at a time, nothing left."""

import errno
import gc
import os
import shutil
import tempfile
import weakref
from collections.abc import Sequence

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.features.featurizer import Featurizer
from cutlearn.features.net.learn import NetRecipe
from cutlearn.features.trees import Recipe
from cutlearn.images import cells
from cutlearn.model import base, budget
from cutlearn.run import cache as shelves

WORLDS = [cells(seed, (32, 36)) for seed in range(6)]
IMAGES = [world.image for world in WORLDS]
MASKS = [np.where(np.arange(36) < 3, 255, WORLDS[0].labels), *(w.labels for w in WORLDS[1:])]
SMALL = Recipe(trees=3, leaves=4, min_leaf=2, rows=200, folds=2, stages=2, copies=1)
NET = NetRecipe(steps=4, crops=2, folds=2)
PLAIN = {"calibration": None, "C": 10.0}
MODES = {
    "linear": {"features": "linear", "calibration": None, "C": 10.0},
    "chosen": {"features": "linear"},
    "trees": PLAIN | {"features": Featurizer("trees", recipe=SMALL, n_jobs=1)},
    "both": PLAIN | {"features": Featurizer("both", net=NET, recipe=SMALL, n_jobs=1)},
    "auto": PLAIN
    | {"features": Featurizer("auto", net=NET, recipe=SMALL, budget=200.0, n_jobs=1)},
    "likelihood": {"features": "linear", "learner": "logistic", "calibration": None, "C": 10.0},
}  # fmt: skip


@pytest.fixture
def little(monkeypatch, tmp_path):
    """No room for features in memory, and a folder of its own for temporary files."""
    monkeypatch.setattr(base, "fits", lambda *_: False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


class OnDemand(Sequence):
    """What a user may bring: a sequence that makes every image when it is asked for."""

    def __init__(self, values):
        self.values, self.alive, self.most = values, weakref.WeakSet(), 0

    def __len__(self):
        return len(self.values)

    def __getitem__(self, place):
        made = cl.Sample(self.values[place])
        self.alive.add(made)
        gc.collect(0)
        self.most = max(self.most, len(self.alive))
        return made


def bits(model):
    arrays = model.to_header()[1]
    return {name: a.tobytes() for name, a in arrays.items() if name != "steps"}, model.validation_


@pytest.mark.parametrize("mode", MODES)
def test_the_same_bits_as_in_memory_and_nothing_is_left(mode, little, monkeypatch):
    model = cl.Segmenter(tol=0.05, n_jobs=2, **MODES[mode])
    with pytest.warns(cl.errors.InputWarning, match="kept on disk"):
        streamed = bits(model.fit(IMAGES, MASKS))
    assert list(little.iterdir()) == []
    monkeypatch.undo()
    whole = cl.Segmenter(tol=0.05, n_jobs=1, **MODES[mode])
    assert bits(whole.fit(IMAGES, MASKS)) == streamed


def test_a_sequence_of_the_users_own_is_read_little_by_little(little, monkeypatch):
    given = OnDemand(IMAGES)
    model = cl.Segmenter(tol=0.05, n_jobs=1, **MODES["linear"]).fit(given, MASKS)
    assert given.most <= 3
    monkeypatch.undo()
    assert bits(model) == bits(
        cl.Segmenter(tol=0.05, n_jobs=1, **MODES["linear"]).fit(IMAGES, MASKS)
    )


def test_where_there_is_room_it_is_read_into_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    model = cl.Segmenter(tol=0.05, n_jobs=1, **MODES["linear"]).fit(OnDemand(IMAGES), MASKS)
    assert model.converged_


@pytest.mark.parametrize(("mode", "last"), [("linear", 3), ("linear", 14), ("both", 26)])
def test_interrupted_and_gone_on_with(mode, last, little, tmp_path, monkeypatch):
    place = tmp_path / "run"

    def fitted():
        return cl.Segmenter(tol=0.05, n_jobs=1, **MODES[mode]).fit(
            OnDemand(IMAGES), MASKS, checkpoint=place
        )

    written, keep = [], shelves.Cache.keep

    def stops(self, name, *given):
        if len(written) == last:
            raise KeyboardInterrupt
        written.append(name)
        keep(self, name, *given)

    whole = bits(cl.Segmenter(tol=0.05, n_jobs=1, **MODES[mode]).fit(OnDemand(IMAGES), MASKS))
    monkeypatch.setattr(shelves.Cache, "keep", stops)
    with pytest.raises(KeyboardInterrupt, match="what was finished is saved"):
        fitted()
    written.clear()
    last = 10**6
    assert bits(fitted()) == whole
    assert not list(place.glob("given-*"))


def test_a_part_that_is_gone_or_damaged_is_made_again(little, tmp_path):
    place = tmp_path / "run"
    first = cl.Segmenter(tol=0.05, n_jobs=1, **MODES["linear"])
    whole = bits(first.fit(OnDemand(IMAGES), MASKS, checkpoint=place))
    (place / "features.safetensors").unlink()
    for file in place.glob("train*"):
        file.unlink()
    (place / "features-columns1.safetensors").unlink()
    damaged = place / "features-columns2.safetensors"
    data = bytearray(damaged.read_bytes())
    data[-1] ^= 1
    damaged.write_bytes(data)
    again = cl.Segmenter(tol=0.05, n_jobs=1, **MODES["linear"])
    with pytest.warns(cl.errors.InputWarning, match=r"columns2.*damaged.*made again"):
        again.fit(OnDemand(IMAGES), MASKS, checkpoint=place)
    assert bits(again) == whole


def test_no_room_on_the_disk_is_told_before_the_work(little, monkeypatch):
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(budget, "disk_usage", lambda _: usage)
    with pytest.raises(cl.InputError, match=r"0\.0 GB of disk in .* are free.*min_side"):
        cl.Segmenter(**MODES["linear"]).fit(IMAGES, MASKS)


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
@pytest.mark.parametrize("n", [3, 10, 16])
def test_whatever_call_fails_the_run_goes_on_from_what_is_there(call, n, little, monkeypatch):
    """The disk is full at the n-th call of a kind: one error, and the same bits afterwards."""
    place, real, left = little / "run", getattr(os, call), iter(range(n))

    def fitted():
        model = cl.Segmenter(tol=0.05, n_jobs=1, **MODES["linear"])
        return bits(model.fit(OnDemand(IMAGES[:4]), MASKS[:4], checkpoint=place))

    def full(*given):
        if next(left, None) is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*given)

    with monkeypatch.context() as patched:
        patched.setattr(os, call, full)
        with pytest.raises(OSError, match="No space left"):
            fitted()
    went_on = fitted()
    shutil.rmtree(place)
    assert went_on == fitted()
