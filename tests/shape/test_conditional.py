"""Conditional machines: energies linear in w, margins, gradients against finite differences."""

import itertools

import numpy as np
import pytest

from cutlearn.shape.conditional import MARGINS, Conditional, Learning, Margin
from shape.tiny_machines import bits
from shape.tiny_views import conditional, psi, view

KINDS = list(itertools.product([False, True], [False, True]))


def states(model):
    """All (y, hidden) of a tiny machine."""
    sizes = [6, 4] + ([2] if model.w["c2"].size else [])
    return [(layers[0], layers[1:]) for layers in itertools.product(*(bits(s) for s in sizes))]


def seen(model, seed=0):
    return view(seed, len(model.patches.corners))


@pytest.mark.parametrize(("two", "pairwise"), KINDS)
def test_the_energy_is_minus_w_times_psi(two, pairwise):
    model = conditional(1, two, pairwise)
    x = seen(model)
    machine = model.given(x)
    for y, hidden in states(model)[::7]:
        made = psi(model, x, y, hidden)
        assert made.keys() == model.w.keys()
        product = sum(float((model.w[name] * made[name]).sum()) for name in made)
        assert machine.energy(y, *hidden) == pytest.approx(-product, abs=1e-4)


def test_the_energy_is_that_of_the_paper():
    """Equation 8, written out."""
    model = conditional(2, two=True)
    x, w = seen(model), model.w
    wide = model.patches.expand(w["W"])
    x1 = np.concatenate([w["V1"] @ row for row in x.x1])
    for y, (h1, h2) in states(model)[::5]:
        energy = -y @ wide @ h1 - h1 @ w["W2"] @ h2 - h1 @ (x1 + w["c"])
        energy -= h2 @ (w["V2"] @ x.x2 + w["c2"]) + y @ (x.x0[x.regions] @ w["V0"] + w["b"])
        assert model.given(x).energy(y, h1, h2) == pytest.approx(energy, abs=1e-4)


@pytest.mark.parametrize("two", [False, True])
def test_a_margin_counts_what_differs(two):
    model = conditional(3, two)
    x = seen(model)
    plain = model.given(x)
    truth, best = plain.best(8)
    void = np.array([0, 0, 1, 0, 0, 0], bool)
    margin = Margin.of(truth, best, 1.0, 0.5, void)
    rival = model.given(x, margin)
    for y, hidden in states(model)[::7]:
        count = ((y != truth) & ~void).sum() + 0.5 * sum(
            (a != b).sum() for a, b in zip(hidden, best)
        )
        gain = plain.energy(y, *hidden) - rival.energy(y, *hidden) + margin.constant
        assert gain == pytest.approx(count, abs=1e-4)


def objective(model, x, labels, margin_of):
    """max over all states of margin - E(state) + E(truth), and the states."""
    everything = states(model)
    none = np.zeros(0, np.int8)
    rows = [np.array([[y, *h, none][k] for y, h in everything]) for k in range(3)]
    plain = model.given(x)._energies(*rows)
    known = [k for k, (y, _) in enumerate(everything) if (y == labels).all()]
    first = min(known, key=lambda k: plain[k])
    margin = margin_of(*everything[first])
    rival = model.given(x, margin)._energies(*rows)
    worst = int(np.argmin(rival))
    value = margin.constant - rival[worst] + plain[first]
    return value, everything[first], everything[worst]


