"""tarlow2012, section 7: probabilities of aeroplanes, cars, cows and dogs, learned by likelihood.

Models of a single aeroplane each (figure 1), their training (figure 2), train/test tables for half
of the images of each class (figures 3 and 5), and what the decision for IoU does (figure 6). The
paper's rows have no regulariser: logistic regression, Kohli-Torr training at its best and at its
last point, likelihood training. What a user would do is beside them: C chosen on held-out images,
a temperature fitted on them, and likelihood training on logits that have not seen their image.
Images are scaled so that the smaller side has 100 pixels; features are the linear bank (25 columns;
the paper had 84), four edge features, 4-connected.
"""

import statistics
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.energy.model import Model, unary_of
from cutlearn.energy.probability import probabilities
from cutlearn.errors import ConvergenceWarning, InputError
from cutlearn.experiments.reproduction import Reproduction, Tell, markdown_table
from cutlearn.experiments.tarlow2012_judge import (
    MEASURES,
    Believe,
    Split,
    Summary,
    judge,
    measure_tables,
    summary_of,
    versus_table,
)
from cutlearn.experiments.tarlow2012_pictures import draw_decisions, draw_singles, draw_training
from cutlearn.features.featurizer import Featurizer
from cutlearn.features.problem import Problem
from cutlearn.images.read import read_image, read_values
from cutlearn.images.resize import resize_image, resize_labels, side_shape
from cutlearn.learn.results import Step, TrainResult
from cutlearn.learn.train import train
from cutlearn.model.fitting.selection import Chosen, Plan, choose
from cutlearn.store import atomic_write

Mask = NDArray[np.uint8]
Image = NDArray[np.float32]
Floats = NDArray[np.float64]

SET, SIDE, CONNECTIVITY = "voc2010_coseg", 100, 4
CLASSES = ("aeroplane", "car", "cow", "dog")
SINGLES, SPLITS = 30, 5
# Likelihood training, and Kohli-Torr training, which makes no progress after its first steps.
STEPS, FIXED_STEPS = 150, 60
TOL = 2e-3
# Runs from which C is chosen need not end as well, and held-out parts of the training images.
CHOICE_TOL, FOLDS = 3e-2, 5
# Single images whose training is drawn.
SHOWN = 4
PAIRS = (
    ("likelihood", "logistic"),
    ("likelihood", "kohli-torr, best"),
    ("likelihood, C chosen", "logistic, C chosen"),
    ("likelihood, calibrated", "logistic, calibrated"),
    ("likelihood on held-out logits", "logistic on held-out logits"),
)
TABLE = "tarlow2012.md"


@dataclass(frozen=True, eq=False)
class Pictures:
    """The images and masks of one class, scaled."""

    images: list[Image]
    masks: list[Mask]

    def take(self, index: Iterable[int]) -> "Pictures":
        """Give some of them."""
        chosen = list(index)
        return Pictures([self.images[i] for i in chosen], [self.masks[i] for i in chosen])


def read_class(data: Path, name: str) -> Pictures:
    """Read the images and masks of a class."""
    folder = data / SET
    files = sorted((folder / "images").glob(f"{name}_*.jpg"))
    if not files:
        raise InputError(
            f"{folder} has no images of {name}. Give the folder that holds the data set {SET}."
        )
    images, masks = [], []
    for file in files:
        image = read_image(file)
        shape = side_shape((image.shape[0], image.shape[1]), SIDE)
        mask = read_values(folder / "masks" / f"{file.stem}.png")
        images.append(resize_image(image, shape))
        masks.append(resize_labels((mask == 1).astype(np.uint8), shape))
    return Pictures(images, masks)


def problems_of(train_on: Pictures, *others: Pictures) -> list[list[Problem]]:
    """Give the problems of the training images and of others, with the former's features."""
    maker = Featurizer("linear", connectivity=CONNECTIVITY)
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

    def over(self, value: float) -> Floats:
        """Give the path in units of another run's value."""
        return np.stack([*self.path[:2], self.path[2] / max(value, 1e-12)])


def learn(
    problems: Sequence[Problem],
    masks: Sequence[Mask],
    learner: str,
    callback: Callable[[Step], None] | None = None,
) -> TrainResult:
    """Learn without a regulariser."""
    steps = FIXED_STEPS if learner == "kohli-torr" else STEPS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return train(
            problems, masks, learner=learner, C=np.inf, tol=TOL, max_steps=steps, n_jobs=-1,
            callback=callback,
        )  # fmt: skip


