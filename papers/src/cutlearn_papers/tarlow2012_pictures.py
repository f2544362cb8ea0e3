"""The pictures of tarlow2012: figures 1, 2, 4, 6 and 7."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.arrays import Floats
from cutlearn.model.decisions import best_for_iou
from cutlearn.report.displays import LINES, bare
from cutlearn_papers.pictures import Pictures
from cutlearn_papers.trajectory import TrajectoryDisplay


def draw_singles(rows: Sequence[dict[str, float]]) -> Any:
    """Negative log-likelihoods of single images: likelihood training against both others."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.4), layout="constrained")
    ours = _shown([row["likelihood"] for row in rows])
    for ax, name in zip(figure.subplots(1, 2, sharey=True), ("logistic", "kohli-torr")):
        other = _shown([row[name] for row in rows])
        ends = [0.8 * min(ours.min(), other.min()), 1.2 * max(ours.max(), other.max())]
        ax.plot(ends, ends, color="0.6", lw=1)
        ax.scatter(other, ours, s=18, color=LINES[0], lw=0, alpha=0.8)
        ax.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal", xlabel=name)
        below = sum(row["likelihood"] < row[name] for row in rows)
        ax.set_title(f"{below} of {len(rows)} below the line", fontsize=10)
        bare(ax)
    figure.axes[0].set_ylabel("likelihood training")
    figure.suptitle("negative log-likelihood of single aeroplanes", fontsize=11)
    return figure


def draw_training(runs: Mapping[str, Mapping[str, Floats]], base: Mapping[str, float]) -> Any:
    """Runs on the training images of each class, (3, k): evaluations, CPU seconds, best value.

    base : the value of logistic regression of each class
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.4 * len(runs), 3.2), layout="constrained")
    for ax, (name, found) in zip(np.atleast_1d(figure.subplots(1, len(runs))), runs.items()):
        for color, (learner, path) in zip(LINES, found.items()):
            ax.plot(path[1], path[2], color=color, label=learner)
        bare(ax)
        ax.set_xlabel("CPU seconds")
        ax.axhline(base[name], color="0.6", lw=1, zorder=0)
        lowest = min(path[2, -1] for path in found.values())
        ax.set(xscale="log", ylim=(lowest - 0.1 * base[name], 1.1 * base[name]), title=name)
    figure.axes[0].set_ylabel("best negative log-likelihood so far")
    figure.axes[0].legend(frameon=False, fontsize=8)
    return figure


def draw_maps(pictures: Pictures, found: Mapping[str, Sequence[Floats]], count: int = 5) -> Any:
    """Figure 4: test images, and the probability of the object by three methods."""
    return _grid(
        [[image, *(q[i][..., 1] for q in found.values())]
         for i, image in enumerate(pictures.images[:count])],
        ["image", *found],
    )  # fmt: skip


def draw_changes(pictures: Pictures, found: Sequence[Floats], count: int = 5) -> Any:
    """Figure 7: masks before and after the decision, where it changes most."""
    before = [q.argmax(axis=-1) for q in found]
    after = [best_for_iou(q) for q in found]
    moved = [int((a != b).sum()) for a, b in zip(before, after)]
    most = sorted(range(len(found)), key=lambda i: -moved[i])[:count]
    rows = [[pictures.images[i], pictures.masks[i], before[i], after[i]] for i in most]
    return _grid(rows, ["image", "truth", "most probable", "decided"])


def _grid(rows: Sequence[Sequence[NDArray[Any]]], titles: Sequence[str]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.4 * len(titles), 1.9 * len(rows)), layout="constrained")
    for axes, row in zip(figure.subplots(len(rows), len(titles), squeeze=False), rows):
        for ax, picture, title in zip(axes, row, titles):
            ax.imshow(picture, vmin=0, vmax=1, cmap="gray")
            ax.set_axis_off()
            if ax in figure.axes[: len(titles)]:
                ax.set_title(title, fontsize=9)
    return figure


def draw_decisions(
    probabilities: Mapping[str, Sequence[Floats]], masks: Sequence[NDArray[Any]]
) -> Any:
    """How the decision for IoU moves the masks of test images, one panel for each model."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.6 * len(probabilities), 3.6), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, len(probabilities), sharex=True, sharey=True))
    for ax, (name, found) in zip(axes, probabilities.items()):
        shown = TrajectoryDisplay.from_decisions({name: found}, masks).plot(ax, name)
        ends = np.array([[line[1, 0], line[1, -1]] for line in shown.paths[name]])
        better = int((ends[:, 1] > ends[:, 0]).sum())
        worse = int((ends[:, 1] < ends[:, 0]).sum())
        ax.plot([0, 1], [0, 1], color="0.8", lw=1, zorder=0)
        ax.set(xlim=(0.2, 1.02), ylim=(0.2, 1.02), aspect="equal")
        ax.set_title(f"{name}\n{better} masks gain, {worse} lose", fontsize=9)
        ax.get_legend().remove()
    return figure


def _shown(values: Sequence[float]) -> Floats:
    """Values for a logarithmic axis, which has no place for the 0 of a perfect fit."""
    return np.maximum(np.array(values, np.float64), 1e-5)
