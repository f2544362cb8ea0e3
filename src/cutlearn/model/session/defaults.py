"""The shipped numbers, learned on real images: a small net and a handful of weights.

One sealed file beside this one, written by `scripts/learn_defaults.py`. The kernels of the net are
kept in 8 bits with a scale for each row: a few hundred kilobytes become a quarter.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from cutlearn.arrays import AnyArray, Floats
from cutlearn.features.net.body import NetShape, Weights
from cutlearn.model.calibration import Calibration
from cutlearn.model.session.guided import CHANNELS
from cutlearn.store import load_sealed, save_sealed

FILE = Path(__file__).with_name("defaults.safetensors")
KEY = "cutlearn-defaults"
LEVELS = 127

Arrays = dict[str, AnyArray]


@dataclass(frozen=True, eq=False)
class Net:
    """A net and its weights, batch statistics worked in."""

    shape: NetShape
    weights: Weights


@dataclass(frozen=True, eq=False)
class Defaults:
    """All shipped numbers.

    Attributes
    ----------
    net : Net
        Of `cutlearn.model.session.guided`.
    nodes : (F,) weights of the columns of `cutlearn.model.session.engines.UntrainedEngine`
    edges : weights of the edge features "bias" and "contrast"
    calibration : Calibration
        From min-marginals to probabilities and areas.
    refine : dict
        Weights of `cutlearn.model.session.refine`.
    learned_on : dict
        The sets of images, and how many objects of each.
    """

    net: Net
    nodes: Floats
    edges: tuple[float, float]
    calibration: Calibration
    refine: dict[str, Any]
    learned_on: dict[str, Any]

    def save(self, path: Path = FILE) -> None:
        """Write the file."""
        plain, arrays = self.calibration.to_header()
        header = {
            "widths": list(self.net.shape.widths), "nodes": self.nodes.tolist(),
            "edges": list(self.edges), "calibration": plain, "refine": self.refine,
            "learned_on": self.learned_on,
        }  # fmt: skip
        arrays = {f"calibration.{name}": array for name, array in arrays.items()}
        save_sealed(path, KEY, header, arrays | packed(self.net.weights))


@cache
def defaults(path: Path = FILE) -> Defaults:
    """Read the file, once."""
    header, arrays, _ = load_sealed(path, KEY)
    shape = NetShape(CHANNELS, 1, tuple(header["widths"]), True)
    kept = {name[12:]: array for name, array in arrays.items() if name.startswith("calibration.")}
    return Defaults(
        Net(shape, unpacked(arrays, shape)),
        np.array(header["nodes"]),
        (header["edges"][0], header["edges"][1]),
        Calibration.from_header(header["calibration"], kept, 2),
        header["refine"],
        header["learned_on"],
    )


def packed(weights: Weights) -> Arrays:
    """Return matrices as bytes with a scale for each row; vectors as they are."""
    arrays: Arrays = {}
    for name, value in weights.items():
        if value.ndim == 1:
            arrays[f"net.{name}"] = value
            continue
        scale = np.maximum(abs(value).max(axis=1), 1e-12).astype(np.float32) / LEVELS
        arrays[f"net.{name}"] = np.rint(value / scale[:, None]).astype(np.int8)
        arrays[f"scale.{name}"] = scale
    return arrays


def unpacked(arrays: Arrays, shape: NetShape) -> Weights:
    """Return the weights that `packed` was given, to within half a step of 127."""
    weights: Weights = {}
    for name in shape.sizes(folded=True):
        value = arrays[f"net.{name}"].astype(np.float32)
        scale = arrays.get(f"scale.{name}")
        weights[name] = value if scale is None else value * scale[:, None]
    return weights
