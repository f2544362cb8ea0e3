"""A model: potentials and what the labels are, E(y; w) = sum_p w[p] . psi_p(y).

w holds the slices of the potentials in their order. Whatever needs an energy, its features, its
constraints, masks or min-marginals asks the model; the model asks its potentials and its labels.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.arrays import Mask, Matrix, Vector
from cutlearn.checks import as_array, float_array, instance, listed
from cutlearn.energy.envelopes import EnvelopeSpec, Specs, specs_of
from cutlearn.energy.label_space import LABELS, LabelSpace, labels_of
from cutlearn.energy.moves import LinearTables
from cutlearn.energy.potentials import (
    CORE_KINDS,
    Contrast,
    Coordinates,
    Enveloped,
    FeatureNames,
    LabelPotential,
    PerLabel,
    Potential,
    Summands,
    Unary,
    block_diagonal,
    constraints_of,
    count_of,
    features_of,
    terms_of,
)
from cutlearn.energy.problem import Problem
from cutlearn.errors import InputError, quoted
from cutlearn.plugins import Registry

# Label spaces whose energies the core makes from weights.
CORE_LABELS = ("binary", "ordered", "surrogate")


@dataclass(frozen=True)
class Layout:
    """The named slices of w.

    Attributes
    ----------
    potentials : tuple of Potential
    slices : tuple of slice
        One for each of them, within a block.
    blocks : int
    cone : (r, block) array
        The rows G v >= 0 of potentials that have no method `inside`.
    """

    potentials: tuple[Potential, ...]
    slices: tuple[slice, ...]
    blocks: int
    cone: Matrix

    @property
    def block(self) -> int:
        """Length of a block."""
        return int(self.slices[-1].stop)

    @property
    def size(self) -> int:
        """Length of w."""
        return self.blocks * self.block

    def slice_of(self, name: str) -> slice:
        """Return the place of a potential in a block; empty if there is none of this name."""
        found = (s for p, s in zip(self.potentials, self.slices) if p.name == name)
        return next(found, slice(0, 0))

    def rows(self, w: ArrayLike) -> Matrix:
        """Return the blocks of w, (blocks, d)."""
        return checked_weights(w, self.size).reshape(self.blocks, self.block)

    def split(self, w: ArrayLike) -> dict[str, Vector]:
        """Return the parts of w by the names of the potentials, a row for each block or label."""
        rows = self.rows(w)
        if self.blocks > 1:
            return {p.name: rows[:, s] for p, s in zip(self.potentials, self.slices)}
        return {p.name: p.shaped(rows[0, s]) for p, s in zip(self.potentials, self.slices)}

    def inside(self, w: Vector) -> Vector:
        """Return w moved into the cone G w >= 0 where a solver's rounding left it."""
        out = w.copy()
        for row in out.reshape(self.blocks, self.block):
            for p, s in zip(self.potentials, self.slices):
                row[s] = p.inside(row[s])
            for g in self.cone:
                row -= min(g @ row, 0.0) / (g @ g) * g
        return out

    def constraints(self, problem: Problem) -> tuple[Matrix, Vector]:
        """Return the rows (G, h) with G w >= h that keep every cut exact."""
        rows = []
        for p, s in zip(self.potentials, self.slices):
            part = constraints_of(p, problem)
            rows.append(np.zeros((len(part), self.block)))
            rows[-1][:, s] = part
        stacked = block_diagonal(self.blocks, np.concatenate(rows))
        return stacked, np.zeros(len(stacked))

    def names(self, features: FeatureNames) -> list[str]:
        """Return the names of the weights."""
        parts = [p.names(features, s.stop - s.start) for p, s in zip(self.potentials, self.slices)]
        one = [name for part in parts for name in part]
        if self.blocks == 1:
            return one
        return [f"label {k} {name}" for k in range(self.blocks) for name in one]

    def unaries(self, w: Vector) -> Matrix:
        """Return a view of w: the weights of the node features, a row for each label with any.

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
        """Return weights that let ends cost the sum of their edge's features where they differ."""
        one = np.concatenate([p.smoothing(problem) for p in self.potentials])
        return np.tile(one, self.blocks)

    def coordinates(self, problem: Problem, second: Matrix) -> Coordinates:
        """Return the coordinates of one block: w = A z, with z_i >= 0 where bounded."""
        A, bounded = np.zeros((self.block, self.block)), np.zeros(self.block, bool)
        for p, s in zip(self.potentials, self.slices):
            A[s, s], bounded[s] = p.coordinates(problem, second)
        return Coordinates(A, bounded)


