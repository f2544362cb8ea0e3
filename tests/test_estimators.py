"""The project's common checks on every estimator: scikit-learn's contract on lists of images."""

import copy
import inspect
import math

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

import cutlearn as cl
import cutlearn.metrics
from cutlearn.features import sources
from cutlearn.features.featurizer import Featurizer
from cutlearn.features.trees import Recipe
from cutlearn.images import Sample
from features.worlds import world

SMALL = Recipe(trees=3, rows=600, folds=2, min_leaf=5, leaves=4)
TINY = {"shape": (12, 16), "hidden": (16, 8), "words": (16, 8), "epochs": (30, 20), "cycles": 4,
        "calibration": None, "n_jobs": 1}  # fmt: skip
ESTIMATORS = {
    "linear": lambda: cl.Segmenter(features="linear", C=10.0, n_jobs=1),
    "boosted": lambda: cl.Segmenter(features=Featurizer(recipe=SMALL), C=10.0, n_jobs=1),
    "auto C": lambda: cl.Segmenter(features="linear", n_jobs=1, tol=0.05),
    "no edges": lambda: cl.Segmenter(("unary",), features="linear", C=10.0, n_jobs=1),
    "count": lambda: cl.Segmenter(features="linear", loss="count", C=10.0, n_jobs=1),
    "likelihood": lambda: cl.Segmenter(
        features="linear", learner="likelihood", C=10.0, tol=0.3, connectivity=4, n_jobs=1
    ),
    "surrogate": lambda: cl.Segmenter(
        labels="surrogate", features="linear", learner="logistic", C=100.0, n_jobs=1
    ),
    "unordered": lambda: cl.Segmenter(labels="unordered", features="linear", C=10.0, n_jobs=1),
    "boltzmann": lambda: cl.BoltzmannSegmenter(2, **TINY),
    "at another size": lambda: cl.Segmenter(features="linear", C=10.0, min_side=15, n_jobs=1),
}
IMAGES, MASKS = world(5)
IMAGES[3], MASKS[3] = IMAGES[3][:11, :19], MASKS[3][:11, :19]
for array in IMAGES + MASKS:
    array.flags.writeable = False
TRAIN = slice(0, 4)


@pytest.fixture(scope="module", params=list(ESTIMATORS))
def kind(request):
    return request.param


@pytest.fixture
def model(kind):
    return ESTIMATORS[kind]()


@pytest.fixture(scope="module")
def fitted(kind):
    return ESTIMATORS[kind]().fit(IMAGES[TRAIN], MASKS[TRAIN])


def learned(model):
    """All numbers of w, in one array."""
    return np.concatenate([np.ravel(part) for part in arrays_of(model.w_)])


def arrays_of(w):
    return [w[name] for name in sorted(w)] if isinstance(w, dict) else [w]


def only_for(model, kind):
    if not isinstance(model, kind):
        pytest.skip(f"for {kind.__name__}")


def same(a, b):
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b))


def test_init_only_stores_what_it_is_given(model):
    marks = {name: object() for name in inspect.signature(type(model).__init__).parameters}
    marks.pop("self")
    odd = type(model)(**marks)
    assert {name: vars(odd)[name] for name in marks} == marks
    assert vars(odd).keys() == marks.keys()


def test_clone_has_the_same_parameters_and_is_not_fitted(fitted):
    twin = clone(fitted)
    ours, others = fitted.get_params(), twin.get_params()
    assert ours.keys() == others.keys()
    plain = [name for name in ours if name != "features"]
    assert [ours[name] for name in plain] == [others[name] for name in plain]
    assert not any(name.endswith("_") for name in vars(twin))


def test_set_params_changes_what_get_params_tells(model):
    assert model.set_params(n_jobs=3) is model
    assert model.get_params()["n_jobs"] == 3


def test_nothing_learned_before_fit(model):
    assert not [name for name in vars(model) if name.endswith("_")]
    for ask in (lambda: model.predict(IMAGES), lambda: model.score(IMAGES, MASKS)):
        with pytest.raises(NotFittedError, match="not fitted"):
            ask()


def test_not_fitted_cannot_be_saved(model, tmp_path):
    with pytest.raises(NotFittedError):
        model.save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_fit_returns_self_and_leaves_parameters_alone(model):
    before = {n: copy.deepcopy(v) for n, v in model.get_params().items() if n != "features"}
    assert model.fit(IMAGES[TRAIN], MASKS[TRAIN]) is model
    after = model.get_params()
    assert {name: after[name] for name in before} == before
    if isinstance(getattr(model, "features", None), Featurizer):
        assert not hasattr(model.features, "fitted_")


