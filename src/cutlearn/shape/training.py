"""Training of a conditional machine: shapes, then regressions on the image, then the margins.

The masks alone train an RBM or a ShapeBM. Regressions give each layer its weights on the image.
CCCP trains all numbers together.

Labels: V0 by logistic regression on superpixels, together with the log-odds of their place, so that
V0 holds what the place does not explain. Hidden units: ridge regression predicts the mask of a
patch from its HOG,

    guess(x1) = mean y + R x1         V1 = trust W'R         (the mean of x1 is 0)

so that a unit with the input W'y from the labels has the input trust W'(guess(x1) - mean y) from
the image. The trust is the variance of y that guesses explain over the rest, both for images left
out of the regression. The second layer has h1 for y and x2 for x1.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cutlearn.arrays import Float32, Mask
from cutlearn.errors import InputError
from cutlearn.shape.conditional import Conditional, Learning
from cutlearn.shape.describe import MachineInput
from cutlearn.shape.frame import filled
from cutlearn.shape.generative import Shapes, train_layers
from cutlearn.shape.journal import Journal, State

C_UNARY = 0.3  # inverse strength of the regulariser of V0
# Strengths of the regulariser of guesses, in mean squared lengths of x1 - mean x1.
RIDGES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


@dataclass(frozen=True)
class MachineSettings:
    """The parts of a machine that are trained, and for how long.

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
    views: Sequence[MachineInput], labels: Sequence[Mask], plan: MachineSettings, journal: Journal
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
    views: Sequence[MachineInput],
    masks: Mask,
    plan: MachineSettings,
) -> Conditional:
    """Join shapes and their weights on the image, by regressions.

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
    start: Conditional,
    views: Sequence[MachineInput],
    labels: Sequence[Mask],
    plan: MachineSettings,
    journal: Journal,
) -> tuple[Conditional, list[float]]:
    """Train all numbers by CCCP, from given ones, which are copied."""

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
    """Raise for masks that are all of one label at the model's size."""
    values = np.unique(np.concatenate([m.ravel() for m in labels]))
    if not {0, 1} <= set(values):
        raise InputError(
            "masks: at the model's size all pixels have the same label, but both 0 and 1 are "
            "needed. Annotate an image with both, or choose a larger shape."
        )


def fit_unary(views: Sequence[MachineInput], labels: Sequence[Mask]) -> tuple[Float32, Float32]:
    """Return V0 and b by logistic regression on superpixels, one row per label, by pixels.

    Returns
    -------
    V0 : (F0,) float32
    b : (n,) float32
        The log-odds of each place, times their weight next to V0; for labels without shapes.
    """
    from sklearn.linear_model import LogisticRegression

    stack = np.stack([mask.ravel() for mask in labels])
    ones, zeros = ((stack == label).sum(axis=0) + 0.5 for label in (1, 0))
    place = np.log(ones / zeros)
    rows, truth, weights = [], [], []
    for view, mask in zip(views, stack):
        size = np.bincount(view.regions, minlength=len(view.x0))
        there = np.bincount(view.regions, place, minlength=len(size)) / np.maximum(size, 1)
        seen = np.concatenate([view.x0, there[:, None].astype(np.float32)], axis=1)
        for label in (0, 1):
            count = np.bincount(view.regions, mask == label, minlength=len(size))
            rows.append(seen[count > 0])
            truth.append(np.full(len(rows[-1]), label))
            weights.append(count[count > 0])
    model = LogisticRegression(C=C_UNARY, fit_intercept=False, max_iter=300)
    model.fit(np.concatenate(rows), np.concatenate(truth), np.concatenate(weights))
    found = np.asarray(model.coef_[0], np.float32)
    return found[:-1], (found[-1] * place).astype(np.float32)


def see_image(shapes: Shapes, views: Sequence[MachineInput], masks: Mask) -> dict[str, Float32]:
    """Return V1 and V2 of shapes.

    Parameters
    ----------
    masks : (images, rows, columns) of 0 and 1
    """
    y = shapes.patches.gather(masks.reshape(len(masks), -1).astype(np.float32))
    h1 = shapes.hidden(masks)[:, None]
    return {
        "V1": _image_weights(shapes.W, np.stack([v.x1 for v in views]), y),
        "V2": _image_weights(shapes.W2, np.stack([v.x2 for v in views])[:, None], h1),
    }


def _image_weights(W: Float32, x: Float32, below: Float32) -> Float32:
    """Return V = trust W'R of the regression of a layer on features."""
    if not W.shape[1]:
        return np.zeros((0, x.shape[2]), np.float32)
    R, explained = ridge(x, below)
    trust = explained / (1 - explained) if explained > 0 else 0.0
    return np.asarray(trust * (W.T @ R), np.float32)


def ridge(x: Float32, y: Float32) -> tuple[Float32, float]:
    """Return R of y ~ mean y + R (x - mean x), and the explained part of the variance of y.

    Every patch has its own means; all share R. The strength is the one with the least error of
    rows left out one by one: with x - mean x = U S V', all rows below each other, the fit of
    strength k is U D U'y, D = S^2 / (S^2 + k), and the error of a row that is left out is its
    error over 1 - (U D U')_rr - 1 / images.

    Parameters
    ----------
    x : (images, patches, F) float32
    y : (images, patches, n) float32

    Returns
    -------
    R : (n, F) float32
    explained : float
        1 - (squared error of rows left out) / (their squared distance from the mean of others).
    """
    from scipy.linalg import svd

    images = len(x)
    away = (y - y.mean(axis=0)).reshape(-1, y.shape[2])
    U, S, Vt = svd((x - x.mean(axis=0)).reshape(-1, x.shape[2]), full_matrices=False)
    length, variation = float((S * S).sum()) / len(away), float((away * away).sum())
    if not variation or not length:
        return np.zeros((y.shape[2], x.shape[2]), np.float32), 0.0
    inner = U.T @ away
    errors = {}
    for k in RIDGES:
        D = S * S / (S * S + k * length)
        left = (away - U @ (D[:, None] * inner)) / (1 - (U * U) @ D - 1 / images)[:, None]
        errors[k] = float((left * left).sum())
    best = min(RIDGES, key=lambda k: errors[k])
    R = (inner.T * (S / (S * S + best * length))) @ Vt
    return np.asarray(R, np.float32), 1 - errors[best] / (variation * (images / (images - 1)) ** 2)
