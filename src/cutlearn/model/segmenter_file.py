"""A Segmenter as tensors and plain values for a model file, and back, checked."""

from __future__ import annotations

import math
import re
from sys import float_info
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from cutlearn.energy.model import from_plain, to_plain
from cutlearn.energy.problem import Problem
from cutlearn.features.featurizer import Featurizer
from cutlearn.features.nodes import PROBED
from cutlearn.images.sample import Sample, of_slices
from cutlearn.learn.learners import learner_of
from cutlearn.learn.losses import loss_from_plain, loss_to_plain
from cutlearn.learn.run import Step, rows_to_steps, steps_to_rows
from cutlearn.model.parameters import (
    check_parameters,
    feature_names,
    model_for,
    plain_C,
    plain_seed,
)

if TYPE_CHECKING:
    from cutlearn.model.segmenter import Segmenter

T = TypeVar("T", bound="Segmenter")
Arrays = dict[str, NDArray[Any]]
FEATURES = "features."


def pack(model: Segmenter) -> tuple[dict[str, Any], Arrays]:
    """The header's values and the tensors of a fitted model."""
    arrays, described = model.featurizer_.to_arrays()
    header = {
        "parameters": _plain_parameters(model),
        "names": model.w_names_,
        "fitted": {
            "C": plain_C(model.C_),
            "gap": None if math.isnan(model.gap_) else model.gap_,
            "converged": model.converged_,
            "certified": model.certified_,
        },
        "features": described,
    }
    tensors: Arrays = {f"{FEATURES}{name}": array for name, array in arrays.items()}
    return header, tensors | {"w": model.w_, "steps": steps_to_rows(list(model.steps_))}


def _plain_parameters(model: Segmenter) -> dict[str, Any]:
    """The parameters as JSON can hold them: objects by their description."""
    given: dict[str, Any] = model.get_params(deep=False)
    given["potentials"] = [to_plain(p) for p in given["potentials"]]
    given["loss"] = loss_to_plain(given["loss"])
    if isinstance(given["features"], Featurizer):
        given["features"] = None  # the header's own "features" tells all of it
    given["random_state"] = plain_seed(given["random_state"], model.featurizer_.random_state)
    given["C"] = plain_C(given["C"])
    return given


def unpack(cls: type[T], header: dict[str, Any], arrays: Arrays) -> T:
    """The inverse of `pack`; whatever does not fit raises ValueError, KeyError or TypeError."""
    described: Any = header["features"]
    if not isinstance(described, dict):
        raise ValueError("no description of the features")
    part = {n.removeprefix(FEATURES): a for n, a in arrays.items() if n.startswith(FEATURES)}
    if len(part) + 2 != len(arrays):
        raise ValueError("tensors that no model has")
    given = dict(header["parameters"])
    featurizer = Featurizer.from_arrays(part, described, given["n_jobs"])
    given["potentials"] = tuple(from_plain(p) for p in given["potentials"])
    given["C"] = _strength(given["C"])
    if given["features"] is None:
        given["features"] = clone(featurizer).set_params(n_jobs=None)
        given["connectivity"] = None  # older files have one that was not used
    given["loss"] = loss_from_plain(given["loss"])
    model = cls(**given)
    check_parameters(model)
    # A small picture goes all the way to a mask: settings which do not fit each other show now.
    shape = (PROBED, PROBED)
    extra = np.zeros((*shape, int(described["n_extra"]))) if described["n_extra"] else None
    model.featurizer_ = featurizer
    few = Sample(np.zeros((*shape, 3)), extra=extra)
    if featurizer.depth_ is not None:
        few = of_slices([few, few], (1.0, 1.0, 1.0))
    problem = model._problem(few)
    _fill(model, header, arrays, problem)
    model.model_.mask(problem, model.w_)
    return model


def _fill(model: Segmenter, header: dict[str, Any], arrays: Arrays, problem: Problem) -> None:
    """Put the checked attributes of a fitted model in place."""
    w, names = arrays["w"], header["names"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("names that are none")
    n_labels = _labels_in(names)
    if not 2 <= n_labels <= model.most_labels:
        raise ValueError(f"{n_labels} labels")
    made = model_for(model, model.featurizer_, n_labels, len(problem.regions))
    wanted = made.names(problem, feature_names(model.featurizer_))
    if names != wanted or w.dtype != np.float64 or w.shape != (len(names),):
        raise ValueError(f"{w.size} weights for {len(wanted)} features")
    edge = np.array([re.match(r"(label \d+ )?(edge|border) ", name) is not None for name in names])
    if not np.isfinite(w).all() or (w[edge] < 0).any():
        raise ValueError("weights that are not finite, or edge weights below zero")
    # Tables that no cut can minimise are refused by the picture of `unpack`.
    steps = _steps(arrays["steps"])
    fitted = header["fitted"]
    C, gap = float(_strength(fitted["C"])), fitted["gap"]
    learner = learner_of(model.learner)
    most = math.inf if learner.allows_infinite_C else float_info.max
    # A likelihood has no gap, which JSON says as null.
    told = math.isfinite(gap) if learner.margin else gap is None
    if not 0 < C <= most or not told:
        raise ValueError("figures of the fit that cannot be")
    model.model_, model.w_, model.w_names_ = made, w, names
    model.C_, model.gap_ = C, math.nan if gap is None else float(gap)
    model.converged_, model.certified_ = bool(fitted["converged"]), bool(fitted["certified"])
    model.steps_, model.n_steps_ = tuple(steps), len(steps)
    model.classes_ = np.arange(n_labels, dtype=np.uint8)


def _labels_in(names: list[str]) -> int:
    """Give L, from the names of weights; two labels are not named."""
    return max((1 + int(n.split()[1]) for n in names if n.startswith("label ")), default=2)


def _strength(value: Any) -> Any:
    """Read back what `plain_C` wrote."""
    return math.inf if value == "inf" else value


def _steps(rows: NDArray[Any]) -> list[Step]:
    """Read back the steps; numbers that cannot be are refused."""
    if rows.dtype != np.float64 or rows.ndim != 2:
        raise ValueError("steps of another form")
    steps = rows_to_steps(rows)
    if any(not 0 <= n < 2**53 for s in steps for n in (s.number, s.calls, s.planes)):
        raise ValueError("steps that cannot be counted")
    return steps
