"""Energies, iterated modes and free energies against enumeration."""

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.shape.boltzmann import Boltzmann, sigmoid, softplus
from shape.tiny_machines import all_states, bits, machine, numbers, slow_energy

KINDS = {
    "one layer": {},
    "two layers": {"m2": 3},
    "edges": {"edges": 9},
    "two layers and edges": {"m2": 3, "edges": 9},
}


@pytest.fixture(params=list(KINDS))
def sizes(request):
    return KINDS[request.param]


def test_energy_is_the_sum_of_its_terms(sizes):
    given = numbers(1, n=4, m=3, **{**sizes, "edges": min(sizes.get("edges", 0), 5)})
    made = cl.Boltzmann(**given)
    for layers, energy in all_states(given):
        assert made.energy(*layers) == pytest.approx(energy, abs=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_icm_never_raises_the_energy_and_ends_where_it_says(sizes, dtype):
    for seed in range(20):
        made = machine(seed, n=12, m=8, **sizes)
        arrays = [made.W, made.c, made.b, made.W2, made.c2]
        kept = [a.astype(dtype) for a in arrays]
        for trace, y, hidden in Boltzmann.of(*kept, made._pairs).icm(8, seed):
            assert (np.diff(trace) < 0).all()
            assert made.energy(y, *hidden) == pytest.approx(trace[-1], abs=1e-5)


def test_icm_rests_where_no_layer_alone_can_gain(sizes):
    given = numbers(5, n=6, m=4, **sizes)
    made = cl.Boltzmann(**given)
    for trace, y, hidden in made.icm(6, 2):
        layers = [y, *hidden]
        for k, layer in enumerate(layers):
            for other in bits(layer.size):
                changed = [*layers[:k], other, *layers[k + 1 :]]
                assert slow_energy(given, *changed) >= trace[-1] - 1e-12


def test_how_often_icm_reaches_the_minimum(sizes):
    """With many starts nearly always, with one more often than not by chance."""
    one = many = 0
    for seed in range(25):
        given = numbers(seed, n=5, m=4, **{**sizes, "m2": min(sizes.get("m2", 0), 2)})
        least = min(energy for _, energy in all_states(given))
        ends = [run[0][-1] for run in cl.Boltzmann(**given).icm(20, seed)]
        assert min(ends) >= least - 1e-12
        one += ends[0] <= least + 1e-12
        many += min(ends) <= least + 1e-12
    assert many >= 23
    assert one >= 8


def test_more_starts_contain_fewer():
    made = machine(3, n=10, m=6)
    few, many = made.icm(2, 7), made.icm(5, 7)
    for (first, y, _), (second, again, _) in zip(few, many):
        assert np.array_equal(y, again)
        assert first == pytest.approx(second, abs=1e-12)
    y, hidden = made.best(5, 7)
    assert made.energy(y, *hidden) == min(run[0][-1] for run in many)


def test_fixed_labels_hold_and_the_rest_is_as_good(sizes):
    given = numbers(4, n=6, m=4, **sizes)
    fixed = np.array([1, -1, 0, -1, -1, 1])
    made = cl.Boltzmann(**given)
    runs = made.icm(16, 1, fixed)
    for _, y, _ in runs:
        assert (y[fixed >= 0] == fixed[fixed >= 0]).all()
    allowed = [e for (y, *_), e in all_states(given) if (y[fixed >= 0] == fixed[fixed >= 0]).all()]
    assert min(run[0][-1] for run in runs) == pytest.approx(min(allowed), abs=1e-12)


@pytest.mark.parametrize("edges", [0, 9])
def test_free_energy_sums_out_the_hidden_layer(edges):
    given = numbers(6, n=5, m=4, edges=edges)
    made = cl.Boltzmann(**given)
    for y in bits(5):
        whole = sum(np.exp(-slow_energy(given, y, h)) for h in bits(4))
        assert made.free_energy(y) == pytest.approx(-np.log(whole), abs=1e-10)


def test_units_with_large_inputs_neither_overflow_nor_lose_their_type():
    x = np.array([-1e4, 0, 1e4], np.float32)
    assert sigmoid(x).tolist() == [0, 0.5, 1]
    assert softplus(x).tolist() == [0, np.float32(np.log(2)), 1e4]
    assert sigmoid(x).dtype == softplus(x).dtype == np.float32


def test_wrong_numbers_are_refused_in_words():
    good = numbers(0, n=3, m=2, m2=2)
    for name, value, words in (
        ("W", np.zeros(3), "labels and hidden units"),
        ("b", np.zeros(2), r"b has shape \(2,\)"),
        ("c", np.zeros(3), r"c has shape \(3,\)"),
        ("W2", np.zeros((3, 2)), r"W2 has shape \(3, 2\)"),
        ("c2", None, "needs both W2 and c2"),
        ("W", np.full((3, 2), np.nan), "W"),
    ):
        with pytest.raises(cl.InputError, match=words):
            cl.Boltzmann(**{**good, name: value})
    made = cl.Boltzmann(**good)
    with pytest.raises(cl.InputError, match="1 hidden layers were given, but this machine has 2"):
        made.energy([0, 0, 0], [0, 0])
    with pytest.raises(cl.InputError, match=r"one hidden layer, but .* two"):
        made.free_energy([0, 0, 0])
    with pytest.raises(cl.InputError, match=r"starts must be .*, not 0"):
        made.icm(0)
