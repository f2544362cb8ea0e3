"""Lower linear envelopes over regions (gould2011): psi(s) = min_k (a_k s + b_k).

s = sum_{i in region} m_i y_i with m_i >= 0, so that 0 <= s <= M = sum m. Sorted by falling slope
and rid of lines that are never lowest on [0, M], the minimum is a sum of hinges,

    psi(s) = a_1 s + b_1 + sum_k min(0, beta_k - alpha_k s),
    alpha_k = a_k - a_{k+1} > 0,  beta_k = b_{k+1} - b_k > 0,

because the hinges' break points beta_k / alpha_k then rise with k. Each hinge costs a cut one
auxiliary node.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import (
    Any,
    Literal,
    NamedTuple,
    get_args,
    overload,
)

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn import _core
from cutlearn.arrays import Floats
from cutlearn.checks import (
    MOST_NODES,
    as_array,
    finite,
    float_array,
    index_array,
    listed,
    one_of,
    whole_number,
)
from cutlearn.energy.solver import EPSILON, ROUNDINGS, adds_exactly, multiplies_exactly
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
        """Return the lines that are lowest somewhere on [0, M], by falling slope."""
        kept = lower_lines(self.slopes.tolist(), self.intercepts.tolist(), self.mass)
        return self.slopes[kept], self.intercepts[kept]

    def hinges(self) -> tuple[float, float, Floats, Floats]:
        """a_1, b_1, alpha and beta of the sum of hinges above."""
        a, b = self.lines()
        return float(a[0]), float(b[0]), a[:-1] - a[1:], b[1:] - b[:-1]


def lower_lines(slopes: list[float], intercepts: list[float], mass: float) -> list[int]:
    """Return indices of the lines that are lowest somewhere on [0, mass], by falling slope.

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
    """Return whether x y <= z t, also where the products leave the range of floats."""
    left, right = x * y, z * t
    if min(abs(left), abs(right)) > SMALLEST and max(abs(left), abs(right)) < math.inf:
        return left <= right
    if not all(map(math.isfinite, (x, y, z, t))):
        return left <= right  # numbers that the core refuses
    return Fraction(x) * Fraction(y) <= Fraction(z) * Fraction(t)


Hinges = tuple[Floats, Floats, list[Floats], list[Floats]]  # a_1, b_1, alpha, beta of each region


class CoreRegions(NamedTuple):
    """Regions as the core wants them, their constant, and a bound of the rounding."""

    regions: _core.Regions | None
    constant: float
    slack: float


