"""One image under one model: made once, then weights in, labels and probabilities out.

    cut(w)                      the best labels
    min_marginals(w)            Phi_d(k), the least energy with node d at label k
    log_likelihood(w, y, ..)    sum_d log q_d(y_d) with q_d = softmax of -Phi_d, and its gradient
    core.set_loss, planes       the highest planes of the risk (learn/oracle.py)

Where the core knows all potentials, its object turns features and weights into terms, for training
and for prediction alike. Potentials from outside make their terms in Python (`Model.terms`).
"""

from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn import _core
from cutlearn.arrays import VOID, Bits, Floats, Mask, Matrix, Vector
from cutlearn.energy.energy import Energy
from cutlearn.energy.envelopes import Envelope, Form
from cutlearn.energy.model import Model, ModelLike, checked_weights, model_for
from cutlearn.energy.ordered import OrderedEnergy
from cutlearn.energy.potentials import CORE_KINDS, Enveloped, LabelPotential
from cutlearn.energy.problem import Problem
from cutlearn.energy.solver import FREE, NO_EDGES, Terms
from cutlearn.errors import InputError
from cutlearn.run.executor import executor_of, thread_count

Valued = tuple[float, Vector]

FORMS = get_args(Form)  # in the order of the core's


class Compiled:
    """A problem bound to a model, for answers at any weights.

    Parameters
    ----------
    model : Model
        With its number of labels.
    problem : Problem

    Attributes
    ----------
    layout : Layout
        The named slices of w.
    core : object of the core, or None
        What turns weights into terms and planes; None where a potential is unknown to it.
    order : index array
        The places in a block of w of the core's weights: nodes, edges, envelopes.
    """

    def __init__(self, model: Model, problem: Problem) -> None:
        self.model, self.problem = model, problem
        self.layout = layout = model.layout(problem)
        self.size = layout.blocks * int(layout.slices[-1].stop)
        self.shape = problem.shape or (len(problem.node_features),)
        self.core: Any = None
        self._by_terms = False
        if not model.in_core:
            return
        # Potentials that can refuse weights, as they would in Python.
        self._strict = [
            (p, s) for p, s in zip(layout.potentials, layout.slices) if hasattr(p, "check")
        ]
        rank = np.array([CORE_KINDS.index(type(p)) for p in model.potentials])
        places = [np.arange(s.start, s.stop) for s in layout.slices]
        self.order = np.concatenate([places[k] for k in np.argsort(rank, kind="stable")])
        edge: Any = problem.edge_features
        ends, fixed = problem.edges, problem.fixed
        if not model.has_edges:
            edge, ends = np.zeros((0, 0)), None
        self._ends = NO_EDGES if ends is None else ends.reshape(-1)
        graph = list(self.shape), problem.connectivity or 0, self._ends
        if model.labels.name == "ordered":
            labels = np.zeros(0, np.int16) if fixed is None else fixed.astype(np.int16)
            self.core = _core.OrderedOracle(
                problem.node_features, edge, model.n_labels, *graph, labels
            )
        else:
            held = FREE if fixed is None or layout.blocks > 1 else fixed
            self.core = _core.Oracle(problem.node_features, edge, *graph, held)
            if model.has_regions:
                self.set_regions()
            self._by_terms = layout.blocks == 1 and problem.known is None

    def __reduce__(self) -> tuple[Any, ...]:
        return Compiled, (self.model, self.problem)

    def cut(self, w: ArrayLike, last: bool = False) -> Mask:
        """Return the best labels, in the problem's shape; fixed nodes keep theirs.

        Parameters
        ----------
        w : array
        last : bool
            Drop the features, which are larger than an energy, before it is solved: nothing else
            is asked.
        """
        if self.layout.blocks > 1:
            return np.asarray(self.min_marginals(w).argmin(axis=-1), np.uint8)
        fixed = self.problem.fixed
        if not self._by_terms:
            energy = self._energy(checked_weights(w, self.size), last)
            held = None if fixed is None else fixed.reshape(energy.shape)
            return np.asarray(energy.minimize(held).labels, np.uint8).reshape(self.shape)
        terms = self._terms(checked_weights(w, self.size), last)
        answer: _core.Solved = terms.network(fixed, _core.solved, 1)
        return answer.labels(list(self.shape))

    def min_marginals(self, w: ArrayLike, threads: int = 1, last: bool = False) -> Matrix:
        """Return the least energy with each node at each label, the problem's shape + (L,).

        It is infinite against a fixed label. Surrogate labels have S instead: a node that is fixed
        to a label is fixed to 1 in its field and to 0 in all others.
        """
        rows = checked_weights(w, self.size).reshape(self.layout.blocks, -1)
        if len(rows) == 1:
            energy = self._energy(rows[0], last)
            table = energy.min_marginals(self._fixed(energy.shape), threads)
            return np.asarray(table).reshape(*self.shape, -1)
        out = np.empty((len(self.problem.node_features), len(rows)))

        def fill(k: int) -> None:
            energy = self._energy(rows[k])
            both = energy.min_marginals(self._fixed(energy.shape, k)).reshape(-1, 2)
            np.subtract(both[:, 1], both[:, 0], out=out[:, k])

        executor_of(threads).map(fill, range(len(rows)))
        if self.problem.fixed is not None:  # -inf for the label itself would make softmax nan
            held = np.flatnonzero(self.problem.fixed >= 0)
            out[held] = np.inf
            out[held, self.problem.fixed[held]] = 0.0
        return out.reshape(*self.shape, -1)

    def log_likelihood(self, w: ArrayLike, truth: Mask, known: Bits) -> Valued:
        """Return sum_d log q_d(y_d) over the known labels y_d, and its gradient in w.

        dL/dw = sum_dk c_dk psi(argmin_dk),    c_dk = q_d(k) - [y*_d = k]
        """
        labels, problem = self.model.labels, self.problem
        if not labels.has_likelihood:
            raise InputError(
                f"labels: {labels.name} labels have no likelihood to learn by, because expansion "
                "moves end in local optima. Choose labels='surrogate', which takes any labels."
            )
        rows = checked_weights(w, self.size).reshape(self.layout.blocks, -1)
        if len(rows) > 1:
            # Two passes: the probabilities of all labels give the weights of each label's sums.
            costs = self.min_marginals(w).reshape(problem.n_nodes, -1)
            total, c = likelihood_weights(costs, truth, known)
            c[costs < 0] *= -1.0  # S falls with the cost of 1 - y where the field's cut has y = 1
            parts = [
                self._sums(self._energy(row), k, weights=c[:, k]) for k, row in enumerate(rows)
            ]
            return total, np.concatenate([sums for sums, _ in parts])
        energy = self._energy(rows[0])
        if isinstance(energy, Energy):
            seen = np.where(known, truth, VOID).astype(np.uint8)
            gradient, phi = self._sums(energy, None, truth=seen)
            return binary_log_likelihood(phi, truth, known), gradient
        fixed = self._fixed(energy.shape)
        costs = np.asarray(energy.min_marginals(fixed)).reshape(problem.n_nodes, -1)
        total, c = likelihood_weights(costs, truth, known)
        sums = energy.argmin_sums(c.reshape(*energy.shape, -1), fixed)
        found = [
            p.label_sums(problem, sums)
            for p in self.layout.potentials
            if isinstance(p, LabelPotential)
        ]
        return total, np.concatenate(found)

    def set_regions(self, counts: tuple[Envelope, ...] = ()) -> None:
        """Pass the regions of the envelopes, and those that a loss counts, to the core."""
        found = [p for p in self.model.potentials if isinstance(p, Enveloped)]
        families = [(self.problem.regions[p.family], p.spec) for p in found]
        hinges = [e.hinges() for e in counts]
        members = [family.members for family, _ in families] + [e.members for e in counts]
        sizes = [family.sizes for family, _ in families] + [[e.members.size] for e in counts]
        enveloped = sum(family.members.size for family, _ in families)
        without = [0] * sum(len(family) for family, _ in families)  # slopes and hinges come with w
        regions = _core.Regions(
            _offsets(np.concatenate(sizes)),
            np.concatenate(members).astype(np.int32),
            np.concatenate([np.ones(enveloped), *(e.weights for e in counts)]),
            np.array([*without, *(slope for slope, *_ in hinges)], float),
            _offsets([*without, *(alpha.size for _, _, alpha, _ in hinges)]),
            np.concatenate([np.zeros(0), *(alpha for _, _, alpha, _ in hinges)]),
            np.concatenate([np.zeros(0), *(beta for *_, beta in hinges)]),
        )
        forms = [
            (FORMS.index(spec.form), spec.lines, len(family), spec.per == "node")
            for family, spec in families
        ]
        self.core.set_regions(forms, regions, float(sum(one[1] for one in hinges)))

    def _terms(self, row: Vector, last: bool = False) -> Terms:
        """Return the terms of a block of w, by the core."""
        problem, constant = self.problem, 0.0
        for potential, place in self._strict:
            constant += potential.check(problem, row[place])
        unary, weights, kinds, regions = self.core.terms(row[self.order])
        if last:
            self.core = None
            self.problem = problem.without_features()
        grid = problem.connectivity or 0
        return Terms(
            unary, self.shape, grid, self._ends, tuple(weights), tuple(kinds), regions, constant
        )

    def _energy(self, row: Vector, last: bool = False) -> Any:
        """Return the energy of a block of w, without a value for labels where the core makes it."""
        problem, labels = self.problem, self.model.labels
        if self.core is None or problem.known is not None:
            field = self.model if labels.blocks == 1 else Model(self.model.potentials)
            made = field.labels.energy(problem, field.terms(problem, row))
            if last:
                self.problem = problem.without_features()
            return made
        if labels.name != "ordered":
            return Energy.of_terms(self._terms(row, last))
        L = self.model.n_labels
        unary, tables, each = self.core.terms(row[self.order])
        if last:
            self.core = None
            self.problem = problem.without_features()
        return OrderedEnergy.unchecked(
            unary.reshape(*self.shape, L),
            problem.connectivity or 0,
            tuple(table.reshape(-1, L, L) for table in tables),
            tuple(each),
            self._ends,
        )

    def _fixed(self, shape: tuple[int, ...], label: int | None = None) -> NDArray[np.int8] | None:
        """Return the fixed nodes in the shape of an energy, or those of a label's field."""
        fixed = self.problem.fixed
        if fixed is None:
            return None
        if label is not None:
            fixed = np.where(fixed < 0, -1, fixed == label).astype(np.int8)
        return fixed.reshape(shape)

    def _sums(
        self,
        energy: Energy,
        label: int | None,
        weights: Vector | None = None,
        truth: Mask | None = None,
    ) -> tuple[Vector, Floats]:
        """sum_d c_d [psi(argmin_d) - psi(y)] of a field in the order of w, and its min-marginals.

        c_d are given, or follow from the truth: q_d(1 - y_d) - [y*_d != y_d].
        """
        potentials, problem = self.model.potentials, self.problem
        regions = [p.regions(problem) for p in potentials]
        sums = energy.argmin_sums(
            weights=None if weights is None else weights.reshape(energy.shape),
            truth=None if truth is None else truth.reshape(energy.shape),
            regions=[members for part in regions for members in part],
            fixed=self._fixed(energy.shape, label),
        )
        begins = np.cumsum([0, *map(len, regions)]).tolist()
        parts = [p.argmin_sums(problem, sums, begin) for p, begin in zip(potentials, begins)]
        return np.concatenate(parts), sums.min_marginals


