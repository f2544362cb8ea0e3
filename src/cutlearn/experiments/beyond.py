"""Beyond the papers: what they give together that none of them has.

All on the same boosted logits, out of fold for training images: envelopes (gould2011) trained for
areas (pletscher2012); envelopes learned without a regulariser (antoniuk2012); calibrated
probabilities of envelope models and decisions for IoU by them (tarlow2012); a prior of shapes
(yang2014) in one energy with logits and edges. Each stands against its parts on the same splits.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.errors import ConvergenceWarning
from cutlearn.experiments.beyond_shapes import ROWS, STRENGTHS, TRUSTS, compared, small_of
from cutlearn.experiments.course import Claim, Course, Figures, Section
from cutlearn.experiments.intervals import over_splits
from cutlearn.experiments.logits import boosted_logits
from cutlearn.experiments.pictures import Mask, Pictures, read_pictures
from cutlearn.features.boosted import Recipe
from cutlearn.features.featurizer import Featurizer
from cutlearn.images.resize import Shape
from cutlearn.images.sample import Sample
from cutlearn.metrics import beliefs, confusion, count_error, pooled_iou
from cutlearn.model.segmenter import Segmenter

Floats = NDArray[np.float64]
SETS = {"horses": "weizmann_horses", "pedestrians": "penn_fudan"}
EDGES, BOTH = ("unary", "contrast"), ("unary", "contrast", "envelope")
PLAIN, COUNTED = "edges", "edges, count loss"
HIGH, HIGH_COUNTED = "envelopes", "envelopes, count loss"
FREE = "envelopes, no regulariser (ACCPM)"
FITS: dict[str, dict[str, Any]] = {
    PLAIN: {"potentials": EDGES},
    COUNTED: {"potentials": EDGES, "loss": "count"},
    HIGH: {"potentials": BOTH},
    HIGH_COUNTED: {"potentials": BOTH, "loss": "count"},
    FREE: {"potentials": BOTH, "learner": "accpm", "C": math.inf},
}
# Figures of a model: title, factor, digits, and whether more is better.
MEASURES = {
    "iou": ("pooled IoU, %", 100, 1, True),
    "count": ("count error, %", 100, 1, False),
    "mean_iou": ("mean IoU of both labels, %", 100, 1, True),
    "decided": ("the same, decided", 100, 1, True),
    "softmax": ("log-likelihood, plain softmax", 1, 3, True),
    "likely": ("log-likelihood, calibrated", 1, 3, True),
    "calibration": ("calibration error", 1, 3, False),
}
NEW = "not in any of them"
TABLE = "Models on boosted logits, {}"
SHAPES = "Shapes, logits and edges in one energy, horses"


@dataclass(frozen=True)
class Scale:
    """How much is run: smaller side, training and test images, splits; the RBM of the shapes."""

    side: int = 60
    train: int = 30
    test: int = 80
    splits: int = 8
    shape: Shape = (32, 32)
    hidden: int = 200
    epochs: int = 500
    recipe: Recipe | None = None


SMALL = Recipe(trees=5, leaves=7, rows=2000, folds=2, stages=1)
SCALES = {
    "full": Scale(),
    "brief": Scale(train=24, test=50, splits=3, epochs=200),
    "quick": Scale(20, 6, 3, 1, (8, 12), 8, 10, SMALL),
}


def halves(pictures: Pictures, seed: int, scale: Scale) -> tuple[Pictures, Pictures]:
    """Give random training and test images."""
    order = np.random.default_rng(seed).permutation(len(pictures)).tolist()
    first = min(scale.train, 2 * len(order) // 3)
    return pictures.take(order[:first]), pictures.take(order[first : first + scale.test])


def split(pictures: Pictures, seed: int, scale: Scale) -> Figures:
    """Fit all models on one split; give their figures on test images."""
    learnt, unseen = halves(pictures, seed, scale)
    inside, outside = boosted_logits(learnt, unseen, recipe=scale.recipe)
    found: Figures = {"train": len(learnt), "test": len(unseen)}
    train, test = ([Sample(image, extra=logit.astype(np.float32))
                    for image, logit in zip(part.images, logits)]
                   for part, logits in ((learnt, inside), (unseen, outside)))  # fmt: skip
    for name, parameters in FITS.items():
        found[name] = figures_of(parameters, train, learnt.masks, test, unseen.masks)
    return found


def shapes_split(pictures: Pictures, seed: int, scale: Scale) -> Figures:
    """Compare energies with and without shapes and edges on one split."""
    learnt, unseen = halves(pictures, seed, scale)
    inside, outside = boosted_logits(learnt, unseen, recipe=scale.recipe)
    return compared(small_of(learnt, inside, scale.shape), small_of(unseen, outside, scale.shape),
                    scale.hidden, scale.epochs, seed)  # fmt: skip


def figures_of(
    parameters: dict[str, Any],
    train: Sequence[Sample],
    masks: Sequence[Mask],
    test: Sequence[Sample],
    truth: Sequence[Mask],
) -> dict[str, float]:
    """Fit a Segmenter on given logits; give MEASURES on test images."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = Segmenter(features=Featurizer("given"), n_jobs=1, **parameters).fit(train, masks)
        again = {**parameters, "C": model.C_, "calibration": None}
        plain = Segmenter(features=Featurizer("given"), n_jobs=1, **again).fit(train, masks)
    cut, decided = model.predict(test), model.predict(test, decision="iou")
    told = [beliefs(mask, q) for mask, q in zip(truth, model.predict_proba(test))]
    softmax = [beliefs(mask, q) for mask, q in zip(truth, plain.predict_proba(test))]
    pixels = np.sum([one.bins for one in told], axis=0)
    return {
        "iou": pooled_iou(truth, cut),
        "count": count_error(truth, cut) / float(np.mean([(m == 1).sum() for m in truth])),
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

    def __call__(self, work: Callable[[Pictures, int, Scale], Figures], seed: int) -> Figures:
        """Do a work on a split."""
        if self._pictures is None:
            folder = self.course.folder(self.folder)
            self._pictures = read_pictures(folder, side=self.scale.side, values={0: 0, 1: 1})
        return work(self._pictures, seed, self.scale)


def run(course: Course) -> Figures:
    """Run the splits of both sets, and the shapes of horses; leave tables and claims."""
    scale = SCALES[course.scale]
    sections, claims = [], []
    figures: dict[str, list[Figures]] = {}
    settings = {name: value for name, value in vars(scale).items()
                if name not in ("splits", "recipe")}  # fmt: skip
    works = {name: (folder, split) for name, folder in SETS.items()}
    works["shapes"] = SETS["horses"], shapes_split
    for name, (folder, work) in works.items():
        source = Source(course, folder, scale)
        splits = {f"split {k}": partial(source, work, k) for k in range(scale.splits)}
        more = {"trusts": TRUSTS, "strengths": STRENGTHS} if name == "shapes" else {}
        figures[name] = list(course.parts(name, splits, **settings, **more).values())
    for name in SETS:
        sections.append(table_of(name, figures[name], scale))
        claims += claims_of(name, figures[name])
    sections.append(shapes_table(figures["shapes"], scale))
    claims += shapes_claims(figures["shapes"])
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
        "split, out of fold for training images. C is chosen on held-out images but for the last "
        "row, which has none. Count error: mean difference of areas over the mean true area. "
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
        compare("envelopes trained for areas count better than edges trained for areas",
                (HIGH_COUNTED, "count"), (COUNTED, "count")),
        compare("envelopes trained for areas count better than envelopes trained for pixels",
                (HIGH_COUNTED, "count"), (HIGH, "count")),
        compare("envelopes add IoU to edges on boosted logits", (HIGH, "iou"), (PLAIN, "iou")),
        compare("envelopes without a regulariser segment better than with a chosen one",
                (FREE, "iou"), (HIGH, "iou")),
        compare("calibration makes envelope models likelier than a softmax of their min-marginals",
                (HIGH, "likely"), (HIGH, "softmax")),
        compare("calibrated envelope models are likelier than calibrated edges", (HIGH, "likely"),
                (PLAIN, "likely")),
        compare("deciding by expected IoU gains over the cut, edges", (PLAIN, "decided"),
                (PLAIN, "mean_iou")),
        compare("deciding by expected IoU gains over the cut, envelopes", (HIGH, "decided"),
                (HIGH, "mean_iou")),
    ]  # fmt: skip