def _cone(potentials: tuple[Potential, ...], slices: list[slice], problem: Problem) -> Matrix:
    """Return the rows of potentials whose `inside` is the default, which moves nothing."""
    rows = [np.zeros((0, slices[-1].stop))]
    for p, s in zip(potentials, slices):
        one = p.one if isinstance(p, PerLabel) else p
        if type(one).inside is Potential.inside and len(part := constraints_of(p, problem)):
            rows.append(np.zeros((len(part), slices[-1].stop)))
            rows[-1][:, s] = part
    return np.concatenate(rows)


def checked_weights(w: ArrayLike, size: int) -> Vector:
    """Return w as float64; raise InputError unless it is finite and of the right length."""
    usual = isinstance(w, np.ndarray) and w.dtype == np.float64
    array: Vector = np.ascontiguousarray(w) if usual else float_array("w", w)
    if array.shape != (size,) or not np.isfinite(array).all():
        raise InputError(
            f"w must hold {size} finite weights (node, edge, envelope) for this problem, but has "
            f"{'shape ' + str(array.shape) if array.shape != (size,) else 'some that are not'}. "
            "Use the weights learned from problems with these features."
        )
    return array


class Model:
    """Potentials that add up to an energy, and what its labels are.

    It has no weights of its own: `train` learns them, and `energy`, `mask` and the other methods
    take them.

    Parameters
    ----------
    potentials : sequence of Potential
        The summands of the energy, each with a name of its own: `Unary`, and any others, also
        classes of yours.
    labels : "binary", "ordered", "unordered", "surrogate" or LabelSpace
        "binary": two labels, solved by an exact cut. "ordered": several labels with an order, such
        as layers, also solved by an exact cut; each edge feature has a table of costs. "unordered":
        several labels without an order, solved by expansion moves, so that nothing is certified.
        "surrogate": one binary energy for each label, for likelihoods.
    n_labels : int, optional
        The number of labels. By default it follows from the training labels, or from the length
        of w.

    Examples
    --------
    >>> import cutlearn as cl
    >>> model = cl.Model([cl.Unary(), cl.Contrast()])
    >>> p = cl.Problem([[1.0], [-3.0]], edges=[[0, 1]])
    >>> model.energy(p, [1.0, 2.0]).minimize().labels.tolist()
    [1, 1]
    """

    def __init__(
        self,
        potentials: Sequence[Potential] = (Unary(), Contrast()),
        labels: str | LabelSpace = "binary",
        n_labels: int | None = None,
    ) -> None:
        self.potentials: tuple[Potential, ...] = tuple(listed("potentials", potentials))
        for k, p in enumerate(self.potentials):
            instance(f"potentials[{k}]", p, Potential)
        names = [p.name for p in self.potentials]
        if len(set(names)) != len(names) or not any(isinstance(p, Unary) for p in self.potentials):
            raise InputError(
                f"potentials are named {quoted(names)}, but a model needs different names, and a "
                "Unary among them. Give each potential a name of its own."
            )
        self.labels = labels_of(labels, n_labels)
        self._expanded = self.labels.expand_for_labels(self.potentials)
        self._blocks = self.labels.blocks
        kinds = [type(p) for p in self.potentials]
        once = kinds.count(Unary) == 1 and kinds.count(Contrast) <= 1
        # Whether the core turns weights into terms and planes.
        self.in_core = (
            once and set(kinds) <= set(CORE_KINDS) and self.labels.name in CORE_LABELS
            and (self.labels.takes_envelopes or Enveloped not in kinds)
        )  # fmt: skip
        self.has_edges = any(isinstance(p, Contrast) for p in self.potentials)
        self.has_regions = any(isinstance(p, Enveloped) for p in self.potentials)

    def __repr__(self) -> str:
        kind = "" if self.labels == LABELS["binary"]() else f", {self.labels!r}"
        return f"Model({list(self.potentials)!r}{kind})"

    @property
    def n_labels(self) -> int:
        """The number of labels."""
        return self.labels.count

    def for_labels(self, n_labels: int) -> "Model":
        """Return the model with so many labels, unless it has a number of its own."""
        if self.labels.n_labels is not None:
            return self
        return Model(self.potentials, replace(self.labels, n_labels=n_labels))

    def for_weights(self, problem: Problem, w: ArrayLike) -> "Model":
        """Return the model with as many labels as the length of w tells."""
        if self.labels.n_labels is not None:
            return self
        instance("problem", problem, Problem)
        size = as_array("w", w).size
        for L in range(2, self.labels.most + 1):
            model = self.for_labels(L)
            if model.layout(problem).size == size:
                return model
        one, two = (self.for_labels(L).layout(problem).size for L in (2, 3))
        raise InputError(
            f"w has {size} weights, but {self.labels.name} labels need {one} for two labels, {two} "
            "for three, and so on. Use the weights learned from problems with these features."
        )

    def layout(self, problem: Problem) -> Layout:
        """Return the slices of w for problems with these features."""
        if not isinstance(problem, Problem):
            raise InputError(f"problem must be a Problem, not {quoted(problem)}.")
        slices, begin = [], 0
        for p in self._expanded:
            count: Any = p.count(problem)
            if type(count) is not int or not 0 <= count < 2**31:
                count = count_of(p, problem)
            slices.append(slice(begin, begin + count))
            begin += count
        return Layout(
            self._expanded, tuple(slices), self._blocks, _cone(self._expanded, slices, problem)
        )

    def names(self, problem: Problem, features: FeatureNames) -> list[str]:
        """Return the names of the weights, in the order of w."""
        return self.layout(problem).names(features)

    def terms(self, problem: Problem, w: ArrayLike) -> Summands:
        """Return the terms of all potentials, added up; unknown nodes take no part."""
        layout = self.layout(problem)
        checked, total = checked_weights(w, layout.size), Summands()
        for p, s in zip(layout.potentials, layout.slices):
            several = self.n_labels if isinstance(p, LabelPotential) else 0
            part = terms_of(p, problem, checked[s], several)
            total.unary = _sum(total.unary, part.unary)
            total.edges = _sum(total.edges, part.edges)
            total.envelopes = total.envelopes + part.envelopes
        return total if problem.known is None else of_known(total, problem, problem.known)

    def energy(self, problem: Problem, w: ArrayLike) -> Any:
        """Return the energy E(y; w) of a problem, on its grid when it has one.

        Fixed nodes are no part of an energy: pass `problem.fixed` to `minimize`, in its shape.
        """
        return self.labels.energy(problem, self.terms(problem, w))

    def psi(self, problem: Problem, labels: ArrayLike) -> Vector:
        """Return the joint features of a labelling, in the order of w: E(y; w) = w . psi(y).

        The labels of unknown nodes count as 0.
        """
        y = np.asarray(labels).reshape(-1)
        if y.size != problem.n_nodes:
            raise InputError(
                f"labels has {y.size} values, but this problem has {problem.n_nodes} nodes. Give "
                "one label for each node."
            )
        if problem.known is not None:
            y = np.where(problem.known, y, 0)
        fields = self.labels.labellings(y)
        parts = [features_of(p, problem, one) for one in fields for p in self._expanded]
        return np.concatenate(parts)

    def constraints(self, problem: Problem) -> tuple[Matrix, Vector]:
        """Return the rows (G, h) with G w >= h that keep the cut exact."""
        return self.layout(problem).constraints(problem)

    def mask(self, problem: Problem, w: ArrayLike) -> Mask:
        """Return the best labels, in the problem's shape; fixed nodes keep theirs."""
        from cutlearn.energy.compiled import Compiled

        return Compiled(self, problem).cut(w)

    def min_marginals(self, problem: Problem, w: ArrayLike, threads: int = 1) -> Matrix:
        """Return the least energy with each node at each label, the problem's shape + (L,)."""
        from cutlearn.energy.compiled import Compiled

        return Compiled(self, problem).min_marginals(w, threads)

    def log_likelihood(
        self, problem: Problem, w: ArrayLike, truth: Mask, known: NDArray[np.bool_]
    ) -> tuple[float, Vector]:
        """Return sum_d log q_d(y_d) over the known labels y_d, and its gradient in w."""
        from cutlearn.energy.compiled import Compiled

        return Compiled(self, problem).log_likelihood(w, truth, known)


