"""The core refuses every wrong enumeration, length and index itself, whoever calls it."""

import numpy as np
import pytest

from cutlearn import _core

HUGE = 2**62


def ids(*values):
    return np.array(values, np.int32)


def bytes_of(*values):
    return np.array(values, np.int8)


NONE = bytes_of()


def listed(**changes):
    """The arguments of an energy of three nodes in a line."""
    given = {
        "constant": 0.0,
        "unary": np.array([-2.0, 1.0, 1.0]),
        "shape": [3],
        "connectivity": 0,
        "edges": ids(0, 1, 1, 2),
        "weights": [np.array([1.0, 0.5])],
        "kinds": [1],
        "regions": None,
        "fixed": NONE,
    }
    return {**given, **changes}


def gridded(**changes):
    """Those of an image of 2 x 3 pixels."""
    given = {
        "unary": np.linspace(-1, 1, 6),
        "shape": [2, 3],
        "connectivity": 4,
        "edges": ids(),
        "weights": [np.ones(4), np.array([0.5])],
        "kinds": [1, 0],
    }
    return listed(**{**given, **changes})


ENERGIES = [
    listed(kinds=[3]),
    listed(kinds=[-1]),
    listed(kinds=[2]),
    listed(kinds=[0]),
    listed(kinds=[]),
    listed(weights=[], kinds=[]),
    listed(weights=[np.ones(1)]),
    listed(weights=[np.ones(2)] * 2, kinds=[1, 1]),
    listed(unary=np.zeros(2)),
    listed(shape=[4]),
    listed(shape=[]),
    listed(shape=[1, 3]),
    listed(shape=[1, 1, 1, 3]),
    listed(shape=[-3]),
    listed(edges=ids(0, 1, 1, 3)),
    listed(edges=ids(0, 1, -1, 2)),
    listed(edges=ids(0, 1, 1)),
    listed(fixed=bytes_of(0, 1)),
    listed(fixed=bytes_of(0, 1, 2)),
    listed(fixed=bytes_of(0, 1, -2)),
    listed(connectivity=4),
    listed(connectivity=5),
    gridded(connectivity=0),
    gridded(connectivity=26),
    gridded(connectivity=7),
    gridded(shape=[3, 3]),
    gridded(shape=[HUGE, HUGE]),
    gridded(weights=[np.ones(3), np.ones(1)]),
    gridded(weights=[np.ones(4)], kinds=[1]),
    gridded(weights=[np.ones(4), np.ones(3)], kinds=[1, 2]),
    gridded(edges=ids(0, 1)),
    gridded(shape=[0, 3], unary=np.zeros(0), weights=[np.ones(0)], kinds=[1]),
]


@pytest.mark.parametrize("made", range(len(ENERGIES)))
def test_an_energy_with_a_wrong_length_index_or_kind_is_refused(made):
    for door in (_core.survey, _core.flow):
        with pytest.raises(ValueError, match=r".+"):
            door(**ENERGIES[made])
    with pytest.raises(ValueError, match=r".+"):
        _core.solved(**ENERGIES[made], threads=1)


def test_the_energies_that_the_wrong_ones_are_made_from_are_solved():
    assert _core.solved(**listed(), threads=1).labels([3]).tolist() == [1, 0, 0]
    assert _core.solved(**gridded(), threads=1).labels([2, 3]).shape == (2, 3)


def flow(**changes):
    made = _core.flow(**listed(**changes))
    made.solve(threads=1)
    return made


@pytest.mark.parametrize("shape", [[2], [4], [2**40], [HUGE, 4], [3, 2**62, 2]])
def test_answers_have_the_shape_of_the_energy(shape):
    with pytest.raises(ValueError, match="shape"):
        flow().labels(shape)
    with pytest.raises(ValueError, match="shape"):
        _core.solved(**listed(), threads=1).labels(shape)


def int64(*values):
    return np.array(values, np.int64)


