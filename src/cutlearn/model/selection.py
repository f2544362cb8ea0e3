"""Training of weights for what is evaluated: C, and for pooled IoU the bias, chosen on images.

In: problems whose node features are out of fold, their masks, a loss or a likelihood. Out: weights.
With `loss="hamming"` they are scored by the pooled IoU of label 1: C by held-out images, which
leaves its default only for a gain of more than one deviation over the images, smaller ones being
chance; then the bias is shifted to the optimum of pooled IoU, since a hinge on weak features can
give a rare label to no pixel at all. Another loss is its own score, a likelihood is scored by that
of held-out images, with rivals that have fewer potentials; then the bias stays as trained.

The shift. Pooled IoU is J = I / U, sums over all images. One more pixel of label 1 adds its
probability p to I and 1 - p to U, so masks are best where label 1 is given to the pixels of
p / (1 - p) >= J (Dinkelbach 1967). A hinge puts the border elsewhere, for rare labels far away. The
probability of a cost u of label 1 is fitted on the labelled pixels,

    log(p / (1 - p)) = b - s u,    s and b of the largest likelihood,

twice: the odds are needed at the border, where a line that also serves pixels which are sure may
be off, so the second time a pixel counts by p (1 - p) of the first. The shift (log(J) - b) / s
moves the odds of the border to J. J is what the masks reach with it: first without edges, at the
best threshold, then by the cut itself. Nothing is searched for, so few images cannot lead it far
astray; searching for the best shift does (docs/decisions/0044-the-bias-that-serves-iou.md, 0051).
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from cutlearn.arrays import VOID, Mask, Vector
from cutlearn.energy.compiled import softened
from cutlearn.energy.label_space import LabelSpace
from cutlearn.energy.model import Model, unary_of
from cutlearn.energy.potentials import FEW, Contrast, Enveloped
from cutlearn.energy.problem import Problem
from cutlearn.features.auto import best_threshold, clearly_best
from cutlearn.features.folds import held_out_parts
from cutlearn.grid import grid_offsets, grid_slices
from cutlearn.learn.learners import is_margin
from cutlearn.learn.losses import Loss, loss_of
from cutlearn.learn.pool import Pool, residents_of
from cutlearn.learn.run import Step, TrainResult
from cutlearn.learn.train import train
from cutlearn.loaded import taken
from cutlearn.metrics import (
    Confusion,
    bootstrap,
    confusion,
    iou_of,
    mean_iou_of,
    means,
    ratio,
    stack_tables,
)
from cutlearn.model.calibration import (
    Calibration,
    Rows,
    Temperature,
    calibrate,
    costs_alone,
    drawn,
    most_of,
    uncalibrated,
)
from cutlearn.run.executor import Jobs, Resident, executor_of

# C = "auto" takes the first unless another is clearly better on held-out images.
PATH = (1000.0, 100.0, 10000.0)
LIKELIHOOD_PATH = (300.0, 30.0, 3000.0)
# Labels without an order cost several cuts where others cost one: so many settings of the path of a
# margin, or of a likelihood, are tried with them, one if there are more than a few, and held-out
# trainings stop at this gap; so does the last one with more than a few, where nothing is proved.
SETTINGS_OF_SEVERAL, TOL_OF_SEVERAL = {True: 2, False: 1}, 0.05
# Borders are hidden if edges that join two labels are fewer than this share of the edges between
# annotated and void pixels.
HIDDEN = 0.01
# The weight of the contrast then, in log-odds: the first unless another is clearly better.
STRENGTHS = (1.0, 0.0, 2.0, 4.0)
# Pixels of all images together that the odds are fitted on.
MOST_ROWS = 200_000
# Without edges, a shift gives label 1 no less and no more than these parts of its true area.
LEAST_AREA, MOST_AREA = 0.5, 2.0
# What a pixel counts that is sure: without it, labels that costs separate perfectly would count 0.
NO_DOUBT = 1e-9
# What a pixel of label 0, and one of label 1, counts.
EQUAL = np.ones(2)


class Setting(NamedTuple):
    """What is chosen on held-out images."""

    learner: str
    C: float


def settings_of(labels: LabelSpace, learner: str, rivals: Sequence[str] = ()) -> list[Setting]:
    """Return what C = "auto" tries: the first, unless another is clearly better held out."""
    margin = is_margin(learner)
    path: Sequence[float] = PATH if margin else LIKELIHOOD_PATH
    if not labels.exact:
        path = path[: 1 if labels.count > FEW else SETTINGS_OF_SEVERAL[margin]]
    return [Setting(name, C) for name in (learner, *rivals) for C in path]


def least_gap(labels: LabelSpace) -> float:
    """Return the gap at which the last training stops, if `tol` is not larger."""
    return TOL_OF_SEVERAL if not labels.exact and labels.count > FEW else 0.0


class Scorer:
    """Scores of images at some weights, more is better, and the value of a list of them.

    Attributes
    ----------
    weights : (2,)
        What a pixel of label 0, and one of label 1, counts.
    """

    name = ""

    def __init__(self, model: Model) -> None:
        self.model, self.weights = model, EQUAL

    def score(self, image: int, problem: Problem, labels: Mask, w: Vector) -> Any:
        """Return the score of one image: a number, or a table that adds up."""
        raise NotImplementedError

    def score_resident(self, resident: Resident, image: int, w: Vector) -> Any:
        """Return the score of an image where it stays."""
        problem, labels = resident.value
        return self.score(image, problem, labels, w)

    def parts(self, scores: Sequence[Any]) -> Vector:
        """Return the scores as an array (n, ...), over whose sums `figure` is computed."""
        return means(scores)

    def figure(self, sums: Vector) -> Vector:
        """Return the values of sums (..., ); here means, in which images weigh alike."""
        return ratio(sums)

    def value(self, scores: Sequence[Any]) -> float:
        """Return the value of all scores together."""
        return float(self.figure(self.parts(scores).sum(axis=0)))


class Overlap(Scorer):
    """Pooled IoU: of label 1, or the mean over several labels."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.name = "pooled IoU" if model.labels.name == "binary" else "pooled mean IoU"

    def score(self, image: int, problem: Problem, labels: Mask, w: Vector) -> Confusion:
        """Return the table of an image, so that areas weigh."""
        return confusion(labels, self.model.mask(problem, w), self.model.n_labels)

    def parts(self, scores: Sequence[Confusion]) -> Vector:
        """Return the tables; of two labels, true ones count by their weights."""
        tables = stack_tables(scores)
        return tables * self.weights[:, None] if self.model.n_labels == 2 else tables

    def figure(self, sums: Vector) -> Vector:
        """Return the IoU of added tables."""
        return iou_of(sums, 1) if self.model.labels.name == "binary" else mean_iou_of(sums)


