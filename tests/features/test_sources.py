"""Sources of logits through one mechanism, from fit to file."""

import json
from dataclasses import replace

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.errors import InputError
from cutlearn.features import SUMMARIES
from cutlearn.features.featurizer import Featurizer, modes
from cutlearn.features.net.learn import NetRecipe
from cutlearn.features.sources import SOURCES
from cutlearn.features.trees import Recipe
from cutlearn.model.model_files import load
from features.worlds import pyramid, world

RECIPE = Recipe(trees=3, rows=600, folds=2, min_leaf=5, leaves=4)
NET = NetRecipe(steps=6, crops=2, folds=2, restore=4)
NAMES = {
    "trees": ["logit2", "logit1"],
    "net": ["net"],
    "stacked": ["logit1", "net"],
    "both": ["net", "logit2", "logit1"],
    "pretrained": ["pretrained"],
}


def featurizer(features, recipe=RECIPE, **options):
    if features == "pretrained":
        options["backbone"] = pyramid
    return Featurizer(features, recipe=recipe, net=NET, n_jobs=1, **options)


def test_every_source_is_tried_here_and_has_a_line_of_help():
    assert NAMES.keys() == SOURCES.keys()
    assert set(SUMMARIES) == set(modes())


@pytest.mark.parametrize("features", SOURCES)
@pytest.mark.parametrize("color", [True, False])
def test_fit_names_and_round_trip(features, color):
    images, masks = world(3, color=color, void=True)
    f = featurizer(features)
    nodes = f.fit_transform(images, masks)
    logits = NAMES[features]
    assert f.node_names_[1 : 1 + len(logits)] == logits
    new = f.transform(images)
    for node, other in zip(nodes, new):
        assert node.shape == other.shape
        differ = (node != other).any(axis=0)
        seen = [*logits, "colors"]  # out of fold, and what depends on it
        assert not any(d for d, name in zip(differ, f.node_names_) if name not in seen)
        assert all(d for d, name in zip(differ, f.node_names_) if name in logits)
    arrays, described = f.to_arrays()
    again = Featurizer.from_arrays(arrays, json.loads(json.dumps(described)), n_jobs=1)
    assert all(np.array_equal(a, b) for a, b in zip(new, again.transform(images)))
    assert again.to_arrays()[1] == described


def test_nets_of_micrographs_speak_for_themselves():
    """Greys beside their mean would be weighed in sample; files of before have them."""
    for features, color, beside in (
        ("net", False, False), ("trees", False, True), ("stacked", False, True),
        ("net", True, True),
    ):  # fmt: skip
        f = featurizer(features).fit(*world(3, color=color))
        count = len(f.node_names_) - 1 - len(NAMES[features]) - ("colors" in f.node_names_)
        assert (count > 0) == beside
    arrays, described = featurizer("trees").fit(*world(3, color=False)).to_arrays()
    assert described.pop("beside") == ["raw"]
    again = Featurizer.from_arrays(arrays, described, n_jobs=1)
    assert again.fitted_.beside == ("raw",)
    with pytest.raises(InputError, match="nothing"):
        Featurizer.from_arrays(arrays, described | {"beside": ["nothing"]}, n_jobs=1)


@pytest.mark.parametrize("features", SOURCES)
def test_edges_count_less_over_a_mean_of_nets(features):
    source = featurizer(features).fit(*world(3)).fitted_.source
    assert source.edges == (1 / len(source.nets.weights) if features == "net" else 1)


@pytest.mark.parametrize("features", SOURCES)
def test_several_questions_and_extra_arrays(features):
    images, masks = world(3, color=False)
    both = [np.stack([m, 1 - m], axis=-1) for m in masks]
    extras = [m[..., None].astype(np.float32) for m in masks]
    samples = [cl.Sample(i, extra=e) for i, e in zip(images, extras)]
    f = featurizer(features, replace(RECIPE, share=1.0))  # every tree may use every column
    f.fit(samples, both)
    wanted = [f"{name} of {t}" for t in (0, 1) for name in NAMES[features]]
    assert f.node_names_[1 : 1 + len(wanted)] == wanted
    # What the user brings is seen by the source too: without it the logits are others.
    blank = cl.Sample(images[0], extra=np.zeros_like(extras[0]))
    seen, unseen = f.transform([samples[0], blank])
    assert (seen[:, 1] != unseen[:, 1]).any()


