"""A model: potentials end to end, E(y; w) = sum_p w[p] . psi_p(y), over problems of one kind.

w holds the slices of the potentials in their order. Whatever needs an energy, its features or its
constraints asks the model, and the model asks its potentials.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.checks import float_array, instance
from cutlearn.energy.energy import Energy
from cutlearn.energy.forms import Envelopes, EnvelopeSpec, specs_of
from cutlearn.energy.potentials import Contrast, Enveloped, Potential, Summands, Unary
from cutlearn.errors import InputError, quoted
from cutlearn.features.problem import Problem
from cutlearn.grid import grid_slices

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Layout:
    """Where each potential's weights lie in w.

    Attributes
    ----------
    potentials : tuple of Potential
    slices : tuple of slice
        One for each of them.
    """

    potentials: tuple[Potential, ...]
    slices: tuple[slice, ...]

    @property
    def size(self) -> int:
        """Length of w."""
        return int(self.slices[-1].stop)

    @property
    def node(self) -> slice:
        """The weights of the node features."""
        return self._of(Unary)[0]

    @property
    def edge(self) -> slice:
        """The weights of the edge features; empty without any."""
        return (*self._of(Contrast), slice(0, 0))[0]

    @property
    def envelopes(self) -> tuple[slice, ...]:
        """The weights of every family's envelope."""
        return self._of(Enveloped)

    @property
    def specs(self) -> tuple[EnvelopeSpec, ...]:
        """The forms of the envelopes."""
        return tuple(p.spec for p in self.potentials if isinstance(p, Enveloped))

    def _of(self, kind: type[Potential]) -> tuple[slice, ...]:
        return tuple(s for p, s in zip(self.potentials, self.slices) if isinstance(p, kind))

    def split(self, w: ArrayLike) -> dict[str, Vector]:
        """Give the parts of w by the names of the potentials."""
        checked = checked_weights(w, self.size)
        return {p.name: checked[s] for p, s in zip(self.potentials, self.slices)}

    def inside(self, w: Vector) -> Vector:
        """Give w moved into the cone G w >= 0 where a solver's rounding left it."""
        out = w.copy()
        for p, s in zip(self.potentials, self.slices):
            out[s] = p.inside(out[s])
        return out


class Model:
    """Potentials that make an energy of two labels.

    Parameters
    ----------
    potentials : sequence of Potential
        `Unary` among them; any others, from outside too.

    Examples
    --------
    >>> import cutlearn as cl
    >>> model = cl.Model([cl.Unary(), cl.Contrast()])
    >>> p = cl.Problem([[1.0], [-3.0]], edges=[[0, 1]])
    >>> model.energy(p, [1.0, 2.0]).minimize().labels.tolist()
    [1, 1]
    """

    def __init__(self, potentials: Sequence[Potential] = (Unary(), Contrast())) -> None:
        self.potentials = tuple(potentials)
        for k, p in enumerate(self.potentials):
            instance(f"potentials[{k}]", p, Potential)
        names = [p.name for p in self.potentials]
        if len(set(names)) != len(names) or not any(isinstance(p, Unary) for p in self.potentials):
            raise InputError(
                f"potentials: {quoted(names)} given; different names, and a Unary among them, are "
                "needed. Give each potential a name of its own."
            )

    def __repr__(self) -> str:
        return f"Model({list(self.potentials)!r})"

    @property
    def in_core(self) -> bool:
        """Whether the core's oracle knows all of it, in its own order."""
        order = [type(p) for p in self.potentials]
        plain = order[:2] == [Unary, Contrast] and set(order[2:]) <= {Enveloped}
        return plain and all(p.in_core for p in self.potentials)

    def layout(self, problem: Problem) -> Layout:
        """Give the slices of w for problems with these features."""
        instance("problem", problem, Problem)
        ends = [0, *np.cumsum([p.count(problem) for p in self.potentials]).tolist()]
        return Layout(self.potentials, tuple(slice(i, j) for i, j in pairwise(ends)))

    def energy(self, problem: Problem, w: ArrayLike) -> Energy:
        """Give the energy E(y; w) of a problem, on its grid when it has one.

        Fixed nodes are no part of an energy: pass `problem.fixed` to `minimize`, in its shape.
        """
        return assemble(problem, self.terms(problem, w))

    def terms(self, problem: Problem, w: ArrayLike) -> Summands:
        """Give the terms of all potentials, added up."""
        layout = self.layout(problem)
        checked = checked_weights(w, layout.size)
        total = Summands(np.zeros(problem.n_nodes), np.zeros(problem.n_edges))
        for p, s in zip(self.potentials, layout.slices):
            part = p.terms(problem, checked[s])
            total.unary = _sum(total.unary, part.unary)
            total.edges = _sum(total.edges, part.edges)
            total.envelopes = total.envelopes + part.envelopes
        return total

    def psi(self, problem: Problem, labels: ArrayLike) -> Vector:
        """Give the joint features of a labelling, in the order of w: E(y; w) = w . psi(y)."""
        y = np.asarray(labels).reshape(-1)
        if y.size != problem.n_nodes:
            raise InputError(
                f"labels: {y.size} found for {problem.n_nodes} nodes; one a node wanted. "
                "Use the labelling of this problem."
            )
        return np.concatenate([p.psi(problem, y.astype(bool)) for p in self.potentials])

    def constraints(self, problem: Problem) -> tuple[Matrix, Vector]:
        """Give the rows (G, h) with G w >= h that keep the cut exact."""
        layout = self.layout(problem)
        rows = []
        for p, s in zip(self.potentials, layout.slices):
            part = p.constraints(problem)
            rows.append(np.zeros((len(part), layout.size)))
            rows[-1][:, s] = part
        stacked = np.concatenate(rows)
        return stacked, np.zeros(len(stacked))


