"""The small net: its gradient by finite differences, its layers by slow twins, its learning."""

import numpy as np
import pytest
from scipy import ndimage

from cutlearn.errors import InputError
from cutlearn.features.describe import Bank, Picture
from cutlearn.features.net.body import (
    NetShape,
    Pass,
    PlaneLayout,
    convolve,
    folded,
    from_depth,
    pool,
    to_depth,
)
from cutlearn.features.net.crops import Crops, Lesson, Sight, canvas_of, turned, turned_back
from cutlearn.features.net.learn import NetRecipe, answer_of, fit_nets
from cutlearn.features.net.train import NetTrainer, Optimiser, loss_of, orthogonal, rate_at
from cutlearn.run.executor import Threads, one_thread
from features.worlds import world

SMALL = NetRecipe(steps=12, crops=2, folds=2, restore=10)


def small_net(whole, seed=0):
    rng = np.random.default_rng(seed)
    shape = NetShape(1, 2, (3, 4, 5), whole)
    weights = shape.begin(np.array([0.3, 0.6]), rng)
    # Away from the ties of a fresh net, in double for the differences.
    moved = {n: w.astype(float) + rng.normal(0, 0.1, w.shape) for n, w in weights.items()}
    return shape, moved, rng


def test_convolution_is_scipys_with_zeros_outside():
    rng = np.random.default_rng(0)
    pixels, kernel = rng.normal(size=(2, 3, 5, 4)), rng.normal(size=(3, 9 * 2))
    layout = PlaneLayout(3, 5, 4)
    found = layout.view(convolve(layout.put(pixels), kernel, layout))
    taps = kernel.reshape(3, 3, 3, 2)  # out, dy, dx, in
    for o in range(3):
        for n in range(3):
            slow = sum(
                ndimage.correlate(pixels[i, n], taps[o, :, :, i], mode="constant") for i in (0, 1)
            )
            np.testing.assert_allclose(found[o, n], slow, rtol=0, atol=1e-12)


def test_pooling_and_depth():
    pixels = np.arange(2 * 1 * 4 * 6.0).reshape(2, 1, 4, 6)
    layout = PlaneLayout(1, 4, 6)
    found = layout.halved().view(pool(layout.put(pixels), layout))
    assert np.array_equal(found, pixels[:, :, 1::2, 1::2])
    deep = to_depth(pixels)
    assert deep.shape == (8, 1, 2, 3)
    assert deep[:, 0, 0, 0].tolist() == [0, 24, 1, 25, 6, 30, 7, 31]  # channels vary fastest
    assert np.array_equal(from_depth(deep), pixels)


@pytest.mark.parametrize("whole", [True, False])
def test_gradient_is_that_of_finite_differences(whole):
    shape, weights, rng = small_net(whole)
    pictures = rng.normal(size=(1, 2, 8, 16))
    share, known = rng.uniform(0, 1, (2, 2, 8, 16)), rng.uniform(0, 1, (2, 2, 8, 16))

    def loss(given):
        return loss_of(Pass(shape, given).logits(pictures), share, known)[0]

    one = Pass(shape, weights)
    found = one.gradient(loss_of(one.logits(pictures), share, known)[1])
    assert found.keys() == weights.keys()
    for name, weight in weights.items():
        step = rng.normal(size=weight.shape)
        ahead, behind = (loss(weights | {name: weight + e * step}) for e in (1e-6, -1e-6))
        slope = float((found[name] * step).sum())
        assert abs((ahead - behind) / 2e-6 - slope) < 1e-6 * max(1, abs(slope)), name


def test_folded_weights_say_what_the_batch_said():
    shape, weights, rng = small_net(True)
    pictures = rng.normal(size=(1, 2, 8, 16))
    one = Pass(shape, weights)
    wanted = one.logits(pictures)
    weights32 = {n: w.astype(np.float32) for n, w in weights.items()}
    made = folded(shape, weights32, one.statistics)
    assert made.keys() == shape.sizes(folded=True).keys()
    assert all(made[n].shape == size for n, size in shape.sizes(folded=True).items())
    found = Pass(shape, made, folded=True).logits(pictures.astype(np.float32))
    assert abs(found - wanted).max() < 1e-3 * abs(wanted).max()


