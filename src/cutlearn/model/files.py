"""Model files: sealed files of tensors, with everything else as checked JSON beside them.

Under "cutlearn-model": format, version, parameters, names, figures of the fit, the calibration,
the description of the features, and the model card. Loading executes nothing, trusts nothing and
gives a damaged, lying or foreign file one sentence; every number is bounded before it is used.
Version 1, which had no calibration, and version 2, which had no digest, will be read for ever.
"""

import math
import os
import re
from collections.abc import Callable
from sys import float_info
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from cutlearn.checks import path_of
from cutlearn.errors import InputError, clean, quoted
from cutlearn.features.featurizer import Featurizer
from cutlearn.images.sample import Sample
from cutlearn.learn.kept_loss import loss_from_plain, plain_of
from cutlearn.learn.learners import learner_of
from cutlearn.learn.steps import Step, rows_to_steps, steps_to_rows
from cutlearn.model import boltzmann_file
from cutlearn.model.boltzmann import BoltzmannSegmenter
from cutlearn.model.calibrate import Calibration, uncalibrated
from cutlearn.model.card import check_card
from cutlearn.model.kinds import KINDS, labels_in
from cutlearn.model.parameters import check_parameters, kind_of, plain_C
from cutlearn.model.segmenter import Segmenter
from cutlearn.model.training_images import TrainingImages
from cutlearn.sealed import Arrays, ForeignError, load_sealed, save_sealed

