"""Masks drawn from probabilities that can, or cannot, be believed."""

import numpy as np


def drawn(rng, shape=(20, 30), honest=True):
    p = rng.random(shape) ** 2
    mask = (rng.random(shape) < p).astype(np.uint8)
    mask[:2] = 255
    q = p if honest else p**3
    return mask, np.stack([1 - q, q], axis=-1)
