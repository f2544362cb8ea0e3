"""Several labels as one binary field each, with surrogate min-marginals."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.arrays import Bits, Mask, Matrix, Vector
from cutlearn.energy.energy import Energy
from cutlearn.energy.labels.base import Labels, Valued, likelihood_weights
from cutlearn.energy.labels.binary import feature_sums, regions_of
from cutlearn.energy.potentials import Potential, Summands, features_of
from cutlearn.energy.problem import Problem
from cutlearn.errors import InputError
from cutlearn.run.executor import executor_of

if TYPE_CHECKING:
    from cutlearn.energy.model import Model


@dataclass(frozen=True)
class Surrogate(Labels):
    """Labels without an order, a binary field each, for likelihoods (tarlow2012 section 6).

    Label k has a binary energy E^k(y; w_k) of its own, y_d = 1 where node d takes the label, and w
    is w_0, w_1, .. end to end. With Phi^k the min-marginals of E^k,

        S_dk = Phi^k_d(1) - Phi^k_d(0),    q_d = softmax over k of -S_dk

    stands for the min-marginals; the best label of a node is the most probable one, since no single
    energy joins the fields.
    """

    name = "surrogate"
    exact = has_energy = False

    @property
    def blocks(self) -> int:
        """One for each label."""
        return self.count

    def spread(self, potentials: tuple[Potential, ...]) -> tuple[Potential, ...]:
        """As they are, in every field."""
        return potentials

    def psi(self, potentials: tuple[Potential, ...], problem: Problem, y: NDArray[Any]) -> Vector:
        """Give the joint features of each field's labelling, end to end."""
        fields = [[features_of(p, problem, y == k) for p in potentials] for k in range(self.count)]
        return np.concatenate([part for field in fields for part in field])

    def energy(self, problem: Problem, terms: Summands) -> Any:
        """Refuse: there is one for each label."""
        raise InputError(
            "labels: surrogate labels have one energy for each label, and none that joins them. "
            "Choose labels='unordered' for one energy of all labels."
        )

    def with_costs(self, terms: Summands, cost: Matrix) -> Summands:
        """Refuse likewise."""
        return self.energy(None, terms)  # type: ignore[arg-type,no-any-return]

    def mask(self, model: "Model", problem: Problem, w: ArrayLike) -> Mask:
        """Give the label of least S at every node."""
        return np.asarray(self.min_marginals(model, problem, w).argmin(axis=-1), np.uint8)

    def min_marginals(
        self, model: "Model", problem: Problem, w: ArrayLike, threads: int = 1
    ) -> Matrix:
        """Give S of every node and label, (n, L).

        A node that is fixed to a label is fixed to 1 in its field and to 0 in all others.
        """
        rows, field = model.layout(problem).rows(w), _field(model)
        out = np.empty((problem.n_nodes, len(rows)))

        def fill(k: int) -> None:
            energy = field.energy(problem, rows[k])
            both = energy.min_marginals(_fixed_in_field(problem, energy, k)).reshape(-1, 2)
            np.subtract(both[:, 1], both[:, 0], out=out[:, k])

        executor_of(threads).map(fill, range(len(rows)))
        if problem.fixed is not None:  # -inf for the label itself, which no softmax likes
            fixed = np.flatnonzero(problem.fixed >= 0)
            out[fixed] = np.inf
            out[fixed, problem.fixed[fixed]] = 0.0
        return out

    def log_likelihood(
        self, model: "Model", problem: Problem, w: ArrayLike, truth: Mask, known: Bits
    ) -> Valued:
        """Two passes: the probabilities of all labels give the weights of each label's sums.

        Only one number a node and label is kept between them.
        """
        costs = self.min_marginals(model, problem, w)
        total, c = likelihood_weights(costs, truth, known)
        # S falls with the cost of 1 - y where the field's cut has y = 1.
        c[costs < 0] *= -1.0
        gradient, field = [], _field(model)
        for k, row in enumerate(model.layout(problem).rows(w)):
            energy = field.energy(problem, row)
            sums = energy.argmin_sums(
                weights=c[:, k].reshape(energy.shape),
                regions=regions_of(problem, field),
                fixed=_fixed_in_field(problem, energy, k),
            )
            gradient.append(feature_sums(problem, field, sums))
        return total, np.concatenate(gradient)


def _field(model: "Model") -> "Model":
    """The model of a single label's field."""
    return type(model)(model.potentials)


def _fixed_in_field(problem: Problem, energy: Energy, label: int) -> NDArray[np.int8] | None:
    """The fixed nodes of one label's field, in the energy's shape."""
    if problem.fixed is None:
        return None
    fixed = np.where(problem.fixed < 0, -1, problem.fixed == label).astype(np.int8)
    return fixed.reshape(energy.shape)
