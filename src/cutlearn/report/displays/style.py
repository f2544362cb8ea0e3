"""What all displays look like: colours that are distinct for all kinds of colour vision, axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")


def new_axes(size: tuple[float, float]) -> Axes:
    """Give the axes of a new figure that no global state knows."""
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained").subplots()


def bare(ax: Axes) -> None:
    """Leave only the lines that carry numbers."""
    ax.spines[["top", "right"]].set_visible(False)
