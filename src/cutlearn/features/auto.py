"""features="auto": which source of logits, chosen by held-out images within a budget.

The nets are trained first. Small trees (`TreeProbe`) are grown on a few thousand drawn pixels, so
that they cost a fraction of full trees. The nets' out-of-fold logits, those of the small trees and
the mean of the two are compared on these pixels: each comes from one model that never saw the
image, so like is compared with like, though the nets' mean over folds and the full trees will both
do better on new images. The mean stands for "stacked", which is compared with the nets once more
when it is fitted, and with the mean itself, which then stands for "both". See
docs/decisions/0017-features-within-a-budget.md and 0027. If there is a pretrained network and
time for it, its head comes first: on photographs it is taken at once where it is far better than
the small trees; otherwise it is compared with the source that the others lead to
(docs/decisions/0057-pretrained-features.md).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from cutlearn.arrays import Float32, Floats, Indices, Mask
from cutlearn.errors import InputError, quoted
from cutlearn.features import BUDGETS
from cutlearn.features.boosted import draw_rows, forest_seconds, shrink_labels
from cutlearn.features.columns import Stack, sampled
from cutlearn.features.describe import Bank, Picture, shrink
from cutlearn.features.folds import Answers, make_folds
from cutlearn.features.net.learn import NetRecipe
from cutlearn.features.sources import (
    BothLogits,
    NetLogits,
    NoLogits,
    Parts,
    PretrainedLogits,
    Source,
    StackedLogits,
    Task,
    TreeLogits,
    net_seconds,
    tree_seconds,
)
from cutlearn.features.trees import MultiTargetTrees, Recipe, Trees, grow_on
from cutlearn.loaded import mapped
from cutlearn.metrics import Figure, iou_of, left_out
from cutlearn.run.cache import Form, map_cached
from cutlearn.run.progress import Counter

# The small trees: no more than these of a recipe.
PROBE_LIMITS = {"stages": 1, "rows": 20_000, "copies": 0, "folds": 3}
# How often trees are better for micrographs, about.
RARELY = 0.2
FULL, SMALL = 2.4e6, 0.5e6  # pixels: more get more time, fewer get less
# Fewest steps of nets that are compared with trees, and that are worth having at all; and the most
# that a budget pays for.
FEWEST, LEAST, MOST = 150, 80, 900
# Budgets for which several questions have trees only: nets cost them more than all else.
TOGETHER_ONLY = ("fast", "normal")
WHY_TOGETHER = "trees: they answer for all labels at once; budget best compares them with nets"
# How far ahead of "stacked" the mean must be for "both": trees over nets gain more on new images
# than held-out ones can tell, since they see the mean of all nets there and the word of one here
# (docs/decisions/0036-both-among-the-candidates.md).
BOTH_MARGIN = 0.03
# How far ahead of small trees a pretrained network must be on photographs to be taken without a
# comparison with nets.
PRETRAINED_MARGIN = 0.10
# How far the favourite of a kind is ahead of another source on new images, how far this differs
# from set to set, and how far a gain on held-out images is off beyond its spread over them; IoU of
# few images of four sets (docs/decisions/0055-a-choice-of-least-regret.md).
# The same distance decides between a pretrained network and the other sources.
LEAD, SPREAD, ERROR = 0.028, 0.083, 0.062
# Seconds in which a pixel is described for the few rows of the small trees.
PROBE_SECONDS = {"photograph": 1e-6, "microscopy": 1e-6}
AUTO_NET, NAMED_NET = NetRecipe(steps=MOST), NetRecipe()
# Logits of drawn pixels, by image, then by question.
DrawnLogits = list[list[Float32]]
K = TypeVar("K")
# How the work is kept: rows of an image by question, trees of a question without a fold.
ROWS: Form[int, list[Float32]] = Form(
    lambda i: f"rows{i}",
    lambda rows: ({}, {f"rows{t}": part for t, part in enumerate(rows)}),
    lambda _, arrays: [arrays[f"rows{t}"] for t in range(len(arrays))],
)
FOREST: Form[tuple[int, int], Trees] = Form(
    lambda job: f"trees{job[0]}-{job[1]}",
    lambda trees: ({}, trees.arrays()),
    lambda _, arrays: Trees.of_arrays(arrays),
)


def small_recipe(recipe: Recipe) -> Recipe:
    """Return the recipe of the small trees: no larger in anything than the given one."""
    return replace(recipe, **{k: min(v, getattr(recipe, k)) for k, v in PROBE_LIMITS.items()})


@dataclass(frozen=True)
class DrawnPixels:
    """Pixels of an image for one question: where, their labels, what each stands for."""

    index: Indices
    labels: Mask
    weights: Floats

    @staticmethod
    def of(labels: Mask, quota: int, seed: Sequence[int]) -> "DrawnPixels":
        """Draw up to `quota` pixels of (h, w) labels, as many of each label as there are."""
        index = draw_rows(labels[..., None], quota, seed)
        seen = labels.reshape(-1)[index]
        weights = np.zeros(len(index))
        for label in (0, 1):
            of_label = seen == label
            weights[of_label] = (labels == label).sum() / max(1, int(of_label.sum()))
        return DrawnPixels(index, seen, weights)


@dataclass(frozen=True)
class TreeProbe:
    """Drawn pixels by image and question, and the logits of small trees that did not see them."""

    drawn: list[list[DrawnPixels]]
    trees: DrawnLogits
    scale: int

    @staticmethod
    def fit(task: Task) -> "TreeProbe":
        """Draw pixels and grow small trees on them, without each fold in turn."""
        recipe, scale = small_recipe(task.recipe), task.bank.scale
        quota = max(2, recipe.rows // len(task.images))
        questions = range(task.labels[0].shape[2])
        small = mapped(lambda labels: shrink_labels(labels, scale), task.labels)
        drawn = [
            [DrawnPixels.of(labels[..., t], quota, (task.seed, 7, i, t)) for t in questions]
            for i, labels in enumerate(small)
        ]
        fold = make_folds(task.groups, recipe.folds, task.seed)
        every = range(len(task.images))
        jobs = [(t, k) for t in questions for k in range(1 + int(fold.max()))]
        counter, cache = Counter(task.progress, len(every) + len(jobs)), task.cache
        images, extras = (task.place.by_reference(one) for one in (task.images, task.extras))
        rows = map_cached(
            partial(_rows_of, task.bank),
            lambda i: (images[i], extras[i], [part.index for part in drawn[i]]),
            every, task.place, cache, ROWS, counter, "try trees",
        )  # fmt: skip

        growers = []
        for t in questions:
            counts = [np.array([[(y[..., t] == v).sum() for v in (0, 1)]]) for y in small]
            growers.append(
                MultiTargetTrees([part[t].labels[:, None] for part in drawn], counts, recipe)
            )
            growers[t].add([part[t] for part in rows], task.place.threads)
        held = task.place.hold(growers)

        def without(job: tuple[int, int]) -> Any:
            return held[job[0]], [i for i in every if fold[i] != job[1]], task.seed

        trees = map_cached(grow_on, without, jobs, task.place, cache, FOREST, counter, "try trees")
        grown = dict(zip(jobs, trees))
        trees_logits = [
            [grown[t, int(fold[i])].evaluate_rows(rows[i][t])[0].astype(np.float32)
             for t in questions]
            for i in every
        ]  # fmt: skip
        return TreeProbe(drawn, trees_logits, scale)

    def seen(self, maps: Sequence[Answers]) -> DrawnLogits:
        """Return the last logits of each image and question at the drawn pixels."""
        return [
            [
                np.asarray(shrink(logits[-1], self.scale)).reshape(-1)[part.index]
                for logits, part in zip(answers, drawn)
            ]
            for answers, drawn in zip(maps, self.drawn)
        ]

    def mean_with(self, found: DrawnLogits) -> DrawnLogits:
        """Return the mean of other logits and of the trees' own."""
        half = np.float32(0.5)
        return [[half * a + half * b for a, b in zip(*pair)] for pair in zip(found, self.trees)]

    def tables(self, found: DrawnLogits, groups: Sequence[int]) -> Floats:
        """Return counts of true and found labels at the best thresholds, (groups, T, 2, 2)."""
        made = np.zeros((len(found), len(found[0]), 2, 2))
        for t in range(len(found[0])):
            parts = [drawn[t] for drawn in self.drawn]
            threshold = best_threshold(
                [part[t] for part in found],
                [part.labels for part in parts],
                [part.weights for part in parts],
            )
            for i, part in enumerate(parts):
                place = (part.labels, (found[i][t] >= threshold).astype(np.uint8))
                np.add.at(made[i, t], place, part.weights)
        number = np.asarray(groups)
        return np.stack([made[number == g].sum(axis=0) for g in np.unique(number)])


