"""yang2014, tables 1 and 2: max-margin Boltzmann machines on horses and pedestrians.

Every split learns codebooks, a unary model, an RBM and a ShapeBM from two thirds of the images; all
models of the tables start from them. Figures are at the size of the masks, padding and void left
out: accuracy of pixels, mean accuracy of both labels, pooled IoU; and the IoU of the masks painted
back to full size. The birds of table 3 are not among the shared data.
"""

import itertools
import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import VOID, Mask
from cutlearn.energy.energy import Energy
from cutlearn.features.featurizer import Featurizer
from cutlearn.images.resize import resize_image
from cutlearn.images.sample import Sample
from cutlearn.metrics import confusion, total
from cutlearn.model.segmenter import Segmenter
from cutlearn.shape.conditional import Conditional, Learning, choose_strength, refinement
from cutlearn.shape.describe import Describer, MachineInput
from cutlearn.shape.frame import Frame, Patches, filled
from cutlearn.shape.generative import Shapes, train_layers
from cutlearn.shape.journal import Journal
from cutlearn.shape.training import MachineSettings, fit_margins, fit_unary, given_images
from cutlearn_papers.course import VERDICTS, Claim, Course, Figures, Section, Tell
from cutlearn_papers.yang2014_data import SETS, Case, split
from cutlearn_papers.yang2014_layers import (
    fewer_section,
    layers_claims,
    shapes_section,
    steps_section,
)
from cutlearn_papers.yang2014_pictures import drawings
from cutlearn_papers.yang2014_tables import (
    AGAIN,
    BOTH,
    COUNTS,
    HEADINGS,
    LAYERS,
    MANY,
    MODELS,
    SCALES,
    SPREAD,
    TWO,
    Scale,
    claims_of,
    section_of,
    shapes_name,
)

Float32 = NDArray[np.float32]
STARTS = 4
NOT_RUN = "Not run yet at the size of a full run."
JUDGED = 20
# Sweeps of a chain that completes a mask.
SWEEPS = 100
# Test cases that are drawn, and every how manyth: people of one photograph are neighbours.
SHOWN, APART = 12, 6


def run(course: Course) -> Figures:
    """Run the splits of all tables; leave a table and pictures for each."""
    sections, claims, figures = [], [], {}
    tables: dict[str, list[Figures]] = {}
    for name, scale in SCALES[course.scale].items():
        found = splits_of(course, name, scale)
        if not found:
            sections.append(Section(HEADINGS[name], words=NOT_RUN))
            claims.append(Claim(f"{name}: all comparisons", "", NOT_RUN, VERDICTS[2], "none"))
            continue
        tables[name] = found
        sections.append(section_of(name, found, scale))
        claims += claims_of(name, found, scale)
    fewer = {}
    for count in COUNTS[course.scale]:
        scale = replace(SCALES[course.scale]["horses"], learn=count, rows=(BOTH, TWO, *LAYERS))
        if found := splits_of(course, f"{count} horses", scale):
            fewer[count] = found
    every = fewer | ({0: tables["horses"]} if "horses" in tables else {})
    sections += [steps_section(tables), shapes_section(tables)]
    sections += [fewer_section(every)] if fewer else []
    claims += layers_claims(tables, fewer)
    claims.append(Claim("Birds (table 3)", "IoU 73.0, refined 75.9", "no data here",
                        "not testable here", "none"))  # fmt: skip
    for name, found in (tables | {f"{k} horses": v for k, v in fewer.items()}).items():
        figures[name] = [{k: v for k, v in part.items() if "|" not in k and k != "groups"}
                         for part in found]  # fmt: skip
    return course.finish(sections, claims, figures)


