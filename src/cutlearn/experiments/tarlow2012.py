"""tarlow2012, section 7: probabilities of aeroplanes, cars, cows and dogs, learned by likelihood.

Models of a single aeroplane each (figure 1), their training (figure 2), train/test tables for half
of the images of each class (figures 3 and 5), and what the decision for IoU does (figure 6). The
paper's rows have no regulariser: logistic regression, Kohli-Torr training at its best and at its
last point, likelihood training by the package's steps and by the paper's own (Polyak, 0.95). What a
user would do is beside them: C chosen on held-out images, a temperature fitted on them, and
likelihood training on logits that have not seen their image. Images are scaled so that the smaller
side has 100 pixels; features are the linear bank without position (21 columns; the paper had 84 of
colour and texture), four edge features, 4-connected.
"""

import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.energy.model import Model, unary_of
from cutlearn.energy.probability import probabilities
from cutlearn.errors import ConvergenceWarning
from cutlearn.experiments.course import Course, Figures, Section
from cutlearn.experiments.pictures import Pictures, read_pictures
from cutlearn.experiments.tarlow2012_judge import (
    Believe,
    Judged,
    Split,
    judge,
    measure_sections,
    summary_of,
    versus_section,
)
from cutlearn.experiments.tarlow2012_pictures import draw_decisions, draw_singles, draw_training
from cutlearn.experiments.tarlow2012_polyak import polyak
from cutlearn.experiments.tarlow2012_tables import (
    LEARNERS,
    Scale,
    claims_of,
    plain_figures,
    single_section,
    time_words,
    words_of,
)
from cutlearn.features.featurizer import Featurizer
from cutlearn.features.problem import Problem
from cutlearn.learn.results import Step, TrainResult
from cutlearn.learn.train import train
from cutlearn.model.fitting.selection import Chosen, Plan, choose
from cutlearn.model.probability.evidence import alone

Mask = NDArray[np.uint8]
Image = NDArray[np.float32]
Floats = NDArray[np.float64]

SET, CONNECTIVITY = "voc2010_coseg", 4

SCALES = {
    "full": Scale(),
    "brief": Scale(side=70, singles=8, splits=3, steps=40, fixed_steps=30, users=False),
    "quick": Scale(40, ("aeroplane", "dog"), 2, 1, 30, 15),
}
TOL = 2e-3
# Runs from which C is chosen need not end as well, and held-out parts of the training images.
CHOICE_TOL, FOLDS = 3e-2, 5
# Single images whose training is drawn.
SHOWN = 4
PAIRS = (
    ("likelihood", "logistic"),
    ("likelihood", "kohli-torr, best"),
    ("likelihood", "kohli-torr, last"),
    ("likelihood, Polyak", "kohli-torr, last"),
    ("likelihood, Polyak", "likelihood"),
    ("likelihood, C chosen", "logistic, C chosen"),
    ("likelihood, calibrated", "logistic, calibrated"),
    ("likelihood on held-out logits", "logistic on held-out logits"),
)
# Those of the paper, and what a user would do.
DRAWN = ("kohli-torr, last", "likelihood", "likelihood on held-out logits")


def problems_of(train_on: Pictures, *others: Pictures) -> list[list[Problem]]:
    """Give the problems of the training images and of others, with the former's features."""
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


@dataclass(frozen=True, eq=False)
class Fit:
    """A run: its value; evaluations, CPU seconds and the best value so far, (3, k)."""

    objective: float
    path: Floats


def learn(
    problems: Sequence[Problem],
    masks: Sequence[Mask],
    learner: str,
    scale: Scale,
    callback: Callable[[Step], None] | None = None,
) -> TrainResult:
    """Learn without a regulariser."""
    steps = scale.fixed_steps if learner == "kohli-torr" else scale.steps
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return train(
            problems, masks, learner=learner, C=np.inf, tol=TOL, max_steps=steps, n_jobs=-1,
            callback=callback,
        )  # fmt: skip


def single(pictures: Pictures, number: int, scale: Scale) -> Figures:
    """Fit one image with each learner: its value and its path."""
    one = pictures.take([number])
    (problems,) = problems_of(one)
    found: Figures = {}
    for name in LEARNERS:
        fit = traced(problems, one.masks, name, scale)
        found |= {name: fit.objective, f"{name}|path": fit.path}
    w = learn(problems, one.masks, "logistic", scale).w
    path = path_of(polyak(problems, one.masks, w, scale.steps)[1])
    return found | {"polyak": float(path[2, -1]), "polyak|path": path}