def _rows_of(bank: Bank, given: Any) -> list[Float32]:
    """Return rows of an image with its extra channels, at the drawn places of every question."""
    image, extra, places = given
    picture = Picture(shrink(image, bank.scale))
    base = bank.stack(picture, shrink(extra, bank.scale))
    return sampled(base, [Stack(picture.shape) for _ in places], places)


def best_threshold(
    logits: Sequence[Float32],
    truth: Sequence[Mask],
    weights: Sequence[Floats],
) -> float:
    """Return the threshold of the best pooled IoU of label 1, of pixels with weights.

    Examples
    --------
    >>> import numpy as np
    >>> z, truth = np.array([0.1, 0.5, 0.4, 0.9], np.float32), np.array([0, 0, 1, 1], np.uint8)
    >>> round(best_threshold([z], [truth], [np.ones(4)]), 3)
    0.4
    """
    z, weight = np.concatenate(list(logits)), np.concatenate(list(weights))
    ones = weight * (np.concatenate(list(truth)) == 1)
    order = np.argsort(-z, kind="stable")
    right, found = np.cumsum(ones[order]), np.cumsum(weight[order])
    either = max(float(ones.sum()), 1e-9) + found - right
    return float(z[order[np.argmax(right / either)]])


def mean_iou(tables: Floats) -> Floats:
    """Return the mean IoU over questions."""
    return np.asarray(iou_of(tables).mean(axis=-1))


