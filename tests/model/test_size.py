"""The size at which a model works is the model's own: Python and the command line agree."""

import copy
import json

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from click.testing import CliRunner

import cutlearn as cl
from cutlearn.app.cli import main
from cutlearn.images import cells, read_folder, read_image, read_values
from cutlearn.images.resize import resize_image, resize_labels
from cutlearn.model.model_files import KEY
from cutlearn.model.size import at_side
from cutlearn.store import load_sealed
from small_folders import make_folders

FAST = ["--features", "linear", "--C", "10", "--tol", "0.05", "--jobs", "1"]
WORLDS = [cells(seed, (40, 48)) for seed in range(6)]
IMAGES, MASKS = [w.image for w in WORLDS], [w.labels for w in WORLDS]
SMALL = [resize_image(image, (20, 24)) for image in IMAGES]
NEW, TRUTH = IMAGES[4:], MASKS[4:]
MODELS = {
    "segmenter": lambda **given: cl.Segmenter(
        **({"features": "linear", "C": 10.0, "n_jobs": 1} | given)
    ),
    "boltzmann": lambda **given: cl.BoltzmannSegmenter(
        **({"shape": (12, 16), "hidden": (16, 8), "words": (16, 8), "epochs": (20, 10),
            "cycles": 2, "n_jobs": 1} | given)
    ),
}  # fmt: skip


def run(*args):
    done = CliRunner().invoke(main, [str(a) for a in args])
    assert done.exit_code == 0, done.stderr
    return done


@pytest.fixture(scope="module", params=list(MODELS))
def pair(request):
    """A model that works at 20 pixels, and one of full size, fitted on images made small."""
    make = MODELS[request.param]
    small = [resize_labels(mask, (20, 24)) for mask in MASKS]
    return make(min_side=20).fit(IMAGES[:4], MASKS[:4]), make().fit(SMALL[:4], small[:4])


@pytest.fixture(scope="module")
def fitted():
    return MODELS["segmenter"](min_side=20).fit(IMAGES[:4], MASKS[:4])


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """Folders, a model fitted at 20 pixels by the command line, and what it predicts."""
    root = tmp_path_factory.mktemp("asked")
    images, masks = make_folders(root)
    run("fit", images, masks, "-o", root / "m", *FAST, "--min-side", 20)
    run("predict", root / "m", images, "-o", root / "out", "--probability", "--areas",
        root / "areas.csv")  # fmt: skip
    return root, images, masks


def check_agrees(model, root, images):
    pictures = [read_image(path) for path in read_folder(images).images]
    found = model.predict(pictures)
    maps = model.predict_proba(pictures)
    areas = model.area(pictures)
    lines = (root / "areas.csv").read_text().splitlines()[1:]
    for i, (mask, q) in enumerate(zip(found, maps)):
        assert np.array_equal(mask * 255, read_values(root / "out" / f"cell{i}.png"))
        written = read_values(root / "out" / "probability" / f"cell{i}.png")
        assert np.array_equal(np.rint(q[..., 1].astype(float) * 65535), written)
        told = [areas[0][i], *areas[1][i]]
        assert lines[i].split(",")[3:] == [f"{value:.1f}" for value in told]


def test_a_loaded_model_gives_the_answers_of_the_command_line(asked):
    root, images, _ = asked
    model = cl.load(root / "m")
    assert model.min_side == 20
    check_agrees(model, root, images)


@pytest.mark.parametrize("version", [1, 2])
def test_old_files_that_have_it_in_their_card_keep_it(asked, tmp_path, version):
    root, images, _ = asked
    header, arrays, _ = load_sealed(root / "m", KEY)
    del header["parameters"]["min_side"]
    header["card"]["min_side"] = 20
    header["version"] = version
    path = tmp_path / "old"
    path.write_bytes(safetensors.numpy.save(arrays, metadata={KEY: json.dumps(header)}))
    model = cl.load(path)
    assert model.min_side == 20
    if version == 2:
        check_agrees(model, root, images)
    else:  # without a calibration
        (mask,) = model.predict([read_image(f"{images}/cell1.png")])
        assert np.array_equal(mask * 255, read_values(root / "out" / "cell1.png"))


def test_the_command_line_fits_what_the_estimator_fits(asked):
    root, images, masks = asked
    pictures, truth = read_folder(images, masks).load()
    model = cl.Segmenter(features="linear", C=10.0, tol=0.05, n_jobs=1, min_side=20)
    model.fit(pictures, truth)
    assert np.array_equal(model.w_, cl.load(root / "m").w_)
    assert model.card_["data"] == cl.load(root / "m").card_["data"]


def test_the_command_line_can_name_another_size(asked, tmp_path):
    root, images, masks = asked
    run("predict", root / "m", images, "-o", tmp_path, "--min-side", 30)
    model = cl.load(root / "m").set_params(min_side=30)
    (mask,) = model.predict([read_image(f"{images}/cell1.png")])
    assert np.array_equal(mask * 255, read_values(tmp_path / "cell1.png"))
    told = json.loads(run("evaluate", root / "m", images, masks, "--json").stdout)
    pictures, truth = read_folder(images, masks).load()
    found = cl.load(root / "m").predict(pictures)
    for mask, right, row in zip(found, truth, told["images"]):
        assert row["predicted_area"] == int(mask.sum())
        assert row["true_area"] == int(right.sum())