def traced(problems: Sequence[Problem], masks: Sequence[Mask], learner: str, scale: Scale) -> Fit:
    """Learn, and note every evaluation, those of logistic regression and of the race too."""
    told: list[tuple[float, float]] = []
    begin = time.process_time()
    result = learn(
        problems, masks, learner, scale,
        lambda step: told.append((time.process_time() - begin, step.objective)),
    )  # fmt: skip
    return Fit(result.objective, path_of(told))


def path_of(told: Sequence[tuple[float, float]]) -> Floats:
    """Give evaluations, CPU seconds and the best value so far, (3, k)."""
    seconds, values = np.array(told).T
    return np.stack([np.arange(1.0, len(told) + 1), seconds, np.minimum.accumulate(values)])


def halves(pictures: Pictures, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give the numbers of a random half to learn from, and the rest."""
    order = np.random.default_rng(seed).permutation(len(pictures.images))
    half = len(order) // 2
    return order[:half], order[half:]


def methods_of(
    problems: Sequence[Problem], masks: Sequence[Mask], scale: Scale
) -> dict[str, Believe]:
    """Learn by each method; gives what it believes of a problem."""
    kohli_torr = learn(problems, masks, "kohli-torr", scale)
    assert kohli_torr.last_w is not None
    logistic = learn(problems, masks, "logistic", scale).w
    found = {
        "logistic": believing(logistic),
        "kohli-torr, last": believing(kohli_torr.last_w),
        "kohli-torr, best": believing(kohli_torr.w),
        "likelihood": believing(learn(problems, masks, "likelihood", scale).w),
        "likelihood, Polyak": believing(polyak(problems, masks, logistic, scale.steps)[0]),
    }
    return found | (users(problems, masks, scale) if scale.users else {})


def users(problems: Sequence[Problem], masks: Sequence[Mask], scale: Scale) -> dict[str, Believe]:
    """Learn as a user would; gives what each method believes of a problem."""
    logistic, likelihood = (chosen(problems, masks, name) for name in ("logistic", "likelihood"))
    stacked = stacked_problems(problems, masks, logistic.result.C)
    return {
        "logistic, C chosen": believing(logistic.w),
        "likelihood, C chosen": believing(likelihood.w),
        "logistic, calibrated": calibrated(logistic),
        "likelihood, calibrated": calibrated(likelihood),
        **{
            f"{name} on held-out logits": believing(
                learn(stacked, masks, name, scale).w, logistic.w
            )
            for name in ("logistic", "likelihood")
        },
    }


def chosen(problems: Sequence[Problem], masks: Sequence[Mask], learner: str) -> Chosen:
    """Learn with the C that gives held-out images the largest likelihood."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return choose(problems, masks, Plan(learner=learner, tol=CHOICE_TOL, n_jobs=-1))


def believing(w: Floats, first: Floats | None = None) -> Believe:
    """What weights believe; of the logits of `first`, if there are such."""

    def believe(problem: Problem) -> Floats:
        seen = problem if first is None else with_logits(problem, unary_of(problem, first))
        return probabilities(seen, w, n_jobs=-1)

    return believe


def calibrated(found: Chosen) -> Believe:
    """What weights believe at the temperature of held-out images."""
    return lambda problem: found.calibration.probabilities(
        Model().min_marginals(problem, found.w), alone(Model(), problem, found.w)
    )


def with_logits(problem: Problem, logits: Floats) -> Problem:
    """Give the problem with two node features: 1 and a logit."""
    return Problem(
        np.stack([np.ones_like(logits), logits], axis=-1), edge_features=problem.edge_features,
        shape=problem.shape, connectivity=problem.connectivity,
    )  # fmt: skip


def stacked_problems(problems: Sequence[Problem], masks: Sequence[Mask], C: float) -> list[Problem]:
    """Give the problems with logits of logistic regressions that have not seen their image."""
    out: dict[int, Problem] = {}
    numbers = range(len(problems))
    for fold in range(min(FOLDS, len(problems))):
        kept = [i for i in numbers if i % FOLDS != fold]
        w = train(
            [problems[i] for i in kept], [masks[i] for i in kept],
            learner="logistic", C=C, tol=TOL, n_jobs=-1,
        ).w  # fmt: skip
        for i in numbers[fold::FOLDS]:
            out[i] = with_logits(problems[i], unary_of(problems[i], w))
    return [out[i] for i in numbers]


def split(pictures: Pictures, seed: int, shown: bool, scale: Scale) -> Figures:
    """Learn from a random half; gives the figures of each method as arrays.

    If it is shown, also the probabilities of the test images by those methods that figure 6 draws.
    """
    inside, outside = halves(pictures, seed)
    learnt, unseen = pictures.take(inside), pictures.take(outside)
    problems, other = problems_of(learnt, unseen)
    found: Figures = {"methods": []}
    for name, believe in methods_of(problems, learnt.masks, scale).items():
        found["methods"].append(name)
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


def seconds_of(work: Callable[[], Any]) -> tuple[float, float]:
    """Wall-clock and CPU seconds of some work."""
    begin, spent = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - begin, time.process_time() - spent


def timings(dogs: Pictures, scale: Scale) -> Figures:
    """Seconds of likelihood training on all dogs, and of probabilities with five labels."""
    (problems,) = problems_of(dogs)
    result: list[TrainResult] = []
    spent = seconds_of(lambda: result.append(learn(problems, dogs.masks, "likelihood", scale)))
    # Five fields with other unaries, and a contrast as strong as cows and aeroplanes have it.
    rng, F = np.random.default_rng(0), problems[0].n_node_features
    rows = np.tile(result[0].w, (5, 1))
    rows[1:, :F] *= rng.uniform(-1, 1, (4, F))
    rows[:, F + 1] = 1.0
    five = []
    for problem in problems:
        ask = partial(probabilities, problem, rows.ravel(), Model(labels="surrogate"), n_jobs=-1)
        five.append(seconds_of(ask))
    return {
        "dogs": len(problems),
        "steps": len(result[0].steps),
        "training_seconds": spent[0],
        "training_cpu": spent[1],
        "five_labels_seconds": statistics.median(wall for wall, _ in five),
        "five_labels_cpu": statistics.median(cpu for _, cpu in five),
    }


class Source:
    """The images of each class, read when the first of their parts is missing."""

    def __init__(self, course: Course, scale: Scale) -> None:
        self.scale = scale
        self._folder = course.folder(SET)
        self._known: dict[str, Pictures] = {}

    def __getitem__(self, name: str) -> Pictures:
        if name not in self._known:
            self._known[name] = read_pictures(
                self._folder, f"{name}_*", self.scale.side, values={0: 0, 1: 1}
            )
        return self._known[name]

    def __call__(
        self, name: str, work: Callable[..., Figures], *more: Any
    ) -> Callable[[], Figures]:
        """Give the work on the images of a class, to be done later."""
        return lambda: work(self[name], *more, self.scale)


def run(course: Course) -> Figures:
    """Run the single fits, the halves and the timings; leave tables and three pictures."""
    scale = SCALES[course.scale]
    source = Source(course, scale)
    settings = {"side": scale.side, "steps": scale.steps, "users": scale.users, "place": False}
    numbers = range(min(scale.singles, len(source["aeroplane"])))
    singles = course.parts(
        "singles", {f"aeroplane {k}": source("aeroplane", single, k) for k in numbers}, **settings
    )
    works = {
        f"{name} {seed}": source(name, split, seed, (name, seed) == ("dog", 0))
        for seed in range(scale.splits) for name in scale.classes
    }  # fmt: skip
    parts = course.parts("splits", works, **settings)
    spent = course.parts("timings", {"all dogs": source("dog", timings)}, **settings)["all dogs"]
    summaries = {
        name: summary_of(
            [read_split(parts[f"{name} {seed}"]) for seed in range(scale.splits)],
            len(source[name]),
        )
        for name in scale.classes
    }
    alone = list(singles.values())
    first = single_section(alone, [
        course.picture("singles", draw_singles(alone)),
        course.picture("training", draw_training(paths_of(alone[:SHOWN]))),
    ])  # fmt: skip
    tables = measure_sections(summaries, words_of(scale))
    figure = draw_decisions(*shown_of(parts["dog 0"], source["dog"]))
    last = Section("What the decision does to dogs (figure 6)", words=time_words(spent),
                   pictures=[course.picture("decisions", figure)])  # fmt: skip
    figures = {
        "single": [{k: v for k, v in one.items() if "|" not in k} for one in alone],
        "splits": plain_figures(summaries), "time": spent,
    }  # fmt: skip
    sections = [first, *tables, versus_section(summaries, PAIRS), last]
    return course.finish(sections, claims_of(alone, summaries, spent), figures)


def paths_of(fits: Sequence[Figures]) -> dict[str, list[Floats]]:
    """Give the paths of runs in units of the value of logistic regression."""

    def over(fit: Figures, name: str) -> Floats:
        path = fit[f"{name}|path"]
        return np.stack([*path[:2], path[2] / max(fit["logistic"], 1e-12)])

    return {name: [over(fit, name) for fit in fits] for name in (*LEARNERS[1:], "polyak")}


def shown_of(part: Figures, dogs: Pictures) -> tuple[dict[str, list[Floats]], list[Mask]]:
    """Give the probabilities of the test dogs of a split by method, and their masks."""
    masks = dogs.take(halves(dogs, 0)[1]).masks
    found = {name: [part[f"{name}|shown{i}"] for i in range(len(masks))]
             for name in DRAWN if name in part["methods"]}  # fmt: skip
    return found, masks
