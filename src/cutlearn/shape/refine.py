"""Refinement by a cut: log-odds of every pixel and edges that are cheap where colours change."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cutlearn.energy.energy import Energy
from cutlearn.features.edges import edge_contrast
from cutlearn.grid import grid_slices
from cutlearn.metrics import pooled_iou

Float32 = NDArray[np.float32]
CONNECTIVITY = 8
STRENGTHS = (0.0, 1.0, 3.0, 10.0, 30.0, 100.0)


def refinement(logits: Float32, image: Float32, strength: float) -> Energy:
    """E(y) = -sum_i logit_i y_i + strength sum_e [y_i != y_j] contrast_e on the pixels."""
    contrast = strength * edge_contrast(image, CONNECTIVITY).astype(np.float64)
    weights, start = [], 0
    for first, _ in grid_slices(logits.shape, CONNECTIVITY):
        box = tuple(s.stop - s.start for s in first)
        weights.append(contrast[start : start + box[0] * box[1]].reshape(box))
        start += box[0] * box[1]
    return Energy.grid(-logits.astype(np.float64), weights, CONNECTIVITY)


def choose_strength(
    logits: Sequence[Float32], images: Sequence[Float32], masks: Sequence[NDArray[np.uint8]]
) -> tuple[float, float]:
    """The strength with the best pooled IoU of the object, the least among equals; and that IoU."""
    figures = {}
    for strength in STRENGTHS:
        cuts = [refinement(f, i, strength).minimize() for f, i in zip(logits, images)]
        figures[strength] = pooled_iou(masks, [cut.labels for cut in cuts])
    best = max(figures, key=lambda strength: figures[strength])
    return best, figures[best]
