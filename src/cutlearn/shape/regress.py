"""What an image says to each layer before the margins are trained: regressions.

Labels: V0 by logistic regression on superpixels, beside the log-odds of their place, so that V0
tells what the place does not. Hidden units: ridge regression guesses the mask of a patch from its
HOG,

    guess(x1) = mean y + R x1         V1 = trust W'R         (the mean of x1 is 0)

and a unit that hears W'y from the labels hears trust W'(guess(x1) - mean y) from the image, in the
same units. The trust is the variance of y that guesses explain over what they leave, both for
images left out of the regression. The second layer has h1 for y and x2 for x1.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import Mask
from cutlearn.shape.describe import View
from cutlearn.shape.generative import Shapes

Float32 = NDArray[np.float32]
C_UNARY = 0.3  # inverse strength of the regulariser of V0
# Strengths of the regulariser of guesses, in mean squared lengths of x1 - mean x1.
RIDGES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


def fit_unary(views: Sequence[View], labels: Sequence[Mask]) -> tuple[Float32, Float32]:
    """V0 and b by logistic regression: every superpixel once a label, weighted by its pixels.

    Returns
    -------
    V0 : (F0,) float32
    b : (n,) float32
        The log-odds of each place, times their weight beside V0; for labels without shapes.
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


def see_image(
    shapes: Shapes, views: Sequence[View], masks: NDArray[np.uint8]
) -> dict[str, Float32]:
    """V1 and V2 of shapes that see images.

    Parameters
    ----------
    masks : (images, rows, columns) of 0 and 1
    """
    y = shapes.patches.gather(masks.reshape(len(masks), -1).astype(np.float32))
    h1 = shapes.hidden(masks)[:, None]
    return {
        "V1": _heard(shapes.W, np.stack([v.x1 for v in views]), y),
        "V2": _heard(shapes.W2, np.stack([v.x2 for v in views])[:, None], h1),
    }


def _heard(W: Float32, x: Float32, below: Float32) -> Float32:
    """V = trust W'R of the regression of a layer on features."""
    if not W.shape[1]:
        return np.zeros((0, x.shape[2]), np.float32)
    R, explained = ridge(x, below)
    trust = explained / (1 - explained) if explained > 0 else 0.0
    return np.asarray(trust * (W.T @ R), np.float32)


def ridge(x: Float32, y: Float32) -> tuple[Float32, float]:
    """R of y ~ mean y + R (x - mean x), and the part of the variance of y that it explains.

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
    length, spread = float((S * S).sum()) / len(away), float((away * away).sum())
    if not spread or not length:
        return np.zeros((y.shape[2], x.shape[2]), np.float32), 0.0
    inner = U.T @ away
    errors = {}
    for k in RIDGES:
        D = S * S / (S * S + k * length)
        left = (away - U @ (D[:, None] * inner)) / (1 - (U * U) @ D - 1 / images)[:, None]
        errors[k] = float((left * left).sum())
    best = min(RIDGES, key=lambda k: errors[k])
    R = (inner.T * (S / (S * S + best * length))) @ Vt
    return np.asarray(R, np.float32), 1 - errors[best] / (spread * (images / (images - 1)) ** 2)
