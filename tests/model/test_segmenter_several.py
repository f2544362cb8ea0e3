"""Several labels without an order: surrogate fields for probabilities, expansions for masks."""

import copy
import math

import numpy as np
import pytest
from scipy import ndimage
from sklearn.base import clone

import cutlearn as cl
from cutlearn.energy.label_space import LABELS, kind_of
from cutlearn.errors import InputWarning
from cutlearn.features.featurizer import Featurizer
from cutlearn.features.trees import Recipe
from cutlearn.model.calibration import MOST_NUMBERS, drawn, uncalibrated
from cutlearn.model.decisions import expected_iou
from cutlearn.run.process import Interrupted

SHAPE = (16, 20)


def meadow(n, seed=0):
    """n images of three labels that have a colour each and no order; images and masks."""
    rng = np.random.default_rng(seed)
    colors = np.array([[0.6, 0.4, 0.4], [0.4, 0.6, 0.4], [0.4, 0.4, 0.6]])
    images, masks = [], []
    for _ in range(n):
        fields = [ndimage.gaussian_filter(rng.normal(size=SHAPE), 3) for _ in colors]
        mask = np.argmax(fields, axis=0).astype(np.uint8)
        noise = rng.normal(0, 0.1, (*SHAPE, 3))
        images.append(np.clip(colors[mask] + noise, 0, 1).astype(np.float32))
        masks.append(mask)
    return images, masks


IMAGES, MASKS = meadow(6)
MASKS[0][:3] = 255
TRAIN, TEST = slice(0, 3), slice(3, 6)


def model(labels="surrogate", **parameters):
    learner = "likelihood" if labels == "surrogate" else "bundle"
    given = {"features": "linear", "connectivity": 4, "C": 300.0, "tol": 0.1, "n_jobs": 1}
    return cl.Segmenter(labels=labels, **({"learner": learner} | given | parameters))


@pytest.fixture(scope="module")
def surrogate():
    return model().fit(IMAGES[TRAIN], MASKS[TRAIN])


@pytest.fixture(scope="module")
def unordered():
    return model("unordered").fit(IMAGES[TRAIN], MASKS[TRAIN])


def constant():
    """The best score of one label everywhere."""
    truth = MASKS[TEST]
    return max(cl.metrics.mean_iou(truth, [np.full_like(m, k) for m in truth], 3) for k in range(3))


@pytest.mark.parametrize("kind", ["surrogate", "unordered"])
def test_labels_are_learned(kind, request):
    fitted = request.getfixturevalue(kind)
    assert fitted.classes_.tolist() == [0, 1, 2]
    assert not fitted.certified_
    assert fitted.converged_
    assert len(fitted.w_) == len(fitted.w_names_)
    assert fitted.score(IMAGES[TEST], MASKS[TEST]) > constant() + 0.4
    assert fitted.card_["data"]["share_of_labels"] == pytest.approx(
        [np.mean([(m == k).sum() for m in MASKS[TRAIN]]) * 3
         / sum((m != 255).sum() for m in MASKS[TRAIN]) for k in range(3)]
    )  # fmt: skip


def test_probabilities_sum_to_one_and_beat_the_shares(surrogate):
    found = surrogate.predict_proba(IMAGES[TEST])
    own = [np.log(np.take_along_axis(q, m[..., None].astype(int), -1)).mean()
           for q, m in zip(found, MASKS[TEST])]  # fmt: skip
    shares = np.array(surrogate.card_["data"]["share_of_labels"])
    for q in found:
        assert q.shape == (*SHAPE, 3)
        assert np.abs(q.sum(axis=-1) - 1).max() < 1e-6
    assert np.mean(own) > 0.5 * np.mean([np.log(shares)[m].mean() for m in MASKS[TEST]])


def test_the_map_is_the_most_probable_label(surrogate):
    plain = copy.copy(surrogate).set_params(calibration=None)
    plain.calibration_ = uncalibrated(3)
    for mask, q in zip(plain.predict(IMAGES[TEST]), plain.predict_proba(IMAGES[TEST])):
        assert np.array_equal(mask, q.argmax(axis=-1))


