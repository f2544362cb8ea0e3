"""A BoltzmannSegmenter as tensors and plain values for a model file, and back, checked."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cutlearn.model.parameters import (
    MOST,
    check_parameters,
    plain_seed,
    seed_of,
)
from cutlearn.shape.describe import Describer, hog, patch_hogs
from cutlearn.shape.frame import SCALE, Patches

if TYPE_CHECKING:
    from cutlearn.model.boltzmann import BoltzmannSegmenter

T = TypeVar("T", bound="BoltzmannSegmenter")
Arrays = dict[str, NDArray[Any]]
NAMES = ("W", "c", "b", "W2", "c2", "V0", "V1", "V2", "v")
SEEN = ("words", "colors", "mean1", "mean2")


def pack(model: BoltzmannSegmenter) -> tuple[dict[str, Any], Arrays]:
    """The header's values and the tensors of a fitted model."""
    given: dict[str, Any] = model.get_params(deep=False)
    given["random_state"] = plain_seed(given["random_state"], model.seed_)
    fitted = {"strength": model.strength_, "violated": model.violated_}
    seen = {name: getattr(model.describer_, name) for name in SEEN}
    arrays = {name: model.w_[name] for name in NAMES} | seen
    return {"parameters": given, "fitted": fitted}, arrays


def unpack(cls: type[T], header: dict[str, Any], arrays: Arrays) -> T:
    """The inverse of `pack`; whatever does not fit raises ValueError, KeyError or TypeError."""
    given = dict(header["parameters"])
    for name in ("shape", "hidden", "epochs", "words"):
        given[name] = tuple(given[name])
    model = cls(**given)
    if given.keys() != model.get_params(deep=False).keys():
        raise ValueError("a parameter missing")
    check_parameters(model)
    model.seed_ = seed_of(model.random_state)
    if set(arrays) != {*NAMES, *SEEN}:
        raise ValueError("tensors that no model has, or some missing")
    for name, array in arrays.items():
        if array.dtype != np.float32 or not np.isfinite(array).all():
            raise ValueError(f"{name}: numbers of another type, or not finite")
    shape = (int(model.shape[0]), int(model.shape[1]))
    patches = Patches.layout(shape) if model.layers == 2 else Patches.whole(shape)
    words, colors = arrays["words"], arrays["colors"]
    if words.shape[1:] != (128,) or colors.shape[1:] != (3,):
        raise ValueError("codebooks of another form")
    if not (1 <= len(words) <= model.words[0] and 1 <= len(colors) <= model.words[1]):
        raise ValueError("codebooks of another size")
    model.describer_ = Describer(patches, *(arrays[name] for name in SEEN))
    model.w_ = {name: arrays[name] for name in NAMES}
    _check_shapes(model)
    fitted = header["fitted"]
    model.strength_ = float(fitted["strength"])
    model.violated_ = [float(v) for v in fitted["violated"]]
    if not all(map(math.isfinite, [model.strength_, *model.violated_])) or model.strength_ < 0:
        raise ValueError("figures of the fit that are not finite")
    if len(model.violated_) > MOST["cycles"]:
        raise ValueError("more cycles than a fit can have")
    model.classes_ = np.array([0, 1], np.uint8)
    return model


def _check_shapes(model: BoltzmannSegmenter) -> None:
    """Every array has the shape that the settings say."""
    patches, w = model.describer_.patches, model.w_
    n, seen = patches.shape[0] * patches.shape[1], bool(model.sees_image)
    if w["b"].shape != (n,):
        raise ValueError(f"{w['b'].size} biases for {n} labels")
    blank = np.zeros((SCALE * patches.shape[0], SCALE * patches.shape[1], 3), np.float32)
    wanted = {"mean1": patch_hogs(blank, patches).shape, "mean2": (hog(blank).size,)}
    for name, shape in wanted.items():
        if getattr(model.describer_, name).shape != shape:
            raise ValueError(f"{name} of another shape than {shape}")
    # How wide a view is does not depend on the size of the picture: a small one tells.
    small, books = Patches.whole((4, 4)), (model.describer_.words, model.describer_.colors)
    none = np.zeros(1, np.float32)
    view = Describer(small, *books, none, none).view(blank[: 4 * SCALE, : 4 * SCALE])
    units = int(model.hidden[0]) // len(patches.corners) if model.layers else 0
    m, m2 = units * len(patches.corners), int(model.hidden[1]) if model.layers == 2 else 0
    wanted = {
        "W": (patches.size[0] * patches.size[1], units),
        "c": (m,),
        "b": (n,),
        "W2": (m, m2),
        "c2": (m2,),
        "V0": (view.x0.shape[1],),
        "V1": (units, model.describer_.mean1.shape[1] * seen),
        "V2": (m2, model.describer_.mean2.size * seen),
        "v": (view.edges.shape[1] * bool(model.pairwise),),
    }
    for name, shape in wanted.items():
        if w[name].shape != shape:
            raise ValueError(f"{name} of shape {w[name].shape}, not {shape}")
    if (w["v"] < 0).any():
        raise ValueError("edge weights below zero")
