"""tarlow2012, sections 7.1 and 7.2: probabilities of aeroplanes, cars, cows and dogs.

Models of a single aeroplane each (figure 1), train/test tables of each class (figures 3 and 5), the
value over time on whole training sets (figure 2), maps and masks (figures 4 and 7), and what
the decision for IoU does (figure 6). No method has a regulariser: logistic regression, Kohli-Torr
training at its best and at its last point, likelihood training by the package's steps and by the
paper's own (Polyak, 0.95). Four fifths of the images are learned from, with 84 features of nodes
and 4 of edges; random halves with the package's 21 linear features stand beside them. Images are
scaled so that the smaller side has 100 pixels. Section 7.3 is in `tarlow2012_five`.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import Floats, Mask
from cutlearn.energy.compiled import probabilities
from cutlearn.energy.model import Model
from cutlearn.energy.problem import Problem
from cutlearn.errors import ConvergenceWarning
from cutlearn.features.featurizer import Featurizer
from cutlearn.learn.run import Step, TrainResult
from cutlearn.learn.train import train
from cutlearn_papers.course import Claim, Course, Figures, Section
from cutlearn_papers.pictures import Pictures, read_pictures
from cutlearn_papers.tarlow2012_features import CONNECTIVITY, Filters
from cutlearn_papers.tarlow2012_five import run_five
from cutlearn_papers.tarlow2012_five_tables import five_claims, five_section
from cutlearn_papers.tarlow2012_judge import (
    Believe,
    Judged,
    Split,
    judge,
    measure_sections,
    summary_of,
    versus_section,
)
from cutlearn_papers.tarlow2012_pictures import (
    draw_changes,
    draw_decisions,
    draw_maps,
    draw_singles,
    draw_training,
)
from cutlearn_papers.tarlow2012_steps import Walk, kohli_torr, polyak
from cutlearn_papers.tarlow2012_tables import (
    SCALES,
    Scale,
    claims_of,
    pairs_section,
    plain_figures,
    single_section,
    time_words,
    words_of,
)

SET = "voc2010_coseg"
TOL = 2e-3
PAIRS = (
    ("likelihood", "logistic"),
    ("likelihood", "kohli-torr, best"),
    ("likelihood", "kohli-torr, last"),
    ("likelihood, Polyak", "kohli-torr, last"),
    ("likelihood, Polyak", "likelihood"),
)
DRAWN = ("kohli-torr, last", "kohli-torr, best", "likelihood")


def problems_of(bank: str, train_on: Pictures, *others: Pictures) -> list[list[Problem]]:
    """Give the problems of the training images and of others, with the former's features.

    bank : "paper", see `tarlow2012_features`, or "linear", the package's own without position.
    """
    if bank == "paper":
        found = Filters.fit(train_on.images)
        return [[found.problem(image) for image in pictures.images]
                for pictures in (train_on, *others)]  # fmt: skip
    maker = Featurizer("linear", position=False, connectivity=CONNECTIVITY)
    maker.fit(train_on.images, train_on.masks)
    return [
        [
            Problem(maker.node_features(image), edge_features=maker.edge_features(image),
                    shape=image.shape[:2], connectivity=CONNECTIVITY)
            for image in pictures.images
        ]
        for pictures in (train_on, *others)
    ]  # fmt: skip


def learn(
    problems: Sequence[Problem],
    masks: Sequence[Mask],
    learner: str,
    steps: int,
    callback: Callable[[Step], None] | None = None,
) -> TrainResult:
    """Learn without a regulariser."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return train(
            problems, masks, learner=learner, C=np.inf, tol=TOL, max_steps=steps, n_jobs=-1,
            callback=callback,
        )  # fmt: skip


def walks_of(
    problems: Sequence[Problem], masks: Sequence[Mask], scale: Scale
) -> tuple[Floats, dict[str, Walk]]:
    """Learn by every method: the weights of logistic regression, and where the others went.

    Those of the package's likelihood training begin with logistic regression and the race of the
    starts, and count their time, but not their values: the race is one of some images. The others
    begin where logistic regression ends.
    """
    first = learn(problems, masks, "logistic", scale.steps).w
    told: list[tuple[float, float]] = []
    begin = time.process_time()

    def tell(step: Step) -> None:
        if step.number:  # 0 while a start is sought
            told.append((time.process_time() - begin, step.objective))

    ours = learn(problems, masks, "likelihood", scale.steps, tell)
    return first, {
        "kohli-torr": kohli_torr(problems, masks, first, scale.fixed_steps),
        "likelihood": Walk(ours.w, ours.w, told),
        "polyak": polyak(problems, masks, first, scale.steps),
    }


def path_of(walk: Walk) -> Floats:
    """Give evaluations, CPU seconds and the best value so far, (3, k)."""
    seconds, values = np.array(walk.told).T
    return np.stack([np.arange(1.0, len(values) + 1), seconds, np.minimum.accumulate(values)])


