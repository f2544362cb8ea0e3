"""Large images and volumes: in tiles and strips as at once."""

import warnings

import numpy as np
import pytest
from scipy.ndimage import binary_erosion

import cutlearn as cl
from cutlearn.energy.model import unary_of
from cutlearn.errors import ConvergenceWarning
from cutlearn.features import describe
from cutlearn.features.net.learn import NetRecipe
from cutlearn.features.trees import Recipe
from cutlearn.images import cells
from cutlearn.model import budget, large
from volume_worlds import balls


@pytest.fixture(scope="module")
def model():
    worlds = [cells(seed, (64, 80)) for seed in range(3)]
    images = [world.image for world in worlds]
    return cl.Segmenter(features="linear").fit(images, [world.labels for world in worlds])


@pytest.fixture(scope="module")
def of_volumes():
    images, masks = zip(*(balls(seed) for seed in (0, 1)))
    return cl.Segmenter(features="linear").fit([cl.Volume(image) for image in images], masks)


@pytest.fixture
def small(monkeypatch):
    """Everything is large, and tiles are small."""
    monkeypatch.setattr(large, "LARGE", 0)
    monkeypatch.setattr(large, "TILE", 64)


def large_image(model, sample):
    return large.LargeImage(model.featurizer_, model.model_, model.w_, sample)


def cut_of(model, sample):
    return large_image(model, sample).cut()


IMAGE = cells(7, (300, 200)).image
# Every image here is larger than the training images on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::cutlearn.errors.InputWarning")


def assert_same_up_to_rounding(found, expected):
    """Compare masks and probabilities whose unaries come from BLAS products of other shapes."""
    for (labels, q), (whole, p) in zip(found, expected, strict=True):
        assert (labels != whole).mean() <= 1e-3
        assert np.quantile(np.abs(q - p), 0.999) <= 1e-4


def answers(model, images):
    return list(zip(model.predict(images), model.predict_proba(images)))


def test_tiles_answer_as_the_whole_image(model, small, monkeypatch):
    found = answers(model, [IMAGE])
    assert len(list(large.tiles(IMAGE.shape, 1))) == 20
    monkeypatch.undo()
    assert_same_up_to_rounding(found, answers(model, [IMAGE]))


NET = NetRecipe(steps=20, crops=2, folds=2)
TREES = Recipe(trees=8, rows=2000, folds=2, stages=1)


@pytest.mark.parametrize("features", ["net", "trees"])
@pytest.mark.parametrize("scale", [1, 2])
def test_tiles_have_the_unaries_of_the_whole_image(small, monkeypatch, features, scale):
    monkeypatch.setattr("cutlearn.features.describe.PIXELS", 64 * 80 / (2 * scale - 1))
    worlds = [cells(seed, (64, 80)) for seed in range(3)]
    source = cl.Featurizer(features, net=NET, recipe=TREES)
    model = cl.Segmenter(features=source, C=1000.0, tol=0.1, calibration=None)
    model.fit([w.image for w in worlds], [w.labels for w in worlds])
    assert model.featurizer_.bank_.scale == scale
    # Dark except for one tile: no tile has the intensity statistics of the image.
    image = np.kron(cells(7, (300, 200)).image, np.ones((scale, scale)))
    image[64:, 64:] *= 0.2
    for seen in (image.size, 5000):
        monkeypatch.setattr(describe, "STATISTICS_PIXELS", seen)
        (field,) = large_image(model, cl.Sample(image)).fields
        whole = unary_of(model._problem(cl.Sample(image)), model.w_)
        assert np.abs(field.unary.ravel() - whole).max() <= 1e-5 * np.ptp(whole)
        assert np.ptp(whole) > 0


def test_a_second_stage_of_trees_differs_a_little(small, monkeypatch):
    worlds = [cells(seed, (64, 80)) for seed in range(3)]
    source = cl.Featurizer("trees", recipe=Recipe(trees=8, rows=2000, folds=2))
    source.fit([w.image for w in worlds], [w.labels for w in worlds])
    image = cells(7, (300, 700)).image
    whole, light = source.node_features(image).reshape(300, 700, -1), source.image_statistics(image)
    for inner, outer in large.tiles(image.shape, 1, 2):
        part = source.node_features(image[outer], statistics=light)
        at = tuple(slice(i.start - o.start, i.stop - o.start) for i, o in zip(inner, outer))
        differ = np.abs(part.reshape(*image[outer].shape, -1)[at] - whole[inner])
        assert differ[..., 2:].max() < 1e-5  # the first stage, and the other channels
        assert differ.max() < 1.0
        assert np.median(differ[..., 1]) < 0.05


