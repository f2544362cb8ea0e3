"""Several labels as one binary field each, with surrogate min-marginals (tarlow2012 section 6).

Label k has a binary energy E^k(y; w_k) of its own, y_d = 1 where node d takes the label, and w is
w_0, w_1, .. end to end. With Phi^k the min-marginals of E^k, the surrogate of node d and label k is

    S_dk = Phi^k_d(1) - Phi^k_d(0),    q_d = softmax over k of -S_dk.

Fields are independent, so labels go in parallel and one network a thread is all the memory.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.energy.energy import Energy
from cutlearn.energy.model import Layout, ModelLike, checked_weights, model_of
from cutlearn.errors import InputError
from cutlearn.features.problem import Problem
from cutlearn.run.workers import Workers

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class SurrogateLayout:
    """Where each label's weights lie in w.

    Attributes
    ----------
    one : Layout
        Of a single label's field.
    n_labels : int
    """

    one: Layout
    n_labels: int

    @property
    def size(self) -> int:
        """Length of w."""
        return self.n_labels * self.one.size

    def rows(self, w: ArrayLike) -> Matrix:
        """Give the weights of every label, (L, d)."""
        return checked_weights(w, self.size).reshape(self.n_labels, self.one.size)

    def split(self, w: ArrayLike) -> dict[str, Matrix]:
        """Give the parts of w as those of one field, a row for each label."""
        parts = [self.one.split(row) for row in self.rows(w)]
        return {name: np.array([part[name] for part in parts]) for name in parts[0]}

    def inside(self, w: Vector) -> Vector:
        """Give w moved into the cone in which every field has an exact cut."""
        return np.concatenate([self.one.inside(row) for row in self.rows(w)])


def surrogate_layout(problem: Problem, n_labels: int, model: ModelLike = None) -> SurrogateLayout:
    """Give the slices of w for a problem."""
    return SurrogateLayout(model_of(problem, model).layout(problem), n_labels)


def surrogate_labels(problem: Problem, w: ArrayLike, model: ModelLike = None) -> int:
    """Give L, from the length of w."""
    one, size = model_of(problem, model).layout(problem).size, np.asarray(w).size
    if size % one or size < 2 * one:
        raise InputError(
            f"w: {size} weights found; {one} for each of at least two labels wanted. Use weights "
            "learned with kind='surrogate' from such features."
        )
    return size // one


def surrogate_min_marginals(
    problem: Problem, w: ArrayLike, model: ModelLike = None, threads: int = 1
) -> Matrix:
    """Give S of every node and label, (n, L).

    A node that is fixed to a label is fixed to 1 in its field and to 0 in all others.
    """
    layout = surrogate_layout(problem, surrogate_labels(problem, w, model), model)
    rows, field = layout.rows(w), model_of(problem, model)
    out = np.empty((problem.n_nodes, len(rows)))

    def fill(k: int) -> None:
        energy = field.energy(problem, rows[k])
        both = energy.min_marginals(fixed_in_field(problem, energy, k)).reshape(-1, 2)
        np.subtract(both[:, 1], both[:, 0], out=out[:, k])

    with Workers(threads) as workers:
        workers.map(fill, range(len(rows)))
    if problem.fixed is not None:  # -inf for the label itself, which no softmax likes
        known = np.flatnonzero(problem.fixed >= 0)
        out[known] = np.inf
        out[known, problem.fixed[known]] = 0.0
    return out


def fixed_in_field(problem: Problem, energy: Energy, label: int) -> NDArray[np.int8] | None:
    """Give the fixed nodes of one label's field, in the energy's shape."""
    if problem.fixed is None:
        return None
    fixed = np.where(problem.fixed < 0, -1, problem.fixed == label).astype(np.int8)
    return fixed.reshape(energy.shape)
