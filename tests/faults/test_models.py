"""Damaged, lying, foreign and hostile model files: each gets one sentence, none is executed."""

import contextlib
import json
import struct

import numpy as np
import pytest
import safetensors
import safetensors.numpy

import cutlearn as cl
from cutlearn.features.featurizer import Featurizer
from cutlearn.features.trees import Recipe
from cutlearn.model.model_files import KEY
from cutlearn.store import load_sealed, sealed_bytes
from features.worlds import world

SMALL = Recipe(trees=2, rows=300, folds=2, min_leaf=5, leaves=4)
IMAGES, MASKS = world(3, shape=(14, 17))


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "model.cutlearn"
    model = cl.Segmenter(features=Featurizer(recipe=SMALL), C=10.0, n_jobs=1)
    model.fit(IMAGES, MASKS).save(path)
    return path


def refused(path):
    with pytest.raises(cl.InputError) as caught:
        cl.load(path)
    said = str(caught.value)
    assert said.startswith(f"{path}: ")
    assert any(advice in said for advice in ("Restore ", "Use a newer cutlearn", "Check the name"))
    assert "\n" not in said
    return said


def parts(path):
    header, arrays, _ = load_sealed(path, KEY)
    return header, arrays


def rewritten(good, tmp_path, change):
    """A model file with a change in its header or tensors, otherwise well-formed."""
    header, arrays = parts(good)
    change(header, arrays)
    path = tmp_path / "changed.cutlearn"
    path.write_bytes(sealed_bytes(KEY, json.dumps(header), arrays))
    return path


def test_the_file_itself_loads(good, tmp_path):
    path = rewritten(good, tmp_path, lambda header, arrays: None)
    assert cl.load(path).w_.tobytes() == cl.load(good).w_.tobytes()


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.9, 0.999])
def test_truncated(good, tmp_path, share):
    data = good.read_bytes()
    path = tmp_path / "cut.cutlearn"
    path.write_bytes(data[: int(share * len(data))])
    refused(path)


@pytest.mark.parametrize("data", [b"", b"hello", bytes(1000), b"\x80\x04K\x01.", b"PK\x03\x04" * 9])
def test_garbage(tmp_path, data):
    path = tmp_path / "garbage.cutlearn"
    path.write_bytes(data)
    refused(path)


@pytest.mark.parametrize("size", [2**63, 2**40, 100_000_001, 7])
def test_a_header_that_lies_about_its_length(good, tmp_path, size):
    path = tmp_path / "lying.cutlearn"
    path.write_bytes(struct.pack("<Q", size) + good.read_bytes()[8:])
    refused(path)


def test_missing_or_a_folder(tmp_path):
    assert "no such file" in refused(tmp_path / "absent.cutlearn")
    assert "no such file" in refused(tmp_path)


def test_foreign_safetensors(tmp_path):
    path = tmp_path / "network.safetensors"
    path.write_bytes(safetensors.numpy.save({"w": np.zeros(3)}, metadata={"format": "pt"}))
    assert "not a model of cutlearn" in refused(path)
    path.write_bytes(safetensors.numpy.save({"w": np.zeros(3)}))
    assert "not a model of cutlearn" in refused(path)


@pytest.mark.parametrize("text", ["[]", "3", "null", "{", "", '{"a":' * 100_000, '{"a": NaN}'])
def test_headers_that_are_no_model(tmp_path, text):
    path = tmp_path / "odd.cutlearn"
    path.write_bytes(safetensors.numpy.save({"w": np.zeros(3)}, metadata={KEY: text}))
    refused(path)


def test_wrong_version(good, tmp_path):
    for version in (4, 0, "1", None, [1], True, 3.0):
        path = rewritten(good, tmp_path, lambda h, a, v=version: h.update(version=v))
        assert f"version {version!r}" in refused(path)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite(good, tmp_path, value):
    def change(header, arrays):
        arrays["w"][1] = value

    assert "not finite" in refused(rewritten(good, tmp_path, change))


def test_an_edge_weight_below_zero(good, tmp_path):
    def change(header, arrays):
        arrays["w"][-1] = -1.0

    assert "below zero" in refused(rewritten(good, tmp_path, change))


