"""Featurizer: one object from images to node and edge features, the same after a round trip."""

import json

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import cutlearn as cl
from cutlearn.errors import InputError
from cutlearn.features.describe import Intensities
from cutlearn.features.featurizer import Featurizer
from cutlearn.features.mixtures import odds_of, palette
from cutlearn.features.net.learn import NetRecipe
from cutlearn.features.nodes import window_means
from cutlearn.features.trees import MultiTargetTrees, Recipe
from cutlearn.images import Sample
from cutlearn.images import Sample as images_sample
from features.worlds import world

SMALL = Recipe(trees=3, rows=600, folds=2, min_leaf=5, leaves=4)


def with_extra(image, extra=None):
    return Sample(image, extra=extra)


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("features", ["auto", "linear"])
@pytest.mark.parametrize("color", [True, False])
def test_shapes_names_and_scale(features, color):
    images, masks = world(3, color=color, void=True)
    images[2], masks[2] = images[2][:11, :9], masks[2][:11, :9]
    f = Featurizer(features, recipe=SMALL, n_jobs=1)
    nodes = f.fit_transform(images, masks)
    assert [len(n) for n in nodes] == [24 * 30, 24 * 30, 99]
    stacked = np.concatenate([n[m.reshape(-1) != 255] for n, m in zip(nodes, masks)])
    assert stacked.shape[1] == len(f.node_names_)
    assert (stacked[:, 0] == 1).all()
    np.testing.assert_allclose(stacked[:, 1:].mean(axis=0), 0, atol=1e-4)
    varies = np.ptp(stacked, axis=0) > 0
    assert varies[1:3].all()
    np.testing.assert_allclose(stacked[:, varies].std(axis=0), 1, atol=1e-3)
    (new,), edges = f.transform(images[2:]), f.edge_features(images[2])
    assert new.shape == nodes[2].shape
    assert edges.shape == (11 * 8 + 10 * 9 + 2 * 10 * 8, len(f.edge_names_))
    assert 0 <= edges.min() <= edges.max() <= 1
    assert f.bank_.kind == ("photograph" if color else "microscopy")


def test_fit_transform_gives_other_logits_than_transform():
    images, masks = world(4)
    f = Featurizer(recipe=SMALL, n_jobs=1)
    nodes = f.fit_transform(images, masks)
    assert f.node_names_[1:3] == ["logit2", "logit1"]
    for image, node in zip(images, nodes):
        new = f.node_features(image)
        assert not np.array_equal(new[:, 1], node[:, 1])
        np.testing.assert_array_equal(new[:, 3:-1], node[:, 3:-1])
    assert f.node_names_[-1] == "colors"  # which the logits find


@pytest.mark.parametrize("features", ["auto", "linear", "given"])
def test_round_trip_is_the_identity(features):
    images, masks = world(3, color=features != "linear")
    extra = None if features == "linear" else [i[..., :2].astype(float) for i in images]
    f = Featurizer(features, recipe=SMALL, n_jobs=1, connectivity=4, per_direction=True)
    samples = images if extra is None else [with_extra(i, e) for i, e in zip(images, extra)]
    assert f.fit(samples, masks) is f
    arrays, described = f.to_arrays()
    g = Featurizer.from_arrays(arrays, json.loads(json.dumps(described)), n_jobs=1)
    assert same(f.transform(samples), g.transform(samples))
    assert same(map(f.edge_features, images), map(g.edge_features, images))
    assert (g.node_names_, g.edge_names_) == (f.node_names_, f.edge_names_)
    again, described_again = g.to_arrays()
    assert described_again == described
    assert arrays.keys() == again.keys()
    assert same(arrays.values(), again.values())


def test_centers_are_the_means_of_windows_of_the_training_images():
    images, masks = world(3)
    f = Featurizer("linear", n_jobs=1)
    rows = f.fit_transform(images, masks)
    wanted = [window_means(r, mask.shape) for r, mask in zip(rows, masks)]
    assert np.array_equal(f.centers_, np.concatenate(wanted))
    arrays, described = f.to_arrays()
    del arrays["centers"]
    assert Featurizer.from_arrays(arrays, described).centers_.shape == (0, len(f.node_names_))


def test_threads_and_repeats_give_the_same_bits():
    images, masks = world(4, color=False)
    runs = []
    for n_jobs, seed in ((1, 3), (2, 3), (2, 4)):
        f = Featurizer(recipe=SMALL, n_jobs=n_jobs, random_state=seed)
        runs.append([*f.fit_transform(images, masks), *f.transform(images[:1])])
    assert same(runs[0], runs[1])
    assert not same(runs[0], runs[2])


