"""The bootstrap and the jackknife against plain loops over draws and images."""

import numpy as np
import pytest

from cutlearn.errors import InputError
from cutlearn.metrics import (
    bootstrap,
    confusions,
    iou_of,
    left_out,
    mean_iou_of,
    means,
    ratio,
    stack_tables,
    total,
)


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
    monkeypatch.setattr(
        "cutlearn.metrics.spread.BLOCK", 30
    )  # a few draws at a time are the same draws
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
