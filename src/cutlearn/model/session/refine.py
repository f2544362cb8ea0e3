"""A network's logits through a structured layer that was learned once, for any network.

    labels = cl.refine(logits, image)

Every network has its own scale of logits, so they are divided by their own size: the mean of the
medians below and above 0.
With f_i: 1, the scaled logit, and the log-odds of the image's own colours under the mask that the
logits make,

    E(y) = - sum_i y_i (w . f_i) + sum_ij [y_i != y_j] (v_0 + v_1 contrast_ij)

is minimised by one exact cut. The five numbers of w and v were learned on out-of-fold logits of
forests and boosted trees on real images (`scripts/learn_defaults.py`). Several labels: the same
costs for each, and expansion moves.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from cutlearn.arrays import Floats
from cutlearn.checks import as_array
from cutlearn.energy.compiled import softmax
from cutlearn.energy.energy import Energy
from cutlearn.energy.moves import UnorderedEnergy
from cutlearn.errors import InputError, InputWarning, quoted
from cutlearn.features.describe import Intensities
from cutlearn.features.mixtures import SUREST, Palette, odds_of, palette
from cutlearn.images.logits import like_probabilities
from cutlearn.images.read import as_image
from cutlearn.model.session.defaults import defaults
from cutlearn.model.session.engines import edge_weights, grid_energy, several_energy

# What the numbers of a classifier can be.
VALUES = ("auto", "logits", "probabilities")
# A probability is kept this far from 0 and 1: half a step of 16 bits.
LEAST = 0.5 / 65535


def refine(
    logits: ArrayLike,
    image: ArrayLike | Image.Image,
    probability: bool = False,
    values: str = "auto",
) -> NDArray[np.uint8] | tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Return the labels that logits and an image make together; nothing is trained.

    Parameters
    ----------
    logits : (h, w) or (h, w, L) array
        Of any classifier of pixels: log-odds of label 1; or a score for each of L labels, of which
        the largest wins. Any scale, but 0 (or equal scores) must mean undecided. Probabilities of
        label 1, or of each label, are converted.
    image : (h, w) or (h, w, 3), as for `cutlearn.images.as_image`
    probability : bool, default False
        Whether to return probabilities, too.
    values : {"auto", "logits", "probabilities"}, default "auto"
        How `logits` is read. With "auto", numbers that lie in [0, 1] throughout are read as
        probabilities, with a warning; set `values` to avoid it.

    Returns
    -------
    labels : (h, w) uint8
    probability : (h, w, L) float32, with `probability=True`
        Softmaxed min-marginals at a learned scale. It does not account for the errors of your
        network; `Segmenter(features="given")` calibrates on your images.

    Raises
    ------
    InputError
        If the shapes differ, numbers are not finite, or probabilities lie outside of [0, 1].

    Examples
    --------
    >>> import numpy as np, cutlearn as cl
    >>> image = np.zeros((20, 30)); image[5:15, 10:20] = 1
    >>> noise = np.random.default_rng(0).normal(size=image.shape)
    >>> labels = cl.refine(2 * image - 1 + noise, image)
    >>> bool((labels == image).all())
    True
    """
    pixels = as_image(image)
    pixels = Intensities.of([pixels]).scaled(pixels)
    z = _as_logits(_checked(logits, (pixels.shape[0], pixels.shape[1])), values)
    learned, colors = defaults().refine, palette(pixels)
    weights, w = edge_weights(pixels, learned["edges"]), np.array(learned["nodes"])
    energy: Energy | UnorderedEnergy
    if z.ndim == 2:
        energy = grid_energy(-np.tensordot(w, columns(z, colors), 1), weights)
    else:
        energy = several_energy(_costs(z, colors, w), weights)
    if not probability:
        return energy.minimize().labels
    found = energy.min_marginals().reshape(*z.shape[:2], -1)
    labels = energy.minimize().labels if z.ndim == 2 else found.argmin(axis=-1).astype(np.uint8)
    q = softmax(float(learned["scale"]) * found).reshape(found.shape)
    return labels, q.astype(np.float32)


def _as_logits(z: Floats, values: str) -> Floats:
    if values not in VALUES:
        raise InputError(f"values is {quoted(values)}, but must be one of {', '.join(VALUES)}.")
    if values == "logits" or (values == "auto" and not like_probabilities(z)):
        return z
    if not like_probabilities(z):
        raise InputError(
            f"logits runs from {z.min():g} to {z.max():g}, but probabilities must lie within 0 to "
            "1. Pass values='logits' if these are logits."
        )
    if values == "auto":
        warnings.warn(
            "logits lies in [0, 1] throughout and is read as probabilities. Pass "
            "values='probabilities' if this is right, or values='logits'.",
            InputWarning,
            stacklevel=3,
        )
    p = np.clip(z, LEAST, 1 - LEAST)
    return np.log(p / (1 - p)) if p.ndim == 2 else np.log(p)


def columns(z: Floats, colors: Palette) -> Floats:
    """Return f of every pixel from log-odds z (h, w), (3, h, w)."""
    scaled = np.clip(z / scale_of(z), -SUREST, SUREST)
    return np.stack([np.ones(z.shape), scaled, odds_of(colors, z > 0)])


def scale_of(z: Floats) -> float:
    """Return the mean of the median sizes of logits below and above 0."""
    sizes = [float(np.median(abs(z[part]))) for part in (z < 0, z > 0) if part.any()]
    return float(np.mean(sizes)) if sizes else 1.0


def _costs(z: Floats, colors: Palette, w: Floats) -> Floats:
    """Return costs of each label against the best of the others, (h, w, L)."""
    top = np.sort(z, axis=-1)
    costs = np.empty(z.shape)
    for k in range(z.shape[-1]):
        rival = np.where(z[..., k] == top[..., -1], top[..., -2], top[..., -1])
        costs[..., k] = -0.5 * np.tensordot(w, columns(z[..., k] - rival, colors), 1)
    return costs


def _checked(logits: Any, shape: tuple[int, int]) -> Floats:
    z = as_array("logits", logits)
    good = z.ndim in (2, 3) and z.shape[:2] == shape and z.dtype.kind in "fiub"
    if not good or (z.ndim == 3 and z.shape[2] < 2):
        raise InputError(
            f"logits has shape {z.shape} and type {z.dtype}, but must be numbers of shape {shape} "
            f"or {(*shape, 'L')}. Put labels last, at the size of the image."
        )
    if not np.isfinite(z).all():
        raise InputError(
            "logits has NaN or infinite values, but must hold finite numbers. Clip the logits."
        )
    return z.astype(np.float64)