def shapes_table(parts: Sequence[Figures], scale: Scale) -> Section:
    """Write the rows of the shapes."""
    rows = [
        [name, _mean([p[name]["iou"] for p in parts], 100, 1),
         ", ".join(f"{p[name]['trust']:g} / {p[name]['strength']:g}"
                   for p in parts)]
        for name in ROWS
    ]  # fmt: skip
    words = (
        f"Masks, images and logits at {scale.shape[0]} x {scale.shape[1]}; an RBM of "
        f"{scale.hidden} units, {scale.epochs} epochs on the training masks; its labels are found "
        "by iterated modes whose label step is a cut. Both strengths are chosen on a third of the "
        "training images with an RBM of the other two. The common shift "
        "of the logits and the range of their strengths were set after a first run had shown, on "
        "these test images, that shapes only repaired the threshold."
    )
    titles = ["energy", "pooled IoU, %", "strength of logits / edges, by split"]
    return Section(SHAPES, titles, rows, words)


def shapes_claims(parts: Sequence[Figures]) -> list[Claim]:
    """Judge shapes in the energy against the energy without them, and without edges."""

    def compare(text: str, ours: str, other: str) -> Claim:
        gap = over_splits([p[ours]["iou"] - p[other]["iou"] for p in parts])
        return Claim.of(f"horses: {text}", NEW, f"{gap.text(2, 100)} points of IoU", gap.low > 0,
                        SHAPES)  # fmt: skip

    _, edges, shapes, every = ROWS
    return [
        compare("shapes add to logits and edges in one energy", every, edges),
        compare("edges, solved by a cut, add to logits and shapes", every, shapes),
    ]


def _mean(values: Sequence[float], factor: float, digits: int) -> str:
    found = factor * np.array(values)
    return f"{found.mean():.{digits}f} ± {found.std():.{digits}f}"
