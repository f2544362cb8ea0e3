"""Reading training masks: what their values mean, and what a fitted model remembers of it."""

import itertools
import json
import warnings

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image
from sklearn.base import clone
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    LeaveOneOut,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)

import cutlearn as cl
from cutlearn.app.cli import main
from cutlearn.images.coding import Coding, tally
from cutlearn.images.training_set import TrainingSet, coding_of
from cutlearn.model.base import Masks
from cutlearn.model.training_images import TrainingImages, known_coding

RNG = np.random.default_rng(0)
# Images of different sizes; the last is object throughout, the one before background.
TRUTH = [np.zeros((10 + i, 14), np.uint8) for i in range(5)]
for i, mask in enumerate(TRUTH[:3]):
    mask[2 : 6 + i, 3:9] = 1
TRUTH[4][:] = 1
IMAGES = [0.6 * mask + 0.3 * RNG.random(mask.shape) for mask in TRUTH]


def model(**options):
    return cl.Segmenter(**({"features": "linear", "C": 10.0, "n_jobs": 1} | options))


def written(values, truth=TRUTH):
    return [np.array(values)[mask] for mask in truth]


def read_training(images, masks, most_labels=2, known=None):
    return TrainingSet.of_lists(images, masks, most_labels=most_labels, known=known).masks


def quiet(call, *given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*given)


def fitted(values, truth=TRUTH, **options):
    return quiet(model(**options).fit, IMAGES[:3], written(values, truth)[:3])


def labels_of(sets, known, n=2):
    """The label of every value in masks of these sets of values, 255 for void."""
    masks = [np.array([sorted(part)], np.int32) for part in sets]
    images = [np.zeros(mask.shape) for mask in masks]
    truth = quiet(read_training, images, masks, n, known)
    return {
        int(v): int(k)
        for mask, found in zip(masks, truth)
        for v, k in zip(mask.ravel(), np.asarray(found).ravel())
    }


def trained(*sets, n=2):
    tallies = [tally("", np.array(sorted(part))[None]) for part in sets]
    return coding_of(tallies, n)[0]


# Sets of values in the training masks, in later masks, and what these mean (None: refused).
READINGS = [
    ([{1, 2}], [{1}], {1: 0}),
    ([{1, 2}], [{2}], {2: 1}),
    ([{1, 2}], [{1, 255}], {1: 0, 255: 255}),
    ([{1, 2}], [{0, 255}], {0: 0, 255: 1}),
    ([{1, 2}], [{0, 1}], None),
    ([{1, 2}], [{0}], None),
    ([{1, 2}], [{3}], None),
    ([{1, 2, 255}], [{0, 255}], None),
    ([{3, 7}], [{3}], {3: 0}),
    ([{3, 7}], [{7}], {7: 1}),
    ([{3, 7}], [{7}, {3, 255}], {3: 0, 7: 1, 255: 255}),
    ([{3, 7}], [{0, 1}], {0: 0, 1: 1}),
    ([{3, 7}], [{1}], {1: 1}),
    ([{0, 1}], [{1}], {1: 1}),
    ([{0, 1}], [{0, 255}], {0: 0, 255: 1}),
    ([{0, 1}], [{0, 255}, {0, 1}], None),
    ([{0, 1}], [{0, 1, 255}], {0: 0, 1: 1, 255: 255}),
    ([{0, 1}], [{1, 2}], None),
    ([{0, 1, 255}], [{0, 255}], {0: 0, 255: 255}),
    ([{0, 1, 255}], [{0, 255}, {0, 1}], {0: 0, 1: 1, 255: 255}),
    ([{0, 255}], [{255}], {255: 1}),
    ([{0, 255}], [{0}], {0: 0}),
    ([{0, 255}], [{0, 1}], {0: 0, 1: 1}),
    ([{0, 255}], [{1}], {1: 1}),
    ([{0, 255}], [{0, 1, 255}], {0: 0, 1: 1, 255: 255}),
    ([{0, 255}], [{0, 255}, {0, 1}], None),
    ([{0, 255}], [{0, 255, -1}], {0: 0, 255: 1, -1: 255}),
    ([{0, 255, -1}], [{255, -1}], {255: 1, -1: 255}),
    ([{1, 2, -1}], [{2, -1}], {2: 1, -1: 255}),
]


