"""tarlow2012, section 7: probabilities of aeroplanes, cars, cows and dogs, learned by likelihood.

Thirty models of a single aeroplane each (figure 1), and train/test tables for half of the images of
each class (figure 3): logistic regression, Kohli-Torr training at its best and at its last point,
and likelihood training. No regulariser. Images are scaled so that the smaller side has 100 pixels;
features are the linear bank (25 columns; the paper had 84), four edge features, 4-connected.
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

from cutlearn.energy.probability import probabilities
from cutlearn.errors import ConvergenceWarning, InputError
from cutlearn.experiments.reproduction import Reproduction, Tell, markdown_table
from cutlearn.features.featurizer import Featurizer
from cutlearn.features.problem import Problem
from cutlearn.images.read import read_image, read_values
from cutlearn.images.resize import resize_image, resize_labels, side_shape
from cutlearn.learn.steps import TrainResult
from cutlearn.learn.train import train
from cutlearn.store import atomic_write

Mask = NDArray[np.uint8]
Image = NDArray[np.float32]
Floats = NDArray[np.float64]

SET, SIDE, CONNECTIVITY = "voc2010_coseg", 100, 4
CLASSES = ("aeroplane", "car", "cow", "dog")
SINGLES, SPLITS, STEPS = 30, 5, 150
TOL = 2e-3
METHODS = ("logistic", "kohli-torr, last", "kohli-torr, best", "likelihood")
TABLE = "tarlow2012.md"
# Test log-likelihood, accuracy (%) and area under the ROC curve in the paper's figure 3.
PAPER = {
    "aeroplane": {"kohli-torr, last": (-0.29, 89.7, 0.87), "kohli-torr, best": (-0.28, 89.9, 0.87),
                  "likelihood": (-0.24, 90.4, 0.90)},
    "car": {"kohli-torr, last": (-0.65, 78.7, 0.65), "kohli-torr, best": (-0.51, 80.0, 0.62),
            "likelihood": (-0.51, 81.4, 0.65)},
    "cow": {"kohli-torr, last": (-0.64, 75.9, 0.77), "kohli-torr, best": (-0.52, 76.7, 0.65),
            "likelihood": (-0.41, 79.9, 0.82)},
    "dog": {"kohli-torr, last": (-0.45, 84.7, 0.66), "kohli-torr, best": (-0.38, 86.7, 0.66),
            "likelihood": (-0.34, 86.8, 0.79)},
}  # fmt: skip


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
        raise InputError(f"{folder}: no images of {name} found; the data set {SET} was wanted.")
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


def learn(problems: Sequence[Problem], masks: Sequence[Mask], learner: str) -> TrainResult:
    """Learn without a regulariser."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return train(
            problems, masks, learner=learner, C=np.inf, tol=TOL, max_steps=STEPS, n_jobs=-1
        )


def single(pictures: Pictures, number: int) -> dict[str, float]:
    """Fit one image with each learner; gives the negative log-likelihoods."""
    one = pictures.take([number])
    (problems,) = problems_of(one)
    return {
        name: learn(problems, one.masks, name).objective
        for name in ("logistic", "kohli-torr", "likelihood")
    }


def halves(pictures: Pictures, seed: int) -> tuple[Pictures, Pictures]:
    """Give a random half to learn from, and the rest."""
    order = np.random.default_rng(seed).permutation(len(pictures.images))
    half = len(order) // 2
    return pictures.take(order[:half]), pictures.take(order[half:])


def weights_of(problems: Sequence[Problem], masks: Sequence[Mask]) -> dict[str, Floats]:
    """Give what each method learns."""
    kohli_torr = learn(problems, masks, "kohli-torr")
    assert kohli_torr.last_w is not None
    found = (
        learn(problems, masks, "logistic").w, kohli_torr.last_w, kohli_torr.w,
        learn(problems, masks, "likelihood").w,
    )  # fmt: skip
    return dict(zip(METHODS, found))


def split(pictures: Pictures, seed: int) -> dict[str, dict[str, list[float]]]:
    """Learn from a random half; gives the figures of each method on both halves."""
    learnt, unseen = halves(pictures, seed)
    problems, other = problems_of(learnt, unseen)
    return {
        name: {"train": judge(problems, learnt.masks, w), "test": judge(other, unseen.masks, w)}
        for name, w in weights_of(problems, learnt.masks).items()
    }


