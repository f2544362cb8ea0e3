"""A segmenter of ordered labels: fit, predict, score, files, C chosen, refusals."""

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.features.featurizer import Featurizer
from cutlearn.features.trees import Recipe
from cutlearn.images import pasture

WORLDS = [pasture(seed, (36, 48)) for seed in range(6)]
IMAGES = [world.image for world in WORLDS]
MASKS = [world.labels.copy() for world in WORLDS]
MASKS[0][:3] = 255


def model(**parameters):
    given = {"labels": "ordered", "features": "linear", "connectivity": 4, "n_jobs": 1}
    return cl.Segmenter(**(given | {"C": 1000.0} | parameters))


@pytest.fixture(scope="module")
def fitted():
    return model().fit(IMAGES[:4], MASKS[:4])


def test_three_labels_are_learned_and_certified(fitted):
    assert fitted.classes_.tolist() == [0, 1, 2]
    assert fitted.certified_
    assert fitted.converged_
    assert len(fitted.w_) == len(fitted.w_names_)
    assert fitted.w_names_[0] == "label 0 node bias"
    assert fitted.w_names_[-1].endswith(" 2 2")
    found = fitted.predict(IMAGES[4:])
    assert [mask.shape for mask in found] == [(36, 48)] * 2
    assert all(mask.dtype == np.uint8 for mask in found)
    wrong = np.mean([np.mean(f != t) for f, t in zip(found, MASKS[4:])])
    assert wrong < 0.1
    assert fitted.score(IMAGES[4:], MASKS[4:]) > 0.6


def test_masks_minimise_the_energy(fitted):
    energy = cl.OrderedEnergy.of(fitted.featurizer_.problem(cl.Sample(IMAGES[4])), fitted.w_)
    (mask,) = fitted.predict([IMAGES[4]])
    best = energy.value(mask)
    rng = np.random.default_rng(0)
    for _ in range(100):
        other = np.where(rng.random(mask.shape) < 0.02, rng.integers(0, 3, mask.shape), mask)
        assert energy.value(other) >= best - 1e-9 * abs(best)


def test_seeds_hold(fitted):
    seeds = np.full((36, 48), -1)
    seeds[30:33, 20:24] = 2
    (mask,) = fitted.predict([cl.Sample(IMAGES[4], seeds=seeds)])
    assert (mask[seeds == 2] == 2).all()


def test_files_bring_it_back(fitted, tmp_path):
    fitted.save(tmp_path / "m.cutlearn")
    again = cl.load(tmp_path / "m.cutlearn")
    assert again.classes_.tolist() == [0, 1, 2]
    for a, b in zip(again.predict(IMAGES[4:]), fitted.predict(IMAGES[4:])):
        assert a.tobytes() == b.tobytes()


def test_C_and_a_loss_are_chosen_by_images_left_out():
    chosen = model(C="auto", tol=0.1).fit(IMAGES[:3], MASKS[:3])
    assert chosen.validation_["judge"] == "pooled mean IoU"
    assert len(chosen.validation_["path"]) == 3
    assert "shift" not in chosen.validation_
    other = model(loss=cl.Absolute(), tol=0.1).fit(IMAGES[:3], MASKS[:3])
    assert other.validation_["judge"] == "-loss"
    assert -0.2 < other.validation_["training"] <= 0


def test_boosted_features_answer_every_threshold(tmp_path):
    small = Recipe(trees=3, rows=600, folds=2, min_leaf=5, leaves=4)
    boosted = model(features=Featurizer(recipe=small, connectivity=4), calibration=None, tol=0.1)
    boosted.fit(IMAGES[:3], MASKS[:3])
    assert boosted.featurizer_.node_names_[1:5] == [
        "logit2 of 0", "logit1 of 0", "logit2 of 1", "logit1 of 1",
    ]  # fmt: skip
    assert boosted.score(IMAGES[4:], MASKS[4:]) > 0.5
    rows = boosted.featurizer_.node_features(IMAGES[4])
    for column, k in ((1, 1), (3, 2)):
        hit = MASKS[4].ravel() >= k
        assert rows[hit, column].mean() > rows[~hit, column].mean() + 0.5
    boosted.save(tmp_path / "m")
    again = cl.load(tmp_path / "m")
    assert np.array_equal(again.predict(IMAGES[4:])[0], boosted.predict(IMAGES[4:])[0])


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"potentials": ("unary", "envelope")}, "without envelopes when labels are ordered"),
        ({"labels": "several"}, "'labels' parameter of Segmenter must be one of"),
        ({"labels": "binary"}, "values 0, 1, 2, 255 .*2 labels are needed"),
    ],
)
def test_refusals(parameters, words):
    with pytest.raises(cl.InputError, match=words):
        model(**parameters).fit(IMAGES[:2], MASKS[:2])


def test_a_label_that_was_never_seen_is_refused_in_score(fitted):
    with pytest.raises(cl.InputError, match=r"the value 3 .*the model knows 0, 1, 2"):
        fitted.score(IMAGES[:1], [np.full((36, 48), 3)])
