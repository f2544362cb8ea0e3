"""The oracle: weights in, the plane of one image out.

For image n and weights w it finds the labelling y_hat that maximises
r_n Delta_n(y) - s_n (E_n(y; w) - E_n(y_n; w)), with one cut for each piece of the loss, and
gives the plane b + a . w, b = r_n Delta_n(y_hat), a = s_n (psi_n(y_n) - psi_n(y_hat)). It never
exceeds the image's risk and touches it at w. r_n and s_n are 1/pixels ("pixels"), 1/pixels and 1
("loss"), or 1 ("none").
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn import _core
from cutlearn.arrays import Matrix, Vector
from cutlearn.checks import is_one_of
from cutlearn.energy.envelopes import Envelope, Form
from cutlearn.energy.label_space import fixed_in
from cutlearn.energy.model import Layout, Model, checked_weights
from cutlearn.energy.potentials import Enveloped
from cutlearn.energy.problem import Problem, checked_labels
from cutlearn.errors import InputError, quoted
from cutlearn.learn.losses import BoundLoss, Loss
from cutlearn.run.executor import Resident, executor_of

NORMALIZE = ("pixels", "loss", "none")
FORMS = get_args(Form)  # in the order of the core's
SAME = 1e-6  # of its size: how far an energy may be from w . psi


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
    """What training needs of one image.

    Attributes
    ----------
    problem : Problem
        With a loss, that of the known nodes alone; for a likelihood as it was given.
    labels : (n,) uint8
        The true labels; 0 where they are void.
    known : (n,) bool
        False there.
    model : Model
    image : int
        Number of the image, for messages.
    loss : BoundLoss, or None with a likelihood
    loss_scale, energy_scale : float
        The factors r_n and s_n of the normalisation.
    """

    problem: Problem
    labels: NDArray[np.uint8]
    known: NDArray[np.bool_]
    model: Model
    image: int = 0
    loss: BoundLoss | None = None
    loss_scale: float = 1.0
    energy_scale: float = 1.0

    @property
    def bound(self) -> BoundLoss:
        """The loss, which every task of max-margin training has."""
        assert self.loss is not None
        return self.loss

    @property
    def layout(self) -> Layout:
        """The named slices of w."""
        return self.model.layout(self.problem)

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
        """What a fingerprint of the task must see."""
        problem = self.problem
        out = [problem.node_features, problem.edge_features, problem.edges, problem.fixed]
        out += [self.labels, self.known]
        for family in problem.regions if self.model.has_regions or not self.model.in_core else ():
            out += [family.first, family.members]
        return out if self.loss is None else [*out, *self.loss.arrays()]


def task_of(
    problem: Problem,
    labels: ArrayLike,
    model: Model,
    image: int = 0,
    loss: Loss | None = None,
    normalize: str = "pixels",
) -> Task:
    """Bind a problem, its labels (255: void), a model and, for a margin, a loss.

    In a margin void nodes take no part. A likelihood is that of the labels that are known: the
    min-marginals minimise over all other nodes, the void ones too, as in prediction.
    """
    if loss is None:
        given = checked_labels(problem, labels, model.n_labels)
        known = problem.known_of(given)
        return Task(problem, np.where(known, given, 0).astype(np.uint8), known, model, image)
    kept, truth = problem.training(labels, model.n_labels)
    known = np.ones(kept.n_nodes, bool) if kept.known is None else kept.known
    bound = loss.bind(image, truth, known, model.n_labels)
    return Task(kept, truth, known, model, image, bound, *shares(known, normalize))


def shares(counted: NDArray[np.bool_], normalize: str) -> tuple[float, float]:
    """Return r_n and s_n of an image with these labelled nodes."""
    if not is_one_of(normalize, NORMALIZE):
        raise InputError(
            f"The 'normalize' parameter must be one of {NORMALIZE}. "
            f"Got {quoted(normalize)} instead."
        )
    share = 1.0 / int(counted.sum())
    return 1.0 if normalize == "none" else share, share if normalize == "pixels" else 1.0


class Oracle(Protocol):
    """What the pool asks: the plane of one image, and those of many in one round."""

    task: Task

    def __call__(self, w: Vector) -> Plane: ...
    @staticmethod
    def ask(oracles: Sequence[Any], w: Vector, threads: int = 1) -> Matrix: ...


class CoreOracle:
    """The oracle of one image with two labels, in the core.

    Parameters
    ----------
    task : Task
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        loss = task.bound
        self.core = _core.Oracle(
            *_arrays(task.problem),
            np.zeros(0, np.int8) if task.problem.fixed is None else task.problem.fixed,
            task.labels,
            loss.constant,
            loss.cost.reshape(-1),
            task.loss_scale,
            task.energy_scale,
        )
        if task.model.has_regions or loss.counts:
            self.core.set_regions(*_regions(task))
        if loss.table.size:
            self.core.set_table(loss.table, loss.counted.astype(np.uint8))

    def __call__(self, w: Vector) -> Plane:
        """Give the highest plane of the image at w."""
        return _plane(self.ask([self], w)[0])

    @staticmethod
    def ask(oracles: Sequence["CoreOracle"], w: Vector, threads: int = 1) -> Matrix:
        """Ask every oracle at w, in one call of the core; the same bits for any number of threads.

        Returns
        -------
        (N, 1 + d) float64
            b, a of each image's highest plane.
        """
        return _ask_core(_core.highest_planes, oracles, w, threads)


