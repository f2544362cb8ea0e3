"""From views and masks to a conditional machine: shapes, then the unary model, then the margins.

Three stages, as in yang2014: the masks alone train an RBM or a ShapeBM; logistic regression on the
superpixels gives V0; CCCP trains all numbers together.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from cutlearn.errors import InputError
from cutlearn.shape.cccp import Learning
from cutlearn.shape.conditional import Conditional
from cutlearn.shape.describe import View
from cutlearn.shape.generative import train_layers
from cutlearn.shape.journal import Journal, State

Float32 = NDArray[np.float32]
Mask = NDArray[np.uint8]
VOID = 255
# Inverse strength of the regulariser of V0; between 0.1 and 10 the figures on horses hardly differ.
C_UNARY = 0.3


@dataclass(frozen=True)
class Plan:
    """What is trained, and how long.

    Parameters
    ----------
    hidden : () for the unary model alone, (m,) for an RBM, (m, m2) for a ShapeBM
    epochs : ints of each layer of the shapes
    cycles : int
        Passes of the max-margin training.
    learning : Learning
    sees_image : bool
        Whether the hidden layers see the image.
    pairwise : bool
        Whether labels have edges.
    """

    hidden: tuple[int, ...]
    epochs: tuple[int, ...]
    cycles: int
    learning: Learning
    sees_image: bool = True
    pairwise: bool = False


def fit_conditional(
    views: Sequence[View], labels: Sequence[Mask], plan: Plan, seed: int, journal: Journal
) -> tuple[Conditional, list[float]]:
    """Train a machine on views and masks at the model's size (0, 1, 255).

    Returns
    -------
    model : Conditional
    violated : list of float
        The mean violated margin of every cycle.
    """
    masks = np.stack([filled(mask) for mask in labels])
    shapes = train_layers(masks, plan.hidden, plan.epochs, journal)
    V0 = fit_unary(views, labels)
    start = Conditional.of(shapes, V0, views[0], plan.sees_image, plan.pairwise, seed)
    return fit_margins(start, views, labels, plan, journal)


def fit_margins(
    start: Conditional, views: Sequence[View], labels: Sequence[Mask], plan: Plan, journal: Journal
) -> tuple[Conditional, list[float]]:
    """The last stage of `fit_conditional`: CCCP from given numbers, which stay as they are."""

    def begin(_: np.random.Generator) -> State:
        copied = {name: array.copy() for name, array in start.w.items()}
        return {**copied, "violated": np.zeros(plan.cycles)}

    def step(state: State, rng: np.random.Generator, number: int) -> None:
        model = Conditional(start.patches, {name: state[name] for name in start.w})
        state["violated"][number] = plan.learning.cycle(model, views, labels, rng, number)

    state = journal.run("margins", plan.cycles, begin, step)
    model = Conditional(start.patches, {name: state[name] for name in start.w})
    return model, state["violated"].tolist()


def need_both_labels(labels: Sequence[Mask]) -> None:
    """Refuse masks that are all of one label at the model's size."""
    values = np.unique(np.concatenate([m.ravel() for m in labels]))
    if not {0, 1} <= set(values):
        raise InputError(
            "masks: one label only found in all of them, at the model's size; pixels of 0 and of 1 "
            "were wanted. Annotate an image with both, or choose a larger shape."
        )


def fit_unary(views: Sequence[View], labels: Sequence[Mask]) -> Float32:
    """V0 by logistic regression: every superpixel once for each label, weighted by its pixels."""
    from sklearn.linear_model import LogisticRegression

    rows, truth, weights = [], [], []
    for view, mask in zip(views, labels):
        for label in (0, 1):
            count = np.bincount(view.regions, mask.ravel() == label, minlength=len(view.x0))
            there = count > 0
            rows.append(view.x0[there])
            truth.append(np.full(int(there.sum()), label))
            weights.append(count[there])
    model = LogisticRegression(C=C_UNARY, fit_intercept=False, max_iter=300)
    model.fit(np.concatenate(rows), np.concatenate(truth), np.concatenate(weights))
    return np.asarray(model.coef_[0], np.float32)


def filled(mask: Mask) -> Mask:
    """The mask with every void label replaced by the nearest known one: for shapes alone."""
    void = mask == VOID
    if not void.any():
        return mask
    if void.all():
        return np.zeros_like(mask)
    nearest = ndimage.distance_transform_edt(void, return_distances=False, return_indices=True)
    return np.asarray(mask[tuple(nearest)], np.uint8)
