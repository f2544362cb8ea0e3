"""Pictures of probabilities: reliability diagrams, ROC curves, maps of probability and entropy.

In: what `beliefs` and `predict_proba` give.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cutlearn.errors import InputError
from cutlearn.metrics import Beliefs, entropy
from cutlearn.report.displays.overlay import Picture, rgb
from cutlearn.report.displays.style import LINES, bare, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

# Bins with fewer pixels than this part of all say nothing and are not drawn.
RARE = 1e-4


@dataclass
class ReliabilityDisplay:
    """True shares against probabilities: the diagonal can be believed.

    Parameters
    ----------
    beliefs : mapping from a name of a model to the Beliefs of its images, added up

    Examples
    --------
    >>> from cutlearn.report.displays import ReliabilityDisplay
    >>> from cutlearn.metrics import beliefs
    >>> one = beliefs([[0, 1]], [[[0.9, 0.1], [0.2, 0.8]]])
    >>> ReliabilityDisplay({"mine": one}).plot().ax_.get_xlabel()
    'probability of the object'
    """

    beliefs: Mapping[str, Beliefs]
    ax_: Axes = field(init=False, repr=False)
    figure_: Figure | SubFigure = field(init=False, repr=False)

    def plot(self, ax: Axes | None = None, title: str = "reliability") -> ReliabilityDisplay:
        """Draw a line for each model into axes, or into a new figure."""
        self.ax_ = ax = _square(new_axes((3.8, 3.8)) if ax is None else ax)
        self.figure_ = ax.figure
        for color, (name, found) in zip(LINES, self.beliefs.items()):
            pixels, believed, true = found.bins
            kept = pixels > RARE * pixels.sum()
            n = pixels[kept]
            label = f"{name}: error {found.calibration_error():.2%}"
            x, y = believed[kept] / n, true[kept] / n
            ax.plot(x, y, color=color, lw=1.2, label=label)
            # Large dots carry many pixels, on a logarithmic scale: most pixels are nearly sure.
            size = 6 + 30 * (1 + np.log10(n / pixels.sum()) / -np.log10(RARE)).clip(0, 1)
            ax.scatter(x, y, s=size, color=color, lw=0)
        ax.set(title=title, xlabel="probability of the object", ylabel="true share of the object")
        ax.legend(loc="upper left", frameon=False, fontsize="small")
        bare(ax)
        return self


@dataclass
class RocDisplay:
    """How many true pixels are found for how many false ones, at every threshold.

    Parameters
    ----------
    beliefs : mapping from a name of a model to the Beliefs of its images, added up

    Examples
    --------
    >>> from cutlearn.report.displays import RocDisplay
    >>> from cutlearn.metrics import beliefs
    >>> one = beliefs([[0, 1]], [[[0.9, 0.1], [0.2, 0.8]]])
    >>> RocDisplay({"mine": one}).plot().ax_.get_ylabel()
    'part of the object found'
    """

    beliefs: Mapping[str, Beliefs]
    ax_: Axes = field(init=False, repr=False)
    figure_: Figure | SubFigure = field(init=False, repr=False)

    def plot(self, ax: Axes | None = None, title: str = "ROC") -> RocDisplay:
        """Draw a curve for each model into axes, or into a new figure."""
        self.ax_ = ax = _square(new_axes((3.8, 3.8)) if ax is None else ax)
        self.figure_ = ax.figure
        for color, (name, found) in zip(LINES, self.beliefs.items()):
            ax.plot(*found.roc(), color=color, lw=1.5, label=f"{name}: area {found.auc():.4f}")
        ax.set(title=title, xlabel="part of the rest taken too", ylabel="part of the object found")
        ax.legend(loc="lower right", frameon=False, fontsize="small")
        bare(ax)
        return self


@dataclass
class ProbabilityDisplay:
    """Images beside the probability of a label and the doubt about it.

    Parameters
    ----------
    images : sequence of (h, w) or (h, w, 3) arrays
    probabilities : sequence of (h, w, L) arrays
    label : int, default 1

    Attributes
    ----------
    axes_ : (rows, 3) array of axes
    figure_ : Figure

    Examples
    --------
    >>> import numpy as np
    >>> from cutlearn.report.displays import ProbabilityDisplay
    >>> half = np.full((4, 5, 2), 0.5)
    >>> ProbabilityDisplay([np.zeros((4, 5))], [half]).plot().axes_.shape
    (1, 3)
    """

    images: Sequence[npt.NDArray[Any]]
    probabilities: Sequence[npt.NDArray[np.floating]]
    label: int = 1
    axes_: npt.NDArray[Any] = field(init=False, repr=False)
    figure_: Figure | SubFigure = field(init=False, repr=False)

    def plot(self, figure: Any = None) -> ProbabilityDisplay:
        """Draw a row for each image into a figure (or a part of one), or into a new figure."""
        n = len(self.images)
        if n != len(self.probabilities) or not n:
            raise InputError(
                f"probabilities: there are {len(self.probabilities)} for {n} images, but there "
                "must be one for each image, and at least one. Give what predict_proba gave for "
                "these images."
            )
        if figure is None:
            from matplotlib.figure import Figure

            figure = Figure(figsize=(9.2, 2.3 * n + 0.5), layout="constrained")
        self.figure_ = figure
        self.axes_ = figure.subplots(n, 3, squeeze=False)
        for axes, image, q in zip(self.axes_, self.images, self.probabilities):
            self._row(figure, axes, rgb(np.asarray(image)), np.asarray(q))
        for ax, title in zip(self.axes_[0], ("image", "probability", "entropy (bits)")):
            ax.set_title(title, fontsize="medium")
        return self

    def _row(self, figure: Any, axes: Any, image: Picture, q: npt.NDArray[np.floating]) -> None:
        top = float(np.log2(q.shape[-1]))
        axes[0].imshow(image, interpolation="nearest")
        maps = ((q[..., self.label], "viridis", 1.0), (entropy(q), "magma", top))
        for ax, (values, colors, high) in zip(axes[1:], maps):
            drawn = ax.imshow(values, cmap=colors, vmin=0, vmax=high, interpolation="nearest")
            figure.colorbar(drawn, ax=ax, shrink=0.85, pad=0.02).outline.set_visible(False)
        axes[2].set_xlabel(f"{entropy(q).mean():.3f} bits a pixel", fontsize="small")
        for ax in axes:
            ax.set(xticks=[], yticks=[])
            ax.spines[:].set_visible(False)


def _square(ax: Axes) -> Axes:
    """Make axes the square from 0 to 1, with its diagonal."""
    ax.plot([0, 1], [0, 1], color="0.6", lw=1, zorder=0)
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    return ax
