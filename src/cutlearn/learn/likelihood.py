"""The likelihood of labels under the beliefs of min-marginals, and its gradient (tarlow2012).

    L(w) = mean_n 1/D_n sum_d log q_nd(y_nd),    q_d = softmax of -Phi_d(.; w)

over the D_n labelled nodes of image n: images weigh the same whatever their size. With the cut y
and argmin_d the labelling of least energy in which d has its other label,

    D_n dL_n/dw = sum_d c_d [psi(argmin_d) - psi(y)],    c_d = q_d(1 - y_d) - [y_nd != y_d],

which the core sums in one pass over the min-marginals. L is smooth where no argmin has a rival, and
not concave.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.energy.model import Layout, Model, ModelLike, checked_weights, model_of
from cutlearn.energy.probability import softened
from cutlearn.energy.surrogate import (
    SurrogateLayout,
    fixed_in_field,
    surrogate_layout,
    surrogate_min_marginals,
)
from cutlearn.errors import InputError
from cutlearn.features.problem import VOID, Problem, checked_labels
from cutlearn.graph.marginals import ArgminSums
from cutlearn.learn.pool import check_alike
from cutlearn.run.workers import Workers

Vector = NDArray[np.float64]
Valued = tuple[float, Vector]


@dataclass(frozen=True, eq=False)
class Evidence:
    """One image with its labels, void nodes removed.

    Attributes
    ----------
    problem : Problem
    labels : (n,) uint8
        255 where a grid keeps the place of a void node.
    known : (n,) bool
        Where they are not.
    image : int
        Number of the image, for messages.
    """

    problem: Problem
    labels: NDArray[np.uint8]
    known: NDArray[np.bool_]
    image: int = 0

    def arrays(self) -> list[NDArray[Any] | None]:
        """What a fingerprint must see."""
        p = self.problem
        out = [p.node_features, p.edge_features, p.edges, p.fixed, self.labels]
        for family in p.regions:
            out += [family.first, family.members]
        return out


def evidence_of(problem: Problem, labels: ArrayLike, image: int = 0, n_labels: int = 2) -> Evidence:
    """Bind a problem and its labels (255: void)."""
    given = checked_labels(problem, labels, n_labels)
    kept, truth = problem.training(given, n_labels)
    if kept.n_nodes == problem.n_nodes:
        truth = given
    return Evidence(kept, truth, truth != VOID, image)


class Maximised(Protocol):
    """What a run asks of one image at w."""

    def value(self, seen: Evidence, w: Vector) -> Valued: ...


class BinaryField:
    """Two labels: values and gradients of the log-likelihood.

    Parameters
    ----------
    problem : Problem
        Any of the images.
    envelope : EnvelopeSpec, or one for each family of regions, optional
    """

    n_labels = 2

    def __init__(self, problem: Problem, envelope: ModelLike) -> None:
        self.model = model_of(problem, envelope)
        self.layout: Layout = self.model.layout(problem)

    def value(self, seen: Evidence, w: Vector) -> Valued:
        """Give L_n and its gradient for one image."""
        problem = seen.problem
        energy = self.model.energy(problem, w)
        fixed = None if problem.fixed is None else problem.fixed.reshape(energy.shape)
        truth = seen.labels.reshape(energy.shape)
        sums = energy.argmin_sums(truth=truth, regions=regions_of(problem, self.model), fixed=fixed)
        share = 1.0 / int(np.count_nonzero(seen.known))
        total = log_likelihood(sums.min_marginals, seen)
        return share * total, share * feature_sums(problem, self.model, sums)


class SurrogateField:
    """Several labels, a binary field each: values and gradients of the log-likelihood.

    Two passes: the probabilities of all labels give the weights of each label's sums. Only one
    number a node and label is kept between them.

    Parameters
    ----------
    problem : Problem
        Any of the images.
    envelope : EnvelopeSpec, or one for each family of regions, optional
    n_labels : int
    """

    def __init__(self, problem: Problem, envelope: ModelLike, n_labels: int) -> None:
        self.model, self.n_labels = model_of(problem, envelope), n_labels
        self.layout: SurrogateLayout = surrogate_layout(problem, n_labels, self.model)

    def value(self, seen: Evidence, w: Vector) -> Valued:
        """Give L_n and its gradient for one image."""
        problem = seen.problem
        costs = surrogate_min_marginals(problem, w, self.model)
        q, soft = softened(costs)
        known = np.flatnonzero(seen.known)
        share = 1.0 / known.size
        total = float((soft[known] - costs[known, seen.labels[known]]).sum())
        gradient = []
        for k, row in enumerate(self.layout.rows(w)):
            c = np.where(seen.known, q[:, k] - (seen.labels == k), 0.0)
            # S falls with the cost of 1 - y where the field's cut has y = 1.
            c[costs[:, k] < 0] *= -1.0
            energy = self.model.energy(problem, row)
            sums = energy.argmin_sums(
                weights=c.reshape(energy.shape),
                regions=regions_of(problem, self.model),
                fixed=fixed_in_field(problem, energy, k),
            )
            gradient.append(feature_sums(problem, self.model, sums))
        return share * total, share * np.concatenate(gradient)


Field = BinaryField | SurrogateField


def likelihood(
    problems: Sequence[Problem],
    labels: Sequence[ArrayLike],
    w: ArrayLike,
    envelope: ModelLike = None,
    *,
    kind: str = "binary",
    n_labels: int | None = None,
    n_jobs: int | None = None,
) -> Valued:
    """Give the average log-likelihood of labels and its gradient with respect to w.

    Parameters
    ----------
    problems, labels : sequences
        One label array (255 for void, which does not count) for each problem.
    w : array
        In the order of `train`.
    envelope : EnvelopeSpec, or one for each family of regions, optional
    kind : "binary" or "surrogate"
    n_labels : int, optional
        For surrogate labels; by default one more than the largest label found.
    n_jobs : int, optional
        Threads over images; the result has the same bits for every number.

    Returns
    -------
    value : float
        Mean over images of the mean over their labelled nodes; 0 at best.
    gradient : array like w

    Examples
    --------
    >>> p = Problem([[1.0], [-3.0]], edges=[[0, 1]])
    >>> value, gradient = likelihood([p], [[0, 1]], [1.0, 0.0])
    >>> round(value, 4), gradient.round(4).tolist()
    (-0.1809, [0.2056, -0.1582])
    """
    field, seen = bind(problems, labels, envelope, kind, n_labels)
    weights = checked_weights(w, field.layout.size)
    with Workers(n_jobs) as workers:
        return mean_likelihood(field, seen, weights, workers)


def bind(
    problems: Sequence[Problem],
    labels: Sequence[ArrayLike],
    envelope: ModelLike,
    kind: str,
    n_labels: int | None,
) -> tuple[Field, list[Evidence]]:
    """Check images and labels, and give the field of a kind with the evidence of each image."""
    check_alike(problems, labels, envelope)
    field: Field
    if kind == "surrogate":
        if n_labels is None:
            known = [np.asarray(y)[np.asarray(y) != VOID] for y in labels]
            n_labels = max(2, 1 + max((int(y.max()) for y in known if y.size), default=1))
        field = SurrogateField(problems[0], envelope, n_labels)
    elif kind == "binary":
        field = BinaryField(problems[0], envelope)
    else:
        raise InputError(
            f"kind: {kind!r} found with a likelihood; 'binary' or 'surrogate' wanted. Ordered and "
            "unordered labels are learned by max-margin training; 'surrogate' takes any labels."
        )
    seen = []
    for image, (problem, given) in enumerate(zip(problems, labels)):
        try:
            seen.append(evidence_of(problem, given, image, field.n_labels))
        except InputError as error:
            raise InputError(f"image {image}: {error}") from error
    return field, seen


def mean_likelihood(
    maximised: Maximised, seen: Sequence[Evidence], w: Vector, workers: Workers
) -> Valued:
    """Give the mean over images of L_n and of its gradient, summed in the images' order."""
    parts = workers.map(lambda one: maximised.value(one, w), seen)
    value = sum(part[0] for part in parts) / len(parts)
    return value, np.sum([part[1] for part in parts], axis=0) / len(parts)


def log_likelihood(min_marginals: NDArray[np.float64], seen: Evidence) -> float:
    """Give sum_d log q_d(y_d) over the labelled nodes, q_d = softmax of -Phi_d of two labels."""
    phi = min_marginals.reshape(-1, 2)
    above = phi[:, 1] - phi[:, 0]
    np.negative(above, out=above, where=seen.labels != 1)
    if not seen.known.all():
        above = above[seen.known]
    # log q = -log(1 + exp(a)), a the cost of the true label above the other's.
    return -float((np.maximum(above, 0.0) + np.log1p(np.exp(-np.abs(above)))).sum())


def regions_of(problem: Problem, model: Model) -> list[NDArray[np.int32]]:
    """Give the regions whose counts the potentials ask for, in their order."""
    return [members for p in model.potentials for members in p.regions(problem)]


def feature_sums(problem: Problem, model: Model, sums: ArgminSums) -> Vector:
    """Give sum_d c_d [psi(argmin_d) - psi(y)] in the order of w."""
    parts, begin = [], 0
    for p in model.potentials:
        parts.append(p.argmin_sums(problem, sums, begin))
        begin += len(p.regions(problem))
    return np.concatenate(parts)
