"""Model files: sealed files of tensors, with everything else as checked JSON beside them.

Under "cutlearn-model": format, version, parameters, names, figures of the fit, the calibration,
the description of the features, and the model card. Loading executes nothing, trusts nothing and
gives a damaged, lying or foreign file one sentence; every number is bounded before it is used.
Version 1, which had no calibration, and version 2, which had no digest, will be read for ever.
"""

import os
from collections.abc import Iterator
from typing import Any

from cutlearn.checks import path_of
from cutlearn.errors import InputError, clean, quoted
from cutlearn.model.base import Estimator
from cutlearn.model.calibration import Calibration, uncalibrated
from cutlearn.model.card import check_card
from cutlearn.model.estimators import ESTIMATORS
from cutlearn.model.training_images import TrainingImages
from cutlearn.plugins import missing_packages, packages_of
from cutlearn.run.executor import is_cluster
from cutlearn.store import Arrays, ForeignError, load_sealed, save_sealed

KEY = "cutlearn-model"
FORMAT = "cutlearn model"
VERSION = 3
VERSIONS = range(1, VERSION + 1)
SEALED = 3  # the first version with a digest
CALIBRATION = "calibration."


def save(model: Estimator, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file, whole or not at all.

    Parameters
    ----------
    model : Estimator
        Of a class that is built in or registered as a plugin.
    path : path
        By custom ending in `.cutlearn`.
    """
    name = type(model).__name__
    if ESTIMATORS.get(name) is not type(model):
        raise InputError(
            f"save does not know the estimator {name}, so that no file of it could be read again. "
            f"Register the class: cl.plugins.register('estimator', {name!r}, {name})."
        )
    given, tensors = model.to_header()
    # An address that holds here and now: a reader of the file must not connect to it.
    if is_cluster(given["parameters"].get("n_jobs")):
        given["parameters"]["n_jobs"] = None
    calibration, points = model.calibration_.to_header()
    header = {"format": FORMAT, "version": VERSION, "estimator": name, **given,
              "calibration": calibration, "card": model.card_}  # fmt: skip
    check_card(header["card"])
    header["packages"] = packages_of(set(_words([name, *given.values()])))
    training = getattr(model, "training_", None)
    header["training"] = None if training is None else training.to_plain()
    points = {f"{CALIBRATION}{part}": array for part, array in points.items()}
    save_sealed(path, KEY, header, tensors | points)


def load(path: str | os.PathLike[str]) -> Estimator:
    """Read a model that `save` wrote; nothing in the file is executed.

    Parameters
    ----------
    path : path

    Returns
    -------
    Segmenter, BoltzmannSegmenter or another Estimator
        Fitted. A loss with weights of training images or of a function comes back as its
        description: enough for all but another fit.

    Raises
    ------
    InputError
        If the file is missing, damaged, foreign or of a later version.
    """
    header, arrays = read_header(path, tensors=True)
    try:
        model = _built(header, arrays)
        model.training_ = TrainingImages.from_plain(header.get("training"))
        return model
    except (
        KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, RecursionError
    ) as error:  # fmt: skip
        said = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        raise InputError(
            f"{path}: this is a damaged model ({clean(said, 300)}). Restore the file from a copy, "
            "or fit again."
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
        raise InputError(f"{path}: there is no such file. Check the name of the model.")
    try:
        header, arrays, sealed = load_sealed(path, KEY)
        if header.get("format") != FORMAT:
            raise ForeignError
    except ForeignError as error:
        raise InputError(
            f"{path}: this is a safetensors file, but not a model of cutlearn. Check the name."
        ) from error
    except ValueError as error:
        raise InputError(
            f"{path}: this is not a model file, or it is damaged ({clean(str(error), 300)}). "
            "Restore it from a copy, or fit again."
        ) from error
    packages = header.get("packages", {})
    if not isinstance(packages, dict) or not all(isinstance(v, str) for v in packages.values()):
        raise InputError(f"{path}: this is a damaged model (packages). Restore it from a copy.")
    if missing := missing_packages(packages):
        raise InputError(
            f"{path}: this model needs {clean(' and '.join(missing), 200)}, which is not installed "
            f"here. Run pip install {clean(' '.join(part.split()[0] for part in missing), 200)}"
        )
    version: Any = header.get("version")
    estimator: Any = header.get("estimator")
    if type(version) is not int or version not in VERSIONS or estimator not in tuple(ESTIMATORS):
        raise InputError(
            f"{path}: this is a model of version {quoted(version)} ({quoted(estimator)}), but this "
            f"cutlearn reads versions {VERSIONS[0]} to {VERSION} of {' and '.join(ESTIMATORS)}. "
            "Use a newer cutlearn to read it."
        )
    if version >= SEALED and not sealed:
        raise InputError(
            f"{path}: this is a damaged model (it has no digest). Restore the file from a copy, or "
            "fit again."
        )
    return header, arrays if tensors else {}


def _words(plain: Any) -> Iterator[str]:
    """Return every string in what JSON holds."""
    if isinstance(plain, str):
        yield plain
    elif isinstance(plain, dict | list | tuple):
        for part in plain.values() if isinstance(plain, dict) else plain:
            yield from _words(part)


def _built(header: dict[str, Any], arrays: Arrays) -> Estimator:
    """The estimator of a file, whose own part its class reads."""
    card = header["card"]
    check_card(card)
    if is_cluster(header["parameters"].get("n_jobs")):
        raise ValueError("the address of a cluster, which no file of ours has")
    # The command line used to keep it in the card.
    header["parameters"] = {"min_side": card.get("min_side")} | header["parameters"]
    points, rest = Arrays(), Arrays()
    for name, array in arrays.items():
        (points if name.startswith(CALIBRATION) else rest)[name.removeprefix(CALIBRATION)] = array
    model = ESTIMATORS[header["estimator"]].from_header(header, rest)
    n_labels = len(model.classes_)
    if header["version"] == 1:
        model.calibration_ = uncalibrated(n_labels)
    else:
        model.calibration_ = Calibration.from_header(header["calibration"], points, n_labels)
    model.card_, model.judged_ = card, dict(card["metrics"])
    return model