@pytest.mark.parametrize("shape", [(1, 1), (3, 3)])
@pytest.mark.parametrize("color", [True, False])
def test_tiny_images(shape, color):
    images, masks = world(3, color=color)
    f = Featurizer(recipe=SMALL, n_jobs=1)
    f.fit(images, masks)
    tiny = [image[: shape[0], : shape[1]] for image in images]
    nodes, edges = f.transform(tiny)[0], f.edge_features(tiny[0])
    assert len(nodes) == shape[0] * shape[1]
    assert len(edges) == (0 if shape == (1, 1) else 20)
    labels = [np.full(shape, k % 2, np.uint8) for k in range(3)]
    for node in Featurizer(recipe=SMALL, n_jobs=1).fit_transform(tiny, labels):
        assert np.isfinite(node).all()


def test_images_of_one_label_among_others():
    images, masks = world(3)
    f = Featurizer(recipe=SMALL, n_jobs=1)
    nodes = f.fit_transform(images, [masks[0], 0 * masks[1], masks[2]])
    assert np.isfinite(np.concatenate(nodes)).all()


def test_extra_arrays_and_samples():
    images, masks = world(3)
    extra = [i[..., 0] for i in images]
    f = Featurizer("given", n_jobs=1)
    nodes = f.fit_transform([with_extra(i, e) for i, e in zip(images, extra)], masks)
    assert f.node_names_ == ["bias", "extra0"]
    np.testing.assert_array_equal(nodes[0], f.node_features(images[0], extra[0]))
    with pytest.raises(
        InputError, match="image has 0 extra channels, but the training images had 1"
    ):
        f.transform(images)
    with pytest.raises(InputError, match="'given' needs an extra array"):
        Featurizer("given", n_jobs=1).fit(images, masks)
    g = Featurizer(recipe=SMALL, n_jobs=1)
    g.fit([with_extra(i, e) for i, e in zip(images, extra)], masks)
    assert g.node_names_[-1] == "extra0"


def test_wrong_inputs_are_told_together():
    images, masks = world(3)
    f = Featurizer(recipe=SMALL, n_jobs=1)
    with pytest.raises(InputError, match="one label only"):
        f.fit(images, [0 * m for m in masks])
    bad = [images[0] * np.nan, images[1] * 3, images[2]]
    with pytest.raises(InputError, match=r"(?s)image 0.*image 1.*masks\[2\] has shape"):
        f.fit(bad, [masks[0], masks[1], masks[2][1:]])
    with pytest.raises(InputError, match=r"masks\[1\] has values 0, 2"):
        f.fit(images, [masks[0], 2 * masks[1], masks[2]])
    with pytest.raises(InputError, match="images is empty"):
        f.fit([], [])
    with pytest.raises(InputError, match="masks has length 2, but there are 3 images"):
        f.fit(images, masks[:2])
    with pytest.raises(InputError, match=r"features must be .*, not 'magic'"):
        Featurizer("magic").fit(images, masks)
    with pytest.raises(NotFittedError):
        f.transform(images)


def test_interrupted_fit_keeps_the_old_state():
    images, masks = world(3)
    f = Featurizer(recipe=SMALL, n_jobs=2)
    f.fit(images, masks)
    before = f.transform(images)

    def progress(done, total, what):
        if done == total - 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        f.fit(images[::-1], masks, progress=progress)
    assert same(before, f.transform(images))


def test_progress_counts_to_its_total():
    images, masks = world(3, color=False)
    seen = []
    Featurizer(recipe=SMALL, n_jobs=2).fit(images, masks, progress=lambda *a: seen.append(a))
    assert [s[0] for s in seen] == list(range(1, len(seen) + 1))
    assert {s[1] for s in seen} == {len(seen)}


def test_it_is_an_estimator_of_scikit_learn():
    marks = {name: object() for name in Featurizer().get_params()}
    assert vars(Featurizer(**marks)) == marks
    images, masks = world(3)
    f = Featurizer("linear", recipe=SMALL, n_jobs=1).fit(images, masks)
    twin = clone(f)
    assert not hasattr(twin, "fitted_")
    assert repr(twin.get_params()) == repr(f.get_params())
    assert "row2" not in twin.set_params(position=False).fit(images, masks).node_names_


