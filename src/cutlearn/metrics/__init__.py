"""Numbers for people: how good masks, areas and probabilities are, and how sure that is.

Masks: `iou`, `pooled_iou`, `mean_iou`, `pixel_error`, and `confusion`, the table of an image that
they are made of. Areas: `count_error`. Probabilities: `beliefs`, `entropy`. How much a figure
depends on which images were drawn: `bootstrap`, `left_out`.
"""

from cutlearn.arrays import VOID
from cutlearn.metrics.counts import count_error
from cutlearn.metrics.masks import (
    Confusion,
    confusion,
    confusions,
    iou,
    iou_of,
    mean_iou,
    mean_iou_of,
    pixel_error,
    pooled_iou,
    stack_tables,
    total,
)
from cutlearn.metrics.probabilities import Beliefs, beliefs, calibration_error_of, entropy
from cutlearn.metrics.spread import Figure, Spread, bootstrap, left_out, means, ratio

__all__ = [
    "VOID",
    "Beliefs",
    "Confusion",
    "Figure",
    "Spread",
    "beliefs",
    "bootstrap",
    "calibration_error_of",
    "confusion",
    "confusions",
    "count_error",
    "entropy",
    "iou",
    "iou_of",
    "left_out",
    "mean_iou",
    "mean_iou_of",
    "means",
    "pixel_error",
    "pooled_iou",
    "ratio",
    "stack_tables",
    "total",
]