def test_answers_are_those_of_small_images_painted_back(pair):
    model, plain = pair
    for decision in ("map", "iou", "count"):
        wanted = [resize_labels(y, (40, 48)) for y in plain.predict(SMALL[4:], decision)]
        assert np.array_equal(model.predict(NEW, decision), wanted)
    wanted = [resize_image(q, (40, 48)) for q in plain.predict_proba(SMALL[4:])]
    assert np.array_equal(model.predict_proba(NEW), wanted)
    for (mask, q), right, belief in zip(model.segment(NEW), model.predict(NEW), wanted):
        assert np.array_equal(mask, right)
        assert np.array_equal(q, belief)
    assert model.score(NEW, TRUTH) == cl.metrics.mean_iou(TRUTH, model.predict(NEW))


def test_areas_are_pixels_of_the_full_image(pair):
    model, plain = pair
    value, interval = model.area(NEW)
    small, narrow = plain.area(SMALL[4:])
    assert value == pytest.approx(4 * small, rel=0.02)
    assert np.diff(interval) == pytest.approx(4 * np.diff(narrow), rel=0.1)


def test_calibrating_later_is_at_the_same_size(pair):
    model, plain = pair
    for one, images, masks in (
        (model, NEW, TRUTH),
        (plain, SMALL[4:], [resize_labels(mask, (20, 24)) for mask in TRUTH]),
    ):
        one.calibrate(images, masks)
    assert model.calibration_.to_header()[0] == plain.calibration_.to_header()[0]


def test_windows_to_annotate_are_in_pixels_of_the_full_image(fitted):
    small = MODELS["segmenter"]().fit(SMALL[:4], [resize_labels(m, (20, 24)) for m in MASKS[:4]])
    for found, wanted in zip(fitted.rank(NEW), small.rank(SMALL[4:])):
        assert (found.image, found.score) == (wanted.image, wanted.score)
        for a, b in zip(found.windows, wanted.windows):
            assert (a.top, a.bottom, a.left, a.right) == (
                2 * b.top, 2 * b.bottom, 2 * b.left, 2 * b.right
            )  # fmt: skip
        assert max(window.bottom for window in found.windows) == 40


def test_box_and_seeds_hold_at_full_size(pair):
    model, _ = pair
    seeds = np.full((40, 48), -1)
    seeds[11, 13], seeds[11, 14], seeds[30, 31] = 1, 0, 1  # two in one pixel of the small image
    sample = cl.Sample(NEW[0], box=(3, 5, 33, 41), seeds=seeds)
    outside = np.ones((40, 48), bool)
    outside[3:33, 5:41] = False
    for mask in (*(model.predict([sample], d)[0] for d in ("map", "iou")),
                 model.segment([sample])[0][0]):  # fmt: skip
        assert (mask[seeds >= 0] == seeds[seeds >= 0]).all()
        assert not mask[outside].any()
    (q,) = model.predict_proba([sample])
    assert (q[outside] == [1, 0]).all()
    assert q[11, 13].tolist() == [0, 1]
    assert q[11, 14].tolist() == [1, 0]


def test_a_single_seed_is_not_lost_between_the_rows_that_stay():
    for row in range(8):
        seeds = np.full((8, 8), -1)
        seeds[row, 5] = 1
        small = at_side(cl.Sample(np.zeros((8, 8)), box=(row, 5, row + 1, 6), seeds=seeds), 2)
        assert np.argwhere(small.seeds == 1).tolist() == [[row // 4, 1]]
        assert small.box == (row // 4, 1, row // 4 + 1, 2)
    large = at_side(cl.Sample(np.zeros((2, 2)), seeds=np.array([[1, -1], [0, -1]])), 6)
    assert np.array_equal(large.seeds, np.kron([[1, -1], [0, -1]], np.ones((3, 3), int)))


def test_extra_channels_come_along_whatever_their_numbers():
    logits = [10.0 * (2.0 * mask - 1) for mask in MASKS]
    small = at_side(cl.Sample(IMAGES[0], extra=logits[0]), 20)
    assert small.extra.shape == (20, 24, 1)
    assert (small.extra.min(), small.extra.max()) == (-10, 10)
    samples = [cl.Sample(image, extra=part) for image, part in zip(IMAGES, logits)]
    model = MODELS["segmenter"](min_side=20).fit(samples[:4], MASKS[:4])
    assert model.score(samples[4:], TRUTH) > 0.9


def test_a_size_is_saved_whatever_its_type(pair, tmp_path):
    model = resized(pair[0], np.int64(20))
    model.save(tmp_path / "m")
    assert cl.load(tmp_path / "m").min_side == 20


def test_a_size_that_cannot_be_is_refused_in_words(fitted):
    for value in (0, -3, 2.5, "240", True, 10**6):
        with pytest.raises(cl.InputError, match="The 'min_side' parameter of Segmenter must be"):
            MODELS["segmenter"](min_side=value).fit(IMAGES, MASKS)
        with pytest.raises(cl.InputError, match="The 'min_side' parameter of Segmenter must be"):
            cl.Segmenter.predict(resized(fitted, value), NEW)


def resized(model, value):
    return copy.copy(model).set_params(min_side=value)


@pytest.mark.filterwarnings("ignore:images.* far darker")
def test_an_image_that_would_grow_beyond_all_bounds_is_refused(fitted):
    thin = np.zeros((2, 30_000), np.float32)
    with pytest.raises(cl.InputError, match=r"min_side: .*30000 x 2 .* would become"):
        resized(fitted, 2000).predict([thin])
