"""Weights that serve what is judged: C, and for pooled IoU the bias, chosen on images.

In: problems whose node features are honest (out of fold), their masks, a loss or a likelihood.
Out: weights. With `loss="hamming"` they are scored by the pooled IoU of label 1: C by held-out
images, which leaves its default only for a gain of more than one deviation over the images, smaller
ones being chance; then the bias is shifted to where pooled IoU is served (`bias`), since a hinge on
weak features can give a rare label to no pixel at all. Another loss is its own score, a likelihood
is scored by that of held-out images, beside rivals that have fewer potentials; then the bias stays
as trained.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cutlearn.arrays import VOID, Mask, Vector
from cutlearn.energy.model import Model
from cutlearn.energy.potentials import FEW, Contrast
from cutlearn.energy.problem import Problem
from cutlearn.features.auto import clearly_best
from cutlearn.features.folds import held_out_parts
from cutlearn.grid import grid_offsets, grid_slices
from cutlearn.learn.learners import is_margin
from cutlearn.learn.losses import Loss, loss_of
from cutlearn.learn.pool import Pool, residents_of
from cutlearn.learn.run import Step, TrainResult
from cutlearn.learn.train import train
from cutlearn.loaded import taken
from cutlearn.metrics import bootstrap
from cutlearn.model.calibration import (
    Calibration,
    Rows,
    calibrate,
    costs_alone,
    drawn,
    most_of,
    uncalibrated,
)
from cutlearn.model.fitting.bias import Odds, area_weights, served, shifted
from cutlearn.model.fitting.scorers import Cost, Likelihood, Overlap, Scorer
from cutlearn.run.executor import Jobs, Resident, Residents, executor_of

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
# What the contrast weighs then, in log-odds: the first unless another is clearly better.
STRENGTHS = (1.0, 0.0, 2.0, 4.0)


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
    n_jobs: Jobs = None
    checkpoint: Path | None = None
    callback: Callable[[Step], None] | None = None
    model: Model = field(default_factory=Model)
    calibration: str | None = "temperature"
    # Learners that C = "auto" tries beside the plan's own.
    rivals: tuple[str, ...] = ()
    # What edges count for new images, of what they weigh in training.
    edges: float = 1.0
    # Columns of the edge features that say how alike two neighbours are. They have weights where
    # no border is annotated; without any such columns edges weigh what was learned.
    contrast: tuple[int, ...] = ()
    # Whether logits are among the node features: models that never saw the image made them.
    logits: bool = False

    @property
    def path(self) -> list[Setting]:
        """What C = "auto" tries: the first, unless another is clearly better held out."""
        margin = is_margin(self.learner)
        path: Sequence[float] = PATH if margin else LIKELIHOOD_PATH
        if self.several:
            path = path[: 1 if self.many else SETTINGS_OF_SEVERAL[margin]]
        return [Setting(learner, C) for learner in (self.learner, *self.rivals) for C in path]

    @property
    def several(self) -> bool:
        """Whether no single cut is exact for the labels: each image takes one or more a label."""
        return not self.model.labels.exact

    @property
    def many(self) -> bool:
        """Whether they are more than a few, too."""
        return self.several and self.model.n_labels > FEW

    @property
    def least_gap(self) -> float:
        """The gap at which the last training stops, if that asked for is not larger."""
        return TOL_OF_SEVERAL if self.many else 0.0

    def scorer(
        self, problems: Sequence[Problem], labels: Sequence[Mask], data: Residents
    ) -> Scorer:
        """Give what scores the weights."""
        given = problems, labels, self.model, data
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
    run = _Training(problems, labels, plan, together)
    setting, judged = run.best()
    result = run.train(range(len(problems)), setting, "train", plan.least_gap)
    run.weigh(result.w)
    w, scorer, aim = run.weakened(result.w), run.scorer, None
    if run.serves_overlap:
        judged["edges"] = plan.edges
        if run.strength is not None:
            judged["contrast"] = run.strength
        judged["shift"], aim, scores = served(scorer, w)
        w = shifted(w, judged["shift"])
    else:
        scores = scorer.scores(range(len(problems)), w)
    others = run.others(setting, w, aim)
    calibration = run.calibration(w, others)
    judged |= {
        "judge": scorer.name,
        "training": scorer.value(scores),
        **run.held_out_figure(others),
    }
    return Chosen(result, w, calibration, judged)


class _Heard:
    """Passes steps on, and knows whether there were any."""

    def __init__(self, told: Callable[[Step], None] | None) -> None:
        self.told, self.any = told, False

    def __call__(self, step: Step) -> None:
        self.any = True
        if self.told is not None:
            self.told(step)


class _Training:
    """Problems and their masks; all max-margin trainings share one pool of planes."""

    def __init__(
        self,
        problems: Sequence[Problem],
        labels: Sequence[Mask],
        plan: Plan,
        groups: Sequence[Any],
    ) -> None:
        self.problems, self.labels, self.plan, self.groups = problems, labels, plan, groups
        # What is held out together, for C and calibration alike.
        self.parts = held_out_parts(groups)
        # On a cluster all that is asked of images finds them where they were sent once.
        self.data = residents_of(executor_of(plan.n_jobs), problems, labels)
        self.scorer = plan.scorer(problems, labels, self.data)
        self.loss: str | Loss = plan.loss
        self.pool: Pool | None = None
        if is_margin(plan.learner):
            self.loss = loss_of(plan.loss)
            self.pool = Pool(problems, labels, self.loss, n_jobs=plan.n_jobs, model=plan.model)
        self._strength: float | None = None
        # Weights by setting and held-out part; scores of images at those that had not seen them.
        self.held_out: dict[tuple[Setting, int], Vector] = {}
        self.unseen: dict[Setting, list[Any]] = {}

    def train(
        self, images: Sequence[int], setting: Setting, name: str, least: float = 0.0
    ) -> TrainResult:
        """Train on some of the images, up to the plan's tolerance or `least`, if that is larger.

        The steps are kept under this name.
        """
        folder, told = self.plan.checkpoint, self.plan.callback
        heard = _Heard(told)
        result = train(
            taken(self.problems, images),
            taken(self.labels, images),
            self.loss,
            *setting,
            max(self.plan.tol, least),
            model=self.plan.model,
            n_jobs=self.plan.n_jobs,
            checkpoint=None if folder is None else folder / f"{name}.safetensors",
            callback=None if told is None else heard,
            pool=None if self.pool is None else self.pool.take(images),
        )
        if told is not None and not heard.any:
            told(result.steps[-1])  # so that runs are counted that a fit before has finished
        return result

    @property
    def serves_overlap(self) -> bool:
        """Whether weights are changed after the training, for the pooled IoU of two labels."""
        return isinstance(self.scorer, Overlap) and self.plan.model.n_labels == 2

    def weigh(self, w: Vector) -> None:
        """Make annotated pixels count by the areas of their labels, where they are mere strokes."""
        if self.serves_overlap and self.hidden:
            given = self.problems, self.labels, w, self.plan.model
            self.scorer.weights = area_weights(*given)

    def weakened(self, w: Vector) -> Vector:
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
            made[self.edges] *= self.plan.edges
            return made
        if self._strength is None:
            tables = {}
            for strength in STRENGTHS:
                _, _, scores = served(self.scorer, self._contrasted(w, strength))
                tables[strength] = self.scorer.parts(scores)
            self._strength = clearly_best(tables, STRENGTHS[0], self.scorer.figure)
        return self._contrasted(w, self._strength)

    @property
    def strength(self) -> float | None:
        """The weight of the contrast in log-odds, where none could be learned."""
        return self._strength

    @cached_property
    def edges(self) -> slice:
        """The weights of edges."""
        return self.plan.model.layout(self.problems[0]).slice_of(Contrast.name)

    @cached_property
    def hidden(self) -> bool:
        """Whether borders are hidden, and there is a contrast to go by."""
        wide = self.edges.stop - self.edges.start
        known = bool(self.plan.contrast) and max(self.plan.contrast) < wide
        return known and hides_borders(self.problems, self.labels)

    def _contrasted(self, w: Vector, strength: float) -> Vector:
        """Return w with edges of this strength, by what costs are worth in log-odds."""
        given = self.problems, self.labels, w, self.plan.model
        made, odds = w.copy(), Odds.of(*given, self.scorer.weights)
        if odds is not None and odds.scale > 0:
            made[self.edges] = 0
            columns = self.edges.start + np.array(self.plan.contrast)
            made[columns] = strength * self.plan.edges * odds.unit / odds.scale
        return made

    def best(self) -> tuple[Setting, dict[str, Any]]:
        """Give the setting of the plan, or the best of the path, and how it was judged."""
        plan = self.plan
        if not isinstance(plan.C, str):
            return Setting(plan.learner, plan.C), {}
        if len(self.parts) < 2:
            return plan.path[0], {"path": []}
        scores = {setting: self._scores(setting) for setting in plan.path}
        parts_of = {setting: self.scorer.parts(found) for setting, found in scores.items()}
        chosen = clearly_best(parts_of, plan.path[0], self.scorer.figure)
        rows = [{"C": s.C, "judged": self.scorer.value(scores[s])} for s in plan.path]
        if not plan.rivals:
            return chosen, {"path": rows}
        named = [{"learner": s.learner} | row for s, row in zip(plan.path, rows)]
        return chosen, {"learner": chosen.learner, "path": named}

    def others(self, setting: Setting, w: Vector, aim: float | None) -> list[Vector]:
        """Give weights for the images of each part that had not seen them, or w for all of them.

        They had not where C or a calibration asked for such. Their bias serves a pooled IoU of
        `aim`, if there is one, as that of w does already.
        """
        known = all((setting, k) in self.held_out for k in range(len(self.parts)))
        if len(self.parts) < 2 or not (known or self.plan.calibration is not None):
            return [w]
        unseen = [self.weakened(self._train_without(k, setting)) for k in range(len(self.parts))]
        if aim is None:
            return unseen
        seen = [self._without(k) for k in range(len(self.parts))]
        return executor_of(self.plan.n_jobs).local.map(
            partial(self._served, aim), zip(unseen, seen)
        )

    def _served(self, aim: float, given: tuple[Vector, Sequence[int]]) -> Vector:
        """Shift the bias of weights that were trained on some images."""
        w, images = given
        problems, labels = taken(self.problems, images), taken(self.labels, images)
        odds = Odds.of(problems, labels, w, self.plan.model, self.scorer.weights)
        return w if odds is None else shifted(w, odds.shift(aim))

    def held_out_figure(self, others: Sequence[Vector]) -> dict[str, Any]:
        """Give what is said of images by weights that have not seen them, with its spread.

        Nothing where no such weights were trained, for the choice of C or for calibration.
        """
        if len(others) < 2:
            return {}
        found: dict[int, Any] = {}
        for w, out in zip(others, self.parts):
            found |= zip(out, self.scorer.scores(out, w))
        parts = self.scorer.parts([found[i] for i in range(len(self.problems))])
        return {"held_out": bootstrap(parts, self.scorer.figure).plain()}

    def _scores(self, setting: Setting) -> list[Any]:
        """Scores of every image at weights that have not seen it; found once."""
        if setting not in self.unseen:
            found: dict[int, Any] = {}
            for k, out in enumerate(self.parts):
                w = self._train_without(k, setting)
                if self.serves_overlap and self.hidden:  # what training learns of edges is not used
                    w = self._contrasted(w, STRENGTHS[0])
                found |= zip(out, self.scorer.scores(out, w))
            self.unseen[setting] = [found[i] for i in range(len(self.problems))]
        return self.unseen[setting]

    def _train_without(self, k: int, setting: Setting) -> Vector:
        """Weights that have not seen the images of part k; trained once for each setting."""
        if (setting, k) not in self.held_out:
            name = f"part{k}-{setting.learner}-C{setting.C:g}"
            least = TOL_OF_SEVERAL if self.plan.several else 0.0
            self.held_out[setting, k] = self.train(self._without(k), setting, name, least).w
        return self.held_out[setting, k]

    def _without(self, k: int) -> list[int]:
        """The images that are not of part k."""
        out = set(self.parts[k])
        return [i for i in range(len(self.problems)) if i not in out]

    def calibration(self, w: Vector, others: Sequence[Vector]) -> Calibration:
        """Calibrate on min-marginals of training images.

        Errors of areas come from weights that were not trained on the image, if others exist
        (docs/decisions/0054). So does the map, unless there are logits: these are held out
        themselves, and weights that were learned from a part of the images differ from w by more
        than w is optimistic (docs/decisions/0051).
        """
        plan = self.plan
        if plan.calibration is None:
            return uncalibrated(plan.model.n_labels)
        parts = self.parts if len(others) > 1 else [list(range(len(self.problems)))]
        held = self._calibrated(list(zip(others, parts)), len(others) > 1)
        if not (plan.logits and held.held_out):
            return held
        own = self._calibrated([(w, range(len(self.problems)))], True)
        return replace(
            own,
            area_scale=held.area_scale,
            mask_weight=held.mask_weight,
            degrees=held.degrees,
        )

    def _calibrated(
        self, asked: Sequence[tuple[Vector, Sequence[int]]], held_out: bool
    ) -> Calibration:
        """Calibrate on all images, each with the weights that are asked for it."""
        plan, rows = self.plan, dict[int, Rows]()
        draw = partial(_drawn, plan.model, most_of(len(self.problems), plan.model.n_labels))
        for w, images in asked:
            rows |= zip(images, self.data.take(images).map(draw, w))
        seen, threads = [rows[i] for i in range(len(rows))], executor_of(plan.n_jobs).threads
        return calibrate(seen, plan.calibration, held_out, self.groups, threads)


def hides_borders(problems: Sequence[Problem], labels: Sequence[Mask]) -> bool:
    """Whether next to no edge joins two labels, compared with edges that leave what is annotated.

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
    """Labels at both ends of edges; of a volume, within slices."""
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
