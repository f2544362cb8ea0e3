"""A Boltzmann machine with given numbers, and its most likely state.

    E(y, h1, h2) = -y'W h1 - b'y - c'h1 - h1'W2 h2 - c2'h2 + sum_(i,j) w_ij [y_i != y_j]

over binary layers y (labels), h1 and, where there is one, h2. Given the other layers, each layer
is solved exactly: a threshold for every unit, or one cut for the labels when they have edges. So
iterated conditional modes (Algorithm 1 of yang2014) never raise the energy.
"""

from collections.abc import Callable
from types import NoneType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.arrays import AnyArray
from cutlearn.checks import finite, fixed_labels, float_array, label_array, shape_of, whole_number
from cutlearn.energy.energy import Energy
from cutlearn.errors import InputError

Units = NDArray[np.int8]
MAX_STARTS = 10**6
Run = tuple[list[float], Units, tuple[Units, ...]]


def softplus(x: AnyArray) -> AnyArray:
    """Return log(1 + exp(x)): the term of a hidden unit with input x in -F."""
    return np.logaddexp(np.zeros((), x.dtype), x)


def sigmoid(x: AnyArray) -> AnyArray:
    """Return the probability of a unit with input x, 1 / (1 + exp(-x))."""
    # tanh neither overflows nor warns, and keeps the type of x. scipy's expit does so too, but its
    # last bits are others, and with them every machine that is trained from a seed.
    half: AnyArray = x.dtype.type(0.5) * (1 + np.tanh(x.dtype.type(0.5) * x))
    return half


