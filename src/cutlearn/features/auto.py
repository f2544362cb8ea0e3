"""features="auto": which source of logits, chosen by held-out images within a budget.

The nets are trained first. Their out-of-fold logits, those of small trees (`pilot`) and the mean of
the two are compared on pixels drawn from all images: each is the word of one model that never saw
the image, so like is compared with like, though the nets' mean over folds and the full trees will
both do better on new images. The mean stands for "stacked", which is compared with the nets once
more when it is fitted, and with the mean itself, which then stands for "both". What all this may
cost is reckoned beforehand, from numbers of pixels, rows and steps and never from a clock: the same
images give the same model on a busy machine, too. Seconds are those of one core, see
docs/decisions/0017-features-within-a-budget.md and 0027.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cutlearn.errors import InputError, quoted
from cutlearn.features.boosted import Answers, Recipe
from cutlearn.features.grow import forest_seconds
from cutlearn.features.modes import BUDGETS
from cutlearn.features.net.learn import NetRecipe
from cutlearn.features.pilot import Pilot, Said, clearly_best, figure, small_recipe
from cutlearn.features.sources import (
    BothLogits,
    NetLogits,
    NoLogits,
    Source,
    StackedLogits,
    TreeLogits,
)
from cutlearn.features.task import Task, net_seconds, pixels_of, tree_seconds

# How often trees are better for micrographs, about.
RARELY = 0.2
FULL, SMALL = 2.4e6, 0.5e6  # pixels: more get more time, fewer get less
# Fewest steps of nets that are compared with trees, and that are worth having at all; and the most
# that a budget is spent on.
FEWEST, LEAST, MOST = 150, 80, 900
# Budgets for which several questions have trees only: nets cost them more than all else.
TOGETHER_ONLY = ("fast", "normal")
WHY_TOGETHER = "trees: they answer for all labels at once; budget best compares them with nets"
# How far ahead of "stacked" the mean must be for "both": trees over nets gain more on new images
# than held-out ones can tell, since they see the mean of all nets there and the word of one here
# (docs/decisions/0036-both-among-the-candidates.md).
AHEAD = 0.03
# How far the favourite of a kind is ahead of another source on new images, how far this differs
# from set to set, and how far a gain on held-out images is off beyond its spread over them; IoU of
# few images of four sets (docs/decisions/0055-a-choice-of-least-regret.md).
LEAD, SPREAD, ERROR = 0.028, 0.083, 0.062
# Seconds in which a pixel is described for the few rows of the small trees.
PILOT = {"photograph": 1e-6, "microscopy": 1e-6}


@dataclass(frozen=True)
class Choice:
    """What was chosen and why; `task` has the recipes that the budget allows."""

    mode: str
    why: str
    task: Task


def usual_net(mode: str) -> NetRecipe:
    """How nets are trained if nobody says: with "auto", for as many steps as the budget allows."""
    return NetRecipe(steps=MOST) if mode == "auto" else NetRecipe()


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


def fit_auto(task: Task, budget: str | float) -> tuple[Choice, Source, Sequence[Answers]]:
    """Choose a source within the budget, and fit it."""
    seconds = seconds_of(budget, task)
    plan = None if _together(task, budget) else _compared(task, seconds)
    if plan is None:
        choice = _unseen(task, seconds, budget)
        source, maps = SIMPLE[choice.mode].fit(choice.task)
        return choice, source, maps
    parts = plan.parts(_costs(plan, seconds))
    net, first = NetLogits.fit(parts.next())
    pilot = Pilot.fit(parts.next())
    mode, why = judge(plan, pilot.seen(first), pilot)
    parts.tell(f"chose {mode}", mode == "net")
    choice = Choice(mode, why, plan)
    if mode == "net":
        return choice, net, first
    if mode == "trees":
        grown = TreeLogits.fit(_with_stages(parts.next(), seconds))
        parts.tell("chose trees", True)
        return choice, *grown
    stacked, maps = StackedLogits.over(parts.next(), net, first)
    # The mean only stood for it: now its own logits of held-out images are known.
    own, before = (pilot.tables(pilot.seen(m), plan.groups) for m in (maps, first))
    if clearly_best({"stacked": own, "net": before}, "stacked", figure, least_gain) == "net":
        why = f"net: better than trees on top of it; before, {why}"
        return replace(choice, mode="net", why=why), net, first
    mean = pilot.tables(pilot.mean_with(pilot.seen(first)), plan.groups)
    trees, both = _beside(plan, seconds), {"stacked": own, "both": mean}
    ahead = clearly_best(both, "stacked", figure, lambda deviation: AHEAD + deviation) == "both"
    if trees is None or not ahead:
        parts.tell("chose stacked", True)
        return choice, stacked, maps
    parts.tell("chose both", False)
    why = f"both: far better than trees on top of the net; before, {why}"
    answering = replace(parts.next(), recipe=trees)
    return replace(choice, mode="both", why=why), *BothLogits.over(answering, net, first)


def least_gain(deviation: float) -> float:
    """Return the gain over the favourite, on held-out images, from which on another source pays.

    The true gain d of a source over the favourite is N(-LEAD, SPREAD^2) over data sets; what is
    measured is d with a variance v = ERROR^2 + deviation^2. The expected d is above 0, and so the
    regret least with the other source, where the measured gain is above LEAD v / SPREAD^2. More
    than one deviation is never asked for.
    """
    return min(deviation, LEAD * (ERROR**2 + deviation**2) / SPREAD**2)


# What can be fitted without a comparison.
SIMPLE: dict[str, type[Source]] = {
    "trees": TreeLogits, "net": NetLogits, "stacked": StackedLogits, "linear": NoLogits,
}  # fmt: skip


def judge(task: Task, net: Said, pilot: Pilot) -> tuple[str, str]:
    """Compare out-of-fold logits of nets and of small trees; give a mode, and why in a sentence.

    The kind of images has a favourite: nets for micrographs, both for photographs. Another one is
    taken if its pooled IoU is better by more than `least_gain`.
    """
    said = {"net": net, "trees": pilot.trees, "stacked": pilot.mean_with(net)}
    tables = {mode: pilot.tables(logits, task.groups) for mode, logits in said.items()}
    whole = {mode: float(figure(part.sum(axis=0))) for mode, part in tables.items()}
    prior = "stacked" if task.bank.kind == "photograph" else "net"
    best = max(whole, key=lambda mode: whole[mode])
    chosen = clearly_best(tables, prior, figure, least_gain)
    figures = ", ".join(
        f"{name} {100 * whole[mode]:.1f}"
        for mode, name in (("net", "net"), ("trees", "small trees"), ("stacked", "their mean"))
    )
    kind = "photographs" if task.bank.kind == "photograph" else "micrographs"
    reason = "the best" if chosen == best else f"usual for {kind}, and no other is clearly better"
    return chosen, f"{chosen}: {reason}; pooled IoU of held-out images in %: {figures}"


# -- what it costs ---------------------------------------------------------------------------


def auto_seconds(task: Task, budget: str | float) -> float:
    """What "auto" may cost, if it takes what is usual for the kind of images."""
    seconds = seconds_of(budget, task)
    plan = None if _together(task, budget) else _compared(task, seconds)
    if plan is not None:
        return sum(_costs(plan, seconds))
    choice = _unseen(task, seconds, budget)
    return SIMPLE[choice.mode].seconds(choice.task)


def _costs(task: Task, seconds: float) -> list[float]:
    """What nets, small trees, and what is usually taken of the kind after them, may cost.

    Last what "both" rarely needs beyond that.
    """
    last, more = tree_seconds(task, StackedLogits.recipe(task)), _beside(task, seconds)
    if task.bank.kind == "microscopy":
        last *= RARELY
    rarely = 0.0 if more is None else RARELY * tree_seconds(task, more)
    return [net_seconds(task, task.net.steps), pilot_seconds(task), last, rarely]


def _compared(task: Task, seconds: float) -> Task | None:
    """The task with nets of as many steps as a comparison leaves time for; None: too few."""
    rest = seconds - pilot_seconds(task) - tree_seconds(task, StackedLogits.recipe(task))
    return _with_steps(task, rest, FEWEST)


def _with_stages(task: Task, seconds: float) -> Task:
    """The task with trees of as many stages and folds as the comparison left time for."""
    spent = net_seconds(task, task.net.steps) + pilot_seconds(task)
    return replace(task, recipe=_most(task, seconds - spent) or StackedLogits.recipe(task))


def _beside(task: Task, seconds: float) -> Recipe | None:
    """Trees beside the nets, if those on top of them have left time for any."""
    spent = net_seconds(task, task.net.steps) + pilot_seconds(task)
    return _most(task, seconds - spent - tree_seconds(task, StackedLogits.recipe(task)))


def _most(task: Task, seconds: float) -> Recipe | None:
    """The recipe of trees with as many stages as the seconds allow; None: not even one."""
    recipes = (task.recipe, _one_stage(task.recipe))
    return next((r for r in recipes if tree_seconds(task, r) <= seconds), None)


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
        nets = _with_steps(task, seconds - tree_seconds(task, StackedLogits.recipe(task)), FEWEST)
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
    """The task with as many steps of nets, in tens, as the seconds allow.

    No more pictures are restored than a net has steps, and none where that leaves too few steps.
    """
    for restore in (task.net.restore, 0):
        plan = replace(task, net=replace(task.net, restore=restore))
        steps = task.net.steps
        while steps > fewest and net_seconds(plan, steps) > seconds:
            steps = max(fewest, (steps - 1) // 10 * 10)
        if net_seconds(plan, steps) <= seconds:
            return replace(task, net=replace(task.net, steps=steps, restore=min(steps, restore)))
    return None


def pilot_seconds(task: Task) -> float:
    """What the small trees of the comparison may cost: every image is described once."""
    recipe, pixels = small_recipe(task.recipe), pixels_of(task)
    fits = min(recipe.folds, len(set(task.groups))) * task.labels[0].shape[2]
    return float(fits * forest_seconds(recipe, pixels) + PILOT[task.bank.kind] * pixels)


def _one_stage(recipe: Recipe) -> Recipe:
    return replace(recipe, stages=1)