def _offsets(sizes: ArrayLike) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def softmax(costs: Floats) -> Floats:
    """Return exp(-cost) over its sum along the last axis, one row per node; inf gives 0.

    By hand: scipy.special's softmax and logsumexp take six times as long along a short last axis
    (31 against 5 ms for 120,000 rows of two labels).
    """
    return softened(costs)[0]


def softened(costs: Floats) -> tuple[Floats, Floats]:
    """Return q = softmax(-costs), one row per node, and the soft minimum s = -log sum_k exp(-cost).

    log q_k = s - cost_k, also where q_k is too small for a number.
    """
    # Labels in front: numpy is slow along a short last axis.
    table = np.ascontiguousarray(costs.reshape(-1, costs.shape[-1]).T)
    lowest = table.min(axis=0)
    e = np.exp(lowest - table)
    mass = e.sum(axis=0)
    q = np.empty(table.shape[::-1])
    np.divide(e, mass, out=q.T)
    return q, lowest - np.log(mass)


def binary_log_likelihood(min_marginals: Matrix, truth: Mask, known: Bits) -> float:
    """Return sum_d log q_d(y_d) over the known labels, q_d = softmax of -Phi_d of two labels."""
    phi = min_marginals.reshape(-1, 2)
    above = phi[:, 1] - phi[:, 0]
    np.negative(above, out=above, where=truth != 1)
    if not known.all():
        above = above[known]
    # log q = -log(1 + exp(a)), a the cost of the true label above the other's.
    return -float((np.maximum(above, 0.0) + np.log1p(np.exp(-np.abs(above)))).sum())