def test_stacked_trees_see_the_net(monkeypatch):
    """With another first guess the trees answer otherwise, and the guess is handed through."""
    images, masks = world(3, color=False)
    f = featurizer("stacked").fit(images, masks)
    source = f.fitted_.source
    from cutlearn.features.describe import Picture

    ((first, second),) = source.answers(Picture(images[0]), None)
    assert np.array_equal(first, source.net.nets.logits(images[0])[0])
    monkeypatch.setattr(type(source.net), "answers", lambda self, picture, extra: [[-first]])
    ((_, other),) = source.answers(Picture(images[0]), None)
    assert not np.array_equal(second, other)


def test_scaled_banks_hand_the_guess_through_unblurred():
    images, masks = world(3, shape=(24, 30), color=False)
    from cutlearn.features.describe import Bank
    from cutlearn.features.sources import NetLogits, StackedLogits, Task

    bank = Bank("microscopy", False, scale=2)
    task = Task(images, [m[..., None] for m in masks], [None] * 3, [0, 1, 2], bank, RECIPE, NET)
    _, alone = NetLogits.fit(task)
    _, maps = StackedLogits.fit(task)
    for first, answers in zip(alone, maps):
        assert np.array_equal(answers[0][0], first[0][0])
        assert answers[0][1].shape == (24, 30)


@pytest.mark.parametrize("features", ["net", "stacked"])
def test_a_segmenter_by_name(features, tmp_path):
    images, masks = world(4, shape=(32, 40))
    told = []
    model = cl.Segmenter(features=featurizer(features), C=10.0, n_jobs=1)
    model.fit(images[:3], masks[:3], checkpoint=tmp_path / "part",
              progress=lambda *given: told.append(given))  # fmt: skip
    done, totals = [t[0] for t in told], [t[1] for t in told]
    assert done == sorted(done)
    assert done[-1] == totals[-1]
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert np.array_equal(again.predict(images[3:])[0], model.predict(images[3:])[0])
    # A second fit takes the features from the checkpoint, and says nothing of learning them.
    told.clear()
    other = cl.Segmenter(features=featurizer(features), C=10.0, n_jobs=2)
    other.fit(images[:3], masks[:3], checkpoint=tmp_path / "part",
              progress=lambda *given: told.append(given))  # fmt: skip
    assert not told
    assert np.array_equal(other.w_, model.w_)
    assert [f.features for f in (again.featurizer_, other.featurizer_)] == [features] * 2


def test_the_names_of_a_segmenter_are_those_of_the_featurizer():
    images, masks = world(2)
    with pytest.raises(InputError, match="'features' parameter of Segmenter must be one of"):
        cl.Segmenter(features="magic").fit(images, masks)
    assert cl.Segmenter(features="net").get_params()["features"] == "net"


DAMAGE = {
    "no kernel": lambda a, d: a.pop("net0.down0.0.kernel"),
    "a short kernel": lambda a, d: a.update({"net1.up0.kernel": a["net1.up0.kernel"][:, 1:]}),
    "NaN": lambda a, d: a["net0.out.shift"].fill(np.nan),
    "doubles": lambda a, d: a.update({"net0.join0": a["net0.join0"].astype(float)}),
    "no deviation": lambda a, d: a["sight.deviation"].fill(0),
    "more channels": lambda a, d: a.update({"sight.mean": np.zeros(4, np.float32)}),
    "more nets": lambda a, d: d["net_shape"].update(count=3),
    "many nets": lambda a, d: d["net_shape"].update(count=10**9),
    "many levels": lambda a, d: d["net_shape"].update(widths=[1] * 40),
    "a width that is none": lambda a, d: d["net_shape"].update(widths=[16, 2.5]),
    "many outputs": lambda a, d: d["net_shape"].update(outputs=10**9),
    "no shape": lambda a, d: d.pop("net_shape"),
    "other features": lambda a, d: d.update(features="trees"),
    "no features at all": lambda a, d: d.update(features="linear"),
}


@pytest.fixture(scope="module")
def fitted():
    images, masks = world(2, color=False)
    return featurizer("net").fit(images, masks)


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_nets_are_refused(name, fitted):
    arrays, described = fitted.to_arrays()
    arrays = {k: a.copy() for k, a in arrays.items()}
    described = json.loads(json.dumps(described))
    DAMAGE[name](arrays, described)
    with pytest.raises(InputError):
        Featurizer.from_arrays(arrays, described)
