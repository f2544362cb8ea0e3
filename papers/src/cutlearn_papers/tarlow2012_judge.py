"""The figures of tarlow2012: probabilities and masks in; means, bootstrap spreads and tables out.

Images weigh alike: log-likelihood, accuracy and IoU (mean over both labels within an image) are
means over images; the area under the ROC curve and the calibration error are those of all pixels.
The bootstrap resamples the images of a class, each with all the splits in which it is a test image.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import Floats, Mask
from cutlearn.energy.problem import Problem
from cutlearn.metrics import beliefs, confusion
from cutlearn.model.decisions import best_for_iou
from cutlearn_papers.course import Claim, Figures, Section
from cutlearn_papers.intervals import Interval

Believe = Callable[[Problem], Floats]

MEASURES = ("log-likelihood", "accuracy", "AUC", "calibration error", "IoU before", "IoU after")
DRAWS = 1000
# A split is won by more than this; less is the same model found twice.
LEAST = 1e-4
# Test log-likelihood, accuracy (%), AUC (figure 3), IoU (%) before and after (figure 5).
PAPER = {
    "aeroplane": {"kohli-torr, last": (-0.29, 89.7, 0.87, 63.4, 63.9),
                  "kohli-torr, best": (-0.28, 89.9, 0.87, 60.7, 61.8),
                  "likelihood": (-0.24, 90.4, 0.90, 64.1, 66.6)},
    "car": {"kohli-torr, last": (-0.65, 78.7, 0.65, 43.5, 44.2),
            "kohli-torr, best": (-0.51, 80.0, 0.62, 40.7, 43.3),
            "likelihood": (-0.51, 81.4, 0.65, 41.8, 45.9)},
    "cow": {"kohli-torr, last": (-0.64, 75.9, 0.77, 51.2, 51.7),
            "kohli-torr, best": (-0.52, 76.7, 0.65, 40.7, 47.1),
            "likelihood": (-0.41, 79.9, 0.82, 46.5, 52.8)},
    "dog": {"kohli-torr, last": (-0.45, 84.7, 0.66, 52.1, 52.0),
            "kohli-torr, best": (-0.38, 86.7, 0.66, 44.5, 47.2),
            "likelihood": (-0.34, 86.8, 0.79, 48.9, 55.3)},
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Judged:
    """One method on the images of one half.

    Attributes
    ----------
    images : (n,) int
        Their numbers in the class.
    each : (n, 4)
        Mean log-likelihood, accuracy (%), IoU (%) of the most probable labels and of those with the
        best expected IoU.
    curve : (n, 2, b)
        Pixels of both labels by the logit of label 1.
    bins : (n, 3, b)
        Pixels by probability, see `Beliefs`.
    """

    images: NDArray[np.int64]
    each: Floats
    curve: NDArray[np.float32]
    bins: Floats

    def values(self, times: Floats) -> Floats:
        """Give MEASURES, (r, 6), of images that count so many times, (r, n)."""
        weight = times / times.sum(axis=1, keepdims=True)
        likely, right, before, after = (weight @ self.each).T
        auc = area(np.tensordot(times, self.curve.astype(np.float64), 1))
        pixels, believed, true = np.moveaxis(np.tensordot(times, self.bins, 1), 1, 0)
        error = np.abs(believed - true).sum(axis=1) / pixels.sum(axis=1)
        return np.stack([likely, right, auc, error, before, after], axis=1)

    def once(self) -> Floats:
        """Give MEASURES with every image once."""
        return np.asarray(self.values(np.ones((1, len(self.images))))[0])

    def arrays(self, name: str) -> Figures:
        """Give everything as arrays under names that begin with `name`."""
        return {f"{name}|{key}": value for key, value in vars(self).items()}

    @staticmethod
    def read(name: str, part: Figures) -> "Judged":
        """Read what `arrays` gave."""
        return Judged(*(part[f"{name}|{key}"] for key in ("images", "each", "curve", "bins")))


# By method and part ("train", "test").
Split = dict[str, dict[str, Judged]]


def judge(
    problems: Sequence[Problem],
    masks: Sequence[Mask],
    images: NDArray[np.int64],
    believe: Believe,
) -> Judged:
    """Judge the probabilities (n, 2) that a method gives to each problem."""
    each, curves, bins = [], [], []
    for problem, mask in zip(problems, masks):
        q = believe(problem).reshape(*mask.shape, 2)
        found = beliefs(mask, q)
        mode = q.argmax(axis=-1).astype(np.uint8)
        each.append([
            found.mean_log_likelihood(),
            100 * float((mode == mask).mean()),
            100 * confusion(mask, mode).mean_iou(),
            100 * confusion(mask, best_for_iou(q)).mean_iou(),
        ])  # fmt: skip
        curves.append(found.curve.astype(np.float32))
        bins.append(found.bins)
    return Judged(images, np.array(each), np.stack(curves), np.stack(bins))


def area(curve: Floats) -> Floats:
    """The area under the ROC curve from (r, 2, b) pixels of labels 0 and 1 in rising bins.

    How often a pixel of 1 lies in a higher bin than one of 0; pixels of one bin count half.

    Examples
    --------
    >>> area(np.array([[[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]]])).tolist()
    [0.875]
    """
    zeros, ones = curve[:, 0], curve[:, 1]
    below = np.cumsum(zeros, axis=1) - 0.5 * zeros
    pairs = zeros.sum(axis=1) * ones.sum(axis=1)
    return np.asarray((ones * below).sum(axis=1) / pairs)


@dataclass(frozen=True, eq=False)
class Summary:
    """All splits of one class.

    Attributes
    ----------
    train, test : by method, (splits, 6) MEASURES
    drawn : by method, (1000, 6) MEASURES on the test images, mean over splits, resampled
    """

    train: dict[str, Floats]
    test: dict[str, Floats]
    drawn: dict[str, Floats]

    def versus(self, ours: str, other: str) -> tuple[Floats, Floats, NDArray[np.int64]]:
        """Give the test differences, (6,), their 95 % intervals, (2, 6), and the splits won."""
        gap = self.test[ours] - self.test[other]
        drawn = self.drawn[ours] - self.drawn[other]
        better = np.where(np.array(MEASURES) == "calibration error", -gap, gap)
        ends = np.quantile(drawn, [0.025, 0.975], axis=0)
        return gap.mean(axis=0), ends, (better > LEAST).sum(axis=0)


def summary_of(splits: Sequence[Split], n_images: int) -> Summary:
    """Add up the splits of one class."""
    rng = np.random.default_rng(0)
    times = rng.multinomial(n_images, np.full(n_images, 1 / n_images), DRAWS).astype(np.float64)
    # Of very few images a draw may leave a split without any.
    halves = [next(iter(split.values()))["test"].images for split in splits]
    times = times[np.all([times[:, half].sum(axis=1) > 0 for half in halves], axis=0)]
    parts: dict[str, dict[str, Floats]] = {"train": {}, "test": {}}
    drawn = {}
    for method in splits[0]:
        for part, found in parts.items():
            found[method] = np.array([split[method][part].once() for split in splits])
        tests = [split[method]["test"] for split in splits]
        drawn[method] = np.mean([one.values(times[:, one.images]) for one in tests], axis=0)
    return Summary(parts["train"], parts["test"], drawn)


def measure_sections(summaries: dict[str, Summary], words: str) -> list[Section]:
    """Figures 3 and 5: a table for each measure, a row for each method, a column for each class."""
    kinds = (("Log-likelihood", 0, 3), ("Accuracy, %", 1, 1), ("AUC", 2, 3),
             ("Calibration error", 3, 3))  # fmt: skip
    sections = [
        Section(f"{name} (figure 3)", ["train / test", *summaries], _rows(summaries, k, digits),
                words if k == 0 else "")
        for name, k, digits in kinds
    ]  # fmt: skip
    return [*sections, _decisions(summaries)]


def _rows(summaries: dict[str, Summary], k: int, digits: int) -> list[list[str]]:
    rows = []
    for method in _methods(summaries):
        row = [method]
        for summary in summaries.values():
            inside = summary.train[method][:, k].mean()
            row.append(f"{inside:.{digits}f} / {_spread(summary, method, k, digits)}")
        rows.append(row)
        if method in PAPER["cow"] and k < 3:
            rows.append([f"the paper's {method}", *(f"{PAPER[c][method][k]}" for c in summaries)])
    return rows


def _decisions(summaries: dict[str, Summary]) -> Section:
    rows = []
    for method in _methods(summaries):
        row = [method]
        for summary in summaries.values():
            before = summary.test[method][:, 4].mean()
            row.append(f"{before:.1f} → {_spread(summary, method, 5, 1)}")
        rows.append(row)
        if method in PAPER["cow"]:
            cells = ("{:.1f} → {:.1f}".format(*PAPER[c][method][3:]) for c in summaries)
            rows.append([f"the paper's {method}", *cells])
    words = "Mean IoU of both labels within an image, of the most probable labels and as decided."
    return Section("IoU before and after the decision (figure 5)",
                   ["IoU %, test: most probable → decided", *summaries], rows, words)  # fmt: skip


def versus_section(
    summaries: dict[str, Summary], pairs: Sequence[tuple[str, str]], heading: str, words: str = ""
) -> Section:
    """Paired differences of the methods that were run, with 95 % intervals and the splits won."""
    titles = ["class", "pair", "log-likelihood", "splits won", "AUC", "IoU % after"]
    cells = []
    for name, summary in summaries.items():
        for ours, other in pairs:
            gap, ends, won = summary.versus(ours, other)
            texts = []
            for k, digits in ((0, 3), (2, 3), (5, 1)):
                low, high = ends[:, k]
                texts.append(f"{gap[k]:+.{digits}f} ({low:+.{digits}f} to {high:+.{digits}f})")
            splits = f"{won[0]} of {len(summary.test[ours])}"
            cells.append([name, f"{ours} minus {other}", texts[0], splits, *texts[1:]])
    return Section(heading, titles, cells, words)


# Where a measure is shown, and with how many digits.
SHOWN = {"log-likelihood": ("Log-likelihood (figure 3)", 3), "AUC": ("AUC (figure 3)", 3),
         "accuracy": ("Accuracy, % (figure 3)", 1),
         "IoU after": ("IoU before and after the decision (figure 5)", 1)}  # fmt: skip


def comparison(summaries: dict[str, Summary], other: str, measure: str, paper: str) -> Claim:
    """Judge the claim that likelihood training is ahead of another method on test images.

    In accuracy the paper only says that it is competitive: no class may be clearly worse.
    """
    k, (table, digits) = MEASURES.index(measure), SHOWN[measure]
    gaps = {name: summary.versus("likelihood", other) for name, summary in summaries.items()}
    told = ", ".join(
        f"{name} {Interval(gap[k], ends[0, k], ends[1, k]).text(digits)}"
        for name, (gap, ends, _) in gaps.items()
    )
    if measure == "accuracy":
        text = f"In accuracy on test images it competes with {other}"
        return Claim.of(text, paper, told, all(e[1, k] >= 0 for _, e, _ in gaps.values()), table)
    text = f"In {measure} on test images it is ahead of {other}"
    return Claim.of(text, paper, told, all(e[0, k] > 0 for _, e, _ in gaps.values()), table)


def overconfidence_claim(summaries: dict[str, Summary]) -> Claim:
    """Judge the claim that Kohli-Torr's last point is too sure of itself."""
    k = MEASURES.index("calibration error")
    gaps = {name: s.versus("kohli-torr, last", "likelihood") for name, s in summaries.items()}
    told = ", ".join(f"{name} {Interval(g[k], e[0, k], e[1, k]).text(3)}"
                     for name, (g, e, _) in gaps.items())  # fmt: skip
    return Claim.of("Kohli-Torr's last point is too sure: its calibration error is larger",
                    "figure 4, by eye", told, all(e[0, k] > 0 for _, e, _ in gaps.values()),
                    "Calibration error (figure 3)")  # fmt: skip