def test_fitted_attributes(fitted):
    assert np.isfinite(learned(fitted)).all()
    assert fitted.classes_.tolist() == [0, 1]


def test_fitted_attributes_of_a_training(fitted):
    only_for(fitted, cl.Segmenter)
    assert fitted.w_.shape == (len(fitted.w_names_),)
    assert fitted.converged_
    assert fitted.n_steps_ == len(fitted.steps_) > 0
    assert fitted.C_ > 0
    assert fitted.steps_[-1].relative_gap <= fitted.tol
    if fitted.learner in ("likelihood", "logistic"):
        assert math.isnan(fitted.gap_)
        assert not fitted.certified_
        assert not fitted.steps_[-1].bounded
    else:
        assert fitted.steps_[-1].relative_gap == fitted.gap_ >= 0
        assert fitted.certified_ == (fitted.labels != "unordered")
        assert all(step.bounded for step in fitted.steps_)


def test_masks_have_each_images_shape(fitted):
    masks = fitted.predict(IMAGES)
    assert isinstance(masks, list)
    assert [m.shape for m in masks] == [m.shape for m in MASKS]
    assert {m.dtype for m in masks} == {np.dtype(np.uint8)}
    assert set(np.unique(np.concatenate([m.ravel() for m in masks]))) <= {0, 1}


def test_learns_more_than_a_constant(fitted):
    if getattr(fitted, "loss", "hamming") == "hamming":
        empty = [np.zeros_like(m) for m in MASKS]
        full = [np.ones_like(m) for m in MASKS]
        constant = max(cl.metrics.mean_iou(MASKS, guess) for guess in (empty, full))
        assert fitted.score(IMAGES, MASKS) > constant + 0.1


def test_same_random_state_same_model(kind, fitted):
    again = ESTIMATORS[kind]().fit(IMAGES[TRAIN], MASKS[TRAIN])
    assert np.array_equal(learned(again), learned(fitted))
    assert same(again.predict(IMAGES), fitted.predict(IMAGES))


def test_threads_change_nothing(kind, fitted):
    again = ESTIMATORS[kind]().set_params(n_jobs=2).fit(IMAGES[TRAIN], MASKS[TRAIN])
    assert np.array_equal(learned(again), learned(fitted))
    assert same(again.predict(IMAGES), fitted.predict(IMAGES))


def test_batch_is_one_by_one_in_any_order(fitted):
    whole = fitted.predict(IMAGES)
    assert same(whole, [fitted.predict([image])[0] for image in IMAGES])
    assert same(whole[::-1], fitted.predict(IMAGES[::-1]))


def test_list_tuple_stack_and_memory_order_give_the_same(kind, fitted):
    stack, truth = np.stack(IMAGES[:3]), np.stack(MASKS[:3])
    reference = ESTIMATORS[kind]().fit(IMAGES[:3], MASKS[:3])
    for images, masks in (
        (tuple(IMAGES[:3]), tuple(MASKS[:3])),
        (stack, truth),
        ([np.asfortranarray(i) for i in stack], [np.asfortranarray(m) for m in truth]),
        ([Sample(i) for i in stack], [m.astype(bool) for m in truth]),
    ):
        assert np.array_equal(learned(ESTIMATORS[kind]().fit(images, masks)), learned(reference))
        assert same(reference.predict(images), reference.predict(IMAGES[:3]))


def test_bytes_and_floats_are_the_same_image(fitted):
    bytes_ = [np.round(255 * image).astype(np.uint8) for image in IMAGES]
    floats = [b.astype(np.float32) / np.float32(255) for b in bytes_]
    assert same(fitted.predict(bytes_), fitted.predict(floats))


def test_an_image_with_one_label_only(kind):
    masks = [*MASKS[:3], np.zeros_like(MASKS[3])]
    fitted = ESTIMATORS[kind]().fit(IMAGES[TRAIN], masks)
    assert np.isfinite(fitted.score(IMAGES[TRAIN], masks))


def test_void_pixels_are_not_looked_at(kind):
    void = [m.copy() for m in MASKS]
    for mask in void:
        mask[:4] = 255
    fitted = ESTIMATORS[kind]().fit(IMAGES[TRAIN], void[TRAIN])
    guess = fitted.predict(IMAGES)
    assert fitted.score(IMAGES, void) == cl.metrics.mean_iou(
        [m[4:] for m in void], [g[4:] for g in guess]
    )