def splits_of(course: Course, name: str, scale: Scale) -> list[Figures]:
    """Run the splits of a table that are not finished; give all of them."""
    folder, read = SETS[scale.cases]
    data = course.folder(folder)
    known: list[Case] = []

    def work(seed: int) -> Figures:
        known.extend(few(read(data), scale.images) if not known else [])
        told, trial = run_split(name, known, seed, scale, course.tell)
        if seed == 0 and name in HEADINGS:
            drawn, word = drawings(trial.shapes, trial.shown), name.replace(" ", "-")
            told["pictures"] = [course.picture(f"{word}-{k}", f) for k, f in drawn.items()]
        return told

    # Another split changes none of the others.
    settings = {key: value for key, value in asdict(scale).items() if key != "splits"}
    works = {f"split {k}": partial(work, k) for k in range(scale.splits)}
    return list(course.parts(name, works, True, **settings).values())


@dataclass
class Trial:
    """One split: all that its models share.

    Attributes
    ----------
    images, masks, frames : of every case, training cases first
    small, tiny : masks, void in the padding, and padded images at the model's size
    train, test : indices of cases
    views : of every case for machines without and with patches
    shapes : by `Row.kind`: (1, False) is the RBM, (2, True) the ShapeBM
    shown : rows of (image, truth, masks by name) for the picture
    groups : the photographs of the test cases
    """

    images: list[Float32]
    masks: list[Mask]
    frames: list[Frame]
    small: list[Mask]
    tiny: list[Float32]
    train: list[int]
    test: list[int]
    views: dict[bool, list[MachineInput]]
    shapes: dict[tuple[int, bool], Shapes]
    shown: list[dict[str, NDArray[Any]]]
    groups: list[str]

    @classmethod
    def of(cls, cases: list[Case], seed: int, scale: Scale) -> "Trial":
        """Divide the cases; learn codebooks and shapes from the training cases."""
        shape = scale.shape
        first, others = split(cases, seed)
        first = few(first, scale.learn)
        cases, count = [*first, *others], len(first)
        train, test = list(range(count)), list(range(count, len(cases)))
        frames = [Frame(shape, (c.mask.shape[0], c.mask.shape[1])) for c in cases]
        pictures = [frame.picture(case.image) for frame, case in zip(frames, cases)]
        shown = [pictures[i] for i in train]
        describer = Describer.fit(shown, Patches.layout(shape), (512, 128), seed)
        views = [describer.view(picture) for picture in pictures]
        masks = np.stack([filled(frames[i].labels(cases[i].mask)) for i in train])
        layout = {True: Patches.layout(shape), False: Patches.whole(shape)}
        shapes = {
            (k, patched): train_layers(masks, scale.hidden[:k], scale.epochs[:k], Journal(seed),
                                       patches=layout[patched])
            for k, patched in sorted({MODELS[row].kind for row in scale.rows})
        }  # fmt: skip
        return cls(
            [c.image for c in cases], [c.mask for c in cases], frames,
            [np.where(f.inside(), f.labels(c.mask), VOID) for f, c in zip(frames, cases)],
            [resize_image(picture, shape) for picture in pictures], train, test,
            {False: [replace(v, x1=v.x2[None]) for v in views], True: views}, shapes,
            [{"image": cases[i].image, "truth": cases[i].mask} for i in test[::APART][:SHOWN]],
            [cases[i].group for i in test],
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
    found = fit_unary([trial.views[False][i] for i in trial.train], labels)
    told: dict[str, Any] = {"train": len(trial.train), "test": len(trial.test),
                            "groups": trial.groups}  # fmt: skip
    told |= {f"{shapes_name(kind)}|wrong": completed(shapes, trial)
             for kind, shapes in trial.shapes.items()}  # fmt: skip
    tell(f"{name}, split {seed}: shapes and unary model, {time.process_time() - begun:.0f} CPU s")
    judge(told, "unary", {i: unary(trial, found, i) for i in trial.needed}, trial, tell)
    judged(told, "CRF", trial, crf(trial, found))
    tell(f"CRF: IoU {100 * told['CRF']['iou']:.1f}")
    masks = np.stack([filled(mask) for mask in labels])
    for row in scale.rows:
        made = MODELS[row]
        clock = time.process_time()
        views = trial.views[made.kind[1]]
        plan = MachineSettings((), (), scale.cycles, Learning(made.margin, starts=STARTS),
                    made.sees_image, made.pairwise)  # fmt: skip
        shown = [views[i] for i in trial.train]
        start = given_images(trial.shapes[made.kind], found, shown, masks, plan)
        start = at_random(start, seed) if made.random else start
        model, violated = fit_margins(start, shown, labels, plan, Journal(seed))
        seconds = time.process_time() - clock
        logits = {i: model.log_odds(views[i], STARTS) for i in trial.needed}
        judge(told, row, logits, trial, tell)
        told[row] |= {"violated": violated, "seconds": seconds}
        if row in AGAIN:
            again = {i: (model.log_odds(views[i], MANY) > 0).astype(np.uint8) for i in trial.test}
            judged(told, f"{row}, {MANY} starts", trial, again)
    return told, trial


def completed(shapes: Shapes, trial: Trial) -> NDArray[np.float64]:
    """Hide each quarter of a test mask; the share of wrong labels there that shapes fill in."""
    masks = np.stack([filled(trial.small[i]) for i in trial.test])
    h, w = (side // 2 for side in masks.shape[1:])
    wrong = np.zeros(len(masks))
    for place in itertools.product((slice(h), slice(h, None)), (slice(w), slice(w, None))):
        known = np.ones(masks.shape[1:], bool)
        known[place] = False
        found = shapes.complete(masks, known, SWEEPS) > 0.5
        wrong += (found != masks)[:, ~known].mean(axis=1) / 4
    return wrong


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
    (V0, b), view = found, trial.views[False][i]
    logits = (view.x0 @ V0)[view.regions] + b
    return np.asarray(logits.reshape(trial.small[i].shape), np.float32)


def crf(trial: Trial, found: tuple[Float32, Float32]) -> dict[int, Mask]:
    """Masks of the Segmenter with the log-odds of x0 as node feature and contrast edges.

    Log-odds of training images are out of fold: from a unary model that did not see the image.
    """
    samples = {i: Sample(trial.tiny[i], extra=unary(trial, found, i)) for i in trial.test}
    views = trial.views[False]
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
    judged(told, row, trial, at_size, plain)
    refined = {i: _refined(painted[i], trial.images[i], strength) for i in trial.test}
    reduced = {i: trial.frames[i].labels(mask) for i, mask in refined.items()}
    judged(told, f"{row}, refined", trial, reduced, refined)
    told[f"{row}, refined"]["strength"] = strength
    for shown, i in zip(trial.shown, trial.test[::APART]):
        shown[row], shown[f"{row}, refined"] = plain[i], refined[i]
    both = [100 * told[name]["iou"] for name in (row, f"{row}, refined")]
    tell(f"{row}: IoU {both[0]:.1f}, refined {both[1]:.1f} (strength {strength:g})")


def _refined(logits: Float32, image: Float32, strength: float) -> Mask:
    energy: Energy = refinement(logits, image, strength)
    return energy.minimize().labels.astype(np.uint8)


def judged(
    told: dict[str, Any],
    row: str,
    trial: Trial,
    at_size: dict[int, Mask],
    full: dict[int, Mask] | None = None,
) -> None:
    """Note accuracy, balanced accuracy and pooled IoU of test masks; IoU at full size where given.

    Also the intersection and the union of each test case, for paired intervals.
    """
    each = [confusion(trial.small[i], at_size[i]) for i in trial.test]
    table = total(each)
    parts = np.diag(table.counts) / table.counts.sum(axis=1)
    told[row] = {
        "accuracy": 1 - table.pixel_error(),
        "balanced": float(parts.mean()),
        "iou": table.iou(1),
    }
    met = np.array([one.counts[1, 1] for one in each], np.float64)
    joined = np.array([one.counts.sum() - one.counts[0, 0] for one in each], np.float64)
    told |= {f"{row}|met": met, f"{row}|joined": joined}
    if full is not None:
        every = total(confusion(trial.masks[i], full[i]) for i in trial.test)
        told[row]["full_iou"] = every.iou(1)