ModelLike = Model | Specs


def model_of(problem: Problem, given: ModelLike = None) -> Model:
    """Return the model itself, or that of unaries, contrast and the envelopes of all families."""
    if isinstance(given, Model):
        return given
    instance("problem", problem, Problem)
    specs = specs_of(given, len(problem.regions))
    names = ["envelope"] if len(specs) == 1 else [f"envelope{f}" for f in range(len(specs))]
    families = [Enveloped(spec, f, name) for f, (spec, name) in enumerate(zip(specs, names))]
    return Model([Unary(), Contrast(), *families])


def model_for(problem: Problem, given: ModelLike, w: ArrayLike) -> Model:
    """Return the model of a problem and of weights that are given."""
    return model_of(problem, given).for_weights(problem, w)


def unary_of(problem: Problem, w: ArrayLike) -> Vector:
    """Return the unary terms u_i = w_node . f_i, (n,); what comes behind in w does not matter."""
    v = checked_weights(
        np.asarray(w, np.float64)[: problem.n_node_features], problem.n_node_features
    )
    unary = Unary().terms(problem, v).unary
    assert unary is not None
    return unary


def of_known(terms: Summands, problem: Problem, known: NDArray[np.bool_]) -> Summands:
    """Return terms in which unknown nodes cost what label 0 costs, whatever their label."""
    unary, edges = terms.unary, terms.edges
    if unary is not None:
        unary = unary.copy()
        unary[~known] = unary[~known][:, :1] if unary.ndim == 2 else 0.0
    ends = problem.edge_ends()
    alive = ends[:, 0] != ends[:, 1]
    if isinstance(edges, LinearTables):
        edges = LinearTables(edges.features * alive[:, None], edges.weights)
    elif edges is not None:
        edges = edges * alive.reshape(-1, *(1,) * (edges.ndim - 1))
    return Summands(unary, edges, terms.envelopes)


