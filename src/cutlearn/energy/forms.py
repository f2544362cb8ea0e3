"""The linear forms in which an envelope is learned (gould2011 section 4).

An envelope of K lines in the fraction p = s / M of a region, with break points at k / K, is a
vector of K + 1 numbers in one of three forms, all with the same energies:

    samples      v_0 .. v_K             v_k = psi(p = k/K)
    slopes       v_0, d_1 .. d_K        d_k = v_k - v_{k-1}, the rise over one step
    curvatures   v_0, d_1, c_1 .. c_{K-1}     c_k = d_{k+1} - d_k <= 0

psi(p) = vector . features(p) in each. Concavity is G vector >= 0; in the curvatures these are
signs. p, not s, is used so that regions of all sizes share one vector.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from cutlearn.arrays import Floats
from cutlearn.checks import finite, float_array, one_of, whole_number
from cutlearn.energy.envelope import Envelope
from cutlearn.errors import InputError

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
        """The features of fractions p in [0, 1]: shape of p + (K + 1,)."""
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
        """G of shape (K - 1, K + 1): a vector is concave iff G vector >= 0."""
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
        """The vector moved into the concave cone, for one that left it by a solver's rounding.

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
        """Whether G vector >= 0, up to rounding of 1e-9 of the vector's size."""
        v = self._vector(vector)
        bends = self.constraints() @ v
        return bool((bends >= -1e-9 * np.abs(v).max(initial=0.0)).all())

    def to_samples(self) -> Floats:
        """The (K + 1, K + 1) matrix that turns this form into samples."""
        return self.features(np.arange(self.lines + 1) / self.lines)

    def convert(self, vector: ArrayLike, form: Form) -> Floats:
        """The same envelope in another form."""
        samples = self.to_samples() @ self._vector(vector)
        target = EnvelopeSpec(self.lines, form)
        if form == "samples":
            return samples
        steps = np.diff(samples)
        if target.form == "slopes":
            return np.concatenate([samples[:1], steps])
        return np.concatenate([samples[:1], steps[:1], np.diff(steps)])

    def to_lines(self, vector: ArrayLike, mass: float, size: int = 1) -> tuple[Floats, Floats]:
        """Slopes a_k and intercepts b_k in s, for a region of the given mass M.

        a_k = K (v_k - v_{k-1}) / M, b_k = v_k - k (v_k - v_{k-1}), times its number of nodes
        `size` if `per="node"`.
        """
        samples = self.convert(vector, "samples") * (size if self.per == "node" else 1)
        steps = np.diff(samples)
        k = np.arange(1, self.lines + 1)
        return self.lines * steps / mass, samples[1:] - k * steps

    def from_lines(self, slopes: ArrayLike, intercepts: ArrayLike, mass: float) -> Floats:
        """The vector that samples the lowest of the lines at p = k / K.

        Exact where the lines meet at multiples of M / K; elsewhere the piecewise linear
        interpolation. The inverse of `to_lines` of a region that weighs 1.
        """
        lowest = Envelope([], slopes, intercepts).value
        samples = lowest(np.arange(self.lines + 1) / self.lines * mass)
        return EnvelopeSpec(self.lines, "samples").convert(samples, self.form)

    def envelope(
        self, vector: ArrayLike, members: ArrayLike, weights: ArrayLike | None = None
    ) -> Envelope:
        """The envelope of one region."""
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


Envelopes = EnvelopeSpec | Sequence[EnvelopeSpec] | None


def specs_of(envelope: Envelopes, families: int) -> tuple[EnvelopeSpec, ...]:
    """Give one spec for each family of regions; a single one serves all, None is none."""
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
