"""Fitting a `Featurizer`: checked images and masks in, all that it learns and node features out.

Images that are loaded one by one are described one by one, and their columns stay on the disk.
"""

from collections.abc import Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cutlearn.features.auto import checked_budget, fit_auto, usual_net
from cutlearn.features.boosted import default_recipe
from cutlearn.features.describe import Bank, Intensities
from cutlearn.features.filters import Float32
from cutlearn.features.folds import find_groups
from cutlearn.features.inputs import Pair, read_training, read_unannotated
from cutlearn.features.kept import kept_or_made, mark_of, memory_file
from cutlearn.features.nodes import learn_columns
from cutlearn.features.quarters import can_be_quartered, joined, quartered
from cutlearn.features.settings import CHECKS, checked_seed
from cutlearn.features.sources import source_of
from cutlearn.features.task import Progress, Task
from cutlearn.loaded import Loaded, mapped
from cutlearn.run.cache import Cache
from cutlearn.run.executor import executor_of

if TYPE_CHECKING:
    from cutlearn.features.featurizer import Featurizer


def fit_images(
    featurizer: "Featurizer",
    images: Sequence[Any],
    masks: Sequence[npt.NDArray[Any]],
    groups: Sequence[Any] | None,
    checkpoint: Path | None,
    progress: Progress | None,
    unannotated: Sequence[Any] = (),
) -> Sequence[Float32]:
    """Fit on images, as `Featurizer.fit_transform` says; take from a file what is there."""
    settings = featurizer.settings()
    pairs, labels = read_training(images, masks)
    kept = checkpoint is not None or featurizer.memory is not None
    if not kept:  # there is no disk to have them on
        pairs, labels = list(pairs), list(labels)
    together = find_groups(mapped(itemgetter(0), pairs), groups)
    extra = pairs[0][1]
    others = read_unannotated(unannotated, 0 if extra is None else extra.shape[2])
    intensities = Intensities.of(mapped(itemgetter(0), pairs))
    pairs, others = (mapped(partial(_scaled, intensities), part) for part in (pairs, others))
    learn = partial(_learn, featurizer, intensities)
    if not kept:
        return learn(pairs, labels, together, progress, Cache(), others)
    mark = mark_of(settings, together, pairs, labels, others)
    file = checkpoint or memory_file(featurizer.memory, mark)
    return kept_or_made(
        file, mark, featurizer,
        lambda cache: learn(pairs, labels, together, progress, cache, others),
        isinstance(pairs, Loaded),
    )  # fmt: skip


def _scaled(intensities: Intensities, pair: Pair) -> Pair:
    return intensities.scaled(pair[0]), pair[1]


def _learn(
    featurizer: "Featurizer",
    intensities: Intensities,
    pairs: Sequence[Pair],
    labels: Sequence[npt.NDArray[np.uint8]],
    groups: Sequence[int],
    progress: Progress | None,
    cache: Cache,
    unannotated: Sequence[Pair],
) -> Sequence[Float32]:
    """Fit on checked images; give their out-of-fold node features."""
    place = executor_of(-1 if featurizer.n_jobs is None else featurizer.n_jobs)
    pictures, extras = (mapped(itemgetter(k), pairs) for k in (0, 1))
    if extras[0] is None:  # then no image has any, and nobody need look
        extras = [None] * len(pairs)
    alone = len(set(groups)) == 1
    bank = Bank.choose(pictures, featurizer.kind, featurizer.position, alone)
    mode, why = CHECKS["features"](featurizer.features), "asked for by name"
    task = Task(
        pictures, labels, extras, groups, bank,
        featurizer.recipe or default_recipe(bank, labels[0].shape[2]),
        featurizer.net or usual_net(mode), checked_seed(featurizer.random_state) or 0, place,
        progress, cache, unannotated=unannotated,
    )  # fmt: skip
    in_quarters = can_be_quartered(task)
    seen = quartered(task) if in_quarters else task
    if mode == "auto":
        choice, source, maps = fit_auto(seen, checked_budget(featurizer.budget))
        mode, why = choice.mode, choice.why
    else:
        source, maps = source_of(mode).fit(seen)
    if in_quarters:
        maps = joined(maps, task.shapes)
    fitted, rows = learn_columns(task, mode, why, source, maps, featurizer.channels)
    featurizer.fitted_, featurizer.intensities_ = fitted, intensities
    return rows