def test_slices_answer_as_the_whole_volume(of_volumes, small, monkeypatch):
    volume = cl.Volume(balls(2)[0], (3, 1, 1))
    found = answers(of_volumes, [volume])
    monkeypatch.undo()
    assert_same_up_to_rounding(found, answers(of_volumes, [volume]))


def test_strips_tell_what_they_can_miss(model, small, monkeypatch):
    whole = cut_of(model, cl.Sample(IMAGE))
    monkeypatch.setattr(budget, "WHOLE", 0)
    monkeypatch.setattr(budget, "STRIP", 40 * 200)
    monkeypatch.setattr(large, "OVERLAP", {2: 24})
    parts = cut_of(model, cl.Sample(IMAGE))
    assert whole.strips == 1
    assert parts.strips == 8
    assert parts.lower_bound <= whole.value <= parts.value
    assert parts.relative_gap < 0.01
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        labels = model.predict([IMAGE])[0]
    assert (labels == parts.labels).all()
    assert ("proved to be within" in str(caught[0].message)) == (parts.relative_gap > large.PROVED)


def test_boxes_and_seeds_hold_in_strips(model, small, monkeypatch):
    monkeypatch.setattr(budget, "WHOLE", 0)
    monkeypatch.setattr(budget, "STRIP", 40 * 200)
    sample = cl.Sample(IMAGE, box=(20, 30, 260, 180))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        labels = model.predict([sample])[0]
    assert (labels[sample.fixed() == 0] == 0).all()
    assert labels.any()


def margins(evidence):
    """How much more the worse label costs."""
    return np.abs(evidence.min_marginals[..., 1] - evidence.min_marginals[..., 0])


def test_min_marginals_of_strips_are_bounds_that_mostly_touch(model, small, monkeypatch):
    whole = large_image(model, cl.Sample(IMAGE)).evidence()
    monkeypatch.setattr(budget, "WHOLE", 0)
    monkeypatch.setattr(budget, "STRIP", 80 * 200)
    rounding = 1e-9 * np.abs(whole.min_marginals).max()
    for overlap, least in ((4, 0.7), (24, 0.99), (300, 1.0)):
        monkeypatch.setattr(large, "OVERLAP", {2: overlap})
        parts = large_image(model, cl.Sample(IMAGE)).evidence()
        assert (parts.alone == whole.alone).all()
        same = parts.labels == whole.labels
        assert same.mean() > 0.999
        more = (margins(parts) - margins(whole))[same]
        # What is held at the ends of a strip bounds them if it is what the whole image has there.
        held = cut_of(model, cl.Sample(IMAGE)).labels == whole.labels
        assert more.min() >= -rounding or not held.all()
        assert (np.abs(more) <= rounding).mean() >= least
    assert same.all()
    assert held.all()


def test_probabilities_of_strips_and_what_a_person_has_settled(model, small, monkeypatch):
    sample = cl.Sample(IMAGE, box=(20, 30, 260, 180))
    whole = model.predict_proba([sample])[0]
    monkeypatch.setattr(budget, "WHOLE", 0)
    monkeypatch.setattr(budget, "STRIP", 80 * 200)
    parts = model.predict_proba([sample])[0]
    assert (parts[sample.fixed() == 0] == [1, 0]).all()
    assert np.abs(parts - whole).max() < 1e-3


@pytest.fixture(scope="module")
def layers():
    """Images and masks of three labels that lie within each other."""
    worlds = [cells(seed, (48, 64)) for seed in range(3)]
    inner = [binary_erosion(world.labels, iterations=2) for world in worlds]
    return [w.image for w in worlds], [w.labels + deep for w, deep in zip(worlds, inner)]


@pytest.fixture(scope="module", params=["ordered", "unordered", "surrogate"])
def of_several(request, layers):
    learner = "likelihood" if request.param == "surrogate" else "bundle"
    given = {"labels": request.param, "learner": learner, "C": 10.0, "tol": 0.05}
    return cl.Segmenter(features="linear", calibration=None, **given).fit(*layers)


PART = cells(8, (160, 60)).image


