"""The oracle: weights in, the plane of one image out.

For image n and weights w it finds the labelling y_hat that maximises
r_n Delta_n(y) - s_n (E_n(y; w) - E_n(y_n; w)), with one cut for each piece of the loss, and
gives the plane b + a . w, b = r_n Delta_n(y_hat), a = s_n (psi_n(y_n) - psi_n(y_hat)). It never
exceeds the image's risk and touches it at w. r_n and s_n are 1/pixels ("pixels"), 1/pixels and 1
("loss"), or 1 ("none").
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn import _core
from cutlearn.arrays import Matrix, Vector
from cutlearn.checks import is_one_of
from cutlearn.energy.compiled import Compiled
from cutlearn.energy.envelopes import Envelope
from cutlearn.energy.model import Layout, Model, checked_weights
from cutlearn.energy.problem import Problem, checked_labels
from cutlearn.errors import InputError, quoted
from cutlearn.learn.losses import BoundLoss, Loss
from cutlearn.run.executor import Resident, executor_of

NORMALIZE = ("pixels", "loss", "none")
SAME = 1e-6  # of its size: how far an energy may be from w . psi


@dataclass(frozen=True, eq=False)
class Plane:
    """An affine lower bound b + a . w of one image's risk."""

    b: float
    a: Vector

    def value(self, w: Vector) -> float:
        """Return the plane's height at w."""
        return self.b + float(self.a @ w)


@dataclass(eq=False)
class TrainingImage:
    """One image with its labels, compiled for a model; in max-margin training with its loss.

    Attributes
    ----------
    compiled : Compiled
        Of the problem; with a loss, of its known nodes alone.
    labels : (n,) uint8
        The true labels; 0 where they are void.
    known : (n,) bool
        False there.
    image : int
        Number of the image, for messages.
    loss : BoundLoss, or None with a likelihood
    loss_scale, energy_scale : float
        The factors r_n and s_n of the normalisation.
    """

    compiled: Compiled
    labels: NDArray[np.uint8]
    known: NDArray[np.bool_]
    image: int = 0
    loss: BoundLoss | None = None
    loss_scale: float = 1.0
    energy_scale: float = 1.0
    _compared: bool = False

    def __post_init__(self) -> None:
        loss, compiled = self.loss, self.compiled
        if loss is None:
            return
        if compiled.core is None:
            if loss.table.size:
                raise InputError(
                    "loss is a CountFunction, which works only with the potentials that the core "
                    "knows. Use Count or Hamming with these potentials."
                )
            return
        cost = loss.cost
        if self.model.labels.name == "ordered":  # the core takes the cost of label 0 too
            cost = np.concatenate([np.zeros_like(cost[..., :1]), cost], axis=-1)
        scales = self.loss_scale, self.energy_scale
        compiled.core.set_loss(self.labels, loss.constant, cost.reshape(-1), *scales)
        if loss.counts:
            compiled.set_regions(loss.counts)
        if loss.table.size:
            compiled.core.set_table(loss.table, loss.counted.astype(np.uint8))

    @property
    def problem(self) -> Problem:
        """The arrays of the image."""
        return self.compiled.problem

    @property
    def model(self) -> Model:
        """The potentials and the labels."""
        return self.compiled.model

    @property
    def layout(self) -> Layout:
        """The named slices of w."""
        return self.compiled.layout

    @property
    def bound(self) -> BoundLoss:
        """The loss, which every image of max-margin training has."""
        assert self.loss is not None
        return self.loss

    @property
    def largest(self) -> float:
        """The largest possible loss of the image, normalised."""
        return self.loss_scale * self.bound.largest

    @property
    def rounding(self) -> Vector:
        """The largest errors by rounding of b and a of the image's planes, (1 + d,).

        Sums of m terms are right to m eps times the sum of sizes. Sizes are those of psi with the
        sizes of the features, of labellings that have every label and every pair of labels.
        """
        problem, n_labels = self.problem, self.model.n_labels
        shape = *(problem.shape or (-1,)), problem.n_node_features
        sizes = replace(problem, node_features=np.abs(problem.node_features).reshape(shape))
        draws = np.random.default_rng(0).integers(0, n_labels, problem.n_nodes)
        constant = [np.full(problem.n_nodes, k, np.uint8) for k in range(n_labels)]
        every = [self.labels, draws.astype(np.uint8), *constant]
        mass = np.sum([np.abs(self.model.psi(sizes, y)) for y in every], axis=0)
        scales = np.concatenate([[self.largest], self.energy_scale * mass])
        count = problem.n_nodes + problem.n_edges + len(mass)
        return np.asarray(count * np.finfo(float).eps * scales)

    def arrays(self) -> list[NDArray[Any] | None]:
        """Return what a fingerprint of the image must cover."""
        problem = self.problem
        out = [problem.node_features, problem.edge_features, problem.edges, problem.fixed]
        out += [self.labels, self.known]
        for family in problem.regions if self.model.has_regions or not self.model.in_core else ():
            out += [family.first, family.members]
        return out if self.loss is None else [*out, *self.loss.arrays()]

    def plane(self, w: Vector) -> Plane:
        """Return the highest plane of the image at w."""
        row = planes_at([self], w)[0]
        return Plane(float(row[0]), row[1:])

    def plane_of_terms(self, w: Vector) -> Plane:
        """Return a high plane at w from terms made in Python: energy, cut and psi of each piece.

        It is slower than the core's and as exact as the labels' own minimisation: with unordered
        labels the plane is a lower bound of the risk that may not touch it.
        """
        problem, model, loss = self.problem, self.model, self.bound
        ratio, truth = self.loss_scale / self.energy_scale, model.psi(problem, self.labels)
        terms = model.terms(problem, w)
        terms.envelopes = terms.envelopes + [
            Envelope(e.members, ratio * e.slopes, ratio * e.intercepts, e.weights)
            for e in loss.counts
        ]
        best: Plane | None = None
        for cost in ratio * loss.cost:
            energy = model.labels.energy(problem, model.labels.with_costs(terms, cost))
            fixed = None if problem.fixed is None else problem.fixed.reshape(energy.shape)
            y = energy.minimize(fixed).labels
            found = model.psi(problem, y)
            if not self._compared:
                self._compare(w, y, found, truth)
            plane = Plane(self.loss_scale * loss.value(y), self.energy_scale * (truth - found))
            # Ties between pieces: the lowest index.
            if best is None or plane.value(w) > best.value(w):
                best = plane
        assert best is not None
        return best

    def _compare(self, w: Vector, y: NDArray[Any], found: Vector, truth: Vector) -> None:
        """Raise InputError for potentials whose psi is not that of their terms.

        Their planes would be no bounds. Two labellings that differ, at weights that matter, are
        compared once.
        """
        energy = self.model.energy(self.problem, w)
        values = [float(energy.value(one)) for one in (y, self.labels.reshape(y.shape))]
        parts = [w * found, w * truth]
        rise, expected = values[1] - values[0], float(parts[1].sum() - parts[0].sum())
        size = sum(map(abs, values)) + float(np.abs(parts).sum())
        if abs(rise - expected) > SAME * size:
            names = quoted([p.name for p in self.model.potentials])
            raise InputError(
                f"image {self.image}: of the potentials {names} one has other terms than v . psi: "
                f"between two labellings the energy rises by {rise:g}, w . psi by {expected:g}. "
                "Correct its methods psi and terms."
            )
        self._compared = bool(rise != 0)


