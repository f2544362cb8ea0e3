"""features="auto": the choice by held-out images, what it may cost, and what it says."""

from dataclasses import replace

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.errors import InputError
from cutlearn.features import BUDGETS, auto
from cutlearn.features.auto import (
    DrawnPixels,
    TreeProbe,
    checked_budget,
    clearly_best,
    fit_auto,
    judge,
    mean_iou,
    net_seconds,
    probe_seconds,
    seconds_of,
    tree_seconds,
)
from cutlearn.features.describe import Bank
from cutlearn.features.featurizer import Featurizer
from cutlearn.features.net.learn import NetRecipe
from cutlearn.features.sources import STEPS, BothLogits, NetLogits, StackedLogits, Task, TreeLogits
from cutlearn.features.trees import Recipe
from cutlearn.model.model_files import load
from features.worlds import world

RECIPE = Recipe(trees=3, rows=600, folds=2, min_leaf=5, leaves=4)
NET = NetRecipe(steps=6, crops=2, folds=2, restore=4)


def task_of(n=4, shape=(24, 30), color=False, **options):
    images, masks = world(n, shape=shape, color=color)
    given = {"recipe": RECIPE, "net": NET} | options
    return Task(images, [m[..., None] for m in masks], [None] * n, list(range(n)),
                Bank.choose(images), given["recipe"], given["net"])  # fmt: skip


def logits(task, noise, seed=0):
    """Logits of all pixels that know the truth up to noise: more noise, worse masks."""
    rng = np.random.default_rng(seed)
    return [
        [((y == 1).reshape(-1) * 4 - 2 + rng.normal(0, noise, y.size)).astype(np.float32)]
        for y in task.labels
    ]


def judged(task, net, trees):
    """The judgement of logits of all pixels."""
    drawn = [[DrawnPixels(np.arange(y.size), y.reshape(-1), np.ones(y.size))] for y in task.labels]
    return judge(task, net, TreeProbe(drawn, trees, 1))


@pytest.mark.parametrize(
    ("color", "net", "trees", "chosen"),
    [
        (False, 1.0, 3.0, "net"),
        (False, 3.0, 0.5, "trees"),
        (False, 2.0, 2.0, "stacked"),  # errors of their own: the mean is clearly better
        (True, 2.0, 2.0, "stacked"),
        (True, 0.3, 9.0, "net"),
        (True, 9.0, 0.3, "trees"),
    ],
)
def test_the_better_one_is_chosen(color, net, trees, chosen):
    task = task_of(6, color=color)
    mode, why = judged(task, logits(task, net, 1), logits(task, trees, 2))
    assert mode == chosen
    assert why.startswith(f"{chosen}: ")
    assert "pooled IoU of held-out images" in why


@pytest.mark.parametrize("color", [True, False])
def test_equal_ones_leave_the_favourite_of_the_kind(color):
    task = task_of(4, color=color)
    same = logits(task, 2.0)
    mode, _ = judged(task, same, same)
    assert mode == ("stacked" if color else "net")


def test_a_large_gain_counts_although_images_differ():
    """13 points are taken where the jackknife deviation of few images is as large."""

    def tables(*images):  # of 900 pixels: those found rightly, found wrongly, missed
        return np.array([[[[900 - sum(one), one[1]], [one[2], one[0]]]] for one in images], float)

    net = tables(*[(60, 10, 10)] * 3, (60, 60, 120))
    trees = tables(*[(58, 11, 12)] * 3, (120, 40, 60))
    values = {"net": net, "trees": trees}
    gain = float(mean_iou(trees.sum(axis=0)) - mean_iou(net.sum(axis=0)))
    assert gain > 0.13
    assert clearly_best(values, "net", mean_iou) == "net"  # one deviation is more than the gain
    assert clearly_best(values, "net", mean_iou, auto.least_gain) == "trees"


def test_the_least_gain_has_an_expected_gain_of_zero():
    """By simulation: true gains, what is measured of them, and what they are where it is so."""
    rng, deviation = np.random.default_rng(0), 0.1
    true = rng.normal(-auto.LEAD, auto.SPREAD, 400_000)
    seen = true + rng.normal(0, np.hypot(auto.ERROR, deviation), len(true))
    near = abs(seen - auto.least_gain(deviation)) < 0.01
    assert abs(true[near].mean()) < 0.003
    assert auto.least_gain(0.01) == 0.01


def told_by(task):
    told = []
    return told, task.__class__(**vars(task) | {"progress": lambda *given: told.append(given)})


