"""Features of training images in a file, so that they need not be computed again.

In: a fitted `Featurizer` and out-of-fold node features. Out: the same, later. A mark tells all that
they depend on: settings, groups, images, arrays that the user brings, and masks. Until there is
such a file, the parts that are finished lie beside it. Where images are loaded one by one, their
columns stay in parts, and the file has only what was learned.
"""

import json
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.checks import path_of
from cutlearn.errors import InputError
from cutlearn.features.columns import standardise
from cutlearn.features.filters import Float32
from cutlearn.features.inputs import Pair
from cutlearn.loaded import Loaded, mapped
from cutlearn.run.cache import Cache, Form
from cutlearn.run.checkpoint import (
    fingerprint,
    load_checkpoint,
    refuse_other,
    restoring,
    save_checkpoint,
)

if TYPE_CHECKING:
    from cutlearn.features.featurizer import Featurizer

KIND = "features"
OTHER = "the features of other images"


def _columns(values: dict[str, Any], arrays: dict[str, Any]) -> tuple[Float32, list[str]]:
    return arrays["columns"], list(values["names"])


# How the columns of an image, not yet standardised, and their names are kept.
COLUMNS: Form[int, tuple[Float32, list[str]]] = Form(
    lambda i: f"columns{i}",
    lambda made: ({"names": made[1]}, {"columns": made[0]}),
    _columns,
)


def mark_of(
    settings: dict[str, Any],
    groups: Sequence[int],
    pairs: Sequence[Pair],
    labels: Sequence[NDArray[np.uint8]],
    unannotated: Sequence[Pair] = (),
) -> str:
    """Give another name for other settings, groups, images, extra arrays or masks.

    Of images without masks their number counts, and the first and the last: all are read only once.
    """
    told: list[Any] = [settings, list(groups)]
    ends: list[Pair] = []
    if unannotated:
        told.append(len(unannotated))
        ends = [unannotated[0], unannotated[-1]]
    arrays = chain(
        (a for pair, mask in zip(pairs, labels) for a in (*pair, mask)),
        (a for pair in ends for a in pair),
    )
    return fingerprint(json.dumps(told), arrays)


def memory_file(memory: Any, mark: str) -> Path:
    """Give the file of a mark in the folder of a memory, which is made when missing."""
    folder = path_of("memory", memory)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"memory must be a folder, but {folder} is a file. Name another place.")
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"features-{mark}.safetensors"


def kept_or_made(
    file: Path,
    mark: str,
    featurizer: "Featurizer",
    make: Callable[[Cache], Sequence[Float32]],
    spills: bool = False,
) -> Sequence[Float32]:
    """Give node features from a file, or make and keep them; parts go when the file is whole.

    Parameters
    ----------
    make : callable (cache)
        Fits the featurizer and gives the node features; takes finished parts from the cache.
    spills : bool
        Whether the features are larger than memory.
    """
    cache = Cache(file, mark, OTHER, spills)
    if file.exists():
        nodes = load_features(file, mark, featurizer, cache)
    else:
        nodes = make(cache)
        save_features(file, mark, featurizer, nodes)
    cache.clear("columns" if isinstance(nodes, Loaded) else None)
    return nodes


def save_features(
    file: Path, mark: str, featurizer: "Featurizer", nodes: Sequence[Float32]
) -> None:
    """Write a fitted featurizer and the node features of its training images."""
    arrays, described = featurizer.to_arrays()
    whole: dict[str, NDArray[Any]] = {f"fitted.{name}": a for name, a in arrays.items()}
    parts = isinstance(nodes, Loaded)
    if not parts:
        whole |= {f"nodes.{i}": a for i, a in enumerate(nodes)}
    values = {"mark": mark, "described": described, "images": len(nodes), "parts": parts}
    save_checkpoint(file, KIND, values, whole)


def load_features(
    file: Path, mark: str, featurizer: "Featurizer", cache: Cache
) -> Sequence[Float32]:
    """Give node features that were kept, and the featurizer what it had learned."""
    values, arrays = load_checkpoint(file, KIND)
    refuse_other(file, values.get("mark"), mark, OTHER)
    fitted = {n.removeprefix("fitted."): a for n, a in arrays.items() if n.startswith("fitted.")}
    with restoring(file):
        made = featurizer.from_arrays(fitted, values["described"], featurizer.n_jobs)
        every = range(int(values["images"]))
        nodes: Sequence[Float32]
        if values.get("parts", False):
            moments = {"mean": made.fitted_.mean, "scale": made.fitted_.scale}
            rows = mapped(itemgetter(0), cache.loaded(every, COLUMNS))
            nodes = mapped(partial(standardise, **moments), rows)
        else:
            nodes = [arrays[f"nodes.{i}"] for i in every]
    featurizer.fitted_, featurizer.intensities_ = made.fitted_, made.intensities_
    return nodes