@pytest.mark.parametrize("name", sorted(set(Featurizer().get_params())))
def test_parameters_are_refused_in_fit_and_not_before(name):
    images, masks = world(2)
    f = Featurizer("linear").set_params(**{name: -3.5})
    with pytest.raises(InputError, match=r"-3\.5"):
        f.fit(images, masks)


def test_a_memory_gives_back_what_was_learned(tmp_path, monkeypatch):
    images, masks = world(4)
    grown = []
    plain = MultiTargetTrees.grow
    monkeypatch.setattr(MultiTargetTrees, "grow", lambda *args: grown.append(1) or plain(*args))
    f = Featurizer(recipe=SMALL, n_jobs=1, memory=tmp_path / "new" / "folder")
    nodes = f.fit_transform(images, masks)
    once = len(grown)
    twin = clone(f)
    assert same(nodes, twin.fit_transform(images, masks))
    assert same(f.transform(images), twin.transform(images))
    assert len(grown) == once > 0
    twin.set_params(random_state=1).fit(images, masks)
    assert len(grown) == 2 * once
    twin.set_params(random_state=None).fit(images, masks, groups=list("abab"))
    assert len(grown) == 3 * once
    twin.fit(images, [mask.T.reshape(mask.shape) for mask in masks])
    assert len(grown) == 4 * once
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="memory must be a folder"):
        f.set_params(memory=tmp_path / "file").fit(images, masks)


def test_a_problem_has_the_features_and_what_a_person_settled():
    images, masks = world(3)
    f = Featurizer("linear", n_jobs=1, connectivity=4)
    nodes = f.fit_transform(images, masks)
    seeds = np.full((24, 30), -1)
    seeds[3, 4] = 1
    problem = f.problem(images_sample(images[0], seeds=seeds), regions=True)
    assert np.array_equal(problem.node_features, f.node_features(images[0]))
    assert np.array_equal(problem.edge_features, f.edge_features(images[0]))
    assert (problem.shape, problem.connectivity, len(problem.regions)) == ((24, 30), 4, 1)
    assert problem.fixed[3 * 30 + 4] == 1
    assert (problem.fixed >= 0).sum() == 1
    plain = f.problem(images[1], 2 * nodes[1], edges=False)
    assert np.array_equal(plain.node_features, 2 * nodes[1])
    assert (plain.edge_features.shape[1], plain.fixed, len(plain.regions)) == (0, None, 0)


@pytest.fixture(scope="module")
def fitted():
    images, masks = world(3)
    f = Featurizer(recipe=SMALL, n_jobs=1)
    f.fit(images, masks)
    return f, images


@pytest.mark.parametrize(
    "damage", ["format", "bank", "feature", "mean", "stage", "centers", "scale"]
)
def test_damaged_files_get_one_sentence(damage, fitted):
    arrays, described = fitted[0].to_arrays()
    if damage == "format":
        described["format"] = 99
    elif damage == "bank":
        described["bank"]["kind"] = "magic"
    elif damage == "feature":
        arrays["stage1.feature"] = arrays["stage1.feature"] + 10**6
    elif damage == "mean":
        arrays["mean"] = arrays["mean"][:-1]
    elif damage == "stage":
        del arrays["stage0.left"]
    elif damage == "centers":
        arrays["centers"] = arrays["centers"][:, 1:]
    else:
        arrays["scale"] = arrays["scale"] * 0
    with pytest.raises(InputError, match=r"^(features|bank)"):
        Featurizer.from_arrays(arrays, described)


def painted(n=4, shape=(30, 36)):
    """Blobs of one colour on another, both of them the image's own."""
    images, masks = world(n, shape)
    rng = np.random.default_rng(3)
    for image, mask in zip(images, masks):
        for label, color in enumerate(rng.uniform(0.1, 0.9, (2, 3))):
            image[mask == label, :2] = color[:2] + rng.normal(
                0, 0.02, (int((mask == label).sum()), 2)
            )
        np.clip(image, 0, 1, out=image)
    return images, masks


def test_logits_find_the_colours_of_the_image_itself():
    images, masks = painted()
    f = Featurizer("trees", recipe=SMALL, n_jobs=1).fit(images, masks)
    fitted = f.fitted_
    rows = f.node_features(images[0])
    z = f.logit(rows).reshape(masks[0].shape)
    wanted = odds_of(palette(f.intensities_.scaled(images[0])), z >= fitted.border)
    found = rows[:, -1] * fitted.scale[-1] + fitted.mean[-1]
    np.testing.assert_allclose(found, wanted.ravel(), atol=1e-4)
    again = Featurizer.from_arrays(*f.to_arrays())
    assert again.fitted_.border == fitted.border
    assert np.array_equal(again.node_features(images[1]), f.node_features(images[1]))