def likelihood_weights(costs: Matrix, truth: Mask, known: Bits) -> tuple[float, Matrix]:
    """Return sum_d log q_d(y_d) and its weights c_dk = q_d(k) - [y_d = k], 0 where unknown."""
    q, soft = softened(costs)
    at = np.flatnonzero(known)
    total = float((soft[at] - costs[at, truth[at]]).sum())
    q[at, truth[at]] -= 1.0
    q[~known] = 0.0
    return total, q


def probabilities(
    problem: Problem, w: ArrayLike, envelope: ModelLike = None, *, n_jobs: int | None = None
) -> Floats:
    """Return the probability of every label at every node, (n, L).

    Calibrated if w was learned with `train(learner="likelihood")`; beliefs of other weights keep
    their order, but may be too sure or too shy.

    Parameters
    ----------
    problem : Problem
        Its fixed nodes are certain.
    w : array
        Learned weights.
    envelope : EnvelopeSpec, or one for each family of regions, optional
        As in training; or a Model, which also says what the labels are.
    n_jobs : int, optional
        Threads; the result has the same bits for every number.

    Examples
    --------
    >>> p = Problem([[1.0], [-3.0]], edges=[[0, 1]])
    >>> probabilities(p, [1.0, 0.0]).round(2).tolist()
    [[0.73, 0.27], [0.05, 0.95]]
    """
    table = Compiled(model_for(problem, envelope, w), problem).min_marginals(
        w, thread_count(n_jobs)
    )
    return softmax(table.reshape(-1, table.shape[-1]))
