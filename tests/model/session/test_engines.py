"""Views of the net inside of the first one, with the stroke in them; the live graph."""

import numpy as np
import pytest

from cutlearn.images import Sample
from cutlearn.model.session.engines import LiveGraph, faded, grid_energy, new_seeds, parts, window
from cutlearn.model.session.guided import View


@pytest.mark.parametrize("place", [(10, 20), (30, 45), (59, 89)])
@pytest.mark.parametrize("part", [1.0, 0.5, 0.1])
def test_a_window_holds_the_stroke_and_stays_inside(place, part):
    whole = View(10, 20, 60, 90)
    marked = np.zeros((100, 100), bool)
    marked[place] = True
    view = window(whole, marked, part)
    assert whole.top <= view.top <= place[0] < view.bottom <= whole.bottom
    assert whole.left <= view.left <= place[1] < view.right <= whole.right
    assert view.bottom - view.top == max(2, round(50 * part))


def test_a_stroke_outside_of_the_view_is_met_at_its_border():
    marked = np.zeros((100, 100), bool)
    marked[90:95, 2:4] = True
    assert window(View(10, 20, 60, 90), marked, 0.5) == View(35, 20, 60, 55)


def test_parts_cover_the_view():
    whole = View(3, 5, 44, 66)
    seen = np.zeros((50, 70), int)
    for view in parts(whole, 2, 0.6):
        seen[view.part] += 1
    assert (seen[whole.part] > 0).all()
    seen[whole.part] = 0
    assert not seen.any()


def test_views_fade_to_their_sides_but_not_to_those_of_the_image():
    weight = faded(View(0, 20, 40, 60), (40, 100))
    assert (weight[:, 30:50] == 1).all()
    assert 0 < weight[20, 20] < weight[20, 22] < 1
    assert not weight[:, :20].any()
    assert not weight[:, 60:].any()


def test_only_more_seeds_are_new():
    image, box = np.zeros((4, 5)), (0, 0, 4, 5)
    none, some = np.full((4, 5), -1), np.full((4, 5), -1)
    some[1, 1] = 1
    more = some.copy()
    more[2, 2] = 0
    found = new_seeds(Sample(image, box, some), Sample(image, box, more))
    assert found is not None
    assert [tuple(p) for p in np.argwhere(found >= 0)] == [(2, 2)]
    assert new_seeds(Sample(image, box, more), Sample(image, box, some)) is None
    assert (
        new_seeds(Sample(image, box, some), Sample(image, box, np.where(some == 1, 0, -1)))
        is not None
    )
    assert new_seeds(Sample(image, box, some), Sample(image, (0, 0, 4, 4), more)) is None
    assert new_seeds(Sample(image, None, None), Sample(image, None, some)) is None
    assert (new_seeds(Sample(image, box), Sample(image, box, none)) == -1).all()


def test_solving_on_is_solving_afresh():
    rng = np.random.default_rng(0)
    shape = (12, 15)
    weights = rng.random(12 * 14 + 11 * 15 + 2 * 11 * 14)
    live = LiveGraph(weights)
    unary, fixed = rng.normal(size=shape), np.full(shape, -1, np.int16)
    for step in range(12):
        fresh = grid_energy(unary, weights).minimize(fixed)
        assert (live.solve(unary, fixed) == fresh.labels).all(), step
        places = rng.random(shape) < (0.05 if step % 3 else 1.0)
        unary = np.where(places, rng.normal(size=shape), unary)
        places = rng.random(shape) < 0.05
        fixed = np.where(places, rng.integers(-1, 2, shape), fixed).astype(np.int16)


def test_what_was_given_may_change_afterwards():
    shape = (4, 5)
    live = LiveGraph(np.zeros(4 * 4 + 3 * 5 + 2 * 3 * 4))
    unary, fixed = np.ones(shape), np.full(shape, -1, np.int16)
    assert not live.solve(unary, fixed).any()
    unary[:] = -1
    fixed[0] = 0
    labels = live.solve(unary, fixed)
    assert not labels[0].any()
    assert labels[1:].all()