@pytest.mark.parametrize(("before", "later", "wanted"), READINGS)
def test_a_value_means_what_it_meant_in_training(before, later, wanted):
    known = trained(*before)
    if wanted is None:
        with pytest.raises(cl.InputError, match=r"masks hold.*values of the training masks"):
            labels_of(later, known)
    else:
        assert labels_of(later, known) == wanted


@pytest.mark.parametrize(
    ("later", "wanted"),
    [
        ([{5}], {5: 1}),
        ([{9, 255}], {9: 2, 255: 255}),
        ([{0, 255}], {0: 0, 255: 255}),
        ([{0, 255}, {0, 5}], {0: 0, 255: 255, 5: 1}),
        ([{1}], None),
    ],
)
def test_several_labels_keep_their_values(later, wanted):
    known = trained({0, 5, 9}, n=3)
    if wanted is None:
        with pytest.raises(cl.InputError, match=r"value 1 .*the model knows 0, 5, 9"):
            labels_of(later, known, 3)
    else:
        assert labels_of(later, known, 3) == wanted


def test_background_and_void_alone_are_read_as_in_training_with_a_warning():
    known = trained({0, 1, 255})
    with pytest.warns(cl.errors.InputWarning, match="255 is not annotated, as in training"):
        read_training([np.zeros((1, 2))], [np.array([[0, 255]])], 2, known)


def test_void_is_never_an_object():
    with pytest.raises(cl.InputError, match="no pixel is annotated"):
        quiet(read_training, [np.zeros((2, 2))], [np.full((2, 2), -1)])
    both = quiet(read_training, [np.zeros((1, 3))], [np.array([[0, 255, -1]])])
    assert np.asarray(both[0]).tolist() == [[0, 1, 255]]


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64, np.int64, np.float64])
def test_large_values_do_not_wrap(dtype):
    """65537 is 1 in 16 bits."""
    with pytest.raises(cl.InputError, match="hold the value"):
        labels_of([{0, 1}], trained({3, 2**16 + 1, 2**16}, n=3), 3)
    mask = np.array([[0, 2**16 + 1]], dtype)
    truth = quiet(read_training, [np.zeros((1, 2))], [mask])
    assert np.asarray(truth[0]).tolist() == [[0, 1]]
    with pytest.raises(cl.InputError, match="hold the value 65537"):
        read_training([np.zeros((1, 2))], [mask], 2, trained({0, 1}))


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 0.5])
def test_numbers_that_are_no_labels_are_refused(wrong):
    with pytest.raises(cl.InputError, match="whole numbers are needed"):
        read_training([np.zeros((1, 2))], [np.array([[0, wrong]])])


# -- the model remembers -------------------------------------------------------------------------


@pytest.mark.parametrize("values", [(0, 1), (0, 255), (1, 2), (3, 7)])
def test_scores_calibrations_and_files_read_masks_as_in_training(values, tmp_path):
    plain, other = fitted((0, 1)), fitted(values)
    assert np.array_equal(plain.w_, other.w_)
    other.save(tmp_path / "m")
    loaded = cl.load(tmp_path / "m")
    assert loaded.training_ == other.training_
    for one, i in itertools.product((other, loaded), range(5)):
        wanted = plain.score(IMAGES[i], TRUTH[i])
        assert quiet(one.score, IMAGES[i], written(values)[i]) == wanted
    q = plain.calibrate(IMAGES[3:], TRUTH[3:]).predict_proba(IMAGES[:1])[0]
    for one in (other, loaded):
        quiet(one.calibrate, IMAGES[4:], written(values)[4:])  # object throughout
        quiet(one.calibrate, IMAGES[3:], written(values)[3:])
        assert np.array_equal(one.predict_proba(IMAGES[:1])[0], q)
    assert plain.score(IMAGES[4:], TRUTH[4:]) > 0.9


def test_a_model_of_several_labels_reads_one_of_them():
    truth = [mask.copy() for mask in TRUTH]
    for mask in truth[:3]:
        mask[:2] = 2
    learned = fitted((0, 50, 100), truth, labels="unordered")
    assert quiet(learned.score, IMAGES[4:], [np.full_like(TRUTH[4], 50)]) == pytest.approx(
        fitted((0, 1, 2), truth, labels="unordered").score(IMAGES[4:], TRUTH[4:])
    )


