"""BoltzmannSegmenter: its parts agree, it resumes to the same bits, its files are checked."""

import copy
import json

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import cutlearn as cl
from cutlearn.app.cli import main
from cutlearn.images.training_set import read_samples
from cutlearn.metrics import pooled_iou
from cutlearn.model.calibration import calibrate, drawn, uncalibrated
from cutlearn.model.decisions import expected_iou
from cutlearn.model.model_files import KEY
from cutlearn.model.size import at_side
from cutlearn.run.process import Interrupted
from cutlearn.shape import journal
from cutlearn.store import load_sealed, save_sealed

SIZES = {"shape": (12, 16), "hidden": (16, 8), "words": (16, 8), "epochs": (40, 20), "n_jobs": 1,
         "calibration": None}  # fmt: skip


def at_work(machine):
    """What a machine says of a sample at the size at which it works."""
    return lambda sample: machine.evidence(at_side(sample, machine.min_side))


def plates(count, seed=0):
    """Plates and bars on noise of nearly their colour: their shape tells more than their pixels."""
    rng = np.random.default_rng(seed)
    images, masks = [], []
    for k in range(count):
        mask = np.zeros((30, 40), np.uint8)
        top, left = rng.integers(4, 8), rng.integers(4, 10)
        rows, columns = ((18, 8), (8, 24), (16, 20))[k % 3]
        mask[top : top + rows, left : left + columns] = 1
        image = 0.5 + 0.12 * (mask[..., None] - 0.5) + rng.normal(0, 0.06, (30, 40, 3))
        images.append(image.clip(0, 1).astype(np.float32))
        masks.append(mask)
    return images, masks


IMAGES, MASKS = plates(12)
OTHERS, TRUTH = plates(6, 1)


@pytest.fixture(scope="module")
def fitted():
    return cl.BoltzmannSegmenter(2, pairwise=True, **SIZES).fit(IMAGES, MASKS)


def refused(path):
    with pytest.raises(cl.InputError) as caught:
        cl.load(path)
    assert str(caught.value).startswith(f"{path}: ")
    return str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"layers": 0},
        {"layers": 1, "pairwise": True},
        {"layers": 2},
        {"layers": 2, "sees_image": False, "refine": False},
    ],
)
def test_every_kind_learns_the_plates(settings):
    model = cl.BoltzmannSegmenter(**settings, **SIZES).fit(IMAGES, MASKS)
    assert pooled_iou(TRUTH, model.predict(OTHERS)) > 0.75
    assert len(model.violated_) == 5
    if not settings.get("refine", True):
        assert model.strength_ == 0


def test_more_cycles_violate_less():
    model = cl.BoltzmannSegmenter(1, cycles=12, rate=0.01, **SIZES).fit(IMAGES, MASKS)
    assert model.violated_[-1] < 0.8 * model.violated_[0]


@pytest.mark.parametrize("last", [("shapes, layer 1", 10), ("shapes, layer 2", 3), ("margins", 2)])
def test_interrupted_then_resumed_is_as_if_never_interrupted(tmp_path, monkeypatch, fitted, last):
    monkeypatch.setattr(journal, "PAUSE", 0.0)

    def stop(done, total, what):
        if (what, done) == last:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="Run the same call again"):
        cl.BoltzmannSegmenter(2, pairwise=True, **SIZES).fit(
            IMAGES, MASKS, checkpoint=tmp_path, progress=stop
        )
    told = []
    again = cl.BoltzmannSegmenter(2, pairwise=True, **SIZES).fit(
        IMAGES, MASKS, checkpoint=tmp_path, progress=lambda *step: told.append(step)
    )
    assert told[0][2] == last[0]
    assert told[0][0] <= last[1]
    for name, array in fitted.w_.items():
        assert np.array_equal(again.w_[name], array), name
    assert again.violated_ == fitted.violated_
    with pytest.raises(cl.InputError, match="other images or settings"):
        cl.BoltzmannSegmenter(1, **SIZES).fit(IMAGES, MASKS, checkpoint=tmp_path)


@pytest.mark.parametrize(
    "late", ["boltzmann.choose_strength", "boltzmann.calibrate", "base.card_of"]
)
def test_interrupted_at_the_end_nothing_is_half_fitted(tmp_path, monkeypatch, fitted, late):
    def stop(*_):
        raise KeyboardInterrupt

    settings = SIZES | {"calibration": "temperature", "epochs": (5, 5), "cycles": 1}
    fresh, again = cl.BoltzmannSegmenter(1, **settings), copy.deepcopy(fitted)
    again.set_params(**settings)
    before = dict(vars(again))
    monkeypatch.setattr(f"cutlearn.model.{late}", stop)
    for model in (fresh, again):
        with pytest.raises(Interrupted, match="interrupted"):
            model.fit(IMAGES[:4], MASKS[:4])
    assert not [name for name in vars(fresh) if name.endswith("_")]
    assert all(vars(again)[name] is value for name, value in before.items())
    again.save(tmp_path / "m")
    assert cl.load(tmp_path / "m").card_ == fitted.card_