KEY = "cutlearn-model"
FORMAT = "cutlearn model"
VERSION = 3
VERSIONS = range(1, VERSION + 1)
SEALED = 3  # the first version with a digest
FEATURES, CALIBRATION = "features.", "calibration."


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file, whole or not at all.

    Parameters
    ----------
    model : Segmenter or BoltzmannSegmenter
    path : path
        By custom ending in `.cutlearn`.
    """
    if isinstance(model, BoltzmannSegmenter):
        packed, tensors = boltzmann_file.pack(model)
    else:
        packed, tensors = _pack(model)
    header = {"format": FORMAT, "version": VERSION, "estimator": type(model).__name__, **packed}
    check_card(header["card"])
    training = getattr(model, "training_", None)
    header["training"] = None if training is None else training.to_plain()
    save_sealed(path, KEY, header, tensors)


def _pack(model: Segmenter) -> tuple[dict[str, Any], Arrays]:
    arrays, described = model.featurizer_.to_arrays()
    calibration, steps = model.calibration_.to_header()
    header = {
        "parameters": _plain_parameters(model),
        "names": model.w_names_,
        "fitted": {
            "C": plain_C(model.C_),
            "gap": None if math.isnan(model.gap_) else model.gap_,
            "converged": model.converged_,
            "certified": model.certified_,
        },
        "calibration": calibration,
        "features": described,
        "card": model.card_,
    }
    tensors: Arrays = {f"{FEATURES}{name}": array for name, array in arrays.items()}
    tensors |= {f"{CALIBRATION}{name}": array for name, array in steps.items()}
    return header, tensors | {"w": model.w_, "steps": steps_to_rows(list(model.steps_))}


def load(path: str | os.PathLike[str]) -> Segmenter | BoltzmannSegmenter:
    """Read a model that `save` wrote; nothing in the file is executed.

    Parameters
    ----------
    path : path

    Returns
    -------
    Segmenter or BoltzmannSegmenter
        Fitted. A loss with weights of training images or of a function comes back as its
        description: enough for all but another fit.

    Raises
    ------
    InputError
        If the file is missing, damaged, foreign or of a later version.
    """
    header, arrays = read_header(path, tensors=True)
    try:
        check_card(header["card"])
        model = BUILDERS[header["estimator"]](header, arrays)
        model.training_ = TrainingImages.from_plain(header.get("training"))
        return model
    except (
        KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, RecursionError
    ) as error:  # fmt: skip
        said = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        raise InputError(
            f"{path}: a damaged model found ({clean(said, 300)}); one written by save was "
            "wanted. Restore the file from a copy, or fit again."
        ) from error


def read_header(
    path: str | os.PathLike[str], tensors: bool = False
) -> tuple[dict[str, Any], Arrays]:
    """Read the header of a model file, and its tensors if asked.

    Returns
    -------
    header : dict
        "parameters", "fitted", "card" and what else the estimator writes, as JSON.
    arrays : dict of arrays, empty unless asked for
    """
    if not path_of("path", path).is_file():
        raise InputError(f"{path}: no such file; a model was wanted. Check the name.")
    try:
        header, arrays, sealed = load_sealed(path, KEY)
        if header.get("format") != FORMAT:
            raise ForeignError
    except ForeignError as error:
        raise InputError(
            f"{path}: a safetensors file of something else found; a model of cutlearn was wanted. "
            "Check the name."
        ) from error
    except ValueError as error:
        raise InputError(
            f"{path}: not a model file, or damaged ({clean(str(error), 300)}); a file "
            "written by save was wanted. Restore it from a copy, or fit again."
        ) from error
    version: Any = header.get("version")
    estimator: Any = header.get("estimator")
    if type(version) is not int or version not in VERSIONS or estimator not in tuple(BUILDERS):
        raise InputError(
            f"{path}: a model of version {quoted(version)} ({quoted(estimator)}) "
            f"found; version {VERSIONS[0]} to {VERSION} of {' or '.join(BUILDERS)} was wanted. "
            "Use a newer cutlearn to read it."
        )
    if version >= SEALED and not sealed:
        raise InputError(
            f"{path}: a damaged model found (no digest); one written by save was wanted. "
            "Restore the file from a copy, or fit again."
        )
    return header, arrays if tensors else {}


def _plain_parameters(model: Segmenter) -> dict[str, Any]:
    """The parameters as JSON can hold them: objects by their description."""
    given: dict[str, Any] = model.get_params(deep=False)
    given["potentials"] = list(given["potentials"])
    given["loss"] = plain_of(given["loss"])
    if isinstance(given["features"], Featurizer):
        given["features"] = None  # the header's own "features" tells all of it
    if not (given["random_state"] is None or isinstance(given["random_state"], int)):
        given["random_state"] = model.featurizer_.random_state
    given["C"] = plain_C(given["C"])
    given["tol"] = float(given["tol"])
    given["min_side"] = None if model.min_side is None else int(model.min_side)
    given["verbose"] = bool(given["verbose"])
    return given


def _build(header: dict[str, Any], arrays: Arrays) -> Segmenter:
    described: Any = header["features"]
    if not isinstance(described, dict):
        raise ValueError("no description of the features")
    part, steps = (
        {n.removeprefix(kind): a for n, a in arrays.items() if n.startswith(kind)}
        for kind in (FEATURES, CALIBRATION)
    )
    if len(part) + len(steps) + 2 != len(arrays):
        raise ValueError("tensors that no model has")
    # The command line used to keep it in the card.
    given = {"min_side": header["card"].get("min_side")} | header["parameters"]
    featurizer = Featurizer.from_arrays(part, described, given["n_jobs"])
    given["potentials"] = tuple(str(name) for name in given["potentials"])
    given["C"] = _strength(given["C"])
    if given["features"] is None:
        given["features"] = clone(featurizer).set_params(n_jobs=None)
    given["loss"] = loss_from_plain(given["loss"])
    model = Segmenter(**given)
    check_parameters(model)
    _fill(model, header, arrays, featurizer)
    n_labels = len(model.classes_)
    model.calibration_ = uncalibrated(n_labels)
    if header["version"] > 1:
        model.calibration_ = Calibration.from_header(header["calibration"], steps, n_labels)
    # Four pixels go all the way to a mask, so that settings which do not fit each other show now.
    extra = np.zeros((2, 2, int(described["n_extra"]))) if described["n_extra"] else None
    model._mask(Sample(np.zeros((2, 2, 3)), extra=extra))
    return model


def _fill(model: Segmenter, header: dict[str, Any], arrays: Arrays, featurizer: Featurizer) -> None:
    """Put the checked attributes of a fitted model in place."""
    w, names = arrays["w"], header["names"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("names that are none")
    n_labels = labels_in(names)
    if not 2 <= n_labels <= KINDS[model.labels].most:
        raise ValueError(f"{n_labels} labels")
    kind = kind_of(model, n_labels)
    wanted = kind.names(featurizer)
    if names != wanted or w.dtype != np.float64 or w.shape != (len(names),):
        raise ValueError(f"{w.size} weights for {len(wanted)} features")
    edge = np.array([re.match(r"(label \d+ )?edge ", name) is not None for name in names])
    if not np.isfinite(w).all() or (w[edge] < 0).any():
        raise ValueError("weights that are not finite, or edge weights below zero")
    # Tables that no cut can minimise are refused by the four pixels of _build.
    steps = _steps(arrays["steps"])
    fitted, card = header["fitted"], header["card"]
    C, gap = float(_strength(fitted["C"])), fitted["gap"]
    learner = learner_of(model.learner)
    most = math.inf if learner.endless else float_info.max
    # A likelihood has no gap, which JSON says as null.
    told = math.isfinite(gap) if learner.margin else gap is None
    if not 0 < C <= most or not told or not isinstance(card, dict):
        raise ValueError("figures of the fit that cannot be, or no card")
    model._kind, model.w_, model.w_names_ = kind, w, names
    model.featurizer_, model.card_ = featurizer, card
    model.C_, model.gap_ = C, math.nan if gap is None else float(gap)
    model.converged_, model.certified_ = bool(fitted["converged"]), bool(fitted["certified"])
    model.steps_, model.n_steps_ = tuple(steps), len(steps)
    model.judged_ = dict(card["metrics"])
    model.classes_ = np.arange(n_labels, dtype=np.uint8)


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


BUILDERS: dict[str, Callable[[dict[str, Any], Arrays], Segmenter | BoltzmannSegmenter]] = {
    "Segmenter": _build,
    "BoltzmannSegmenter": boltzmann_file.unpack,
}
