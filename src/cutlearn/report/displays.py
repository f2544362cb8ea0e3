"""Pictures of models, computed and drawn apart: numbers come in, axes of a figure are filled.

Each display keeps what it shows as attributes, so that it can be drawn again in another place;
`plot` draws into given axes or a new figure, never into a global state of matplotlib. Colours
are distinct for all kinds of colour vision: hits green, extra pixels orange, missed ones blue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from cutlearn.errors import InputError
from cutlearn.metrics import VOID

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

Float = npt.NDArray[np.float64]
Picture = npt.NDArray[np.float64]

HIT, EXTRA, MISSED, UNKNOWN = (0, 158, 115), (230, 110, 0), (60, 140, 230), (128, 128, 128)
COLORS = {"hit": HIT, "extra": EXTRA, "missed": MISSED}
# How strongly a colour covers the image: right pixels stay see-through, wrong ones stand out.
COVER = {"hit": 0.45, "extra": 0.85, "missed": 0.85}
LINES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")


class StepLike(Protocol):
    """What a curve needs of a step of training."""

    @property
    def number(self) -> int:
        """Steps done, from 1."""

    @property
    def best(self) -> float:
        """The best objective so far."""

    @property
    def lower_bound(self) -> float:
        """The certified bound."""

    @property
    def relative_gap(self) -> float:
        """The gap in the units of the tolerance."""

    @property
    def tol(self) -> float:
        """The tolerance."""


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
            raise InputError("steps: none found; at least one was wanted. Train first.")
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
            note = f"gap {self.relative_gap[-1]:.2%} (wanted {self.tol:.2%})"
        low = float(below[half])
        room = max(high - low, 1e-3 * abs(high), 1e-12)
        bottom = max(min(0.0, float(below[-1])), low - 2 * room)
        ax.set_ylim(bottom, min(float(self.objective.max()), high + 2 * room) + 0.2 * room)
        ax.locator_params(axis="x", integer=True)
        ax.legend(loc="best", frameon=False, fontsize="small", title=note, title_fontsize="small")
        bare(ax)
        return self


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


@dataclass
class MasksDisplay:
    """Images beside their true masks and the predictions of one or more models.

    Parameters
    ----------
    images : list of (h, w, 3) float arrays in [0, 1]
    truths : list of (h, w) arrays
        0, 1, and 255 for void.
    predictions : mapping from a name of a model to a list of (h, w) arrays

    Attributes
    ----------
    axes_ : (rows, columns) array of axes
    figure_ : Figure

    Examples
    --------
    >>> import numpy as np
    >>> from cutlearn.report.displays import MasksDisplay
    >>> blank = np.zeros((4, 5), np.uint8)
    >>> MasksDisplay.from_predictions([blank / 1.0], [blank], [blank]).plot().axes_.shape
    (1, 3)
    """

    images: list[Picture]
    truths: list[npt.NDArray[Any]]
    predictions: dict[str, list[npt.NDArray[Any]]]
    axes_: npt.NDArray[Any] = field(init=False, repr=False)
    figure_: Figure | SubFigure = field(init=False, repr=False)

    @classmethod
    def from_predictions(
        cls,
        images: Sequence[npt.ArrayLike],
        truths: Sequence[npt.ArrayLike],
        predictions: Sequence[npt.ArrayLike] | Mapping[str, Sequence[npt.ArrayLike]],
    ) -> MasksDisplay:
        """Take the masks of one model, or of several by name.

        Parameters
        ----------
        images : sequence of (h, w) or (h, w, 3) arrays in [0, 1]
        truths : sequence of (h, w) arrays
        predictions : sequence of (h, w) arrays, or a mapping from names to such sequences
        """
        models = predictions if isinstance(predictions, Mapping) else {"prediction": predictions}
        lengths = {len(images), len(truths), *(len(masks) for masks in models.values())}
        if len(lengths) != 1 or 0 in lengths:
            raise InputError(
                f"masks: lists of lengths {sorted(lengths)} found; one length for images, truths "
                "and predictions, and at least 1, was wanted. Give one mask for each image."
            )
        return cls(
            [rgb(np.asarray(image)) for image in images],
            [np.asarray(mask) for mask in truths],
            {name: [np.asarray(mask) for mask in masks] for name, masks in models.items()},
        )

    def plot(self, figure: Any = None) -> MasksDisplay:
        """Draw a row for each image into a figure (or a part of one), or into a new figure."""
        columns = 2 + len(self.predictions)
        if figure is None:
            from matplotlib.figure import Figure

            figure = Figure(figsize=(2.6 * columns, 2.1 * len(self.images) + 0.6),
                            layout="constrained")  # fmt: skip
        self.figure_ = figure
        self.axes_ = figure.subplots(len(self.images), columns, squeeze=False)
        for row, (axes, image, truth) in enumerate(zip(self.axes_, self.images, self.truths)):
            pictures = [image, errors_over(image, truth, truth)]
            titles = ["image", "truth"]
            for name, masks in self.predictions.items():
                pictures.append(errors_over(image, truth, masks[row]))
                titles.append(name)
                axes[len(pictures) - 1].set_xlabel(_verdict(truth, masks[row]), fontsize="small")
            for ax, picture, title in zip(axes, pictures, titles):
                ax.imshow(picture, interpolation="nearest")
                ax.set(xticks=[], yticks=[])
                ax.spines[:].set_visible(False)
                if row == 0:
                    ax.set_title(title, fontsize="medium")
        self._legend(figure)
        return self

    def _legend(self, figure: Any) -> None:
        from matplotlib.patches import Patch

        words = {
            "hit": "right",
            "extra": "extra (predicted, not true)",
            "missed": "missed (true, not predicted)",
        }
        patches = [Patch(color=np.array(COLORS[kind]) / 255, label=words[kind]) for kind in COLORS]
        figure.legend(handles=patches, loc="outside lower center", ncols=3, frameon=False,
                      fontsize="small")  # fmt: skip


def rgb(image: npt.NDArray[Any]) -> Picture:
    """Give an image as colours for a screen, with its own darkest and brightest values.

    Parameters
    ----------
    image : (h, w) or (h, w, 3) array

    Returns
    -------
    (h, w, 3) float64 array in [0, 1]
    """
    values = np.asarray(image, np.float64)
    # A few hot pixels must not darken all others.
    low, high = np.quantile(values, [0.002, 0.998])
    values = np.clip((values - low) / max(high - low, 1e-9), 0, 1)
    return np.repeat(values[..., None], 3, axis=2) if values.ndim == 2 else values[..., :3]


def errors_over(
    image: Picture, truth: npt.NDArray[Any], predicted: npt.NDArray[Any], label: int = 1
) -> Picture:
    """Paint right, extra and missed pixels of a label over an image.

    Parameters
    ----------
    image : (h, w, 3) float array in [0, 1]
    truth, predicted : (h, w) arrays
        Void pixels of the truth are greyed.

    Returns
    -------
    (h, w, 3) float64 array in [0, 1]
    """
    kept = truth != VOID
    true, found = kept & (truth == label), kept & (predicted == label)
    painted = np.array(image, np.float64)
    kinds = {"hit": true & found, "extra": found & ~true, "missed": true & ~found}
    for kind, where in kinds.items():
        color = np.array(COLORS[kind]) / 255
        painted[where] = (1 - COVER[kind]) * painted[where] + COVER[kind] * color
    painted[~kept] = 0.5 * painted[~kept] + 0.5 * np.array(UNKNOWN) / 255
    return painted


def _verdict(truth: npt.NDArray[Any], predicted: npt.NDArray[Any]) -> str:
    """Say in a few words how good a mask is."""
    from cutlearn.metrics import confusion

    table = confusion(truth, predicted)
    true, found = table.area()
    area = f", area {(found - true) / true:+.1%}" if true else ""
    return f"IoU {table.iou():.2f}{area}"


def _span(values: Float) -> tuple[float, float]:
    """Give the ends of an axis that shows all values, with some room around them."""
    if not values.size:
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    room = 0.08 * (high - low) or 1.0
    return max(0.0, low - room), high + room


def new_axes(size: tuple[float, float]) -> Axes:
    """Give the axes of a new figure that no global state knows."""
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained").subplots()


def bare(ax: Axes) -> None:
    """Leave only the lines that carry numbers."""
    ax.spines[["top", "right"]].set_visible(False)
