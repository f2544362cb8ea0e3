"""The oracle: weights in, the plane of one image out.

For image n and weights w it finds the labelling y_hat that maximises
r_n Delta_n(y) - s_n (E_n(y; w) - E_n(y_n; w)), with one cut for each piece of the loss, and
gives the plane b + a . w, b = r_n Delta_n(y_hat), a = s_n (psi_n(y_n) - psi_n(y_hat)). It never
exceeds the image's risk and touches it at w. r_n and s_n are 1/pixels ("pixels"), 1/pixels and 1
("loss"), or 1 ("none").
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn import _core
from cutlearn.checks import is_one_of
from cutlearn.energy.forms import Form
from cutlearn.energy.model import Layout, Model, ModelLike, checked_weights, model_of
from cutlearn.errors import InputError, quoted
from cutlearn.features.problem import VOID, Problem, checked_labels
from cutlearn.learn.image_loss import ImageLoss, Loss

Vector = NDArray[np.float64]

NORMALIZE = ("pixels", "loss", "none")
FORMS = get_args(Form)  # in the order of the core's


@dataclass(frozen=True, eq=False)
class Plane:
    """An affine lower bound b + a . w of one image's risk."""

    b: float
    a: Vector

    def value(self, w: Vector) -> float:
        """Give the plane's height at w."""
        return self.b + float(self.a @ w)


@dataclass(frozen=True, eq=False)
class Task:
    """What the oracle of one image needs, void nodes removed.

    Attributes
    ----------
    problem : Problem
    labels : (n,) uint8
        The true labels, 0 or 1.
    loss : ImageLoss
    loss_scale, energy_scale : float
        The factors r_n and s_n of the normalisation.
    model : Model
    layout : Layout
        Of its weights.
    image : int
        Number of the image, for messages.
    """

    problem: Problem
    labels: NDArray[np.uint8]
    loss: ImageLoss
    loss_scale: float
    energy_scale: float
    model: Model
    layout: Layout
    image: int = 0

    @property
    def largest(self) -> float:
        """The largest possible loss of the image, normalised."""
        return self.loss_scale * self.loss.largest

    def arrays(self) -> list[NDArray[Any] | None]:
        """What a fingerprint of the task must see."""
        problem, loss = self.problem, self.loss
        out = [problem.node_features, problem.edge_features, problem.edges, problem.fixed]
        out += [self.labels, loss.unary, loss.constant, loss.table]
        for family in problem.regions if self.layout.specs or not self.model.in_core else ():
            out += [family.first, family.members]
        for e in loss.counts:
            out += [e.members, e.weights, e.slopes, e.intercepts]
        return out


def task_of(
    problem: Problem,
    labels: ArrayLike,
    loss: Loss,
    image: int = 0,
    normalize: str = "pixels",
    model: ModelLike = None,
) -> Task:
    """Bind a problem, its labels (255: void), a loss and a model."""
    given = checked_labels(problem, labels)
    counted = given != VOID
    bound = loss.bind(image, np.where(counted, given, 0).astype(np.uint8), counted)
    kept, truth = problem.training(given)
    if kept.n_nodes != problem.n_nodes:
        bound = bound.take(counted)
    chosen = model_of(problem, model)
    return Task(
        kept, truth, bound, *shares(counted, normalize), chosen, chosen.layout(problem), image
    )


def shares(counted: NDArray[np.bool_], normalize: str) -> tuple[float, float]:
    """Give r_n and s_n of an image with these labelled nodes."""
    if not is_one_of(normalize, NORMALIZE):
        raise InputError(
            f"The 'normalize' parameter must be one of {NORMALIZE}. "
            f"Got {quoted(normalize)} instead."
        )
    share = 1.0 / int(counted.sum())
    return 1.0 if normalize == "none" else share, share if normalize == "pixels" else 1.0


class Oracle:
    """The oracle of one image, in the core.

    Parameters
    ----------
    task : Task
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        problem, loss = task.problem, task.loss
        features = problem.edge_features
        assert features is not None
        ends = np.zeros(0, np.int32) if problem.edges is None else problem.edges.reshape(-1)
        self.core = _core.Oracle(
            problem.node_features,
            features,
            list(problem.shape or (problem.n_nodes,)),
            problem.connectivity or 0,
            ends,
            np.zeros(0, np.int8) if problem.fixed is None else problem.fixed,
            task.labels,
            loss.constant,
            loss.unary.reshape(-1),
            task.loss_scale,
            task.energy_scale,
        )
        if task.layout.specs or loss.counts:
            self.core.set_regions(*_regions(task))
        if loss.table.size:
            self.core.set_table(loss.table, loss.counted.astype(np.uint8))

    def __call__(self, w: Vector) -> Plane:
        """Give the highest plane of the image at w."""
        row = ask([self], w)[0]
        return Plane(float(row[0]), row[1:])


def ask(oracles: Sequence[Oracle], w: Vector, threads: int = 1) -> NDArray[np.float64]:
    """Ask every oracle at w, in one call of the core; the same bits for any number of threads.

    Returns
    -------
    (N, 1 + d) float64
        b, a of each image's highest plane.
    """
    for oracle in oracles[:1]:
        checked_weights(w, oracle.task.layout.size)
    try:
        return _core.highest_planes([oracle.core for oracle in oracles], w, threads)
    except (OverflowError, RuntimeError, MemoryError) as error:
        raise failed(error, [oracle.task.image for oracle in oracles], w) from error


def failed(error: Exception, images: Sequence[int], w: Vector) -> Exception:
    """Say which image's oracle failed, and why; an energy out of range is the input's fault."""
    number, what = error.args
    if not isinstance(error, OverflowError):
        return type(error)(f"image {images[number]}: the oracle failed, {what}")
    return InputError(
        f"image {images[number]}: {what}, with weights up to {np.abs(w).max():g}; an energy that "
        "can be minimised wanted. Scale its features, or choose a smaller C."
    )


def _regions(task: Task) -> tuple[list[tuple[int, int, int, bool]], _core.Regions, float]:
    """The forms of the envelopes; their regions, then those that the loss counts; a constant."""
    families = list(zip(task.problem.regions, task.layout.specs))
    counts = task.loss.counts
    hinges = [e.hinges() for e in counts]
    members = [family.members for family, _ in families] + [e.members for e in counts]
    sizes = [family.sizes for family, _ in families] + [[e.members.size] for e in counts]
    enveloped = sum(family.members.size for family, _ in families)
    without = [0] * sum(len(family) for family, _ in families)  # slopes and hinges come with w
    regions = _core.Regions(
        _offsets(np.concatenate(sizes)),
        np.concatenate(members).astype(np.int32),
        np.concatenate([np.ones(enveloped), *(e.weights for e in counts)]),
        np.array([*without, *(slope for slope, *_ in hinges)], float),
        _offsets([*without, *(alpha.size for _, _, alpha, _ in hinges)]),
        np.concatenate([np.zeros(0), *(alpha for _, _, alpha, _ in hinges)]),
        np.concatenate([np.zeros(0), *(beta for *_, beta in hinges)]),
    )
    return (
        [(FORMS.index(spec.form), spec.lines, len(family), spec.per == "node")
         for family, spec in families],
        regions,
        float(sum(constant for _, constant, *_ in hinges)),
    )  # fmt: skip


def _offsets(sizes: ArrayLike) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
