"""Numbers at places of a sorted order that nobody has in memory: those of a sort."""

import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutlearn.loaded import Loaded
from cutlearn.model.fitting import places
from cutlearn.model.fitting.places import sorted_at


@given(
    st.lists(st.lists(st.integers(-5, 5).map(float), max_size=40), min_size=1, max_size=6),
    st.data(),
)
def test_as_a_sort_of_all(lists, data):
    parts = [np.array(one, float) for one in lists]
    whole = np.sort(np.concatenate(parts))
    if not len(whole):
        return
    wanted = data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=4))
    found = sorted_at(Loaded(len(parts), parts.__getitem__), wanted)
    assert found == {place: whole[place] for place in wanted} == sorted_at(parts, wanted)


@pytest.mark.parametrize("order", ["drawn", "sorted"])
def test_a_wrong_guess_is_tried_again(order, monkeypatch):
    """Where every 64-th number tells nothing of the rest, the ends are moved apart."""
    monkeypatch.setattr(places, "FEWEST", 1)
    monkeypatch.setattr(places, "FAR", 0.0)
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=500) for _ in range(9)]
    for part in parts:
        part[:: places.STEP] = 4 + rng.random(len(part[:: places.STEP]))
    whole = np.sort(np.concatenate(parts))
    wanted = [0, 17, 2000, len(whole) - 1]
    given = parts if order == "drawn" else [np.sort(part) for part in parts]
    found = sorted_at(Loaded(len(given), given.__getitem__), wanted)
    assert found == {place: whole[place] for place in wanted}


def test_parts_do_not_stay_in_memory():
    made = []

    def load(place):
        part = np.random.default_rng(place).random(1000)
        made.append(weakref.ref(part))
        assert sum(one() is not None for one in made) <= 2
        return part

    sorted_at(Loaded(9, load), [10, 4000])
    assert len(made) == 18