def test_several_labels_answer_as_the_whole_image(of_several, small, monkeypatch):
    images = [PART, cl.Sample(PART, box=(10, 5, 150, 55))]
    found = answers(of_several, images)
    monkeypatch.undo()
    assert_same_up_to_rounding(found, answers(of_several, images))


def in_strips(model, monkeypatch, rows, overlap):
    """Let images of PART's width be cut in strips of so many rows, of any labels."""
    bytes_ = budget.Load.of(model.model_.labels).bytes
    monkeypatch.setattr(budget, "WHOLE", 0)
    monkeypatch.setattr(budget, "STRIP", rows * PART.shape[1] * bytes_ // budget.WORKED)
    monkeypatch.setattr(large, "OVERLAP", {2: overlap})


@pytest.mark.filterwarnings("ignore::cutlearn.errors.ConvergenceWarning")
def test_several_labels_in_strips(of_several, small, monkeypatch):
    sample = cl.Sample(PART, box=(10, 5, 150, 55))
    whole = of_several.predict_proba([sample])[0]
    before = None
    if of_several.labels != "surrogate":
        before = cut_of(of_several, cl.Sample(PART))
    in_strips(of_several, monkeypatch, 40, 24)
    parts = of_several.predict_proba([sample])[0]
    assert (parts[sample.fixed() == 0] == [1, 0, 0]).all()
    assert np.abs(parts - whole).max() < 0.05
    labels = of_several.predict([PART])[0]
    if before is None:
        return
    after = cut_of(of_several, cl.Sample(PART))
    assert after.strips == 4
    assert (labels == after.labels).all()
    assert (after.labels == before.labels).mean() > 0.99
    assert after.value <= before.value + 0.01 * abs(before.value)
    if of_several.labels == "ordered":
        assert after.lower_bound <= before.value <= after.value
        assert after.relative_gap < 0.01
    else:
        assert after.lower_bound == -np.inf


def test_strips_of_moves_say_that_nothing_is_proved(of_several, small, monkeypatch):
    in_strips(of_several, monkeypatch, 40, 24)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        of_several.predict([PART])
    told = [str(one.message) for one in caught if one.category is ConvergenceWarning]
    assert any("nothing is proved" in one for one in told) == (of_several.labels == "unordered")


def test_full_size_is_asked_for_by_name(model, monkeypatch):
    from cutlearn.model import size

    monkeypatch.setattr(size, "MOST_WORKED", 1000)
    full = model.predict([IMAGE])[0]
    monkeypatch.undo()
    plain = model.predict([IMAGE])[0]
    assert (full != plain).any()
    monkeypatch.setattr(size, "MOST_WORKED", 1000)
    model.min_side = "full"
    assert (model.predict([IMAGE])[0] == plain).all()  # the same call as above
    model.min_side = "whole"
    with pytest.raises(cl.InputError, match="None, 'full' or a whole number"):
        model.predict([IMAGE])
    model.min_side = None


def test_full_size_is_kept_in_files(model, tmp_path):
    model.min_side = "full"
    model.save(tmp_path / "a.model")
    model.min_side = None
    assert cl.load(tmp_path / "a.model").min_side == "full"


def test_what_strips_cannot_do_is_refused(model, small, monkeypatch):
    monkeypatch.setattr(budget, "WHOLE", 0)
    worlds = [cells(seed, (32, 40)) for seed in range(3)]
    pair = [w.image for w in worlds], [w.labels for w in worlds]
    other = cl.Segmenter(("unary", "contrast", "envelope"), features="linear", C=1.0)
    other.fit(*pair)
    with pytest.raises(cl.InputError, match="no envelopes"):
        other.predict([IMAGE])


def test_a_net_that_sees_whole_photographs_has_no_tiles(small, monkeypatch):
    worlds = [cells(seed, (40, 48)) for seed in range(3)]
    net = NetRecipe(steps=2, crops=2, folds=2)
    source = cl.Featurizer("net", kind="photograph", position=False, net=net)
    model = cl.Segmenter(features=source, C=1.0, tol=0.5, calibration=None)
    model.fit([w.image for w in worlds], [w.labels for w in worlds])
    found = model.predict([PART])[0]  # tiles would see it at another size
    monkeypatch.setattr(large, "LARGE", 1 << 22)
    assert (found == model.predict([PART])[0]).all()
    monkeypatch.setattr(budget, "WHOLE", 0)
    with pytest.raises(cl.InputError, match="no net for photographs"):
        model.predict([PART])