def test_extra_channels_are_refused_not_ignored(fitted):
    extra = [cl.Sample(image, extra=np.zeros(image.shape[:2])) for image in IMAGES]
    words = "image 1 has extra channels, .*BoltzmannSegmenter sees the image only"
    with pytest.raises(cl.InputError, match=words):
        cl.BoltzmannSegmenter(1, **SIZES).fit([IMAGES[0], *extra[1:]], MASKS)
    for ask in (
        fitted.predict, fitted.predict_proba, fitted.segment,
        lambda images: fitted.score(images, MASKS[:2]),
        lambda images: copy.deepcopy(fitted).calibrate(images, MASKS[:2]),
    ):  # fmt: skip
        with pytest.raises(cl.InputError, match=words):
            ask([IMAGES[0], extra[1]])


@pytest.mark.filterwarnings("ignore:masks. value 1 is read as a label")
def test_one_label_at_the_models_size_is_refused():
    masks = [np.zeros_like(m) for m in MASKS]
    masks[0][3, 3] = 1
    with pytest.raises(cl.InputError, match="all pixels have the same label"):
        cl.BoltzmannSegmenter(1, **SIZES).fit(IMAGES, masks)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("layers", 3, "0, 1 or 2"),
        ("margin", "all", "one of"),
        ("refine", "yes", "True or False"),
        ("shape", (32,), "rows, columns"),
        ("hidden", (500, 2), "at least 4"),
        ("epochs", (1, -1), ">= 0"),
        ("cycles", -1, "from 0 to"),
        ("starts", 0, "from 1 to"),
        ("rate", 0, "finite number > 0"),
    ],
)
def test_wrong_parameters_are_refused_when_fit_begins(name, value, words):
    model = cl.BoltzmannSegmenter(**{**SIZES, name: value})
    with pytest.raises(cl.InputError, match=f"The '{name}' parameter of .* must be .*{words}"):
        model.fit(IMAGES, MASKS)


def test_calibration_makes_held_out_pixels_likelier_and_is_kept(fitted, tmp_path):
    plain = fitted.predict_proba(OTHERS)
    held, truth = plates(6, 2)
    for kind in ("temperature", "isotonic"):
        model = copy.deepcopy(fitted).set_params(calibration=kind)
        with pytest.raises(cl.InputError, match="this model is not calibrated"):
            model.predict_proba(OTHERS)
        model.calibrate(held, truth)
        found = model.predict_proba(OTHERS)
        assert log_likelihood(TRUTH, found) > log_likelihood(TRUTH, plain)
        model.save(tmp_path / kind)
        again = cl.load(tmp_path / kind)
        for first, second in zip(found, again.predict_proba(OTHERS)):
            assert np.array_equal(first, second)
        value, interval = again.area(OTHERS)
        assert np.array_equal(interval, model.area(OTHERS)[1])
        assert ((interval[:, 0] < value) & (value < interval[:, 1])).all()


def test_fit_calibrates_on_images_held_out(tmp_path):
    settings = SIZES | {"calibration": "temperature", "epochs": (20, 10)}
    model = cl.BoltzmannSegmenter(**settings).fit(IMAGES, MASKS)
    held = model.validation_["held_out"]
    assert 0 <= held["low"] <= held["value"] <= held["high"] <= 1
    assert model.calibration_.held_out
    assert model.calibration_.n_images == len(IMAGES)
    # Each half is judged by a machine of its own that has learned from the other one.
    rows = {}
    for first in (0, 1):
        machine = cl.BoltzmannSegmenter(**settings | {"calibration": None, "refine": False})
        machine.fit(IMAGES[1 - first :: 2], MASKS[1 - first :: 2])
        machine.strength_ = model.strength_
        for i in range(first, len(IMAGES), 2):
            (found,) = machine._each(read_samples([IMAGES[i]]), at_work(machine))
            rows[i] = drawn(found.min_marginals, MASKS[i])
    wanted = calibrate([rows[i] for i in range(len(IMAGES))], "temperature", True)
    assert model.calibration_.map.scale == wanted.map.scale
    assert np.array_equal(model.calibration_.map.offsets, wanted.map.offsets)
    plain = copy.deepcopy(model).set_params(calibration=None)
    plain.calibration_ = uncalibrated(2)
    assert log_likelihood(TRUTH, model.predict_proba(OTHERS)) > log_likelihood(
        TRUTH, plain.predict_proba(OTHERS)
    )
    kept = cl.BoltzmannSegmenter(**settings).fit(IMAGES, MASKS, checkpoint=tmp_path)
    again = cl.BoltzmannSegmenter(**settings).fit(IMAGES, MASKS, checkpoint=tmp_path)
    assert (
        kept.calibration_.map.scale == again.calibration_.map.scale == model.calibration_.map.scale
    )


def test_a_half_without_the_object_is_calibrated_on_all_images():
    masks = [mask if i % 2 else np.zeros_like(mask) for i, mask in enumerate(MASKS[:4])]
    settings = SIZES | {"calibration": "temperature", "epochs": (5, 5), "cycles": 1}
    model = cl.BoltzmannSegmenter(**settings).fit(IMAGES[:4], masks)
    assert not model.calibration_.held_out
    assert model.calibration_.n_images == 4