def single(pictures: Pictures, number: int, scale: Scale) -> Figures:
    """Fit one image with each learner: its value and its path."""
    one = pictures.take([number])
    (problems,) = problems_of("paper", one)
    _, walks = walks_of(problems, one.masks, scale)
    found: Figures = {"logistic": walks["polyak"].told[0][1]}
    for name, walk in walks.items():
        path = path_of(walk)
        found |= {name: float(path[2, -1]), f"{name}|path": path}
    return found


def parted(count: int, seed: int, scale: Scale) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give the numbers of images to learn from, and of those to test.

    With `folds` every image is tested in one of so many splits; without, halves are random.
    """
    if not scale.folds:
        order = np.random.default_rng(seed).permutation(count)
        return order[: count // 2], order[count // 2 :]
    order = np.random.default_rng(0).permutation(count)
    outside = order[seed :: scale.folds]
    return np.setdiff1d(order, outside), outside


def believing(w: Floats) -> Believe:
    """What weights believe."""
    return lambda problem: probabilities(problem, w, n_jobs=-1)


def split(pictures: Pictures, seed: int, shown: bool, scale: Scale) -> Figures:
    """Learn from a part of a class; gives the figures of each method as arrays.

    If it is shown, also the probabilities of the test images by those methods that are drawn.
    """
    inside, outside = parted(len(pictures), seed, scale)
    learnt, unseen = pictures.take(inside), pictures.take(outside)
    problems, other = problems_of(scale.bank, learnt, unseen)
    logistic, walks = walks_of(problems, learnt.masks, scale)
    weights = {
        "logistic": logistic,
        "kohli-torr, last": walks["kohli-torr"].last,
        "kohli-torr, best": walks["kohli-torr"].best,
        "likelihood": walks["likelihood"].best,
        "likelihood, Polyak": walks["polyak"].best,
    }
    found: Figures = {"methods": list(weights), "images": [len(inside), len(outside)]}
    found |= {f"{name}|path": path_of(walk) for name, walk in walks.items()}
    found["logistic|value"] = walks["polyak"].told[0][1]
    for name, w in weights.items():
        believe = believing(w)
        found |= judge(problems, learnt.masks, inside, believe).arrays(f"{name}|train")
        found |= judge(other, unseen.masks, outside, believe).arrays(f"{name}|test")
        if shown and name in DRAWN:
            for i, (problem, mask) in enumerate(zip(other, unseen.masks)):
                q = believe(problem).reshape(*mask.shape, 2)
                found[f"{name}|shown{i}"] = q.astype(np.float32)
    return found


def read_split(part: Figures) -> Split:
    """Read the figures of each method."""
    return {
        name: {half: Judged.read(f"{name}|{half}", part) for half in ("train", "test")}
        for name in part["methods"]
    }


def paired(pictures: Pictures, scale: Scale) -> Figures:
    """Compare Kohli-Torr training with independent ends and with min-marginals of pairs."""
    inside, outside = parted(len(pictures), 0, scale)
    learnt, unseen = pictures.take(inside[: scale.paired]), pictures.take(outside)
    problems, other = problems_of("linear", learnt, unseen)
    first = learn(problems, learnt.masks, "logistic", scale.steps).w
    ours = learn(problems, learnt.masks, "likelihood", scale.steps).w
    found: Figures = {"images": [len(problems), len(other)]}
    weights = {"logistic": first, "likelihood": ours}
    for name, pairs in (("independent ends", False), ("pairs", True)):
        walk = kohli_torr(problems, learnt.masks, first, scale.paired_steps, pairs)
        weights |= {f"{name}, best": walk.best, f"{name}, last": walk.last}
        found[f"{name}|seconds"] = walk.told[-1][0]
        found[f"{name}|values"] = [value for _, value in walk.told]
    for name, w in weights.items():
        inner, outer = (judge(some, part.masks, np.arange(len(some)), believing(w)).once()
                        for some, part in ((problems, learnt), (other, unseen)))  # fmt: skip
        strength = float(np.mean([np.mean(Model().terms(p, w).edges) for p in problems]))
        found[name] = {"train": inner.tolist(), "test": outer.tolist(), "edges": strength}
    return found


class Source:
    """The images of each class at some size, read when the first of their parts is missing."""

    def __init__(self, course: Course) -> None:
        self._folder = course.folder(SET)
        self._known: dict[tuple[str, int], Pictures] = {}

    def __call__(self, name: str, side: int) -> Pictures:
        if (name, side) not in self._known:
            self._known[name, side] = read_pictures(
                self._folder, f"{name}_*", side, values={0: 0, 1: 1}
            )
        return self._known[name, side]

    def later(self, name: str, side: int, work: Callable[..., Figures], *more: Any) -> Any:
        """Give the work on the images of a class, to be done later."""
        return lambda: work(self(name, side), *more)


def run(course: Course) -> Figures:
    """Run all parts; leave tables and pictures."""
    scale, beside = SCALES[course.scale]
    source = Source(course)
    ask = partial(source.later, side=scale.side)
    five = run_five(course, {n: ask(n, work=lambda p: p) for n in scale.classes}, scale)
    sections, claims, figures = two_labels(course, source, scale, beside)
    return course.finish(
        [*sections, five_section(five, scale)], [*claims, *five_claims(five)],
        figures | {"five labels": five},
    )  # fmt: skip


def two_labels(
    course: Course, source: Source, scale: Scale, beside: Scale
) -> tuple[list[Section], list[Claim], Figures]:
    """Sections 7.1 and 7.2: run all parts; give tables, claims and figures."""
    count = min(scale.singles, len(source("aeroplane", scale.side)))
    singles = course.parts(
        "singles",
        {f"aeroplane {k}": source.later("aeroplane", scale.side, single, k, scale)
         for k in range(count)}, **scale.settings,
    )  # fmt: skip
    tables = {
        table: splits_of(course, table, source, size)
        for table, size in (("splits", scale), ("linear halves", beside))
    }
    pairs = course.parts(
        "pairs", {"cows": source.later("cow", scale.paired_side, paired, scale)}, **scale.settings,
        paired=[scale.paired, scale.paired_side, scale.paired_steps],
    )["cows"]  # fmt: skip
    parts = tables["splits"]
    summaries, others = (
        {name: summary_of([read_split(one) for one in several.values()],
                          len(source(name, size.side)))
         for name, several in tables[table].items()}
        for table, size in (("splits", scale), ("linear halves", beside))
    )  # fmt: skip
    alone = list(singles.values())
    sections = [
        single_section(alone, [course.picture("singles", draw_singles(alone))]),
        training_section(course, parts),
        *measure_sections(summaries, words_of(scale, parts)),
        versus_section(summaries, PAIRS, "Methods against each other, paired by image"),
        versus_section(others, PAIRS, "The same with 21 linear features and random halves",
                       words_of(beside, tables["linear halves"])),
        pairs_section(pairs, scale),
        shown_section(course, parts["dog"]["dog 0"], source("dog", scale.side), scale),
    ]  # fmt: skip
    figures = {
        "single": [{k: v for k, v in one.items() if "|" not in k} for one in alone],
        "splits": plain_figures(summaries), "linear halves": plain_figures(others),
        "pairs": pairs,
    }  # fmt: skip
    return sections, claims_of(alone, summaries), figures


def splits_of(
    course: Course, table: str, source: Source, scale: Scale
) -> dict[str, dict[str, Figures]]:
    """Run the splits of a table; give the parts of each class."""
    works = {
        f"{name} {seed}": source.later(
            name, scale.side, split, seed, scale.bank == "paper" and (name, seed) == ("dog", 0),
            scale)
        for seed in range(scale.splits) for name in scale.classes
    }  # fmt: skip
    parts = course.parts(table, works, **scale.settings)
    return {name: {f"{name} {seed}": parts[f"{name} {seed}"] for seed in range(scale.splits)}
            for name in scale.classes}  # fmt: skip


def training_section(course: Course, parts: dict[str, dict[str, Figures]]) -> Section:
    """Figure 2: the best value over time on the training images of each class, one split."""
    firsts = {name: next(iter(several.values())) for name, several in parts.items()}
    learners = ("kohli-torr", "polyak", "likelihood")
    runs, rows = {}, []
    for name, first in firsts.items():
        runs[name] = {learner: first[f"{learner}|path"] for learner in learners}
        told = [f"{path[2, -1]:.4f} ({path[1, -1]:.0f} s)" for path in runs[name].values()]
        rows.append([name, f"{first['logistic|value']:.4f}", *told])
    words = ("Negative log-likelihood of the training images of the first split at the best "
             "point, and CPU seconds of the whole run: for likelihood training with its logistic "
             "regression and the race of its starts, after which its curve begins; for the others "
             "from logistic regression on.")  # fmt: skip
    base = {name: first["logistic|value"] for name, first in firsts.items()}
    drawn = course.picture("training", draw_training(runs, base))
    return Section("Whole training sets (figure 2)", ["class", "logistic", *learners], rows,
                   words, [drawn])  # fmt: skip


def shown_section(course: Course, part: Figures, dogs: Pictures, scale: Scale) -> Section:
    """Figures 4, 6 and 7: test dogs of the first split."""
    unseen = dogs.take(parted(len(dogs), 0, scale)[1])
    found = {name: [part[f"{name}|shown{i}"] for i in range(len(unseen))] for name in DRAWN}
    first = course.picture("decisions", draw_decisions(found, unseen.masks))
    photographs = [
        course.picture("maps", draw_maps(unseen, found)),
        course.picture("changes", draw_changes(unseen, found["likelihood"])),
    ]
    return Section("What the decision does to dogs (figures 4, 6 and 7)", words=time_words(part),
                   pictures=[first], photographs=photographs)  # fmt: skip
