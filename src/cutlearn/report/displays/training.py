"""The curve of a training: steps in, the objective and its certified bound drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from cutlearn.errors import InputError
from cutlearn.report.displays.style import LINES, bare, new_axes
from cutlearn.run.progress import StepLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

Float = npt.NDArray[np.float64]


@dataclass
class TrainingDisplay:
    """The curve of a training run: the best objective and the certified bound, if any, meet.

    Parameters
    ----------
    steps : (k,) int array
        Numbers of the steps, from 1.
    objective : (k,) float array
        The best one so far.
    lower_bound : (k,) float array or None
        The certified bound; a likelihood has none.
    relative_gap : (k,) float array
    tol : float

    Attributes
    ----------
    ax_, figure_
        What was drawn into.

    Examples
    --------
    >>> import numpy as np
    >>> from cutlearn.report.displays import TrainingDisplay
    >>> curve = TrainingDisplay(np.arange(1, 3), np.array([2.0, 1.0]), np.array([0.0, 0.99]),
    ...                         np.array([1.0, 0.01]), 0.01)
    >>> len(curve.plot().ax_.lines)
    2
    """

    steps: npt.NDArray[np.int64]
    objective: Float
    lower_bound: Float | None
    relative_gap: Float
    tol: float
    ax_: Axes = field(init=False, repr=False)
    figure_: Figure | SubFigure = field(init=False, repr=False)

    @classmethod
    def from_steps(cls, steps: Sequence[StepLike], bounded: bool = True) -> TrainingDisplay:
        """Take the curve from the steps of a run.

        Parameters
        ----------
        steps : sequence of Step
            At least one: `model.steps_`, or `result.steps`.
        bounded : bool
            Whether the run has a bound: False for likelihoods.
        """
        if not len(steps):
            raise InputError("steps: there are none, but a curve needs at least one. Train first.")
        return cls(
            np.array([step.number for step in steps], np.int64),
            np.array([step.best for step in steps]),
            np.array([step.lower_bound for step in steps]) if bounded else None,
            np.array([step.relative_gap for step in steps]),
            float(steps[-1].tol),
        )

    def plot(self, ax: Axes | None = None, title: str = "training") -> TrainingDisplay:
        """Draw the curve into axes, or into a new figure."""
        self.ax_ = ax = new_axes((4.5, 3.0)) if ax is None else ax
        self.figure_ = ax.figure
        ax.plot(self.steps, self.objective, color=LINES[1], marker="o", ms=3, label="objective")
        ax.set(title=title, xlabel="step", ylabel="objective")
        # Early steps are far off and would flatten what matters: show the last half in full.
        half = len(self.steps) // 2
        high, end = float(self.objective[half]), float(self.objective[-1])
        note, below = "no bound is proved", np.full(len(self.steps), end)
        if self.lower_bound is not None:
            below = self.lower_bound
            ax.plot(self.steps, below, color=LINES[0], marker="o", ms=3, label="lower bound")
            ax.fill_between(self.steps, below, self.objective, color="0.9", lw=0)
            note = f"gap {self.relative_gap[-1]:.2%} (asked for {self.tol:.2%})"
        low = float(below[half])
        room = max(high - low, 1e-3 * abs(high), 1e-12)
        bottom = max(min(0.0, float(below[-1])), low - 2 * room)
        ax.set_ylim(bottom, min(float(self.objective.max()), high + 2 * room) + 0.2 * room)
        ax.locator_params(axis="x", integer=True)
        ax.legend(loc="best", frameon=False, fontsize="small", title=note, title_fontsize="small")
        bare(ax)
        return self
