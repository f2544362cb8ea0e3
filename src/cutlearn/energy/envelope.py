"""Lower linear envelopes over regions (gould2011): psi(s) = min_k (a_k s + b_k).

s = sum_{i in region} m_i y_i with m_i >= 0, so that 0 <= s <= M = sum m. Sorted by falling slope
and rid of lines that are never lowest on [0, M], the minimum is a sum of hinges,

    psi(s) = a_1 s + b_1 + sum_k min(0, beta_k - alpha_k s),
    alpha_k = a_k - a_{k+1} > 0,  beta_k = b_{k+1} - b_k > 0,

because the hinges' break points beta_k / alpha_k then rise with k. Each hinge costs a cut one
auxiliary node.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.arrays import Floats
from cutlearn.checks import MOST_NODES, as_array, finite, float_array, index_array
from cutlearn.errors import InputError

# Products below this may have lost digits.
SMALLEST = 1e-290


@dataclass(frozen=True, eq=False, init=False)
class Envelope:
    """A concave, piecewise linear cost of how much of a region has label 1.

    Parameters
    ----------
    members : index array, or boolean mask in the labels' shape
        The nodes of the region.
    slopes, intercepts : (K,) arrays
        The lines a_k s + b_k, in any order; some may never be lowest.
    weights : (members,) array >= 0, optional
        m_i; by default 1, so that s counts the members with label 1.

    Examples
    --------
    >>> import cutlearn as cl
    >>> e = cl.Envelope([0, 1, 2, 3], slopes=[1.0, -1.0], intercepts=[0.0, 4.0])
    >>> [e.value(s) for s in (0, 1, 2, 3, 4)]
    [0.0, 1.0, 2.0, 1.0, 0.0]
    """

    members: NDArray[np.int32]
    slopes: Floats
    intercepts: Floats
    weights: Floats

    def __init__(
        self,
        members: ArrayLike,
        slopes: ArrayLike,
        intercepts: ArrayLike,
        weights: ArrayLike | None = None,
    ) -> None:
        nodes = as_array("members", members)
        if nodes.dtype == np.bool_:
            nodes = np.flatnonzero(nodes)
        index = index_array("members", nodes, MOST_NODES).ravel()
        rising = bool((index[1:] > index[:-1]).all())  # the usual case, told without sorting
        if not rising and np.unique(index).size != index.size:
            raise InputError(
                "members lists a node twice. List each node once, and give it a larger weight if "
                "it should count more."
            )
        a = np.atleast_1d(finite("slopes", float_array("slopes", slopes)))
        b = np.atleast_1d(finite("intercepts", float_array("intercepts", intercepts)))
        if a.ndim != 1 or a.shape != b.shape or not a.size:
            raise InputError(
                f"slopes and intercepts have shapes {a.shape} and {b.shape}, but each line needs "
                "one slope and one intercept. Give two lists of the same length, at least 1."
            )
        m = np.ones(index.size) if weights is None else float_array("weights", weights).ravel()
        finite("weights", m)
        if m.shape != index.shape:
            raise InputError(
                f"weights has {m.size} values, but the envelope has {index.size} members. Give one "
                "weight for each member."
            )
        if (m < 0).any():
            k = int(np.argmin(m))
            raise InputError(f"weights[{k}] is {m[k]:g}, but weights of members must be >= 0.")
        for name, array in zip(
            ("members", "slopes", "intercepts", "weights"), (index.astype(np.int32), a, b, m)
        ):
            object.__setattr__(self, name, array)

    @property
    def mass(self) -> float:
        """M, the largest value of s."""
        return float(self.weights.sum())

    def value(self, s: Any) -> Any:
        """psi(s), for a number or an array of them: the lowest of all lines as given."""
        lines = np.multiply.outer(s, self.slopes) + self.intercepts
        return lines.min(axis=-1).item() if np.ndim(s) == 0 else lines.min(axis=-1)

    def lines(self) -> tuple[Floats, Floats]:
        """The lines that are lowest somewhere on [0, M], by falling slope."""
        kept = lower_lines(self.slopes.tolist(), self.intercepts.tolist(), self.mass)
        return self.slopes[kept], self.intercepts[kept]

    def hinges(self) -> tuple[float, float, Floats, Floats]:
        """a_1, b_1, alpha and beta of the sum of hinges above."""
        a, b = self.lines()
        return float(a[0]), float(b[0]), a[:-1] - a[1:], b[1:] - b[:-1]


def lower_lines(slopes: list[float], intercepts: list[float], mass: float) -> list[int]:
    """Indices of the lines that are lowest somewhere on [0, mass], by falling slope.

    Dropping the others is not an economy: a hinge of a line that is never lowest would be
    counted although its neighbours hide it.
    """
    a, b = slopes, intercepts
    kept: list[int] = []
    for k in sorted(range(len(a)), key=lambda k: (-a[k], b[k])):
        # Lines come with falling slope, so a later one is lower further to the right: it hides
        # those before it that it meets at or left of the place where they began to be lowest.
        if kept and a[k] == a[kept[-1]]:
            continue
        while kept and _hides(a, b, kept, k):
            kept.pop()
        # Lower at the far end, (a_k - a_last) mass < b_last - b_k.
        if not kept or not _at_most(b[kept[-1]] - b[k], 1.0, a[k] - a[kept[-1]], mass):
            kept.append(k)
    return kept


def _hides(a: list[float], b: list[float], kept: list[int], k: int) -> bool:
    last = kept[-1]
    if len(kept) == 1:
        return b[k] <= b[last]  # began to be lowest at s = 0
    first = kept[-2]
    return _at_most(b[k] - b[first], a[first] - a[last], b[last] - b[first], a[first] - a[k])


def _at_most(x: float, y: float, z: float, t: float) -> bool:
    """Whether x y <= z t, also where the products leave the range of floats."""
    left, right = x * y, z * t
    if min(abs(left), abs(right)) > SMALLEST and max(abs(left), abs(right)) < math.inf:
        return left <= right
    if not all(map(math.isfinite, (x, y, z, t))):
        return left <= right  # numbers that the core refuses
    return Fraction(x) * Fraction(y) <= Fraction(z) * Fraction(t)
