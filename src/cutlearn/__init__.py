"""cutlearn: learn image segmentation models that a graph cut solves exactly."""

from typing import TYPE_CHECKING, Any

from cutlearn.energy import Energy, Envelope, EnvelopeSpec
from cutlearn.errors import ConvergenceWarning, InputError
from cutlearn.graph import Cut, MaxFlow, Solver, grid_edges, max_flow

if TYPE_CHECKING:
    from cutlearn.model.files import load
    from cutlearn.model.segmenter import Segmenter

__version__ = "0.1.0"

__all__ = [
    "ConvergenceWarning",
    "Cut",
    "Energy",
    "Envelope",
    "EnvelopeSpec",
    "InputError",
    "MaxFlow",
    "Segmenter",
    "Solver",
    "__version__",
    "grid_edges",
    "load",
    "max_flow",
]

# Names that are imported when they are first used: scikit-learn alone takes longer to import than
# all the rest.
_LATER = {"Segmenter": "cutlearn.model.segmenter", "load": "cutlearn.model.files"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LATER[name]), name)
