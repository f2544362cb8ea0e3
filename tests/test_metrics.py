"""Scores by hand, against plain loops over pixels and over draws of images."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import roc_auc_score

from cutlearn import metrics
from cutlearn.errors import InputError
from cutlearn.metrics import (
    BINS,
    LEAST,
    beliefs,
    bootstrap,
    confusion,
    confusions,
    entropy,
    iou_of,
    left_out,
    mean_iou_of,
    means,
    ratio,
    stack_tables,
    total,
)
from drawn_probabilities import drawn

SHAPE = (4, 5)
truths = hnp.arrays(np.uint8, SHAPE, elements=st.sampled_from([0, 1, 2, 255]))
guesses = hnp.arrays(np.uint8, SHAPE, elements=st.integers(0, 2))


def by_sets(truth, predicted, label):
    pixels = [i for i in range(truth.size) if truth.flat[i] != 255]
    a = {i for i in pixels if truth.flat[i] == label}
    b = {i for i in pixels if predicted.flat[i] == label}
    return len(a), len(b), len(a & b), len(a | b), len(pixels)


@given(truths, guesses, st.integers(0, 3))
def test_figures_equal_those_of_sets_of_pixels(truth, predicted, label):
    n_true, n_guess, both, either, _ = by_sets(truth, predicted, label)
    table = confusion(truth, predicted)
    assert table.area(label) == (n_true, n_guess)
    assert table.iou(label) == (both / either if either else 1.0)
    assert table.count_error(label) == abs(n_true - n_guess)
    if n_true:
        assert table.count_error(label, relative=True) == abs(n_true - n_guess) / n_true


@given(truths, guesses)
def test_mean_iou_and_pixel_error_of_one_image(truth, predicted):
    assume(np.isin(truth, (1, 2)).any() or (truth == 0).all())
    parts = [by_sets(truth, predicted, k) for k in range(3)]
    present = [both / either for _, _, both, either, _ in parts if either]
    assert metrics.mean_iou([truth], [predicted]) == pytest.approx(sum(present) / len(present))
    right, n = sum(p[2] for p in parts), parts[0][4]
    assert metrics.pixel_error([truth], [predicted]) == pytest.approx(1 - right / n)


@given(truths, guesses, guesses)
def test_what_is_predicted_on_void_does_not_matter(truth, predicted, other):
    mixed = np.where(truth == 255, other, predicted)
    assert confusion(truth, predicted, 3) == confusion(truth, mixed, 3)


@given(st.lists(st.tuples(truths, guesses), min_size=1, max_size=4), st.integers(0, 2))
def test_pooled_is_the_figure_of_one_long_image(pairs, label):
    masks, predictions = zip(*pairs)
    assume(any(np.isin(mask, (1, 2)).any() for mask in masks))
    joined = confusion(np.concatenate(masks), np.concatenate(predictions), 3)
    tables = confusions(masks, predictions, 3)
    assert total(tables) == joined
    assert total(reversed(tables)) == joined
    assert metrics.pooled_iou(masks, predictions, label) == joined.iou(label)


@given(truths)
def test_the_truth_itself_is_perfect(truth):
    table = confusion(truth, np.where(truth == 255, 0, truth))
    assert all(table.iou(k) == 1 and table.count_error(k) == 0 for k in range(3))


def test_tables_of_different_numbers_of_labels_add_up():
    small, large = confusion([0, 1], [1, 1]), confusion([2, 0], [1, 0])
    assert (small + large).counts.tolist() == [[1, 1, 0], [0, 1, 0], [0, 1, 0]]
    assert small + large == large + small


def test_means_are_over_labels_then_over_images():
    # Image 1: IoU 1/2 and 2/3; image 2 has label 0 only, all right.
    value = metrics.mean_iou([[0, 0, 1, 1], [0, 0]], [[0, 1, 1, 1], [0, 0]])
    assert value == pytest.approx(((1 / 2 + 2 / 3) / 2 + 1) / 2)
    assert metrics.pixel_error([[0, 0, 1, 1], [0, 0]], [[0, 1, 1, 1], [0, 0]]) == 1 / 8
    assert metrics.count_error([[0, 0, 1, 1], [0, 0]], [[0, 1, 1, 1], [0, 0]]) == 1 / 2


def test_an_area_that_is_truly_nothing():
    assert confusion([0, 0], [0, 0]).count_error(relative=True) == 0
    assert confusion([0, 0], [0, 1]).count_error(relative=True) == math.inf


def test_another_void_value_and_bool_masks():
    assert metrics.iou([0, 1, 7], [0, 1, 0], void=7) == 1
    assert metrics.iou(np.array([False, True]), np.array([True, True])) == 1 / 2


def test_all_void_images_do_not_count_and_alone_are_refused():
    assert metrics.mean_iou([[255, 255], [0, 1]], [[0, 1], [0, 1]]) == 1
    for figure in (metrics.mean_iou, metrics.pixel_error, metrics.count_error):
        with pytest.raises(InputError, match="only void pixels"):
            figure([[255, 255]], [[0, 1]])


SCORES = (
    metrics.pooled_iou, metrics.mean_iou, metrics.pixel_error, metrics.count_error,
)  # fmt: skip


@pytest.mark.parametrize("score", SCORES)
def test_truths_of_0_and_255_may_mean_an_object_and_are_refused(score):
    """Masks of many programs: 255 is the object there, and void here."""
    truth, found = np.array([[0, 255], [0, 255]], np.uint8), np.array([[0, 1], [1, 1]])
    with pytest.raises(InputError, match=r"only 0 and 255.*truth == 255"):
        score([truth, truth], [found, found])
    with pytest.raises(InputError, match=r"only 0 and 255.*truth == 255"):
        metrics.iou(truth, found)
    assert score([truth == 255], [truth == 255]) == score([[0, 1]], [[0, 1]])
    score([truth, [[0, 1]]], [found, [[0, 1]]])  # an image without an object, beside others
    assert confusion(truth, found).counts.tolist() == [[1, 1], [0, 0]]  # void is void


def test_the_number_of_labels_settles_what_255_means():
    assert metrics.mean_iou([[0, 255]], [[0, 1]], n_labels=2) == 1


@pytest.mark.parametrize(
    ("truth", "predicted", "message"),
    [
        ([[0, 1]], [[0], [1]], r"has shape \(2, 1\), but the truth has shape \(1, 2\)"),
        ([0, 1], [0.2, 0.8], "type float64, but"),
        ([0, 1], [0, 255], "labels from 0 to 255, but"),
        ([0, -1], [0, 1], "labels from -1"),
    ],
)
def test_refuses_what_are_not_two_masks(truth, predicted, message):
    with pytest.raises(InputError, match=message):
        confusion(truth, predicted)


def test_refuses_lists_that_do_not_match_and_labels_beyond_the_stated():
    with pytest.raises(InputError, match="predictions has 1 masks, but there are 2 true masks"):
        confusions([[0], [1]], [[0]])
    with pytest.raises(InputError, match="at least one mask each"):
        confusions([], [])
    with pytest.raises(InputError, match="labels run from 0 to 1"):
        confusion([0, 2], [0, 1], n_labels=2)


def test_figures_are_their_definitions():
    rng = np.random.default_rng(0)
    for honest in (True, False):
        mask, q = drawn(rng, honest=honest)
        found = beliefs(mask, q)
        y, p = mask[2:].ravel(), q[2:, :, 1].ravel()
        edges = np.linspace(0, 1, BINS + 1)
        ece = 0.0
        for low, high in pairwise(edges):
            inside = (p >= low) & (p < high)
            if inside.any():
                ece += inside.mean() * abs(p[inside].mean() - y[inside].mean())
        assert found.n_pixels == y.size
        assert found.calibration_error() == pytest.approx(ece, abs=1e-12)
        chance = np.where(y == 1, p, 1 - p)
        assert found.mean_log_likelihood() == pytest.approx(np.log(chance).mean(), abs=1e-12)
        assert found.auc() == pytest.approx(roc_auc_score(y, p), abs=1e-3)


def test_images_add_up():
    rng = np.random.default_rng(1)
    (a, p), (b, q) = drawn(rng), drawn(rng, (7, 30))
    both = beliefs(np.concatenate([a, b]), np.concatenate([p, q]))
    added = beliefs(a, p) + beliefs(b, q)
    assert np.array_equal(added.curve, both.curve)
    assert np.abs(added.bins - both.bins).max() < 1e-9
    assert added.log_likelihood == pytest.approx(both.log_likelihood, abs=1e-9)


def test_sure_and_wrong_is_finite_and_bad():
    found = beliefs([[1]], [[[1.0, 0.0]]])
    assert found.mean_log_likelihood() == np.log(LEAST)
    assert found.calibration_error() == 1
    assert np.isnan(found.auc())
    assert np.isnan(beliefs([[255]], [[[1.0, 0.0]]]).calibration_error())


def test_wrong_shapes_and_labels_are_refused():
    with pytest.raises(InputError, match="Give what predict_proba gave"):
        beliefs([[0, 1]], [[0.5, 0.5]])
    with pytest.raises(InputError, match="truth has label 2"):
        beliefs([[2]], [[[0.5, 0.5]]])


def test_entropy_is_that_of_the_definition():
    q = np.random.default_rng(0).dirichlet(np.ones(3), 50)
    wanted = [-sum(p * np.log2(p) for p in row) for row in q]
    assert np.abs(entropy(q) - wanted).max() < 1e-12
    assert entropy([[1.0, 0.0, 0.0]]).tolist() == [0.0]


def slow(images, statistic, draws=1000, level=0.95, random_state=0):
    """The same draws, one by one."""
    picks = np.random.default_rng(random_state).integers(len(images), size=(draws, len(images)))
    figures = [statistic([images[i] for i in pick]) for pick in picks]
    return statistic(images), *np.quantile(figures, [(1 - level) / 2, (1 + level) / 2])


def some_tables(n=7, labels=3):
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, labels, (2, n, 5, 6))
    pairs[:, 2] = 0  # an image with one label only: a smaller table
    return confusions(*pairs)


FIGURES = {
    "pooled IoU": (stack_tables, lambda s: iou_of(s, 1), lambda part: total(part).iou(1)),
    "a label that is rare": (stack_tables, lambda s: iou_of(s, 5), lambda part: total(part).iou(5)),
    "mean IoU": (stack_tables, mean_iou_of, lambda part: total(part).mean_iou()),
    "mean": (
        lambda tables: means([t.pixel_error() for t in tables]), ratio,
        lambda part: np.mean([t.pixel_error() for t in part]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(FIGURES))
def test_all_draws_at_once_are_the_draws_one_by_one(name, monkeypatch):
    values, figure, statistic = FIGURES[name]
    tables = some_tables()
    wanted = slow(tables, statistic, draws=200)
    calls = []

    def counted(sums):
        calls.append(len(sums))
        return figure(sums)

    found = bootstrap(values(tables), counted, draws=200)
    assert (found.value, found.low, found.high) == pytest.approx(wanted, rel=1e-12)
    assert calls == [200, 1]
    monkeypatch.setattr("cutlearn.metrics.BLOCK", 30)  # a few draws at a time are the same draws
    assert bootstrap(values(tables), figure, draws=200) == found


@pytest.mark.parametrize("name", list(FIGURES))
def test_leaving_out_is_what_remains(name):
    values, figure, statistic = FIGURES[name]
    tables = some_tables()
    wanted = [statistic(tables[:i] + tables[i + 1 :]) for i in range(len(tables))]
    assert left_out(values(tables), figure) == pytest.approx(wanted, rel=1e-12)


def test_bootstrap_of_a_mean_has_the_width_of_theory():
    values = np.random.default_rng(3).normal(size=400)
    spread = bootstrap(values, draws=2000)
    wanted = values.std() / 20
    assert spread.value == pytest.approx(values.mean())
    assert spread.deviation == pytest.approx(wanted, rel=0.1)
    assert spread.high - spread.low == pytest.approx(2 * 1.96 * wanted, rel=0.1)
    assert bootstrap(values, draws=50) == bootstrap(list(values), draws=50)
    assert bootstrap(values, draws=50) != bootstrap(values, draws=50, random_state=1)


def test_equal_images_have_no_spread():
    tables = stack_tables(confusions([[0, 1]] * 3, [[1, 1]] * 3))
    spread = bootstrap(tables, lambda sums: iou_of(sums, 1), draws=20)
    assert (spread.low, spread.value, spread.high, spread.deviation) == (0.5, 0.5, 0.5, 0)


def test_bootstrap_refuses_nothing_and_strange_levels():
    with pytest.raises(InputError, match="values is empty"):
        bootstrap([])
    with pytest.raises(InputError, match="level=95"):
        bootstrap([1.0], level=95)
