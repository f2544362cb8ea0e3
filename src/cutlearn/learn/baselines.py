"""What likelihood training is measured against, as fields that the same run drives.

`UnaryField` is logistic regression: no edges, no envelopes. `KohliTorrField` has the value of the
likelihood, but the gradient of a Gibbs distribution in which softmaxed min-marginals stand for the
marginals (Kohli and Torr 2008): (q_i(1) - y_i) f_i of a node and, its ends taken as independent,
(q_i(0) q_j(1) + q_i(1) q_j(0) - [y_i != y_j]) g_ij of an edge. It is the gradient of nothing, so
its best and its last point differ.
"""

import numpy as np
from numpy.typing import NDArray

from cutlearn.energy.probability import softened, softmax
from cutlearn.errors import InputError
from cutlearn.learn.likelihood import (
    BinaryField,
    Evidence,
    Field,
    SurrogateField,
    Valued,
    log_likelihood,
)

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


class UnaryField:
    """Logistic regression on node features, in the layout of a field.

    Parameters
    ----------
    field : BinaryField or SurrogateField
    """

    def __init__(self, field: Field) -> None:
        self.layout, self.n_labels = field.layout, field.n_labels
        one = field.layout.one if isinstance(field, SurrogateField) else field.layout
        self.node, self.size = one.node, one.size

    def value(self, seen: Evidence, w: Vector) -> Valued:
        """Give L_n of the unaries alone, and its gradient: zero but for node weights."""
        features, labels = seen.problem.node_features, seen.labels
        if not seen.known.all():
            features, labels = features[seen.known], labels[seen.known]
        features = features.astype(np.float64)
        rows = w.reshape(-1, self.size)
        costs = np.zeros((len(labels), self.n_labels))
        costs[:, -len(rows) :] = features @ rows[:, self.node].T
        at = np.arange(len(labels))
        q, soft = softened(costs)
        q[at, labels] -= 1.0
        out = np.zeros_like(rows)
        out[:, self.node] = (q[:, -len(rows) :].T @ features) / len(labels)
        return float((soft - costs[at, labels]).mean()), out.ravel()


class KohliTorrField:
    """Softmaxed min-marginals in the place of marginals; two labels, no envelopes.

    Parameters
    ----------
    field : BinaryField
    """

    n_labels = 2

    def __init__(self, field: Field) -> None:
        if not isinstance(field, BinaryField) or field.layout.specs:
            raise InputError(
                "learner: 'kohli-torr' found with envelopes or several labels; two labels on nodes "
                "and edges wanted. Choose learner='likelihood', which has no such limits."
            )
        self.layout, self.model = field.layout, field.model

    def value(self, seen: Evidence, w: Vector) -> Valued:
        """Give L_n, and what stands in for the gradient."""
        problem = seen.problem
        energy = self.model.energy(problem, w)
        fixed = None if problem.fixed is None else problem.fixed.reshape(energy.shape)
        phi = energy.min_marginals(fixed).reshape(-1, 2)
        y = seen.labels == 1
        share = 1.0 / int(np.count_nonzero(seen.known))
        q = np.where(seen.known, softmax(phi)[:, 1], 0.0)
        ends = problem.edge_ends()
        i, j = q[ends[:, 0]], q[ends[:, 1]]
        expected = i + j - 2.0 * i * j - (y[ends[:, 0]] != y[ends[:, 1]])
        features = problem.edge_features
        assert features is not None
        parts = [(q - y) @ problem.node_features, expected @ features]
        return share * log_likelihood(phi, seen), share * np.concatenate(parts)
