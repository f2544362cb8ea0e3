"""What a fit learns from, after everything that was given has been checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cutlearn.arrays import Mask
from cutlearn.images.sample import Sample
from cutlearn.loaded import taken
from cutlearn.model.prepare import checkpoint_folder

Told = Callable[[int, int, str], None]


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """What fit was given, checked, at the size at which the model works.

    Parameters
    ----------
    samples, masks : n samples and their (h, w) uint8 labels and 255 (void)
    groups : n ints
        Images of one group are never on both sides of a comparison.
    folder : path, optional
        For checkpoints; it exists.
    scratch : path, optional
        Where the samples lie that are larger than memory, and their features will; it exists.
    progress : callable (done, total, what), optional
    callback : callable (Step), optional
    unannotated : samples that have no masks, at the same size
    """

    samples: Sequence[Sample]
    masks: Sequence[Mask]
    groups: list[int]
    folder: Path | None = None
    scratch: Path | None = None
    progress: Told | None = None
    callback: Callable[[Any], None] | None = None
    unannotated: Sequence[Sample] = ()

    def take(self, images: Sequence[int], name: str) -> TrainingSet:
        """Give some of the images, with a folder of their own for checkpoints."""
        return replace(
            self,
            samples=taken(self.samples, images),
            masks=taken(self.masks, images),
            groups=[self.groups[i] for i in images],
            folder=None if self.folder is None else checkpoint_folder(self.folder / name),
        )
