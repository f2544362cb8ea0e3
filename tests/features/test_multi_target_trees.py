"""Trees of several questions: the core against plain loops, what they learn, what they refuse."""

import numpy as np
import pytest

from cutlearn import _core
from cutlearn.features.trees import MultiTargetTrees, Recipe, Trees, binned

TASK = {"leaves": 5, "least": 4, "rate": 0.3, "l2": 1.0}


def drawn_task(rows=60, columns=4, questions=3, rounds=4, tried=2, seed=0):
    rng = np.random.default_rng(seed)
    bins = rng.integers(0, 9, (columns, rows)).astype(np.uint8)
    noisy = rng.random((rows, questions)) < 0.2
    answers = ((bins[:questions].T > 4) ^ noisy).astype(np.uint8)
    drawn = np.array([np.sort(rng.permutation(columns)[:tried]) for _ in range(rounds)], np.int32)
    first = np.log((answers.sum(axis=0) + 0.5) / ((1 - answers).sum(axis=0) + 0.5))
    return bins, answers, drawn, first


def slow(bins, answers, drawn, first, leaves, least, rate, l2):
    """The formulas of grow.hpp, one number after the other; logits of all rows after each round."""
    logits, history = np.tile(first, (len(answers), 1)), []

    def worth(rows):
        return (g[rows].sum(0) ** 2 / (h[rows].sum(0) + l2)).sum()

    def best(rows, columns):
        found = (0.0, None)
        for f in columns:
            for b in range(bins.max()):
                sides = rows[bins[f, rows] <= b], rows[bins[f, rows] > b]
                if min(map(len, sides)) >= least:
                    gain = worth(sides[0]) + worth(sides[1]) - worth(rows)
                    if gain > found[0] + 1e-8:
                        found = gain, sides
        return found

    for columns in drawn:
        p = 1 / (1 + np.exp(-logits))
        g = np.rint((p - answers) * 2**14) / 2**14
        h = np.rint(p * (1 - p) * 2**16) / 2**16
        parts = [np.arange(len(answers))]
        while len(parts) < leaves:
            options = [best(part, columns) for part in parts]
            k = int(np.argmax([gain for gain, _ in options]))
            if options[k][1] is None:
                break
            parts[k : k + 1] = [options[k][1][0]]
            parts.append(options[k][1][1])
        for part in parts:
            logits[part] -= rate * g[part].sum(0) / (h[part].sum(0) + l2)
        history.append(logits.copy())
    return history


def as_trees(task, grown):
    feature, split, left, right, value, roots = grown
    threshold = np.where(feature >= 0, split, 0).astype(np.float32)
    return Trees(feature, threshold, left, right, value, roots, task[3])


@pytest.mark.parametrize("seed", range(4))
def test_the_core_grows_what_plain_loops_grow(seed):
    task = drawn_task(seed=seed)
    trees = as_trees(task, _core.grow_trees(*task, **TASK))
    wanted = slow(*task, **TASK)[-1]
    np.testing.assert_allclose(
        trees.evaluate_rows(task[0].T.astype(np.float32)), wanted.T, atol=1e-6
    )
    assert len(trees.roots) == 4
    assert (trees.feature[trees.roots] >= 0).all(), "the twin's task has something to split"


def test_trees_that_gain_nothing_are_leaves():
    bins, answers, drawn, first = drawn_task()
    grown = _core.grow_trees(np.zeros_like(bins), answers, drawn, first, **TASK)
    assert grown[0].tolist() == [-1] * 4
    assert grown[5].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("part", "value", "broken"), [(0, _core.TREE_BINS, "G2"), (1, 2, "G3"), (2, 4, "G2")]
)
def test_what_lies_is_refused(part, value, broken):
    task = [array.copy() for array in drawn_task()]
    task[part][0, 0] = value
    with pytest.raises(ValueError, match=f"{broken} broken"):
        _core.grow_trees(*task, **TASK)


def test_too_many_rows_are_refused():
    rows = _core.MOST_TREE_ROWS + 1
    bins, answers = np.zeros((1, rows), np.uint8), np.zeros((rows, 1), np.uint8)
    with pytest.raises(ValueError, match="G1 broken"):
        _core.grow_trees(bins, answers, np.zeros((1, 1), np.int32), np.zeros(1), **TASK)


def test_a_bin_is_a_comparison():
    rng = np.random.default_rng(0)
    rows = np.hstack([rng.random((500, 2)), rng.integers(0, 3, (500, 1))]).astype(np.float32)
    found = [binned(rows, column) for column in range(3)]
    for column, (ends, bins) in enumerate(found):
        for b, end in enumerate(ends):
            np.testing.assert_array_equal(bins <= b, rows[:, column] <= end)
    assert found[0][1].max() == _core.TREE_BINS - 1
    assert len(found[2][0]) <= 3


def test_bins_of_several_images_do_not_depend_on_threads():
    rng = np.random.default_rng(0)
    rows = [rng.random((count, 5)).astype(np.float32) for count in (40, 0, 7)]
    growers = [MultiTargetTrees([], [], Recipe()) for _ in range(2)]
    for threads, grower in zip((1, 3), growers):
        grower.add(rows, threads)
        grower.add(rows, threads)
    assert [part.shape for part in growers[0].bins] == [(10, 40), (10, 0), (10, 7)]
    for one, other in zip(*(grower.bins + grower.edges for grower in growers)):
        assert one.tobytes() == other.tobytes()


def test_the_odds_of_all_pixels_come_back():
    nothing = [np.zeros((90, 3), np.float32)] * 2
    answers = [np.repeat(np.eye(3, dtype=np.uint8), 30, axis=0)] * 2
    counts = [np.array([[600, 300], [800, 100], [400, 500]])] * 2
    grower = MultiTargetTrees(answers, counts, Recipe(trees=3))
    grower.add(nothing)
    trees = grower.grow([0, 1], seed=0)
    wanted = np.log([601 / 1201, 201 / 1601, 1001 / 801])
    np.testing.assert_allclose(trees.evaluate_rows(nothing[0][:1])[:, 0], wanted, atol=0.02)


def test_a_file_keeps_several_questions():
    task = drawn_task()
    trees = as_trees(task, _core.grow_trees(*task, **TASK))
    again = Trees.of_arrays(trees.arrays())
    rows = task[0].T.astype(np.float32)
    np.testing.assert_array_equal(again.evaluate_rows(rows), trees.evaluate_rows(rows))
    assert again.questions == 3