CHANGES = [
    ("change_unary", int64(3), np.ones(1), np.zeros(3)),
    ("change_unary", int64(-1), np.ones(1), np.zeros(3)),
    ("change_unary", int64(HUGE), np.ones(1), np.zeros(3)),
    ("change_unary", int64(0, 1), np.ones(1), np.zeros(3)),
    ("change_unary", int64(0), np.ones(1), np.zeros(2)),
    ("change_weights", int64(2), np.ones(1), np.zeros(4)),
    ("change_weights", int64(-1), np.ones(2), np.zeros(4)),
    ("change_weights", int64(0, 1), np.ones(3), np.zeros(4)),
    ("change_weights", int64(0), np.ones(1), np.zeros(3)),
    ("change_fixed", int64(3), bytes_of(1), bytes_of(-1, -1, -1)),
    ("change_fixed", int64(0), bytes_of(2), bytes_of(-1, -1, -1)),
    ("change_fixed", int64(0), NONE, bytes_of(-1, -1, -1)),
    ("change_fixed", int64(0), bytes_of(1), bytes_of(-1)),
]


@pytest.mark.parametrize(("method", "index", "values", "stored"), CHANGES)
def test_a_change_beyond_the_network_is_refused_and_stores_nothing(method, index, values, stored):
    before = stored.copy()
    with pytest.raises(ValueError, match=r".+"):
        getattr(flow(), method)(index, values, stored)
    assert (stored == before).all()


def test_min_marginals_need_a_solve_after_the_last_change():
    made = _core.flow(**listed())
    with pytest.raises(ValueError, match="solve"):
        made.min_marginals(threads=1)
    made.solve(threads=1)
    assert made.min_marginals(threads=1).shape == (3, 2)
    made.change_unary(int64(0), np.array([5.0]), np.zeros(3))
    with pytest.raises(ValueError, match="solve"):
        made.min_marginals(threads=1)
    with pytest.raises(ValueError, match="solve"):
        made.argmin_sums(**SUMS, threads=1)


SUMS = {
    "weights": np.zeros(3),
    "truth": np.zeros(0, np.uint8),
    "region_first": int64(0, 2),
    "members": ids(0, 2),
}


@pytest.mark.parametrize(
    "wrong",
    [
        {"weights": np.zeros(2)},
        {"weights": np.zeros(0)},
        {"truth": np.zeros(3, np.uint8)},
        {"weights": np.zeros(0), "truth": np.zeros(2, np.uint8)},
        {"members": ids(0, 3)},
        {"members": ids(-1, 2)},
        {"region_first": int64()},
        {"region_first": int64(0, 3)},
        {"region_first": int64(0, 5, 2)},
        {"region_first": int64(-1, 2)},
    ],
)
def test_sums_over_what_is_not_there_are_refused(wrong):
    made = flow()
    made.argmin_sums(**SUMS, threads=1)
    with pytest.raises(ValueError, match=r".+"):
        made.argmin_sums(**{**SUMS, **wrong}, threads=1)


@pytest.mark.parametrize(
    "other",
    [
        listed(unary=np.zeros(4), shape=[4]),
        listed(edges=ids(0, 1), weights=[np.ones(1)]),
        gridded(),
    ],
)
def test_a_cut_is_proved_against_an_energy_of_its_own_structure(other):
    made = flow()
    assert made.disproof(**listed()) == ""
    with pytest.raises(ValueError, match="nodes, edges and regions"):
        made.disproof(**other)


def with_loss(kind, given, loss, changes):
    """An oracle with its loss, with some arguments of either changed."""
    made = kind(**{name: changes.get(name, value) for name, value in given.items()})
    made.set_loss(**{name: changes.get(name, value) for name, value in loss.items()})
    return made


def oracle(**changes):
    given = {
        "node": np.ones((3, 2)),
        "edge": np.ones((2, 1)),
        "shape": [3],
        "connectivity": 0,
        "ends": ids(0, 1, 1, 2),
        "fixed": NONE,
    }
    loss = {
        "truth": np.array([0, 1, 1], np.uint8),
        "constant": np.zeros(1),
        "unary": np.ones(3),
        "loss_scale": 1.0,
        "energy_scale": 1.0,
    }
    return with_loss(_core.Oracle, given, loss, changes)


