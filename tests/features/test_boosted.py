"""Boosted logits: truly out of fold, balanced rows with the prior put back, void left out."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from cutlearn.features import describe
from cutlearn.features.boosted import answer, draw_rows, fit_trees, make_items
from cutlearn.features.describe import Bank, Picture
from cutlearn.features.filters import whole
from cutlearn.features.trees import MultiTargetTrees, Recipe
from cutlearn.run.executor import Threads
from features.worlds import world

SMALL = Recipe(trees=8, rows=1500, folds=2, min_leaf=5, leaves=15)


def fit_boosted(images, masks, *given, **options):
    """Trees for a single question, and the logits by image and stage."""
    model, maps = fit_trees(images, [m[..., None] for m in masks], *given, **options)
    return model, [answers[0] for answers in maps]


def separation(maps, masks):
    """Chance that a pixel of label 1 has a higher logit than one of label 0 (ties half)."""
    z = np.concatenate([m.ravel() for m in maps])
    y = np.concatenate([m.ravel() for m in masks])
    from sklearn.metrics import roc_auc_score

    return roc_auc_score(y[y != 255], z[y != 255])


@pytest.mark.parametrize(("stages", "copies"), [(1, 0), (2, 1)])
def test_out_of_fold_logits_know_nothing_of_random_labels(stages, copies):
    images, _ = world(6, (20, 20), color=False)
    rng = np.random.default_rng(5)
    masks = [rng.integers(0, 2, (20, 20)).astype(np.uint8) for _ in images]
    recipe = Recipe(
        trees=15, rate=0.3, rows=2400, folds=2, min_leaf=5, share=1.0, stages=stages, copies=copies
    )
    bank = Bank("microscopy", True)
    model, maps = fit_boosted(images, masks, [None] * 6, bank, recipe, range(6))
    leaked = [model.logits(image)[-1] for image in images]
    assert separation(leaked, masks) > 0.65, "in-sample logits do know them, so the test can fail"
    assert 0.43 < separation([m[-1] for m in maps], masks) < 0.57


def test_learns_what_is_there():
    images, masks = world(6, (24, 30))
    model, maps = fit_boosted(images, masks, [None] * 6, Bank("photograph", False), SMALL, range(6))
    assert separation([m[-1] for m in maps], masks) > 0.8
    fresh, truth = world(3, (24, 30), seed=9)
    assert separation([model.logits(i)[-1] for i in fresh], truth) > 0.8
    assert [len(m) for m in maps] == [2] * 6


def test_several_questions_have_trees_together():
    images, masks = world(4, (20, 24))
    bank, seen = Bank("photograph", False), []
    both = [np.stack([m, 1 - m], axis=-1) for m in masks]
    model, maps = fit_trees(images, both, [None] * 4, bank, SMALL, range(4),
                                progress=lambda *told: seen.append(told))  # fmt: skip
    assert [told[:2] for told in seen] == [(k, len(seen)) for k in range(1, len(seen) + 1)]
    for t, truth in enumerate((masks, [1 - m for m in masks])):
        assert separation([m[t][-1] for m in maps], truth) > 0.8
    (one, two) = answer([model], Picture(images[0]))
    assert len(one) == len(two) == 2
    # What one question says is what the other denies: the same rows, the same splits.
    np.testing.assert_allclose(one[0], -two[0], atol=1e-4)
    np.testing.assert_array_equal(one[-1], model.logits(images[0])[-1])


def test_an_image_is_described_once_a_pass_for_all_questions(monkeypatch):
    images, masks = world(3, (20, 24))
    calls = Counter()
    for part in ("lab", "_photograph", "_palette"):
        plain = getattr(describe, part)
        monkeypatch.setattr(
            describe, part, lambda *a, part=part, plain=plain: calls.update([part]) or plain(*a)
        )
    both = [np.stack([m, 1 - m], axis=-1) for m in masks]
    recipe = replace(SMALL, copies=1)
    model, _ = fit_trees(images, both, [None] * 3, Bank("photograph", False), recipe, range(3))
    # Six items before the first trees and after them, three originals after the last.
    assert calls["lab"] == calls["_photograph"] == 6 + 6 + 3
    assert calls["_palette"] == 6 + 2 * 6 + 2 * 3
    calls.clear()
    answer([model], Picture(images[0]))
    assert calls == {"lab": 1, "_photograph": 1, "_palette": 2}


def test_rows_are_balanced_and_never_void():
    labels = np.zeros((30, 30), np.uint8)
    labels[:2] = 1
    labels[20:] = 255
    index = draw_rows(labels[..., None], 100, (0, 1))
    assert np.bincount(labels.reshape(-1)[index]).tolist() == [50, 50]
    assert len(set(index.tolist())) == 100
    index = draw_rows(labels[..., None], 400, (0, 1))
    assert np.bincount(labels.reshape(-1)[index]).tolist() == [340, 60]
    assert len(draw_rows(np.full((3, 3, 2), 255, np.uint8), 10, (0, 1))) == 0


def test_prior_comes_back_as_a_shift():
    rng = np.random.default_rng(0)
    x = np.zeros((400, 3), np.float32)  # nothing to learn from: only the prior is left
    y = rng.permutation(np.repeat([0, 1], 200)).astype(np.uint8)
    logits = []
    for answers, counts in ((y, [9000, 1000]), (np.zeros_like(y), [400, 0])):
        grower = MultiTargetTrees([answers[:, None]], [np.array([counts])], SMALL)
        grower.add([x])
        logits.append(grower.grow([0], seed=0).evaluate_rows(x[:1])[0, 0])
    assert logits == pytest.approx([np.log(1 / 9), -np.log(401)], abs=0.1)


def test_copies_stay_in_their_fold_and_turn_with_their_mask():
    image = np.random.default_rng(0).uniform(0.3, 0.6, (5, 7)).astype(np.float32)
    mask = (image > 0.45).astype(np.uint8)
    items = make_items([image] * 2, [mask] * 2, [None] * 2, [None] * 2, np.array([1, 0]), 2, seed=0)
    assert [item.fold for item in items] == [1, 1, 1, 0, 0, 0]
    assert [item.seed[-1] for item in items] == [0, 1, 2] * 2
    for item in items:
        assert item.image.shape == item.labels.shape
        if item.labels.any():
            assert item.image[item.labels == 1].min() > item.image[item.labels == 0].max()


def test_an_interrupt_ends_the_fit():
    images, masks = world(4)

    def progress(done, total, what):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_boosted(
            images, masks, [None] * 4, Bank("photograph", True), SMALL, range(4), progress=progress
        )


@pytest.mark.parametrize("shape", [(31, 45), (1, 1), (2, 5)])
def test_scale_gives_logits_of_the_full_shape(shape):
    images, masks = world(3, (48, 60), color=False)
    images[2], masks[2] = images[2][: shape[0], : shape[1]], masks[2][: shape[0], : shape[1]]
    bank = Bank("microscopy", False, scale=3)
    model, maps = fit_boosted(images, masks, [None] * 3, bank, SMALL, range(3))
    assert [m[-1].shape for m in maps] == [(48, 60), (48, 60), shape]
    assert model.logits(images[2])[0].shape == shape
    assert separation([model.logits(i)[-1] for i in images[:2]], masks[:2]) > 0.8


def test_palette_averages_over_like_pixels():
    image = np.zeros((6, 8, 3), np.float32)
    image[:, 4:] = 0.9
    plane = np.arange(48, dtype=np.float32).reshape(6, 8)
    like = Picture(image).palette("photograph")
    mean = like.look_up(like.mean_tables(whole(plane))).all()[0]
    for half in (np.s_[:, :4], np.s_[:, 4:]):
        np.testing.assert_allclose(mean[half], plane[half].mean(), rtol=1e-4)
    share = like.look_up([like.share_table()]).all()
    assert 0 < share.min() <= share.max() <= 0.5


def test_threads_do_not_change_trees_of_several_questions():
    images, masks = world(3, (16, 20))
    both = [np.stack([m, 1 - m], axis=-1) for m in masks]
    bank = Bank("photograph", False)
    given = images, both, [None] * 3, bank, replace(SMALL, stages=1), range(3)
    one, two = (fit_trees(*given, place=Threads(n)) for n in (1, 2))
    for a, b in zip(one[1], two[1]):
        assert all(np.array_equal(x[0], y[0]) for x, y in zip(a, b))
    assert np.array_equal(one[0].stages[0].value, two[0].stages[0].value)
