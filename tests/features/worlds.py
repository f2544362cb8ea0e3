"""Small synthetic images with known masks for the tests of the features."""

import numpy as np
from scipy import ndimage


def pyramid(image):
    """A network as users give one: blurred channels and their squares at two scales."""
    blurred = ndimage.gaussian_filter(image, (1, 1, 0)).transpose(2, 0, 1)
    return [blurred, np.concatenate([blurred, blurred**2])[:, ::2, ::2]]


def world(n=4, shape=(24, 30), color=True, seed=0, void=False):
    """n noisy images whose objects are blobs that are a little brighter; images and masks."""
    rng = np.random.default_rng(seed)
    images, masks = [], []
    for _ in range(n):
        field = ndimage.gaussian_filter(rng.normal(size=shape), 3)
        mask = (field > np.quantile(field, 0.7)).astype(np.uint8)
        grey = 0.4 + 0.15 * mask + rng.normal(0, 0.1, shape)
        image = np.stack([grey, 0.9 * grey, rng.uniform(0, 1, shape)], -1) if color else grey
        images.append(np.clip(image, 0, 1).astype(np.float32))
        if void:
            mask[:3] = 255
        masks.append(mask)
    return images, masks
