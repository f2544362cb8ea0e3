"""The pictures of tarlow2012: single fits (figure 1), training (figure 2), decisions (figure 6)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.report.displays import TrajectoryDisplay
from cutlearn.report.displays.style import LINES, bare

Floats = NDArray[np.float64]


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
        ax.set_title(f"{int((ours < other).sum())} of {len(rows)} below the line", fontsize=10)
        bare(ax)
    figure.axes[0].set_ylabel("likelihood training")
    figure.suptitle("negative log-likelihood of single aeroplanes", fontsize=11)
    return figure


def draw_training(runs: Mapping[str, Sequence[Floats]]) -> Any:
    """Runs on single images, (3, k): evaluations, CPU seconds, best value over logistic's."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.4), layout="constrained")
    clocks = ("evaluations", "seconds of CPU")
    for ax, (k, clock) in zip(figure.subplots(1, 2, sharey=True), enumerate(clocks)):
        paths = {name: [run[[k, 2]] for run in several] for name, several in runs.items()}
        TrajectoryDisplay(paths, clock, "").plot(ax)
        ax.axhline(1.0, color="0.6", lw=1, zorder=0)
        ax.set(ylim=(0.4, 1.6))
    figure.axes[0].set_ylabel("best value / that of logistic regression")
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
