"""A segmenter with envelopes over superpixels: fit, predict, files, C chosen."""

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.energy.model import ENVELOPE
from cutlearn.features.featurizer import Featurizer
from features.worlds import world
from linear_energies import energy_of

IMAGES, MASKS = world(6, shape=(30, 36), void=True)
FAMILIES = (("slic", 30), ("felzenszwalb", 60))


def model(potentials=("unary", "contrast", "envelope"), families=FAMILIES, **parameters):
    features = Featurizer("linear", superpixels=families)
    return cl.Segmenter(potentials, features=features, n_jobs=1, **parameters)


@pytest.fixture(scope="module")
def fitted():
    return model(C=1000.0, tol=0.001).fit(IMAGES[:4], MASKS[:4])


def test_weights_have_names_and_are_concave(fitted):
    names = [name for name in fitted.w_names_ if name.startswith("envelope")]
    assert names[:3] == [
        "envelope slic30 constant",
        "envelope slic30 slope",
        "envelope slic30 bend1",
    ]
    assert len(names) == 22
    assert len(fitted.w_) == len(fitted.w_names_)
    bends = [v for name, v in zip(fitted.w_names_, fitted.w_) if "bend" in name]
    assert max(bends) <= 0
    assert min(bends) < 0, "something was learned"
    assert fitted.converged_


def test_masks_minimise_the_energy_with_envelopes(fitted):
    image = IMAGES[4]
    problem = fitted.featurizer_.problem(cl.Sample(image), None, True, True)
    energy = energy_of(problem, fitted.w_, ENVELOPE)
    (mask,) = fitted.predict([image])
    best = energy.value(mask)
    rng = np.random.default_rng(0)
    for _ in range(200):
        other = mask ^ (rng.random(mask.shape) < 10 ** rng.uniform(-3, -1))
        assert energy.value(other) >= best - 1e-9
    for region in problem.regions[0]:
        for label in (0, 1):
            other = mask.copy()
            other.reshape(-1)[region] = label
            assert energy.value(other) >= best - 1e-9


def test_saved_and_loaded_is_the_same(fitted, tmp_path):
    fitted.save(tmp_path / "m")
    back = cl.load(tmp_path / "m")
    assert back.w_names_ == fitted.w_names_
    assert back.featurizer_.region_names_ == ["slic30", "felzenszwalb60"]
    for a, b in zip(fitted.predict(IMAGES[4:]), back.predict(IMAGES[4:])):
        assert (a == b).all()
    assert back.potentials == ("unary", "contrast", "envelope")


def test_without_edges_and_with_C_chosen():
    chosen = model(("unary", "envelope"), (("slic", 40),)).fit(IMAGES, MASKS)
    assert [name.split()[0] for name in chosen.w_names_].count("edge") == 0
    assert len(chosen.validation_["path"]) == 3
    assert chosen.score(IMAGES, MASKS) > 0.5


def test_interrupted_and_resumed_gives_the_same_bits(tmp_path):
    whole = model(C=100.0).fit(IMAGES[:3], MASKS[:3])

    def stop(step):
        if step.number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model(C=100.0).fit(IMAGES[:3], MASKS[:3], checkpoint=tmp_path, callback=stop)
    resumed = model(C=100.0).fit(IMAGES[:3], MASKS[:3], checkpoint=tmp_path)
    assert resumed.w_.tobytes() == whole.w_.tobytes()


def test_a_default_model_with_envelopes():
    worlds = [cl.images.cells(seed, (48, 64)) for seed in range(4)]
    made = cl.Segmenter(("unary", "contrast", "envelope"), features="linear", C=100.0, n_jobs=1)
    made.fit([w.image for w in worlds[:3]], [w.labels for w in worlds[:3]])
    assert "envelope slic256 slope" in made.w_names_
    assert made.predict([worlds[3].image])[0].shape == (48, 64)


def test_potentials_are_given_as_objects_and_kept_in_files(tmp_path):
    potentials = ("unary", cl.Contrast(), cl.Enveloped(cl.EnvelopeSpec(3, "slopes", "node")))
    features = Featurizer("linear", superpixels=(("slic", 30),))
    model = cl.Segmenter(potentials, features=features, C=10.0).fit(IMAGES[:3], MASKS[:3])
    assert len([name for name in model.w_names_ if name.startswith("envelope")]) == 4
    assert model.certified_
    model.save(tmp_path / "m")
    again = cl.load(tmp_path / "m")
    assert again.potentials == potentials
    assert (again.predict(IMAGES[3:4])[0] == model.predict(IMAGES[3:4])[0]).all()
