"""Before a net sees a label, it learns to restore pictures: their colours, and what is in holes.

In: pictures, as the net sees them; labels play no part, so that all images may take part in all
folds, and images without masks too. Out: first weights of nets of this shape. In a crop x both
colours are taken away, and all channels in some squares; the net gives y(x), and the loss is the
mean square of y(x) - x over the channels that are seen. Which colour a thing has tells what it is:
nets that begin here need half as many steps with labels
(docs/decisions/0045-nets-that-have-looked-at-pictures.md).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cutlearn.arrays import VOID
from cutlearn.features.describe import Image
from cutlearn.features.filters import Float32
from cutlearn.features.net.body import Pass, Shape, Weights
from cutlearn.features.net.crops import Crops, Lesson, Sight
from cutlearn.features.net.optimise import Optimiser
from cutlearn.features.net.trainer import Trainer
from cutlearn.images.resize import Shape as Size
from cutlearn.loaded import mapped, spread, taken

# The channels of the two colours, after that of brightness.
COLORS = slice(1, 3)
# Squares that are taken out of a crop, and their side as a part of its shorter side.
HOLES, PART = 4, 0.25
# Pixels, as the net sees them, of all images without masks together: more would fill the memory.
PIXELS = 10_000_000


class Restorer(Trainer):
    """A net that learns to restore pictures, instead of to answer questions."""

    def __init__(
        self,
        shape: Shape,
        sight: Sight,
        lessons: Sequence[Lesson],
        canvas: Size,
        size: int,
        steps: int,
        seed: Sequence[int],
    ) -> None:
        self.channels = len(sight.mean)
        self.shape = replace(shape, outputs=self.channels)
        # Crops that know of no object: where objects are is a label, too.
        self.crops = Crops(sight, mapped(_blind, lessons), canvas, size)
        self.rng = np.random.default_rng(list(seed))
        even = np.full(self.channels, 0.5)
        self.optimiser = Optimiser(self.shape.begin(even, self.rng), steps)

    def advance(self, steps: int) -> None:
        """Take some steps."""
        for _ in range(steps):
            planes, _, _ = self.crops.draw(self.rng)
            one = Pass(self.shape, self.optimiser.weights)
            wrong = one.logits(damaged(planes, self.channels, self.rng)) - planes[: self.channels]
            self.optimiser.take(one.gradient(wrong * np.float32(2 / wrong.size)))

    def settled(self) -> Weights:
        """The averaged weights of all layers but the last."""
        average = self.optimiser.average
        return {name: value for name, value in average.items() if not name.startswith("out.")}


def unannotated_lessons(
    sight: Sight, pairs: Sequence[tuple[Image, Float32 | None]], questions: int
) -> list[Lesson]:
    """See images that have no masks, with their extra arrays; some of them if they are large."""
    if not pairs:
        return []
    rows, columns = sight.shape(pairs[0][0].shape[:2])
    few = spread(len(pairs), max(1, PIXELS // (rows * columns)))
    return [
        Lesson.of(sight, image, np.full((*image.shape[:2], questions), VOID, np.uint8), extra)
        for image, extra in taken(pairs, few)
    ]


def _blind(lesson: Lesson) -> Lesson:
    return replace(lesson, ones=())


def damaged(planes: Float32, channels: int, rng: np.random.Generator) -> Float32:
    """Pictures (c, n, h, w) without colours, and with holes in their first channels.

    Zero is the mean of a channel.
    """
    made = planes.copy()
    made[COLORS] = 0
    n, h, w = planes.shape[1:]
    side = max(1, round(PART * min(h, w)))
    for k in range(n):
        for _ in range(HOLES):
            top, left = rng.integers(h - side + 1), rng.integers(w - side + 1)
            made[:channels, k, top : top + side, left : left + side] = 0
    return made