class Boltzmann:
    """A machine of binary layers with given numbers.

    Parameters
    ----------
    W : (n, m) array
        Between labels and the first hidden layer.
    c : (m,) array
    b : (n,) array
    W2 : (m, m2) array, optional
        Between the hidden layers.
    c2 : (m2,) array, optional
        Needed with W2.
    edges : (k, 2) int array, optional
        Pairs of labels.
    weights : scalar or (k,) array >= 0, optional
        The cost of different labels at the ends of an edge.

    Examples
    --------
    >>> import cutlearn as cl
    >>> m = cl.Boltzmann(W=[[2.0], [1.0]], c=[-1.5], b=[-1.0, -0.5])
    >>> m.energy([1, 1], [1])
    0.0
    >>> trace, y, (h,) = m.icm([[1]])[0]
    >>> trace, y.tolist(), h.tolist()
    ([0.0], [1, 1], [1])
    """

    def __init__(
        self,
        W: ArrayLike,
        c: ArrayLike,
        b: ArrayLike,
        W2: ArrayLike | None = None,
        c2: ArrayLike | None = None,
        edges: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> None:
        self.W, self.c, self.b = (
            finite(name, float_array(name, a)) for name, a in (("W", W), ("c", c), ("b", b))
        )
        if self.W.ndim != 2:
            raise InputError(
                f"W has shape {self.W.shape}, but it needs two axes: labels and hidden units. Give "
                "an array (n, m)."
            )
        n, m = self.W.shape
        shape_of("b", self.b, (n,), "one for each row of W")
        shape_of("c", self.c, (m,), "one for each column of W")
        if (W2 is None) != (c2 is None):
            raise InputError(
                "A second hidden layer needs both W2 and c2, but one is missing. Give both, "
                "or neither."
            )
        # Without a second hidden layer it is there, and empty.
        self.W2 = finite("W2", float_array("W2", np.zeros((m, 0)) if W2 is None else W2))
        self.c2 = finite("c2", float_array("c2", np.zeros(0) if c2 is None else c2))
        shape_of("W2", self.W2, (m, self.c2.size), "hidden units of both layers")
        self._pairs = None if edges is None else Energy(np.zeros(n), edges, weights)

    @classmethod
    def of(
        cls,
        W: AnyArray,
        c: AnyArray,
        b: AnyArray,
        W2: AnyArray,
        c2: AnyArray,
        pairs: Energy | None = None,
    ) -> Self:
        """Make a machine of arrays of fitting shapes, in their own type; edges as an energy."""
        self = cls.__new__(cls)
        self.W, self.c, self.b, self.W2, self.c2, self._pairs = W, c, b, W2, c2, pairs
        return self

    # -- energies --------------------------------------------------------------------------

    def energy(self, y: ArrayLike, *hidden: ArrayLike) -> float:
        """Return E(y, h1) or E(y, h1, h2)."""
        count = 2 if self.c2.size else 1
        if len(hidden) != count:
            raise InputError(
                f"{len(hidden)} hidden layers were given, but this machine has {count}. Give one "
                "array for each of its layers."
            )
        given = [label_array("y", y), *(label_array("hidden", h) for h in hidden)]
        layers = [*given, np.zeros(0, np.int8)][:3]
        for array, biases in zip(layers, (self.b, self.c, self.c2)):
            shape_of("layer", array, biases.shape, "one label for each unit")
        return float(self._energies(*(layer[None] for layer in layers))[0])

    def free_energy(self, y: ArrayLike) -> float:
        """Return F(y) = -log sum_h exp(-E(y, h)), for one hidden layer."""
        if self.c2.size:
            raise InputError(
                "The free energy is known for one hidden layer, but this machine has two. Use icm."
            )
        labels = label_array("y", y)
        shape_of("y", labels, self.b.shape, "one label for each unit")
        value = -softplus(self._into_hidden(labels[None])).sum(axis=1) - labels @ self.b
        return float(self._with_edges(value, labels[None])[0])

    # -- the most likely state ---------------------------------------------------------------

    def icm(
        self,
        starts: int | ArrayLike = 1,
        random_state: int | np.random.Generator | None = None,
        fixed: ArrayLike | None = None,
    ) -> list[Run]:
        """Minimise the energy over h2, then y, then h1, given the others, until none changes.

        Parameters
        ----------
        starts : int or (k, m) array of 0 and 1
            That many random h1, or these.
        random_state : int or Generator, optional
            None is 0.
        fixed : (n,) array, optional
            -1 leaves a label free, 0 or 1 is its label.

        Returns
        -------
        list of (trace, y, hidden)
            For every start the energies after each sweep, which fall strictly, the labels, and
            the hidden layers, so that `energy(y, *hidden)` is the last of the trace.
        """
        h = self._starts(starts, random_state)
        label = self._label_step(fixed)
        y, h2, value = self._given_first(h, label)
        traces = [[float(v)] for v in value]
        rows = np.arange(len(h))
        while rows.size:
            h_new = self._first_hidden(y[rows], h2[rows])
            y_new, h2_new, v_new = self._given_first(h_new, label)
            better = v_new < value[rows]
            rows = rows[better]
            h[rows], y[rows], h2[rows] = h_new[better], y_new[better], h2_new[better]
            value[rows] = v_new[better]
            for row in rows:
                traces[row].append(float(value[row]))
        hidden = [h, h2] if self.c2.size else [h]
        return [(traces[r], y[r], tuple(layer[r] for layer in hidden)) for r in range(len(h))]

    def best(
        self,
        starts: int | ArrayLike = 1,
        random_state: int | np.random.Generator | None = None,
        fixed: ArrayLike | None = None,
    ) -> tuple[Units, tuple[Units, ...]]:
        """Return labels and hidden layers of the lowest of all `icm` runs; ties: the first."""
        runs = self.icm(starts, random_state, fixed)
        _, y, hidden = min(runs, key=lambda run: run[0][-1])
        return y, hidden

    def log_odds(self, h: ArrayLike) -> AnyArray:
        """Return the log-odds of each label given h1: W h1 + b, or with edges by min-marginals."""
        field: AnyArray = self.W @ np.asarray(h, self.W.dtype) + self.b
        if self._pairs is None:
            return field
        solver = self._pairs.solver()
        solver.set_unary(np.arange(field.size), -field)
        least = solver.min_marginals().reshape(-1, 2)
        return np.asarray(least[:, 0] - least[:, 1], field.dtype)

    # -- one layer given the others, many rows at once ------------------------------------------

    def _into_hidden(self, y: AnyArray) -> AnyArray:
        fed: AnyArray = y.astype(self.W.dtype) @ self.W + self.c
        return fed

    def _first_hidden(self, y: Units, h2: Units) -> Units:
        fed = self._into_hidden(y) + h2.astype(self.W2.dtype) @ self.W2.T
        return (fed > 0).astype(np.int8)

    def _given_first(
        self, h: Units, label: Callable[[AnyArray], Units]
    ) -> tuple[Units, Units, AnyArray]:
        """Return the best labels and second hidden layer given h1, and the energies."""
        units = h.astype(self.W.dtype)
        # A few rows times a transposed matrix: the other way round takes half the time.
        field = np.ascontiguousarray((self.W @ units.T).T) + self.b
        above = units @ self.W2 + self.c2
        y, h2 = label(field), (above > 0).astype(np.int8)
        value = -(field * y).sum(axis=1) - units @ self.c - (above * h2).sum(axis=1)
        return y, h2, self._with_edges(value, y)

    def _label_step(self, fixed: ArrayLike | None) -> Callable[[AnyArray], Units]:
        """Return the function from the fields of the labels, row by row, to their best labels."""
        held = fixed_labels(fixed, self.b.shape)
        if self._pairs is None:
            known = np.flatnonzero(held >= 0)

            def threshold(field: AnyArray) -> Units:
                y = (field > 0).astype(np.int8)
                y[:, known] = held[known]
                return y

            return threshold
        solver = self._pairs.solver(held.reshape(self._pairs.shape) if held.size else None)
        every = np.arange(self.b.size)

        def cut(field: AnyArray) -> Units:
            y = np.empty(field.shape, np.int8)
            for row, values in zip(y, field):
                solver.set_unary(every, -values)
                row[:] = solver.minimize().labels.ravel()
            return y

        return cut

    def _energies(self, y: Units, h: Units, h2: Units) -> AnyArray:
        labels, units = y.astype(self.W.dtype), h.astype(self.W.dtype)
        value = -((labels @ self.W + self.c) * units).sum(axis=1) - labels @ self.b
        value -= ((units @ self.W2 + self.c2) * h2).sum(axis=1)
        return self._with_edges(value, y)

    def _with_edges(self, value: AnyArray, y: Units) -> AnyArray:
        if self._pairs is not None:
            value += [self._pairs.value(row.reshape(self._pairs.shape)) for row in y]
        return value

    def _starts(self, starts: Any, random_state: Any) -> Units:
        if isinstance(starts, int | np.integer):
            count = whole_number("starts", starts, 1, MAX_STARTS)
            if not isinstance(random_state, np.random.Generator | NoneType):
                whole_number("random_state", random_state, 0, 2**64 - 1)
            rng = np.random.default_rng(0 if random_state is None else random_state)
            return rng.integers(0, 2, (count, self.c.size), dtype=np.int8)
        h = label_array("starts", starts)
        shape_of("starts", h, (len(h), self.c.size), "one row of h1 for each start")
        return h.copy()
