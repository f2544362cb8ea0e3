"""Paths of many images or runs in one picture: each line goes from a dot to a ring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from cutlearn.arrays import AnyArray, Floats
from cutlearn.errors import InputError
from cutlearn.metrics import confusion
from cutlearn.model.decisions import best_for_iou, expected_iou
from cutlearn.report.displays import LINES, bare, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

# Points of a path between its ends.
POINTS = 12


@dataclass
class TrajectoryDisplay:
    """Where something came from and where it went, one line each, a colour for each model.

    Parameters
    ----------
    paths : mapping from a name of a model to a list of (2, k) arrays
        The x and y of every point of a line.
    xlabel, ylabel : str

    Attributes
    ----------
    ax_, figure_
        What was drawn into.

    Examples
    --------
    >>> import numpy as np
    >>> from cutlearn_papers.trajectory import TrajectoryDisplay
    >>> q, mask = np.array([[[0.55, 0.45], [0.9, 0.1], [0.6, 0.4]]]), np.array([[1, 0, 0]])
    >>> shown = TrajectoryDisplay.from_decisions({"mine": [q]}, [mask])
    >>> shown.paths["mine"][0][1].round(2).tolist()
    [0.33, 1.0]
    """

    paths: Mapping[str, Sequence[Floats]]
    xlabel: str
    ylabel: str
    ax_: Axes = field(init=False, repr=False)
    figure_: Figure | SubFigure = field(init=False, repr=False)

    @classmethod
    def from_decisions(
        cls, probabilities: Mapping[str, Sequence[Floats]], masks: Sequence[AnyArray]
    ) -> TrajectoryDisplay:
        """Show how the decision for IoU moves from the most probable labels (tarlow2012, figure 6).

        Along x the expected IoU grows; where y grows with it, the probabilities can be believed.

        Parameters
        ----------
        probabilities : mapping from a name of a model to (h, w, 2) arrays
        masks : (h, w) arrays, 255 is void
        """
        for name, found in probabilities.items():
            if len(found) != len(masks):
                raise InputError(
                    f"probabilities: there are {len(found)} of {name} for {len(masks)} masks, but "
                    "each mask needs one. Give what predict_proba gave for these images."
                )
        paths = {
            name: [_decided(q, mask) for q, mask in zip(found, masks)]
            for name, found in probabilities.items()
        }
        return cls(paths, "expected IoU", "true IoU")

    def plot(self, ax: Axes | None = None, title: str = "") -> TrajectoryDisplay:
        """Draw the lines into axes, or into a new figure."""
        self.ax_ = ax = new_axes((4.2, 3.6)) if ax is None else ax
        self.figure_ = ax.figure
        for color, (name, several) in zip(LINES, self.paths.items()):
            for number, (x, y) in enumerate(several):
                ax.plot(x, y, color=color, lw=1, alpha=0.7, label=name if number == 0 else None)
                ax.plot(x[:1], y[:1], color=color, marker="o", ms=3, lw=0)
                ax.plot(x[-1:], y[-1:], color=color, marker="o", ms=5, mfc="white", lw=0)
        ax.set(title=title, xlabel=self.xlabel, ylabel=self.ylabel)
        ax.legend(loc="best", frameon=False, fontsize="small")
        bare(ax)
        return self


def _decided(q: Floats, mask: AnyArray) -> Floats:
    """Expected and true IoU (mean over both labels) from the most probable labels to the best."""
    table = np.asarray(q, np.float64)
    flat = table.reshape(-1, 2)
    order = np.argsort(-flat[:, 1], kind="stable")
    ends = int((flat[:, 1] > flat[:, 0]).sum()), int(best_for_iou(table).sum())
    points = []
    for m in dict.fromkeys(np.linspace(*ends, POINTS).astype(np.int64).tolist()):
        labels = np.zeros(len(flat), np.uint8)
        labels[order[:m]] = 1
        points.append((expected_iou(flat, labels),
                       confusion(mask, labels.reshape(mask.shape)).mean_iou()))  # fmt: skip
    return np.array(points).T