HEADER_LIES = {
    "no names": lambda h: h.pop("names"),
    "names of others": lambda h: h.update(names=["node bias"] * len(h["names"])),
    "too few names": lambda h: h["names"].pop(),
    "no features": lambda h: h.pop("features"),
    "features a list": lambda h: h.update(features=[]),
    "no card": lambda h: h.update(card=None),
    "parameters a string": lambda h: h.update(parameters="x"),
    "a stranger among the parameters": lambda h: h["parameters"].update(depth=3),
    "a parameter missing": lambda h: h["parameters"].pop("n_jobs"),
    "no threads": lambda h: h["parameters"].update(n_jobs=0),
    "another learner": lambda h: h["parameters"].update(learner="os.system"),
    "a loss that is none": lambda h: h["parameters"].update(loss=[]),
    "C that is no number": lambda h: h["fitted"].update(C="x"),
    "C not a number": lambda h: h["fitted"].update(C="nan"),
    "no regulariser for the bundle": lambda h: h["fitted"].update(C="inf"),
    "no regulariser asked of the bundle": lambda h: h["parameters"].update(C="inf"),
    "C too large": lambda h: h["fitted"].update(C=1e999),
    "more stages": lambda h: h["features"].update(stages=3),
    "another connectivity": lambda h: h["features"].update(connectivity=5),
    "another bank": lambda h: h["features"]["bank"].update(kind="radio"),
    "extra channels": lambda h: h["features"].update(n_extra=2),
    "another estimator": lambda h: h.update(estimator="builtins.eval"),
}


@pytest.mark.parametrize("lie", list(HEADER_LIES))
def test_a_header_that_lies(good, tmp_path, lie):
    refused(rewritten(good, tmp_path, lambda header, arrays: HEADER_LIES[lie](header)))


TENSOR_LIES = {
    "no weights": lambda a: a.pop("w"),
    "weights of another type": lambda a: a.update(w=a["w"].astype(np.float32)),
    "a matrix of weights": lambda a: a.update(w=a["w"][None]),
    "a weight too many": lambda a: a.update(w=np.append(a["w"], 0.0)),
    "a stranger": lambda a: a.update(stranger=np.zeros(2)),
    "steps of another form": lambda a: a.update(steps=np.zeros((2, 3))),
    "steps not finite": lambda a: a.update(steps=np.full_like(a["steps"], np.nan)),
    "a scale of zero": lambda a: a.update({"features.scale": 0 * a["features.scale"]}),
    "no roots": lambda a: a.pop("features.stage0.roots"),
    "roots beyond the end": lambda a: a.update({"features.stage0.roots": np.array([9999])}),
    "a child before its parent": lambda a: a["features.stage0.left"].fill(0),
    "a child beyond the end": lambda a: a["features.stage0.right"].fill(2**31 - 1),
    "a column that is none": lambda a: a["features.stage1.feature"].fill(100_000),
    "a value that is none": lambda a: a["features.stage0.value"].fill(np.nan),
}


@pytest.mark.parametrize("lie", list(TENSOR_LIES))
def test_tensors_that_lie(good, tmp_path, lie):
    refused(rewritten(good, tmp_path, lambda header, arrays: TENSOR_LIES[lie](arrays)))


def test_flipped_bits_are_refused_or_change_nothing(good, tmp_path):
    data = good.read_bytes()
    rng = np.random.default_rng(3)
    path = tmp_path / "flipped.cutlearn"
    whole = answer_of(cl.load(good))
    for place in rng.integers(0, len(data), 150):
        changed = bytearray(data)
        changed[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(changed))
        with contextlib.suppress(cl.InputError):
            assert answer_of(cl.load(path)) == whole, f"byte {place}"


def test_a_seal_cannot_be_left_out(good, tmp_path):
    header, arrays = parts(good)
    path = tmp_path / "open.cutlearn"
    path.write_bytes(safetensors.numpy.save(arrays, metadata={KEY: json.dumps(header)}))
    assert "no digest" in refused(path)
    # One bit makes a 3 a 2, which needs no digest; the one that is there must fit all the same.
    data = good.read_bytes().replace(b'\\"version\\": 3', b'\\"version\\": 2')
    assert data != good.read_bytes()
    path.write_bytes(data)
    assert "its digest does not fit" in refused(path)
    header, arrays = parts(good)
    more = {KEY: json.dumps(header | {"version": 2}), "note": "x"}
    path.write_bytes(safetensors.numpy.save(arrays, metadata=more))
    assert "metadata that no such file has" in refused(path)


def answer_of(model):
    return model.predict(IMAGES[:1])[0].tobytes(), model.predict_proba(IMAGES[:1])[0].tobytes()


def test_a_failed_save_leaves_the_old_file(good, tmp_path, monkeypatch):
    path = tmp_path / "model.cutlearn"
    path.write_bytes(good.read_bytes())
    model = cl.load(path)
    model.w_ = model.w_ + 1

    def full(*_):
        raise OSError(28, "disk full")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="disk full"):
        model.save(path)
    assert path.read_bytes() == good.read_bytes()
    assert [p.name for p in tmp_path.iterdir()] == ["model.cutlearn"]
