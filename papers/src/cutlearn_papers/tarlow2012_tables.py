"""The tables and claims of tarlow2012, and how much of it is run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cutlearn_papers.course import Claim, Figures, Section
from cutlearn_papers.tarlow2012_judge import (
    LEAST,
    MEASURES,
    Summary,
    comparison,
    decision_claim,
    overconfidence_claim,
)

LEARNERS = ("logistic", "kohli-torr", "likelihood")
SINGLES = "Single aeroplanes (figures 1 and 2)"


@dataclass(frozen=True)
class Scale:
    """How much is run: sizes and numbers.

    Attributes
    ----------
    side : int
        The smaller side of the images.
    classes : tuple of str
    singles : int
        Aeroplanes that are fitted alone.
    splits, folds : int
        How many splits are run; of how many parts one is tested, or 0 for random halves.
    steps, fixed_steps : int
        At most so many of likelihood training, and of Kohli-Torr training.
    bank : "paper" or "linear"
        The features.
    five, five_side, five_steps, five_tries : int
        Images of the five labels to learn from (as many are tested), their side, evaluations, and
        those of a run that judges a regulariser.
    paired, paired_side, paired_steps : int
        Likewise for Kohli-Torr training with min-marginals of pairs.
    """

    side: int = 100
    classes: tuple[str, ...] = ("aeroplane", "car", "cow", "dog")
    singles: int = 30
    splits: int = 5
    folds: int = 5
    steps: int = 80
    fixed_steps: int = 60
    bank: str = "paper"
    five: int = 80
    five_side: int = 40
    five_steps: int = 12
    five_tries: int = 4
    paired: int = 15
    paired_side: int = 24
    paired_steps: int = 30

    @property
    def settings(self) -> dict[str, Any]:
        """What every part depends on."""
        return {"side": self.side, "steps": [self.steps, self.fixed_steps], "folds": self.folds,
                "bank": self.bank}  # fmt: skip


HALVES = Scale(side=70, splits=3, folds=0, steps=40, fixed_steps=30, bank="linear")
# The paper's protocol, and that of random halves with the package's own features.
SCALES = {
    "full": (Scale(), HALVES),
    "brief": (
        Scale(side=70, singles=8, splits=2, steps=40, fixed_steps=30, five=24, five_side=32,
              five_steps=12, five_tries=4, paired=8, paired_steps=10),
        replace(HALVES, splits=1),
    ),
    "quick": (
        Scale(30, ("aeroplane", "dog", "cow"), 2, 1, 3, 12, 8, "paper", 4, 16, 5, 3, 2, 12, 3),
        Scale(30, ("aeroplane", "dog", "cow"), 2, 1, 0, 12, 8, "linear"),
    ),
}  # fmt: skip


def words_of(scale: Scale, parts: Mapping[str, Mapping[str, Figures]]) -> str:
    """Say how the tables were made, and where they depart from the paper."""
    counts = ", ".join("{} {} / {}".format(name, *next(iter(several.values()))["images"])
                       for name, several in parts.items())  # fmt: skip
    folds = "all" if scale.splits == scale.folds else f"{scale.splits} of"
    split = f"{folds} {scale.folds} folds" if scale.folds else f"{scale.splits} random halves"
    bank = ("84 node features of colour and texture without position and 4 edge features, 1 and "
            "three thresholds of a gradient (the paper: 84, and 4 of which three are thresholds of "
            "pb)" if scale.bank == "paper" else "21 linear node features without position and 4 "
            "edge features (the paper: 84 and 4)")  # fmt: skip
    return (
        f"{split} of each class of voc2010_coseg (the paper: another selection of images, 48 to "
        f"learn from and about 50 to test); images to learn from / to test in the first: {counts}. "
        f"Smaller side {scale.side}, 4-connected, {bank}; no regulariser; at most {scale.steps} "
        f'steps of likelihood training, {scale.fixed_steps} of Kohli-Torr. "Polyak": the '
        "paper's own steps. Means over the splits; ± is the deviation of a bootstrap over the test "
        "images of a class (1000 draws)."
    )


def claims_of(alone: Sequence[Figures], summaries: dict[str, Summary]) -> list[Claim]:
    """Judge what the paper says; a row for each comparison that it makes."""

    def won(ours: str, other: str, margin: float = 0.0) -> int:
        return sum(one[ours] < one[other] - margin for one in alone)

    def training(other: str) -> tuple[str, bool]:
        gaps = {name: s.train["likelihood"][:, 0] - s.train[other][:, 0]
                for name, s in summaries.items()}  # fmt: skip
        told = ", ".join(f"{name} {int((d > LEAST).sum())} of {len(d)}" for name, d in gaps.items())
        return f"splits won: {told}", all((d > LEAST).all() for d in gaps.values())

    count = len(alone)
    counts = {other: won("likelihood", other) for other in LEARNERS[:2]}
    torr = won("kohli-torr", "logistic", 1e-6)
    best, last = training("kohli-torr, best"), training("kohli-torr, last")
    return [
        *(Claim.of(f"On every single image its training likelihood is better than by {other}",
                   "30 of 30", f"{counts[other]} of {count}", counts[other] == count, SINGLES)
          for other in LEARNERS[:2]),
        Claim.of("On every single image Kohli-Torr training is better than logistic regression",
                 "30 of 30", f"{torr} of {count}", torr == count, SINGLES),
        Claim.of("On whole training sets it is better than Kohli-Torr's best point", "all classes",
                 *best, "Log-likelihood (figure 3)"),
        Claim.of("On whole training sets it is better than Kohli-Torr's last point", "all classes",
                 *last, "Log-likelihood (figure 3)"),
        *(comparison(summaries, other, measure, said) for measure, other, said in COMPARED),
        overconfidence_claim(summaries),
        decision_claim(summaries),
    ]  # fmt: skip


# The paper's comparisons on test images: measure, the other method, and by how much it says.
COMPARED = (
    ("log-likelihood", "kohli-torr, last", "by .05, .14, .23, .11"),
    ("log-likelihood", "kohli-torr, best", "by .04, .00, .11, .04"),
    ("AUC", "kohli-torr, last", "by .03, .00, .05, .13"),
    ("AUC", "kohli-torr, best", "by .03, .03, .17, .13"),
    ("accuracy", "kohli-torr, last", "by 0.7, 2.7, 4.0, 2.1"),
    ("accuracy", "kohli-torr, best", "by 0.5, 1.4, 3.2, 0.1"),
    ("IoU after", "kohli-torr, last", "by 2.7, 1.7, 1.1, 3.3"),
    ("IoU after", "kohli-torr, best", "by 4.8, 2.6, 5.7, 8.1"),
)


def plain_figures(summaries: dict[str, Summary]) -> dict[str, Any]:
    """Give the figures of all splits as JSON can hold them: a list of splits for each method."""
    return {
        name: {
            method: {"measures": list(MEASURES), "train": summary.train[method].tolist(),
                     "test": summary.test[method].tolist()}
            for method in summary.test
        }
        for name, summary in summaries.items()
    }  # fmt: skip


def time_words(part: Figures) -> str:
    """Say how long training took."""
    seconds = float(part["likelihood|path"][1, -1])
    return (
        f"Time: likelihood training from {part['images'][0]} dogs {seconds:.0f} s of CPU, logistic "
        "regression and the race of the starts included (the paper: over 1000 s on 17 processors "
        "for 48 images)."
    )


def pairs_section(found: Figures, scale: Scale) -> Section:
    """Kohli-Torr training with ends that are independent, and with min-marginals of pairs."""
    names = ("logistic", "independent ends, best", "independent ends, last", "pairs, best",
             "pairs, last", "likelihood")  # fmt: skip
    rows = [
        [name, f"{one['train'][0]:.3f}", f"{one['test'][0]:.3f}", f"{one['test'][3]:.3f}",
         f"{one['edges']:.2f}"]
        for name in names for one in [found[name]]
    ]  # fmt: skip
    independent, pairs = (found[f"{name}|seconds"] for name in ("independent ends", "pairs"))
    words = (
        f"{found['images'][0]} cows to learn from and {found['images'][1]} to test, smaller side "
        f"{scale.paired_side}, 21 linear features, {scale.paired_steps} steps. The gradient of "
        "Kohli and Torr asks how likely the ends of an edge differ. In the tables above its ends "
        "are taken as independent; here that chance is also a softmax of the min-marginals "
        "of pairs, which takes three more cuts an edge "
        f"({pairs:.0f} CPU seconds against {independent:.1f})."
    )
    titles = ["Kohli-Torr training", "log-likelihood, training", "test", "calibration error",
              "mean strength of edges"]  # fmt: skip
    return Section("Kohli-Torr training with min-marginals of pairs", titles, rows, words)


def single_section(rows: Sequence[Figures], pictures: Sequence[str]) -> Section:
    """Figure 1 in numbers: how often and how far likelihood training ends lower."""
    ours = np.array([row["likelihood"] for row in rows])
    cells = []
    for name in LEARNERS[:2]:
        other = np.array([row[name] for row in rows])
        cells.append(
            [name, f"{other.mean():.4f}", f"{int((ours < other).sum())} of {len(rows)}",
             f"{np.median(ours / np.maximum(other, np.finfo(float).tiny)):.2f}"]
        )  # fmt: skip
    cells.append(["likelihood", f"{ours.mean():.4f}", "", ""])
    literal = np.array([row["polyak"] for row in rows])
    cells.append(["likelihood, Polyak", f"{literal.mean():.4f}", "", ""])
    titles = ["", "negative log-likelihood, mean", "likelihood wins", "median ratio"]
    return Section(SINGLES, titles, cells, "", pictures)