def training_image(
    problem: Problem,
    labels: ArrayLike,
    model: Model,
    image: int = 0,
    loss: Loss | None = None,
    normalize: str = "pixels",
) -> TrainingImage:
    """Return a problem with its labels (255: void), a model and, for a margin, a loss.

    In a margin void nodes take no part. A likelihood is that of the labels that are known: the
    min-marginals minimise over all other nodes, the void ones too, as in prediction.
    """
    if loss is None:
        given = checked_labels(problem, labels, model.n_labels)
        known = problem.known_of(given)
        truth = np.where(known, given, 0).astype(np.uint8)
        return TrainingImage(Compiled(model, problem), truth, known, image)
    kept, truth = problem.training(labels, model.n_labels)
    known = np.ones(kept.n_nodes, bool) if kept.known is None else kept.known
    bound = loss.bind(image, truth, known, model.n_labels)
    scales = loss_and_energy_scale(known, normalize)
    return TrainingImage(Compiled(model, kept), truth, known, image, bound, *scales)


def loss_and_energy_scale(counted: NDArray[np.bool_], normalize: str) -> tuple[float, float]:
    """Return r_n and s_n of an image with these labelled nodes."""
    if not is_one_of(normalize, NORMALIZE):
        raise InputError(
            f"The 'normalize' parameter must be one of {NORMALIZE}. "
            f"Got {quoted(normalize)} instead."
        )
    share = 1.0 / int(counted.sum())
    return 1.0 if normalize == "none" else share, share if normalize == "pixels" else 1.0


def planes_at(images: Sequence[TrainingImage], w: Vector, threads: int = 1) -> Matrix:
    """Return the rows b, a of each image's highest plane at w, (N, 1 + d).

    The core is called once for all; the result has the same bits for any number of threads.
    """
    if not images:
        return np.zeros((0, 1 + w.size))
    first = images[0].compiled
    checked_weights(w, first.size)
    if first.core is None:
        planes = executor_of(threads).map(lambda one: one.plane_of_terms(w), images)
        return np.array([[plane.b, *plane.a] for plane in planes])
    ordered = first.model.labels.name == "ordered"
    highest: Any = _core.highest_ordered_planes if ordered else _core.highest_planes
    order = first.order
    try:
        found = highest([one.compiled.core for one in images], w[order], threads)
    except (OverflowError, RuntimeError, MemoryError) as error:
        raise _failed(error, [one.image for one in images], w) from error
    # In rows, as the core gave them: sums over images depend on the layout in their last bits.
    back: Matrix = np.take(found, np.argsort(np.concatenate([[-1], order])), axis=1)
    return back


def plane_of(
    name: str, model: Model, loss: Loss, normalize: str, resident: Resident, image: int, w: Vector
) -> Vector:
    """Return the row b, a of an image's plane, where the image and its labels stay.

    The compiled image is cached there under `name`, a hash of model, loss and normalisation.
    """

    def make() -> TrainingImage:
        problem, labels = resident.value
        return training_image(problem, labels, model, image, loss, normalize)

    one: TrainingImage = resident.once(f"oracle {image} {name}", make)
    row: Vector = planes_at([one], w)[0]
    return row


def _failed(error: Exception, images: Sequence[int], w: Vector) -> Exception:
    """Return the error of an image: an InputError if its energy is out of range."""
    number, what = error.args
    if not isinstance(error, OverflowError):
        return type(error)(f"image {images[number]}: the oracle failed, {what}")
    return InputError(
        f"image {images[number]}: {what}. Its energy cannot be minimised with weights up to "
        f"{np.abs(w).max():g}. Scale its features, or choose a smaller C."
    )
