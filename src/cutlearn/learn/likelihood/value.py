"""The likelihood of labels under the beliefs of min-marginals, and its gradient (tarlow2012).

    L(w) = mean_n 1/D_n sum_d log q_nd(y_nd),    q_d = softmax of -Phi_d(.; w)

over the D_n labelled nodes of image n: images weigh the same whatever their size. With argmin_dk
the labelling of least energy in which d has label k,

    D_n dL_n/dw = sum_dk c_dk psi(argmin_dk),    c_dk = q_d(k) - [y_nd = k],

which the core sums in one pass over the min-marginals. L is smooth where no argmin has a rival, and
not concave.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from cutlearn.arrays import Vector
from cutlearn.energy.compiled import Valued
from cutlearn.energy.model import Model, ModelLike, checked_weights
from cutlearn.energy.problem import Problem
from cutlearn.errors import InputError
from cutlearn.learn.likelihood.baselines import subsample
from cutlearn.learn.oracle import TrainingImage, training_image
from cutlearn.learn.pool import bind_all, model_of_all
from cutlearn.run.executor import Executor, Jobs, Resident, executor_of

# Of one image at w.
Value = Callable[[TrainingImage, Vector], Valued]


def likelihood(
    problems: Sequence[Problem],
    labels: Sequence[ArrayLike],
    w: ArrayLike,
    envelope: ModelLike = None,
    *,
    n_jobs: Jobs = None,
) -> Valued:
    """Give the average log-likelihood of labels and its gradient with respect to w.

    Parameters
    ----------
    problems, labels : sequences
        One label array (255 for void, which does not count) for each problem.
    w : array
        In the order of `train`.
    envelope : EnvelopeSpec, or one for each family of regions, optional
        Or a Model, which also says what the labels are: "binary", "ordered" or "surrogate".
    n_jobs : int, address or Client, optional
        Threads or a cluster over images; the result has the same bits for every number.

    Returns
    -------
    value : float
        Mean over images of the mean over their labelled nodes; 0 at best.
    gradient : array like w

    Examples
    --------
    >>> p = Problem([[1.0], [-3.0]], edges=[[0, 1]])
    >>> value, gradient = likelihood([p], [[0, 1]], [1.0, 0.0])
    >>> round(value, 4), gradient.round(4).tolist()
    (-0.1809, [0.2056, -0.1582])
    """
    tasks = likelihood_tasks(problems, labels, envelope)
    weights = checked_weights(w, tasks[0].layout.size)
    return mean_likelihood(image_likelihood, tasks, weights, executor_of(n_jobs))


def likelihood_tasks(
    problems: Sequence[Problem], labels: Sequence[ArrayLike], given: ModelLike
) -> Sequence[TrainingImage]:
    """Check images and labels, and bind each image to its labels."""
    model = model_of_all(problems, labels, given)
    check_likelihood(model)
    return bind_all(problems, labels, model)


def check_likelihood(model: Model) -> None:
    """Refuse labels without a likelihood, and envelopes where the labels take none."""
    labels = model.labels
    if not labels.has_likelihood:
        raise InputError(
            f"labels: {labels.name!r} labels have no likelihood to learn by, because expansion "
            "moves end in local optima. Choose labels='surrogate', which takes any labels, or a "
            "max-margin learner."
        )
    if model.has_regions and not labels.takes_envelopes:
        raise InputError(
            f"envelope: {labels.name} labels take no envelopes, because the fraction of a middle "
            "label has no exact cut. Leave out the envelope, or choose labels='surrogate'."
        )


def image_likelihood(task: TrainingImage, w: Vector) -> Valued:
    """Give L_n and its gradient for one image."""
    share = 1.0 / int(np.count_nonzero(task.known))
    total, gradient = task.compiled.log_likelihood(w, task.labels, task.known)
    return share * total, share * gradient


def mean_likelihood(
    value: Value, tasks: Sequence[TrainingImage], w: Vector, executor: Executor
) -> Valued:
    """Give the mean over images of L_n and of its gradient."""
    return mean_of(executor.map(partial(_at, value, w), tasks))


def _at(value: Value, w: Vector, task: TrainingImage) -> Valued:
    return value(task, w)


def valued(
    value: Value, name: str, model: Model, thin: int, resident: Resident, image: int, w: Vector
) -> Valued:
    """Give L_n of an image where it stays: as a task, or as a problem and its labels.

    Of the latter the task is made once, with every so many-th node, under the name of both.
    """
    if isinstance(resident.value, TrainingImage):
        return value(resident.value, w)

    def make() -> TrainingImage:
        problem, labels = resident.value
        return subsample(training_image(problem, labels, model, image), thin)

    return value(resident.once(f"task {image} {name}", make), w)


def mean_of(parts: Sequence[Valued]) -> Valued:
    """Give the mean over images of L_n and of its gradient, summed in the images' order."""
    total = sum(part[0] for part in parts) / len(parts)
    return total, np.sum([part[1] for part in parts], axis=0) / len(parts)
