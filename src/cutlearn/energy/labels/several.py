"""Several labels joined by tables: ordered ones by an exact cut, unordered ones by moves."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from cutlearn.arrays import Bits, Mask, Matrix
from cutlearn.energy.joins import LinearTables
from cutlearn.energy.labels.base import (
    Labels,
    Valued,
    answers,
    by_direction,
    fixed_in,
    likelihood_weights,
)
from cutlearn.energy.moves import UnorderedEnergy
from cutlearn.energy.ordered import OrderedEnergy
from cutlearn.energy.potentials import Potential, Summands
from cutlearn.energy.problem import Problem
from cutlearn.errors import InputError
from cutlearn.grid import grid_slices

if TYPE_CHECKING:
    from cutlearn.energy.model import Model


class Several(Labels):
    """Labels 0 .. L - 1 joined by tables."""

    ordered: ClassVar[bool]

    def spread(self, potentials: tuple[Potential, ...]) -> tuple[Potential, ...]:
        """A slice for each label and tables for contrast, or less for many labels."""
        return tuple(p.for_labels(self.count, self.ordered) for p in potentials)

    def with_costs(self, terms: Summands, cost: Matrix) -> Summands:
        """Give terms with costs of the labels 1, 2, .. added."""
        assert terms.unary is not None
        unary = terms.unary.copy()
        unary[:, 1:] += cost
        return Summands(unary, terms.edges, terms.envelopes)

    def _tables(self, problem: Problem, terms: Summands) -> LinearTables | Matrix:
        L = self.count
        return np.zeros((problem.n_edges, L, L)) if terms.edges is None else terms.edges


@dataclass(frozen=True)
class Ordered(Several):
    """Labels 0 < 1 < .. < L - 1 with a table of costs for each edge feature: one exact cut."""

    name = "ordered"
    ordered = True
    takes_envelopes = False

    def questions(self, mask: Mask) -> Mask:
        """One question a threshold: this label or a higher one?"""
        return answers(mask, [mask >= k for k in range(1, self.count)])

    def energy(self, problem: Problem, terms: Summands) -> OrderedEnergy:
        """Give the energy of terms; envelopes of single labels have no exact cut."""
        if terms.envelopes:
            raise InputError(
                "envelope: ordered labels take no envelopes, because the fraction of a middle "
                "label has no exact cut. Leave out the envelope, or choose unordered labels."
            )
        given, unary = self._tables(problem, terms), terms.unary
        tables = given.dense() if isinstance(given, LinearTables) else given
        assert unary is not None
        if problem.shape is None:
            return OrderedEnergy(unary, problem.edges, tables)
        L, connectivity = self.count, int(problem.connectivity or 0)
        if problem.n_edges:
            parts = by_direction(problem, tables)
        else:
            parts = [np.zeros((L, L))] * len(grid_slices(problem.shape, connectivity))
        return OrderedEnergy.grid(unary.reshape(*problem.shape, L), parts, connectivity)

    def min_marginals(
        self, model: "Model", problem: Problem, w: ArrayLike, threads: int = 1
    ) -> Matrix:
        """Give the exact min-marginals."""
        energy = model.energy(problem, w)
        fixed = fixed_in(problem, energy.shape)
        return np.asarray(energy.min_marginals(fixed)).reshape(-1, self.count)

    def log_likelihood(
        self, model: "Model", problem: Problem, w: ArrayLike, truth: Mask, known: Bits
    ) -> Valued:
        """D dL/dw = sum_dk c_dk psi(argmin_dk), c_dk = q_d(k) - [y*_d = k]; sum_k c_dk = 0."""
        energy = model.energy(problem, w)
        fixed = fixed_in(problem, energy.shape)
        costs = np.asarray(energy.min_marginals(fixed)).reshape(-1, self.count)
        total, c = likelihood_weights(costs, truth, known)
        sums = energy.argmin_sums(c.reshape(*energy.shape, self.count), fixed)
        parts = [p.label_sums(problem, sums) for p in self.spread(model.potentials)]  # type: ignore[attr-defined]
        return total, np.concatenate(parts)


@dataclass(frozen=True)
class Unordered(Several):
    """Labels without an order, a table of costs for each edge feature: expansion moves.

    A move is exact, their end a local optimum: nothing is certified. The min-marginals are those of
    one more move from there, which probabilities can be made of, but no likelihood.
    """

    name = "unordered"
    ordered = exact = has_order = has_likelihood = False

    def energy(self, problem: Problem, terms: Summands) -> UnorderedEnergy:
        """Give the energy of terms."""
        assert terms.unary is not None
        tables = self._tables(problem, terms)
        return UnorderedEnergy.of(problem, terms.unary, tables, terms.envelopes)

    def min_marginals(
        self, model: "Model", problem: Problem, w: ArrayLike, threads: int = 1
    ) -> Matrix:
        """Give the least energies within one expansion of each label from the best labels."""
        energy = model.energy(problem, w)
        return np.asarray(energy.min_marginals(fixed_in(problem, energy.shape), threads))
