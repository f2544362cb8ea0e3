"""pletscher2012, section 5: models trained for pixels and for areas, each judged by both losses.

Table 1 (photographs with strokes, 4 or 8 neighbours, the same or other weights for each direction)
and figure 4 (mitochondria). lambda is chosen by the model's own loss on validation images. For
every test image the model with the lower loss wins; ties are told. Section 4.3: what
loss-augmented inference costs in one cut with a node that is joined to every pixel, and in
two cuts without it.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from cutlearn.arrays import Floats
from cutlearn.features.trees import Recipe
from cutlearn_papers.course import VERDICTS, Claim, Course, Figures, Section
from cutlearn_papers.intervals import Interval, over_images
from cutlearn_papers.pictures import Pictures, read_pictures
from cutlearn_papers.pletscher2012_causes import causes_section, nearest_claim, run_causes
from cutlearn_papers.pletscher2012_data import (
    LOSSES,
    STRUCTURES,
    Divided,
    Nodes,
    blocks_of,
    mitochondria,
    photographs,
    split_of,
)
from cutlearn_papers.pletscher2012_learn import labels_of, sweep
from cutlearn_papers.pletscher2012_pictures import draw_differences, draw_masks
from cutlearn_papers.pletscher2012_times import inference_times

SHOWN = 4
# Table 1 of the paper: how often the count-trained model is better (%), by Hamming and by count.
PAPER = {"4/S": ("47.9 ± 7.0", "66.2 ± 8.3"), "4/D": ("60.6 ± 6.1", "70.4 ± 8.3"),
         "8/S": ("51.8 ± 11.9", "68.0 ± 13.1"), "8/D": ("50.0 ± 9.2", "59.5 ± 14.3")}  # fmt: skip
STROKES, CELLS = "Table 1: photographs with strokes", "Figure 4: mitochondria"


@dataclass(frozen=True)
class Scale:
    """How much is run.

    Attributes
    ----------
    side : int
        The smaller side of the images.
    strokes, slices : (training, validation) images
        The paper: 60 and 20 of 151 photographs, 3 and 2 of 10 micrographs.
    splits : int
    Cs : numbers
        From which each model's own loss on validation images chooses. Eight weights on pictures of
        some ten thousand pixels: above 0.01 the regulariser does nothing, and the choice is one
        between copies of the same model.
    tol : float
    recipe : Recipe, optional
        Of the trees that respond to mitochondria.
    """

    side: int = 160
    strokes: tuple[int, int] = (15, 7)
    slices: tuple[int, int] = (6, 4)
    splits: int = 4
    Cs: tuple[float, ...] = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
    tol: float = 0.01
    recipe: Recipe | None = None


SMALL = Recipe(trees=5, leaves=7, rows=2000, folds=2, stages=1)
SCALES = {
    "full": Scale(),
    "brief": Scale(side=100, splits=3, Cs=(1e-6, 1e-4, 1e-2)),
    "quick": Scale(30, (4, 2), (3, 2), 1, (1e-4, 1e-2), 0.05, SMALL),
}


def compare(make: Callable[[], Divided], structure: str, scale: Scale, shown: bool) -> Figures:
    """Train for both losses; give the losses of all test images, (2 models, n, 2 losses)."""
    parts = make()
    found: Figures = {"C": [], "seconds": []}
    losses = []
    few = parts["test"].take(range(min(SHOWN, len(parts["test"].names))) if shown else [])
    problems = few.problems(structure)
    for loss in LOSSES:
        begin = time.process_time()
        swept = sweep(parts, structure, loss, scale.Cs, scale.tol)
        found["seconds"].append(time.process_time() - begin)
        k = swept.chosen(loss)
        found["C"].append(scale.Cs[k])
        losses.append(swept.losses["test"][k])
        for i, problem in enumerate(problems):
            found[f"{loss}|labels{i}"] = labels_of(problem, swept.weights[k])
    for i, (image, mask) in enumerate(zip(few.images, few.masks)):
        found |= {f"image{i}": image, f"mask{i}": mask}
    return found | {"losses": np.array(losses), "images": parts["test"].names}


class Source:
    """The images of a course, read when the first of their parts is missing."""

    def __init__(self, course: Course, scale: Scale) -> None:
        self.course, self.scale = course, scale
        self._photographs: Nodes | None = None
        self._slices: dict[str, Pictures] = {}
        self._divided: tuple[tuple[str, int], Divided] | None = None

    @property
    def photographs(self) -> Nodes:
        """All photographs with strokes."""
        if self._photographs is None:
            self._photographs = photographs(self.course.folder("grabcut"), self.scale.side)
        return self._photographs

    def strokes(self, seed: int) -> Divided:
        """Give a random split of the photographs."""
        nodes = self.photographs
        split = split_of(len(nodes.images), self.scale.strokes, seed)
        return {name: nodes.take(index) for name, index in split.items()}

    def slices(self, name: str, seed: int) -> Divided:
        """Give a split of a stack into blocks; the last one is kept for the next structure."""
        if self._divided is None or self._divided[0] != (name, seed):
            if name not in self._slices:
                folder = self.course.folder(name)
                side = 2 * self.scale.side
                self._slices[name] = read_pictures(folder, side=side, values={0: 0, 1: 1})
            pictures = self._slices[name]
            split = blocks_of(len(pictures), self.scale.slices, seed)
            self._divided = (name, seed), mitochondria(pictures, split, self.scale.recipe)
        return self._divided[1]


def run(course: Course) -> Figures:
    """Run table 1, figure 4 on two stacks, and the times; leave tables and pictures."""
    scale = SCALES[course.scale]
    source = Source(course, scale)
    settings = {"side": scale.side, "Cs": scale.Cs, "tol": scale.tol}
    seeds = range(scale.splits)
    photos = course.parts(
        "strokes",
        {f"{name}, split {k}": partial(
            compare, partial(source.strokes, k), name, scale, (name, k) == ("8/D", 0))
         for k in seeds for name in STRUCTURES}, **settings,
    )  # fmt: skip
    stacks = {
        stack: course.parts(
            stack,
            {f"split {k}": partial(compare, partial(source.slices, stack, k), "4/S", scale, k == 0)
             for k in seeds}, **settings,
        )
        for stack in ("em_epfl_ca1", "em_drosophila_vnc")
    }  # fmt: skip
    spent = course.parts(
        "times", {"inference": lambda: inference_times(source.photographs.take(range(5)))},
        **settings,
    )["inference"]  # fmt: skip
    causes = run_causes(course, scale.side, scale.strokes, scale.splits, scale.Cs, scale.tol)
    tables = {
        **{f"photographs, {name}": [photos[f"{name}, split {k}"] for k in seeds]
           for name in STRUCTURES},
        **{stack: list(found.values()) for stack, found in stacks.items()},
    }  # fmt: skip
    return report(course, tables, causes, spent, scale)


def report(
    course: Course,
    tables: dict[str, list[Figures]],
    causes: dict[str, list[Figures]],
    spent: Figures,
    scale: Scale,
) -> Figures:
    """Leave tables, claims and pictures."""
    rows = {name: row_of(name, parts) for name, parts in tables.items()}
    stacks = [name for name in tables if name.startswith("em_")]
    boxes = course.picture("differences", draw_differences(
        {name: [part["losses"] for part in tables[name]] for name in tables}))  # fmt: skip
    masks = course.picture("masks", draw_masks(tables["photographs, 8/D"][0], SHOWN))
    plain, joined, twice = spent["milliseconds"]
    titles = ["model", "judged by", "Hamming-trained better, %", "count-trained better, %", "ties",
              "mean loss, Hamming- / count-trained, %", "count-trained better, paper"]  # fmt: skip
    sections = [
        Section(STROKES, titles, [r for n, two in rows.items() if n not in stacks for r in two],
                words_of(scale), photographs=[masks]),
        causes_section(causes, scale.Cs),
        Section(CELLS, titles, [r for n in stacks for r in rows[n]], "", [boxes]),
        Section("Section 4.3: loss-augmented inference", ["way", "CPU ms, median of five images"],
                [["a cut without a loss", f"{plain:.1f}"],
                 ["the count as an envelope of the energy", f"{joined:.1f}"],
                 ["two cuts, one for each side of the count", f"{twice:.1f}"],
                 *([f"learning from five images for {loss}", f"{1000 * seconds:.0f}"]
                   for loss, seconds in zip(LOSSES, spent["training"]))],
                "Energies of a model that was trained for the count, on a general graph. COMPOSE, "
                "with which the paper compares, is not in this package and was not run. The "
                "Boykov-Kolmogorov algorithm is not either: benchmarks/count_oracle.py measures it "
                "(count_loss.md)."),
    ]  # fmt: skip
    figures = {
        name: [{"losses": p["losses"], "C": p["C"], "seconds": p["seconds"]} for p in parts]
        for name, parts in tables.items()
    }
    told = figures | {"milliseconds": spent["milliseconds"], "training": spent["training"]}
    first, *others = claims_of(tables, spent)
    return course.finish(sections, [first, nearest_claim(causes), *others], told)


def wins_of(parts: Sequence[Figures], judged: int) -> tuple[Floats, int]:
    """Give how often the count-trained model has the lower loss, (splits,), ties left out; and the
    number of ties.
    """
    gaps = [part["losses"][0, :, judged] - part["losses"][1, :, judged] for part in parts]
    shares = [float((gap > 0).sum() / max((gap != 0).sum(), 1)) for gap in gaps]
    return 100 * np.array(shares), sum(int((gap == 0).sum()) for gap in gaps)


def share_of(tables: Sequence[Sequence[Figures]], judged: int) -> Interval:
    """Give how often the count-trained model wins over all tables of a set, ties left out.

    The bootstrap draws images, each with all the splits and structures that it was tested in.
    """
    gaps, images = [], []
    for parts in tables:
        for part in parts:
            gap = part["losses"][0, :, judged] - part["losses"][1, :, judged]
            gaps.append(gap[gap != 0] > 0)
            images.append(np.array(part["images"])[gap != 0])
    won = 100.0 * np.concatenate(gaps)
    return over_images(won, np.concatenate(images)) if won.size else Interval(50.0, 50.0, 50.0)


def row_of(name: str, parts: Sequence[Figures]) -> list[list[str]]:
    """Give a row for each loss that judges."""
    rows = []
    for k, judged in enumerate(LOSSES):
        won, ties = wins_of(parts, k)
        means = 100 * np.mean([part["losses"][:, :, k].mean(axis=1) for part in parts], axis=0)
        paper = PAPER.get(name.split(", ")[-1])
        rows.append([
            name, judged, f"{100 - won.mean():.1f} ± {won.std():.1f}",
            f"{won.mean():.1f} ± {won.std():.1f}", str(ties), f"{means[0]:.2f} / {means[1]:.2f}",
            "" if paper is None else paper[k],
        ])  # fmt: skip
    return rows


def words_of(scale: Scale) -> str:
    """Say how the tables were made, and where they depart from the paper."""
    return (
        f"{scale.splits} splits; {scale.strokes[0]} photographs to learn from and "
        f"{scale.strokes[1]} to choose C ({', '.join(f'{C:g}' for C in scale.Cs)}) by the model's "
        f"own loss (the paper: 60 and 20 of 151, most of which are not at hand), smaller side "
        f"{scale.side} (the paper: full size). Strokes give the mixtures and do not fix any label. "
        f"Slices: {scale.slices[0]} and {scale.slices[1]} neighbours, smaller side "
        f"{2 * scale.side}; the paper has 3 and 2 of other micrographs. A win is a lower loss on "
        "a test image, ties left out; ± is the deviation over splits."
    )


def claims_of(tables: dict[str, list[Figures]], spent: Figures) -> list[Claim]:
    """Judge what the paper says."""
    photos = {n: parts for n, parts in tables.items() if not n.startswith("em_")}
    stacks = {n: parts for n, parts in tables.items() if n.startswith("em_")}

    def told(judged: int, whom: str) -> str:
        shares = {n: wins_of(parts, judged)[0] for n, parts in photos.items()}
        shares = {n: w if whom == "count" else 100 - w for n, w in shares.items()}
        return ", ".join(f"{n.split(', ')[-1]} {w.mean():.0f} ± {w.std():.0f}"
                         for n, w in shares.items())  # fmt: skip

    def words(share: Interval) -> str:
        return f"{share.mean:.0f} % ({share.low:.0f} to {share.high:.0f})"

    pixels, count = (share_of(list(photos.values()), k) for k in (0, 1))
    cells = {name: [share_of([parts], k) for k in (0, 1)] for name, parts in stacks.items()}
    plain, joined, twice = spent["milliseconds"]
    return [
        Claim.of("Judged by the count, the count-trained model wins more often",
                 "59.5 to 70.4 % of the images", f"{told(1, 'count')}; together {words(count)}",
                 count.low > 50, STROKES),
        Claim.of("Judged by Hamming, the Hamming-trained model has no significant advantage",
                 "it wins 39.4 to 52.1 %", f"it wins {told(0, 'hamming')}; the other one together "
                 f"{words(pixels)}", pixels.high >= 50, STROKES),
        *(Claim.of(f"Mitochondria ({name}): each model wins by the loss that it was trained for",
                   "figure 4, no figures", f"count-trained wins {words(a)} by Hamming, {words(b)} "
                   "by count", a.high < 50 < b.low, CELLS) for name, (a, b) in cells.items()),
        Claim.of("Loss-augmented inference needs a cut that copes with a node joined to all pixels",
                 "2 minutes of training with IBFS, 25 with Boykov-Kolmogorov",
                 f"{joined / plain:.1f} times a plain cut; two cuts {twice / plain:.1f} times",
                 joined < 10 * plain, "Section 4.3: loss-augmented inference"),
        Claim("Inference by COMPOSE is as good and as quick", "nearly identical", "COMPOSE is not "
              "in this package", VERDICTS[2], "Section 4.3: loss-augmented inference"),
    ]  # fmt: skip
