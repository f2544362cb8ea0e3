"""Sequences that are loaded: nothing before it is asked for, lists where nothing is loaded."""

import pickle

import pytest

from cutlearn.loaded import Loaded, Origin, chained, evenly_spaced, mapped, taken, together


@pytest.fixture
def asked():
    return []


@pytest.fixture
def tens(asked):
    def load(place):
        asked.append(place)
        return 10 * place

    return Loaded(5, load)


def test_it_is_a_sequence(tens):
    assert list(tens) == [0, 10, 20, 30, 40]
    assert (tens[-1], len(tens)) == (40, 5)
    assert 30 in tens
    assert list(tens[3:0:-2]) == [30, 10]
    for place in (5, -6):
        with pytest.raises(IndexError):
            tens.__getitem__(place)


def test_nothing_is_loaded_before_somebody_asks_and_then_each_time(tens, asked):
    part = taken(mapped(lambda a, b: a + b, tens, range(5)), [4, 2, 0])
    pairs = together(part, ["x", "y", "z"])
    assert asked == []
    assert [pairs[1], pairs[1]] == [(22, "y"), (22, "y")]
    assert asked == [2, 2]


def test_lists_stay_lists():
    assert mapped(abs, [-1, 2]) == [1, 2]
    assert taken("abc", [2, 0]) == ["c", "a"]
    assert together([1, 2], "ab") == [(1, "a"), (2, "b")]


def test_one_after_the_other(tens, asked):
    both = chained(["a"], tens)
    assert asked == []
    assert (both[0], both[1], both[-1], len(both)) == ("a", 0, 40, 6)
    assert asked == [0, 4]
    assert chained([1], (), (2, 3)) == [1, 2, 3]
    made = Loaded(2, lambda k: k, lambda k: Origin(abs, (-k,)))
    assert pickle.loads(pickle.dumps(chained(["a"], made))) == ["a", 0, 1]
    with pytest.raises(TypeError):
        pickle.dumps(both)


@pytest.mark.parametrize(("count", "most"), [(0, 5), (1, 5), (7, 7), (8, 7), (500, 200)])
def test_places_are_spread_evenly(count, most):
    places = evenly_spaced(count, most)
    assert len(places) == min(count, most)
    steps = {b - a for a, b in zip(places, [*places[1:], count])}
    assert max(steps, default=1) - min(steps, default=1) <= 1
    assert places[:1] == [0][:count]