def test_colours_are_asked_in_photographs_of_two_labels_only():
    images, masks = painted()
    grey, several = world(4, color=False)[0], [np.stack([m, 1 - m], -1) for m in masks]
    for features, seen, answers, kind, has in (
        ("trees", images, masks, "photograph", True),
        ("trees", images, masks, "microscopy", False),
        ("trees", [i[:24, :30] for i in grey], [m[:24, :30] for m in masks], "auto", False),
        ("trees", images, several, "photograph", False),
        ("linear", images, masks, "photograph", False),
    ):
        f = Featurizer(features, kind, recipe=SMALL, n_jobs=1).fit(seen, answers)
        assert ("colors" in f.node_names_) == has == (f.fitted_.border is not None)


@pytest.mark.parametrize("border", [np.inf, "0", True, [0.0]])
def test_a_damaged_border_is_refused(border):
    arrays, described = Featurizer("trees", recipe=SMALL, n_jobs=1).fit(*painted(2)).to_arrays()
    with pytest.raises(InputError, match="border of the colours is damaged"):
        Featurizer.from_arrays(arrays, described | {"border": border})


@pytest.mark.parametrize("features", ["trees", "net", "linear"])
@pytest.mark.parametrize("color", [True, False])
def test_masks_do_not_depend_on_the_unit_of_intensities(features, color):
    """The same images as bytes, as 12 bits in 16, and as small floats: the same masks."""
    pictures, masks = world(4, shape=(40, 50), color=color)
    grey = [np.rint(255 * image).astype(np.uint8) for image in pictures]
    offset = [image.astype(np.uint16) * 15 + 700 for image in grey]
    dark = [image.astype(np.float32) * np.float32(1e-4) for image in grey]
    net = NetRecipe(steps=30, crops=2, folds=2, restore=4)
    found = []
    many = [[image.astype(np.uint16) * 15 for image in grey], offset, dark]
    for images in [grey, *(many[1:2] if features == "net" else many)]:
        featurizer = Featurizer(features, recipe=SMALL, net=net)
        model = cl.Segmenter(features=featurizer, C=100.0, n_jobs=1).fit(images[:3], masks[:3])
        found.append(np.stack(model.predict(images)))
        assert 0.05 < found[-1].mean() < 0.95
    # Steps of a net carry the rounding of their inputs on.
    most = 0.01 if features == "net" else 0.005
    for other in found[1:]:
        assert (found[0] != other).mean() < most


def test_brightness_differs_between_images_of_a_set_as_before():
    """One scale serves the whole set: a label that is told by brightness alone can be learned."""
    rng = np.random.default_rng(0)
    images = [level + rng.normal(0, 1, (20, 20)) for level in (20, 40, 20, 40)]
    images = [np.rint(image).astype(np.uint16) for image in images]
    masks = [np.zeros((20, 20), np.uint8), np.ones((20, 20), np.uint8)] * 2
    model = cl.Segmenter(features="linear", C=100.0, n_jobs=1).fit(images, masks)
    for mask, labels in zip(masks, model.predict(images)):
        assert (mask == labels).all()


def test_intensities_leave_few_pixels_out_and_constant_images_alone():
    rng = np.random.default_rng(0)
    image = rng.uniform(0.01, 0.02, (100, 100)).astype(np.float32)
    image[0, 0] = 1  # a hot pixel
    other = image / 2
    scale = Intensities.of([image, other])
    assert 0.005 <= scale.low < 0.0051
    assert 0.0199 < scale.high <= 0.02
    made = scale.scaled(image)
    assert (scale.scaled(other).min(), made.max(), made.dtype) == (0, 1, np.float32)
    assert (made[1:] < 1).mean() > 0.998
    flat = np.full((5, 5), 0.25, np.float32)
    assert Intensities.of([flat]).scaled(flat) is flat
    assert Intensities.from_plain(scale.to_plain()) == scale
    for wrong in ([0.5, 0.5], [0.5, 0.1], [0, float("nan")], [0.1], "no", [True, 2]):
        with pytest.raises((InputError, ValueError, TypeError)):
            Intensities.from_plain(wrong)