def test_orthogonal_steps_have_singular_values_near_one():
    rng = np.random.default_rng(0)
    left, _ = np.linalg.qr(rng.normal(size=(6, 6)))
    right, _ = np.linalg.qr(rng.normal(size=(20, 6)))
    made = orthogonal(left * [1, 0.8, 0.6, 0.5, 0.4, 0.3] @ right.T)
    inside = left.T @ made @ right  # the singular vectors stay
    assert abs(inside - np.diag(np.diag(inside))).max() < 1e-9
    assert 0.6 < np.diag(inside).min() <= np.diag(inside).max() < 1.3


def test_rate_rises_then_falls_and_weights_are_averaged():
    rates = [rate_at(k, 100) for k in range(100)]
    assert np.argmax(rates) == 9
    assert 0.97 < max(rates) <= 1
    assert rates[-1] < 0.012
    weights = {"out.shift": np.zeros(1)}
    taken = Optimiser(weights, 10)
    for _ in range(3):
        taken.take({"out.shift": np.ones(1)})
    assert weights["out.shift"][0] < taken.average["out.shift"][0] < 0  # behind the weights


def lesson(shape=(20, 26)):
    rng = np.random.default_rng(0)
    image = rng.uniform(0, 1, shape).astype(np.float32)
    labels = np.zeros((*shape, 1), np.uint8)
    labels[4:9, 5:12] = 1
    labels[15:] = 255
    bank = Bank("microscopy", False)
    sight = Sight.of(bank, [image], [None])
    return sight, Lesson.of(sight, image, labels, None), labels


def test_sight_is_standardised_and_photographs_are_small():
    images, _ = world(2, shape=(150, 200))
    sight = Sight.of(Bank("photograph", True), images, [None, None])
    seen = np.stack([sight.see(Picture(image), None) for image in images])
    assert seen.shape == (2, 5, 128, 171)
    assert abs(seen[:, :3].mean(axis=(0, 2, 3))).max() < 1e-4
    assert abs(seen[:, :3].std(axis=(0, 2, 3)) - 1).max() < 1e-3
    row, away = seen[0, 3:]
    assert (row[0, 0], row[-1, 0]) == pytest.approx((-1 + 1 / 128, 1 - 1 / 128))
    assert away[0, 85] == pytest.approx(0, abs=1e-6)


def test_crops_keep_labels_with_their_pixels_and_void_without_weight():
    """With intensity = label, crops show the label, whatever the zoom and the turn."""
    sight, one, labels = lesson()
    planes = (labels[..., 0] == 1).astype(np.float32)[None]
    blind = Sight(sight.bank, False, np.zeros(1, np.float32), np.ones(1, np.float32))
    crops = Crops(blind, [Lesson(planes, one.labels, one.ones)], (16, 16), size=40)
    pictures, share, weights = crops.draw(np.random.default_rng(0))
    assert pictures.shape == share.shape == weights.shape == (1, 40, 16, 16)
    compared = 0
    for picture, y, v in zip(pictures[0], share[0], weights[0]):
        low, high = picture.min(), picture.max()
        if high - low > 0.1 and v.min() == 1 and y.max() == 1:
            np.testing.assert_allclose((picture - low) / (high - low), y, rtol=0, atol=1e-4)
            compared += 1
    assert compared > 3
    assert 0 < (weights == 0).mean() < 0.5  # the void rows are seen in some
    assert (share[weights == 0] == 0).all()


@pytest.mark.parametrize("quarter", range(4))
@pytest.mark.parametrize("mirror", [True, False])
def test_turning_back_is_the_inverse(quarter, mirror):
    planes = np.arange(24.0).reshape(2, 3, 4)
    assert np.array_equal(turned_back(turned(planes, quarter, mirror), quarter, mirror), planes)


def test_a_turned_micrograph_gets_turned_logits():
    images, masks = world(2, shape=(24, 40), color=False)
    bank, fold = Bank("microscopy", False), np.array([0, 1])
    nets, _ = fit_nets(images, [m[..., None] for m in masks], [None] * 2, bank, SMALL, fold)
    plain = nets.logits(images[0][:16, :32])
    again = nets.logits(np.ascontiguousarray(np.rot90(images[0][:16, :32])))
    assert abs(np.rot90(plain, axes=(1, 2)) - again).max() < 1e-4 * max(1, abs(plain).max())


