"""Shape models against enumeration: likelihoods, gradients, sampling, what training does."""

import itertools

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.shape.frame import Patches
from cutlearn.shape.generative import Shapes, fit_shapes, train_layers
from cutlearn.shape.journal import Journal
from shape.tiny_machines import bits


def tiny(seed, two=False, shape=(3, 3), units=3, scale=0.7):
    """A random model of small masks: an RBM, or a ShapeBM with patches."""
    rng = np.random.default_rng(seed)
    patches = Patches.layout(shape) if two else Patches.whole(shape)

    def normal(*size):
        return (scale * rng.normal(size=size)).astype(np.float32)

    m = units * len(patches.corners)
    first = normal(patches.size[0] * patches.size[1], units), normal(m)
    b = normal(shape[0] * shape[1])
    return Shapes(patches, *first, b, normal(m, 2 * two), normal(2 * two))


def slow_log_likelihoods(model):
    """log p of all masks, from the energies of all states."""
    machine = model.machine()
    n, m = machine.b.size, machine.c.size
    tops = [()] if not machine.c2.size else [(t,) for t in bits(machine.c2.size)]
    sums = [
        sum(np.exp(-machine.energy(y, h, *t)) for h, t in itertools.product(bits(m), tops))
        for y in bits(n)
    ]
    return np.log(sums) - np.log(np.sum(sums))


@pytest.mark.parametrize("two", [False, True])
def test_exact_log_likelihood_is_that_of_all_states(two):
    model = tiny(0, two, (2, 2), 2 - two)
    masks = np.array(bits(4)).reshape(-1, 2, 2)
    exact = model.log_likelihood(masks)
    assert exact == pytest.approx(slow_log_likelihoods(model), abs=1e-5)
    assert np.exp(exact).sum() == pytest.approx(1, abs=1e-6)
    if not two:
        ratio = -model.free_energy(masks) - exact
        assert np.ptp(ratio) < 1e-5


@pytest.mark.parametrize("two", [False, True])
def test_annealed_estimates_are_near_the_exact_ones(two):
    model = tiny(1, two, (3, 4))
    masks = np.random.default_rng(0).integers(0, 2, (12, 3, 4))
    error = model.annealed(masks, 400, 200) - model.log_likelihood(masks)
    assert np.abs(error).max() < 0.15


def test_an_rbm_on_shapes_becomes_likelier_than_pixels_alone():
    masks = bars(4)
    before = fit_shapes(masks, (10,), (0,)).log_likelihood(masks).mean()
    often = masks.mean(axis=0).clip(0.02, 0.98)
    alone = (masks * np.log(often) + (1 - masks) * np.log(1 - often)).sum(axis=(1, 2)).mean()
    assert before == pytest.approx(alone, abs=0.3)
    model = fit_shapes(masks, (10,), (600,))
    assert model.log_likelihood(masks).mean() > before + 5


def test_log_likelihood_rises_along_the_training():
    masks = bars(4)
    rising = [fit_shapes(masks, (8,), (e,)).log_likelihood(masks).mean()
              for e in (0, 200, 600, 1200)]  # fmt: skip
    assert (np.diff(rising) > 0).all()


def test_samples_look_like_the_shapes():
    """All columns of a bar agree; of independent pixels hardly any do."""
    masks = bars(5)
    model = fit_shapes(masks, (16,), (1500,))
    drawn = model.sample(200, 300) > 0.5
    among = (drawn[:, None] == masks[None].astype(bool)).all(axis=(2, 3)).any(axis=1)
    assert among.mean() > 0.6


def test_a_shape_model_of_two_layers_learns_and_completes():
    masks = bars(8)
    model = fit_shapes(masks, (32, 12), (600, 300))
    known = np.zeros((8, 8), bool)
    known[:, :5] = True
    made = model.complete(masks, known, 200)
    assert (made[:, known] == masks[:, known]).all()
    assert np.abs(made - masks)[:, ~known].mean() < 0.12
    assert np.abs(model.reconstruct(masks) - masks).mean() < 0.1


def test_same_seed_same_model():
    first, again = (fit_shapes(bars(6), (8, 4), (20, 20), random_state=3) for _ in range(2))
    for name in ("W", "c", "b", "W2", "c2"):
        assert np.array_equal(getattr(first, name), getattr(again, name)), name
    assert first.W.dtype == np.float32


@pytest.mark.parametrize("shape", [(32, 32), (64, 64), (64, 32), (20, 50), (9, 10), (4, 4)])
def test_patches_cover_and_keep_their_promises(shape):
    patches = Patches.layout(shape)
    assert len(patches.corners) == 4
    assert set(patches.index.ravel()) == set(range(shape[0] * shape[1]))
    rng = np.random.default_rng(0)
    y, W = rng.normal(size=(3, shape[0] * shape[1])), rng.normal(size=(patches.index.shape[1], 2))
    h = rng.normal(size=(3, 8))
    wide = patches.expand(W)
    assert patches.up(y, W) == pytest.approx(y @ wide, abs=1e-9)
    assert patches.down(h, W) == pytest.approx(h @ wide.T, abs=1e-9)
    slope = (patches.outer(y, h, 2) * W).sum()
    assert slope == pytest.approx(np.einsum("ri,ij,rj", y, wide, h), abs=1e-8)


def test_wrong_masks_and_large_machines_are_refused_in_words():
    model = tiny(0)
    with pytest.raises(
        cl.InputError, match=r"masks have shape \(2, 4, 4\), .* Give an array \(k, 3, 3\)"
    ):
        model.log_likelihood(np.zeros((2, 4, 4)))
    with pytest.raises(cl.InputError, match="at most 20 hidden units, but there are 30"):
        tiny(0, units=30).log_likelihood(np.zeros((1, 3, 3)))
    with pytest.raises(cl.InputError, match=r"one hidden layer, but .* two"):
        tiny(0, two=True).free_energy(np.zeros((1, 3, 3)))


def bars(side):
    """All images of one horizontal bar of one or two rows."""
    made = []
    for height in (1, 2):
        for top in range(side - height + 1):
            mask = np.zeros((side, side), np.float32)
            mask[top : top + height] = 1
            made.append(mask)
    return np.array(made)


def test_a_layer_can_have_patches_and_two_can_have_none():
    masks = bars(6)
    shape = masks.shape[1:]
    whole, layout = Patches.whole(shape), Patches.layout(shape)
    one = train_layers(masks, (8,), (5,), Journal(0), patches=layout)
    assert one.W.shape == (layout.size[0] * layout.size[1], 2)
    assert one.c.size == 8
    two = train_layers(masks, (8, 4), (5, 5), Journal(0), patches=whole)
    assert two.W.shape == (shape[0] * shape[1], 8)
    assert two.W2.shape == (8, 4)
    usual, same = (train_layers(masks, (8, 4), (5, 5), Journal(0), patches=p)
                   for p in (None, layout))  # fmt: skip
    assert np.array_equal(usual.W, same.W)
