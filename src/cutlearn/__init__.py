"""cutlearn: learn image segmentation models that a graph cut solves exactly."""

from cutlearn.energy import Energy, Envelope, EnvelopeSpec
from cutlearn.errors import ConvergenceWarning, InputError
from cutlearn.graph import Cut, MaxFlow, Solver, max_flow
from cutlearn.grid import grid_edges

__version__ = "0.1.0"

__all__ = [
    "ConvergenceWarning",
    "Cut",
    "Energy",
    "Envelope",
    "EnvelopeSpec",
    "InputError",
    "MaxFlow",
    "Solver",
    "__version__",
    "grid_edges",
    "max_flow",
]