@pytest.mark.parametrize("method", ["fit", "score"])
def test_bad_input_is_refused_in_words(kind, fitted, method):
    ask = getattr(fitted if method == "score" else ESTIMATORS[kind](), method)
    wrong, grey = IMAGES[0].copy(), MASKS[1] * 200
    wrong[2, 3], grey[0, 0] = np.nan, 255
    for images, masks, words in (
        ([], [], "images is empty"),
        (IMAGES[:2], MASKS[:1], "masks has length 1, but there are 2 images"),
        ([wrong, IMAGES[1]], MASKS[:2], "image 0: some values are NaN"),
        (IMAGES[:2], [MASKS[0], MASKS[3]], r"masks\[1\] has shape \(11, 19\), but its image"),
        (IMAGES[:2], [MASKS[0], grey], r"200.* \(.*first in masks\[1\]"),
        (IMAGES[:2], [MASKS[0], np.full_like(MASKS[1], 255)], "255 may be an object or"),
        (IMAGES[:2], [MASKS[0] * 0.3, MASKS[1]], r"masks\[0\] holds .* no labels"),
        ("images", MASKS, "images is of type str"),
    ):
        with pytest.raises(cl.InputError, match=words):
            ask(images, masks)


def test_predict_refuses_what_is_no_image(fitted):
    for images, words in (([], "images is empty"), ([np.zeros((0, 0))], "image 0"), (3, "list")):
        with pytest.raises(cl.InputError, match=words):
            fitted.predict(images)


def test_box_and_seeds_hold(fitted):
    seeds = np.full(MASKS[0].shape, -1)
    seeds[5, 6:9], seeds[10, 11] = 1, 0
    sample = Sample(IMAGES[0], box=(2, 3, 20, 25), seeds=seeds)
    mask = fitted.predict([sample])[0]
    assert (mask[seeds >= 0] == seeds[seeds >= 0]).all()
    outside = np.ones(mask.shape, bool)
    outside[2:20, 3:25] = False
    assert not mask[outside].any()


def test_save_then_load_is_the_identity(fitted, tmp_path):
    fitted.save(tmp_path / "model.cutlearn")
    again = cl.load(tmp_path / "model.cutlearn")
    assert np.array_equal(learned(again), learned(fitted))
    plain = {n for n, v in vars(fitted).items() if isinstance(v, float | int | list | tuple | dict)}
    assert {"random_state", "validation_", "card_"} & plain
    for name in plain - {"w_", "gap_"}:
        assert getattr(again, name) == getattr(fitted, name), name
    if "gap_" in plain:  # nan of a likelihood
        assert np.array_equal(again.gap_, fitted.gap_, equal_nan=True)
    assert same(again.predict(IMAGES), fitted.predict(IMAGES))
    again.save(tmp_path / "again.cutlearn")
    first, second = (tmp_path / name for name in ("model.cutlearn", "again.cutlearn"))
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.filterwarnings("ignore:images.* of another size")
def test_works_in_cross_validation_on_ragged_lists(model):
    scores = cross_val_score(model, IMAGES, MASKS, cv=KFold(2), error_score="raise")
    assert scores.shape == (2,)
    assert (scores > 0).all()


@pytest.mark.filterwarnings("ignore:images.* of another size")
def test_works_in_grid_search(model):
    name, values = ("C", [0.1, 10.0]) if hasattr(model, "C") else ("cycles", [1, 2])
    search = GridSearchCV(model, {name: values}, cv=KFold(2), error_score="raise")
    search.fit(IMAGES, MASKS)
    assert search.best_params_[name] in values
    assert search.predict(IMAGES)[3].shape == MASKS[3].shape


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("potentials", ("contrast", "envelope"), "'unary' first"),
        ("potentials", "unary", "'unary' first"),
        ("labels", "several", r"one of \('auto', 'binary', 'ordered'"),
        ("loss", "iou", "one of"),
        ("learner", "kohli-torr", r"one of \('bundle', .*'logistic'\)"),
        ("C", -1.0, "'auto', a finite number > 0, or infinity"),
        ("C", True, "'auto', a finite"),
        ("tol", 0, "a finite number > 0"),
        ("features", "deep", "or a Featurizer"),
        ("connectivity", 6, "4 or 8"),
        ("min_side", 0, "a whole number of pixels from 1"),
        ("n_jobs", 0, "None, a whole number other than 0"),
        ("random_state", -1, "RandomState"),
    ],
)
def test_wrong_parameters_are_refused_when_fit_begins(model, name, value, words):
    if name not in model.get_params():
        pytest.skip(f"no {name}")
    model.set_params(**{name: value})
    with pytest.raises(cl.InputError, match=f"The '{name}' parameter of .* must be .*{words}"):
        model.fit(IMAGES[TRAIN], MASKS[TRAIN])


