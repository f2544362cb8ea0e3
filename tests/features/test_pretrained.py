"""The head over a pretrained network: exact, out of fold, in files, and as a candidate of auto."""

import numpy as np
import pytest
from scipy.optimize import minimize

import cutlearn as cl
from cutlearn.features import auto, backbone, backbone_store
from cutlearn.features import pretrained as head_module
from cutlearn.features.backbone import MAPS, Function, Maps
from cutlearn.features.describe import Bank, Intensities
from cutlearn.features.featurizer import Featurizer
from cutlearn.features.net.learn import NetRecipe
from cutlearn.features.pretrained import Head, context, draw, fit_head, logistic
from cutlearn.features.sources import PretrainedLogits, Task, TreeLogits
from cutlearn.features.trees import Recipe
from cutlearn.metrics import pooled_iou
from features.worlds import pyramid, world

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def own_functions(monkeypatch, tmp_path):
    monkeypatch.setenv("CUTLEARN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(backbone, "CALLABLES", {})
    MAPS.clear()


def maps_of(images):
    return [MAPS.maps(Function(pyramid), image) for image in images]


def test_many_regressions_are_solved_as_each_by_itself():
    rows = RNG.normal(size=(200, 4)).astype(np.float32)
    signs = np.sign(rows[:, :1] + RNG.normal(size=(200, 3))).astype(np.float32)
    shares = RNG.uniform(size=(200, 3)).astype(np.float32) / 100
    strengths = np.array([1e-3, 1e-1, 1.0])
    found = logistic(rows, signs, shares, strengths)
    for k in range(3):

        def value(w, k=k):
            margin = signs[:, k] * (rows @ w[:-1] + w[-1])
            return shares[:, k] @ np.logaddexp(0, -margin) + strengths[k] * w[:-1] @ w[:-1] / 2

        best = minimize(value, np.zeros(5)).fun
        assert best <= value(found[:, k]) + 1e-9
        assert value(found[:, k]) < best * 1.002


def test_separable_answers_and_constant_columns_stay_finite():
    rows = np.repeat([[0.0, 3.0], [1.0, 3.0]], 50, axis=0).astype(np.float32)
    signs = np.repeat([-1.0, 1.0], 50)[:, None].astype(np.float32)
    found = logistic(rows, signs, np.full((100, 1), 0.01, np.float32), np.array([1e-3]))
    assert np.isfinite(found).all()
    assert ((rows @ found[:-1] + found[-1] > 0) == (signs > 0)).all()


def test_drawn_pixels_stand_for_all_labelled_ones():
    labels = np.zeros((40, 50, 1), np.uint8)
    labels[:3, :4] = 1
    labels[10:20] = 255
    drawn = draw(labels, 300, (0, 1))
    assert len(np.unique(drawn.index)) == len(drawn.index)
    assert (labels.reshape(-1)[drawn.index] == drawn.answers[:, 0]).all()
    for label in (0, 1):
        share = drawn.weights[drawn.answers[:, 0] == label].sum()
        assert share == pytest.approx((labels == label).sum(), rel=1e-5)
    assert (drawn.answers == 1).mean() > (labels == 1).sum() / 1500
    assert len(draw(np.full((4, 4, 1), 255, np.uint8), 10, (0, 1)).index) == 0


def test_logits_out_of_fold_do_not_depend_on_the_own_mask():
    images, masks = world(4, color=True)
    maps, folds = maps_of(images), [np.array(k) for k in range(4)]
    labels = [mask[..., None] for mask in masks]
    _, before = fit_head(maps, labels, folds, True)
    labels[0] = 1 - labels[0]
    _, after = fit_head(maps, labels, folds, True)
    # Strength and standardisation are those of all images; with the same ones nothing is left.
    assert np.corrcoef(before[0].ravel(), after[0].ravel())[0, 1] > 0.5
    assert np.corrcoef(before[1].ravel(), after[1].ravel())[0, 1] < 0.99


def test_a_new_image_gets_the_logits_of_every_scale():
    images, masks = world(4)
    maps = maps_of(images)
    head, _ = fit_head(maps, [m[..., None] for m in masks], [np.array(k) for k in range(4)], False)
    first = head.first.logits(maps[0], None, maps[0].shape)
    rows = maps[0].rows(np.arange(masks[0].size)) @ head.first.weights + head.first.bias
    np.testing.assert_allclose(first.reshape(-1, 1), rows, atol=1e-3)
    found = head.logits(maps[0])[..., 0]
    assert found.shape == masks[0].shape
    assert ((found > 0) == masks[0]).mean() > 0.8
    again = Head.of_arrays(head.to_arrays(), False)
    assert np.array_equal(again.logits(maps[0])[..., 0], found)


@pytest.mark.parametrize("name", ["head.first", "head.second", "head.first.bias"])
def test_a_damaged_head_is_refused(name):
    images, masks = world(2)
    labels, folds = [m[..., None] for m in masks], [np.array(k) for k in range(2)]
    arrays = fit_head(maps_of(images), labels, folds, False)[0].to_arrays()
    for wrong in (arrays[name][:-1], arrays[name] * np.float32(np.nan), arrays[name].astype(float)):
        with pytest.raises(ValueError):
            Head.of_arrays(arrays | {name: wrong}, False)
    with pytest.raises(ValueError):
        Head.of_arrays(arrays, True)


def test_context_is_that_of_the_probabilities_around():
    logits = np.zeros((30, 40, 1), np.float32)
    logits[10:20, 10:20] = 9
    found = context(logits, position=False)
    assert found.shape[:2] == (30, 40)
    assert found[..., 0].max() == head_module.CLIP
    assert context(logits, position=True).shape[2] == found.shape[2] + 5
    assert (found[15, 15] != found[2, 2]).any()


def test_held_out_answers_of_one_image_come_from_its_other_quarters():
    images, masks = world(1, (70, 80))
    featurizer = Featurizer("pretrained", backbone=pyramid, n_jobs=1)
    (nodes,) = featurizer.fit_transform(images, masks)
    assert np.ptp(nodes[:, 1]) > 0
    (new,) = featurizer.transform(images)
    assert (nodes[:, 1] != new[:, 1]).any()
    with pytest.raises(cl.InputError, match="only one image"):
        Featurizer("pretrained", backbone=pyramid, position=True, n_jobs=1).fit(images, masks)


def test_threads_and_kept_maps_change_nothing():
    images, masks = world(4)
    one = Featurizer("pretrained", backbone=pyramid, n_jobs=1).fit_transform(images, masks)
    kept = Featurizer("pretrained", backbone=pyramid, n_jobs=2).fit_transform(images, masks)
    assert all(np.array_equal(a, b) for a, b in zip(one, kept, strict=True))


def test_a_segmenter_learns_is_saved_and_refuses_other_weights(tmp_path, monkeypatch):
    images, masks = world(5, (40, 48))
    model = cl.Segmenter(features="pretrained", backbone=pyramid, C=10.0, n_jobs=1)
    model.fit(images[:4], masks[:4])
    assert model.featurizer_.chosen_ == "pretrained"
    found = model.predict(images[4:])
    assert pooled_iou(masks[4:], found) > 0.4
    model.save(tmp_path / "a.model")
    assert np.array_equal(cl.load(tmp_path / "a.model").predict(images[4:])[0], found[0])
    monkeypatch.setattr(pyramid, "digest", "another", raising=False)
    with pytest.raises(cl.InputError, match="other weights") as told:
        cl.load(tmp_path / "a.model")
    assert "\n" not in str(told.value)
    assert "damaged" not in str(told.value)
    monkeypatch.setattr(backbone, "CALLABLES", {})
    with pytest.raises(cl.InputError, match="needs"):
        cl.load(tmp_path / "a.model")


def test_several_labels_and_volumes():
    images, masks = world(4, (30, 36))
    three = [mask + (image[..., 2] > 0.5) * mask for image, mask in zip(images, masks)]
    model = cl.Segmenter(features="pretrained", backbone=pyramid, C=10.0, n_jobs=1)
    assert set(np.unique(model.fit(images, three).predict(images[:1])[0])) <= {0, 1, 2}
    volumes = [cl.Volume(np.stack(images[k : k + 2])) for k in (0, 2)]
    truth = [np.stack(masks[k : k + 2]) for k in (0, 2)]
    model = cl.Segmenter(features="pretrained", backbone=pyramid, C=10.0, n_jobs=1)
    assert model.fit(volumes, truth).predict(volumes)[0].shape == truth[0].shape


def test_a_network_that_is_not_installed_is_refused_and_auto_does_without(monkeypatch):
    images, masks = world(3)
    with pytest.raises(cl.InputError, match="cutlearn backbone install"):
        cl.Segmenter(features="pretrained", n_jobs=1).fit(images, masks)
    with pytest.raises(cl.InputError, match="backbone"):
        cl.Segmenter(features="pretrained", backbone=None, n_jobs=1).fit(images, masks)
    with pytest.raises(cl.InputError, match="backbone"):
        cl.Segmenter(backbone="another", n_jobs=1).fit(images, masks)
    assert Featurizer("auto").network() is None
    monkeypatch.setattr(backbone, "is_installed", lambda name: True)
    assert not backbone_store.KNOWN["mobile-sam"].path.exists()


@pytest.mark.parametrize(("shows", "color"), [(True, True), (True, False), (False, True)])
def test_auto_takes_a_network_that_shows_more_than_the_image(monkeypatch, shows, color):
    """The network knows the masks; the images are noise, from which nothing can be learned."""
    monkeypatch.setattr(Intensities, "of", lambda _: Intensities(0.0, 1.0))
    monkeypatch.setattr(auto, "PROBE_LIMITS", {"stages": 1, "rows": 600, "copies": 0, "folds": 2})
    others = []

    def learned(task, seconds, budget, probe=None):
        others.append(seconds)
        return auto.Choice("trees", "tried", task), *TreeLogits.fit(task)

    monkeypatch.setattr(auto, "_fit_learned", learned)
    _, masks = world(6, (40, 48), seed=3)
    shape = (40, 48, 3) if color else (40, 48, 1)
    noise = [RNG.uniform(size=shape).astype(np.float32) for _ in masks]
    known = {image[..., 0].tobytes(): mask for image, mask in zip(noise, masks)}

    def network(image):
        seen = known.get(image[..., 0].tobytes()) if shows else RNG.normal(size=shape[:2])
        return [np.zeros((1, *shape[:2])) if seen is None else 1.0 * seen[None]]

    recipe = Recipe(trees=3, rows=600, folds=2, min_leaf=5, leaves=4)
    featurizer = Featurizer("auto", backbone=network, n_jobs=1, budget=60.0, recipe=recipe)
    featurizer.fit(noise, masks)
    assert featurizer.chosen_ == ("pretrained" if shows else "trees")
    assert "pretrained" in featurizer.why_
    assert len(others) == (not shows or not color)  # photographs need no other source then
    others.clear()
    Featurizer("auto", backbone=network, n_jobs=1, budget=0.01, recipe=recipe).fit(noise, masks)
    assert others == [0.01]


def test_other_numbers_of_channels_are_refused_in_one_sentence():
    images, masks = world(3)
    featurizer = Featurizer("pretrained", backbone=pyramid, n_jobs=1).fit(images, masks)
    with pytest.raises(cl.InputError, match="channels"):
        featurizer.fitted_.source.head.logits(Maps((2, 2), (np.zeros((2, 2, 1), np.float16),)))


def test_costs_grow_with_images_and_questions():
    def task(n, t):
        images, masks = world(n)
        labels = [np.repeat(mask[..., None], t, axis=2) for mask in masks]
        bank = Bank("photograph", False)
        return Task(images, labels, [None] * n, range(n), bank, Recipe(), NetRecipe(),
                    backbone=Function(pyramid))  # fmt: skip

    costs = [PretrainedLogits.seconds(task(n, t)) for n, t in ((2, 1), (4, 1), (4, 3))]
    assert 0 < costs[0] < costs[1] < costs[2]


def test_maps_that_do_not_fit_into_memory_are_read_back(tmp_path):
    seen = []

    def network(image):
        seen.append(1)
        return pyramid(image)

    images, _ = world(3)
    cache = backbone.MapCache(most=1)
    first = [cache.maps(Function(network), image) for image in images]
    again = [cache.maps(Function(network), image) for image in images]
    assert len(seen) == 3
    for a, b in zip(first, again):
        assert isinstance(b, Maps)
        assert all(np.array_equal(p, q) for p, q in zip(a.planes, b.planes, strict=True))
    cache.clear()
    cache.maps(Function(network), images[0])
    assert len(seen) == 4
