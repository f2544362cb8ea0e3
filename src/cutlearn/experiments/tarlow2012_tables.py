"""The tables and claims of tarlow2012, and how much of it is run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutlearn.experiments.course import VERDICTS, Claim, Figures, Section
from cutlearn.experiments.tarlow2012_judge import (
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
    singles, splits : int
        Aeroplanes that are fitted alone, and random halves of every class.
    steps, fixed_steps : int
        At most so many of likelihood training, and of Kohli-Torr training, which makes no progress
        after its first steps.
    users : bool
        Also what a user would do, which the paper does not have.
    """

    side: int = 100
    classes: tuple[str, ...] = ("aeroplane", "car", "cow", "dog")
    singles: int = 30
    splits: int = 5
    steps: int = 150
    fixed_steps: int = 60
    users: bool = True


def words_of(scale: Scale) -> str:
    """Say how the tables were made, and where they depart from the paper."""
    return (
        f"{scale.splits} random halves of each class of voc2010_coseg (the paper: another "
        f"selection of images), smaller side {scale.side}, 4-connected, 21 linear node features "
        f"without position and 4 edge features (the paper: 84 and 4), no regulariser unless C was "
        f'chosen, at most {scale.steps} steps (Kohli-Torr {scale.fixed_steps}). "Polyak": the '
        "paper's own steps. Means over the splits; ± is the "
        "deviation of a bootstrap over the test images of a class (1000 draws)."
    )


def claims_of(
    alone: Sequence[Figures], summaries: dict[str, Summary], spent: Figures
) -> list[Claim]:
    """Judge what the paper says; a row for each comparison that it makes."""

    def won(ours: str, other: str, margin: float = 0.0) -> int:
        return sum(one[ours] < one[other] - margin for one in alone)

    def training(other: str) -> tuple[str, bool]:
        gaps = {name: s.train["likelihood"][:, 0] - s.train[other][:, 0]
                for name, s in summaries.items()}  # fmt: skip
        told = ", ".join(f"{name} {int((d > LEAST).sum())} of {len(d)}" for name, d in gaps.items())
        return f"splits won: {told}", all((d > LEAST).all() for d in gaps.values())

    five, count = 1000 * spent["five_labels_cpu"], len(alone)
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
        Claim.of("Probabilities of five labels take a fraction of a second",
                 "140 to 160 ms", f"{five:.0f} ms of CPU", five < 160,
                 "What the decision does to dogs (figure 6)"),
        Claim("Five labels: IoU is that of loopy belief propagation, and better when decided",
              "17.7 against 17.2; 20.0 against 17.3", "not run: five labels are not learned here",
              VERDICTS[2], "none"),
        Claim("Loopy belief propagation is two orders of magnitude slower, and does not always end",
              "11 to 59 s, 30 % not converged", "not run by this command", VERDICTS[2], "none"),
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
    literal = np.array([row["polyak"] for row in rows])
    cells.append(["likelihood, Polyak", f"{literal.mean():.4f}", "", ""])
    titles = ["", "negative log-likelihood, mean", "likelihood wins", "median ratio"]
    return Section(SINGLES, titles, cells, "", pictures)