def decision_claim(summaries: dict[str, Summary]) -> Claim:
    """Judge the claim that the decision gains IoU, more than with Kohli-Torr's last point."""
    gains = {
        method: [float((s.test[method][:, 5] - s.test[method][:, 4]).mean())
                 for s in summaries.values()]
        for method in ("likelihood", "kohli-torr, last")
    }  # fmt: skip
    ours, other = gains["likelihood"], gains["kohli-torr, last"]
    told = "; ".join(f"{name} {', '.join(f'{g:+.1f}' for g in found)}"
                     for name, found in gains.items())  # fmt: skip
    return Claim.of("The decision gains IoU with likelihood training, not with Kohli-Torr's last "
                    "point", "+2.5, +4.1, +6.3, +6.4 against +0.5, +0.7, +0.5, -0.1", told,
                    min(ours) > 0 and all(a > b for a, b in zip(ours, other)),
                    "IoU before and after the decision (figure 5)")  # fmt: skip


def _methods(summaries: dict[str, Summary]) -> list[str]:
    return list(next(iter(summaries.values())).test)


def _spread(summary: Summary, method: str, k: int, digits: int) -> str:
    mean, spread = summary.test[method][:, k].mean(), summary.drawn[method][:, k].std()
    return f"{mean:.{digits}f} ± {spread:.{digits}f}"