def _sum(a: Any, b: Any) -> Any:
    """The sum of two kinds of terms, either of which may be missing; p = q where one has both."""
    if a is None or b is None:
        return b if a is None else a
    if a.ndim < b.ndim:
        a = np.repeat(a[:, None], 2, axis=1)
    return a + (b if b.ndim == a.ndim else b[:, None])


# A region weighs as much as its pixels do, so that envelopes and unaries are regularised alike.
ENVELOPE = EnvelopeSpec(lines=10, form="curvatures", per="node")


def _enveloped(families: int) -> list[Potential]:
    names = ["envelope"] if families == 1 else [f"envelope{f}" for f in range(families)]
    return [Enveloped(ENVELOPE, f, name) for f, name in enumerate(names)]


# The number of families of regions in, potentials out.
NAMED: dict[str, Callable[[int], list[Potential]]] = {
    "unary": lambda families: [Unary()],
    "contrast": lambda families: [Contrast()],
    "envelope": _enveloped,
}
CLASSES: Registry[type[Potential]] = Registry(
    "potential", {kind.__name__: kind for kind in (Unary, Contrast, Enveloped)}
)


def potentials_of(given: Sequence[str | Potential], families: int) -> list[Potential]:
    """Return the potentials that names and objects mean, for so many families of regions."""
    made = [NAMED[p](families) if isinstance(p, str) else [p] for p in given]
    return [potential for part in made for potential in part]


def uses_edges(given: Sequence[str | Potential]) -> bool:
    """Return whether neighbours are joined; a potential from outside may look at edges too."""
    return any(p == "contrast" if isinstance(p, str) else not _is_blind(p, Contrast) for p in given)


def uses_regions(given: Sequence[str | Potential]) -> bool:
    """Return whether a potential looks at regions, likewise."""
    return any(
        p == "envelope" if isinstance(p, str) else not _is_blind(p, Enveloped) for p in given
    )


def _is_blind(p: Potential, kind: type[Potential]) -> bool:
    """Whether a built-in potential is of another kind, and so needs nothing of this one's."""
    return type(p) in (Unary, Contrast, Enveloped) and not isinstance(p, kind)


def to_plain(potential: str | Potential) -> str | dict[str, Any]:
    """Return a potential as JSON can hold it."""
    if isinstance(potential, str):
        return potential
    name = type(potential).__name__
    if CLASSES.get(name) is not type(potential):
        raise InputError(
            f"potentials: {name} is not known to model files. Register its class: "
            f"cl.plugins.register('potential', {name!r}, {name})."
        )
    return {"potential": name, **asdict(potential)}  # type: ignore[call-overload]


def from_plain(plain: Any) -> str | Potential:
    """Read what `to_plain` gave; whatever does not fit raises ValueError, KeyError or TypeError."""
    if isinstance(plain, str):
        return plain
    given = {str(name): value for name, value in plain.items() if name != "potential"}
    if isinstance(given.get("spec"), dict):
        given["spec"] = EnvelopeSpec(**given["spec"])
    return CLASSES[plain["potential"]](**given)
