"""Areas of many images: true and predicted pixel counts in, one dot an image drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from cutlearn.report.displays.style import LINES, bare, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure


@dataclass
class AreaDisplay:
    """Predicted against true areas of many images: the diagonal is right.

    Parameters
    ----------
    true_area : (n,) array
        Pixels of the object in each image.
    predicted : mapping from a name of a model to (n,) arrays

    Examples
    --------
    >>> from cutlearn.report.displays import AreaDisplay
    >>> AreaDisplay([10, 20], {"mine": [11, 19]}).plot().ax_.get_xlabel()
    'true area (pixels)'
    """

    true_area: npt.ArrayLike
    predicted: Mapping[str, npt.ArrayLike]
    ax_: Axes = field(init=False, repr=False)
    figure_: Figure | SubFigure = field(init=False, repr=False)

    def plot(self, ax: Axes | None = None, title: str = "areas of all images") -> AreaDisplay:
        """Draw the points into axes, or into a new figure."""
        self.ax_ = ax = new_axes((3.5, 3.5)) if ax is None else ax
        self.figure_ = ax.figure
        true = np.asarray(self.true_area, np.float64)
        values = np.concatenate([true, *(np.ravel(v) for v in self.predicted.values())])
        low, top = _span(values)
        ax.plot([low, top], [low, top], color="0.6", lw=1, zorder=0)
        for color, mark, (name, areas) in zip(LINES[1::-1], "os", self.predicted.items()):
            ax.scatter(true, areas, s=18, color=color, marker=mark, alpha=0.75, lw=0, label=name)
        ax.set(title=title, xlabel="true area (pixels)", ylabel="predicted area (pixels)")
        ax.set(xlim=(low, top), ylim=(low, top), aspect="equal")
        ax.legend(loc="lower right", frameon=False, fontsize="small", handletextpad=0.1)
        bare(ax)
        return self


def _span(values: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Give the ends of an axis that shows all values, with some room around them."""
    if not values.size:
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    room = 0.08 * (high - low) or 1.0
    return max(0.0, low - room), high + room