@pytest.mark.parametrize("color", [True, False])
def test_learns_and_answers_out_of_fold(color):
    images, masks = world(4, shape=(40, 50), color=color, void=True)
    labels = [np.stack([m, np.where(m == 255, 255, 1 - m)], axis=-1) for m in masks]
    bank = Bank.choose(images)
    fold, recipe = np.array([0, 1, 0, 1]), NetRecipe(40, 4, 2, restore=20)
    seen = []
    nets, maps = fit_nets(images, labels, [None] * 4, bank, recipe, fold,
                          progress=lambda *told: seen.append(told))  # fmt: skip
    assert seen[-1][:2] == (recipe.reports(2, 4, color), recipe.reports(2, 4, color))
    assert len(nets.weights) == 2
    for k, (image, label, found) in enumerate(zip(images, labels, maps)):
        assert found.shape == (2, *image.shape[:2])
        assert found.dtype == np.float32
        known = label[..., 0] != 255
        right = (found[0] > 0) == (label[..., 0] == 1)
        assert right[known].mean() > 0.85  # 0.7 of the pixels are background
        assert np.corrcoef(found[0][known], found[1][known])[0, 1] < -0.8
        # The net of its own fold, which did not see it, and no other.
        own = answer_of(nets.sight, nets.shape, [nets.weights[fold[k]]], image, None)
        other = answer_of(nets.sight, nets.shape, [nets.weights[1 - fold[k]]], image, None)
        assert np.array_equal(own, found)
        assert not np.array_equal(other, found)
        mean = nets.logits(image)
        np.testing.assert_allclose(mean, (own + other) / 2, rtol=0, atol=1e-4)


def test_images_without_a_label_do_not_take_the_place_of_others():
    """Slices beside an annotated one, copies here: they change the moments by roundings only."""
    images, masks = world(3, shape=(32, 40), color=False)
    labels = [m[..., None] for m in masks]
    void = [np.full_like(label, 255) for label in labels]
    bank, fold = Bank("microscopy", False), [0, 1, 1]
    plain, _ = fit_nets(images, labels, [None] * 3, bank, SMALL, np.array(fold))
    more, maps = fit_nets(images * 2, labels + void, [None] * 6, bank, SMALL, np.array(fold * 2))
    assert len(maps) == 6
    np.testing.assert_allclose(more.logits(images[0]), plain.logits(images[0]), atol=1e-3)
    # A net whose only images have no label learns nothing, and says so by the prior.
    alone, _ = fit_nets(images, [labels[0], *void[1:]], [None] * 3, bank, SMALL, np.array(fold))
    assert len(alone.weights) == 2


def test_same_bits_for_any_number_of_threads():
    images, masks = world(3, shape=(32, 40))
    labels = [m[..., None] for m in masks]
    given = images, labels, [None] * 3, Bank("photograph", True), SMALL, np.array([0, 1, 1])
    (one, first), (two, second) = (fit_nets(*given, place=Threads(n)) for n in (1, 2))
    for a, b in zip(one.weights, two.weights):
        assert all(np.array_equal(a[name], b[name]) for name in a)
    assert all(np.array_equal(a, b) for a, b in zip(first, second))
    other, _ = fit_nets(*given, seed=1)
    assert not np.array_equal(other.weights[0]["out.kernel"], one.weights[0]["out.kernel"])


def test_tiny_images_and_crops():
    images, masks = world(2, shape=(5, 3), color=False)
    masks[0][:] = 0
    masks[1][0, 0] = 1
    sight = Sight.of(Bank("microscopy", False), images, [None] * 2)
    lessons = [Lesson.of(sight, i, m[..., None], None) for i, m in zip(images, masks)]
    assert canvas_of(sight, lessons, 16) == (16, 16)
    trainer = NetTrainer(NetShape(1, 1, (2, 2), False), Crops(sight, lessons, (16, 16), 2), 3, (0,))
    trainer.advance(3)
    assert all(np.isfinite(w).all() for w in trainer.settled().values())


def test_blas_gets_its_threads_back():
    from threadpoolctl import threadpool_info

    def threads():
        return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]

    before = threads()
    with one_thread():
        with one_thread():
            assert set(threads()) == {1}
        assert set(threads()) == {1}
    assert threads() == before


def test_a_recipe_is_checked():
    with pytest.raises(InputError, match="net: steps"):
        NetRecipe(steps=0)
    with pytest.raises(InputError, match="net: folds"):
        NetRecipe(folds=1)