def old(values):
    """The facts that a file of an earlier version keeps."""
    learned = fitted(values)
    plain = learned.training_.to_plain()
    del plain["coding"]
    learned.training_ = TrainingImages.from_plain(plain)
    return learned


def test_files_of_earlier_versions_keep_the_values_of_labels():
    assert known_coding(old((1, 2))) == Coding("ids", None, None, (1, 2))
    assert known_coding(old((0, 255))) == Coding("binary", 255, None, (0, 255))
    assert known_coding(old((0, 1))) is None  # masks may have had other values
    score = quiet(old((0, 1)).score, IMAGES[:1], written((0, 3))[:1])
    assert score == fitted((0, 1)).score(IMAGES[:1], TRUTH[:1])
    forgotten = fitted((1, 2))
    forgotten.training_ = None
    assert known_coding(forgotten) is None
    several = fitted((0, 1))
    several.classes_, several.training_ = np.arange(3), None
    assert known_coding(several).values == (0, 1, 2)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "none"},
        {"kind": "threshold"},
        {"values": [1, 3]},
        {"values": "ab"},
        {"void_value": 0.5},
        {"object_value": 2**40},
    ],
)
def test_lying_codings_are_refused(change):
    plain = fitted((1, 2)).training_.to_plain()
    with pytest.raises((ValueError, TypeError)):
        TrainingImages.from_plain(plain | {"coding": plain["coding"] | change})


# -- the command line ----------------------------------------------------------------------------


def ran(*arguments):
    done = CliRunner().invoke(main, [*map(str, arguments), "--json"])
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def folder_of(root, name, arrays, mode="L"):
    made = root / name
    made.mkdir()
    for i, array in enumerate(arrays):
        Image.fromarray(np.asarray(array, np.uint8)).convert(mode).save(made / f"{i}.png")
    return made


@pytest.fixture
def pictures(tmp_path):
    return folder_of(tmp_path, "images", [255 * image for image in IMAGES])


def evaluated(root, model, pictures, masks, *options):
    """The mean IoU of every image, each evaluated alone, by the command line."""
    for i, mask in enumerate(masks):
        Image.fromarray(np.asarray(mask, np.uint8)).save(root / "one.png")
        said, _ = ran("evaluate", model, pictures / f"{i}.png", root / "one.png", *options)
        yield said["mean_iou"]


FIT = ("--features", "linear", "--labels", "binary")


@pytest.mark.parametrize("values", [(1, 2), (3, 7), (0, 255)])
def test_the_command_line_and_python_give_one_score(values, pictures, tmp_path):
    masks = [np.asarray(mask, np.uint8) for mask in written(values)]
    truths, path = folder_of(tmp_path, "masks", masks), tmp_path / "m"
    ran("fit", pictures, truths, "-o", path, *FIT)
    learned, photos = cl.load(path), [cl.images.read_image(pictures / f"{i}.png") for i in range(5)]
    said, _ = ran("evaluate", path, pictures, truths)
    assert quiet(learned.score, photos, masks) == said["mean_iou"]
    alone = [quiet(learned.score, photos[i], masks[i]) for i in range(5)]
    assert list(evaluated(tmp_path, path, pictures, masks)) == alone
    assert min(alone) > 0.8
    made = quiet(model().fit, photos, masks)
    made.save(tmp_path / "python")
    found = list(evaluated(tmp_path, tmp_path / "python", pictures, masks))
    assert found == [quiet(made.score, photos[i], masks[i]) for i in range(5)]


@pytest.mark.parametrize(
    ("values", "options"),
    [
        ((40, 200), ("--threshold", "128")),
        ((1, 9), ("--object-value", "9")),
        ((0, 9), ("--object-value", "nonzero")),
        ((0, 7), ("--void-value", "255")),
    ],
)
def test_what_fit_was_told_of_masks_holds_for_evaluate(values, options, pictures, tmp_path):
    masks = written(values)
    path = tmp_path / "m"
    ran("fit", pictures, folder_of(tmp_path, "masks", masks), "-o", path, *FIT, *options)
    wanted = list(evaluated(tmp_path, path, pictures, masks, *options))
    assert list(evaluated(tmp_path, path, pictures, masks)) == wanted
    assert min(wanted) > 0.8