def test_every_label_has_its_own_envelopes():
    fitted = model(learner="logistic", potentials=("unary", "contrast", "envelope"))
    fitted.fit(IMAGES[:2], MASKS[:2])
    assert fitted.w_names_[-1] == "label 2 envelope slic256 bend9"
    assert len(fitted.w_) == len(fitted.w_names_)
    assert fitted.predict(IMAGES[3:4])[0].max() <= 2


def test_boosted_features_answer_for_every_label():
    small = Recipe(trees=3, rows=600, folds=2, min_leaf=5, leaves=4, stages=1)
    boosted = model(learner="logistic", features=Featurizer(recipe=small, connectivity=4))
    boosted.fit(IMAGES[TRAIN], MASKS[TRAIN])
    assert boosted.featurizer_.node_names_[1:4] == ["logit1 of 0", "logit1 of 1", "logit1 of 2"]
    assert boosted.score(IMAGES[TEST], MASKS[TEST]) > constant() + 0.3


def test_probabilities_are_those_of_the_weights(surrogate):
    problem = surrogate.featurizer_.problem(cl.Sample(IMAGES[3]))
    q = cl.probabilities(problem, surrogate.w_, cl.Model(labels="surrogate"))
    (mask,) = surrogate.predict([IMAGES[3]])
    assert np.array_equal(q.argmax(axis=1), mask.ravel())


def test_decisions_areas_and_doubts_of_several_labels(surrogate):
    found = surrogate.predict_proba(IMAGES[TEST])
    served = surrogate.predict(IMAGES[TEST], "iou")
    for q, mask in zip(found, served):
        assert expected_iou(q, mask) >= expected_iou(q, q.argmax(axis=-1)) - 1e-6
    for k in range(3):
        with pytest.warns(cl.errors.InputWarning, match="only 3 groups"):
            value, interval = surrogate.area(IMAGES[TEST], label=k)
        assert value == pytest.approx([q[..., k].sum() for q in found], rel=1e-5)
        assert np.isnan(interval).all()
        counted = [(m == k).sum() for m in surrogate.predict(IMAGES[TEST], "count")]
        assert np.abs(counted - value).max() <= 1
    assert sorted(r.image for r in surrogate.rank(IMAGES[TEST])) == [0, 1, 2]


@pytest.mark.parametrize("kind", ["surrogate", "unordered"])
def test_seeds_hold(kind, request):
    seeds = np.full(SHAPE, -1)
    seeds[4:6, 4:8], seeds[10, 10] = 2, 0
    sample = cl.Sample(IMAGES[3], seeds=seeds)
    fitted = request.getfixturevalue(kind)
    (mask,) = fitted.predict([sample])
    assert (mask[seeds >= 0] == seeds[seeds >= 0]).all()
    (q,) = fitted.predict_proba([sample])
    assert (q[4:6, 4:8, 2] == 1).all()


@pytest.mark.parametrize("kind", ["surrogate", "unordered"])
def test_files_bring_it_back(kind, request, tmp_path):
    fitted = request.getfixturevalue(kind)
    fitted.save(tmp_path / "m")
    again = cl.load(tmp_path / "m")
    assert again.w_.tobytes() == fitted.w_.tobytes()
    assert again.classes_.tolist() == [0, 1, 2]
    assert math.isnan(again.gap_) == (kind == "surrogate")
    for a, b in zip(again.predict(IMAGES[TEST]), fitted.predict(IMAGES[TEST])):
        assert np.array_equal(a, b)
    for a, b in zip(again.predict_proba(IMAGES[TEST]), fitted.predict_proba(IMAGES[TEST])):
        assert np.array_equal(a, b)


def test_a_file_with_negative_edges_is_refused(surrogate, tmp_path):
    edge = surrogate.w_names_.index("label 1 edge contrast")
    broken = copy.copy(surrogate)
    broken.w_ = surrogate.w_.copy()
    broken.w_[edge] = -1.0
    broken.save(tmp_path / "m")
    with pytest.raises(cl.InputError, match="edge weights below zero"):
        cl.load(tmp_path / "m")