def clearly_best(
    values: Mapping[K, Floats],
    default: K,
    metric: Figure,
    least: Callable[[float], float] = float,
) -> K:
    """Return the best choice if it gains more over the default than chance does, else the default.

    Parameters
    ----------
    values : mapping
        Of every choice what adds up over images or groups, (n, ...).
    metric : callable
        What is taken of the sums; more is better.
    least : callable (deviation), default float
        The gain that is too small, by the jackknife deviation of the gain over images. By default
        one deviation.

    Examples
    --------
    >>> from cutlearn.metrics import means, ratio
    >>> values = {"usual": means([0.5, 0.6, 0.7]), "other": means([0.5, 0.9, 0.45])}
    >>> clearly_best(values, "usual", ratio)
    'usual'
    """
    whole = {choice: float(metric(part.sum(axis=0))) for choice, part in values.items()}
    best = max(values, key=lambda choice: whole[choice])
    gains = left_out(values[best], metric) - left_out(values[default], metric)
    n = len(gains)
    deviation = float(np.sqrt((n - 1) / n * np.sum((gains - gains.mean()) ** 2)))
    return best if whole[best] - whole[default] > least(deviation) else default


@dataclass(frozen=True)
class Choice:
    """What was chosen and why; `task` has the recipes that the budget allows."""

    mode: str
    why: str
    task: Task


def usual_net(mode: str) -> NetRecipe:
    """Return the default recipe of nets; with "auto" the budget decides the number of steps."""
    return AUTO_NET if mode == "auto" else NAMED_NET


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
    """Return the seconds that a budget means for the images of a task."""
    if not isinstance(budget, str):
        return float(budget)
    pixels = task.pixels
    return BUDGETS[budget] * min(1.0, pixels / SMALL) * max(1.0, pixels / FULL)