BOTH = [
    {"node": np.ones((2, 2))},
    {"node": np.ones((3, 2), np.int64)},
    {"edge": np.ones((1, 1))},
    {"edge": np.ones((0, 0))},
    {"shape": [2]},
    {"shape": [3, 1]},
    {"connectivity": 4},
    {"ends": ids(0, 1, 1, 3)},
    {"ends": ids(0, 1)},
    {"truth": np.zeros(2, np.uint8)},
    {"truth": np.array([0, 1, 9], np.uint8)},
    {"constant": np.zeros(2)},
    {"constant": np.zeros(0)},
]


@pytest.mark.parametrize(
    "wrong",
    [
        *BOTH,
        {"unary": np.zeros(2)},
        {"constant": np.zeros(0), "unary": np.zeros(0)},
        {"fixed": bytes_of(0)},
        {"fixed": bytes_of(0, 1, 2)},
    ],
)
def test_an_oracle_whose_arrays_do_not_fit_is_refused(wrong):
    assert _core.highest_planes([oracle()], np.ones(3), 1).shape == (1, 4)
    with pytest.raises(ValueError, match=r".+"):
        oracle(**wrong)


def regions(first=(0, 2, 3), members=(0, 1, 2)):
    count = len(first) - 1
    return _core.Regions(
        int64(*first), ids(*members), np.zeros(0), np.zeros(count),
        np.zeros(count + 1, np.int64), np.zeros(0), np.zeros(0),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("families", "given"),
    [
        ([(3, 2, 2, False)], regions()),
        ([(-1, 2, 2, False)], regions()),
        ([(0, 0, 2, False)], regions()),
        ([(0, 2**64 - 1, 2, False)], regions()),
        ([(0, 2, 3, False)], regions()),
        ([(0, 2, 2**64 - 1, False), (0, 2, 3, False)], regions()),
        ([(0, 2, 2, False)], regions(members=(0, 1, 3))),
        ([(0, 2, 2, False)], regions(first=(0, 0, 3))),
    ],
)
def test_families_that_do_not_fit_their_regions_are_refused_and_change_nothing(families, given):
    made = oracle()
    with pytest.raises(ValueError, match=r".+"):
        made.set_regions(families, given, 0.0)
    assert _core.highest_planes([made], np.ones(3), 1).shape == (1, 4)
    made.set_regions([(0, 2, 2, False)], regions(), 0.0)
    assert _core.highest_planes([made], np.zeros(6), 1).shape == (1, 7)


def test_a_table_has_a_number_for_every_count():
    made, counted = oracle(), np.ones(3, np.uint8)
    for table, marked in [
        (np.zeros(3), counted),
        (np.zeros(1), np.zeros(3, np.uint8)),
        (np.zeros(4), counted[:2]),
        (np.zeros(4), 2 * counted),
    ]:
        with pytest.raises(ValueError, match=r".+"):
            made.set_table(table, marked)
    made.set_table(np.arange(4.0), counted)
    assert _core.highest_planes([made], np.ones(3), 1).shape == (1, 4)


@pytest.mark.parametrize("size", [0, 2, 4])
def test_weights_fit_the_features_of_every_oracle(size):
    with pytest.raises(ValueError, match="w does not fit"):
        _core.highest_planes([oracle()], np.ones(size), 1)
    with pytest.raises(ValueError, match="w does not fit"):
        _core.highest_ordered_planes([ordered_oracle()], np.ones(size), 1)


