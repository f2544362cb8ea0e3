"""yang2014, tables 1 and 2: max-margin Boltzmann machines on horses and pedestrians.

Every split learns codebooks, a unary model, an RBM and a ShapeBM from two thirds of the images; all
models of the tables start from them. Figures are at the size of the masks, padding and void left
out: accuracy of pixels, mean accuracy of both labels, pooled IoU; and the IoU of the masks painted
back to full size. The birds of table 3 are not among the shared data.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutlearn.energy.energy import Energy
from cutlearn.experiments.course import Claim, Course, Figures, Section, Tell
from cutlearn.experiments.intervals import over_splits
from cutlearn.experiments.yang2014_data import SETS, Case, split
from cutlearn.experiments.yang2014_pictures import drawings
from cutlearn.features.featurizer import Featurizer
from cutlearn.images.resize import resize_image
from cutlearn.images.sample import Sample
from cutlearn.metrics import confusion, total
from cutlearn.model.segmenter import Segmenter
from cutlearn.shape.cccp import Learning
from cutlearn.shape.conditional import Conditional
from cutlearn.shape.describe import Describer, View
from cutlearn.shape.frame import Frame
from cutlearn.shape.generative import Shapes, train_layers
from cutlearn.shape.journal import Journal
from cutlearn.shape.patches import Patches
from cutlearn.shape.refine import choose_strength, refinement
from cutlearn.shape.regress import fit_unary
from cutlearn.shape.training import Plan, filled, fit_margins, given_images

Mask = NDArray[np.uint8]
Float32 = NDArray[np.float32]
VOID = 255
STARTS = 4
SPLITS = 3
JUDGED = 20
# Test cases that are drawn, and every how manyth: people of one photograph are neighbours.
SHOWN, APART = 12, 6
FIGURES = ("accuracy", "balanced", "iou", "full_iou")
# The deviation of V where it starts at random; the paper does not tell its own.
SPREAD = 0.01


class Row(NamedTuple):
    """A row of the tables: what the machine has, and where its V start (regressions, or random)."""

    layers: int
    margin: str
    sees_image: bool = True
    pairwise: bool = False
    random: bool = False


CASES = {"MMBM1 case 1 (none)": "none", "MMBM1 case 2 (output)": "output",
         "MMBM1 case 3 (hidden)": "hidden", "MMBM1 case 4 (both)": "both"}  # fmt: skip
MODELS: dict[str, Row] = {
    "prior only": Row(1, "both", sees_image=False),
    **{name: Row(1, margin) for name, margin in CASES.items()},
    **{f"{name}, random V": Row(1, margin, random=True) for name, margin in CASES.items()},
    "MMBM2": Row(2, "both"),
    "MMBM2 with edges": Row(2, "both", pairwise=True),
}
# The paper's (AP, IoU) by set.
PAPER = {
    "horses": {
        "CRF": (87.46, 67.44), "prior only": (88.67, 71.60), "MMBM1 case 1 (none)": (70.59, 38.01),
        "MMBM1 case 2 (output)": (85.87, 62.97), "MMBM1 case 3 (hidden)": (85.37, 59.35),
        "MMBM1 case 4 (both)": (89.43, 69.59), "MMBM2": (89.80, 72.09),
        "MMBM1 case 4 (both), refined": (90.62, 74.12), "MMBM2, refined": (90.71, 75.78),
    },
    "pedestrians": {
        "CRF": (84.87, 68.35), "prior only": (86.55, 71.33), "MMBM1 case 1 (none)": (82.66, 64.80),
        "MMBM1 case 2 (output)": (85.27, 69.20), "MMBM1 case 3 (hidden)": (83.35, 65.78),
        "MMBM1 case 4 (both)": (89.91, 76.92), "MMBM2": (89.74, 77.30),
        "MMBM1 case 4 (both), refined": (90.42, 77.97), "MMBM2, refined": (90.77, 79.42),
    },
}  # fmt: skip


@dataclass(frozen=True)
class Scale:
    """How much is run of a set: units of the hidden layers, epochs of each, cycles of CCCP, images.

    The pedestrians are two and a half times as many as the horses: about as many steps.
    """

    shape: tuple[int, int]
    hidden: tuple[int, int]
    epochs: tuple[int, int]
    cycles: int
    images: int | None = None


SCALES = {
    "full": {
        "horses": Scale((32, 32), (500, 200), (1000, 500), 5),
        "pedestrians": Scale((64, 32), (500, 200), (400, 200), 2),
    },
    "brief": {
        "horses": Scale((32, 32), (500, 200), (200, 100), 5, 75),
        "pedestrians": Scale((64, 32), (500, 200), (100, 50), 3, 24),
    },
    "quick": {
        "horses": Scale((8, 12), (8, 4), (10, 10), 1),
        "pedestrians": Scale((16, 8), (8, 4), (10, 10), 1),
    },
}


def run(course: Course) -> Figures:
    """Run the splits of both sets; leave a table and pictures for each."""
    sections, claims, figures = [], [], {}
    for name, scale in SCALES[course.scale].items():
        folder, read = SETS[name]
        data = course.folder(folder)
        known: list[Case] = []

        def work(seed: int, name: str = name, scale: Scale = scale, known: Any = known,
                 read: Any = read, data: Any = data) -> Figures:  # fmt: skip
            known.extend(few(read(data), scale.images) if not known else [])
            told, trial = run_split(name, known, seed, scale, course.tell)
            if seed == 0:
                drawn = drawings(trial.shapes, trial.shown)
                told["pictures"] = [course.picture(f"{name}-{k}", f) for k, f in drawn.items()]
            return told

        splits = range(1 if course.quick else SPLITS)
        parts = course.parts(
            name, {f"split {k}": partial(work, k) for k in splits}, **asdict(scale)
        )
        found = list(parts.values())
        sections.append(section_of(name, found, scale))
        claims += claims_of(name, found)
        figures[name] = found
    claims.append(Claim("Birds (table 3)", "IoU 73.0, refined 75.9", "no data here",
                        "not testable here", "none"))  # fmt: skip
    return course.finish(sections, claims, figures)


@dataclass
class Trial:
    """One split: all that its models share.

    Attributes
    ----------
    images, masks, frames : of every case, training cases first
    small, tiny : masks, void in the padding, and padded images at the model's size
    train, test : indices of cases
    views : of every case for one and two hidden layers
    shapes : the RBM and the ShapeBM
    shown : rows of (image, truth, masks by name) for the picture
    """

    images: list[Float32]
    masks: list[Mask]
    frames: list[Frame]
    small: list[Mask]
    tiny: list[Float32]
    train: list[int]
    test: list[int]
    views: dict[int, list[View]]
    shapes: dict[int, Shapes]
    shown: list[dict[str, NDArray[Any]]]

    @classmethod
    def of(cls, cases: list[Case], seed: int, scale: Scale) -> "Trial":
        """Divide the cases; learn codebooks and shapes from the training cases."""
        shape = scale.shape
        first, others = split(cases, seed)
        cases, count = [*first, *others], len(first)
        train, test = list(range(count)), list(range(count, len(cases)))
        frames = [Frame(shape, (c.mask.shape[0], c.mask.shape[1])) for c in cases]
        pictures = [frame.picture(case.image) for frame, case in zip(frames, cases)]
        shown = [pictures[i] for i in train]
        describer = Describer.fit(shown, Patches.layout(shape), (512, 128), seed)
        views = [describer.view(picture) for picture in pictures]
        masks = np.stack([filled(frames[i].labels(cases[i].mask)) for i in train])
        shapes = {
            k: train_layers(masks, scale.hidden[:k], scale.epochs[:k], Journal(seed))
            for k in (1, 2)
        }
        return cls(
            [c.image for c in cases], [c.mask for c in cases], frames,
            [np.where(f.inside(), f.labels(c.mask), VOID) for f, c in zip(frames, cases)],
            [resize_image(picture, shape) for picture in pictures], train, test,
            {1: [replace(v, x1=v.x2[None]) for v in views], 2: views}, shapes,
            [{"image": cases[i].image, "truth": cases[i].mask} for i in test[::APART][:SHOWN]],
        )  # fmt: skip

    @property
    def needed(self) -> list[int]:
        """Cases whose masks are asked for: all tests, and those that choose the refinement."""
        return [*self.few, *self.test]

    @property
    def few(self) -> list[int]:
        """Training cases that choose the strength of the refinement."""
        return self.train[:: max(1, len(self.train) // JUDGED)]


def run_split(
    name: str, cases: list[Case], seed: int, scale: Scale, tell: Tell
) -> tuple[Figures, Trial]:
    """Train and judge all models on one split; figures by model, and what the pictures need."""
    begun = time.process_time()
    trial = Trial.of(cases, seed, scale)
    labels = [trial.frames[i].labels(trial.masks[i]) for i in trial.train]
    found = fit_unary([trial.views[1][i] for i in trial.train], labels)
    told: dict[str, Any] = {"train": len(trial.train), "test": len(trial.test)}
    tell(f"{name}, split {seed}: shapes and unary model, {time.process_time() - begun:.0f} CPU s")
    judge(told, "unary", {i: unary(trial, found, i) for i in trial.needed}, trial, tell)
    told["CRF"] = judged(trial, crf(trial, found))
    tell(f"CRF: IoU {100 * told['CRF']['iou']:.1f}")
    masks = np.stack([filled(mask) for mask in labels])
    for row, (layers, margin, sees, pairwise, random) in MODELS.items():
        clock = time.process_time()
        views = trial.views[layers]
        plan = Plan((), (), scale.cycles, Learning(margin, starts=STARTS), sees, pairwise)
        shown = [views[i] for i in trial.train]
        start = given_images(trial.shapes[layers], found, shown, masks, plan)
        start = at_random(start, seed) if random else start
        model, violated = fit_margins(start, shown, labels, plan, Journal(seed))
        seconds = time.process_time() - clock
        logits = {i: model.log_odds(views[i], STARTS) for i in trial.needed}
        judge(told, row, logits, trial, tell)
        told[row] |= {"violated": violated, "seconds": seconds}
    return told, trial


def few(cases: list[Case], images: int | None) -> list[Case]:
    """Give the cases of so many groups, evenly spread."""
    groups = sorted({case.group for case in cases})
    if images is None or images >= len(groups):
        return cases
    kept = {groups[k] for k in np.linspace(0, len(groups) - 1, images).astype(int)}
    return [case for case in cases if case.group in kept]


def at_random(start: Conditional, seed: int) -> Conditional:
    """Give a machine whose image terms V begin at random, as in the paper; shapes stay."""
    rng = np.random.default_rng([seed, 15])
    drawn = {name: rng.normal(0, SPREAD, start.w[name].shape).astype(np.float32)
             for name in ("V0", "V1", "V2")}  # fmt: skip
    return Conditional(start.patches, start.w | drawn)


def unary(trial: Trial, found: tuple[Float32, Float32], i: int) -> Float32:
    """The log-odds of x0 and the place alone."""
    (V0, b), view = found, trial.views[1][i]
    logits = (view.x0 @ V0)[view.regions] + b
    return np.asarray(logits.reshape(trial.small[i].shape), np.float32)


def crf(trial: Trial, found: tuple[Float32, Float32]) -> dict[int, Mask]:
    """Masks of the Segmenter with the log-odds of x0 as node feature and contrast edges.

    Log-odds of training images are out of fold: from a unary model that did not see the image.
    """
    samples = {i: Sample(trial.tiny[i], extra=unary(trial, found, i)) for i in trial.test}
    views = trial.views[1]
    for k in range(3):
        fold, others = trial.train[k::3], [i for j, i in enumerate(trial.train) if j % 3 != k]
        fitted = fit_unary([views[i] for i in others], [trial.small[i] for i in others])
        samples |= {i: Sample(trial.tiny[i], extra=unary(trial, fitted, i)) for i in fold}
    model = Segmenter(features=Featurizer("given"), n_jobs=1)
    model.fit([samples[i] for i in trial.train], [trial.small[i] for i in trial.train])
    return dict(zip(trial.test, model.predict([samples[i] for i in trial.test])))


def judge(
    told: dict[str, Any], row: str, logits: dict[int, Float32], trial: Trial, tell: Tell
) -> None:
    """Figures of log-odds at the model's size, as they are and refined at full size."""
    painted = {i: trial.frames[i].paint(logits[i]) for i in trial.needed}
    few = trial.few
    strength, _ = choose_strength(
        [painted[i] for i in few], [trial.images[i] for i in few], [trial.masks[i] for i in few]
    )
    plain = {i: (painted[i] > 0).astype(np.uint8) for i in trial.test}
    at_size = {i: (logits[i] > 0).astype(np.uint8) for i in trial.test}
    told[row] = judged(trial, at_size, plain)
    refined = {i: _refined(painted[i], trial.images[i], strength) for i in trial.test}
    reduced = {i: trial.frames[i].labels(mask) for i, mask in refined.items()}
    told[f"{row}, refined"] = judged(trial, reduced, refined) | {"strength": strength}
    for shown, i in zip(trial.shown, trial.test[::APART]):
        shown[row], shown[f"{row}, refined"] = plain[i], refined[i]
    both = [100 * told[name]["iou"] for name in (row, f"{row}, refined")]
    tell(f"{row}: IoU {both[0]:.1f}, refined {both[1]:.1f} (strength {strength:g})")