@pytest.mark.parametrize("mode", ["net", "trees", "stacked", "both"])
def test_a_comparison_ends_in_the_source_that_it_chose(mode, monkeypatch):
    task = task_of(3, net=NetRecipe(steps=auto.LEAST, crops=1, folds=2, restore=0))
    monkeypatch.setattr(auto, "FEWEST", auto.LEAST)
    first = "stacked" if mode == "both" else mode  # which is tried before it
    monkeypatch.setattr(auto, "judge", lambda *given: (first, f"{first}: as asked"))
    chosen = "both" if mode == "both" else "stacked"  # after the trees over nets are grown
    monkeypatch.setattr(
        auto, "clearly_best", lambda values, prior, *_: chosen if chosen in values else prior
    )
    told, task = told_by(task)
    choice, source, maps = fit_auto(task, 1e6)
    kinds = {"net": NetLogits, "trees": TreeLogits, "stacked": StackedLogits, "both": BothLogits}
    assert (choice.mode, type(source)) == (mode, kinds[mode])
    assert any(what == f"chose {mode}" for _, _, what in told)
    counted = [done for done, _, _ in told]
    assert counted == sorted(counted)
    assert {total for _, total, _ in told} == {STEPS}
    assert counted[-1] == STEPS
    _, wanted = kinds[mode].fit(task_of(3, net=task.net))
    for found, other in zip(maps, wanted):
        assert all(np.array_equal(a, b) for a, b in zip(found[0], other[0], strict=True))


def test_nets_that_beat_the_trees_on_top_of_them_stay_alone(monkeypatch):
    task = task_of(3, net=NetRecipe(steps=auto.LEAST, crops=1, folds=2, restore=0))
    monkeypatch.setattr(auto, "FEWEST", auto.LEAST)
    monkeypatch.setattr(auto, "judge", lambda *given: ("stacked", "stacked: as asked"))
    monkeypatch.setattr(auto, "clearly_best", lambda values, *_: list(values)[-1])
    choice, source, maps = fit_auto(task, 1e6)
    assert (choice.mode, type(source), len(maps[0][0])) == ("net", NetLogits, 1)
    assert choice.why.startswith("net: better than trees on top of it")


def test_both_must_be_far_ahead_of_trees_over_nets():
    task = task_of(6, color=True)
    drawn = [[DrawnPixels(np.arange(y.size), y.reshape(-1), np.ones(y.size))] for y in task.labels]
    probe = TreeProbe(drawn, logits(task, 2.0), 1)
    best, next_, worst = (
        probe.tables(logits(task, noise, 3), task.groups) for noise in (0.5, 0.9, 2.0)
    )

    def clear(one, other, ahead):
        return clearly_best({0: other, 1: one}, 0, mean_iou, lambda deviation: ahead + deviation)

    assert clear(best, next_, 0.0)
    assert not clear(best, next_, 0.1)
    assert clear(best, worst, 0.1)


def test_both_needs_time_that_nets_and_trees_over_them_have_left():
    task = task_of(3, (200, 260), color=True, recipe=Recipe(), net=NetRecipe())
    least = (net_seconds(task, 300) + probe_seconds(task)
             + tree_seconds(task, StackedLogits.recipe(task)))  # fmt: skip
    assert auto._trees_next_to_nets(task, least) is None
    for more in (task.recipe, replace(task.recipe, stages=1)):
        assert auto._trees_next_to_nets(task, least + 1.001 * tree_seconds(task, more)) == more
    assert auto.auto_seconds(task, 1e6) > auto.auto_seconds(task, least)


def test_tiny_worlds_get_the_trees_that_they_had():
    images, masks = world(3)
    auto_, trees = (Featurizer(f, recipe=RECIPE, n_jobs=1) for f in ("auto", "trees"))
    a, b = auto_.fit_transform(images, masks), trees.fit_transform(images, masks)
    assert all(np.array_equal(x, y) for x, y in zip(a, b))
    assert (auto_.chosen_, trees.chosen_) == ("trees", "trees")
    assert "leaves no time for a comparison" in auto_.why_
    assert trees.why_ == "asked for by name"


def test_seconds_grow_with_the_budget_and_with_work():
    small, large = task_of(4), task_of(4, (240, 300))
    for cost in (
        lambda t: net_seconds(t, 100), lambda t: tree_seconds(t, Recipe()),
        lambda t: seconds_of("normal", t),
    ):  # fmt: skip
        assert 0 < cost(small) < cost(large)
    assert net_seconds(large, 50) < net_seconds(large, 150)
    assert seconds_of(7, small) == 7
    assert [seconds_of(name, large) for name in BUDGETS] == sorted(
        seconds_of(name, large) for name in BUDGETS
    )