class OrderedCoreOracle:
    """The oracle of one image with ordered labels, in the core.

    Parameters
    ----------
    task : Task
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        problem, loss = task.problem, task.bound
        node, edge, shape, connectivity, ends = _arrays(problem)
        # The core takes the cost of label 0 too.
        cost = np.concatenate([np.zeros_like(loss.cost[..., :1]), loss.cost], axis=-1)
        self.core = _core.OrderedOracle(
            node,
            edge,
            task.model.n_labels,
            shape,
            connectivity,
            ends,
            np.zeros(0, np.int16) if problem.fixed is None else problem.fixed.astype(np.int16),
            task.labels,
            loss.constant,
            cost.reshape(-1),
            task.loss_scale,
            task.energy_scale,
        )

    def __call__(self, w: Vector) -> Plane:
        """Give the highest plane of the image at w."""
        return _plane(self.ask([self], w)[0])

    @staticmethod
    def ask(oracles: Sequence["OrderedCoreOracle"], w: Vector, threads: int = 1) -> Matrix:
        """Ask every oracle at w, in one call of the core."""
        return _ask_core(_core.highest_ordered_planes, oracles, w, threads)


class GenericOracle:
    """The oracle of one image for any potentials and labels, in Python: energy, cut, psi.

    Slower than the core's, and as exact as the labels' own minimisation: with unordered labels the
    plane is a lower bound of the risk that may not touch it.

    Parameters
    ----------
    task : Task
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        if task.bound.table.size:
            raise InputError(
                "loss is a CountFunction, which works only with the potentials that the core "
                "knows. Use Count or Hamming with these potentials."
            )
        self.truth = task.model.psi(task.problem, task.labels)
        ratio = task.loss_scale / task.energy_scale
        self.counts = [
            Envelope(e.members, ratio * e.slopes, ratio * e.intercepts, e.weights)
            for e in task.bound.counts
        ]
        self.cost = ratio * task.bound.cost
        self.agrees = False

    def __call__(self, w: Vector) -> Plane:
        """Give a high plane of the image at w: the best of one minimisation for each piece."""
        task, labels = self.task, self.task.model.labels
        terms = task.model.terms(task.problem, w)
        terms.envelopes = terms.envelopes + self.counts
        best: Plane | None = None
        for cost in self.cost:
            energy = labels.energy(task.problem, labels.with_costs(terms, cost))
            y = energy.minimize(fixed_in(task.problem, energy.shape)).labels
            found = task.model.psi(task.problem, y)
            if not self.agrees:
                self._compare(w, y, found)
            plane = Plane(
                task.loss_scale * task.bound.value(y), task.energy_scale * (self.truth - found)
            )
            # Ties between pieces: the lowest index.
            if best is None or plane.value(w) > best.value(w):
                best = plane
        assert best is not None
        return best

    def _compare(self, w: Vector, y: NDArray[Any], found: Vector) -> None:
        """Refuse potentials whose psi is not that of their terms: their planes would be no bounds.

        Two labellings that differ, at weights that say something, are compared once.
        """
        task, model = self.task, self.task.model
        energy = model.energy(task.problem, w)
        labels = [y, task.labels.reshape(y.shape)]
        values = [float(energy.value(one)) for one in labels]
        parts = [w * found, w * self.truth]
        rise, expected = values[1] - values[0], float(parts[1].sum() - parts[0].sum())
        size = sum(map(abs, values)) + float(np.abs(parts).sum())
        if abs(rise - expected) > SAME * size:
            names = quoted([p.name for p in model.potentials])
            raise InputError(
                f"image {task.image}: of the potentials {names} one has other terms than v . psi: "
                f"between two labellings the energy rises by {rise:g}, w . psi by {expected:g}. "
                "Correct its methods psi and terms."
            )
        self.agrees = bool(rise != 0)

    @staticmethod
    def ask(oracles: Sequence["GenericOracle"], w: Vector, threads: int = 1) -> Matrix:
        """Ask every oracle at w; rows b, a of a high plane of each image."""
        checked_weights(w, oracles[0].task.layout.size)
        planes = executor_of(threads).map(lambda oracle: oracle(w), oracles)
        return np.array([[plane.b, *plane.a] for plane in planes])