def test_probabilities_agree_with_masks(fitted):
    only_for(fitted, cl.BoltzmannSegmenter)
    for mask, chance in zip(fitted.predict(IMAGES), fitted.predict_proba(IMAGES)):
        assert chance.shape == (*mask.shape, 2)
        assert ((chance >= 0) & (chance <= 1)).all()
        assert np.abs(chance.sum(axis=-1) - 1).max() < 1e-6
        sure = chance[..., 1] != 0.5
        assert ((chance[..., 1] > 0.5) == mask)[sure].all()


def test_every_model_has_probabilities_and_decisions(fitted):
    found = fitted.predict_proba(IMAGES)
    for q, mask in zip(found, MASKS):
        assert q.shape == (*mask.shape, 2)
        assert np.abs(q.sum(axis=-1) - 1).max() < 1e-6
    for (labels, q), mask, belief in zip(fitted.segment(IMAGES), fitted.predict(IMAGES), found):
        assert np.array_equal(labels, mask)
        assert np.array_equal(q, belief)
    for decision in ("iou", "count"):
        assert [y.shape for y in fitted.predict(IMAGES, decision)] == [m.shape for m in MASKS]
    if not fitted.calibration_.n_images:
        with pytest.raises(cl.InputError, match="this model has no held-out areas"):
            fitted.area(IMAGES)
        fitted = copy.deepcopy(fitted).calibrate(IMAGES, MASKS)
    value, interval = fitted.area(IMAGES)
    assert (interval[:, 0] <= value).all()
    assert (value <= interval[:, 1]).all()
    with pytest.raises(cl.InputError, match="There is no decision 'best'"):
        fitted.predict(IMAGES, decision="best")


@pytest.mark.filterwarnings("ignore:images.* of another size")
def test_a_search_over_settings_of_the_features():
    model = cl.Segmenter(features=Featurizer("linear"), C=10.0, calibration=None, n_jobs=1)
    search = GridSearchCV(model, {"features__position": [True, False]}, cv=KFold(2))
    search.fit(IMAGES[TRAIN], MASKS[TRAIN])
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    chosen = search.best_params_["features__position"]
    found = search.best_estimator_
    assert (found.features.position, "row" in found.featurizer_.node_names_) == (chosen, chosen)
    assert model.features.position == "auto"


@pytest.mark.filterwarnings("ignore:images.* of another size")
def test_a_search_over_C_grows_trees_once_a_fold(tmp_path, monkeypatch):
    seen = []
    plain = sources.fit_trees
    monkeypatch.setattr(
        sources, "fit_trees", lambda *given: seen.append(len(given[0])) or plain(*given)
    )
    scores = []
    for memory in (None, tmp_path):
        features = Featurizer(recipe=SMALL, memory=memory)
        model = cl.Segmenter(features=features, calibration=None, tol=0.1, n_jobs=1)
        search = GridSearchCV(model, {"C": [1.0, 10.0, 100.0]}, cv=KFold(2), refit=False)
        scores.append(search.fit(IMAGES[TRAIN], MASKS[TRAIN]).cv_results_["mean_test_score"])
    assert seen == [2] * (2 * 3) + [2] * 2
    assert np.array_equal(*scores)


@pytest.mark.parametrize("name", ["auto C", "boltzmann"])
@pytest.mark.filterwarnings("ignore:images.* of another size")
def test_nearly_equal_images_are_held_out_together(name):
    noise = np.random.default_rng(0).normal(0, 1e-3, IMAGES[0].shape)
    near = [np.clip(image + noise, 0, 1).astype(np.float32) for image in IMAGES[:3]]
    images = [image for pair in zip(IMAGES, near) for image in pair]
    masks = [mask for mask in MASKS[:3] for _ in range(2)]
    found, given, alone = (
        ESTIMATORS[name]().set_params(calibration="temperature").fit(images, masks, groups)
        for groups in (None, list("aabbcc"), list("abcdef"))
    )
    assert [m.calibration_.n_groups for m in (found, given, alone)] == [3, 3, 6]
    new = IMAGES[3:]
    assert same(found.predict_proba(new), given.predict_proba(new))
    assert not same(found.predict_proba(new), alone.predict_proba(new))