def test_interrupted_on_two_threads_and_resumed_is_uninterrupted(surrogate, tmp_path):
    def stop(step):
        if step.number == 10:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="Run the same call again"):
        model().fit(IMAGES[TRAIN], MASKS[TRAIN], checkpoint=tmp_path, callback=stop)
    again = model(n_jobs=2).fit(IMAGES[TRAIN], MASKS[TRAIN], checkpoint=tmp_path)
    assert again.w_.tobytes() == surrogate.w_.tobytes()
    assert again.calibration_.map.scale == surrogate.calibration_.map.scale


def test_unordered_labels_have_probabilities(unordered):
    assert unordered.gap_ <= 0.1
    found = unordered.predict_proba(IMAGES[TEST])
    for q, mask, truth in zip(found, unordered.predict(IMAGES[TEST]), MASKS[TEST]):
        assert np.abs(q.sum(axis=-1) - 1).max() < 1e-6
        most = q.max(axis=-1)
        right, sure = mask == truth, most > np.median(most)
        assert right[sure].mean() > right[~sure].mean()
    problem = unordered.featurizer_.problem(cl.Sample(IMAGES[3]))
    table = unordered.model_.min_marginals(problem, unordered.w_)
    (mask,) = unordered.predict([IMAGES[3]])
    own = np.take_along_axis(table, mask[..., None].astype(int), -1)
    assert (table >= own).all()
    assert len(np.unique(own)) == 1
    known = copy.deepcopy(unordered).calibrate(IMAGES[:4], MASKS[:4])
    value, interval = known.area(IMAGES[TEST], 2)
    assert (interval[:, 0] <= value).all()
    assert (value <= interval[:, 1]).all()
    assert len(unordered.rank(IMAGES[TEST])) == 3


def test_auto_is_the_kind_that_suits_masks_and_learner(unordered, tmp_path):
    found = model("auto").fit(IMAGES[TRAIN], MASKS[TRAIN])
    assert found.model_.labels == unordered.model_.labels
    assert found.w_.tobytes() == unordered.w_.tobytes()
    found.save(tmp_path / "m")
    again = cl.load(tmp_path / "m")
    assert again.labels == "auto"
    assert np.array_equal(again.predict(IMAGES[TEST])[0], unordered.predict(IMAGES[TEST])[0])
    two = [np.where(m == 2, 1, m).astype(np.uint8) for m in MASKS[TRAIN]]
    binary, same = (model(k, C=10.0).fit(IMAGES[TRAIN], two) for k in ("auto", "binary"))
    assert binary.model_.labels.name == "binary"
    assert binary.w_.tobytes() == same.w_.tobytes()
    assert kind_of("auto", 3, margin=False) is LABELS["surrogate"]
    assert kind_of("auto", 2, margin=False) is LABELS["binary"]


def test_unordered_masks_are_ends_of_expansions(unordered):
    problem = unordered.featurizer_.problem(cl.Sample(IMAGES[3]))
    (mask,) = unordered.predict([IMAGES[3]])
    best = unordered.w_ @ unordered.model_.psi(problem, mask)
    rng = np.random.default_rng(0)
    for k in range(3):
        for _ in range(20):
            spread = rng.random(SHAPE) < 0.05
            other = np.where(ndimage.binary_dilation(spread), k, mask).ravel()
            value = unordered.w_ @ unordered.model_.psi(problem, other)
            assert value >= best - 1e-9 * abs(best)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        (
            {"learner": "bundle"},
            r"one of \('likelihood', 'logistic'\) when labels are surr",
        ),
        ({"labels": "unordered", "learner": "likelihood"}, "learns binary and ordered and surr"),
        ({"labels": "ordered", "potentials": ("unary", "envelope")}, "without envelopes when"),
        ({"labels": "unordered", "loss": "count"}, "needs no order when labels are unordered"),
        ({"loss": "count"}, "which needs no loss"),
    ],
)
def test_refusals(parameters, words):
    with pytest.raises(cl.InputError, match=words):
        model(**parameters).fit(IMAGES[:2], MASKS[:2])