def _refined(logits: Float32, image: Float32, strength: float) -> Mask:
    energy: Energy = refinement(logits, image, strength)
    return energy.minimize().labels.astype(np.uint8)


def judged(
    trial: Trial, at_size: dict[int, Mask], full: dict[int, Mask] | None = None
) -> dict[str, float]:
    """Accuracy, balanced accuracy and pooled IoU of test masks; IoU at full size where given."""
    table = total(confusion(trial.small[i], at_size[i]) for i in trial.test)
    parts = np.diag(table.counts) / table.counts.sum(axis=1)
    figures = {
        "accuracy": 1 - table.pixel_error(),
        "balanced": float(parts.mean()),
        "iou": table.iou(1),
    }
    if full is not None:
        figures["full_iou"] = total(confusion(trial.masks[i], full[i]) for i in trial.test).iou(1)
    return figures


def section_of(name: str, splits: Sequence[Figures], scale: Scale) -> Section:
    """Mean and deviation over splits of every row, beside the paper's figures."""
    rows = []
    for row in (row for row, found in splits[0].items() if isinstance(found, dict)):
        cells = [row]
        for figure in FIGURES:
            values = [100 * s[row][figure] for s in splits if figure in s[row]]
            spread = f" +- {np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
            cells.append(f"{np.mean(values):.1f}{spread}" if values else "")
        paper = PAPER[name].get(row)
        cells.append("" if paper is None else f"{paper[0]:.1f} / {paper[1]:.1f}")
        rows.append(cells)
    titles = ["model", "accuracy", "balanced", "IoU", "IoU at full size", "paper AP / IoU"]
    words = (
        f"{len(splits)} splits of {splits[0]['train']} training and {splits[0]['test']} test cases "
        "(the paper: 200 and 128 horses, 400 and 446 pedestrians), masks of "
        f"{scale.shape[1]} x {scale.shape[0]}; mean +- deviation over splits, in percent. "
        f"{scale.epochs[0]} + {scale.epochs[1]} epochs of pre-training (the paper: 2000 + 1000), "
        f"{scale.cycles} cycles of CCCP (five). V starts from regressions; in the rows 'random V' "
        f"V0, V1 and V2 start at random with deviation {SPREAD:g}, as those of the paper do (it "
        "does not tell the deviation, nor where V0 starts). Its CHOPPs stand beside 'prior only', "
        "their nearest relative here."
    )
    return Section(heading_of(name), titles, rows, words, splits[0].get("pictures", ()))