@pytest.mark.parametrize(
    ("color", "budget", "mode"),
    [(False, 1e-6, "linear"), (True, 1e-6, "linear"), (False, "fast", "trees")],
)
def test_what_the_budget_leaves(color, budget, mode):
    choice, _, maps = fit_auto(task_of(2, color=color, net=NetRecipe()), budget)
    assert choice.mode == mode
    assert len(maps) == 2


def test_steps_fit_the_seconds():
    """Whatever the seconds, what is planned costs no more, by its own reckoning."""
    task = task_of(3, (200, 260), recipe=Recipe(), net=NetRecipe())
    seen = set()
    for seconds in (5, 20, 40, 80, 160, 320, 640):
        plan = auto._compared(task, seconds)
        if plan is not None:
            seen.add(plan.net.steps)
            for trees in (StackedLogits.recipe(plan), auto._with_stages(plan, seconds).recipe):
                probe = probe_seconds(task)
                nets = net_seconds(plan, plan.net.steps)
                assert nets + probe + tree_seconds(task, trees) <= seconds
            assert auto.FEWEST <= plan.net.steps <= 300
        else:
            choice = auto._unseen(task, seconds, float(seconds))
            spent = {
                "net": lambda c: net_seconds(c.task, c.task.net.steps),
                "trees": lambda c: tree_seconds(c.task, c.task.recipe),
                "linear": lambda c: 0,
            }[choice.mode](choice)
            assert spent <= seconds
            seen.add(choice.mode)
    assert {"net", 300} <= seen


def test_the_docstring_tells_the_seconds_of_every_budget():
    told = " ".join(Featurizer.__doc__.split())
    for name, seconds in BUDGETS.items():
        assert f'"{name}" {seconds:.0f}' in told


@pytest.mark.parametrize("wrong", ["slow", 0, -1.0, True, None, float("nan"), float("inf")])
def test_a_wrong_budget_is_refused(wrong):
    with pytest.raises(InputError, match=r"budget: .* is neither one of fast, normal, best nor"):
        checked_budget(wrong)
    images, masks = world(2)
    with pytest.raises(InputError, match="The 'budget' parameter of Segmenter must be one of"):
        cl.Segmenter(budget=wrong).fit(images, masks)


def test_a_model_file_remembers_what_was_chosen_and_why(tmp_path):
    images, masks = world(3, color=False)
    features = Featurizer("auto", budget=1e-6, n_jobs=1)
    model = cl.Segmenter(features=features, C=1.0, n_jobs=1).fit(images, masks)
    model.save(tmp_path / "m")
    again = load(tmp_path / "m").featurizer_
    assert (again.chosen_, again.why_) == ("linear", model.featurizer_.why_)
    assert "no time for trees" in again.why_


def test_several_questions_have_trees_without_a_comparison(monkeypatch):
    monkeypatch.setattr(auto, "_compared", lambda *_: pytest.fail("nets are compared"))
    task = task_of(3)
    several = replace(task, labels=[np.concatenate([y, 1 - y], axis=2) for y in task.labels])
    choice, _, maps = fit_auto(several, "normal")
    assert choice.mode == "trees"
    assert "all labels at once" in choice.why
    assert [len(answers) for answers in maps] == [2] * 3
    assert tree_seconds(several, RECIPE) < 2 * tree_seconds(task, RECIPE)


def test_restoring_goes_before_the_nets_do():
    task = task_of(3, (200, 260), color=True, recipe=Recipe(), net=NetRecipe())
    bare = replace(task, net=replace(task.net, restore=0))
    nets = net_seconds(bare, auto.FEWEST)
    plan = auto._with_steps(task, nets, auto.FEWEST)
    assert (plan.net.steps, plan.net.restore) == (auto.FEWEST, 0)
    plan = auto._with_steps(task, net_seconds(task, auto.FEWEST), auto.FEWEST)
    assert (plan.net.steps, plan.net.restore) == (auto.FEWEST, auto.FEWEST)
    assert auto._with_steps(task, 0.99 * nets, auto.FEWEST) is None


def test_more_steps_are_taken_where_a_budget_allows_them():
    task = task_of(3, (200, 260), color=True, recipe=Recipe(), net=auto.usual_net("auto"))
    steps = [auto._compared(task, seconds).net.steps for seconds in (60, 100, 1e9)]
    assert steps == sorted(set(steps))  # more each time
    assert steps[-1] == auto.MOST
    assert auto.usual_net("stacked") == NetRecipe()  # by name they have what was measured
