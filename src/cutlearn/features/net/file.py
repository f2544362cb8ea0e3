"""Nets in a model file: plain arrays under "net0.", "net1.", .., and a short description."""

from typing import Any

import numpy as np
import numpy.typing as npt

from cutlearn.checks import whole_number
from cutlearn.errors import InputError
from cutlearn.features.describe import Bank
from cutlearn.features.net.body import Shape
from cutlearn.features.net.crops import Sight
from cutlearn.features.net.learn import Nets

Arrays = dict[str, npt.NDArray[Any]]
# What a description may ask for; the arrays must be in the file, too.
MOST = {"count": 1000, "outputs": 65_536, "levels": 8, "width": 65_536, "inputs": 65_536}


def arrays_of_nets(nets: Nets) -> Arrays:
    """Name -> array, for a model file."""
    arrays: Arrays = {"sight.mean": nets.sight.mean, "sight.deviation": nets.sight.deviation}
    for k, weights in enumerate(nets.weights):
        arrays |= {f"net{k}.{name}": array for name, array in weights.items()}
    return arrays


def described_nets(nets: Nets) -> dict[str, Any]:
    """What the arrays do not tell, as JSON can hold it."""
    shape = nets.shape
    return {
        "net_shape": {
            "count": len(nets.weights),
            "outputs": shape.outputs,
            "widths": list(shape.widths),
            "whole": shape.whole,
            "color": nets.sight.color,
        }
    }


def read_nets(arrays: Arrays, described: dict[str, Any], bank: Bank) -> Nets:
    """The inverse of `arrays_of_nets` and `described_nets`; damage is refused."""
    told = described["net_shape"]
    count = whole_number("nets: count", told["count"], 1, MOST["count"])
    widths = tuple(whole_number("nets: width", w, 1, MOST["width"]) for w in told["widths"])
    whole_number("nets: levels", len(widths), 1, MOST["levels"])
    mean, deviation = (
        _checked(arrays, f"sight.{name}", arrays[f"sight.{name}"].shape)
        for name in ("mean", "deviation")
    )
    if mean.ndim != 1 or deviation.shape != mean.shape or not (deviation > 0).all():
        raise InputError("nets: the scale of their inputs is damaged. Refit the model.")
    sight = Sight(bank, bool(told["color"]), mean, deviation)
    outputs = whole_number("nets: outputs", told["outputs"], 1, MOST["outputs"])
    whole_number("nets: inputs", sight.inputs, 1, MOST["inputs"])
    shape = Shape(sight.inputs, outputs, widths, bool(told["whole"]))
    sizes = shape.sizes(folded=True)
    weights = tuple(
        {name: _checked(arrays, f"net{k}.{name}", size) for name, size in sizes.items()}
        for k in range(count)
    )
    return Nets(sight, shape, weights)


def _checked(arrays: Arrays, name: str, size: tuple[int, ...]) -> npt.NDArray[np.float32]:
    array = arrays.get(name)
    if array is None or array.shape != size or array.dtype != np.float32:
        raise InputError(
            f"nets: the array {name!r} is missing or not of shape {size} in float32. "
            "Refit the model."
        )
    if not np.isfinite(array).all():
        raise InputError(f"nets: {name!r} holds a number that is not finite. Refit the model.")
    return np.ascontiguousarray(array)
