"""Two labels: one exact cut, exact min-marginals."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.arrays import VOID, Bits, Mask, Matrix, Vector
from cutlearn.energy.energy import Energy
from cutlearn.energy.labels.base import Labels, Posed, Valued, by_direction, fixed_in
from cutlearn.energy.potentials import Potential, Summands, features_of
from cutlearn.energy.problem import Problem
from cutlearn.graph.marginals import ArgminSums

if TYPE_CHECKING:
    from cutlearn.energy.model import Model


@dataclass(frozen=True)
class Binary(Labels):
    """Labels 0 and 1: one exact cut."""

    name = "binary"
    most = 2

    def questions(self, mask: Mask) -> Mask:
        """One question: label 1?"""
        return mask[..., None]

    def spread(self, potentials: tuple[Potential, ...]) -> tuple[Potential, ...]:
        """As they are."""
        return potentials

    def psi(self, potentials: tuple[Potential, ...], problem: Problem, y: NDArray[Any]) -> Vector:
        """Give the joint features of a labelling."""
        return np.concatenate([features_of(p, problem, y.astype(bool)) for p in potentials])

    def energy(self, problem: Problem, terms: Summands) -> Energy:
        """Give the energy of terms."""
        unary = np.zeros(problem.n_nodes) if terms.unary is None else terms.unary
        edges = np.zeros(problem.n_edges) if terms.edges is None else terms.edges
        if problem.shape is None:
            return Energy(unary, problem.edges, edges, terms.envelopes)
        connectivity = int(problem.connectivity or 0)
        parts = 0.0 if problem.n_edges == 0 else by_direction(problem, edges)
        return Energy.grid(unary.reshape(problem.shape), parts, connectivity, terms.envelopes)

    def with_costs(self, terms: Summands, cost: Matrix) -> Summands:
        """Give terms with the cost of label 1 added."""
        unary = cost[:, 0] if terms.unary is None else terms.unary + cost[:, 0]
        return Summands(unary, terms.edges, terms.envelopes)

    def posed(self, model: "Model", problem: Problem, w: ArrayLike) -> Posed:
        """Give what answers for the problem: its energy, which has no features any more."""
        energy = model.energy(problem, w)
        fixed = fixed_in(problem, energy.shape)
        return Posed(
            lambda: np.asarray(energy.minimize(fixed).labels, np.uint8),
            lambda: np.asarray(energy.min_marginals(fixed)).reshape(-1, 2),
        )

    def min_marginals(
        self, model: "Model", problem: Problem, w: ArrayLike, threads: int = 1
    ) -> Matrix:
        """Give the exact min-marginals."""
        energy = model.energy(problem, w)
        fixed = fixed_in(problem, energy.shape)
        return np.asarray(energy.min_marginals(fixed, threads)).reshape(-1, 2)

    def log_likelihood(
        self, model: "Model", problem: Problem, w: ArrayLike, truth: Mask, known: Bits
    ) -> Valued:
        """D dL/dw = sum_d c_d [psi(argmin_d) - psi(y)], c_d = q_d(1 - y_d) - [y*_d != y_d]."""
        energy = model.energy(problem, w)
        sums = energy.argmin_sums(
            truth=np.where(known, truth, VOID).astype(np.uint8).reshape(energy.shape),
            regions=regions_of(problem, model),
            fixed=fixed_in(problem, energy.shape),
        )
        total = binary_log_likelihood(sums.min_marginals, truth, known)
        return total, feature_sums(problem, model, sums)


def binary_log_likelihood(min_marginals: Matrix, truth: Mask, known: Bits) -> float:
    """Give sum_d log q_d(y_d) over the known labels, q_d = softmax of -Phi_d of two labels."""
    phi = min_marginals.reshape(-1, 2)
    above = phi[:, 1] - phi[:, 0]
    np.negative(above, out=above, where=truth != 1)
    if not known.all():
        above = above[known]
    # log q = -log(1 + exp(a)), a the cost of the true label above the other's.
    return -float((np.maximum(above, 0.0) + np.log1p(np.exp(-np.abs(above)))).sum())


def regions_of(problem: Problem, model: "Model") -> list[NDArray[np.int32]]:
    """Give the regions whose counts the potentials ask for, in their order."""
    return [members for p in model.potentials for members in p.regions(problem)]


def feature_sums(problem: Problem, model: "Model", sums: ArgminSums) -> Vector:
    """Give sum_d c_d [psi(argmin_d) - psi(y)] in the order of w."""
    parts, begin = [], 0
    for p in model.potentials:
        parts.append(p.argmin_sums(problem, sums, begin))
        begin += len(p.regions(problem))
    return np.concatenate(parts)