class Envelopes(Sequence[Envelope]):
    """One envelope for each region of a label map; the same as a list of `Envelope`, made faster.

    Parameters
    ----------
    label_map : int array in the labels' shape
        The region of each node, from 0 on; nodes below 0 belong to none.
    slopes, intercepts : (regions, K) or (K,) arrays
        The lines a_k s + b_k of each region, or of all; s counts its nodes with label 1.

    Examples
    --------
    >>> import cutlearn as cl
    >>> halves = cl.Envelopes([[0, 0, 1, 1]] * 2, slopes=[1.0, -1.0], intercepts=[0.0, 4.0])
    >>> len(halves), halves[1].members.tolist()
    (2, [2, 3, 6, 7])
    >>> e = cl.Energy.grid([[-1.0, 2.0, -3.0, 1.0]] * 2, 0.25, envelopes=halves)
    >>> e.minimize().labels.tolist()
    [[0, 0, 1, 1], [0, 0, 1, 1]]
    """

    def __init__(self, label_map: ArrayLike, slopes: ArrayLike, intercepts: ArrayLike) -> None:
        labels = as_array("label_map", label_map)
        if labels.dtype.kind not in "iu" or not labels.size:
            raise InputError(
                f"label_map has type {labels.dtype} and shape {labels.shape}. Give the number of "
                "its region for every node, as whole numbers from 0 on, and -1 for none."
            )
        a = finite("slopes", float_array("slopes", slopes))
        b = finite("intercepts", float_array("intercepts", intercepts))
        count = max(int(labels.max()) + 1, 0)
        if a.shape != b.shape or a.ndim not in (1, 2) or not a.shape[-1]:
            raise InputError(
                f"slopes and intercepts have the shapes {a.shape} and {b.shape}. Give both one "
                "number for each line, as (K,) or (regions, K), K >= 1."
            )
        if a.ndim == 2 and len(a) < count:
            raise InputError(
                f"label_map has the region {count - 1}, but slopes and intercepts have {len(a)} "
                "rows. Give one row for each region."
            )
        count = len(a) if a.ndim == 2 else count
        shape = (count, a.shape[-1])
        self.slopes: Floats = np.broadcast_to(a, shape)
        self.intercepts: Floats = np.broadcast_to(b, shape)
        self.label_map: NDArray[np.int64] = labels.astype(np.int64).ravel()
        self._first, self._members = _core.members_of(self.label_map, count)
        self.sizes: NDArray[np.int64] = np.diff(self._first)

    def __len__(self) -> int:
        return len(self.sizes)

    @overload
    def __getitem__(self, index: int) -> Envelope: ...
    @overload
    def __getitem__(self, index: slice) -> list[Envelope]: ...
    def __getitem__(self, index: int | slice) -> Envelope | list[Envelope]:
        if isinstance(index, slice):
            return [self[c] for c in range(*index.indices(len(self)))]
        c = range(len(self))[index]
        members = self._members[self._first[c] : self._first[c + 1]]
        return Envelope(members, self.slopes[c], self.intercepts[c])

    def cost(self, labels: NDArray[np.int8]) -> float:
        """Return the sum of all envelopes at a labelling."""
        on = self.label_map[(labels != 0) & (self.label_map >= 0)]
        s = np.bincount(on, minlength=len(self))[:, None]
        return float((self.slopes * s + self.intercepts).min(axis=1).sum()) if len(self) else 0.0

    def regions(self, nodes: int) -> CoreRegions:
        """Return these regions for the core."""
        if self.label_map.size != nodes:
            raise InputError(
                f"label_map has {self.label_map.size} nodes, but the energy has {nodes}. Give the "
                "region of every node."
            )
        if not len(self):
            return CoreRegions(None, 0.0, 0.0)
        hinges = self._hinges()
        exact = adds_exactly(self.intercepts) and multiplies_exactly(
            self.slopes, _ones(self._members.size)
        )
        ones = np.empty(0)  # every member weighs 1
        return core_regions(self._first, self._members, ones, hinges, self.sizes, exact)

    def _hinges(self) -> Hinges:
        """The hinges of all regions; only those with lines in no good order are made one by one."""
        a, b = self.slopes, self.intercepts
        alpha, beta = a[:, :-1] - a[:, 1:], b[:, 1:] - b[:, :-1]
        whole = self._in_order(alpha, beta)
        first_a, first_b = a[:, 0].copy(), b[:, 0].copy()
        alphas, betas = list(alpha), list(beta)
        for c in np.flatnonzero(~whole):
            kept = lower_lines(a[c].tolist(), b[c].tolist(), float(self.sizes[c]))
            x, y = a[c][kept], b[c][kept]
            first_a[c], first_b[c] = x[0], y[0]
            alphas[c], betas[c] = x[:-1] - x[1:], y[1:] - y[:-1]
        return first_a, first_b, alphas, betas

    def _in_order(self, alpha: Floats, beta: Floats) -> NDArray[np.bool_]:
        """Where slopes fall and every line is lowest somewhere: what `lower_lines` would keep."""
        a, b = self.slopes, self.intercepts
        whole: NDArray[np.bool_] = np.all(alpha > 0, axis=1) & np.all(beta[:, :1] > 0, axis=1)
        # Each line against the two before it, and at the far end against the one before it.
        pairs = [
            (b[:, 2:] - b[:, :-2], alpha[:, :-1], beta[:, :-1], a[:, :-2] - a[:, 2:]),
            (-beta, np.ones_like(beta), -alpha, np.broadcast_to(self.sizes[:, None], beta.shape)),
        ]
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            for x, y, z, t in pairs:
                left, right = x * y, z * t
                sure = np.minimum(np.abs(left), np.abs(right)) > SMALLEST
                sure &= np.maximum(np.abs(left), np.abs(right)) < math.inf
                whole &= np.all(sure & (left > right), axis=1)
        return whole


def _ones(count: int) -> Floats:
    """Return two numbers with the sum and the lowest bit of so many ones."""
    return np.array([count - 1.0, 1.0]) if count else np.empty(0)


