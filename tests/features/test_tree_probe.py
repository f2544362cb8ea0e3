"""The probe: drawn pixels that stand for all, small trees out of fold, tables and thresholds."""

import numpy as np

from cutlearn.features.auto import DrawnPixels, TreeProbe, best_threshold, clearly_best, mean_iou
from cutlearn.features.describe import Bank
from cutlearn.features.net.learn import NetRecipe
from cutlearn.features.sources import Task
from cutlearn.features.trees import Recipe
from features.worlds import world


def task_of(n, shape=(24, 30)):
    images, masks = world(n, shape=shape)
    recipe = Recipe(trees=12, rate=0.3, rows=1500, min_leaf=5, leaves=8, share=0.3)
    return Task(images, [m[..., None] for m in masks], [None] * n, list(range(n)),
                Bank.choose(images), recipe, NetRecipe())  # fmt: skip


def test_drawn_pixels_stand_for_all_known_ones():
    labels = np.zeros((20, 30), np.uint8)
    labels[:3, :10] = 1
    labels[15:] = 255
    drawn = DrawnPixels.of(labels, 40, (0, 1))
    assert len(drawn.index) == 40
    assert np.array_equal(labels.reshape(-1)[drawn.index], drawn.labels)
    for label, count in ((0, 420), (1, 30)):
        assert abs(drawn.weights[drawn.labels == label].sum() - count) < 1e-9


def test_small_trees_answer_for_images_that_they_did_not_see():
    """Masks turned inside out in one image: no tree that did not see it can follow."""
    task = task_of(4)
    probe = TreeProbe.fit(task)
    for drawn, said in zip(probe.drawn, probe.trees):
        assert said[0].shape == drawn[0].index.shape
    assert float(mean_iou(probe.tables(probe.trees, task.groups).sum(axis=0))) > 0.6
    task.labels[0][...] = 1 - task.labels[0]
    other = TreeProbe.fit(task)
    found = other.trees[0][0] > 0
    assert (found == other.drawn[0][0].labels).mean() < 0.5


def test_maps_are_seen_at_the_drawn_pixels():
    task = task_of(2)
    probe = TreeProbe.fit(task)
    maps = [[[np.arange(24 * 30, dtype=np.float32).reshape(24, 30)]] for _ in range(2)]
    for said, drawn in zip(probe.seen(maps), probe.drawn):
        assert np.array_equal(said[0], drawn[0].index)


def test_the_best_threshold_is_the_best_of_all():
    rng = np.random.default_rng(0)
    z = rng.integers(-5, 6, 60).astype(np.float32)
    y, weights = rng.integers(0, 2, 60).astype(np.uint8), rng.uniform(0.1, 3, 60)

    def iou(threshold):
        found = z >= threshold
        return weights[found & (y == 1)].sum() / weights[found | (y == 1)].sum()

    found = iou(best_threshold([z], [y], [weights]))
    assert abs(found - max(iou(t) for t in np.unique(z))) < 1e-12


def clear(one, other, least=float):
    return clearly_best({"one": one, "other": other}, "other", mean_iou, least) == "one"


def test_the_best_needs_more_than_the_spread_over_groups():
    good = np.array([[[[80, 5], [5, 10 + i]]] for i in range(6)], float)
    bad = good + [[[0, 6], [0, 0]]]
    mixed = good + np.array([[[[0, 4 * (-1) ** i], [0, 0]]] for i in range(6)])
    assert clear(good, bad)
    assert not clear(bad, good)
    assert not clear(good, mixed)
    worse = mixed + [[[0, 1], [0, 0]]]
    assert not clear(good, worse)
    assert clear(good, worse, lambda deviation: 0.1 * deviation)
    assert not clear(good, bad, lambda deviation: 1.0)
    assert clearly_best({"a": bad, "b": worse, "c": good}, "a", mean_iou) == "c"
