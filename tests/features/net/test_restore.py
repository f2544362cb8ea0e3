"""Pictures are restored before a net sees labels."""

from dataclasses import replace

import numpy as np

from cutlearn.features.describe import Bank
from cutlearn.features.net import train
from cutlearn.features.net.body import NetShape, Pass
from cutlearn.features.net.crops import Lesson, Sight, canvas_of
from cutlearn.features.net.learn import NetRecipe, fit_nets
from cutlearn.features.net.train import HOLES, NetTrainer, Restorer, damaged, unannotated_lessons
from features.worlds import world

SHAPE = NetShape(5, 1, (4, 6), True)


def restorer(steps=40, other_masks=False):
    images, masks = world(3, (48, 64), color=True)
    if other_masks:
        masks = [1 - mask for mask in masks]
    sight = Sight.of(Bank("photograph", True), images, [None] * 3)
    lessons = [Lesson.of(sight, i, m[..., None], None) for i, m in zip(images, masks)]
    canvas = canvas_of(sight, lessons, SHAPE.block)
    return Restorer(SHAPE, sight, lessons, canvas, 2, steps, (0, 1))


def test_colours_are_taken_and_holes_are_made():
    planes = np.random.default_rng(0).normal(3, 0.1, (5, 2, 40, 60)).astype(np.float32)
    made = damaged(planes, 3, np.random.default_rng(1))
    assert not made[1:3].any()
    assert np.array_equal(made[3:], planes[3:])  # where a pixel is stays known
    holes = made[0] == 0
    assert np.array_equal(made[0][~holes], planes[0][~holes])
    for hole in holes:
        assert 100 <= hole.sum() <= 100 * HOLES  # of 10 x 10 pixels, some upon each other
    assert planes.min() > 0  # what was given stays


def test_restoring_is_learned():
    one = restorer()

    def wrong():
        rng = np.random.default_rng(5)
        planes = one.crops.draw(rng)[0]
        found = Pass(one.shape, one.optimiser.weights).logits(damaged(planes, 3, rng))
        return float(((found - planes[:3]) ** 2).mean())

    before = wrong()
    one.advance(40)
    assert wrong() < 0.9 * before


def test_labels_play_no_part():
    first, second = restorer(6), restorer(6, other_masks=True)
    for one in (first, second):
        one.advance(6)
    a, b = first.settled(), second.settled()
    assert a.keys() == SHAPE.sizes().keys() - {"out.kernel", "out.shift"}
    assert all(np.array_equal(a[name], b[name]) for name in a)


def test_a_net_begins_with_what_was_restored_and_leaves_it_as_it_is():
    one = restorer(2)
    first = one.settled()
    kept = {name: value.copy() for name, value in first.items()}
    net = NetTrainer(SHAPE, one.crops, 4, (0, 2), first)
    for name, value in first.items():
        assert np.array_equal(net.optimiser.weights[name], value)
        assert np.array_equal(net.optimiser.average[name], value)
    net.advance(1)
    assert all(np.array_equal(first[name], kept[name]) for name in first)
    assert any((net.optimiser.weights[name] != kept[name]).any() for name in kept)


def nets_of(color, restore, unannotated=()):
    images, masks = world(4, (40, 56), color=color)
    bank = Bank("photograph" if color else "microscopy", color)
    recipe, seen = NetRecipe(steps=4, crops=1, folds=2, restore=restore), []
    nets, _ = fit_nets(
        images, [m[..., None] for m in masks], [None] * 4, bank, recipe, np.array([0, 1, 0, 1]),
        progress=lambda *step: seen.append(step), unannotated=unannotated,
    )  # fmt: skip
    assert seen[-1][0] == seen[-1][1] == recipe.reports(2, 4, color)
    return nets, {what for *_, what in seen}


def test_grey_pictures_have_nothing_to_restore():
    plain, said = nets_of(False, 0)
    asked, _ = nets_of(False, 12)
    assert all(np.array_equal(a[n], b[n]) for a, b in zip(plain.weights, asked.weights) for n in a)
    assert "restore pictures" not in said


def test_coloured_ones_have():
    plain, said = nets_of(True, 0)
    restored, told = nets_of(True, 12)
    assert "restore pictures" in told - said
    pairs = zip(plain.weights, restored.weights)
    assert all((a["down0.0.kernel"] != b["down0.0.kernel"]).any() for a, b in pairs)
    again = nets_of(True, 12)[0]
    assert all(np.array_equal(a[n], b[n]) for a, b in zip(again.weights, restored.weights)
               for n in a)  # fmt: skip
    assert replace(NetRecipe(), restore=0).reports(2, 4, True) < NetRecipe().reports(2, 4, True)


def others(n, shape=(44, 60), color=True):
    return [(image, None) for image in world(n, shape, color, seed=9)[0]]


def test_images_without_masks_are_restored_too():
    plain, more = nets_of(True, 12)[0], nets_of(True, 12, others(3))[0]
    pairs = zip(plain.weights, more.weights)
    assert all((a["down0.0.kernel"] != b["down0.0.kernel"]).any() for a, b in pairs)
    # What is seen of the training images does not depend on others.
    assert np.array_equal(plain.sight.mean, more.sight.mean)


def test_they_change_nothing_where_nothing_is_restored():
    for color, steps in ((False, 12), (True, 0)):
        plain = nets_of(color, steps)[0]
        more = nets_of(color, steps, others(3, color=color))[0]
        assert all(np.array_equal(a[n], b[n]) for a, b in zip(plain.weights, more.weights)
                   for n in a)  # fmt: skip


def test_so_many_as_memory_allows(monkeypatch):
    given = others(9)
    sight = Sight.of(Bank("photograph", True), [image for image, _ in given], [None] * 9)
    lessons = unannotated_lessons(sight, given, 2)
    assert len(lessons) == 9
    assert not any(lesson.labels.any() or lesson.ones for lesson in lessons)
    monkeypatch.setattr(train, "PIXELS", 3 * 44 * 60)
    few = unannotated_lessons(sight, given, 2)
    assert [np.array_equal(a.planes, lessons[k].planes) for a, k in zip(few, (0, 3, 6))] == 3 * [1]
    assert unannotated_lessons(sight, (), 2) == []