@pytest.mark.parametrize("size", [0, 2, 4])
def test_terms_need_fitting_weights_and_planes_a_loss(size):
    plain = _core.Oracle(np.ones((3, 2)), np.ones((2, 1)), [3], 0, ids(0, 1, 1, 2), NONE)
    assert [len(part) for part in plain.terms(np.ones(3))[:3]] == [3, 1, 1]
    several = _core.OrderedOracle(
        np.ones((3, 2)), np.ones((2, 1)), 3, [3], 0, ids(0, 1, 1, 2), no_labels()
    )
    assert [len(part) for part in several.terms(np.zeros(15))] == [9, 1, 1]
    for made in (plain, several):
        with pytest.raises(ValueError, match="w does not fit"):
            made.terms(np.ones(size))
    with pytest.raises(ValueError, match="needs a loss"):
        _core.highest_planes([plain], np.ones(3), 1)
    with pytest.raises(ValueError, match="needs a loss"):
        _core.highest_ordered_planes([several], np.zeros(15), 1)


def no_labels(*values):
    return np.array(values, np.int16)


ORDERED = {
    "unary": np.arange(9.0),
    "labels": 3,
    "shape": [3],
    "connectivity": 0,
    "edges": ids(0, 1, 1, 2),
    "tables": [np.zeros(9)],
    "each": [False],
    "fixed": no_labels(),
}


def ordered(**changes):
    return _core.ordered(**{**ORDERED, **changes})


@pytest.mark.parametrize(
    "wrong",
    [
        {"labels": 0},
        {"labels": 1},
        {"labels": -3},
        {"labels": 256, "unary": np.zeros(768), "tables": [np.zeros(256 * 256)]},
        {"unary": np.arange(8.0)},
        {"unary": np.zeros(0), "shape": [0], "edges": ids()},
        {"shape": [4]},
        {"edges": ids(0, 1, 1, 3)},
        {"edges": ids(0)},
        {"tables": []},
        {"tables": [np.zeros(8)]},
        {"each": [True]},
        {"each": []},
        {"fixed": no_labels(0)},
        {"fixed": no_labels(0, 1, 3)},
        {"connectivity": 8},
        {"shape": [1, 3], "connectivity": 4, "edges": ids()},
    ],
)
def test_an_ordered_energy_whose_arrays_do_not_fit_is_refused(wrong):
    assert ordered().fault.what == 0
    with pytest.raises(ValueError, match=r".+"):
        ordered(**wrong)


def test_an_ordered_energy_with_a_fault_has_no_network():
    faulty = ordered(unary=np.full(9, np.nan))
    assert faulty.fault.what != 0
    for asked in (
        faulty.solve,
        lambda: faulty.labels([3]),
        lambda: faulty.min_marginals([3, 3]),
        lambda: faulty.minimum,
        lambda: faulty.argmin_sums(np.zeros(9), ids(0, 1, 1, 2)),
        lambda: faulty.disproof(**ORDERED),
    ):
        with pytest.raises(ValueError, match="fault"):
            asked()


def test_answers_of_ordered_labels_have_the_shape_of_the_energy():
    made = ordered()
    made.solve()
    assert made.min_marginals([3, 3]).shape == (3, 3)
    for shape in ([2], [4], [HUGE, 4]):
        with pytest.raises(ValueError, match="shape"):
            made.labels(shape)
        with pytest.raises(ValueError, match="shape"):
            made.min_marginals(shape)
    for weights, ends in [
        (np.zeros(8), ids(0, 1, 1, 2)),
        (np.zeros(9), ids(0, 1, 1, 3)),
        (np.zeros(9), ids(0, 1)),
    ]:
        with pytest.raises(ValueError, match=r".+"):
            made.argmin_sums(weights, ends)


def test_a_cut_of_ordered_labels_is_proved_against_its_own_energy():
    made = ordered()
    with pytest.raises(ValueError, match="solve"):
        made.disproof(**ORDERED)
    made.solve()
    assert made.disproof(**ORDERED) == ""
    moved = np.array([0.0, 1.0, 2.0, 3.0, 3.0, 5.0, 6.0, 7.0, 8.0])
    assert "broken" in made.disproof(**{**ORDERED, "unary": moved})
    for changes in ({"unary": 9 * moved}, {"tables": [3.0 * (1 - np.eye(3)).ravel()]}):
        assert made.disproof(**{**ORDERED, **changes})
    other = {"unary": np.zeros(12), "shape": [4]}
    for changes in (other, {"edges": ids(0, 1), "each": [False]}):
        with pytest.raises(ValueError, match="nodes, edges and labels"):
            made.disproof(**{**ORDERED, **changes})