@pytest.mark.parametrize("case", list(MARGINS))
@pytest.mark.parametrize(("two", "pairwise"), KINDS)
def test_the_step_is_the_gradient_by_finite_differences(two, pairwise, case):
    """With enough starts the step follows the exact objective, whose slope is measured."""
    model = conditional(4, two, pairwise)
    x = seen(model)
    labels = np.array([1, 0, 0, 1, 1, 0], np.int8)
    output, latent = MARGINS[case]

    def margin_of(y, hidden):
        return Margin.of(y, hidden, output, 0.5 * latent, np.zeros(6, bool))

    value, truth, worst = objective(model, x, labels, margin_of)
    assert value > 0
    gradient = {name: psi(model, x, *worst)[name] - psi(model, x, *truth)[name] for name in model.w}
    rng = np.random.default_rng(0)
    for _ in range(3):
        way = {n: rng.normal(size=a.shape).astype(np.float32) for n, a in model.w.items()}
        near = [
            Conditional(model.patches, {n: a + s * 1e-3 * way[n] for n, a in model.w.items()})
            for s in (-1, 1)
        ]
        low, high = (objective(m, x, labels, margin_of)[0] for m in near)
        slope = sum(float((gradient[name] * way[name]).sum()) for name in way)
        assert (high - low) / 2e-3 == pytest.approx(slope, abs=0.02)
    before = {name: array.copy() for name, array in model.w.items()}
    learning = Learning(case, hidden_weight=0.5, gamma=0.1, starts=60)
    told = learning.update(model, x, labels.astype(np.uint8), 0.01, np.random.default_rng(1))
    assert told == pytest.approx(value, abs=1e-3)
    for name, array in before.items():
        wanted = array - 0.01 * (0.1 * array + gradient[name])
        wanted = np.maximum(wanted, 0) if name == "v" else wanted
        assert model.w[name] == pytest.approx(wanted, abs=1e-5), name


@pytest.mark.parametrize("case", list(MARGINS))
def test_a_long_step_ends_where_pairwise_weights_are_zero(case):
    """Below zero the cut would not be exact."""
    model = conditional(4, False, True)
    x, labels = seen(model), np.array([1, 0, 0, 1, 1, 0], np.uint8)
    copies = [Conditional(model.patches, {n: a.copy() for n, a in model.w.items()}) for _ in "ab"]
    learning = Learning(case, gamma=0.0, starts=60)
    for one, rate in zip(copies, (1e-3, 1e3)):
        learning.update(one, x, labels, rate, np.random.default_rng(1))
    short, long = (one.w["v"] for one in copies)
    falls = short < model.w["v"]
    assert falls.any()
    assert (long[falls] == 0).all()
    assert (long[~falls] >= model.w["v"][~falls]).all()


@pytest.mark.parametrize("case", list(MARGINS))
def test_violations_fall_and_are_never_negative(case):
    model = conditional(5, scale=0.1)
    views = [seen(model, k) for k in range(6)]
    rng = np.random.default_rng(2)
    labels = [(view_.x0[view_.regions] @ [1, -1, 1, 0, 0] > 0).astype(np.uint8) for view_ in views]
    learning = Learning(case, rate=0.05)
    told = [learning.cycle(model, views, labels, rng, k) for k in range(12)]
    assert min(told) >= -1e-5
    assert told[-1] < 0.7 * told[0]


def test_void_labels_are_hidden_too():
    """What stands under void does not matter, and no margin is asked for there."""
    labels = np.array([1, 0, 255, 1, 255, 0], np.uint8)
    model = conditional(6)
    x = seen(model)
    machine = model.given(x)
    fixed = np.where(labels == 255, np.int8(-1), labels.astype(np.int8))
    truth, best = machine.best(200, 1, fixed)
    margin = Margin.of(truth, best, 1.0, 0.0, labels == 255)
    rival = model.given(x, margin)
    worst = min(rival.energy(y, *hidden) for y, hidden in states(model))
    wanted = margin.constant - worst + machine.energy(truth, *best)
    told = Learning("output", starts=40).update(model, x, labels, 0.01, np.random.default_rng(0))
    assert told == pytest.approx(wanted, abs=1e-3)


def test_a_prior_that_does_not_see_the_image_has_no_weights_for_it():
    model = conditional(7)
    blind = Conditional(model.patches, {**model.w, "V1": np.zeros((4, 0), np.float32)})
    x, other = seen(model, 0), seen(model, 1)
    assert np.array_equal(blind.given(x).c, blind.given(other).c)
    assert not np.array_equal(model.given(x).c, model.given(other).c)
    assert psi(blind, x, *states(model)[77])["V1"].shape == (4, 0)
