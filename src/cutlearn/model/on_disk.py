"""Training sets larger than memory: samples and masks in files, loaded when they are asked for.

At the size at which they are worked, so that nothing is decoded or resized twice. They are there
for one fit: a run that goes on writes them again, and the place is empty when the fit ends.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import NDArray

from cutlearn.arrays import Mask
from cutlearn.images.sample import Sample
from cutlearn.loaded import Loaded
from cutlearn.run.cache import Cache, Entry, Form

T = TypeVar("T")

# The file beside which the parts lie; it is never written.
WHOLE = "given.safetensors"


class Scratch:
    """A place on the disk, made when it is needed. A context manager.

    Parameters
    ----------
    folder : path, optional
        That of the checkpoints; by default a folder of its own, which goes at the end.
    """

    def __init__(self, folder: Path | None) -> None:
        self._given = folder
        self._own: tempfile.TemporaryDirectory[str] | None = None
        self.used = False

    @property
    def folder(self) -> Path:
        """The folder, which exists."""
        if self._given is not None:
            return self._given
        if self._own is None:
            self._own = tempfile.TemporaryDirectory(prefix="cutlearn-")
        return Path(self._own.name)

    def put(
        self, samples: Sequence[Sample], masks: Sequence[Mask]
    ) -> tuple[Sequence[Sample], Sequence[Mask]]:
        """Write all samples and masks, one after the other; give them as they are loaded."""
        self.used = True
        cache = self._cache()
        cache.clear()  # what a killed run has left
        return _again(cache, samples, SAMPLES), _again(cache, masks, MASKS)

    def _cache(self) -> Cache:
        return Cache(self.folder / WHOLE, spills=True)

    def __enter__(self) -> "Scratch":
        return self

    def __exit__(self, *_: object) -> None:
        if self.used:
            self._cache().clear()
        if self._own is not None:
            self._own.cleanup()


def _again(cache: Cache, values: Sequence[T], form: Form[int, T]) -> Sequence[T]:
    """Values from the disk here; other processes make them as they were made before."""
    kept, how = cache.spilled(values, form), getattr(values, "origin", None)
    return Loaded(len(kept), kept.__getitem__, how)


def _sample_kept(sample: Sample) -> Entry:
    arrays: dict[str, NDArray[Any] | None] = {
        "image": sample.image, "seeds": sample.seeds, "extra": sample.extra,
    }  # fmt: skip
    return {"box": sample.box}, {name: a for name, a in arrays.items() if a is not None}


def _sample(values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Sample:
    return Sample(arrays["image"], values["box"], arrays.get("seeds"), arrays.get("extra"))


SAMPLES: Form[int, Sample] = Form(lambda i: f"sample{i}", _sample_kept, _sample)
MASKS: Form[int, Mask] = Form(
    lambda i: f"mask{i}", lambda mask: ({}, {"mask": mask}), lambda _, arrays: arrays["mask"]
)
