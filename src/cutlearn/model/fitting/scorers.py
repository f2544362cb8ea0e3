"""What C is chosen by: a score of every image at some weights; more is better.

Masks are scored by their overlap or by the loss they were trained for, likelihoods by the mean
log-likelihood of a pixel under softmax(-Phi): what was learned is what C is chosen for.
"""

import copy
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from cutlearn.arrays import VOID, Mask, Vector
from cutlearn.energy.compiled import softened
from cutlearn.energy.model import Model
from cutlearn.energy.problem import Problem
from cutlearn.learn.losses import Loss
from cutlearn.metrics import Confusion, confusion, iou_of, mean_iou_of, means, ratio, stack_tables
from cutlearn.model.calibration import drawn
from cutlearn.run.executor import ONE_THREAD, Resident, Residents

# What a pixel of label 0, and one of label 1, counts.
EQUAL = np.ones(2)


class Scorer:
    """Scores of images, and the value of a list of them.

    Parameters
    ----------
    problems, labels : sequences of the same length
    model : Model
    data : Residents
        Both of them, where they are worked.
    """

    name = ""
    weights: Vector = EQUAL

    def __init__(
        self, problems: Sequence[Problem], labels: Sequence[Mask], model: Model, data: Residents
    ) -> None:
        self.problems, self.labels, self.model, self.data = problems, labels, model, data

    def scores(self, images: Sequence[int], w: Vector) -> list[Any]:
        """Give the scores of some images, by their numbers."""
        alone = copy.copy(self)  # what scores one image needs no others, and travels without them
        alone.problems, alone.labels, alone.data = (), (), ONE_THREAD.residents(())
        return self.data.take(images).map(partial(_scored, alone), w)

    def score(self, image: int, problem: Problem, labels: Mask, w: Vector) -> Any:
        """Give the score of one image: a number, or a table that adds up."""
        raise NotImplementedError

    def parts(self, scores: Sequence[Any]) -> Vector:
        """Give the scores as an array (n, ...) whose sums over images `figure` takes."""
        return means(scores)

    def figure(self, sums: Vector) -> Vector:
        """Give the values of sums (..., ); here means, in which images weigh alike."""
        return ratio(sums)

    def value(self, scores: Sequence[Any]) -> float:
        """Give the value of all scores together."""
        return float(self.figure(self.parts(scores).sum(axis=0)))


class Overlap(Scorer):
    """Pooled IoU: of label 1, or the mean over several labels."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.name = "pooled IoU" if self.model.labels.name == "binary" else "pooled mean IoU"

    def score(self, image: int, problem: Problem, labels: Mask, w: Vector) -> Confusion:
        """Give the table of an image, so that areas weigh."""
        return confusion(labels, self.model.mask(problem, w), self.model.n_labels)

    def parts(self, scores: Sequence[Confusion]) -> Vector:
        """Return the tables; of two labels, true ones count by their weights."""
        tables = stack_tables(scores)
        return tables * self.weights[:, None] if self.model.n_labels == 2 else tables

    def figure(self, sums: Vector) -> Vector:
        """Give the IoU of added tables."""
        return iou_of(sums, 1) if self.model.labels.name == "binary" else mean_iou_of(sums)


class Cost(Scorer):
    """Minus the loss a pixel."""

    name = "-loss"

    def __init__(self, loss: Loss, *given: Any) -> None:
        super().__init__(*given)
        self.loss = loss

    def score(self, image: int, problem: Problem, labels: Mask, w: Vector) -> float:
        """Give minus the loss of an image, over its labelled pixels."""
        truth = labels.reshape(-1)
        known = truth != VOID
        flat = np.where(known, truth, 0).astype(np.uint8)
        found = self.model.mask(problem, w)
        cost = self.loss.bind(image, flat, known, self.model.n_labels).value(found)
        return -cost / int(known.sum())


class Likelihood(Scorer):
    """The mean log-likelihood of a pixel, all of the image's graph in place."""

    name = "log-likelihood"

    def score(self, image: int, problem: Problem, labels: Mask, w: Vector) -> float:
        """Give the mean of log q_d(y_d) over labelled pixels that no box or seed fixes."""
        rows = drawn(self.model.min_marginals(problem, w), labels, labels.size)
        if not len(rows.labels):
            return 0.0
        _, soft = softened(rows.min_marginals)
        return float((soft - rows.min_marginals[np.arange(len(soft)), rows.labels]).mean())


def _scored(scorer: Scorer, resident: Resident, image: int, w: Vector) -> Any:
    problem, labels = resident.value
    return scorer.score(image, problem, labels, w)