def fit_auto(task: Task, budget: str | float) -> tuple[Choice, Source, Sequence[Answers]]:
    """Choose a source within the budget, and fit it."""
    seconds = seconds_of(budget, task)
    if task.backbone is None:
        return _fit_learned(task, seconds, budget)
    cost, probing = PretrainedLogits.seconds(task), probe_seconds(task)
    if cost + probing > seconds:
        return _fit_learned(task, seconds, budget)
    parts = Parts(task, [cost, probing, max(seconds - cost - probing, 1.0)])
    network, answers = PretrainedLogits.fit(parts.next())
    probe = TreeProbe.fit(parts.next())
    own = probe.tables(probe.seen(answers), task.groups)
    small = probe.tables(probe.trees, task.groups)
    ahead = {"pretrained": own, "trees": small}
    ours, theirs = (100 * float(mean_iou(table.sum(axis=0))) for table in (own, small))
    title = f"pretrained ({network.backbone.name})"
    measured = "pooled IoU of held-out images in %: pretrained"
    if task.bank.kind == "photograph" and clearly_best(
        ahead, "trees", mean_iou, lambda deviation: PRETRAINED_MARGIN
    ) == "pretrained":  # fmt: skip
        parts.report("chose pretrained", True)
        why = f"{title}: {measured} {ours:.1f}, small trees {theirs:.1f}"
        return Choice("pretrained", why, task), network, answers
    left = seconds - cost - probing
    choice, source, maps = _fit_learned(parts.next(), left, budget, probe)
    if not maps[0]:  # nothing else had time
        why = f"{title}: no time for other sources; {measured} {ours:.1f}"
        return Choice("pretrained", why, task), network, answers
    other = probe.tables(probe.seen(maps), task.groups)
    both = {choice.mode: other, "pretrained": own}
    theirs = 100 * float(mean_iou(other.sum(axis=0)))
    compared = f"{measured} {ours:.1f}, {choice.mode} {theirs:.1f}"
    if clearly_best(both, choice.mode, mean_iou, least_gain) == "pretrained":
        return Choice("pretrained", f"{title}: {compared}", task), network, answers
    return replace(choice, why=f"{choice.why}; {compared}"), source, maps


def _fit_learned(
    task: Task, seconds: float, budget: str | float, probe: TreeProbe | None = None
) -> tuple[Choice, Source, Sequence[Answers]]:
    """Choose among the sources that learn from these images alone, and fit the chosen one."""
    plan = None if _together(task, budget) else _compared(task, seconds)
    if plan is None:
        choice = _unseen(task, seconds, budget)
        source, maps = SIMPLE[choice.mode].fit(choice.task)
        return choice, source, maps
    parts = Parts(plan, _costs(plan, seconds))
    net, first = NetLogits.fit(parts.next())
    probing = parts.next()
    probe = probe or TreeProbe.fit(probing)
    mode, why = judge(plan, probe.seen(first), probe)
    parts.report(f"chose {mode}", mode == "net")
    choice = Choice(mode, why, plan)
    if mode == "net":
        return choice, net, first
    if mode == "trees":
        grown = TreeLogits.fit(_with_stages(parts.next(), seconds))
        parts.report("chose trees", True)
        return choice, *grown
    stacked, maps = StackedLogits.over(parts.next(), net, first)
    # The mean only stood for it: now its own logits of held-out images are known.
    own, before = (probe.tables(probe.seen(m), plan.groups) for m in (maps, first))
    if clearly_best({"stacked": own, "net": before}, "stacked", mean_iou, least_gain) == "net":
        why = f"net: better than trees on top of it; before, {why}"
        return replace(choice, mode="net", why=why), net, first
    mean = probe.tables(probe.mean_with(probe.seen(first)), plan.groups)
    trees, both = _trees_next_to_nets(plan, seconds), {"stacked": own, "both": mean}
    ahead = (
        clearly_best(both, "stacked", mean_iou, lambda deviation: BOTH_MARGIN + deviation) == "both"
    )
    if trees is None or not ahead:
        parts.report("chose stacked", True)
        return choice, stacked, maps
    parts.report("chose both", False)
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


