"""Segmenters of volumes: learned from few slices, exact in three axes, kept in files."""

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.features.net.learn import NetRecipe
from cutlearn.features.trees import Recipe
from volume_worlds import balls, sparse

SPACING = (3, 1, 1)


@pytest.fixture(scope="module")
def worlds():
    return [(cl.Volume(image, SPACING), mask) for image, mask in map(balls, range(3))]


@pytest.fixture(scope="module")
def model(worlds):
    return cl.Segmenter(features="linear").fit(*zip(*worlds[:2]))


def test_the_mask_is_the_exact_cut_of_the_volume(model, worlds):
    volume = worlds[2][0]
    problem = model.featurizer_.problem(volume)
    cut = model.model_.energy(problem, model.w_).minimize()
    assert problem.shape == volume.shape
    assert (model.predict([volume])[0] == cut.labels).all()
    assert model.score([volume], [worlds[2][1]]) > 0.8


def test_edges_between_slices_are_learned(model):
    weights = dict(zip(model.w_names_, model.w_))
    assert weights["edge bias between slices"] + weights["edge sameness between slices"] > 0
    assert model.of_volumes


def test_probabilities_and_areas_have_the_volumes_shape(model, worlds):
    volume, mask = worlds[2]
    (q,) = model.predict_proba([volume])
    with pytest.warns(cl.errors.InputWarning, match="only 2 groups"):
        area, interval = model.area([volume])
    assert q.shape == (*volume.shape, 2)
    assert 0 < area[0] < mask.size
    assert np.isnan(interval).all()
    (labels, belief), = model.segment([volume])  # fmt: skip
    assert labels.shape == volume.shape
    assert (belief == q).all()


def test_a_few_slices_of_one_volume_are_enough(worlds):
    volume, mask = worlds[0]
    model = cl.Segmenter(features="linear").fit(volume, sparse(mask, [1, 4, 6]))
    assert "held_out" in model.validation_
    assert not model.featurizer_.depth_.own
    assert not any("between" in name for name in model.w_names_)
    assert model.score([worlds[2][0]], [worlds[2][1]]) > 0.75


def test_a_saved_model_gives_the_same_masks(model, worlds, tmp_path):
    model.save(tmp_path / "a.model")
    again = cl.load(tmp_path / "a.model")
    assert again.of_volumes
    assert (again.predict([worlds[2][0]])[0] == model.predict([worlds[2][0]])[0]).all()


def test_threads_change_nothing(model, worlds):
    other = cl.Segmenter(features="linear", n_jobs=2).fit(*zip(*worlds[:2]))
    assert (other.w_ == model.w_).all()


def test_slices_are_resized_not_their_number(worlds):
    model = cl.Segmenter(features="linear", min_side=12).fit(*zip(*worlds[:2]))
    (labels,), (q,) = model.predict([worlds[2][0]]), model.predict_proba([worlds[2][0]])
    assert labels.shape == worlds[2][0].shape
    assert q.shape == (*labels.shape, 2)


def test_seeds_hold(model, worlds):
    volume = worlds[2][0]
    seeds = np.full(volume.shape, -1, np.int16)
    seeds[3, :4, :4], seeds[5, :4, :4] = 1, 0
    labels = model.predict([cl.Volume(volume.image, SPACING, seeds)])[0]
    assert (labels[3, :4, :4] == 1).all()
    assert (labels[5, :4, :4] == 0).all()


def test_calibrate_takes_volumes(model, worlds):
    model.calibrate(*zip(*worlds[:2]))
    assert model.calibration_.n_groups == 2


def test_images_and_volumes_are_told_apart(model, worlds):
    volume, mask = worlds[0]
    with pytest.raises(cl.InputError, match="the model was fitted on volumes"):
        model.predict([volume.image[0]])
    flat = cl.Segmenter(features="linear").fit(list(volume.image), list(mask))
    with pytest.raises(cl.InputError, match="the model was fitted on images"):
        flat.predict([volume])
    with pytest.raises(cl.InputError, match="1 of 2 are volumes"):
        model.predict([volume, volume.image[0]])
    with pytest.raises(cl.InputError, match="Rank their slices"):
        model.rank([volume])
    with pytest.raises(cl.InputError, match="shapes of images"):
        cl.BoltzmannSegmenter().fit([volume], [mask])
    assert flat.fit(volume, mask).of_volumes


@pytest.mark.parametrize("features", ["net", "stacked"])
def test_nets_serve_volumes(features, worlds, tmp_path):
    """Slices are seen one by one; their logits are seen beside, and kept in files."""
    recipe = {"net": NetRecipe(steps=6, crops=2, folds=2), "recipe": Recipe(trees=4, rows=400)}
    source = cl.Featurizer(features, kind="microscopy", **recipe)
    model = cl.Segmenter(features=source, C=10.0, calibration=None).fit(*zip(*worlds[:2]))
    first = "logit1" if features == "stacked" else "net"
    assert f"node {first} beside" in model.w_names_
    model.save(tmp_path / "a.model")
    volume = worlds[2][0]
    found, again = (m.predict([volume])[0] for m in (model, cl.load(tmp_path / "a.model")))
    assert found.shape == volume.shape
    assert (found == again).all()