def test_the_decision_for_areas_has_the_expected_area(fitted):
    for mask, q in zip(fitted.predict(OTHERS, "count"), fitted.predict_proba(OTHERS)):
        assert abs(int(mask.sum()) - q[..., 1].sum(dtype=float)) <= 0.51
    expected = [[expected_iou(q, y) for q, y in zip(fitted.predict_proba(OTHERS), masks)]
                for masks in (fitted.predict(OTHERS, "iou"), fitted.predict(OTHERS))]  # fmt: skip
    assert (np.array(expected[0]) >= np.array(expected[1]) - 1e-6).all()


def log_likelihood(masks, found):
    parts = [np.take_along_axis(q, m[..., None].astype(int), -1) for m, q in zip(masks, found)]
    return float(np.mean([np.log(part.clip(1e-6)).mean() for part in parts]))


LIES = {
    "no W": lambda h, a: a.pop("W"),
    "a stranger": lambda h, a: a.update(stranger=np.zeros(2, np.float32)),
    "W of another shape": lambda h, a: a.update(W=a["W"][:-1]),
    "V1 of another shape": lambda h, a: a.update(V1=a["V1"][:, :-1]),
    "another type": lambda h, a: a.update(b=a["b"].astype(np.float64)),
    "not finite": lambda h, a: a["c"].fill(np.nan),
    "an edge weight below zero": lambda h, a: a["v"].fill(-1),
    "words of another form": lambda h, a: a.update(words=a["words"][:, :5]),
    "means of another form": lambda h, a: a.update(mean1=a["mean1"][:, :-1]),
    "no colours": lambda h, a: a.update(colors=a["colors"][:0]),
    "another number of layers": lambda h, a: h["parameters"].update(layers=1),
    "another shape": lambda h, a: h["parameters"].update(shape=[16, 16]),
    "a huge shape": lambda h, a: h["parameters"].update(shape=[10**6, 10**6]),
    "a stranger among the parameters": lambda h, a: h["parameters"].update(depth=3),
    "a parameter missing": lambda h, a: h["parameters"].pop("cycles"),
    "a strength below zero": lambda h, a: h["fitted"].update(strength=-1.0),
    "a calibration that cannot be": lambda h, a: h["calibration"].update(scale=-1.0),
    "points of a calibration": lambda h, a: a.update({"calibration.0": np.zeros((2, 2))}),
    "no card": lambda h, a: h.update(card=None),
    "another estimator": lambda h, a: h.update(estimator="Segmenter"),
}


@pytest.mark.parametrize("lie", list(LIES))
def test_a_file_that_lies_is_refused(fitted, tmp_path, lie):
    path = tmp_path / "model.cutlearn"
    fitted.save(path)
    header, arrays, _ = load_sealed(path, KEY)
    LIES[lie](header, arrays)
    save_sealed(path, KEY, header, arrays)
    assert "damaged model" in refused(path)


def test_the_command_line_takes_such_a_model(fitted, tmp_path):
    path = tmp_path / "model.cutlearn"
    fitted.save(path)
    said = CliRunner().invoke(main, ["show", str(path)])
    assert said.exit_code == 0, said.output
    assert f"{sum(part.size for part in fitted.w_.values())} weights, 5 cycles" in said.output
    told = json.loads(CliRunner().invoke(main, ["show", str(path), "--json"]).output)
    assert [step["violated"] for step in told["curve"]] == fitted.violated_
    for folder, arrays in (("images", OTHERS), ("masks", TRUTH)):
        (tmp_path / folder).mkdir()
        for k, array in enumerate(arrays):
            values = np.round(255 * array).astype(np.uint8)
            Image.fromarray(values).save(tmp_path / folder / f"{k}.png")
    images, masks = str(tmp_path / "images"), str(tmp_path / "masks")
    out = tmp_path / "out"
    asked = ["predict", str(path), images, "-o", str(out), "--probability"]
    assert CliRunner().invoke(main, asked).exit_code == 0
    wanted = fitted.predict([np.asarray(Image.open(f"{images}/{k}.png")) for k in range(6)])
    for k, mask in enumerate(wanted):
        assert np.array_equal(np.asarray(Image.open(out / f"{k}.png")), 255 * mask)
        assert (out / "probability" / f"{k}.png").exists()
    said = CliRunner().invoke(main, ["evaluate", str(path), images, masks, "--json"])
    assert said.exit_code == 0, said.output
    assert json.loads(said.stdout)["images"][0]["iou"] > 0.5
    assert json.loads(said.stdout)["log_likelihood"]["value"] < 0


def test_progress_is_told_phase_by_phase(capsys):
    cl.BoltzmannSegmenter(1, verbose=True, **SIZES).fit(IMAGES[:3], MASKS[:3])
    said = capsys.readouterr().err
    assert "shapes, layer 1, 40 of 40" in said
    assert "margins, 5 of 5" in said
