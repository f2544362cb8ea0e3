"""cutlearn: learn image segmentation models that a graph cut solves exactly."""

from cutlearn.errors import ConvergenceWarning, InputError

__version__ = "0.1.0"

__all__ = ["ConvergenceWarning", "InputError", "__version__"]
