"""cutlearn: learn image segmentation models that a graph cut solves exactly."""

from typing import TYPE_CHECKING, Any

from cutlearn.energy import (
    Contrast,
    Cut,
    Energy,
    Envelope,
    Enveloped,
    Envelopes,
    EnvelopeSpec,
    MaxFlow,
    Model,
    Moved,
    OrderedEnergy,
    Potential,
    Solver,
    Summands,
    Unary,
    expand,
    max_flow,
    probabilities,
    swap,
)
from cutlearn.energy.problem import Problem
from cutlearn.errors import ConvergenceWarning, InputError
from cutlearn.grid import direction_features, grid_edges

if TYPE_CHECKING:
    from cutlearn.features.featurizer import Featurizer
    from cutlearn.features.superpixels import superpixels
    from cutlearn.images import Sample, Volume
    from cutlearn.learn.likelihood import likelihood
    from cutlearn.learn.losses import Absolute, Count, CountFunction, Hamming, LabelCount
    from cutlearn.learn.train import train
    from cutlearn.model.boltzmann import BoltzmannSegmenter
    from cutlearn.model.model_files import load
    from cutlearn.model.segmenter import Segmenter
    from cutlearn.model.session.refine import refine
    from cutlearn.model.session.session import Session
    from cutlearn.shape.boltzmann import Boltzmann

__version__ = "0.1.0"

__all__ = [
    "Absolute",
    "Boltzmann",
    "BoltzmannSegmenter",
    "Contrast",
    "ConvergenceWarning",
    "Count",
    "CountFunction",
    "Cut",
    "Energy",
    "Envelope",
    "EnvelopeSpec",
    "Enveloped",
    "Envelopes",
    "Featurizer",
    "Hamming",
    "InputError",
    "LabelCount",
    "MaxFlow",
    "Model",
    "Moved",
    "OrderedEnergy",
    "Potential",
    "Problem",
    "Sample",
    "Segmenter",
    "Session",
    "Solver",
    "Summands",
    "Unary",
    "Volume",
    "__version__",
    "direction_features",
    "expand",
    "grid_edges",
    "likelihood",
    "load",
    "max_flow",
    "probabilities",
    "refine",
    "superpixels",
    "swap",
    "train",
]

# Names that are imported when they are first used: scikit-learn alone takes longer to import than
# all the rest.
_LATER = {
    "Boltzmann": "cutlearn.shape.boltzmann",
    "BoltzmannSegmenter": "cutlearn.model.boltzmann",
    "Absolute": "cutlearn.learn.losses",
    "LabelCount": "cutlearn.learn.losses",
    "Count": "cutlearn.learn.losses",
    "CountFunction": "cutlearn.learn.losses",
    "Featurizer": "cutlearn.features.featurizer",
    "Hamming": "cutlearn.learn.losses",
    "Sample": "cutlearn.images",
    "Segmenter": "cutlearn.model.segmenter",
    "Session": "cutlearn.model.session.session",
    "Volume": "cutlearn.images",
    "likelihood": "cutlearn.learn.likelihood",
    "load": "cutlearn.model.model_files",
    "refine": "cutlearn.model.session.refine",
    "superpixels": "cutlearn.features.superpixels",
    "train": "cutlearn.learn.train",
}

# Names that have moved to the distribution cutlearn-papers.
_MOVED = {
    "UpperEnvelope": "cutlearn_papers.upper_envelope",
    "choose_order": "cutlearn_papers.label_order",
}

# Namespaces with public names of their own: `cl.metrics.iou`, `cl.images.read_folder`.
_NAMESPACES = {
    "displays": "cutlearn.report.displays",
    "images": "cutlearn.images",
    "metrics": "cutlearn.metrics",
    "plugins": "cutlearn.plugins",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _NAMESPACES:
        return import_module(_NAMESPACES[name])
    if name in _MOVED:
        from cutlearn.errors import import_moved

        return import_moved("cutlearn", name, _MOVED[name])
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)


def __dir__() -> list[str]:
    # Modules and helpers that imports leave in this namespace are not part of the interface.
    return sorted({*(name for name in globals() if name.startswith("__")), *__all__, *_NAMESPACES})
