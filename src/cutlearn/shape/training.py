"""From views and masks to a conditional machine: shapes, then the unary model, then the margins.

Three stages: the masks alone train an RBM or a ShapeBM; regressions tell what the image says to
each layer; CCCP trains all numbers together.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from cutlearn.arrays import VOID, Mask
from cutlearn.errors import InputError
from cutlearn.shape.cccp import Learning
from cutlearn.shape.conditional import Conditional
from cutlearn.shape.describe import View
from cutlearn.shape.generative import Shapes, train_layers
from cutlearn.shape.journal import Journal, State
from cutlearn.shape.regress import fit_unary, see_image

Float32 = NDArray[np.float32]


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
    views: Sequence[View], labels: Sequence[Mask], plan: Plan, journal: Journal
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
    start = given_images(shapes, fit_unary(views, labels), views, masks, plan)
    return fit_margins(start, views, labels, plan, journal)


def given_images(
    shapes: Shapes,
    unary: tuple[Float32, Float32],
    views: Sequence[View],
    masks: Mask,
    plan: Plan,
) -> Conditional:
    """Shapes that see images by regressions, or labels alone where the shapes have no units.

    Parameters
    ----------
    unary : V0 and b of `fit_unary`
        b is for labels alone: shapes have their own.
    masks : (images, rows, columns) of 0 and 1
    """
    V0, place = unary
    w = {"W": shapes.W, "c": shapes.c, "b": shapes.b if shapes.c.size else place}
    w |= {"W2": shapes.W2, "c2": shapes.c2, "V0": V0}
    if plan.sees_image:
        w |= see_image(shapes, views, masks)
    else:
        w |= {f"V{k}": np.zeros((w[n].shape[1], 0), np.float32) for k, n in ((1, "W"), (2, "W2"))}
    w["v"] = np.zeros(views[0].edges.shape[1] * plan.pairwise, np.float32)
    return Conditional(shapes.patches, w)


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
            "masks: at the model's size all pixels have the same label, but both 0 and 1 are "
            "needed. Annotate an image with both, or choose a larger shape."
        )


def filled(mask: Mask) -> Mask:
    """The mask with every void label replaced by the nearest known one: for shapes alone."""
    void = mask == VOID
    if not void.any():
        return mask
    if void.all():
        return np.zeros_like(mask)
    nearest = ndimage.distance_transform_edt(void, return_distances=False, return_indices=True)
    return np.asarray(mask[tuple(nearest)], np.uint8)
