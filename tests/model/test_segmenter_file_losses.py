"""A loss is a part of the model file: loaded models can be calibrated, cloned, fitted again."""

import numpy as np
import pytest
from sklearn.base import clone

import cutlearn as cl
from cutlearn.images import cells, pasture
from cutlearn.learn.losses import Loss
from cutlearn.model.model_files import KEY
from cutlearn.store import load_sealed, save_sealed

WORLDS = [cells(seed, (32, 32)) for seed in range(4)]
WORLDS[2] = cells(2, (32, 40))
IMAGES, MASKS = [w.image for w in WORLDS], [w.labels for w in WORLDS]
MADE = [pasture(seed, (16, 20)) for seed in range(3)]
SETTINGS = {"features": "linear", "C": 10.0, "tol": 0.1, "n_jobs": 1}
BINARY = {
    "hamming": cl.Hamming(),
    "weighted": cl.Hamming((1, np.float64(2.5))),
    "count": cl.Count(side="over", tolerance=np.int64(3)),
    "a sum": 2 * cl.Hamming() + 0.5 * cl.Count(),
}
ORDERED = {"absolute": cl.Absolute(), "label count": cl.Hamming() + cl.LabelCount([1, 2])}


class Odd(cl.Hamming):
    """A loss from outside of the package."""

    def __repr__(self):
        return "Odd()"


def saved(loss, path, **given):
    model = cl.Segmenter(loss=loss, **SETTINGS, **given)
    data = (IMAGES[:3], MASKS[:3])
    if given:
        data = [w.image for w in MADE], [w.labels for w in MADE]
    model.fit(*data).save(path)
    return model, cl.load(path), data


@pytest.mark.parametrize("name", [*BINARY, *ORDERED])
def test_a_loaded_model_has_its_loss(name, tmp_path):
    given = {"labels": "ordered"} if name in ORDERED else {}
    loss = (BINARY | ORDERED)[name]
    model, loaded, data = saved(loss, tmp_path / "m", **given)
    assert isinstance(loaded.loss, Loss)
    assert type(loaded.loss) is type(loss)
    labels, counted = data[1][0].ravel(), np.ones(data[1][0].size, bool)
    bound = [one.bind(0, labels, counted, 3 if given else 2) for one in (loss, loaded.loss)]
    guess = np.random.default_rng(0).integers(0, 3 if given else 2, labels.size)
    assert bound[0].value(guess) == bound[1].value(guess) > 0
    assert np.array_equal(clone(loaded).fit(*data).w_, model.w_)
    loaded.calibrate(*data)
    loaded.save(tmp_path / "again")
    assert cl.load(tmp_path / "again").loss.needs_order == loss.needs_order


WEIGHTS = [np.ones((32, 32)), np.ones((32, 32)), np.ones((32, 40))]


@pytest.mark.parametrize(
    "loss",
    [cl.Hamming(pixel_weights=WEIGHTS), cl.Count(weights=WEIGHTS), cl.CountFunction(np.square),
     cl.Hamming() + cl.CountFunction(np.abs), Odd()],
    ids=["pixel weights", "areas", "function", "sum", "from outside"],
)  # fmt: skip
def test_a_loss_that_cannot_be_kept_is_told_and_asked_for_again(loss, tmp_path):
    model, loaded, data = saved(loss, tmp_path / "m")
    assert repr(loaded.loss) == repr(loss)
    assert all(map(np.array_equal, loaded.predict(IMAGES), model.predict(IMAGES)))
    loaded.calibrate(IMAGES[3:], MASKS[3:])
    told = []
    with pytest.raises(cl.InputError, match=r"The 'loss' parameter .*set_params\(loss=\.\.\.\)"):
        clone(loaded).fit(*data, progress=lambda *step: told.append(step))
    assert told == []
    again = clone(loaded).set_params(loss=loss).fit(*data)
    assert np.array_equal(again.w_, model.w_)
    loaded.save(tmp_path / "again")
    assert repr(cl.load(tmp_path / "again").loss) == repr(loss)


def rewritten(path, tmp_path, loss):
    header, arrays, _ = load_sealed(path, KEY)
    header["parameters"]["loss"] = loss
    save_sealed(tmp_path / "changed", KEY, header, arrays)
    return tmp_path / "changed"


def test_files_that_kept_its_description_only_can_be_calibrated(tmp_path):
    saved(cl.Hamming(), tmp_path / "m")
    old = cl.load(rewritten(tmp_path / "m", tmp_path, "Hamming(None, None)"))
    old.calibrate(IMAGES[3:], MASKS[3:])
    assert old.calibration_.n_images == 1
    assert repr(old.loss) == "Hamming(None, None)"


@pytest.mark.parametrize(
    "lie",
    [3, None, {}, {"loss": "eval"}, {"loss": "Hamming", "label_weights": [-1, 2]}, "x" * 10_000,
     {"loss": "Hamming", "label_weights": ["a"]}, {"loss": "Hamming", "label_weights": [1] * 999},
     {"loss": "Hamming", "depth": 3}, {"loss": "Hamming", "pixel_weights": [[1]]},
     {"loss": "Count", "side": "left"}, {"loss": "Count", "tolerance": "1"},
     {"loss": "LabelCount", "labels": ["1"]}, {"loss": "LabelCount", "labels": [-1]},
     {"loss": "sum", "parts": []}, {"loss": "sum", "parts": [[-1, {"loss": "Hamming"}]]},
     {"loss": "sum", "parts": [[1, {"loss": "sum", "parts": []}]]},
     {"loss": "sum", "parts": [["1", {"loss": "Hamming"}]]},
     {"loss": "sum", "parts": [[1, {"loss": "Hamming"}]] * 99}],
    ids=lambda lie: str(lie)[:60],
)  # fmt: skip
def test_a_file_that_lies_about_its_loss(lie, tmp_path):
    saved(cl.Hamming(), tmp_path / "m")
    with pytest.raises(cl.InputError, match="is a damaged model") as caught:
        cl.load(rewritten(tmp_path / "m", tmp_path, lie))
    assert len(str(caught.value)) < 600