# The core's own oracles, by the name of the labels.
CORE: dict[str, type[CoreOracle] | type[OrderedCoreOracle]] = {
    "binary": CoreOracle,
    "ordered": OrderedCoreOracle,
}


def oracle_of(task: Task) -> Oracle:
    """Give the oracle of one image: the core's where it knows all potentials."""
    model = task.model
    joined = model.has_edges or task.problem.n_edge_features == 0
    known = model.in_core and joined and model.labels.name in CORE
    return CORE[model.labels.name](task) if known else GenericOracle(task)


def plane_of(
    name: str, model: Model, loss: Loss, normalize: str, resident: Resident, image: int, w: Vector
) -> Vector:
    """Give the row b, a of an image's plane, where the image and its labels stay.

    Its oracle is made once for a model, a loss and a normalisation, all three of which have one
    name, and stays there too.
    """

    def make() -> Oracle:
        problem, labels = resident.value
        return oracle_of(task_of(problem, labels, model, image, loss, normalize))

    oracle: Oracle = resident.once(f"oracle {image} {name}", make)
    row: Vector = oracle.ask([oracle], w)[0]
    return row


def _plane(row: Vector) -> Plane:
    return Plane(float(row[0]), row[1:])


def _ask_core(highest: Any, oracles: Sequence[Any], w: Vector, threads: int) -> Matrix:
    if not oracles:
        return np.zeros((0, 1 + w.size))
    task = oracles[0].task
    checked_weights(w, task.layout.size)
    order = task.model.core_order(task.problem)
    try:
        planes = highest([oracle.core for oracle in oracles], w[order], threads)
    except (OverflowError, RuntimeError, MemoryError) as error:
        raise failed(error, [oracle.task.image for oracle in oracles], w) from error
    # In rows, as the core gave them: sums over images depend on the layout in their last bits.
    back: Matrix = np.take(planes, np.argsort(np.concatenate([[-1], order])), axis=1)
    return back


def _arrays(problem: Problem) -> tuple[Any, Any, list[int], int, NDArray[np.int32]]:
    """Node and edge features, shape, connectivity and ends of the edges, as the core takes them."""
    ends = np.zeros(0, np.int32) if problem.edges is None else problem.edges.reshape(-1)
    shape = list(problem.shape or (problem.n_nodes,))
    return problem.node_features, problem.edge_features, shape, problem.connectivity or 0, ends


def failed(error: Exception, images: Sequence[int], w: Vector) -> Exception:
    """Say which image's oracle failed, and why; an energy out of range is the input's fault."""
    number, what = error.args
    if not isinstance(error, OverflowError):
        return type(error)(f"image {images[number]}: the oracle failed, {what}")
    return InputError(
        f"image {images[number]}: {what}. Its energy cannot be minimised with weights up to "
        f"{np.abs(w).max():g}. Scale its features, or choose a smaller C."
    )


def _regions(task: Task) -> tuple[list[tuple[int, int, int, bool]], _core.Regions, float]:
    """The forms of the envelopes; their regions, then those that the loss counts; a constant."""
    found = [p for p in task.model.potentials if isinstance(p, Enveloped)]
    families = [(task.problem.regions[p.family], p.spec) for p in found]
    counts = task.bound.counts
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
