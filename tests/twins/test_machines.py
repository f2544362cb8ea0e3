"""Answers as other processors compute them: equal cuts, and masks of a saved model nearly equal."""

import os
import subprocess
import sys

import numpy as np
import pytest
from numpy._core import _multiarray_umath as numpy_core

import cutlearn as cl
from cutlearn.features.featurizer import Featurizer
from cutlearn.features.trees import Recipe
from features.worlds import world

SMALL = Recipe(trees=10, rows=1000, folds=2, min_leaf=5, leaves=8)

# In a process of its own: which code a processor takes is decided when libraries are loaded.
ANSWER = """
import sys
import numpy as np
import cutlearn as cl

rng = np.random.default_rng(0)
unary = rng.normal(size=(60, 70))
weights = [np.abs(rng.normal(size=shape)) for shape in ((60, 69), (59, 70))]
cut = cl.Energy.grid(unary, weights, connectivity=4).minimize()
out = {"cut": cut.labels, "value": np.array([cut.value, cut.lower_bound])}
images = np.load(sys.argv[1])
for number, path in enumerate(sys.argv[3:]):
    model = cl.load(path)
    for name in images:
        for decision in ("map", "iou", "count"):
            found = model.predict([images[name]], decision=decision)[0]
            out[f"{number} {name} {decision}"] = found
        if images[name].dtype == np.float32:
            out[f"features {number} {name}"] = model.featurizer_.node_features(images[name])
np.savez(sys.argv[2], **out)
"""


def machines():
    """Variables of other processors, as far as this one can play them."""
    found = [name for name in numpy_core.__cpu_dispatch__ if numpy_core.__cpu_features__.get(name)]
    out = {"Nehalem": {"OPENBLAS_CORETYPE": "Nehalem"}}
    if numpy_core.__cpu_features__.get("AVX2"):
        out["Haswell"] = {"OPENBLAS_CORETYPE": "Haswell"}
    if found:
        out["plain"] = {
            "OPENBLAS_CORETYPE": "Prescott",
            "NPY_DISABLE_CPU_FEATURES": " ".join(found),
        }
    return out


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """A folder with colour images, few colours among them, and models of two kinds of features."""
    place = tmp_path_factory.mktemp("machines")
    rng = np.random.default_rng(0)
    images, masks = world(6)
    few = rng.integers(0, 5, (3, 30, 30, 3)).astype(np.uint8) * 60
    np.savez(place / "images.npz", *images, *few)
    options = {"C": 10.0, "n_jobs": 1, "random_state": 0}
    cl.Segmenter(features="linear", **options).fit(images, masks).save(place / "linear.cutlearn")
    boosted = Featurizer(recipe=SMALL)
    potentials = ("unary", "contrast", "envelope")
    cl.Segmenter(potentials, features=boosted, **options).fit(images, masks).save(
        place / "boosted.cutlearn"
    )
    return place


def answers(place, name, variables):
    models = sorted(place.glob("*.cutlearn"))
    file = place / f"{name}.npz"
    subprocess.run(
        [sys.executable, "-c", ANSWER, place / "images.npz", file, *models],
        check=True, env={**os.environ, **variables},
    )  # fmt: skip
    return np.load(file)


@pytest.mark.parametrize("name", ["Nehalem", "Haswell", "plain"])
def test_cuts_are_equal_and_masks_nearly(asked, name):
    if name not in machines():
        pytest.skip("this processor cannot play it")
    here, there = answers(asked, "here", {}), answers(asked, name, machines()[name])
    assert sorted(here) == sorted(there)
    features = [key for key in here if key.startswith("features")]
    masks = [key for key in here if key.endswith(("map", "iou", "count"))]
    assert (len(features), len(masks), len(here)) == (2 * 6, 2 * 9 * 3, 2 * 6 + 2 * 9 * 3 + 2)
    for key in ("cut", "value"):  # whole numbers: equal by construction
        assert here[key].tobytes() == there[key].tobytes(), key
    # Features are rounded; where two masks are nearly as good, the mask may differ.
    for key in features:
        np.testing.assert_allclose(there[key], here[key], rtol=1e-4, atol=1e-4)
    assert np.mean([np.mean(here[key] != there[key]) for key in masks]) < 1e-3
    assert sum(0 < here[key].mean() < 1 for key in masks) > 27, "masks with something to see"