def judge(problems: Sequence[Problem], masks: Sequence[Mask], w: Floats) -> list[float]:
    """Log-likelihood and accuracy, means over images, and the area under the ROC of all pixels."""
    likely, right, scores = [], [], []
    for problem, mask in zip(problems, masks):
        q, y = probabilities(problem, w, n_jobs=-1), mask.ravel()
        given = np.maximum(q[np.arange(y.size), y], np.finfo(float).tiny)
        likely.append(np.log(given).mean())
        right.append(100 * (q.argmax(axis=1) == y).mean())
        scores.append(q[:, 1])
    ranked = area(np.concatenate(scores), np.concatenate([mask.ravel() for mask in masks]))
    return [float(np.mean(likely)), float(np.mean(right)), ranked]


def area(scores: Floats, labels: Mask) -> float:
    """The area under the ROC curve: how often a pixel of 1 scores above one of 0, ties half.

    Examples
    --------
    >>> area(np.array([0.1, 0.4, 0.4, 0.8]), np.array([0, 0, 1, 1], np.uint8))
    0.875
    """
    from scipy.stats import rankdata

    ranks = rankdata(scores)
    ones = int(labels.sum())
    pairs = ones * (len(labels) - ones)
    return float((ranks[labels == 1].sum() - ones * (ones + 1) / 2) / pairs)


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
        ask = partial(probabilities, problem, rows.ravel(), kind="surrogate", n_jobs=-1)
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
    """Run the single fits, the tables and the timings; write a table."""
    if data is None:
        raise InputError(f"data: none found; the folder that holds {SET} wanted. Give --data DIR.")
    singles, splits = singles or SINGLES, splits or SPLITS
    pictures = {name: read_class(data, name) for name in CLASSES}
    figures: dict[str, Any] = {"single": [], "splits": {name: [] for name in CLASSES}}
    for number in range(min(singles, len(pictures["aeroplane"].images))):
        tell(f"aeroplane {number + 1} of {singles} alone")
        figures["single"].append(single(pictures["aeroplane"], number))
    for seed in range(splits):
        for name in CLASSES:
            tell(f"{name}, split {seed + 1} of {splits}")
            figures["splits"][name].append(split(pictures[name], seed))
    tell("all dogs")
    figures["time"] = timings(pictures["dog"])
    table = table_of(figures)
    output.mkdir(parents=True, exist_ok=True)
    atomic_write(output / TABLE, (table + "\n").encode())
    return Reproduction(table, figures, (output / TABLE,))


def table_of(figures: dict[str, Any]) -> str:
    """Write the figures beside the paper's."""
    parts = []
    if figures["single"]:
        parts.append(_single_table(figures["single"]))
    done = {name: rows for name, rows in figures["splits"].items() if rows}
    if done:
        parts.append(_split_table(done))
    if "time" in figures:
        t = figures["time"]
        parts.append(
            f"Time: likelihood training of all {t['dogs']} dogs {t['training_seconds']:.0f} s, "
            f"{t['training_cpu']:.0f} s of CPU ({t['steps']} steps after the race of the starts; "
            "the paper: over 1000 s on 17 processors for 48 images). Probabilities of five labels, "
            f"one image: median {1000 * t['five_labels_seconds']:.0f} ms, "
            f"{1000 * t['five_labels_cpu']:.0f} ms of CPU (the paper: 140 to 160 ms)."
        )
    return "\n\n".join(parts)


def _single_table(rows: Sequence[dict[str, float]]) -> str:
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


def _split_table(done: dict[str, list[dict[str, dict[str, list[float]]]]]) -> str:
    titles = ["class", "method", "log-likelihood, train (test)", "accuracy %", "AUC",
              "test in the paper"]  # fmt: skip
    cells = []
    for name, rows in done.items():
        for method in METHODS:
            figures = {
                part: np.array([row[method][part] for row in rows]) for part in ("train", "test")
            }
            cell = [name, method]
            for k, digits in enumerate((3, 1, 3)):
                inside, outside = figures["train"][:, k], figures["test"][:, k]
                spread = f" ± {outside.std():.{digits}f}" if len(rows) > 1 else ""
                cell.append(f"{inside.mean():.{digits}f} ({outside.mean():.{digits}f}{spread})")
            paper = PAPER[name].get(method)
            cell.append("" if paper is None else " / ".join(map(str, paper)))
            cells.append(cell)
    count = len(next(iter(done.values())))
    note = "One random half."
    if count > 1:
        note = f"Means over {count} random halves, ± the deviation between them."
    return f"{markdown_table(titles, cells)}\n\n{note}"
