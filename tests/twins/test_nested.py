"""An image-wide envelope by nested cuts gives what a hub over all nodes gives."""

import numpy as np
import pytest

import cutlearn as cl
from cutlearn import _core


def image_wide(rng, shape, lines, whole, steepness):
    """Lines whose minimum is concave over all nodes, in random units of the unaries."""
    n = int(np.prod(shape))
    m = rng.integers(1, 3, n).astype(float) if rng.random() < 0.5 else np.ones(n)
    places = np.sort(rng.uniform(0.2, 0.8, lines - 1)) * m.sum()
    slopes = -np.arange(lines) * steepness
    slopes += rng.normal(0, steepness)
    intercepts = np.concatenate([[0.0], np.cumsum(-np.diff(slopes) * places)])
    if whole:
        slopes, intercepts = np.rint(slopes), np.rint(intercepts)
    return cl.Envelope(np.arange(n), slopes, intercepts, m)


def goes_line_by_line(energy):
    """Whether `minimize` conditions on the lines; else a hub would be compared with itself."""
    return energy._terms.network(None, _core.solved, 1).cuts > 1


@pytest.mark.parametrize("steepness", [2.0, 60.0])  # goes on from the last flow; starts anew
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_lines_one_by_one_are_the_hub(seed, whole, steepness):
    rng = np.random.default_rng([seed, whole, int(steepness)])
    shape = (70, 64)
    u = rng.normal(0, 50, shape)
    w = [np.abs(rng.normal(0, 40, s)) for s in ((70, 63), (69, 64))]
    if whole:
        u, w = np.rint(u), [np.rint(x) for x in w]
    envelopes = [image_wide(rng, shape, int(rng.integers(2, 5)), whole, steepness)]
    if seed % 2:
        envelopes.insert(0, cl.Envelope(np.arange(500), [30.0, -30.0], [0.0, 15000.0]))
    fixed = np.where(rng.random(shape) < 0.02, rng.integers(0, 2, shape), -1) if seed > 1 else None
    energy = cl.Energy.grid(u, w, envelopes=envelopes)
    assert goes_line_by_line(energy)
    once, live = energy.minimize(fixed), energy.solver(fixed).minimize()
    assert (once.labels == live.labels).all()
    assert energy.value(once.labels) == pytest.approx(once.value, rel=1e-12)
    if whole:
        assert once.value == live.value == once.lower_bound
    else:
        assert abs(once.value - live.value) <= once.value - once.lower_bound


def test_equal_minima_give_the_fewest_ones():
    """min(s, n - s) over nodes without preference: no ones and all ones are equally good."""
    n = 5000
    energy = cl.Energy(np.zeros(n), envelopes=[cl.Envelope(np.arange(n), [1.0, -1.0], [0.0, n])])
    assert goes_line_by_line(energy)
    cut = energy.minimize()
    assert cut.value == 0
    assert not cut.labels.any()