# A value of numpy for every parameter; strings are added by the test.
SCALARS = {
    "Segmenter": {
        "C": [np.float32(10.0), np.int64(10), np.float64("inf")],
        "tol": [np.float32(0.5), np.uint8(1)],
        "connectivity": [np.int64(4), np.uint8(8)],
        "n_jobs": [np.int64(1), np.int32(-1)],
        "random_state": [np.int64(3), np.uint64(2**63 + 1)],
        "verbose": [np.bool_(False)],
        "budget": [np.float32(30.0), np.int64(30)],
        "min_side": [np.int64(15), np.str_("full")],
    },
    "BoltzmannSegmenter": {
        **{name: [np.bool_(True)] for name in ("refine", "pairwise", "sees_image")},
        **{name: [np.int64(1), np.uint8(2)] for name in ("layers", "cycles", "starts")},
        **{name: [np.float32(0.01), np.int64(1)] for name in ("hidden_weight", "rate", "gamma")},
        "shape": [(np.int64(12), np.uint8(16)), [np.int32(12), 16]],
        "hidden": [(np.int64(16), np.int32(8))],
        "epochs": [(np.int64(3), np.uint8(2))],
        "words": [(np.int64(16), np.uint16(8))],
        "n_jobs": [np.int64(1)],
        "random_state": [np.int64(3)],
        "verbose": [np.bool_(False)],
        "min_side": [np.int64(15), "full", np.str_("full")],
    },
}
BASES = {
    "Segmenter": lambda: ESTIMATORS["linear"]().set_params(calibration=None),
    "BoltzmannSegmenter": lambda: ESTIMATORS["boltzmann"]().set_params(epochs=(3, 2), cycles=1),
}
EVERY_SCALAR = [
    (base, name, value)
    for base, made in BASES.items()
    for name, given in made().get_params(deep=False).items()
    for value in SCALARS[base].get(name, [np.str_(given)] if isinstance(given, str) else [given])
]


def plain(value):
    """Whether JSON knows the type of a value, or of all parts of it."""
    if isinstance(value, list | tuple):
        return all(map(plain, value))
    return value is None or type(value) in (bool, int, float, str)


def as_id(value):
    return f"{type(value).__name__}-{value}".replace(" ", "")


@pytest.mark.parametrize(("base", "name", "value"), EVERY_SCALAR, ids=as_id)
def test_a_parameter_of_numpy_is_learned_from_saved_and_loaded(base, name, value, tmp_path):
    model = BASES[base]().set_params(**{name: value})
    if name == "C" and value == np.inf:
        model.set_params(learner="accpm", tol=0.5)
    model.fit(IMAGES[:2], MASKS[:2])
    model.save(tmp_path / "m")
    again = cl.load(tmp_path / "m")
    found = again.get_params(deep=False)
    assert {n: v for n, v in found.items() if not plain(v)} == {}
    asked = tuple(value) if isinstance(value, list) else value
    assert found[name] == asked
    assert same(again.predict(IMAGES[:3]), model.predict(IMAGES[:3]))


@pytest.mark.parametrize("base", list(BASES))
def test_saving_draws_nothing_and_gives_the_same_bytes(base, tmp_path):
    state = np.random.RandomState(5)
    model = BASES[base]().set_params(random_state=state).fit(IMAGES[:2], MASKS[:2])
    drawn = state.get_state()
    for name in ("a", "b"):
        model.save(tmp_path / name)
    assert np.array_equal(state.get_state()[1], drawn[1])
    assert state.get_state()[2:] == drawn[2:]
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    # The seed that was drawn is kept: another fit of what is loaded is this one.
    again = cl.load(tmp_path / "a")
    assert type(again.random_state) is int
    assert np.array_equal(learned(again.fit(IMAGES[:2], MASKS[:2])), learned(model))


@pytest.mark.parametrize(
    "given",
    [
        {"potentials": ("unary", "contrast", cl.Enveloped(cl.EnvelopeSpec(np.int64(5))))},
        {"loss": np.float32(2) * cl.Hamming(np.array([1, 2], np.float32))},
        {"loss": cl.Count(side=np.str_("over"), tolerance=np.int64(2))},
        {"features": Featurizer("linear", connectivity=np.int64(4), per_direction=np.bool_(True))},
        {"features": Featurizer("linear", superpixels=[("slic", np.int64(64))],
                                random_state=np.uint8(1), budget=np.float32(3))},
        {"features": Featurizer("trees", recipe=Recipe(trees=np.int64(3), rows=np.int32(600),
                                                       folds=2, min_leaf=5, leaves=4))},
    ],
)  # fmt: skip
def test_objects_with_scalars_of_numpy_are_saved_and_loaded(given, tmp_path):
    model = BASES["Segmenter"]().set_params(tol=0.5, **given).fit(IMAGES[:2], MASKS[:2])
    model.save(tmp_path / "m")
    assert same(cl.load(tmp_path / "m").predict(IMAGES[:3]), model.predict(IMAGES[:3]))
