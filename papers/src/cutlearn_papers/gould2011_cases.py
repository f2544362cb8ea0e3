"""The images of gould2011, section 5.2, with their boxes: what models see of them, and measures."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import VOID, Image, Mask
from cutlearn.energy.problem import Problem
from cutlearn.features.edges import edge_contrast
from cutlearn.features.mixtures import Palette, log_odds, palette, relabelled
from cutlearn.features.superpixels import superpixels
from cutlearn.images.sample import Sample
from cutlearn.metrics import confusion
from cutlearn.model.session.engines import UntrainedEngine
from cutlearn_papers.course import Course
from cutlearn_papers.pictures import read_pictures

Float32 = NDArray[np.float32]
MEASURES = ("accuracy of the image", "accuracy in the box", "IoU")
# Pixels that a mixture of the object needs.
LEAST = 30
# What a model can see of a pixel: log-odds of the first mixtures, of those fitted again, what
# the shipped net says beside the colours that it looked at, and a constant.
FIRST, AGAIN, NET, BIAS = "first", "again", "net", "bias"
# Odds that are one column among several are cut off here, as the package does it.
MOST = 8.0


@dataclass(frozen=True, eq=False)
class Case:
    """An image with its box: what all models see of it.

    `odds` are those of the mixtures as they are now, `first` those of the box alone.
    """

    image: Image
    mask: Mask
    inside: NDArray[np.bool_]
    odds: Float32
    contrast: Float32
    first: Float32 | None = None
    # What depends on the image and its box alone, made once.
    kept: dict[Any, Any] = field(default_factory=dict)

    def _once(self, what: Any, make: Callable[[], Any]) -> Any:
        if what not in self.kept:
            self.kept[what] = make()
        return self.kept[what]

    @property
    def colors(self) -> Palette:
        """The colours of the image."""
        found: Palette = self._once("colors", lambda: palette(self.image))
        return found

    def fitted(self, labels: Mask) -> "Case":
        """Give the case with mixtures of these labels; as it is where hardly any are 1."""
        one = self.inside & (labels == 1)
        if one.sum() < LEAST:
            return self
        mixtures = [self.colors.fit(self.colors.counts(part)) for part in (~one, one)]
        odds = log_odds(self.colors, mixtures)[self.colors.index].astype(np.float32)
        return replace(self, odds=odds, first=self.odds if self.first is None else self.first)

    @property
    def fixed(self) -> NDArray[np.int8]:
        """Background outside of the box, free inside."""
        return np.where(self.inside, -1, 0).astype(np.int8)

    @property
    def sample(self) -> Sample:
        """The image with its box, as the package takes it."""
        rows, columns = (np.flatnonzero(self.inside.any(axis=k)).tolist() for k in (1, 0))
        return Sample(self.image, box=(rows[0], columns[0], rows[-1] + 1, columns[-1] + 1))

    @property
    def net(self) -> Float32:
        """Return the logits of the shipped net, and log-odds of its colours, (h, w, 3)."""

        def make() -> Float32:
            state = UntrainedEngine(self.image).state(self.sample)
            return np.stack([state.logit, state.last, state.odds], axis=-1)

        found: Float32 = self._once("net", make)
        return found

    def columns(self, seen: tuple[str, ...]) -> Float32:
        """Give node features, (h, w, F); several columns of odds are cut off at MOST."""
        if seen == (FIRST,):
            return self.odds[..., None]
        first = self.odds if self.first is None else self.first
        planes = {FIRST: first, AGAIN: self.odds, BIAS: np.ones_like(first)}
        return np.dstack(
            [self.net if name == NET else np.clip(planes[name], -MOST, MOST) for name in seen]
        )

    def problem(self, seen: tuple[str, ...], kind: str | None, regions: int) -> Problem:
        """Give the problem, with superpixels if there is a kind of them."""
        size = self.mask.size / regions if kind else 0.0
        parts = (
            self._once((kind, regions), lambda: superpixels(self.image, kind, size)) if kind else ()
        )
        return Problem(
            -self.columns(seen), edge_features=self.contrast[:, None], regions=parts,
            fixed=self.fixed.ravel(), shape=self.mask.shape, connectivity=8,
        )  # fmt: skip


def read_cases(course: Course, side: int) -> list[Case]:
    """Read the images with boxes; fit the mixtures of each."""
    folder = course.folder("grabcut")
    boxes = json.loads((folder / "boxes.json").read_text())
    pictures = read_pictures(folder, side=side)
    cases = []
    for name, image, mask in zip(pictures.names, pictures.images, pictures.masks):
        (x0, y0, x1, y1), (w, h) = boxes[name]["box"], boxes[name]["size"]
        inside = np.zeros(mask.shape, bool)
        fy, fx = mask.shape[0] / h, mask.shape[1] / w
        inside[round(y0 * fy) : round(y1 * fy), round(x0 * fx) : round(x1 * fx)] = True
        colors = palette(image)
        within, around = colors.counts(inside), colors.counts(~inside)
        nothing = np.zeros_like(within)
        odds = relabelled(colors, (around, nothing), within, within)[1]
        cases.append(Case(image, mask, inside, odds[colors.index].astype(np.float32),
                          edge_contrast(image, 8)))  # fmt: skip
    return cases


def measures_of(case: Case, labels: Mask) -> list[float]:
    """Give MEASURES of a labelling, void left out."""
    known = case.mask != VOID
    right = labels == case.mask
    box = known & case.inside
    return [
        float(right[known].mean()),
        float(right[box].mean()),
        confusion(case.mask, labels).iou(1),
    ]


def opencv(case: Case) -> list[float]:
    """Give MEASURES of OpenCV's grabCut from the same box at the same size."""
    cv2: Any = import_module("cv2")
    image = np.ascontiguousarray((255 * case.image + 0.5).astype(np.uint8)[..., ::-1])
    mask = np.where(case.inside, cv2.GC_PR_FGD, cv2.GC_BGD).astype(np.uint8)
    models = [np.zeros((1, 65)) for _ in range(2)]
    cv2.setRNGSeed(0)
    cv2.grabCut(image, mask, None, *models, 5, cv2.GC_INIT_WITH_MASK)
    return measures_of(case, (mask & 1).astype(np.uint8))


def packaged(case: Case) -> list[float]:
    """Give MEASURES of what `cutlearn cut` makes of the same box at the same size."""
    own = UntrainedEngine(case.image)
    labels = own.solve(case.sample, own.state(case.sample)).labels
    return measures_of(case, labels.astype(np.uint8))
