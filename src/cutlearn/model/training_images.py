"""Facts of the images that a model was fitted on, to compare others with.

An image twice as large, ten times as dark, or in colour where all were grey is another world to the
features of a model. It is answered all the same, and told with both figures. Fingerprints say which
images of an evaluation were among those of the fit.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cutlearn.errors import InputWarning
from cutlearn.images.coding import Coding
from cutlearn.images.listing import some
from cutlearn.images.resize import Shape
from cutlearn.images.sample import Facts, Sample
from cutlearn.model.size import worked_shape

# How many times larger or smaller, brighter or darker than any training image is another world.
FAR_SIZE, FAR_LIGHT = 2.0, 4.0
# Fingerprints that a model file may hold.
MOST_DIGESTS = 100_000


@dataclass(frozen=True)
class TrainingImages:
    """Facts of the images that a model was fitted on.

    Parameters
    ----------
    sides : (int, int)
        The shorter side of the smallest and of the largest image, pixels.
    color, grey : bool
        Whether some were in colour, and some grey.
    bright : (float, float)
        The brightness of the darkest and of the brightest image, in [0, 1].
    digests : tuple of str
        A fingerprint of each.
    values : tuple of int
        The value that every label had in the masks.
    names : tuple of str
        What the labels are called; empty if nobody said.
    coding : Coding or None
        How the masks were read, as later ones are. Files of earlier versions have None: there the
        values say it, and where these are 0 and 1, the rule of `cutlearn.images.coding`.
    """

    sides: tuple[int, int]
    color: bool
    grey: bool
    bright: tuple[float, float]
    digests: tuple[str, ...]
    values: tuple[int, ...]
    names: tuple[str, ...] = ()
    coding: Coding | None = None

    @classmethod
    def of(
        cls, facts: Sequence[Facts], coding: Coding, names: Sequence[str] = ()
    ) -> TrainingImages:
        """Gather the facts of images, and how their masks were read."""
        sides = [min(one.height, one.width) for one in facts]
        light = [one.bright for one in facts]
        return cls(
            (min(sides), max(sides)),
            any(one.color for one in facts), not all(one.color for one in facts),
            (min(light), max(light)), tuple(one.digest for one in facts),
            coding.values or (0, 1), tuple(names), coding,
        )  # fmt: skip

    def name_of(self, label: int) -> str:
        """Return the name of a label: its word, else its value in the masks."""
        if label < len(self.names):
            return self.names[label]
        return str(self.values[label]) if label < len(self.values) else str(label)

    def known(self, facts: Sequence[Facts]) -> list[int]:
        """Return the indices of those images that the model was fitted on."""
        seen = set(self.digests)
        return [i for i, one in enumerate(facts) if one.digest in seen]

    def differences(
        self, facts: Sequence[Facts], names: Sequence[str], sized: bool = True
    ) -> list[str]:
        """Return how images differ from those of the fit, one sentence each.

        Parameters
        ----------
        facts, names : one for each image
        sized : bool
            Whether their size matters: not where all are resized.
        """
        told = []
        small, large = self.sides
        sides = [min(one.height, one.width) for one in facts]
        far = [
            i for i, side in enumerate(sides) if not small / FAR_SIZE <= side <= large * FAR_SIZE
        ]
        if sized and far:
            one = facts[far[0]]
            told.append(
                f"{_which(far, names)} of another size than the images that the model was fitted "
                f"on: {one.width} x {one.height} pixels here, a shorter side of "
                f"{_span(small, large)} there. Objects may not be found; bring both to one scale "
                "with min_side."
            )
        lone = [i for i, one in enumerate(facts) if not (self.color if one.color else self.grey)]
        if lone:
            kinds = ("in colour", "grey") if facts[lone[0]].color else ("grey", "in colour")
            told.append(
                f"{_which(lone, names)} {kinds[0]}, but all images that the model was fitted on "
                f"were {kinds[1]}. Fit it on images like these, or convert them."
            )
        dark, light = self.bright
        odd = [i for i, one in enumerate(facts)
               if one.bright < dark / FAR_LIGHT or one.bright > light * FAR_LIGHT]  # fmt: skip
        if odd:
            told.append(
                f"{_which(odd, names)} far darker or brighter than the images that the model was "
                f"fitted on: {facts[odd[0]].bright:.3g} of full scale here, {_span(dark, light)} "
                "there. Are they 12-bit values in 16-bit files? Divide all by one number first."
            )
        return told

    def to_plain(self) -> dict[str, Any]:
        """Return what a model file keeps."""
        coding = None if self.coding is None else self.coding.to_plain()
        return asdict(self) | {"coding": coding}

    @classmethod
    def from_plain(cls, plain: Any) -> TrainingImages | None:
        """Read what `to_plain` gave; None for files that have none."""
        if plain is None:
            return None
        sides, bright = (tuple(plain[name]) for name in ("sides", "bright"))
        digests, values, names = (tuple(plain[name]) for name in ("digests", "values", "names"))
        good = len(sides) == len(bright) == 2 and len(digests) <= MOST_DIGESTS
        good = good and all(type(v) is int and 0 <= v < 2**31 for v in (*sides, *values))
        good = good and all(type(v) is float and 0 <= v <= 1 for v in bright)
        good = good and all(isinstance(word, str) for word in (*digests, *names))
        if not good or len(values) > 256 or len(names) > 256:
            raise ValueError("facts of training images that cannot be")
        kept = plain.get("coding")
        coding = None if kept is None else Coding.from_plain(kept)
        if coding is not None and (coding.values or (0, 1)) != values:
            raise ValueError("values of masks that contradict each other")
        return cls(sides, bool(plain["color"]), bool(plain["grey"]), bright, digests, values,
                   names, coding)  # fmt: skip


def warn_of_size(model: Any, shapes: Sequence[Shape]) -> None:
    """Warn of images that are worked at a smaller size because nobody has named one."""
    large = [shape for shape in shapes if worked_shape(shape, None) != shape]
    if model.min_side is None and large and not hasattr(model, "shape"):
        (high, wide), (rows, columns) = large[0], worked_shape(large[0], None)
        warnings.warn(
            f"images: {wide} x {high} pixels (width x height) are worked at {columns} x {rows}, to "
            "spare memory; masks have full size. Another size: min_side.",
            InputWarning,
            stacklevel=4,
        )


def warn_of_differences(model: Any, samples: Sequence[Sample]) -> None:
    """Warn of images that differ from those of a model's fit."""
    warn_of_size(model, [(s.shape[-2], s.shape[-1]) for s in samples])
    training = getattr(model, "training_", None)
    if training is None:
        return
    facts = [sample.facts(digest=False) for sample in samples]
    names = [f"images[{i}]" for i in range(len(samples))]
    # A model of a fixed shape brings every image to it.
    sized = model.min_side is None and not hasattr(model, "shape")
    for told in training.differences(facts, names, sized):
        warnings.warn(told, InputWarning, stacklevel=4)


def known_coding(model: Any) -> Coding | None:
    """Return how a fitted model read the masks of its training, as it reads all later ones.

    Files of earlier versions keep the values of the labels, but not which value was void. Where
    they keep 0 and 1 for two labels, masks may have had other values: None, so that the values of
    the masks decide. So it is for files that keep nothing.
    """
    n_labels, training = len(model.classes_), getattr(model, "training_", None)
    if training is None:
        return None if n_labels == 2 else Coding.of_values(range(n_labels))
    coding: Coding | None = training.coding
    if coding is None and training.values != (0, 1):
        coding = Coding.of_values(training.values)
    return coding


def _which(places: Sequence[int], names: Sequence[str]) -> str:
    verb = "is" if len(places) == 1 else "are"
    return f"{some(names[i] for i in places)} {verb}"


def _span(low: float, high: float) -> str:
    return f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
