"""Regions as the core keeps them: copied, checked once, and the same after pickling."""

import pickle

import numpy as np
import pytest

from cutlearn import _core
from cutlearn.energy import Energy, Envelope


def arrays():
    """Two regions, of three members with one hinge and of two without."""
    ints = {"member_first": [0, 3, 5], "hinge_first": [0, 1, 1]}
    floats = {"mass": [1.0, 2, 1, 1, 1], "slope": [1.0, 0], "alpha": [2.0], "beta": [3.0]}
    return {
        **{k: np.array(v, np.int64) for k, v in ints.items()},
        "members": np.array([0, 1, 2, 1, 3], np.int32),
        **{k: np.array(v) for k, v in floats.items()},
    }


def test_their_sizes():
    regions = _core.Regions(**arrays())
    assert (len(regions), regions.members, regions.hinges) == (2, 5, 1)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("member_first", [0, 3, 6]),
        ("member_first", [0, 7, 5]),
        ("member_first", [1, 3, 5]),
        ("hinge_first", [0, 1]),
        ("mass", [1.0, 2]),
        ("beta", [3.0, 4]),
        ("members", [0, 1, 2, 1, -3]),
    ],
)
def test_arrays_that_do_not_fit_are_refused(name, wrong):
    given = arrays()
    given[name] = np.array(wrong, given[name].dtype)
    with pytest.raises(ValueError, match="region"):
        _core.Regions(**given)


def test_a_member_beyond_the_last_node_is_refused():
    regions = _core.Regions(**arrays())
    none = np.empty(0, np.int32)
    with pytest.raises(ValueError, match="beyond the last node"):
        _core.survey(
            0.0, np.zeros(3), [3], 0, none, [np.zeros(1)], [0], regions, np.empty(0, np.int8)
        )


def test_later_writes_to_the_arrays_change_nothing():
    given = arrays()
    regions = _core.Regions(**given)
    for array in given.values():
        array[:] = 99
    for kept, array in zip(regions.__getstate__(), pickled_order(arrays())):
        assert (kept == array).all()


def pickled_order(given):
    names = ("member_first", "members", "mass", "slope", "hinge_first", "alpha", "beta")
    return [given[name] for name in names]


def test_an_energy_with_envelopes_is_the_same_after_pickling():
    envelope = Envelope([0, 1, 2], [1.0, -1.0], [0.0, 2.0])
    energy = Energy([-1.0, 0.25, 0.5], [[0, 1], [1, 2]], 0.5, envelopes=[envelope])
    again = pickle.loads(pickle.dumps(energy))
    first, second = energy.minimize(), again.minimize()
    assert (first.labels == second.labels).all()
    assert first.value == second.value
