"""Models of colour: the quadratic features of antoniuk2012."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutlearn.energy.problem import Problem
from cutlearn.errors import InputError
from cutlearn.grid import direction_features


def quadratic_colors(image: ArrayLike) -> NDArray[np.float32]:
    """All products of at most two colours: 1, r, g, b, rr, gg, bb, rg, gb, rb.

    Colours are centred at 0.5 and doubled, so that the ten features have alike sizes.

    Parameters
    ----------
    image : (h, w, 3) array in [0, 1]

    Returns
    -------
    (h, w, 10) float32
    """
    rgb = np.asarray(image, np.float32)
    if rgb.ndim != 3 or rgb.shape[2] != 3:
        raise InputError(f"image has shape {rgb.shape}, but must be a colour image, (h, w, 3).")
    x = 2 * rgb - 1
    one = np.ones_like(x[..., :1])
    return np.concatenate([one, x, x * x, x * np.roll(x, -1, axis=2)], axis=2)


def color_problem(image: ArrayLike) -> Problem:
    """Give the problem of antoniuk2012: quadratic colours, and a table for each direction.

    With L labels it has 10 L + 2 L^2 weights.
    """
    features = quadratic_colors(image)
    shape = features.shape[:2]
    directions = np.concatenate(direction_features(shape, 4))
    return Problem(features, edge_features=directions, shape=shape, connectivity=4)
