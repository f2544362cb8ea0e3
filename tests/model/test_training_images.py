"""What a model remembers of its training images, and the doors that Python users take wrongly."""

import warnings

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.errors import InputWarning
from cutlearn.images import cells, pasture
from cutlearn.images.sample import facts_of
from cutlearn.model.training_images import TrainingImages

WORLDS = [cells(seed, (32, 40)) for seed in range(6)]
IMAGES = [(255 * w.image).astype(np.uint8) for w in WORLDS]
MASKS = [w.labels for w in WORLDS]


def model(**options):
    given = {"features": "linear", "C": 10.0, "tol": 0.05, "n_jobs": 1, "random_state": 0}
    return cl.Segmenter(**(given | options))


@pytest.fixture(scope="module")
def fitted():
    return model().fit(IMAGES[:4], MASKS[:4])


def test_one_image_is_a_list_of_one(fitted):
    (wanted,) = fitted.predict([IMAGES[4]])
    assert np.array_equal(fitted.predict(IMAGES[4])[0], wanted)
    assert fitted.predict_proba(IMAGES[4])[0].shape == (32, 40, 2)
    assert fitted.score(IMAGES[4], MASKS[4]) == fitted.score([IMAGES[4]], [MASKS[4]])
    one = model().fit(IMAGES[0], MASKS[0])
    assert np.array_equal(one.w_, model().fit(IMAGES[:1], MASKS[:1]).w_)
    color = np.repeat(IMAGES[4][..., None], 3, axis=2)
    assert [mask.shape for mask in fitted.predict(color)] == [(32, 40)]
    assert len(fitted.predict(np.stack(IMAGES[:3]))) == 3


def test_masks_of_0_and_255_are_read_by_the_rule_of_the_command_line(fitted):
    doubled = [(255 * mask).astype(np.uint8) for mask in MASKS]
    with pytest.warns(InputWarning, match="values 0 and 255 are read as background and object"):
        same = model().fit(IMAGES[:4], doubled[:4])
    assert np.array_equal(same.w_, fitted.w_)
    with pytest.warns(InputWarning, match="0 and 255"):
        assert same.score(IMAGES[4:], doubled[4:]) == fitted.score(IMAGES[4:], MASKS[4:])
    with pytest.raises(cl.InputError, match="1 of the masks hold only 0 and 255"):
        model().fit(IMAGES[:2], [doubled[0], MASKS[1]])


def test_void_is_255_or_minus_one(fitted):
    void = [mask.astype(np.int16) for mask in MASKS[:4]]
    for mask in void:
        mask[:5] = -1
    other = [np.where(mask == -1, 255, mask).astype(np.uint8) for mask in void]
    assert np.array_equal(model().fit(IMAGES[:4], void).w_, model().fit(IMAGES[:4], other).w_)


def test_ids_with_holes_are_kept_by_the_model(tmp_path):
    worlds = [pasture(seed, (24, 32)) for seed in range(4)]
    images = [w.image for w in worlds]
    ids = [np.array([1, 4, 9], np.uint8)[w.labels] for w in worlds]
    learn = model(labels="ordered", connectivity=4)
    with pytest.warns(InputWarning, match="1, 4, 9 are labels 0 to 2 in this order"):
        learn.fit(images[:3], ids[:3])
    assert learn.training_.values == (1, 4, 9)
    learn.save(tmp_path / "m")
    loaded = cl.load(tmp_path / "m")
    assert loaded.training_ == learn.training_
    with pytest.warns(InputWarning):
        score = loaded.score(images[3:], ids[3:])
    found = cl.metrics.mean_iou([worlds[3].labels], loaded.predict(images[3:]), 3)
    assert score == pytest.approx(found)
    with pytest.raises(cl.InputError, match="hold the value 2"):
        loaded.score(images[3:], [np.where(ids[3] == 4, 2, ids[3])])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x: (x // 16).astype(np.uint8), "far darker .* of full scale here, .* there"),
        (lambda x: x.astype(np.uint16) * 16, "far darker"),
        (lambda x: np.kron(x, np.ones((3, 3), np.uint8)),
         "of another size .* 120 x 96 pixels here, a shorter side of 32 there"),
        (lambda x: np.dstack([x, x // 2, x]), "in colour, but all images .* were grey"),
    ],
)  # fmt: skip
def test_images_unlike_those_of_the_fit_are_told_with_both_figures(fitted, change, words):
    with pytest.warns(InputWarning, match=words):
        fitted.predict([change(IMAGES[4])])


def test_images_like_those_of_the_fit_need_no_words(fitted):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.predict(IMAGES[4:])
        fitted.predict([np.dstack([IMAGES[4]] * 3)])  # grey in three channels
        resized = model(min_side=20).fit(IMAGES[:3], MASKS[:3])
        resized.predict([np.kron(IMAGES[4], np.ones((3, 3), np.uint8))])


def test_training_images_are_known_again_in_any_lossless_form(fitted):
    other = [facts_of(image) for image in (
        (IMAGES[1] / 255).astype(np.float32), WORLDS[5].image.astype(np.float32),
        np.dstack([(IMAGES[2] / 255).astype(np.float32)] * 3),
    )]  # fmt: skip
    assert fitted.training_.known(other) == [0, 2]


def test_seeds_of_other_tools_are_refused(fitted):
    marks = np.zeros((32, 40), np.int32)
    marks[4:6, 4:6] = 1
    with pytest.raises(cl.InputError, match=r"mark every pixel.*np\.where\(marks == 0, -1"):
        fitted.predict([cl.Sample(IMAGES[4], seeds=marks)])
    marks = np.where(marks == 0, -1, marks)
    assert (fitted.predict([cl.Sample(IMAGES[4], seeds=marks)])[0][4:6, 4:6] == 1).all()


def test_held_out_overlap_is_told_with_its_spread():
    held = model(C="auto").fit(IMAGES, MASKS).validation_["held_out"]
    assert 0 < held["low"] <= held["value"] <= held["high"] <= 1


@pytest.mark.parametrize(
    "change",
    [{"sides": [1]}, {"bright": [0.0, 2.0]}, {"digests": [1]}, {"values": [-1, 0]}, {"names": [7]},
     {"sides": [1.5, 2]}],
)  # fmt: skip
def test_lying_files_are_refused(fitted, change):
    plain = fitted.training_.to_plain()
    assert TrainingImages.from_plain(plain) == fitted.training_
    with pytest.raises((ValueError, TypeError)):
        TrainingImages.from_plain(plain | change)
