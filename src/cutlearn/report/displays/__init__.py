"""Pictures of models, computed and drawn apart, in the manner of scikit-learn's displays.

A display keeps what it shows as attributes, so that it can be drawn again in another place; most
are made by a method `from_...`. `plot` draws into given axes (or a figure, where a display has
several axes) or into a new figure, never into a global state of matplotlib.
"""

from cutlearn.report.displays.areas import AreaDisplay
from cutlearn.report.displays.masks import MasksDisplay
from cutlearn.report.displays.probabilities import (
    ProbabilityDisplay,
    ReliabilityDisplay,
    RocDisplay,
)
from cutlearn.report.displays.shapes import ShapesDisplay
from cutlearn.report.displays.training import TrainingDisplay
from cutlearn.report.displays.trajectory import TrajectoryDisplay

__all__ = [
    "AreaDisplay",
    "MasksDisplay",
    "ProbabilityDisplay",
    "ReliabilityDisplay",
    "RocDisplay",
    "ShapesDisplay",
    "TrainingDisplay",
    "TrajectoryDisplay",
]