def judge(task: Task, net: DrawnLogits, probe: TreeProbe) -> tuple[str, str]:
    """Compare out-of-fold logits of nets and of small trees; return a mode, and why in a sentence.

    The kind of images has a favourite: nets for micrographs, both for photographs. Another one is
    taken if its pooled IoU is better by more than `least_gain`.
    """
    found = {"net": net, "trees": probe.trees, "stacked": probe.mean_with(net)}
    tables = {mode: probe.tables(logits, task.groups) for mode, logits in found.items()}
    whole = {mode: float(mean_iou(part.sum(axis=0))) for mode, part in tables.items()}
    prior = "stacked" if task.bank.kind == "photograph" else "net"
    best = max(whole, key=lambda mode: whole[mode])
    chosen = clearly_best(tables, prior, mean_iou, least_gain)
    figures = ", ".join(
        f"{name} {100 * whole[mode]:.1f}"
        for mode, name in (("net", "net"), ("trees", "small trees"), ("stacked", "their mean"))
    )
    kind = "photographs" if task.bank.kind == "photograph" else "micrographs"
    reason = "the best" if chosen == best else f"usual for {kind}, and no other is clearly better"
    return chosen, f"{chosen}: {reason}; pooled IoU of held-out images in %: {figures}"


def auto_seconds(task: Task, budget: str | float) -> float:
    """Return what "auto" may cost, if it chooses what is usual for the kind of images."""
    seconds = seconds_of(budget, task)
    if (
        task.backbone is not None
        and PretrainedLogits.seconds(task) + probe_seconds(task) <= seconds
    ):
        return seconds
    plan = None if _together(task, budget) else _compared(task, seconds)
    if plan is not None:
        return sum(_costs(plan, seconds))
    choice = _unseen(task, seconds, budget)
    return SIMPLE[choice.mode].seconds(choice.task)


def _costs(task: Task, seconds: float) -> list[float]:
    """Return what nets, small trees, the usual next source and, rarely, "both" may cost."""
    last, more = tree_seconds(task, StackedLogits.recipe(task)), _trees_next_to_nets(task, seconds)
    if task.bank.kind == "microscopy":
        last *= RARELY
    rarely = 0.0 if more is None else RARELY * tree_seconds(task, more)
    return [net_seconds(task, task.net.steps), probe_seconds(task), last, rarely]


def _compared(task: Task, seconds: float) -> Task | None:
    """Return the task with as many steps of nets as a comparison allows; None: too few."""
    rest = seconds - probe_seconds(task) - tree_seconds(task, StackedLogits.recipe(task))
    return _with_steps(task, rest, FEWEST)


def _with_stages(task: Task, seconds: float) -> Task:
    """Return the task with trees of as many stages as the comparison left time for."""
    spent = net_seconds(task, task.net.steps) + probe_seconds(task)
    return replace(task, recipe=_most(task, seconds - spent) or StackedLogits.recipe(task))


def _trees_next_to_nets(task: Task, seconds: float) -> Recipe | None:
    """Return the recipe of trees next to nets, if those on top of them have left time for any."""
    spent = net_seconds(task, task.net.steps) + probe_seconds(task)
    return _most(task, seconds - spent - tree_seconds(task, StackedLogits.recipe(task)))


def _most(task: Task, seconds: float) -> Recipe | None:
    """Return the recipe of trees with as many stages as the seconds allow; None: not even one."""
    recipes = (task.recipe, _one_stage(task.recipe))
    return next((r for r in recipes if tree_seconds(task, r) <= seconds), None)


def _together(task: Task, budget: str | float) -> bool:
    """Return whether there are several questions, and no time for nets that answer them."""
    return task.labels[0].shape[2] > 1 and budget in TOGETHER_ONLY


def _unseen(task: Task, seconds: float, budget: str | float) -> Choice:
    """Choose what is usual for the kind, without a comparison, as far as the budget allows."""
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
    """Return the task with as many steps of nets, in tens, as the seconds allow.

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


def probe_seconds(task: Task) -> float:
    """Return what the small trees of the comparison may cost: every image is described once."""
    recipe, pixels = small_recipe(task.recipe), task.pixels
    fits = min(recipe.folds, len(set(task.groups))) * task.labels[0].shape[2]
    return float(fits * forest_seconds(recipe, pixels) + PROBE_SECONDS[task.bank.kind] * pixels)


def _one_stage(recipe: Recipe) -> Recipe:
    return replace(recipe, stages=1)
