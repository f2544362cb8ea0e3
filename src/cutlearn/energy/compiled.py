"""From weights to beliefs: the probability of every label at every node.

q_d = softmax over k of -Phi_d(k), with the min-marginals Phi of the energy: exact ones for two
labels and for ordered ones, the surrogate S for any others.
"""

from numpy.typing import ArrayLike

from cutlearn.arrays import Floats
from cutlearn.energy.label_space import softmax
from cutlearn.energy.model import ModelLike, model_for
from cutlearn.energy.problem import Problem
from cutlearn.run.executor import thread_count


def probabilities(
    problem: Problem, w: ArrayLike, envelope: ModelLike = None, *, n_jobs: int | None = None
) -> Floats:
    """Give the probability of every label at every node, (n, L).

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
    model = model_for(problem, envelope, w)
    table = model.min_marginals(problem, w, thread_count(n_jobs))
    return softmax(table.reshape(-1, table.shape[-1]))