def test_colours_keep_their_labels(pictures, tmp_path):
    colours = np.array([[0, 0, 255], [255, 0, 0]], np.uint8)  # blue is label 0: it is less
    masks, path = [colours[mask] for mask in TRUTH], tmp_path / "m"
    ran("fit", pictures, folder_of(tmp_path, "masks", masks, "RGB"), "-o", path, *FIT)
    assert min(evaluated(tmp_path, path, pictures, masks)) > 0.8


def test_grey_masks_saved_in_colour_keep_their_labels(pictures, tmp_path):
    masks, path = [255 * mask for mask in TRUTH], tmp_path / "m"
    ran("fit", pictures, folder_of(tmp_path, "masks", masks), "-o", path, *FIT)
    colours = [np.dstack([mask] * 3) for mask in masks]
    assert min(evaluated(tmp_path, path, pictures, colours)) > 0.8


# -- scikit-learn --------------------------------------------------------------------------------


def quick():
    return model(calibration=None, features=cl.Featurizer("linear", position=False))


def scores(values, splits, **options):
    return quiet(lambda: cross_val_score(quick(), IMAGES, written(values), cv=splits, **options))


def test_every_split_of_scikit_learn_scores_1_and_2_as_0_and_1():
    alone, groups = LeaveOneOut(), {"groups": [0, 0, 1, 1, 2]}
    options = {"error_score": "raise"}
    wanted = scores((0, 1), alone, **options)
    assert np.array_equal(scores((1, 2), alone, **options), wanted)
    assert wanted.min() > 0.8
    found = quiet(lambda: cross_validate(quick(), IMAGES, written((1, 2)), cv=GroupKFold(3),
                                         **groups, **options))  # fmt: skip
    wanted = scores((0, 1), GroupKFold(3), **groups, **options)
    assert np.array_equal(found["test_score"], wanted)


def test_a_grid_search_scores_1_and_2():
    masks = written((1, 2))
    search = GridSearchCV(quick(), {"C": [0.1, 10.0]}, cv=LeaveOneOut(), error_score="raise")
    quiet(search.fit, IMAGES, masks)
    assert search.best_score_ > 0.8
    found = cl.metrics.mean_iou(TRUTH[4:], search.predict(IMAGES[4:]), 2)
    assert quiet(search.score, IMAGES[4:], masks[4:]) == found
    assert not hasattr(clone(search.best_estimator_), "training_")


@pytest.mark.parametrize("rows", [slice(None), slice(8)])
def test_cross_val_predict_gives_a_mask_for_every_image(rows):
    images, truth = [image[rows] for image in IMAGES], [mask[rows] for mask in TRUTH]
    masks = written((1, 2), truth)
    found = quiet(lambda: cross_val_predict(quick(), images, masks, cv=LeaveOneOut()))
    assert [mask.shape for mask in found] == [mask.shape for mask in truth]
    kept = range(1, 5)
    first = quiet(quick().fit, [images[i] for i in kept], [masks[i] for i in kept])
    assert np.array_equal(found[0], first.predict(images[:1])[0])
    assert cl.metrics.mean_iou(truth, found) > 0.8


def test_masks_are_a_list_for_everything_else_of_numpy():
    alike = Masks([np.zeros((2, 3), np.uint8), np.ones((2, 3), np.uint8)])
    ragged = Masks([np.zeros((2, 3), np.uint8), np.ones((1, 3), np.uint8)])
    assert np.array(alike).shape == np.stack(alike).shape == (2, 2, 3)
    assert np.mean(alike) == 0.5
    assert np.concatenate(alike).shape == (4, 3)
    assert np.concatenate(ragged).shape == (3, 3)
    assert np.concatenate([alike, alike]).shape == (4, 2, 3)
    assert np.concatenate([alike, ragged]).shape == (4,)
    assert np.concatenate([np.ones((1, 2, 3)), alike]).shape == (3, 2, 3)
    assert isinstance(ragged, list)
