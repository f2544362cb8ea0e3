"""What `cutlearn predict` writes of volumes: masks and probabilities, a file for each volume."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cutlearn.app.answers import Answer
from cutlearn.app.products import Product
from cutlearn.errors import InputError


class VolumeMasks(Product):
    """A mask for each volume: DIR/name.tif, or NIfTI with the header of its volume."""

    def __init__(
        self, out: Path, object_value: int, values: tuple[int, ...], sources: Mapping[str, Path]
    ) -> None:
        self.out, self.sources = out, sources
        self.values = (0, object_value) if len(values) == 2 else values

    def add(self, name: str, one: Answer) -> None:
        """Write a mask."""
        import numpy as np

        _write(self.out, name, np.array(self.values, np.uint8)[one.mask], self.sources[name])


class VolumeProbabilities(Product):
    """Maps of probability: DIR/probability/name.tif (16 bit) or NIfTI (floats), one a label."""

    def __init__(self, out: Path, sources: Mapping[str, Path]) -> None:
        self.out, self.sources = out / "probability", sources

    def add(self, name: str, one: Answer) -> None:
        """Write the probability of the object, or of several labels that of each."""
        import numpy as np

        from cutlearn.images.reader import is_nifti

        assert one.belief is not None
        labels = one.belief.shape[-1]
        for label in [1] if labels == 2 else range(labels):
            q = one.belief[..., label]
            source = self.sources[name]
            voxels = q if is_nifti(source) else np.rint(q * 65535).astype(np.uint16)
            _write(self.out, name if labels == 2 else f"{name}.{label}", voxels, source)

    def finish(self) -> str:
        """Say where they are."""
        return ", probabilities in probability/"


def refuse_for_volumes(asked: Mapping[str, bool]) -> None:
    """Refuse what is made of images only."""
    wanted = [name for name, given in asked.items() if given]
    if wanted:
        raise InputError(
            f"{wanted[0]}: this is made of images, but the model takes volumes. Leave it out, and "
            "open the masks in a program for volumes."
        )


def _write(out: Path, name: str, voxels: Any, source: Path) -> None:
    from cutlearn.images.write import volume_name, write_voxels

    path = out / volume_name(name, source)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_voxels(path, voxels, source)
