"""Envelopes: pruning, hinges, and the three linear forms against the formulas of the paper."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cutlearn as cl
from cutlearn.energy.envelopes import lower_lines

lines = st.lists(st.tuples(st.integers(-6, 6), st.integers(-9, 9)), min_size=1, max_size=7)
FORMS = ["samples", "slopes", "curvatures"]


@given(lines, st.integers(0, 8))
def test_hinges_add_up_to_the_lowest_line(ab, n):
    a, b = np.array(ab, float).T
    envelope = cl.Envelope(np.arange(n), a, b)
    slope, constant, alpha, beta = envelope.hinges()
    s = np.arange(n + 1)
    hinged = slope * s + constant + np.minimum(0, beta - np.multiply.outer(s, alpha)).sum(axis=1)
    assert hinged.tolist() == envelope.value(s).tolist()
    assert (alpha > 0).all()


@given(lines, st.integers(1, 8))
def test_kept_lines_are_each_lowest_somewhere(ab, mass):
    a, b = map(list, zip(*ab))
    kept = lower_lines(a, b, mass)
    s = np.linspace(0, mass, 64 * mass * 7 * 9 + 1)  # finer than any crossing of such lines
    values = np.multiply.outer(s, np.array(a)[kept]) + np.array(b)[kept]
    assert (np.unique(values.argmin(axis=1)) == np.arange(len(kept))).all()


def test_without_dropping_the_hinges_would_be_wrong():
    # The middle line is never lowest; its two hinges would both count.
    envelope = cl.Envelope([0, 1], [2.0, 1.0, -2.0], [0.0, 3.0, 4.0])
    assert envelope.lines()[0].tolist() == [2.0, -2.0]
    assert cl.Energy([0.0, 0.0], envelopes=[envelope]).minimize().value == 0.0


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("K", [1, 2, 3, 10])
def test_features_and_lines_give_one_energy(form, K):
    rng = np.random.default_rng(K)
    spec = cl.EnvelopeSpec(K, form)
    curved = np.concatenate([rng.normal(size=2), -rng.random(K - 1)])
    vector = cl.EnvelopeSpec(K, "curvatures").convert(curved, form)
    assert (spec.constraints() @ vector >= -1e-12).all()
    for size in (1, 3, 7, 40):
        members = np.arange(size)
        envelope = spec.envelope(vector, members)
        s = np.arange(size + 1)
        expected = spec.features(s / size) @ vector
        assert envelope.value(s) == pytest.approx(expected, abs=1e-12)
        per_node = cl.EnvelopeSpec(K, form, "node").envelope(vector, members)
        assert per_node.value(s) == pytest.approx(size * expected, abs=1e-10)


@pytest.mark.parametrize("form", FORMS)
def test_conversions_go_there_and_back(form):
    rng = np.random.default_rng(7)
    spec = cl.EnvelopeSpec(6, form)
    vector = cl.EnvelopeSpec(6, "curvatures").convert([0.3, 2.0, *-rng.random(5)], form)
    for other in FORMS:
        back = cl.EnvelopeSpec(6, other).convert(spec.convert(vector, other), form)
        assert back == pytest.approx(vector, abs=1e-12)
    lowest = cl.Envelope([], *spec.to_lines(vector, 24.0)).value(
        np.arange(spec.lines + 1) / spec.lines * 24.0
    )
    assert lowest == pytest.approx(spec.convert(vector, "samples"), abs=1e-12)


def test_features_of_the_paper():
    # gould2011 after equation 8: n = 3, p = 1/2 + e gives (0, 1/2 - 3e, 1/2 + 3e, 0).
    e = 0.01
    found = cl.EnvelopeSpec(3, "samples").features(0.5 + e)
    assert found == pytest.approx([0, 0.5 - 3 * e, 0.5 + 3 * e, 0])
    assert cl.EnvelopeSpec(3, "samples").constraints().tolist() == [[-1, 2, -1, 0], [0, -1, 2, -1]]
    # Equation 9: each feature of the slopes sums those of the samples from its own on.
    p = np.linspace(0, 1, 23)
    samples = cl.EnvelopeSpec(5, "samples").features(p)
    sums = samples[:, ::-1].cumsum(axis=1)[:, ::-1]
    assert cl.EnvelopeSpec(5, "slopes").features(p) == pytest.approx(sums)


def test_weights_and_overlaps():
    a = cl.Envelope([0, 1], [3.0, -1.0], [0.0, 2.0], weights=[0.5, 2.0])
    b = cl.Envelope([1, 2], [-2.0], [1.0])
    energy = cl.Energy([0.5, -0.25, 1.0], envelopes=[a, b])
    values = {
        y: energy.value(y) for y in [(i, j, k) for i in (0, 1) for j in (0, 1) for k in (0, 1)]
    }
    assert values[(1, 1, 0)] == 0.25 + min(7.5, -0.5) - 1.0
    cut = energy.minimize()
    assert cut.value == min(values.values())
    assert values[tuple(cut.labels.tolist())] == cut.value


def test_a_region_of_nothing_is_a_constant():
    assert (
        cl.Energy([1.0], envelopes=[cl.Envelope([], [5.0, 1.0], [2.0, -3.0])]).minimize().value
        == -3
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cl.EnvelopeSpec(0), "lines must be .*, not 0"),
        (lambda: cl.EnvelopeSpec(3, "lines"), "form must be .*, not 'lines'"),
        (
            lambda: cl.EnvelopeSpec(3).convert([1.0], "samples"),
            r"vector has shape \(1,\), but must have shape \(4,\)",
        ),
        (lambda: cl.EnvelopeSpec(3).envelope([0] * 4, []), "add up to 0"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(cl.InputError, match=message):
        make()


@st.composite
def many_regions(draw):
    """A label map and the lines of its regions: tidy, unsorted or hidden, of any numbers."""
    count, K = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    label_map = draw(st.lists(st.integers(-1, count - 1), min_size=1, max_size=9))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    size = draw(st.sampled_from([1.0, 0.1, 1e-200, 1e150]))
    a, b = rng.integers(-8, 9, (2, count, K)) * size
    if draw(st.booleans()):  # tangents of a concave function: no line is hidden
        x = np.sort(rng.uniform(0, 9, (count, K)))
        a, b = (9 - 2 * x) * size, x * x * size
    return np.array(label_map), a, b, rng.normal(size=len(label_map)) * size


@given(many_regions())
def test_many_envelopes_at_once_are_the_same_as_a_list_of_them(case):
    label_map, a, b, unary = case
    at_once = cl.Envelopes(label_map, a, b)
    single = [cl.Envelope(np.flatnonzero(label_map == c), a[c], b[c]) for c in range(len(a))]
    cuts = [cl.Energy(unary, envelopes=given).minimize() for given in (at_once, single)]
    assert cuts[0].labels.tolist() == cuts[1].labels.tolist()
    assert (cuts[0].value, cuts[0].lower_bound) == (cuts[1].value, cuts[1].lower_bound)
    for found, wanted in zip(at_once, single, strict=True):
        assert found.members.tolist() == wanted.members.tolist()
        assert found.slopes.tolist() == wanted.slopes.tolist()


def test_cost_of_many_envelopes_is_that_of_each():
    rng = np.random.default_rng(3)
    label_map = rng.integers(-1, 5, (6, 7))
    a, b = rng.integers(-9, 10, (2, 5, 3)).astype(float)
    unary = rng.integers(-9, 10, (6, 7)).astype(float)
    at_once = cl.Envelopes(label_map, a, b)
    e, same = (cl.Energy.grid(unary, 2.0, envelopes=given) for given in (at_once, at_once[:]))
    for _ in range(20):
        y = rng.integers(0, 2, (6, 7))
        assert e.value(y) == same.value(y)
    assert e.minimize().value == e.value(e.minimize().labels)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([0.5], [1.0], [0.0]), "whole numbers from 0 on"),
        (([], [1.0], [0.0]), "whole numbers from 0 on"),
        (([0, 2], [[1.0], [2.0]], [[0.0], [0.0]]), "region 2, but slopes and intercepts have 2"),
        (([0], [1.0, 2.0], [0.0]), "shapes"),
        (([0], [np.nan], [0.0]), "finite"),
    ],
)
def test_wrong_arrays_for_many_envelopes_are_told(arguments, words):
    with pytest.raises(cl.InputError, match=words):
        cl.Envelopes(*arguments)


def test_a_label_map_of_another_size_is_told():
    with pytest.raises(cl.InputError, match="2 nodes, but the energy has 3"):
        cl.Energy([0.0] * 3, envelopes=cl.Envelopes([0, 0], [1.0], [0.0]))
