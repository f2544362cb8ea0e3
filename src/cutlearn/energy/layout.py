"""Where each potential's weights lie in w.

    w = [block 0 | block 1 | ..],   a block = [potential 0 | potential 1 | ..]

There is one block, but for surrogate labels: these have one for each label.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from cutlearn.arrays import Matrix, Vector
from cutlearn.checks import float_array
from cutlearn.energy.label_potentials import PerLabel, block_diagonal
from cutlearn.energy.potentials import (
    Coordinates,
    FeatureNames,
    Potential,
    Unary,
    constraints_of,
    count_of,
)
from cutlearn.energy.problem import Problem
from cutlearn.errors import InputError


@dataclass(frozen=True)
class Layout:
    """The named slices of w.

    Attributes
    ----------
    potentials : tuple of Potential
    slices : tuple of slice
        One for each of them, within a block.
    blocks : int
    """

    potentials: tuple[Potential, ...]
    slices: tuple[slice, ...]
    blocks: int = 1

    @classmethod
    def of(cls, potentials: tuple[Potential, ...], problem: Problem, blocks: int = 1) -> "Layout":
        """Give the layout for problems with these features."""
        ends = [0, *np.cumsum([count_of(p, problem) for p in potentials]).tolist()]
        return cls(potentials, tuple(slice(i, j) for i, j in pairwise(ends)), blocks)

    @property
    def block(self) -> int:
        """Length of a block."""
        return int(self.slices[-1].stop)

    @property
    def size(self) -> int:
        """Length of w."""
        return self.blocks * self.block

    def slice_of(self, name: str) -> slice:
        """Give the place of a potential in a block; empty if there is none of this name."""
        found = (s for p, s in zip(self.potentials, self.slices) if p.name == name)
        return next(found, slice(0, 0))

    def rows(self, w: ArrayLike) -> Matrix:
        """Give the blocks of w, (blocks, d)."""
        return checked_weights(w, self.size).reshape(self.blocks, self.block)

    def split(self, w: ArrayLike) -> dict[str, Vector]:
        """Give the parts of w by the names of the potentials, a row for each block or label."""
        rows = self.rows(w)
        if self.blocks > 1:
            return {p.name: rows[:, s] for p, s in zip(self.potentials, self.slices)}
        return {p.name: p.shaped(rows[0, s]) for p, s in zip(self.potentials, self.slices)}

    def inside(self, w: Vector) -> Vector:
        """Give w moved into the cone G w >= 0 where a solver's rounding left it."""
        out = w.copy()
        for row in out.reshape(self.blocks, self.block):
            for p, s in zip(self.potentials, self.slices):
                row[s] = p.inside(row[s])
        return out

    def constraints(self, problem: Problem) -> tuple[Matrix, Vector]:
        """Give the rows (G, h) with G w >= h that keep every cut exact."""
        rows = []
        for p, s in zip(self.potentials, self.slices):
            part = constraints_of(p, problem)
            rows.append(np.zeros((len(part), self.block)))
            rows[-1][:, s] = part
        stacked = block_diagonal(self.blocks, np.concatenate(rows))
        return stacked, np.zeros(len(stacked))

    def names(self, features: FeatureNames) -> list[str]:
        """Give the names of the weights."""
        parts = [p.names(features, s.stop - s.start) for p, s in zip(self.potentials, self.slices)]
        one = [name for part in parts for name in part]
        if self.blocks == 1:
            return one
        return [f"label {k} {name}" for k in range(self.blocks) for name in one]

    def unaries(self, w: Vector) -> Matrix:
        """Give a view of w as the weights of the node features, a row for each label that has any.

        Two labels have one row, of label 1; several have L.
        """
        for p, s in zip(self.potentials, self.slices):
            one = p.one if isinstance(p, PerLabel) else p
            if isinstance(one, Unary):
                rows = w.reshape(self.blocks, self.block)[:, s]
                labels = p.n_labels if isinstance(p, PerLabel) else 1
                return rows.reshape(self.blocks * labels, -1)
        raise AssertionError("a model has a Unary")

    def smoothing(self, problem: Problem) -> Vector:
        """Give weights that let ends cost the sum of their edge's features where they differ."""
        one = np.concatenate([p.smoothing(problem) for p in self.potentials])
        return np.tile(one, self.blocks)

    def coordinates(self, problem: Problem, second: Matrix) -> Coordinates:
        """Give the coordinates of one block: w = A z, with z_i >= 0 where bounded."""
        A, bounded = np.zeros((self.block, self.block)), np.zeros(self.block, bool)
        for p, s in zip(self.potentials, self.slices):
            A[s, s], bounded[s] = p.coordinates(problem, second)
        return Coordinates(A, bounded)


def checked_weights(w: ArrayLike, size: int) -> Vector:
    """Check w (finite, of the right length) and give it as float64."""
    array = float_array("w", w)
    if array.shape != (size,) or not np.isfinite(array).all():
        raise InputError(
            f"w must hold {size} finite weights (node, edge, envelope) for this problem, but has "
            f"{'shape ' + str(array.shape) if array.shape != (size,) else 'some that are not'}. "
            "Use the weights learned from problems with these features."
        )
    return array