class LossScore(Scorer):
    """Minus the loss per pixel."""

    name = "-loss"

    def __init__(self, loss: Loss, model: Model) -> None:
        super().__init__(model)
        self.loss = loss

    def score(self, image: int, problem: Problem, labels: Mask, w: Vector) -> float:
        """Return minus the loss of an image, over its labelled pixels."""
        truth = labels.reshape(-1)
        known = truth != VOID
        flat = np.where(known, truth, 0).astype(np.uint8)
        found = self.model.mask(problem, w)
        cost = self.loss.bind(image, flat, known, self.model.n_labels).value(found)
        return -cost / int(known.sum())


class LikelihoodScore(Scorer):
    """The mean log-likelihood of a pixel under softmax(-Phi), all of the image's graph in place."""

    name = "log-likelihood"

    def score(self, image: int, problem: Problem, labels: Mask, w: Vector) -> float:
        """Return the mean of log q_d(y_d) over labelled pixels that no box or seed fixes."""
        rows = drawn(self.model.min_marginals(problem, w), labels, labels.size)
        if not len(rows.labels):
            return 0.0
        _, soft = softened(rows.min_marginals)
        return float((soft - rows.min_marginals[np.arange(len(soft)), rows.labels]).mean())


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
        """Return the shift of the bias that puts the border at odds of J."""
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
    """Return costs of label 1 and labels of pixels, evenly drawn from those with a label."""
    sizes = [int((y != VOID).sum()) for y in labels]
    step = max(1, -(-sum(sizes) // MOST_ROWS)) | 1  # odd: not the same few columns of each row
    layout = model.layout(problems[0])
    own = [(p, w[at]) for p, at in zip(layout.potentials, layout.slices)]
    # What envelopes add to the cost of label 1 for a pixel whose regions turn with it.
    samples = [p.spec.convert(v, "samples") for p, v in own if isinstance(p, Enveloped)]
    added = float(sum(v[-1] - v[0] for v in samples))
    costs, truth = [], []
    for problem, mask in zip(problems, labels):
        known = np.flatnonzero(mask.reshape(-1) != VOID)[::step]
        costs.append(unary_of(problem, w)[known] + added)
        truth.append(mask.reshape(-1)[known])
    return np.concatenate(costs), np.concatenate(truth)


def shifted(w: Vector, shift: float) -> Vector:
    """Return w with its bias shifted: the first node feature is 1, so every unary moves alike."""
    return np.concatenate([[w[0] + shift], w[1:]])


@dataclass(frozen=True, eq=False)
class Chosen:
    """The training that was chosen, its weights with the bias shifted, and how it was evaluated.

    `calibration` is fitted on images that were held out; without a second group of images on those
    of the training.
    """

    result: TrainResult
    w: Vector
    calibration: Calibration
    judged: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class Trainer:
    """Train with C and bias chosen for what is evaluated; all trainings share one pool of planes.

    Parameters
    ----------
    problems : n problems with out-of-fold features
    labels : n masks of labels and 255 (void)
    model : Model
    loss, learner, C, tol, calibration, n_jobs
        As of a Segmenter, checked.
    groups : n hashables, optional
        Images of one group are held out together. None: each by itself.
    rivals : learners that C = "auto" tries besides `learner`
    edge_factor : float
        What edges count for new images, of what they weigh in training.
    contrast : columns of the edge features that measure how alike two neighbours are
        They have weights where no border is annotated; without any such columns edges weigh what
        was learned.
    logits : bool
        Whether logits are among the node features: models that never saw the image made them.
    checkpoint : folder, optional
    callback : callable (Step), optional
    """

    problems: Sequence[Problem]
    labels: Sequence[Mask]
    model: Model = field(default_factory=Model)
    loss: str | Loss = "hamming"
    learner: str = "bundle"
    C: float | str = "auto"
    tol: float = 0.01
    groups: Sequence[Any] | None = None
    calibration: str | None = "temperature"
    rivals: tuple[str, ...] = ()
    edge_factor: float = 1.0
    contrast: tuple[int, ...] = ()
    logits: bool = False
    n_jobs: Jobs = None
    checkpoint: Path | None = None
    callback: Callable[[Step], None] | None = None

    def __post_init__(self) -> None:
        self.together = range(len(self.problems)) if self.groups is None else self.groups
        # What is held out together, for C and calibration alike.
        self.parts = held_out_parts(self.together)
        # On a cluster images stay where they were sent once.
        self.data = residents_of(executor_of(self.n_jobs), self.problems, self.labels)
        self._loss = loss_of(self.loss) if is_margin(self.learner) else self.loss
        if not is_margin(self.learner):
            self.scorer: Scorer = LikelihoodScore(self.model)
        elif self.loss == "hamming":
            self.scorer = Overlap(self.model)
        else:
            self.scorer = LossScore(loss_of(self.loss), self.model)
        # The weight of the contrast in log-odds, where no border is annotated.
        self.strength: float | None = None
        # Weights by setting and held-out part.
        self.held_out: dict[tuple[Setting, int], Vector] = {}

    def choose(self) -> Chosen:
        """Train with the best setting, shift the bias, and calibrate."""
        setting, judged = self._best()
        every, scorer, aim = range(len(self.problems)), self.scorer, None
        result = self._train(every, setting, "train", least_gap(self.model.labels))
        if self.hidden:
            given = self.problems, self.labels, result.w, self.model
            scorer.weights = area_weights(*given)
        w = self._weakened(result.w)
        if self.serves_overlap:
            judged["edges"] = self.edge_factor
            if self.strength is not None:
                judged["contrast"] = self.strength
            judged["shift"], aim, scores = self.served(w)
            w = shifted(w, judged["shift"])
        else:
            scores = self.scores(every, w)
        others = self._others(setting, w, aim)
        calibration = self._calibration(w, others)
        judged |= {"judge": scorer.name, "training": scorer.value(scores)}
        if len(others) > 1:  # scores of images at weights that have not seen them
            tables = scorer.parts(self._of_parts(others))
            judged["held_out"] = bootstrap(tables, scorer.figure).plain()
        return Chosen(result, w, calibration, judged)

    def scores(self, images: Sequence[int], w: Vector) -> list[Any]:
        """Return the scores of some images, by their numbers."""
        return self.data.take(images).map(self.scorer.score_resident, w)

    def served(self, w: Vector) -> tuple[float, float, list[Any]]:
        """Return the shift of the bias for pooled IoU, its J, and the scores of all images."""
        every = range(len(self.problems))
        odds = self._odds(self.problems, self.labels, w)
        if odds is None:
            return 0.0, 0.0, self.scores(every, w)
        before, J, shift, scores = 0.0, odds.plain, 0.0, []
        for _ in range(2):
            shift = odds.shift(J)
            scores = self.scores(every, shifted(w, shift))
            before, J = J, self.scorer.value(scores)
        return shift, before, scores

    @property
    def serves_overlap(self) -> bool:
        """Whether weights are changed after the training, for the pooled IoU of two labels."""
        return isinstance(self.scorer, Overlap) and self.model.n_labels == 2

    @cached_property
    def hidden(self) -> bool:
        """Whether borders are hidden, which matters, and there is a contrast to go by."""
        if not self.serves_overlap:
            return False
        wide = self._edges.stop - self._edges.start
        known = bool(self.contrast) and max(self.contrast) < wide
        return known and hides_borders(self.problems, self.labels)

    @cached_property
    def _edges(self) -> slice:
        return self.model.layout(self.problems[0]).slice_of(Contrast.name)

    @cached_property
    def _pool(self) -> Pool | None:
        if isinstance(self._loss, str):
            return None
        return Pool(self.problems, self.labels, self._loss, n_jobs=self.n_jobs, model=self.model)

    def _odds(self, problems: Sequence[Problem], labels: Sequence[Mask], w: Vector) -> Odds | None:
        return Odds.of(problems, labels, w, self.model, self.scorer.weights)

    def _train(
        self, images: Sequence[int], setting: Setting, name: str, least: float
    ) -> TrainResult:
        """Train on some of the images, up to `tol` or `least`; steps are kept under this name."""
        steps: list[Step] = []

        def forward(step: Step) -> None:
            steps[:] = [step]
            if self.callback is not None:
                self.callback(step)

        result = train(
            taken(self.problems, images),
            taken(self.labels, images),
            self._loss,
            *setting,
            max(self.tol, least),
            model=self.model,
            n_jobs=self.n_jobs,
            checkpoint=self.checkpoint and self.checkpoint / f"{name}.safetensors",
            callback=None if self.callback is None else forward,
            pool=None if self._pool is None else self._pool.subset(images),
        )
        if self.callback is not None and not steps:
            self.callback(result.steps[-1])  # so that runs finished by an earlier fit are counted
        return result

    def _weakened(self, w: Vector) -> Vector:
        """Return w with edges that count what they should for new images.

        Where void pixels hide the borders, as around strokes, no edge of the training joins
        different labels: smoothing costs nothing there, and would swallow the objects. Such edges
        have a weight on the contrast only, in log-odds, of which there is a usual one; another is
        taken if the masks of whole images are clearly better at the annotated pixels.
        """
        if not self.serves_overlap:
            return w
        if not self.hidden:
            made = w.copy()
            made[self._edges] *= self.edge_factor
            return made
        if self.strength is None:
            tables = {}
            for strength in STRENGTHS:
                _, _, scores = self.served(self._contrasted(w, strength))
                tables[strength] = self.scorer.parts(scores)
            self.strength = clearly_best(tables, STRENGTHS[0], self.scorer.figure)
        return self._contrasted(w, self.strength)

    def _contrasted(self, w: Vector, strength: float) -> Vector:
        """Return w with edges of this strength, by what costs are worth in log-odds."""
        made, odds = w.copy(), self._odds(self.problems, self.labels, w)
        if odds is not None and odds.scale > 0:
            made[self._edges] = 0
            columns = self._edges.start + np.array(self.contrast)
            made[columns] = strength * self.edge_factor * odds.unit / odds.scale
        return made

    def _best(self) -> tuple[Setting, dict[str, Any]]:
        """Return the best setting of the path, or the one that was given, and its evaluation."""
        if not isinstance(self.C, str):
            return Setting(self.learner, self.C), {}
        path = settings_of(self.model.labels, self.learner, self.rivals)
        if len(self.parts) < 2:
            return path[0], {"path": []}
        scores = {setting: self._scores_of(setting) for setting in path}
        parts_of = {setting: self.scorer.parts(found) for setting, found in scores.items()}
        chosen = clearly_best(parts_of, path[0], self.scorer.figure)
        rows = [{"C": s.C, "judged": self.scorer.value(scores[s])} for s in path]
        if not self.rivals:
            return chosen, {"path": rows}
        named = [{"learner": s.learner} | row for s, row in zip(path, rows)]
        return chosen, {"learner": chosen.learner, "path": named}

    def _scores_of(self, setting: Setting) -> list[Any]:
        """Return scores of every image at weights that have not seen it."""
        every = [self._train_without(k, setting) for k in range(len(self.parts))]
        if self.hidden:  # what training learns of edges is not used
            every = [self._contrasted(w, STRENGTHS[0]) for w in every]
        return self._of_parts(every)

    def _of_parts(self, every: Sequence[Vector]) -> list[Any]:
        """Return the scores of all images, each part of them with weights of its own."""
        found: dict[int, Any] = {}
        for w, out in zip(every, self.parts):
            found |= zip(out, self.scores(out, w))
        return [found[i] for i in range(len(self.problems))]

    def _others(self, setting: Setting, w: Vector, aim: float | None) -> list[Vector]:
        """Return weights for the images of each part that had not seen them, or w for all of them.

        They had not where C or a calibration needs such. Their bias serves a pooled IoU of `aim`,
        if there is one, as that of w does already.
        """
        known = all((setting, k) in self.held_out for k in range(len(self.parts)))
        if len(self.parts) < 2 or not (known or self.calibration is not None):
            return [w]
        unseen = [self._weakened(self._train_without(k, setting)) for k in range(len(self.parts))]
        if aim is None:
            return unseen
        seen = [self._without(k) for k in range(len(self.parts))]
        executor = executor_of(self.n_jobs).local
        return executor.map(partial(self._served_by, aim), zip(unseen, seen))

    def _served_by(self, aim: float, given: tuple[Vector, Sequence[int]]) -> Vector:
        """Shift the bias of weights that were trained on some images."""
        w, images = given
        odds = self._odds(taken(self.problems, images), taken(self.labels, images), w)
        return w if odds is None else shifted(w, odds.shift(aim))

    def _train_without(self, k: int, setting: Setting) -> Vector:
        """Return weights that have not seen the images of part k; trained once per setting."""
        if (setting, k) not in self.held_out:
            name = f"part{k}-{setting.learner}-C{setting.C:g}"
            least = 0.0 if self.model.labels.exact else TOL_OF_SEVERAL
            self.held_out[setting, k] = self._train(self._without(k), setting, name, least).w
        return self.held_out[setting, k]

    def _without(self, k: int) -> list[int]:
        out = set(self.parts[k])
        return [i for i in range(len(self.problems)) if i not in out]

    def _calibration(self, w: Vector, others: Sequence[Vector]) -> Calibration:
        """Calibrate on min-marginals of training images.

        Errors of areas come from weights that were not trained on the image, if others exist
        (docs/decisions/0054). So does the map, unless there are logits: these are held out
        themselves, and weights that were learned from a part of the images differ from w by more
        than w is optimistic (docs/decisions/0051).
        """
        if self.calibration is None:
            return uncalibrated(self.model.n_labels)
        every = range(len(self.problems))
        parts: Sequence[Sequence[int]] = self.parts if len(others) > 1 else [every]
        held = self._calibrated(list(zip(others, parts)), len(others) > 1)
        if not (self.logits and held.held_out):
            return held
        own = self._calibrated([(w, every)], True)
        return replace(
            own,
            area_scale=held.area_scale,
            mask_weight=held.mask_weight,
            degrees=held.degrees,
        )

    def _calibrated(
        self, given: Sequence[tuple[Vector, Sequence[int]]], held_out: bool
    ) -> Calibration:
        """Calibrate on all images, each with its own weights."""
        rows: dict[int, Rows] = {}
        draw = partial(_drawn, self.model, most_of(len(self.problems), self.model.n_labels))
        for w, images in given:
            rows |= zip(images, self.data.take(images).map(draw, w))
        seen, threads = [rows[i] for i in range(len(rows))], executor_of(self.n_jobs).threads
        return calibrate(seen, self.calibration, held_out, self.together, threads)


def hides_borders(problems: Sequence[Problem], labels: Sequence[Mask]) -> bool:
    """Return whether next to no edge joins two labels, compared with edges that leave annotations.

    Examples
    --------
    >>> grid = Problem(np.ones((1, 4, 1)), shape=(1, 4))
    >>> strokes, whole = np.array([[0, 255, 255, 1]]), np.array([[0, 0, 1, 1]])
    >>> hides_borders([grid], [strokes]), hides_borders([grid], [whole])
    (True, False)
    """
    joined = left = 0
    for problem, mask in zip(problems, labels):
        for one, other in _ends(problem, mask):
            joined += int(((one != other) & (one != VOID) & (other != VOID)).sum())
            left += int(((one == VOID) != (other == VOID)).sum())
    return joined < HIDDEN * left


def _ends(problem: Problem, mask: Mask) -> Iterator[tuple[Mask, Mask]]:
    """Yield labels at both ends of edges; of a volume, within slices."""
    if problem.shape is None:
        first, second = problem.edge_ends().T
        yield mask.ravel()[first], mask.ravel()[second]
        return
    connectivity = int(problem.connectivity or 0)
    moves = grid_offsets(len(problem.shape), connectivity)
    for move, (tail, head) in zip(moves, grid_slices(problem.shape, connectivity)):
        if len(move) < 3 or move[0] == 0:
            yield mask.reshape(problem.shape)[tail], mask.reshape(problem.shape)[head]


def _drawn(model: Model, most: int, resident: Resident, image: int, w: Vector) -> Rows:
    problem, labels = resident.value
    return drawn(model.min_marginals(problem, w), labels, most, costs_alone(model, problem, w))