def heading_of(name: str) -> str:
    """Give the heading of a set's table."""
    return f"Table {1 if name == 'horses' else 2}: {name}"


def claims_of(name: str, splits: Sequence[Figures]) -> list[Claim]:
    """Judge the paper's comparisons by the pooled IoU of every split."""

    def compare(text: str, ours: str, other: str, fair: str = "") -> Claim:
        gaps = {end: over_splits([100 * (s[ours + end]["iou"] - s[other + end]["iou"])
                                  for s in splits]) for end in {"", fair}}  # fmt: skip
        said = [PAPER[name].get(row) for row in (ours, other)]
        paper = "" if None in said else f"{said[0][1]:.1f} against {said[1][1]:.1f}"  # type: ignore[index]
        told = f"{gaps[fair].text(1)} points of IoU"
        told += f"; V from regressions {gaps[''].text(1)}" if fair else ""
        return Claim.of(f"{name}: {text}", paper, told, gaps[fair].low > 0, heading_of(name))

    none, output, hidden, both = CASES
    fair = ", random V"
    return [
        compare("both margins beat that of the output", both, output, fair),
        compare("that of the output beats that of the hidden units", output, hidden, fair),
        compare("the margin of the hidden units beats none", hidden, none, fair),
        compare("both margins beat none", both, none, fair),
        compare("it beats a prior of shapes that does not see the image (CHOPPs in the paper)",
                "MMBM2", "prior only"),
        compare("two layers beat one", "MMBM2", both),
        compare("refinement by a cut helps", "MMBM2, refined", "MMBM2"),
        compare("two layers beat a CRF on the same features", "MMBM2", "CRF"),
    ]  # fmt: skip