ModelLike = Model | Envelopes


def model_of(problem: Problem, given: ModelLike = None) -> Model:
    """Give the model itself, or that of unaries, contrast and the envelopes of all families."""
    if isinstance(given, Model):
        return given
    instance("problem", problem, Problem)
    specs = specs_of(given, len(problem.regions))
    names = ["envelope"] if len(specs) == 1 else [f"envelope{f}" for f in range(len(specs))]
    families = [Enveloped(spec, f, name) for f, (spec, name) in enumerate(zip(specs, names))]
    return Model([Unary(), Contrast(), *families])


def assemble(problem: Problem, terms: Summands) -> Energy:
    """Give the energy of terms, on the problem's grid when it has one."""
    assert terms.unary is not None
    assert terms.edges is not None
    if problem.shape is None:
        return Energy(terms.unary, problem.edges, terms.edges, terms.envelopes)
    connectivity = int(problem.connectivity or 0)
    unary = terms.unary.reshape(problem.shape)
    if problem.n_edges == 0:
        return Energy.grid(unary, 0.0, connectivity, terms.envelopes)
    parts, begin = [], 0
    for first, _ in grid_slices(problem.shape, connectivity):
        box = [along.stop - along.start for along in first]
        count = int(np.prod(box))
        part = terms.edges[begin : begin + count]
        parts.append(part.reshape(*box, *part.shape[1:]))
        begin += count
    return Energy.grid(unary, parts, connectivity, terms.envelopes)


def checked_weights(w: ArrayLike, size: int) -> Vector:
    """Check w (finite, of the right length) and give it as float64."""
    array = float_array("w", w)
    if array.shape != (size,) or not np.isfinite(array).all():
        raise InputError(
            f"w: shape {array.shape} found; {size} finite weights wanted: node, edge, envelope. "
            "Use the weights learned from problems with these features."
        )
    return array


def unary_of(problem: Problem, w: ArrayLike) -> Vector:
    """Give the unary terms u_i = w_node . f_i, (n,); what comes behind in w does not matter."""
    v = checked_weights(
        np.asarray(w, np.float64)[: problem.n_node_features], problem.n_node_features
    )
    unary = Unary().terms(problem, v).unary
    assert unary is not None
    return unary


def _sum(a: Any, b: Any) -> Any:
    """The sum of two kinds of terms, either of which may be missing; p = q where one has both."""
    if b is None:
        return a
    if a.ndim < b.ndim:
        a = np.repeat(a[:, None], 2, axis=1)
    return a + (b if b.ndim == a.ndim else b[:, None])