def test_many_labels_keep_few_pixels_for_the_calibration():
    least = np.zeros((300, 300, 21))
    rows = drawn(least, np.zeros((300, 300), np.uint8))
    assert rows.min_marginals.size <= MOST_NUMBERS
    assert rows.share == pytest.approx(MOST_NUMBERS / 21 / 300**2, rel=1e-3)


def test_many_labels_have_few_weights_and_come_back_from_a_file(tmp_path):
    # A fourth label with a value of its own: the upper rows.
    masks = [np.where(np.indices(SHAPE)[0] < 5, 9, 2 * mask + 1) for mask in MASKS[3:]]
    images = [image.copy() for image in IMAGES[3:]]
    for image in images:
        image[:5] = 0.9
    recipe = Recipe(trees=10, rows=600, folds=2, min_leaf=5, share=0.3, stages=1)
    made = cl.Segmenter(labels="auto", features=Featurizer("trees", recipe=recipe), n_jobs=1)
    with pytest.warns(InputWarning, match="1, 3, 5, 9 are labels 0 to 3"):
        made.fit(images, masks)
    biases, own = [f"label {k} node bias" for k in range(4)], ["own logit1"]
    assert made.w_names_[:5] == biases + own
    assert len(made.w_) == 4 + 1 + 4 * 4, "a bias a label, a weight of logits, borders"
    assert made.validation_["path"][0]["C"] == made.C_
    assert len(made.validation_["path"]) == 1
    assert "(5.00 % asked for" in made.summary().ending
    found = made.predict(images)
    values = np.array(made.training_.values)
    assert values.tolist() == [1, 3, 5, 9]
    right = [(values[mask] == truth).mean() for mask, truth in zip(found, masks)]
    assert min(right) > 0.8
    made.save(tmp_path / "m")
    again = cl.load(tmp_path / "m")
    assert all(map(np.array_equal, again.predict(images), found))
    featurizer = again.featurizer_
    assert featurizer.logit_columns() == ((1,), (2,), (3,), (4,))
    scale = featurizer.fitted_.scale[1:5]
    assert (scale == scale[0]).all(), "logits of all labels are standardised alike"


@pytest.mark.parametrize(
    ("learner", "n", "kind"),
    [("bundle", 2, "binary"), ("bundle", 3, "unordered"), ("likelihood", 3, "surrogate")],
)
def test_the_kind_of_labels_follows_from_the_masks_by_default(learner, n, kind, tmp_path):
    asked = cl.Segmenter(features="linear", learner=learner, C=30.0, tol=0.3, n_jobs=1)
    assert asked.labels == "auto"
    masks = [np.where(mask >= n, np.where(mask == 255, 255, 0), mask) for mask in MASKS[TRAIN]]
    made = clone(asked).fit(IMAGES[TRAIN], masks)
    assert made.get_params()["labels"] == "auto"
    assert made.model_.labels == LABELS[kind](n)
    named = clone(asked).set_params(labels=kind).fit(IMAGES[TRAIN], masks)
    assert np.array_equal(made.w_, named.w_)
    made.save(tmp_path / "m")
    again = cl.load(tmp_path / "m")
    assert again.labels == "auto"
    assert again.model_.labels == made.model_.labels
    assert all(map(np.array_equal, again.predict(IMAGES[TEST]), made.predict(IMAGES[TEST])))


def test_what_does_not_go_with_the_labels_of_the_masks_is_refused(monkeypatch):
    made, words = cl.Segmenter(loss="count"), "needs no order when labels are unordered"
    monkeypatch.setattr(Featurizer, "fit_samples", None)  # before any work
    with pytest.raises(cl.InputError, match=words):
        made.fit(IMAGES[TRAIN], MASKS[TRAIN])