class EnvelopeList(tuple[Envelope, ...]):
    """A sequence of envelopes that an energy can ask."""

    __slots__ = ()

    def cost(self, labels: NDArray[np.int8]) -> float:
        """Return the sum of all envelopes at a labelling."""
        total = 0.0
        for e in self:
            total += e.value(float(e.weights @ labels[e.members]))
        return total

    def regions(self, nodes: int) -> CoreRegions:
        """Return these regions for the core."""
        if not self:
            return CoreRegions(None, 0.0, 0.0)
        for c, e in enumerate(self):
            if not isinstance(e, Envelope):
                raise InputError(f"envelopes[{c}] must be an Envelope, not {type(e).__name__}.")
            if e.members.size and e.members.max() >= nodes:
                raise InputError(
                    f"envelopes[{c}] has member {e.members.max()}, but nodes run from 0 to "
                    f"{nodes - 1}."
                )
        each = [e.hinges() for e in self]
        first_a, first_b, alphas, betas = (list(part) for part in zip(*each))
        weights = np.concatenate([e.weights for e in self])
        exact = adds_exactly(*(e.intercepts for e in self)) and multiplies_exactly(
            np.concatenate([e.slopes for e in self]), weights
        )
        return core_regions(
            np.cumsum([0] + [e.members.size for e in self]),
            np.concatenate([e.members for e in self]),
            weights,
            (np.array(first_a), np.array(first_b), alphas, betas),
            np.array([e.mass for e in self]),
            exact,
        )


RegionCosts = Envelopes | EnvelopeList


def as_region_costs(envelopes: Sequence[Envelope] | Envelopes) -> RegionCosts:
    """Return envelopes in the form that an energy takes."""
    if isinstance(envelopes, Envelopes):
        return envelopes
    return EnvelopeList(listed("envelopes", envelopes))


def core_regions(
    first: NDArray[np.int64],
    members: NDArray[np.int32],
    weights: Floats,
    hinges: Hinges,
    masses: NDArray[np.generic],
    exact: bool,
) -> CoreRegions:
    """Return regions for the core; `exact`: no hinge and no product is rounded."""
    slopes, lowest, alphas, betas = hinges
    counts = np.array([alpha.size for alpha in alphas])
    arcs = int((counts * np.diff(first)).sum())
    if 2 * arcs > MOST_NODES:
        raise InputError(
            f"envelopes have {arcs} lines x members in all, but at most 2^30 are possible. Use "
            "fewer lines or smaller regions."
        )
    regions = _core.Regions(
        first, members, weights, slopes, np.concatenate([[0], np.cumsum(counts)]),
        np.concatenate(alphas), np.concatenate(betas),
    )  # fmt: skip
    slack = 0.0
    if not exact:
        lines = 1 + counts
        bends = np.array([alpha.sum() for alpha in alphas]), np.array([b.sum() for b in betas])
        sizes = (np.abs(slopes) + bends[0]) * masses + np.abs(lowest) + bends[1]
        slack = float((ROUNDINGS * EPSILON * sizes * lines).sum())
        slack += math.ulp(0.0) * float((np.diff(first) * lines).sum())  # products that vanished
    return CoreRegions(regions, float(lowest.sum()), slack)


Form = Literal["samples", "slopes", "curvatures"]
Per = Literal["region", "node"]
MOST_LINES = 10_000