def ordered_oracle(**changes):
    given = {
        "node": np.ones((3, 2)),
        "edge": np.ones((2, 1)),
        "labels": 3,
        "shape": [3],
        "connectivity": 0,
        "ends": ids(0, 1, 1, 2),
        "fixed": no_labels(),
    }
    loss = {
        "truth": np.array([0, 1, 2], np.uint8),
        "constant": np.zeros(1),
        "cost": np.ones(9),
        "loss_scale": 1.0,
        "energy_scale": 1.0,
    }
    return with_loss(_core.OrderedOracle, given, loss, changes)


@pytest.mark.parametrize(
    "wrong",
    [
        *BOTH,
        {"labels": 1},
        {"labels": -3},
        {"labels": 2},
        {"cost": np.zeros(8)},
        {"constant": np.zeros(0), "cost": np.zeros(0)},
        {"fixed": no_labels(0)},
        {"fixed": no_labels(0, 1, 3)},
    ],
)
def test_an_ordered_oracle_whose_arrays_do_not_fit_is_refused(wrong):
    assert _core.highest_ordered_planes([ordered_oracle()], np.zeros(15), 1).shape == (1, 16)
    with pytest.raises(ValueError, match=r".+"):
        ordered_oracle(**wrong)


@pytest.mark.parametrize("shape", [[2**61], [2**32, 2**32], [2**63, 2]])
def test_room_that_no_memory_has_is_refused(shape):
    with pytest.raises((ValueError, MemoryError)):
        _core.room(shape)


@pytest.mark.parametrize("shape", [[1, 2, 3, 4], [-1, 2]])
def test_a_grid_has_at_most_three_lengths(shape):
    with pytest.raises(ValueError, match="lengths"):
        _core.check_grid(shape)


def test_filters_stay_within_their_planes():
    stack, out = np.zeros((1, 4, 4), np.float32), np.zeros((1, 2, 4), np.float32)
    one = np.ones(1)
    for first in (3, -1, 2**63 - 1):
        with pytest.raises(ValueError, match="smooth"):
            _core.smooth(stack, first, one, 1.0, one, 1.0, out)
    empty = np.zeros((1, 2, 0), np.float32)
    with pytest.raises(ValueError, match="smooth"):
        _core.smooth(empty, 0, one, 1.0, np.ones(3), 1.0, empty.copy())
    for pad in (3, 2**62):
        with pytest.raises(ValueError, match="rings"):
            _core.rings(stack, np.zeros((1, 2), np.int64), pad, np.zeros((4, 2, 4), np.float32))


def test_trees_stay_within_their_columns():
    leaf = {
        "feature": ids(-1), "threshold": np.zeros(1, np.float32), "left": ids(0), "right": ids(0),
        "value": np.zeros((1, 1)), "roots": ids(0), "baseline": np.zeros(1),
        "buffer": np.zeros(4, np.float32), "start": int64(0), "out": np.zeros((1, 2, 2)),
    }  # fmt: skip
    _core.evaluate_trees(**leaf, stride=2, step=1)
    for stride, step in [(3, 1), (2**62, 4), (2**62, 2**62), (2, -1)]:
        with pytest.raises(ValueError, match="T4"):
            _core.evaluate_trees(**leaf, stride=stride, step=step)
    for name, wrong in [("roots", ids(1)), ("feature", ids(0)), ("start", int64(2**63 - 1))]:
        with pytest.raises(ValueError, match="trees"):
            _core.evaluate_trees(**{**leaf, name: wrong}, stride=2, step=1)
