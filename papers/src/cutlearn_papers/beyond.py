"""Beyond the papers: what they give together that none of them has.

All on the same boosted logits, out of fold for training images: envelopes (gould2011) trained for
areas (pletscher2012); envelopes learned without a regulariser (antoniuk2012); calibrated
probabilities of envelope models, decisions for IoU and areas by them (tarlow2012); a second look
with the colours of the image itself (gould2011) and a prior of shapes (yang2014) in one energy
with logits, edges and envelopes. Each stands against its parts on the same splits.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import Mask
from cutlearn.errors import ConvergenceWarning
from cutlearn.features.featurizer import Featurizer
from cutlearn.features.trees import Recipe
from cutlearn.images.sample import Sample
from cutlearn.metrics import beliefs, confusion, count_error, pooled_iou
from cutlearn.model.segmenter import Segmenter
from cutlearn_papers.beyond_second import Rbm, color_columns, shape_columns
from cutlearn_papers.course import Claim, Course, Figures, Section
from cutlearn_papers.intervals import over_splits
from cutlearn_papers.logits import boosted_logits
from cutlearn_papers.pictures import Pictures, read_pictures

Float32 = NDArray[np.float32]
SETS = {"horses": "weizmann_horses", "pedestrians": "penn_fudan"}
# Pixels of a superpixel.
SIZE = 64


@dataclass(frozen=True)
class Fit:
    """What a model has beside the logits: potentials, columns of the second look, parameters."""

    potentials: tuple[str, ...]
    columns: tuple[str, ...] = ()
    more: dict[str, Any] = field(default_factory=dict)


COLORS, SHAPES = "colours", "shapes"
EDGES, BOTH = ("unary", "contrast"), ("unary", "contrast", "envelope")
LOGITS, ALONE, PLAIN, COUNTED = "logits", "envelopes", "edges", "edges, count loss"
HIGH, HIGH_COUNTED = "edges and envelopes", "edges and envelopes, count loss"
FREE = "edges and envelopes, no regulariser (ACCPM)"
COLORED, SHAPED, SECOND = "edges and colours", "edges and shapes", "edges, colours and shapes"
EVERY = "edges, envelopes, colours and shapes"
FITS: dict[str, Fit] = {
    LOGITS: Fit(("unary",)),
    ALONE: Fit(("unary", "envelope")),
    PLAIN: Fit(EDGES),
    COUNTED: Fit(EDGES, more={"loss": "count"}),
    HIGH: Fit(BOTH),
    HIGH_COUNTED: Fit(BOTH, more={"loss": "count"}),
    FREE: Fit(BOTH, more={"learner": "accpm", "C": math.inf}),
    COLORED: Fit(EDGES, (COLORS,)),
    SHAPED: Fit(EDGES, (SHAPES,)),
    SECOND: Fit(EDGES, (COLORS, SHAPES)),
    EVERY: Fit(BOTH, (COLORS, SHAPES)),
}
# Figures of a model: title, factor, digits, and whether more is better.
MEASURES = {
    "iou": ("pooled IoU, %", 100, 1, True),
    "count": ("count error, %", 100, 1, False),
    "area": ("count error by probabilities, %", 100, 1, False),
    "mean_iou": ("mean IoU of both labels, %", 100, 1, True),
    "decided": ("the same, decided for it, %", 100, 1, True),
    "softmax": ("log-likelihood, plain softmax", 1, 3, True),
    "likely": ("log-likelihood, calibrated", 1, 3, True),
    "calibration": ("calibration error", 1, 3, False),
}
NEW = "not in any of them"
TABLE = "Models on boosted logits, {}"


@dataclass(frozen=True)
class Scale:
    """How much is run: smaller side, training and test images, splits; the RBM of the shapes."""

    side: int = 60
    train: int = 30
    test: int = 80
    splits: int = 5
    rbm: Rbm = field(default_factory=lambda: Rbm((32, 32), 200, 500))
    recipe: Recipe | None = None


SMALL = Recipe(trees=5, leaves=7, rows=2000, folds=2, stages=1)
SCALES = {
    "full": Scale(),
    "brief": Scale(train=24, test=50, splits=3),
    "quick": Scale(20, 6, 3, 1, Rbm((8, 12), 8, 10), SMALL),
}


def halves(pictures: Pictures, seed: int, scale: Scale) -> tuple[Pictures, Pictures]:
    """Give random training and test images."""
    order = np.random.default_rng(seed).permutation(len(pictures)).tolist()
    first = min(scale.train, 2 * len(order) // 3)
    return pictures.take(order[:first]), pictures.take(order[first : first + scale.test])


@dataclass
class Split:
    """The images of one split with their columns: logits, and those of the second look."""

    learnt: Pictures
    unseen: Pictures
    columns: dict[str, tuple[Sequence[Any], Sequence[Any]]]

    def samples(self, names: Sequence[str]) -> tuple[list[Sample], list[Sample]]:
        """Training and test images with some of the columns."""
        inside, outside = (
            [
                Sample(image, extra=np.stack(planes, axis=-1).astype(np.float32))
                for image, *planes in zip(
                    part.images, *(self.columns[name][k] for name in names), strict=True
                )
            ]
            for k, part in enumerate((self.learnt, self.unseen))
        )
        return inside, outside

    def fitted(self, fit: Fit, **more: Any) -> tuple[Segmenter, list[Sample]]:
        """Learn a model; also give the test images as it sees them."""
        inside, outside = self.samples((LOGITS, *fit.columns))
        featurizer = Featurizer("given", superpixels=(("slic", SIZE),))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = Segmenter(fit.potentials, features=featurizer, n_jobs=1, **fit.more | more)
            return model.fit(inside, self.learnt.masks), outside

    def look_again(self, rbm: Rbm, seed: int) -> None:
        """Add the columns of colours and shapes, by the labels of logits and edges."""
        model, outside = self.fitted(FITS[PLAIN], calibration=None)
        labels = model.predict(self.samples((LOGITS,))[0]), model.predict(outside)
        self.columns[COLORS] = (
            color_columns(self.learnt, labels[0]), color_columns(self.unseen, labels[1])
        )  # fmt: skip
        self.columns[SHAPES] = shape_columns(rbm, self.learnt.masks, seed, *labels)


def split(pictures: Pictures, seed: int, scale: Scale) -> Figures:
    """Fit all models on one split; give their figures on test images."""
    learnt, unseen = halves(pictures, seed, scale)
    inside, outside = boosted_logits(learnt, unseen, recipe=scale.recipe)
    found: Figures = {"train": len(learnt), "test": len(unseen)}
    one = Split(learnt, unseen, {LOGITS: (inside, outside)})
    one.look_again(scale.rbm, seed)
    return found | {name: figures_of(one, fit) for name, fit in FITS.items()}


def figures_of(one: Split, fit: Fit) -> dict[str, float]:
    """Learn a model, with its probabilities calibrated and not; give MEASURES on test images."""
    model, test = one.fitted(fit)
    plain, _ = one.fitted(fit, C=model.C_, calibration=None)
    truth: list[Mask] = list(one.unseen.masks)
    areas = np.array([(mask == 1).sum() for mask in truth], np.float64)
    cut, decided = model.predict(test), model.predict(test, decision="iou")
    told = [beliefs(mask, q) for mask, q in zip(truth, model.predict_proba(test))]
    softmax = [beliefs(mask, q) for mask, q in zip(truth, plain.predict_proba(test))]
    pixels = np.sum([one.bins for one in told], axis=0)
    return {
        "iou": pooled_iou(truth, cut),
        "count": count_error(truth, cut) / float(areas.mean()),
        "area": float(np.abs(model.area(test)[0] - areas).mean() / areas.mean()),
        "mean_iou": float(np.mean([confusion(m, y).mean_iou() for m, y in zip(truth, cut)])),
        "decided": float(np.mean([confusion(m, y).mean_iou() for m, y in zip(truth, decided)])),
        "softmax": float(np.mean([one.mean_log_likelihood() for one in softmax])),
        "likely": float(np.mean([one.mean_log_likelihood() for one in told])),
        "calibration": float(np.abs(pixels[1] - pixels[2]).sum() / pixels[0].sum()),
    }


class Source:
    """The images of a set, read when the first of their parts is missing."""

    def __init__(self, course: Course, folder: str, scale: Scale) -> None:
        self.course, self.folder, self.scale = course, folder, scale
        self._pictures: Pictures | None = None

    def __call__(self, seed: int) -> Figures:
        """Run a split."""
        if self._pictures is None:
            folder = self.course.folder(self.folder)
            self._pictures = read_pictures(folder, side=self.scale.side, values={0: 0, 1: 1})
        return split(self._pictures, seed, self.scale)


def run(course: Course) -> Figures:
    """Run the splits of both sets; leave a table and claims for each."""
    scale = SCALES[course.scale]
    sections, claims = [], []
    figures: dict[str, list[Figures]] = {}
    settings = {"side": scale.side, "train": scale.train, "test": scale.test, "size": SIZE,
                "rbm": vars(scale.rbm), "fits": list(FITS)}  # fmt: skip
    for name, folder in SETS.items():
        source = Source(course, folder, scale)
        splits = {f"split {k}": partial(source, k) for k in range(scale.splits)}
        figures[name] = list(course.parts(name, splits, True, **settings).values())
        if not figures[name]:
            continue
        sections.append(table_of(name, figures[name], scale))
        claims += claims_of(name, figures[name])
    return course.finish(sections, claims, figures)


def table_of(name: str, parts: Sequence[Figures], scale: Scale) -> Section:
    """Write the mean over splits of every model."""
    rows = [
        [model, *(_mean([p[model][key] for p in parts], factor, digits)
                  for key, (_, factor, digits, _) in MEASURES.items())]
        for model in FITS
    ]  # fmt: skip
    words = (
        f"Mean ± deviation over {len(parts)} splits, {parts[0]['train']} images to learn from and "
        f"{parts[0]['test']} to test, smaller side {scale.side}; one set of boosted logits a "
        f"split, out of fold for training images; superpixels of {SIZE} pixels. All rows have the "
        "logits. C is chosen on held-out images but for ACCPM, which has none. Colours and shapes: "
        "mixtures of the image's own colours under the labels of 'edges', and an RBM of "
        f"{scale.rbm.hidden} units ({scale.rbm.epochs} epochs on the training masks at "
        f"{scale.rbm.shape[0]} x {scale.rbm.shape[1]}) given these labels, each one column whose "
        "weight is learned with all others. Count error: mean difference of areas over the mean "
        "true area; by probabilities: that of `Segmenter.area`, which are calibrated. "
        "Log-likelihood and mean IoU are means over images."
    )
    titles = ["model", *(title for title, *_ in MEASURES.values())]
    return Section(TABLE.format(name), titles, rows, words)


def claims_of(name: str, parts: Sequence[Figures]) -> list[Claim]:
    """Judge every composition against its parts, paired by split."""

    def compare(text: str, ours: tuple[str, str], other: tuple[str, str]) -> Claim:
        title, factor, digits, more = MEASURES[ours[1]]
        gap = over_splits([p[ours[0]][ours[1]] - p[other[0]][other[1]] for p in parts])
        holds = gap.low > 0 if more else gap.high < 0
        return Claim.of(f"{name}: {text}", NEW, f"{gap.text(digits + 1, factor)}, {title}", holds,
                        TABLE.format(name))  # fmt: skip

    return [
        compare("colours of the image itself add IoU to logits and edges", (COLORED, "iou"),
                (PLAIN, "iou")),
        compare("shapes add IoU to logits and edges", (SHAPED, "iou"), (PLAIN, "iou")),
        compare("shapes add IoU to logits, edges and colours", (SECOND, "iou"), (COLORED, "iou")),
        compare("colours and shapes together add IoU to logits and edges", (SECOND, "iou"),
                (PLAIN, "iou")),
        compare("colours and shapes make calibrated probabilities likelier", (SECOND, "likely"),
                (PLAIN, "likely")),
        compare("colours and shapes give better areas than edges", (SECOND, "count"),
                (PLAIN, "count")),
        compare("colours and shapes give better areas than edges trained for areas",
                (SECOND, "count"), (COUNTED, "count")),
        compare("envelopes add IoU to logits alone", (ALONE, "iou"), (LOGITS, "iou")),
        compare("envelopes add IoU to logits and edges", (HIGH, "iou"), (PLAIN, "iou")),
        compare("envelopes add IoU to logits, edges, colours and shapes", (EVERY, "iou"),
                (SECOND, "iou")),
        compare("envelopes without a regulariser segment better than with a chosen one",
                (FREE, "iou"), (HIGH, "iou")),
        compare("envelopes trained for areas count better than edges trained for areas",
                (HIGH_COUNTED, "count"), (COUNTED, "count")),
        compare("envelopes trained for areas count better than envelopes trained for pixels",
                (HIGH_COUNTED, "count"), (HIGH, "count")),
        compare("calibrated probabilities give better areas than the cut, envelopes",
                (HIGH, "area"), (HIGH, "count")),
        compare("calibrated probabilities give better areas than a cut trained for areas",
                (HIGH, "area"), (HIGH_COUNTED, "count")),
        compare("calibration makes envelope models likelier than a softmax of their min-marginals",
                (HIGH, "likely"), (HIGH, "softmax")),
        compare("calibrated envelope models are likelier than calibrated edges", (HIGH, "likely"),
                (PLAIN, "likely")),
        compare("deciding by expected IoU gains over the cut, edges", (PLAIN, "decided"),
                (PLAIN, "mean_iou")),
        compare("deciding by expected IoU gains over the cut, envelopes", (HIGH, "decided"),
                (HIGH, "mean_iou")),
    ]  # fmt: skip


def _mean(values: Sequence[float], factor: float, digits: int) -> str:
    found = factor * np.array(values)
    return f"{found.mean():.{digits}f} ± {found.std():.{digits}f}"
