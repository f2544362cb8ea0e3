"""Weights that serve what is judged: the loss, C and the bias, chosen for pooled IoU.

Pooled IoU is I / U, and a labelling is best for it exactly if it is best for I - J U at the best J
(Dinkelbach 1967): if it minimises missed + J x false pixels. So `loss="hamming"` trains with label
weights (J, 1), J being what the node features reach out of fold, and takes the C with the best
pooled IoU on held-out images. The hinge that training minimises only follows such weights with its
margins, so the bias is shifted where that gains more than chance would. For another loss the judge
is that loss, and the bias stays as trained.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.energy.linear import unary_of
from cutlearn.features.problem import VOID, Problem
from cutlearn.learn.losses import Hamming, Loss, loss_of
from cutlearn.learn.pool import Pool
from cutlearn.learn.steps import Step, TrainResult
from cutlearn.learn.train import train
from cutlearn.metrics import Confusion, confusions, total
from cutlearn.model.predict import Mask, best_mask
from cutlearn.run.workers import Workers

Vector = NDArray[np.float64]

# The path of C = "auto", and the C of a single image, which leaves none to hold out.
PATH = (100.0, 1000.0, 10000.0)
ALONE = 100.0
# Held-out parts of the images while C is chosen, and their gap: a choice needs no finer one.
PARTS = 2
ROUGH = 0.03
# Pixels that tell what IoU is within reach, and its limits: below, false pixels would be free.
LOOKED_AT = 200_000
LEAST, MOST = 0.2, 1.0
# Shifts of the bias are tried that would give label 1 these parts of its true area without edges;
# then finer ones, by this factor, on both sides of the best.
AREAS = (0.7, 1.0, 1.4)
FINER = 1.2


@dataclass(frozen=True)
class Plan:
    """How to train: checked parameters of a model, and where to tell and keep the steps."""

    loss: str | Loss
    learner: str
    C: float | str
    tol: float
    threads: int
    checkpoint: Path | None = None
    callback: Callable[[Step], None] | None = None

    @property
    def serves_iou(self) -> bool:
        """Whether the judge is the pooled IoU."""
        return self.loss == "hamming"


@dataclass(frozen=True, eq=False)
class Chosen:
    """The training that was chosen, its weights with the bias shifted, and how it was judged."""

    result: TrainResult
    w: Vector
    judged: dict[str, Any] = field(default_factory=dict)


def choose(
    problems: Sequence[Problem],
    labels: Sequence[Mask],
    plan: Plan,
    groups: Sequence[Any] | None = None,
) -> Chosen:
    """Train to a certified gap, with loss and C chosen for what is judged.

    Parameters
    ----------
    problems : n problems with out-of-fold features
    labels : n masks of 0, 1 and 255 (void)
    plan : Plan
    groups : n hashables, optional
        Images of one group are held out together.
    """
    if not plan.serves_iou:
        run = _Training(problems, labels, loss_of(plan.loss), plan)
        result, judged = run.best(groups)
        found = predict_all(problems, result.w, plan.threads)
        judged["training"] = run.judge(range(len(problems)), found)
        return Chosen(result, result.w, {"judge": "-loss", **judged})
    reachable = reachable_iou(problems, labels)
    run = _Training(problems, labels, Hamming((reachable, 1.0)), plan)
    result, judged = run.best(groups)
    w, judged["shift"], judged["training"] = best_shift(problems, labels, result.w, plan.threads)
    return Chosen(result, w, {"judge": "pooled IoU", "reachable": reachable, **judged})


class _Training:
    """Problems, their masks and the one pool of planes that all trainings share."""

    def __init__(
        self, problems: Sequence[Problem], labels: Sequence[Mask], loss: Loss, plan: Plan
    ) -> None:
        self.problems, self.labels, self.loss, self.plan = problems, labels, loss, plan
        self.pool = Pool(problems, labels, loss)

    def train(self, images: Sequence[int], C: float, tol: float, name: str) -> TrainResult:
        """Train on some of the images; the steps are kept under this name."""
        folder = self.plan.checkpoint
        return train(
            [self.problems[i] for i in images],
            [self.labels[i] for i in images],
            self.loss,
            self.plan.learner,
            C,
            tol,
            n_jobs=self.plan.threads,
            checkpoint=None if folder is None else folder / f"{name}.safetensors",
            callback=self.plan.callback,
            pool=self.pool.take(images),
        )

    def best(self, groups: Sequence[Any] | None) -> tuple[TrainResult, dict[str, Any]]:
        """Train on all images with the C of the plan, or the best of the path."""
        C, judged = self.plan.C, {}
        if isinstance(C, str):
            C, judged["path"] = self._best_C(groups)
        return self.train(range(len(self.problems)), C, self.plan.tol, "train"), judged

    def _best_C(self, groups: Sequence[Any] | None) -> tuple[float, list[dict[str, float]]]:
        """Walk the path of C over one pool of labelings; the best on held-out images wins."""
        n = len(self.problems)
        parts = _parts(n, groups)
        if len(parts) < 2:
            return ALONE, []
        rows = []
        for C in PATH:
            guesses: dict[int, Mask] = {}
            for k, out in enumerate(parts):
                kept = [i for i in range(n) if i not in set(out)]
                tol = max(ROUGH, self.plan.tol)
                w = self.train(kept, C, tol, f"part{k}-C{C:g}").w
                problems = [self.problems[i] for i in out]
                guesses |= dict(zip(out, predict_all(problems, w, self.plan.threads)))
            judged = self.judge(range(n), [guesses[i] for i in range(n)])
            rows.append({"C": C, "judged": judged})
        return max(rows, key=lambda row: row["judged"])["C"], rows

    def judge(self, images: Sequence[int], found: Sequence[Mask]) -> float:
        """Pooled IoU, or minus the mean loss a pixel: more is better."""
        truth = [self.labels[i] for i in images]
        if self.plan.serves_iou:
            return total(confusions(truth, found)).iou(1)
        costs = []
        for i, y, guess in zip(images, truth, found):
            known = y.reshape(-1) != VOID
            flat = np.where(known, y.reshape(-1), 0).astype(np.uint8)
            costs.append(self.loss.bind(i, flat, known).value(guess) / int(known.sum()))
        return -float(np.mean(costs))


def _parts(n: int, groups: Sequence[Any] | None) -> list[list[int]]:
    """Images to hold out together, every image once."""
    names = list(range(n)) if groups is None else list(groups)
    number = {name: k for k, name in enumerate(dict.fromkeys(names))}
    count = min(PARTS, len(number))
    parts: list[list[int]] = [[] for _ in range(count)]
    for i, name in enumerate(names):
        parts[number[name] % count].append(i)
    return parts


def reachable_iou(problems: Sequence[Problem], labels: Sequence[Mask]) -> float:
    """Give the pooled IoU of the best threshold on a least-squares fit of the node features.

    Edges are not looked at and pixels are drawn evenly, so this takes no cut and little time; the
    IoU after the cut is a few points away, which hardly moves the weights of the loss.
    """
    step = max(1, sum(y.size for y in labels) // LOOKED_AT)
    rows = np.concatenate([p.node_features[::step] for p in problems]).astype(np.float64)
    truth = np.concatenate([y.reshape(-1)[::step] for y in labels])
    rows, ones = rows[truth != VOID], truth[truth != VOID] == 1
    if not ones.any():
        return MOST
    # A ridge, as columns may be constant or copies of each other.
    gram = rows.T @ rows / len(rows) + 1e-6 * np.eye(rows.shape[1])
    score = rows @ np.linalg.solve(gram, rows.T @ ones / len(rows))
    right = np.cumsum(ones[np.argsort(-score, kind="stable")])
    either = ones.sum() + np.arange(1, len(right) + 1) - right
    # Rounded, so that the last bits of a BLAS do not become the bits of a model.
    return round(float(np.clip((right / either).max(), LEAST, MOST)), 2)


def best_shift(
    problems: Sequence[Problem], labels: Sequence[Mask], w: Vector, threads: int
) -> tuple[Vector, float, float]:
    """Give w with the bias shifted for pooled IoU, the shift, and the IoU.

    The first node feature is the constant 1, so its weight moves every unary alike. A shift must
    gain more than one deviation of its gain over the images (jackknife): where features look better
    on the training images than on others, small gains are none.
    """
    u = np.sort(np.concatenate([unary_of(problem, w) for problem in problems]))
    known = sum(int((y != VOID).sum()) for y in labels)
    share = sum(int((y == 1).sum()) for y in labels) / known
    seen: dict[float, list[Confusion]] = {}

    def moved(shift: float) -> Vector:
        out = w.copy()
        out[0] += shift
        return out

    def iou(shift: float) -> float:
        if shift not in seen:
            seen[shift] = confusions(labels, predict_all(problems, moved(shift), threads))
        return total(seen[shift]).iou(1)

    def shift_of(area: float) -> float:
        # A pixel has label 1 where its unary is below 0.
        return -float(u[min(int(area * share * len(u)), len(u) - 1)])

    area = max(AREAS, key=lambda a: iou(shift_of(a)))
    areas = (area, area / FINER, area * FINER)
    best = max(map(shift_of, areas), key=iou)
    if iou(best) - iou(0.0) <= _gain_deviation(seen[best], seen[0.0]):
        best = 0.0
    return moved(best), best, iou(best)


def _gain_deviation(new: Sequence[Confusion], old: Sequence[Confusion]) -> float:
    """The jackknife's standard deviation, over images, of the gain in pooled IoU."""
    n = len(new)
    if n < 2:
        return 0.0
    sums = [np.sum([table.counts for table in part], axis=0) for part in (new, old)]
    gains = [
        Confusion(sums[0] - a.counts).iou(1) - Confusion(sums[1] - b.counts).iou(1)
        for a, b in zip(new, old)
    ]
    return float(np.sqrt((n - 1) / n * np.sum((np.array(gains) - np.mean(gains)) ** 2)))


def predict_all(problems: Sequence[Problem], w: Vector, threads: int) -> list[Mask]:
    """Give the best mask of every problem, in order."""
    with Workers(threads) as workers:
        return workers.map(lambda problem: best_mask(problem, w), problems)
