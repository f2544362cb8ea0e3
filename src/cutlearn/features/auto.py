"""features="auto": which source of logits, chosen by held-out images within a budget.

The nets are trained first. Their out-of-fold logits, those of small trees (one stage, fewer rows,
as many folds) and the mean of the two are compared on all images: each is the word of one model
that never saw the image, so like is compared with like, though the nets' mean over folds and the
full trees will both do better on new images. The mean stands for "stacked". What all this may cost
is reckoned beforehand, from numbers of pixels, rows and steps and never from a clock: the same
images give the same model on a busy machine, too. Seconds are those of one core, see
docs/decisions/0017-features-within-a-budget.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cutlearn.errors import InputError, quoted
from cutlearn.features.boosted import Answers, Recipe
from cutlearn.features.filters import Float32
from cutlearn.features.modes import BUDGETS
from cutlearn.features.sources import (
    NetLogits,
    NoLogits,
    Source,
    StackedLogits,
    Task,
    TreeLogits,
    net_seconds,
    pixels_of,
    tree_seconds,
)
from cutlearn.metrics import Figure, confusions, iou_of, left_out, stack_tables

# How often trees are better for micrographs, about.
RARELY = 0.2
FULL, SMALL = 2.4e6, 0.5e6  # pixels: more get more time, fewer get less
# Fewest steps of nets that are compared with trees, and that are worth having at all.
FEWEST, LEAST = 100, 50
# The small trees of the comparison.
PILOT = {"stages": 1, "rows": 20_000, "copies": 0, "folds": 3}
# Budgets for which several questions have trees only: nets cost them more than all else.
TOGETHER_ONLY = ("fast", "normal")
WHY_TOGETHER = "trees: they answer for all labels at once; budget best compares them with nets"


@dataclass(frozen=True)
class Choice:
    """What was chosen and why; `task` has the recipes that the budget allows."""

    mode: str
    why: str
    task: Task


def checked_budget(value: Any) -> str | float:
    """Check a budget: one of the names, or seconds > 0."""
    if isinstance(value, str) and value in BUDGETS:
        return value
    number = isinstance(value, int | float | np.integer | np.floating) and type(value) is not bool
    if number and 0 < float(value) < np.inf:
        return float(value)
    names = ", ".join(BUDGETS)
    raise InputError(
        f"budget: {quoted(value)} is neither one of {names} nor a number of seconds above 0."
    )


def seconds_of(budget: str | float, task: Task) -> float:
    """The seconds that a budget means for the images of a task."""
    if not isinstance(budget, str):
        return float(budget)
    pixels = pixels_of(task)
    return BUDGETS[budget] * min(1.0, pixels / SMALL) * max(1.0, pixels / FULL)


def fit_auto(task: Task, budget: str | float) -> tuple[Choice, Source, list[Answers]]:
    """Choose a source within the budget, and fit it."""
    seconds = seconds_of(budget, task)
    plan = None if _together(task, budget) else _compared(task, seconds)
    if plan is None:
        choice = _unseen(task, seconds, budget)
        source, maps = SIMPLE[choice.mode].fit(choice.task)
        return choice, source, maps
    parts = plan.parts(_costs(plan))
    net, first = NetLogits.fit(parts.next())
    _, second = TreeLogits.fit(replace(parts.next(), recipe=small_recipe(plan.recipe)))
    mode, why = judge(plan, first, second)
    parts.tell(f"chose {mode}", mode == "net")
    choice = Choice(mode, why, plan)
    if mode == "net":
        return choice, net, first
    if mode == "trees":
        return choice, *TreeLogits.fit(_with_stages(parts.next(), seconds))
    return choice, *StackedLogits.over(parts.next(), net, first)


# What can be fitted without a comparison.
SIMPLE: dict[str, type[Source]] = {
    "trees": TreeLogits, "net": NetLogits, "stacked": StackedLogits, "linear": NoLogits,
}  # fmt: skip


def judge(task: Task, first: Sequence[Answers], second: Sequence[Answers]) -> tuple[str, str]:
    """Compare out-of-fold logits of nets and of small trees; give a mode, and why in a sentence.

    The kind of images has a favourite: nets for micrographs, both for photographs. Another one is
    taken if its pooled IoU is better by more than a jackknife deviation over the groups.
    """
    said = {
        "net": [[logits[-1] for logits in answers] for answers in first],
        "trees": [[logits[-1] for logits in answers] for answers in second],
    }
    half = np.float32(0.5)
    said["stacked"] = [
        [half * a + half * b for a, b in zip(*pair)] for pair in zip(said["net"], said["trees"])
    ]
    tables = {mode: _tables(task, logits) for mode, logits in said.items()}
    whole = {mode: float(_figure(part.sum(axis=0))) for mode, part in tables.items()}
    prior = "stacked" if task.bank.kind == "photograph" else "net"
    best = max(whole, key=lambda mode: whole[mode])
    gains = left_out(tables[best], _figure) - left_out(tables[prior], _figure)
    n = len(gains)
    deviation = float(np.sqrt((n - 1) / n * np.sum((gains - gains.mean()) ** 2)))
    chosen = best if whole[best] - whole[prior] > deviation else prior
    figures = ", ".join(
        f"{name} {100 * whole[mode]:.1f}"
        for mode, name in (("net", "net"), ("trees", "small trees"), ("stacked", "their mean"))
    )
    kind = "photographs" if task.bank.kind == "photograph" else "micrographs"
    reason = "the best" if chosen == best else f"usual for {kind}, and no other is clearly better"
    return chosen, f"{chosen}: {reason}; pooled IoU of held-out images in %: {figures}"


def _tables(task: Task, logits: Sequence[Sequence[Float32]]) -> npt.NDArray[np.float64]:
    """Tables of true and found labels, (groups, T, 2, 2), at the best threshold of a question."""
    parts = []
    for t in range(task.labels[0].shape[2]):
        truth = [labels[..., t] for labels in task.labels]
        found = [answers[t] for answers in logits]
        threshold = best_threshold(found, truth)
        counts = confusions(truth, [(z >= threshold).astype(np.uint8) for z in found])
        parts.append(stack_tables(counts))
    images = np.stack(parts, axis=1)
    groups = np.asarray(task.groups)
    return np.stack([images[groups == g].sum(axis=0) for g in np.unique(groups)])


def _mean_over_questions(tables: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.asarray(iou_of(tables).mean(axis=-1))


_figure: Figure = _mean_over_questions


def best_threshold(logits: Sequence[Float32], truth: Sequence[npt.NDArray[np.uint8]]) -> float:
    """The threshold of the best pooled IoU of label 1; void pixels do not count.

    Examples
    --------
    >>> import numpy as np
    >>> truth = [np.array([0, 0, 1, 255, 1], np.uint8)]
    >>> round(best_threshold([np.array([0.1, 0.5, 0.4, 0.45, 0.9], np.float32)], truth), 3)
    0.4
    """
    known = [y != 255 for y in truth]
    z = np.concatenate([one[k] for one, k in zip(logits, known)])
    ones = np.concatenate([y[k] for y, k in zip(truth, known)]) == 1
    order = np.argsort(-z, kind="stable")
    right = np.cumsum(ones[order])
    either = max(int(ones.sum()), 1) + np.arange(1, len(order) + 1) - right
    return float(z[order[np.argmax(right / either)]])


# -- what it costs ---------------------------------------------------------------------------


def auto_seconds(task: Task, budget: str | float) -> float:
    """What "auto" may cost, if it takes what is usual for the kind of images."""
    seconds = seconds_of(budget, task)
    plan = None if _together(task, budget) else _compared(task, seconds)
    if plan is not None:
        return sum(_costs(plan))
    choice = _unseen(task, seconds, budget)
    return SIMPLE[choice.mode].seconds(choice.task)


def _costs(task: Task) -> list[float]:
    """What nets, small trees, and what is usually taken of the kind after them, may cost."""
    last = tree_seconds(task, _one_stage(task.recipe))
    if task.bank.kind == "microscopy":
        last *= RARELY
    return [net_seconds(task, task.net.steps), tree_seconds(task, small_recipe(task.recipe)), last]


def _compared(task: Task, seconds: float) -> Task | None:
    """The task with nets of as many steps as a comparison leaves time for; None: too few."""
    pilot = tree_seconds(task, small_recipe(task.recipe))
    rest = seconds - pilot - tree_seconds(task, _one_stage(task.recipe))
    return _with_steps(task, rest, FEWEST)


def _with_stages(task: Task, seconds: float) -> Task:
    """The task with one stage of trees if the comparison left no time for all of them."""
    spent = net_seconds(task, task.net.steps) + tree_seconds(task, small_recipe(task.recipe))
    if spent + tree_seconds(task, task.recipe) <= seconds:
        return task
    return replace(task, recipe=_one_stage(task.recipe))


def _together(task: Task, budget: str | float) -> bool:
    """Whether there are several questions, and no time for nets that answer them."""
    return task.labels[0].shape[2] > 1 and budget in TOGETHER_ONLY


def _unseen(task: Task, seconds: float, budget: str | float) -> Choice:
    """What is usual for the kind, without a comparison, as far as the budget allows."""
    if _together(task, budget):
        return Choice("trees", WHY_TOGETHER, task)
    no_time = f"the budget of {seconds:.0f} s leaves no time for a comparison"
    one = replace(task, recipe=_one_stage(task.recipe))
    if task.bank.kind == "microscopy":
        nets = _with_steps(task, seconds, LEAST)
        if nets is not None:
            return Choice("net", f"net: usual for micrographs; {no_time}", nets)
    else:
        nets = _with_steps(task, seconds - tree_seconds(task, one.recipe), FEWEST)
        if nets is not None:
            return Choice("stacked", f"stacked: usual for photographs; {no_time}", nets)
    # A named budget has at least the trees, "fast" those of one stage; seconds are kept to.
    named = isinstance(budget, str)
    for trees, least in ((task, named and budget != "fast"), (one, named)):
        cost = tree_seconds(trees, trees.recipe)
        if cost <= seconds or least:
            stages = "trees" if trees.recipe.stages > 1 else "trees of one stage"
            why = f"{stages}, about {cost:.0f} s: {no_time}, or for nets"
            return Choice("trees", why, trees)
    return Choice("linear", f"linear: the budget of {seconds:.0f} s leaves no time for trees", task)


def _with_steps(task: Task, seconds: float, fewest: int) -> Task | None:
    """The task with as many steps of nets, in tens, as the seconds allow."""
    steps = task.net.steps
    while steps > fewest and net_seconds(task, steps) > seconds:
        steps = max(fewest, (steps - 1) // 10 * 10)
    if net_seconds(task, steps) > seconds:
        return None
    return replace(task, net=replace(task.net, steps=steps))


def _one_stage(recipe: Recipe) -> Recipe:
    return replace(recipe, stages=1)


def small_recipe(recipe: Recipe) -> Recipe:
    """The small trees: no larger in anything than those of the recipe."""
    return replace(recipe, **{k: min(v, getattr(recipe, k)) for k, v in PILOT.items()})
