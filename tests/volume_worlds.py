"""Small volumes with known answers: balls in noise, flattened along the first axis."""

import numpy as np


def balls(seed, shape=(8, 24, 32), noise=0.15, count=5):
    """Give an image (d, h, w) in [0, 1] and its mask; slices are three times as far apart."""
    rng = np.random.default_rng(seed)
    places = np.indices(shape).astype(float)
    mask = np.zeros(shape, bool)
    for _ in range(count):
        centre, radius = [rng.uniform(0, side) for side in shape], rng.uniform(4, 8)
        square = sum((f * (p - c)) ** 2 for f, p, c in zip((3, 1, 1), places, centre))
        mask |= square < radius**2
    image = 0.4 + 0.2 * mask + noise * rng.standard_normal(shape)
    return np.clip(image, 0, 1).astype(np.float32), mask.astype(np.uint8)


def sparse(mask, slices):
    """Give a mask in which only some slices are annotated."""
    made = np.full_like(mask, 255)
    made[slices] = mask[slices]
    return made
