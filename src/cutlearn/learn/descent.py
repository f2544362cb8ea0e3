"""How likelihood learners move: from a value and a gradient at w to the next w.

Coordinates z make the problem easy: w = A z, with node features decorrelated, and envelopes as
curvatures, so that every constraint that keeps the cut exact reads z_i >= 0.

`Descent` takes projected quasi-Newton steps (limited-memory BFGS, Armijo's rule along the projected
arc). f is not smooth: where no step of the line search helps, the memory is dropped and one Polyak
step with the target 0.95 f_best is taken, up or down (tarlow2012 section 7.1). `FixedStep` moves
along the gradient by a constant factor.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cutlearn.energy.forms import EnvelopeSpec
from cutlearn.energy.model import Layout
from cutlearn.energy.surrogate import SurrogateLayout
from cutlearn.sealed import Arrays

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

# The optimum is guessed to be this share of the best value.
TARGET = 0.95
MEMORY = 20
# Armijo's share of the expected decrease, and how often a step is shortened.
ENOUGH, MOST_SHORTER = 1e-4, 8
# Directions of the node features with less than this share of the mean square stay as they are.
RIDGE = 1e-6


class Coordinates:
    """The map w = A z of each label's block, and the half space z_i >= 0 of its constraints.

    Parameters
    ----------
    layout : Layout or SurrogateLayout
    second : (F, F) float64
        Mean of f f' over the nodes of the images.
    """

    def __init__(self, layout: Layout | SurrogateLayout, second: Matrix) -> None:
        one = layout.one if isinstance(layout, SurrogateLayout) else layout
        self.layout = layout
        self.blocks = layout.size // one.size
        F = len(second)
        mean = float(np.trace(second)) / F or 1.0
        factor = np.linalg.cholesky(second + RIDGE * mean * np.eye(F))
        self.A = np.eye(one.size)
        self.A[one.node, one.node] = np.linalg.inv(factor).T
        bounded = np.zeros(one.size, bool)
        bounded[one.edge] = True
        for at, spec in zip(one.envelopes, one.specs):
            bends = EnvelopeSpec(spec.lines, "curvatures")
            signs = np.where(np.arange(spec.lines + 1) < 2, 1.0, -1.0)
            columns = [bends.convert(row, spec.form) for row in np.diag(signs)]
            self.A[at, at] = np.stack(columns, axis=1)
            bounded[at] = signs < 0
        self.inverse = np.linalg.inv(self.A)
        self.bounded = np.tile(bounded, self.blocks)

    def w(self, z: Vector) -> Vector:
        """Give w, exactly inside the cone."""
        return self.layout.inside((z.reshape(self.blocks, -1) @ self.A.T).ravel())

    def z(self, w: Vector) -> Vector:
        """Give z of w."""
        return self.inside((w.reshape(self.blocks, -1) @ self.inverse.T).ravel())

    def slope(self, gradient: Vector) -> Vector:
        """Give the gradient with respect to z."""
        return np.asarray((gradient.reshape(self.blocks, -1) @ self.A).ravel())

    def inside(self, z: Vector) -> Vector:
        """Give the nearest z that keeps the constraints."""
        return np.where(self.bounded, np.maximum(z, 0.0), z)


class Mover(Protocol):
    """What the run asks: the next w, how far from rest it is, and what a checkpoint must hold."""

    def next(self, w: Vector, value: float, gradient: Vector, best: float) -> Vector: ...
    def state(self) -> Arrays: ...
    def restore(self, arrays: Arrays) -> None: ...


class Descent:
    """Projected quasi-Newton steps, with Polyak steps over kinks.

    Parameters
    ----------
    coordinates : Coordinates
    """

    def __init__(self, coordinates: Coordinates) -> None:
        self.coordinates = coordinates
        n = coordinates.bounded.size
        # The point the line search starts from, its gradient, and the direction.
        self.base, self.slope, self.direction = np.zeros(n), np.zeros(n), np.zeros(n)
        self.value, self.length, self.shorter = np.inf, 1.0, 0
        self.moves, self.turns = np.zeros((0, n)), np.zeros((0, n))  # of z and of its gradient

    def next(self, w: Vector, value: float, gradient: Vector, best: float) -> Vector:
        """Accept w as the new base, or shorten the step to it; give the next w to ask."""
        z, slope = self.coordinates.z(w), self.coordinates.slope(gradient)
        if value <= self.value + ENOUGH * min(float(self.slope @ (z - self.base)), 0.0):
            self._learn(z - self.base, slope - self.slope)
            self._begin(z, value, slope, best)
        elif self.shorter < MOST_SHORTER:
            self._shorten(z, value)
        else:
            self._jump(best)
        return self.coordinates.w(self._point())

    def _point(self) -> Vector:
        return self.coordinates.inside(self.base + self.length * self.direction)

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
        free = ~(self.coordinates.bounded & (z <= 0) & (slope > 0))
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
    layout : Layout or SurrogateLayout
    step : float
    """

    def __init__(self, layout: Layout | SurrogateLayout, step: float) -> None:
        self.layout, self.step = layout, step

    def next(self, w: Vector, value: float, gradient: Vector, best: float) -> Vector:
        """Give the next w."""
        return self.layout.inside(w - self.step * gradient)

    def state(self) -> Arrays:
        """Nothing but w itself."""
        return {}

    def restore(self, arrays: Arrays) -> None:
        """Nothing to take back."""
