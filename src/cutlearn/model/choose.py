"""Weights that serve what is judged: C, and for pooled IoU the bias, chosen on images.

In: problems whose node features are honest (out of fold), their masks, a loss or a likelihood.
Out: weights. With `loss="hamming"` the judge is the pooled IoU of label 1: C by held-out images,
then one shift of the bias, since a hinge on weak features can give a rare label to no pixel at all.
Either leaves its default only for a gain of more than one deviation over the images: smaller ones
are chance. Another loss is its own judge, a likelihood is judged by that of held-out images, beside
rivals that have fewer potentials; then the bias stays as trained.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from cutlearn.energy.forms import EnvelopeSpec
from cutlearn.energy.model import model_of, unary_of
from cutlearn.features.folds import held_out_parts
from cutlearn.features.problem import VOID, Problem
from cutlearn.learn.image_loss import Loss
from cutlearn.learn.learners import is_margin
from cutlearn.learn.losses import loss_of
from cutlearn.learn.pool import Pool
from cutlearn.learn.steps import Step, TrainResult
from cutlearn.learn.train import train
from cutlearn.metrics import (
    Confusion,
    Figure,
    bootstrap,
    confusions,
    iou_of,
    left_out,
    stack_tables,
    total,
)
from cutlearn.model.calibrate import Calibration, Rows, calibrate, drawn, uncalibrated
from cutlearn.model.judge import Cost, Judge, Likelihood, Overlap
from cutlearn.model.kinds import BINARY, Binary, Kind, Mask
from cutlearn.run.workers import Workers

Vector = NDArray[np.float64]
K = TypeVar("K")

# C = "auto" takes the first unless another is clearly better on held-out images.
PATH = (1000.0, 100.0, 10000.0)
LIKELIHOOD_PATH = (300.0, 30.0, 3000.0)
# Shifts of the bias are tried that would give label 1 these parts of its true area without edges;
# then finer ones, by this factor, on both sides of the best.
AREAS = (0.7, 1.0, 1.4)
FINER = 1.2


class Setting(NamedTuple):
    """What is chosen on held-out images."""

    learner: str
    C: float


@dataclass(frozen=True)
class Plan:
    """How to train: checked parameters of a model, and where to tell and keep the steps."""

    loss: str | Loss = "hamming"
    learner: str = "bundle"
    C: float | str = "auto"
    tol: float = 0.01
    threads: int = 1
    checkpoint: Path | None = None
    callback: Callable[[Step], None] | None = None
    kind: Kind = BINARY
    calibration: str | None = "temperature"
    # Learners that C = "auto" tries beside the plan's own.
    rivals: tuple[str, ...] = ()

    @property
    def path(self) -> list[Setting]:
        """What C = "auto" tries: the first, unless another is clearly better held out."""
        path = PATH if is_margin(self.learner) else LIKELIHOOD_PATH
        return [Setting(learner, C) for learner in (self.learner, *self.rivals) for C in path]

    def judge(self, problems: Sequence[Problem], labels: Sequence[Mask]) -> Judge:
        """Give the judge of what is learned."""
        given = problems, labels, self.kind, self.threads
        if not is_margin(self.learner):
            return Likelihood(*given)
        return Overlap(*given) if self.loss == "hamming" else Cost(loss_of(self.loss), *given)


@dataclass(frozen=True, eq=False)
class Chosen:
    """The training that was chosen, its weights with the bias shifted, and how it was judged.

    `calibration` is fitted on images that were held out; without a second group of images on those
    of the training.
    """

    result: TrainResult
    w: Vector
    calibration: Calibration
    judged: dict[str, Any] = field(default_factory=dict)


def choose(
    problems: Sequence[Problem],
    labels: Sequence[Mask],
    plan: Plan,
    groups: Sequence[Any] | None = None,
) -> Chosen:
    """Train with C and bias chosen for what is judged.

    Parameters
    ----------
    problems : n problems with out-of-fold features
    labels : n masks of labels and 255 (void)
    plan : Plan
    groups : n hashables, optional
        Images of one group are held out together. None: each by itself.
    """
    together = range(len(problems)) if groups is None else groups
    run = _Training(problems, labels, plan)
    setting, judged = run.best(together)
    result = run.train(range(len(problems)), setting, "train")
    w, judge = result.w, run.judge

    def predict(w: Vector) -> list[Mask]:
        return predict_all(problems, w, plan)

    shifts = {0.0: judge.notes(range(len(problems)), w)}
    if isinstance(judge, Overlap) and isinstance(plan.kind, Binary):
        w, judged["shift"] = best_shift(problems, labels, w, shifts, predict, plan.kind.envelope)
    judged |= {"judge": judge.name, "training": judge.value(shifts[judged.get("shift", 0.0)])}
    return Chosen(result, w, run.calibration(setting, result.w, w, together), judged)


class _Training:
    """Problems and their masks; all max-margin trainings share one pool of planes."""

    def __init__(self, problems: Sequence[Problem], labels: Sequence[Mask], plan: Plan) -> None:
        self.problems, self.labels, self.plan = problems, labels, plan
        kind = plan.kind
        self.kind: dict[str, Any] = {
            "envelope": kind.envelope, "kind": kind.name, "n_labels": kind.n_labels,
        }  # fmt: skip
        self.loss: str | Loss = plan.loss
        self.pool: Pool | None = None
        if is_margin(plan.learner):
            self.loss = loss_of(plan.loss)
            self.pool = Pool(problems, labels, self.loss, n_jobs=plan.threads, **self.kind)
        self.judge = plan.judge(problems, labels)
        # Weights by setting and held-out part.
        self.held_out: dict[tuple[Setting, int], Vector] = {}

    def train(self, images: Sequence[int], setting: Setting, name: str) -> TrainResult:
        """Train on some of the images; the steps are kept under this name."""
        folder = self.plan.checkpoint
        return train(
            [self.problems[i] for i in images],
            [self.labels[i] for i in images],
            self.loss,
            *setting,
            self.plan.tol,
            **self.kind,
            n_jobs=self.plan.threads,
            checkpoint=None if folder is None else folder / f"{name}.safetensors",
            callback=self.plan.callback,
            pool=None if self.pool is None else self.pool.take(images),
        )

    def best(self, groups: Sequence[Any]) -> tuple[Setting, dict[str, Any]]:
        """Give the setting of the plan, or the best of the path, and how it was judged."""
        plan = self.plan
        if not isinstance(plan.C, str):
            return Setting(plan.learner, plan.C), {}
        parts = held_out_parts(groups)
        if len(parts) < 2:
            return plan.path[0], {"path": []}
        notes = {setting: self._notes(setting, parts) for setting in plan.path}
        parts_of = {setting: self.judge.parts(found) for setting, found in notes.items()}
        chosen = _clearly_best(parts_of, plan.path[0], self.judge.figure)
        rows = [{"C": s.C, "judged": self.judge.value(notes[s])} for s in plan.path]
        spread = bootstrap(parts_of[chosen], self.judge.figure)
        held = {"held_out": {"value": spread.value, "low": spread.low, "high": spread.high}}
        if not plan.rivals:
            return chosen, {"path": rows, **held}
        named = [{"learner": s.learner} | row for s, row in zip(plan.path, rows)]
        return chosen, {"learner": chosen.learner, "path": named, **held}

    def _notes(self, setting: Setting, parts: Sequence[Sequence[int]]) -> list[Any]:
        """Notes of every image at weights that have not seen it."""
        found: dict[int, Any] = {}
        for k, out in enumerate(parts):
            found |= zip(out, self.judge.notes(out, self._train_without(out, setting, k)))
        return [found[i] for i in range(len(self.problems))]

    def _train_without(self, out: Sequence[int], setting: Setting, k: int) -> Vector:
        """Weights that have not seen the images of part k; trained once for each setting."""
        if (setting, k) not in self.held_out:
            kept = [i for i in range(len(self.problems)) if i not in set(out)]
            name = f"part{k}-{setting.learner}-C{setting.C:g}"
            self.held_out[setting, k] = self.train(kept, setting, name).w
        return self.held_out[setting, k]

    def calibration(
        self, setting: Setting, trained: Vector, w: Vector, groups: Sequence[Any]
    ) -> Calibration:
        """Calibrate on min-marginals of weights that have not seen their image, shifted as w is."""
        plan = self.plan
        if plan.calibration is None or not plan.kind.believes:
            return uncalibrated(plan.kind.n_labels)
        parts = held_out_parts(groups)
        held_out = len(parts) > 1
        seen: dict[int, Vector] = {}
        for k, out in enumerate(parts):
            other = self._train_without(out, setting, k) if held_out else trained
            seen |= dict.fromkeys(out, other + (w - trained))

        def rows(i: int) -> Rows:
            return drawn(plan.kind.least(self.problems[i], seen[i]), self.labels[i])

        with Workers(plan.threads) as workers:
            found = workers.map(rows, range(len(self.problems)))
        return calibrate(found, plan.calibration, held_out, groups)


def _clearly_best(values: dict[K, Vector], default: K, figure: Figure) -> K:
    """The best setting if it gains more over the default than one deviation, else the default.

    `values` are those of the images, which add up, and `figure` what is taken of their sums. The
    deviation of the gain is the jackknife's: each image is left out once.
    """
    whole = {setting: float(figure(part.sum(axis=0))) for setting, part in values.items()}
    best = max(values, key=lambda setting: whole[setting])
    n = len(values[best])
    if best == default or n < 2:
        return best
    gains = left_out(values[best], figure) - left_out(values[default], figure)
    deviation = float(np.sqrt((n - 1) / n * np.sum((gains - gains.mean()) ** 2)))
    return best if whole[best] - whole[default] > deviation else default


def best_shift(
    problems: Sequence[Problem],
    labels: Sequence[Mask],
    w: Vector,
    seen: dict[float, list[Confusion]],
    predict: Callable[[Vector], list[Mask]],
    envelope: EnvelopeSpec | None = None,
) -> tuple[Vector, float]:
    """Give w with its bias shifted for pooled IoU, and the shift.

    The first node feature is the constant 1, so its weight moves every unary alike.

    Parameters
    ----------
    seen : dict
        Tables of the images by shift, 0 among them; what is tried is added.
    predict : callable
        Gives the masks of all problems at other weights.
    """
    u = np.sort(np.concatenate([unary_of(problem, w) for problem in problems]))
    u += _lean(problems[0], w, envelope)
    known = sum(int((y != VOID).sum()) for y in labels)
    share = sum(int((y == 1).sum()) for y in labels) / known

    def moved(shift: float) -> Vector:
        out = w.copy()
        out[0] += shift
        return out

    def iou(area: float) -> float:
        shift = shift_of(area)
        if shift not in seen:
            seen[shift] = confusions(labels, predict(moved(shift)))
        return total(seen[shift]).iou(1)

    def shift_of(area: float) -> float:
        # A pixel has label 1 where its unary is below 0.
        return -float(u[min(int(area * share * len(u)), len(u) - 1)])

    area = max(AREAS, key=iou)
    for finer in (area / FINER, area * FINER):
        iou(finer)
    best = _clearly_best({s: stack_tables(tables) for s, tables in seen.items()}, 0.0, iou_of)
    return moved(best), best


def _lean(problem: Problem, w: Vector, envelope: EnvelopeSpec | None) -> float:
    """What envelopes add to the cost of label 1 for a pixel whose regions turn with it."""
    layout = model_of(problem, envelope).layout(problem)
    samples = [spec.convert(w[at], "samples") for spec, at in zip(layout.specs, layout.envelopes)]
    return float(sum(v[-1] - v[0] for v in samples))


def predict_all(problems: Sequence[Problem], w: Vector, plan: Plan) -> list[Mask]:
    """Give the best mask of every problem, in order."""
    with Workers(plan.threads) as workers:
        return workers.map(lambda problem: plan.kind.mask(problem, w), problems)