@dataclass(frozen=True)
class EnvelopeSpec:
    """How an envelope is learned: from how many lines, and in which form.

    Parameters
    ----------
    lines : int >= 1
        K, the number of lines; more can follow a rounder curve.
    form : "curvatures", "slopes" or "samples"
        What the weights mean. All forms can express the same envelopes, but the regulariser keeps
        the weights small, so that different ones are learned.
    per : "region" or "node"
        Whether every region counts the same, or as much as it has nodes.
    """

    lines: int = 10
    form: Form = "curvatures"
    per: Per = "region"

    def __post_init__(self) -> None:
        whole_number("lines", self.lines, 1, MOST_LINES)
        one_of("form", self.form, get_args(Form))
        one_of("per", self.per, get_args(Per))

    def features(self, p: ArrayLike) -> Floats:
        """Return the features of fractions p in [0, 1]: shape of p + (K + 1,)."""
        K = self.lines
        x = np.asarray(p, dtype=np.float64)[..., None] * K
        if self.form == "samples":
            return np.maximum(0.0, 1.0 - np.abs(x - np.arange(K + 1)))
        if self.form == "slopes":
            steps = np.clip(x - np.arange(K), 0.0, 1.0)
            return np.concatenate([np.ones_like(x), steps], axis=-1)
        hinges = np.maximum(0.0, x - np.arange(1, K))
        return np.concatenate([np.ones_like(x), x, hinges], axis=-1)

    def constraints(self) -> Floats:
        """Return G of shape (K - 1, K + 1): a vector is concave iff G vector >= 0."""
        G = np.zeros((self.lines - 1, self.lines + 1))
        row = np.arange(self.lines - 1)
        if self.form == "samples":
            G[row, row], G[row, row + 1], G[row, row + 2] = -1.0, 2.0, -1.0
        elif self.form == "slopes":
            G[row, row + 1], G[row, row + 2] = 1.0, -1.0
        else:
            G[row, row + 2] = -1.0
        return G

    def inside(self, vector: ArrayLike) -> Floats:
        """Return the vector moved into the concave cone that a solver's rounding has left.

        G inside >= 0 holds exactly, without rounding: samples are put on a grid of 2^-44 of their
        size, on which second differences are exact.
        """
        v = self._vector(vector).copy()
        if self.form == "curvatures":
            v[2:] = np.minimum(v[2:], 0.0)
        elif self.form == "slopes":
            v[1:] = np.minimum.accumulate(v[1:])
        elif v.any():
            grain = np.ldexp(1.0, int(np.frexp(np.abs(v).max())[1]) - 44)
            steps = np.minimum.accumulate(np.diff(v))
            v = np.cumsum(np.rint(np.concatenate([v[:1], steps]) / grain)) * grain
        return v

    def is_concave(self, vector: ArrayLike) -> bool:
        """Return whether G vector >= 0, up to rounding of 1e-9 of the vector's size."""
        v = self._vector(vector)
        bends = self.constraints() @ v
        return bool((bends >= -1e-9 * np.abs(v).max(initial=0.0)).all())

    def to_samples(self) -> Floats:
        """Return the (K + 1, K + 1) matrix that turns this form into samples."""
        return self.features(np.arange(self.lines + 1) / self.lines)

    def convert(self, vector: ArrayLike, form: Form) -> Floats:
        """Return the same envelope in another form."""
        samples = self.to_samples() @ self._vector(vector)
        target = EnvelopeSpec(self.lines, form)
        if form == "samples":
            return samples
        steps = np.diff(samples)
        if target.form == "slopes":
            return np.concatenate([samples[:1], steps])
        return np.concatenate([samples[:1], steps[:1], np.diff(steps)])

    def to_lines(self, vector: ArrayLike, mass: float, size: int = 1) -> tuple[Floats, Floats]:
        """Return slopes a_k and intercepts b_k in s, for a region of the given mass M.

        a_k = K (v_k - v_{k-1}) / M, b_k = v_k - k (v_k - v_{k-1}), times its number of nodes
        `size` if `per="node"`.
        """
        samples = self.convert(vector, "samples") * (size if self.per == "node" else 1)
        steps = np.diff(samples)
        k = np.arange(1, self.lines + 1)
        return self.lines * steps / mass, samples[1:] - k * steps

    def envelope(
        self, vector: ArrayLike, members: ArrayLike, weights: ArrayLike | None = None
    ) -> Envelope:
        """Return the envelope of one region."""
        nodes = np.asarray(members)
        size = int(nodes.sum()) if nodes.dtype == np.bool_ else nodes.size
        mass = size if weights is None else float(np.sum(weights))
        if mass <= 0:
            raise InputError("members: their weights add up to 0; a fraction needs more.")
        return Envelope(members, *self.to_lines(vector, mass, size), weights)

    def _vector(self, vector: ArrayLike) -> Floats:
        v = finite("vector", float_array("vector", vector))
        if v.shape != (self.lines + 1,):
            raise InputError(
                f"vector has shape {v.shape}, but must have shape ({self.lines + 1},): one number "
                "more than there are lines."
            )
        return v


Specs = EnvelopeSpec | Sequence[EnvelopeSpec] | None


def specs_of(envelope: Specs, families: int) -> tuple[EnvelopeSpec, ...]:
    """Return one spec for each family of regions; a single one serves all, None is none."""
    if envelope is None:
        return ()
    if families == 0:
        raise InputError(
            "envelope is given, but the problem has no regions. Give the Problem regions, or leave "
            "out envelope."
        )
    specs: Any = (envelope,) * families if isinstance(envelope, EnvelopeSpec) else envelope
    if not isinstance(specs, Sequence) or not all(isinstance(s, EnvelopeSpec) for s in specs):
        raise InputError(
            f"envelope must be an EnvelopeSpec or a sequence of them, not {envelope!r}."
        )
    if len(specs) != families:
        raise InputError(
            f"envelope has {len(specs)} specs, but the problem has {families} families of regions. "
            "Give one for each family, or a single one for all."
        )
    return tuple(specs)