def single(pictures: Pictures, number: int) -> dict[str, Fit]:
    """Fit one image with each learner."""
    one = pictures.take([number])
    (problems,) = problems_of(one)
    return {
        name: traced(problems, one.masks, name) for name in ("logistic", "kohli-torr", "likelihood")
    }


def traced(problems: Sequence[Problem], masks: Sequence[Mask], learner: str) -> Fit:
    """Learn, and note every evaluation, those of logistic regression and of the race too."""
    told: list[tuple[float, float]] = []
    begin = time.process_time()
    result = learn(
        problems, masks, learner,
        lambda step: told.append((time.process_time() - begin, step.objective)),
    )  # fmt: skip
    seconds, values = np.array(told).T
    asked = np.arange(1.0, len(told) + 1)
    return Fit(result.objective, np.stack([asked, seconds, np.minimum.accumulate(values)]))


def halves(pictures: Pictures, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give the numbers of a random half to learn from, and the rest."""
    order = np.random.default_rng(seed).permutation(len(pictures.images))
    half = len(order) // 2
    return order[:half], order[half:]


def methods_of(problems: Sequence[Problem], masks: Sequence[Mask]) -> dict[str, Believe]:
    """Learn by each method; gives what it believes of a problem."""
    kohli_torr = learn(problems, masks, "kohli-torr")
    assert kohli_torr.last_w is not None
    logistic, likelihood = (chosen(problems, masks, name) for name in ("logistic", "likelihood"))
    C = logistic.result.C
    stacked = stacked_problems(problems, masks, C)
    return {
        "logistic": believing(learn(problems, masks, "logistic").w),
        "kohli-torr, last": believing(kohli_torr.last_w),
        "kohli-torr, best": believing(kohli_torr.w),
        "likelihood": believing(learn(problems, masks, "likelihood").w),
        "logistic, C chosen": believing(logistic.w),
        "likelihood, C chosen": believing(likelihood.w),
        "logistic, calibrated": calibrated(logistic),
        "likelihood, calibrated": calibrated(likelihood),
        **{
            f"{name} on held-out logits": believing(learn(stacked, masks, name).w, logistic.w)
            for name in ("logistic", "likelihood")
        },
    }


def chosen(problems: Sequence[Problem], masks: Sequence[Mask], learner: str) -> Chosen:
    """Learn with the C that gives held-out images the largest likelihood."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return choose(problems, masks, Plan(learner=learner, tol=CHOICE_TOL, threads=-1))


def believing(w: Floats, first: Floats | None = None) -> Believe:
    """What weights believe; of the logits of `first`, if there are such."""

    def believe(problem: Problem) -> Floats:
        seen = problem if first is None else with_logits(problem, unary_of(problem, first))
        return probabilities(seen, w, n_jobs=-1)

    return believe


def calibrated(found: Chosen) -> Believe:
    """What weights believe at the temperature of held-out images."""
    return lambda problem: found.calibration.probabilities(Model().min_marginals(problem, found.w))


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


def split(pictures: Pictures, seed: int) -> tuple[Split, dict[str, Believe]]:
    """Learn from a random half; gives the figures of each method, and the methods."""
    inside, outside = halves(pictures, seed)
    learnt, unseen = pictures.take(inside), pictures.take(outside)
    problems, other = problems_of(learnt, unseen)
    methods = methods_of(problems, learnt.masks)
    found = {
        name: {"train": judge(problems, learnt.masks, inside, believe),
               "test": judge(other, unseen.masks, outside, believe)}
        for name, believe in methods.items()
    }  # fmt: skip
    return found, methods


def seconds_of(work: Callable[[], Any]) -> tuple[float, float]:
    """Wall-clock and CPU seconds of some work."""
    begin, spent = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - begin, time.process_time() - spent


def timings(dogs: Pictures) -> dict[str, float]:
    """Seconds of likelihood training on all dogs, and of probabilities with five labels."""
    (problems,) = problems_of(dogs)
    result: list[TrainResult] = []
    spent = seconds_of(lambda: result.append(learn(problems, dogs.masks, "likelihood")))
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


def run(
    output: Path,
    data: Path | None = None,
    tell: Tell = print,
    singles: int | None = None,
    splits: int | None = None,
) -> Reproduction:
    """Run the single fits, the tables and the timings; write a table and three pictures."""
    if data is None:
        raise InputError(f"data is missing. Name the folder that holds {SET} with --data DIR.")
    pictures = {name: read_class(data, name) for name in CLASSES}
    output.mkdir(parents=True, exist_ok=True)
    fits = []
    planes = pictures["aeroplane"]
    for number in range(min(singles or SINGLES, len(planes.images))):
        tell(f"aeroplane {number + 1} alone")
        fits.append(single(planes, number))
    alone = [{name: fit.objective for name, fit in one.items()} for one in fits]
    files = [draw_singles(output / "tarlow2012-singles.png", alone)]
    runs = {
        name: [one[name].over(one["logistic"].objective) for one in fits[:SHOWN]]
        for name in ("kohli-torr", "likelihood")
    }
    files.append(draw_training(output / "tarlow2012-training.png", runs))
    done: dict[str, list[Split]] = {name: [] for name in CLASSES}
    for seed in range(splits or SPLITS):
        for name in CLASSES:
            tell(f"{name}, split {seed + 1} of {splits or SPLITS}")
            found, methods = split(pictures[name], seed)
            done[name].append(found)
            if name == "dog" and seed == 0:
                files.append(_decisions(output, pictures[name], seed, methods))
    tell("all dogs")
    summaries = {name: summary_of(done[name], len(pictures[name].images)) for name in CLASSES}
    spent = timings(pictures["dog"])
    figures = {"single": alone, "splits": _plain(summaries), "time": spent}
    table = "\n\n".join([
        single_table(alone), measure_tables(summaries), versus_table(summaries, PAIRS),
        _time(spent),
    ])  # fmt: skip
    atomic_write(output / TABLE, (table + "\n").encode())
    return Reproduction(table, figures, (output / TABLE, *files))


def _decisions(output: Path, pictures: Pictures, seed: int, methods: dict[str, Believe]) -> Path:
    """Draw figure 6: the paper's two methods, and likelihood training on honest logits."""
    learnt, unseen = (pictures.take(half) for half in halves(pictures, seed))
    problems = problems_of(learnt, unseen)[1]
    shown = {
        name: [methods[name](p).reshape(*mask.shape, 2) for p, mask in zip(problems, unseen.masks)]
        for name in ("kohli-torr, last", "likelihood", "likelihood on held-out logits")
    }
    return draw_decisions(output / "tarlow2012-decisions.png", shown, unseen.masks)


def _plain(summaries: dict[str, Summary]) -> dict[str, Any]:
    """The figures of all splits as JSON can hold them: a list of splits for each method."""
    return {
        name: {
            method: {"measures": list(MEASURES), "train": summary.train[method].tolist(),
                     "test": summary.test[method].tolist()}
            for method in summary.test
        }
        for name, summary in summaries.items()
    }  # fmt: skip


def _time(t: dict[str, float]) -> str:
    return (
        f"Time: likelihood training of all {t['dogs']} dogs {t['training_seconds']:.0f} s, "
        f"{t['training_cpu']:.0f} s of CPU ({t['steps']} steps after the race of the starts; "
        "the paper: over 1000 s on 17 processors for 48 images). Probabilities of five labels, "
        f"one image: median {1000 * t['five_labels_seconds']:.0f} ms, "
        f"{1000 * t['five_labels_cpu']:.0f} ms of CPU (the paper: 140 to 160 ms)."
    )


def single_table(rows: Sequence[dict[str, float]]) -> str:
    """Figure 1 in numbers: how often and how far likelihood training ends lower."""
    ours = np.array([row["likelihood"] for row in rows])
    cells = []
    for name in ("logistic", "kohli-torr"):
        other = np.array([row[name] for row in rows])
        cells.append(
            [name, f"{other.mean():.4f}", f"{int((ours < other).sum())} of {len(rows)}",
             f"{np.median(ours / np.maximum(other, np.finfo(float).tiny)):.2f}"]
        )  # fmt: skip
    cells.append(["likelihood", f"{ours.mean():.4f}", "", ""])
    titles = ["single aeroplanes", "negative log-likelihood, mean", "likelihood wins",
              "median ratio"]  # fmt: skip
    return markdown_table(titles, cells)
