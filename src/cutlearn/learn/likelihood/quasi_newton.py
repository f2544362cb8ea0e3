"""How likelihood learners move: from a value and a gradient at w to the next w.

Coordinates z make the problem easy: w = A z, with node features decorrelated, and envelopes as
curvatures, so that every constraint that keeps the cut exact reads z_i >= 0.

`QuasiNewton` takes projected quasi-Newton steps (limited-memory BFGS, Armijo's rule along the
projected arc). f is not smooth: where no step of the line search helps, the memory is dropped and
one Polyak step with the target 0.95 f_best is taken, up or down (tarlow2012 section 7.1).
`FixedStep` moves along the gradient by a constant factor.
"""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import Vector
from cutlearn.energy.model import Layout
from cutlearn.energy.potentials import Coordinates
from cutlearn.store import Arrays

# The optimum is guessed to be this share of the best value.
TARGET = 0.95
MEMORY = 20
# Armijo's share of the expected decrease, and how often a step is shortened.
ENOUGH, MOST_SHORTER = 1e-4, 8


class Move(Protocol):
    """What the run asks: the next w, and what a checkpoint must hold."""

    def next(self, w: Vector, value: float, gradient: Vector, best: float) -> Vector: ...
    def state(self) -> Arrays: ...
    def restore(self, arrays: Arrays) -> None: ...


class QuasiNewton:
    """Projected quasi-Newton steps, with Polyak steps over kinks.

    Parameters
    ----------
    layout : Layout
    block : Coordinates
        Of one block of w.
    """

    def __init__(self, layout: Layout, block: Coordinates) -> None:
        self.layout, self.A, self.inverse = layout, block.A, np.linalg.inv(block.A)
        self.bounded = np.tile(block.bounded, layout.blocks)
        n = layout.size
        # The point the line search starts from, its gradient, and the direction.
        self.base, self.slope, self.direction = np.zeros(n), np.zeros(n), np.zeros(n)
        self.value, self.length, self.shorter = np.inf, 1.0, 0
        self.moves, self.turns = np.zeros((0, n)), np.zeros((0, n))  # of z and of its gradient

    def _by_block(self, x: Vector, matrix: NDArray[Any]) -> Vector:
        return np.asarray((x.reshape(self.layout.blocks, -1) @ matrix).ravel())

    def _inside(self, z: Vector) -> Vector:
        """The nearest z that keeps the constraints."""
        return np.where(self.bounded, np.maximum(z, 0.0), z)

    def next(self, w: Vector, value: float, gradient: Vector, best: float) -> Vector:
        """Accept w as the new base, or shorten the step to it; give the next w to ask."""
        z = self._inside(self._by_block(w, self.inverse.T))
        slope = self._by_block(gradient, self.A)
        if value <= self.value + ENOUGH * min(float(self.slope @ (z - self.base)), 0.0):
            self._learn(z - self.base, slope - self.slope)
            self._begin(z, value, slope, best)
        elif self.shorter < MOST_SHORTER:
            self._shorten(z, value)
        else:
            self._jump(best)
        z = self._inside(self.base + self.length * self.direction)
        return self.layout.inside(self._by_block(z, self.A.T))

    def _learn(self, move: Vector, turn: Vector) -> None:
        if not np.isfinite(self.value):
            return
        # Only curvature that is clearly upwards keeps the implied Hessian positive.
        if float(move @ turn) > 1e-8 * float(np.linalg.norm(move) * np.linalg.norm(turn)):
            self.moves = np.concatenate([self.moves, move[None]])[-MEMORY:]
            self.turns = np.concatenate([self.turns, turn[None]])[-MEMORY:]

    def _begin(self, z: Vector, value: float, slope: Vector, best: float) -> None:
        self.base, self.value, self.slope = z, value, slope
        self.length, self.shorter = 1.0, 0
        free = ~(self.bounded & (z <= 0) & (slope > 0))
        g = np.where(free, slope, 0.0)
        if len(self.moves):
            self.direction = np.where(free, -self._newton(g), 0.0)
        if not len(self.moves) or float(self.direction @ g) >= 0:
            self.direction = -self._polyak(best) * g

    def _polyak(self, best: float) -> float:
        """The step length (f - 0.95 f_best) / |g|^2."""
        size = float(self.slope @ self.slope)
        return (self.value - TARGET * best) / size if size > 0 else 0.0

    def _newton(self, g: Vector) -> Vector:
        """The inverse Hessian that the memory implies, times g (two-loop recursion)."""
        pairs = list(zip(self.moves, self.turns))
        shares = []
        for move, turn in reversed(pairs):
            share = float(move @ g) / float(move @ turn)
            shares.append(share)
            g = g - share * turn
        move, turn = pairs[-1]
        g = g * (float(move @ turn) / float(turn @ turn))
        for (move, turn), share in zip(pairs, reversed(shares)):
            g = g + (share - float(turn @ g) / float(move @ turn)) * move
        return g

    def _shorten(self, z: Vector, value: float) -> None:
        """Go to where a parabola through both values and the slope is lowest, within limits."""
        drop = float(self.slope @ (z - self.base))
        rise = 2.0 * (value - self.value - drop)
        share = -drop / rise if rise > 0 and drop < 0 else 0.5
        self.length *= min(max(share, 0.1), 0.5)
        self.shorter += 1

    def _jump(self, best: float) -> None:
        """Leave a kink by a Polyak step, whatever the value there."""
        self.direction, self.length = -self._polyak(best) * self.slope, 1.0
        self.value, self.shorter = np.inf, 0
        self.moves, self.turns = self.moves[:0], self.turns[:0]

    def state(self) -> Arrays:
        """Give what a checkpoint must hold."""
        return {
            "base": self.base, "slope": self.slope, "direction": self.direction,
            "moves": self.moves, "turns": self.turns,
            "line": np.array([self.value, self.length, self.shorter]),
        }  # fmt: skip

    def restore(self, arrays: Arrays) -> None:
        """Go on from the state of a checkpoint."""
        self.base, self.slope = arrays["base"], arrays["slope"]
        self.direction = arrays["direction"]
        self.moves, self.turns = arrays["moves"], arrays["turns"]
        self.value, self.length = (float(x) for x in arrays["line"][:2])
        self.shorter = int(arrays["line"][2])


class FixedStep:
    """w - step * gradient, moved into the cone.

    Parameters
    ----------
    layout : Layout
    step : float
    """

    def __init__(self, layout: Layout, step: float) -> None:
        self.layout, self.step = layout, step

    def next(self, w: Vector, value: float, gradient: Vector, best: float) -> Vector:
        """Give the next w."""
        return self.layout.inside(w - self.step * gradient)

    def state(self) -> Arrays:
        """Nothing but w itself."""
        return {}

    def restore(self, arrays: Arrays) -> None:
        """Nothing to take back."""
