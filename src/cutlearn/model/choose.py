"""Weights that serve what is judged: the loss, C and one shift of the bias, chosen for pooled IoU.

Pooled IoU is I / U, and a labelling maximises it exactly if it maximises I - J U at the best J
(Dinkelbach), that is, minimises missed + J x false pixels. So `loss="hamming"` trains with the
Hamming loss whose label weights are (J, 1), J being the IoU that the features reach out of fold.
For another loss the judge is that loss, and weights and bias stay as trained.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.features.problem import VOID, Problem
from cutlearn.learn.losses import Loss, loss_of
from cutlearn.learn.pool import Pool
from cutlearn.learn.steps import Step, TrainResult
from cutlearn.learn.train import train
from cutlearn.metrics import confusions, total
from cutlearn.model.predict import Mask, best_mask
from cutlearn.run.workers import Workers

Vector = NDArray[np.float64]

# The path of C = "auto".
PATH = (1.0, 10.0, 100.0)
# Held-out parts of the images while C is chosen.
PARTS = 2
# First shifts of the bias that are tried, in units of the unaries' deviation, and refinements.
SHIFTS = (-0.8, -0.4, -0.2, 0.0, 0.2, 0.4, 0.8)
HALVINGS = 3


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
    """The training that was chosen, the weights after the shift, and how they were judged."""

    result: TrainResult
    w: Vector
    shift: float
    judged: dict[str, Any]


def choose(
    problems: Sequence[Problem],
    labels: Sequence[Mask],
    plan: Plan,
    groups: Sequence[Any] | None = None,
) -> Chosen:
    """Train to a certified gap, with C and bias chosen for what is judged.

    Parameters
    ----------
    problems : n problems with out-of-fold features
    labels : n masks of 0, 1 and 255 (void)
    plan : Plan
    groups : n hashables, optional
        Images of one group are held out together.
    """
    pool = Pool(problems, labels, plan.loss)
    judged: dict[str, Any] = {}
    C = plan.C
    if isinstance(C, str):
        C, judged["path"] = _best_C(pool, problems, labels, plan, groups)
    result = _train(pool, problems, labels, replace(plan, C=C), "train")
    w, shift = result.w, 0.0
    if plan.serves_iou:
        w, shift, judged["pooled_iou"] = best_shift(problems, labels, w, plan.threads)
    return Chosen(result, w, shift, judged)


def _train(
    pool: Pool, problems: Sequence[Problem], labels: Sequence[Mask], plan: Plan, name: str
) -> TrainResult:
    file = None if plan.checkpoint is None else plan.checkpoint / f"{name}.safetensors"
    assert not isinstance(plan.C, str)
    return train(
        problems,
        labels,
        plan.loss,
        plan.learner,
        plan.C,
        plan.tol,
        n_jobs=plan.threads,
        checkpoint=file,
        callback=plan.callback,
        pool=pool,
    )


def _best_C(
    pool: Pool,
    problems: Sequence[Problem],
    labels: Sequence[Mask],
    plan: Plan,
    groups: Sequence[Any] | None,
) -> tuple[float, list[dict[str, float]]]:
    """Walk the path of C over one pool of labelings; the best on held-out images wins."""
    parts = _parts(len(problems), groups)
    rows: list[dict[str, float]] = []
    if len(parts) < 2:
        return PATH[1], rows
    for C in PATH:
        guesses: dict[int, Mask] = {}
        for k, out in enumerate(parts):
            kept = [i for i in range(len(problems)) if i not in set(out)]
            p, y = [problems[i] for i in kept], [labels[i] for i in kept]
            w = _train(pool.take(kept), p, y, replace(plan, C=C), f"part{k}-C{C:g}").w
            if plan.serves_iou:
                w, _, _ = best_shift(p, y, w, plan.threads)
            masks = predict_all([problems[i] for i in out], w, plan.threads)
            guesses |= dict(zip(out, masks))
        order = sorted(guesses)
        truth, found = [labels[i] for i in order], [guesses[i] for i in order]
        rows.append({"C": C, "judged": _judge(plan, truth, found)})
    return max(rows, key=lambda row: row["judged"])["C"], rows


def _judge(plan: Plan, truth: Sequence[Mask], found: Sequence[Mask]) -> float:
    """Pooled IoU, or minus the mean loss a pixel: more is better."""
    if plan.serves_iou:
        return total(confusions(truth, found)).iou(1)
    loss, costs = loss_of(plan.loss), []
    for image, (y, guess) in enumerate(zip(truth, found)):
        known = y.reshape(-1) != VOID
        flat = np.where(known, y.reshape(-1), 0).astype(np.uint8)
        costs.append(loss.bind(image, flat, known).value(guess) / max(int(known.sum()), 1))
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


def best_shift(
    problems: Sequence[Problem], labels: Sequence[Mask], w: Vector, threads: int
) -> tuple[Vector, float, float]:
    """Give w with the shift of the bias that is best for the pooled IoU, the shift and the IoU.

    The first node feature is the constant 1, so its weight moves every unary alike.
    """
    unit = _deviation(problems, w)
    seen: dict[float, float] = {}

    def iou(shift: float) -> float:
        if shift not in seen:
            moved = w.copy()
            moved[0] += shift * unit
            seen[shift] = total(confusions(labels, predict_all(problems, moved, threads))).iou(1)
        return seen[shift]

    best = max(SHIFTS, key=lambda s: (iou(s), -abs(s)))
    step = 0.2
    for _ in range(HALVINGS):
        step /= 2
        best = max((best, best - step, best + step), key=lambda s: (iou(s), -abs(s)))
    moved = w.copy()
    moved[0] += best * unit
    return moved, best * unit, seen[best]


def _deviation(problems: Sequence[Problem], w: Vector) -> float:
    """The deviation of the unaries over all nodes, 1 where they are all alike."""
    parts = [np.asarray(p.node_features @ w[: p.n_node_features]) for p in problems]
    spread = float(np.concatenate(parts).std())
    return spread if spread > 0 else 1.0


def predict_all(problems: Sequence[Problem], w: Vector, threads: int) -> list[Mask]:
    """Give the best mask of every problem, in order."""
    with Workers(threads) as workers:
        return workers.map(lambda problem: best_mask(problem, w), problems)
