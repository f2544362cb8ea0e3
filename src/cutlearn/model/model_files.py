"""Model files: sealed files of tensors, with everything else as checked JSON.

Under "cutlearn-model": format, version, parameters, names, numbers of the fit, the calibration,
the description of the features, and the model card. Loading executes nothing and trusts nothing; a
damaged or foreign file is refused in one sentence; every number is bounded before it is used.
Version 1, which had no calibration, and version 2, which had no digest, stay readable.
"""

import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

from cutlearn.checks import path_of
from cutlearn.errors import InputError, MissingBackboneError, clean, quoted
from cutlearn.model.base import BLANK, Estimator
from cutlearn.model.boltzmann import BoltzmannSegmenter
from cutlearn.model.calibration import Calibration, uncalibrated
from cutlearn.model.segmenter import Segmenter
from cutlearn.model.training_images import TrainingImages
from cutlearn.plugins import Registry, missing_packages, packages_of
from cutlearn.run.executor import is_cluster
from cutlearn.store import Arrays, ForeignError, load_sealed, save_sealed

KEY = "cutlearn-model"
FORMAT = "cutlearn model"
VERSION = 3
VERSIONS = range(1, VERSION + 1)
SEALED = 3  # the first version with a digest
CALIBRATION = "calibration."
# What a card may hold: enough for a person's words, too little to fill memory or a terminal.
MOST_VALUES, MOST_DEPTH, MOST_TEXT = 10_000, 8, 20_000

# The estimators that model files and `cutlearn fit --model` know, by the names of their classes.
# Another one is a class derived from `model.base.Estimator`, registered as a plugin.
ESTIMATORS: Registry[type[Estimator]] = Registry(
    "estimator", {"Segmenter": Segmenter, "BoltzmannSegmenter": BoltzmannSegmenter}
)


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
    except MissingBackboneError as error:
        raise InputError(f"{path}: {error}") from error
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
    model.card_, model.validation_ = card, dict(card["metrics"])
    return model


def written(card: Mapping[str, Any]) -> dict[str, Any]:
    """Return a card without its blanks."""
    return {name: written(value) if isinstance(value, Mapping) else value
            for name, value in card.items() if value != BLANK}  # fmt: skip


def check_card(card: Any) -> None:
    """Refuse a card that cannot be shown: not plain values, or too many, too long or too deep."""
    if not isinstance(card, dict):
        raise InputError("card: this is not a table of names and values. Give a dict.")
    room = [MOST_VALUES]
    _check(card, 0, room)


def _check(value: Any, depth: int, room: list[int]) -> None:
    room[0] -= 1
    if depth > MOST_DEPTH or room[0] < 0:
        raise InputError(
            f"card: it has more than {MOST_VALUES} values, or tables more than {MOST_DEPTH} deep. "
            "Keep it short."
        )
    if isinstance(value, dict | list | tuple):
        for name in value if isinstance(value, dict) else ():
            _check_plain(name if isinstance(name, str) else None)
        for part in value.values() if isinstance(value, dict) else value:
            _check(part, depth + 1, room)
    elif value is not None:
        _check_plain(value)


def _check_plain(value: Any) -> None:
    whole = isinstance(value, int) and abs(value) < 2**63
    text = isinstance(value, str) and len(value) <= MOST_TEXT
    if not (whole or text or (isinstance(value, float) and math.isfinite(value))):
        raise InputError(
            f"card: {quoted(value)} cannot be kept. Give text of at most {MOST_TEXT} characters, "
            "finite numbers, or tables and lists of these."
        )
