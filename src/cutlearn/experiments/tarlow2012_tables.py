"""The tables and claims of tarlow2012, and how much of it is run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutlearn.experiments.course import Claim, Figures, Section
from cutlearn.experiments.tarlow2012_judge import MEASURES, Summary, comparison, decision_claim

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
    singles, splits : int
        Aeroplanes that are fitted alone, and random halves of every class.
    steps, fixed_steps : int
        At most so many of likelihood training, and of Kohli-Torr training, which makes no progress
        after its first steps.
    """

    side: int = 100
    classes: tuple[str, ...] = ("aeroplane", "car", "cow", "dog")
    singles: int = 30
    splits: int = 5
    steps: int = 150
    fixed_steps: int = 60


def words_of(scale: Scale) -> str:
    """Say how the tables were made, and where they depart from the paper."""
    return (
        f"{scale.splits} random halves of each class of voc2010_coseg (the paper: another "
        f"selection of images), smaller side {scale.side}, 4-connected, 25 linear node features "
        f"and 4 edge features (the paper: 84 and 4), no regulariser unless C was chosen, at most "
        f"{scale.steps} steps (Kohli-Torr {scale.fixed_steps}). Means over the splits; ± is the "
        "deviation of a bootstrap over the test images of a class (1000 draws)."
    )


def claims_of(
    alone: Sequence[Figures], summaries: dict[str, Summary], spent: Figures
) -> list[Claim]:
    """Judge what the paper says."""
    won = sum(one["likelihood"] < min(one["logistic"], one["kohli-torr"]) for one in alone)
    inside = {name: s.train["likelihood"][:, 0] - s.train["kohli-torr, best"][:, 0]
              for name, s in summaries.items()}  # fmt: skip
    told = ", ".join(f"{name} {int((d > 0).sum())} of {len(d)}" for name, d in inside.items())
    five = 1000 * spent["five_labels_cpu"]
    return [
        Claim.of("On every single image it reaches a better training likelihood", "all images",
                 f"{won} of {len(alone)}", won == len(alone), SINGLES),
        Claim.of("So it does on whole training sets, against Kohli-Torr's best point",
                 "all classes", f"splits won: {told}", all((d > 0).all() for d in inside.values()),
                 "Log-likelihood (figure 3)"),
        comparison(summaries, "kohli-torr, last", "by .05, .14, .23, .11"),
        comparison(summaries, "kohli-torr, best", "by .04, .00, .11, .04"),
        comparison(summaries, "logistic", "not compared"),
        decision_claim(summaries),
        Claim.of("Probabilities of five labels take a fraction of a second",
                 "140 to 160 ms", f"{five:.0f} ms of CPU", five < 160,
                 "What the decision does to dogs (figure 6)"),
    ]  # fmt: skip


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


def time_words(t: Figures) -> str:
    """Say how long training and probabilities took."""
    return (
        f"Time: likelihood training of all {t['dogs']} dogs {t['training_seconds']:.0f} s, "
        f"{t['training_cpu']:.0f} s of CPU ({t['steps']} steps after the race of the starts; "
        "the paper: over 1000 s on 17 processors for 48 images). Probabilities of five labels, "
        f"one image: median {1000 * t['five_labels_seconds']:.0f} ms, "
        f"{1000 * t['five_labels_cpu']:.0f} ms of CPU (the paper: 140 to 160 ms)."
    )


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
    titles = ["", "negative log-likelihood, mean", "likelihood wins", "median ratio"]
    return Section(SINGLES, titles, cells, "", pictures)
