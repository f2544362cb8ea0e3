"""One image, or one group of them, is learned from in quarters, out of fold."""

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.errors import InputError
from cutlearn.features.describe import Intensities
from cutlearn.features.featurizer import Featurizer
from cutlearn.features.folds import join_quarters
from cutlearn.features.net.learn import NetRecipe
from cutlearn.features.sources import SOURCES
from cutlearn.features.trees import Recipe
from cutlearn.loaded import Loaded
from cutlearn.metrics import pooled_iou
from features.worlds import world

RECIPE = Recipe(trees=3, rows=600, folds=2, min_leaf=5, leaves=4)
NET = NetRecipe(steps=6, crops=2, folds=2, restore=4)
SHAPE = (65, 70)


@pytest.fixture
def one_range(monkeypatch):
    """The range of intensities of a whole image for its parts too, which have others."""
    monkeypatch.setattr(Intensities, "of", lambda _: Intensities(0.0, 1.0))


def corners(shape):
    h, w = (n // 2 for n in shape)
    return [np.s_[:h, :w], np.s_[:h, w:], np.s_[h:, :w], np.s_[h:, w:]]


def featurizer(features, **options):
    return Featurizer(features, recipe=RECIPE, net=NET, n_jobs=1, **options)


@pytest.mark.parametrize("shape", [(4, 6), (5, 7), (64, 65)])
def test_quarters_are_put_together_again(shape):
    rng, shapes = np.random.default_rng(0), [shape, (9, 8)]
    wanted, maps = [], []
    for h, w in shapes:
        whole = [[rng.normal(size=(h, w)).astype(np.float32) for _ in range(3)] for _ in range(2)]
        wanted.append(whole)
        for part in corners((h, w)):
            maps.append([[stage[part] for stage in question] for question in whole])
    for found, whole in zip(join_quarters(maps, shapes), wanted, strict=True):
        assert all(np.array_equal(a, b) for q, p in zip(found, whole) for a, b in zip(q, p))
    one_by_one = join_quarters(Loaded(len(maps), lambda k: maps[k]), shapes)
    assert isinstance(one_by_one, Loaded)
    assert np.array_equal(one_by_one[1][0][2], wanted[1][0][2])


@pytest.mark.parametrize("color", [False, True])
@pytest.mark.parametrize("features", sorted(set(SOURCES) - {"pretrained"}))  # it sees whole images
def test_logits_of_one_image_come_from_models_of_the_other_quarters(features, color, one_range):
    images, masks = world(1, SHAPE, color=color)
    (alone,) = featurizer(features).fit_transform(images, masks)
    quarters = corners(SHAPE)
    parts = featurizer(features, position=False)
    rows = parts.fit_transform([images[0][q] for q in quarters], [masks[0][q] for q in quarters],
                               groups=range(4))  # fmt: skip
    grid = alone.reshape(*SHAPE, -1)[..., 1]
    for part, own in zip(quarters, rows):
        assert np.ptp(own[:, 1]) > 0
        np.testing.assert_allclose(grid[part].ravel(), own[:, 1], atol=1e-4)


def test_images_of_one_group_are_quartered_together(one_range):
    images, masks = world(2, SHAPE, color=False)
    both = featurizer("trees").fit_transform(images, masks, groups=["a", "a"])
    parts = [(k, place) for k in (0, 1) for place in corners(SHAPE)]
    rows = featurizer("trees").fit_transform(
        [images[k][p] for k, p in parts], [masks[k][p] for k, p in parts], groups=[*range(4)] * 2
    )
    for (k, place), own in zip(parts, rows):
        seen = both[k].reshape(*SHAPE, -1)[place][..., 1]
        np.testing.assert_allclose(seen.ravel(), own[:, 1], atol=1e-4)


def test_one_annotated_slice_of_a_volume_is_enough():
    images, masks = world(4, SHAPE, color=False)
    mask = np.full((4, *SHAPE), 255, np.uint8)
    mask[1] = masks[1]
    volume = cl.Volume(np.stack(images))
    model = cl.Segmenter(features=featurizer("trees"), C=10.0).fit([volume], [mask])
    assert pooled_iou(masks, list(model.predict([volume])[0])) > 0.4


@pytest.mark.parametrize("color", [False, True])
def test_one_image_is_enough_for_a_segmenter_and_its_file(tmp_path, color):
    images, masks = world(3, SHAPE, color=color)
    model = cl.Segmenter(features=featurizer("trees"), C=10.0).fit(images[:1], masks[:1])
    found = model.predict(images[1:])
    assert pooled_iou(masks[1:], found) > 0.4
    model.save(tmp_path / "m")
    assert all(
        np.array_equal(a, b) for a, b in zip(found, cl.load(tmp_path / "m").predict(images[1:]))
    )


def test_where_the_object_lies_in_one_photograph_is_no_feature_of_others():
    images, masks = world(2, SHAPE, color=True)
    alone, two = (featurizer("linear").fit(images[:k], masks[:k]) for k in (1, 2))
    assert not alone.fitted_.bank.position
    assert two.fitted_.bank.position


@pytest.mark.parametrize(
    ("shape", "color", "options"),
    [
        ((63, 70), False, {}),
        ((63, 70), True, {}),
        (SHAPE, False, {"position": True}),
        (SHAPE, True, {"position": True}),
    ],
)
def test_what_cannot_be_quartered_is_refused(shape, color, options):
    images, masks = world(1, shape, color=color)
    with pytest.raises(InputError, match="there is only one image"):
        featurizer("trees", **options).fit(images, masks)
    featurizer("linear", **options).fit(images, masks)
