"""A model: potentials and what the labels are, E(y; w) = sum_p w[p] . psi_p(y).

w holds the slices of the potentials in their order. Whatever needs an energy, its features, its
constraints, masks or min-marginals asks the model; the model asks its potentials and its labels.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.arrays import Mask, Matrix, Vector
from cutlearn.checks import as_array, instance, listed
from cutlearn.energy.forms import Envelopes, specs_of
from cutlearn.energy.joins import LinearTables
from cutlearn.energy.label_potentials import LabelPotential
from cutlearn.energy.labels import LABELS, Labels, Posed, Valued, labels_of
from cutlearn.energy.layout import Layout, checked_weights
from cutlearn.energy.potentials import (
    Contrast,
    Enveloped,
    FeatureNames,
    Potential,
    Summands,
    Unary,
    terms_of,
)
from cutlearn.energy.problem import Problem
from cutlearn.errors import InputError, quoted

CORE_ORDER = (Unary, Contrast, Enveloped)


class Model:
    """Potentials that add up to an energy, and what its labels are.

    It has no weights of its own: `train` learns them, and `energy`, `mask` and the other methods
    take them.

    Parameters
    ----------
    potentials : sequence of Potential
        The summands of the energy, each with a name of its own: `Unary`, and any others, also
        classes of yours.
    labels : "binary", "ordered", "unordered", "surrogate" or Labels
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
        labels: str | Labels = "binary",
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

    def __repr__(self) -> str:
        kind = "" if self.labels == LABELS["binary"]() else f", {self.labels!r}"
        return f"Model({list(self.potentials)!r}{kind})"

    @property
    def n_labels(self) -> int:
        """The number of labels."""
        return self.labels.count

    def for_labels(self, n_labels: int) -> "Model":
        """Give the model with so many labels, unless it has a number of its own."""
        if self.labels.n_labels is not None:
            return self
        return Model(self.potentials, replace(self.labels, n_labels=n_labels))

    def for_weights(self, problem: Problem, w: ArrayLike) -> "Model":
        """Give the model with as many labels as the length of w tells."""
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

    @property
    def in_core(self) -> bool:
        """Whether the core's oracle knows all of it."""
        kinds = [type(p) for p in self.potentials]
        once = kinds.count(Unary) == 1 and kinds.count(Contrast) <= 1
        return once and set(kinds) <= set(CORE_ORDER)

    def core_order(self, problem: Problem) -> NDArray[np.intp]:
        """Return the places in w of the core's weights: node, edge, envelopes.

        requires in_core
        """
        layout = self.layout(problem)
        places = [np.arange(s.start, s.stop) for s in layout.slices]
        rank = [CORE_ORDER.index(type(p)) for p in self.potentials]
        return np.concatenate([places[k] for k in np.argsort(rank, kind="stable")])

    @property
    def has_edges(self) -> bool:
        """Whether neighbours are joined."""
        return any(isinstance(p, Contrast) for p in self.potentials)

    @property
    def has_regions(self) -> bool:
        """Whether a potential looks at regions."""
        return any(isinstance(p, Enveloped) for p in self.potentials)

    def layout(self, problem: Problem) -> Layout:
        """Give the slices of w for problems with these features."""
        instance("problem", problem, Problem)
        return Layout.of(self.labels.spread(self.potentials), problem, self.labels.blocks)

    def names(self, problem: Problem, features: FeatureNames) -> list[str]:
        """Give the names of the weights, in the order of w."""
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
        """Give the energy E(y; w) of a problem, on its grid when it has one.

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
        return self.labels.psi(self.potentials, problem, y)

    def constraints(self, problem: Problem) -> tuple[Matrix, Vector]:
        """Give the rows (G, h) with G w >= h that keep the cut exact."""
        return self.layout(problem).constraints(problem)

    def mask(self, problem: Problem, w: ArrayLike) -> Mask:
        """Give the best labels, in the problem's shape; fixed nodes keep theirs."""
        return self.labels.mask(self, problem, w).reshape(problem.shape or (-1,))

    def min_marginals(self, problem: Problem, w: ArrayLike, threads: int = 1) -> Matrix:
        """Give the least energy with each node at each label, the problem's shape + (L,)."""
        table = self.labels.min_marginals(self, problem, w, threads)
        return table.reshape(*(problem.shape or (-1,)), table.shape[-1])

    def posed(self, problem: Problem, w: ArrayLike) -> Posed:
        """Give what answers for a problem, as `mask` and `min_marginals`, but once, and lighter.

        The problem itself need not be kept until then: its features are larger than its energy.
        """
        shape, asked = problem.shape or (-1,), self.labels.posed(self, problem, w)
        return Posed(
            lambda: asked.mask().reshape(shape),
            lambda: (table := asked.min_marginals()).reshape(*shape, table.shape[-1]),
        )

    def log_likelihood(
        self, problem: Problem, w: ArrayLike, truth: Mask, known: NDArray[np.bool_]
    ) -> Valued:
        """Give sum_d log q_d(y_d) over the known labels y_d, and its gradient with respect to w."""
        return self.labels.log_likelihood(self, problem, w, truth, known)


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


def model_for(problem: Problem, given: ModelLike, w: ArrayLike) -> Model:
    """Give the model of a problem and of weights that are given."""
    return model_of(problem, given).for_weights(problem, w)


def unary_of(problem: Problem, w: ArrayLike) -> Vector:
    """Give the unary terms u_i = w_node . f_i, (n,); what comes behind in w does not matter."""
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
