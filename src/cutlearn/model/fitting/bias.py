"""The bias that serves pooled IoU: odds of a pixel's own cost in, one shift of all costs out.

Pooled IoU is J = I / U, sums over all images. One more pixel of label 1 adds its probability p to I
and 1 - p to U, so masks are best where label 1 is given to the pixels of p / (1 - p) >= J
(Dinkelbach 1967). A hinge puts the border elsewhere, for rare labels far away. What a cost u of
label 1 is worth is asked of the labelled pixels,

    log(p / (1 - p)) = b - s u,    s and b of the largest likelihood,

twice: the odds are needed at the border, where a line that also serves pixels which are sure may
be off, so the second time a pixel counts by p (1 - p) of the first. The shift (log(J) - b) / s
moves the odds of the border to J. J is what the masks reach with it: first without edges, at the
best threshold, then by the cut itself. Nothing is searched for, so few images cannot lead it far
astray; searching for the best shift does (docs/decisions/0044-the-bias-that-serves-iou.md, 0051).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from cutlearn.arrays import VOID, Mask, Vector
from cutlearn.energy.model import Model, unary_of
from cutlearn.energy.potentials import Enveloped
from cutlearn.energy.problem import Problem
from cutlearn.features.auto import best_threshold
from cutlearn.metrics import Confusion
from cutlearn.model.calibration import Temperature
from cutlearn.model.fitting.scorers import EQUAL, Scorer

# Pixels of all images together that the odds are fitted on.
MOST_ROWS = 200_000
# Without edges, a shift gives label 1 no less and no more than these parts of its true area.
LEAST_AREA, MOST_AREA = 0.5, 2.0
# What a pixel counts that is sure: without it, labels that costs separate perfectly would count 0.
NO_DOUBT = 1e-9


class Odds(NamedTuple):
    """What costs u of label 1 are worth, at some weights.

    Attributes
    ----------
    scale, offset : float
        s and b, of costs that are standardised.
    least, most : float
        Where the border may lie, in standardised costs.
    middle, unit : float
        Mean and deviation of the costs.
    plain : float
        J of the best border without edges; 0: no pixel has label 1.
    """

    scale: float
    offset: float
    least: float
    most: float
    middle: float
    unit: float
    plain: float

    @staticmethod
    def of(
        problems: Sequence[Problem],
        labels: Sequence[Mask],
        w: Vector,
        model: Model,
        weights: Vector = EQUAL,
    ) -> "Odds | None":
        """Fit them on pixels of all images, evenly drawn; None: one label, or one cost.

        `weights` are what a pixel of label 0, and one of label 1, counts.
        """
        u, y = _pixels(problems, labels, w, model)
        weight = weights[y] / max(float(weights[y].sum()), NO_DOUBT)
        share = float(weight[y == 1].sum())
        if not 0 < share < 1:
            return None
        # A hinge may leave next to nothing of the features; what is left is all that is known.
        middle, unit = float(u.mean()), float(u.std())
        if unit <= 0:
            return None
        u = (u - middle) / unit
        costs = np.stack([np.zeros_like(u), u], axis=1)
        doubt = Temperature.fit(costs, y, weight).probabilities(costs).prod(axis=1) + NO_DOUBT
        doubt *= weight
        fitted = Temperature.fit(costs, y, doubt / doubt.sum())
        least, most = (float(np.quantile(u, min(1.0, a * share))) for a in (LEAST_AREA, MOST_AREA))
        found = -u >= best_threshold([(-u).astype(np.float32)], [y], [weight])
        plain = float(weight[found & (y == 1)].sum() / weight[found | (y == 1)].sum())
        offset = float(fitted.offsets[1] - fitted.offsets[0])
        return Odds(fitted.scale, offset, least, most, middle, unit, plain)

    def shift(self, J: float) -> float:
        """Give the shift of the bias that puts the border at odds of J."""
        border = (self.offset - math.log(max(J, 1e-9))) / self.scale
        return -(self.middle + self.unit * min(max(border, self.least), self.most))


def area_weights(
    problems: Sequence[Problem], labels: Sequence[Mask], w: Vector, model: Model
) -> Vector:
    """Return what a pixel of label 0, and one of label 1, counts so that labels have their areas.

    Strokes mark as much of a rare label as of a frequent one. The share of label 1 among all
    pixels, void ones included, is estimated by its mean probability. Repeating this with the new
    share, up to the largest likelihood (Saerens 2002), relies on the probabilities of pixels that
    are unlike strokes, and can make a label vanish.
    """
    odds = Odds.of(problems, labels, w, model)
    if odds is None:
        return EQUAL
    _, y = _pixels(problems, labels, w, model)
    u, _ = _pixels(problems, [np.zeros_like(mask) for mask in labels], w, model)
    marked = float((y == 1).mean())
    share = float(expit(odds.offset - odds.scale * (u - odds.middle) / odds.unit).mean())
    return np.array([(1 - share) / (1 - marked), share / marked])


def _pixels(
    problems: Sequence[Problem], labels: Sequence[Mask], w: Vector, model: Model
) -> tuple[Vector, Mask]:
    """Costs of label 1 and labels of pixels, evenly drawn from those with a label."""
    sizes = [int((y != VOID).sum()) for y in labels]
    step = max(1, -(-sum(sizes) // MOST_ROWS)) | 1  # odd: not the same few columns of each row
    lean = _lean(problems[0], w, model)
    costs, truth = [], []
    for problem, mask in zip(problems, labels):
        known = np.flatnonzero(mask.reshape(-1) != VOID)[::step]
        costs.append(unary_of(problem, w)[known] + lean)
        truth.append(mask.reshape(-1)[known])
    return np.concatenate(costs), np.concatenate(truth)


def served(scorer: Scorer, w: Vector) -> tuple[float, float, list[Confusion]]:
    """Give the shift of the bias that serves pooled IoU, its J, and the scores of all images."""
    every = range(len(scorer.problems))
    odds = Odds.of(scorer.problems, scorer.labels, w, scorer.model, scorer.weights)
    if odds is None:
        return 0.0, 0.0, scorer.scores(every, w)
    J, shift, scores = odds.plain, 0.0, []
    for _ in range(2):
        shift = odds.shift(J)
        scores = scorer.scores(every, shifted(w, shift))
        before, J = J, scorer.value(scores)
    return shift, before, scores


def shifted(w: Vector, shift: float) -> Vector:
    """Give w with its bias shifted: the first node feature is 1, so every unary moves alike."""
    return np.concatenate([[w[0] + shift], w[1:]])


def _lean(problem: Problem, w: Vector, model: Model) -> float:
    """What envelopes add to the cost of label 1 for a pixel whose regions turn with it."""
    layout = model.layout(problem)
    parts = [(p, w[at]) for p, at in zip(layout.potentials, layout.slices)]
    samples = [p.spec.convert(v, "samples") for p, v in parts if isinstance(p, Enveloped)]
    return float(sum(v[-1] - v[0] for v in samples))
