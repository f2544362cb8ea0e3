"""Pictures of models, computed and drawn apart, in the manner of scikit-learn's displays.

A display keeps what it shows as attributes, so that it can be drawn again in another place. `plot`
draws into given axes (or a figure, where a display has several axes) or into a new figure, never
into a global state of matplotlib. Of masks, right pixels are green, extra ones orange, missed ones
blue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cutlearn.arrays import VOID, AnyArray, Floats, Indices
from cutlearn.errors import InputError, import_moved
from cutlearn.images.write import PALETTE
from cutlearn.metrics import Beliefs, confusion, entropy
from cutlearn.run.progress import StepLike
from cutlearn.shape.generative import Shapes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from cutlearn.model.boltzmann import BoltzmannSegmenter

__all__ = [
    "AreaDisplay",
    "MasksDisplay",
    "ProbabilityDisplay",
    "ReliabilityDisplay",
    "RocDisplay",
    "ShapesDisplay",
    "TrainingDisplay",
]


# Colours of lines, distinct for all kinds of colour vision.
LINES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
HIT, EXTRA, MISSED, UNKNOWN = (0, 158, 115), (230, 110, 0), (60, 140, 230), (128, 128, 128)
COLORS = {"hit": HIT, "extra": EXTRA, "missed": MISSED}
# How strongly a colour covers the image: right pixels stay see-through, wrong ones stand out.
COVER = {"hit": 0.45, "extra": 0.85, "missed": 0.85}
# Bins with fewer pixels than this part of all are too noisy, and not drawn.
RARE = 1e-4
# Of a picture of shapes: small pictures in a row, inches of one, the part of it that stays between
# them, the part of the figure for titles, the part of a small picture between rows, and sweeps.
COLUMNS, WIDTH, GAP, TITLES, BETWEEN, SWEEPS = 12, 0.75, 0.06, 0.11, 0.2, 2000

Tiles = npt.NDArray[np.floating[Any]]


def _new_figure(width: float, height: float) -> Figure:
    """Return a figure that pyplot does not hold."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def new_axes(size: tuple[float, float]) -> Axes:
    """Return the axes of a new figure."""
    return _new_figure(*size).subplots()


def bare(ax: Axes, picture: bool = False) -> None:
    """Hide the frame lines without numbers; of a picture all, and the ticks."""
    if picture:
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
    ax.spines[["top", "right"]].set_visible(False)


def rgb(image: AnyArray) -> Floats:
    """Return an image as colours, (h, w, 3) in [0, 1], stretched to the range of its values."""
    values = np.asarray(image, np.float64)
    # A few hot pixels must not darken all others.
    low, high = np.quantile(values, [0.002, 0.998])
    values = np.clip((values - low) / max(high - low, 1e-9), 0, 1)
    return np.repeat(values[..., None], 3, axis=2) if values.ndim == 2 else values[..., :3]


def borders_over(image: AnyArray, mask: AnyArray, numbers: AnyArray | None = None) -> Floats:
    """Return an image with the borders of the labels of a mask, each label in its own colour.

    With the map `numbers` of objects, borders are those of objects, also where two objects touch.
    Pixels of no object are tinted, without a border.
    """
    painted = rgb(image)
    parts = mask if numbers is None else numbers
    padded, inner = np.pad(parts, 1, mode="edge"), np.ones(mask.shape, bool)
    for rows, columns in ((0, 1), (2, 1), (1, 0), (1, 2)):
        inner &= padded[rows:, columns:][: mask.shape[0], : mask.shape[1]] == parts
    inner |= parts == 0
    for label in np.unique(mask[mask > 0]):
        where, color = mask == label, np.array(PALETTE[1 + (int(label) - 1) % 7]) / 255
        painted[where & inner] = 0.75 * painted[where & inner] + 0.25 * color
        painted[where & ~inner] = color
    return painted


def labels_over(image: Floats, labels: AnyArray, colors: Sequence[tuple[int, int, int]]) -> Floats:
    """Return an image with every label painted over it in its colour, of up to 255.

    Void pixels are greyed.
    """
    painted = np.array(image, np.float64)
    for label in np.unique(labels):
        color = UNKNOWN if label == VOID else colors[int(label)]
        where = labels == label
        painted[where] = 0.35 * painted[where] + 0.65 * np.array(color) / 255
    return painted


def errors_over(image: Floats, truth: AnyArray, predicted: AnyArray, label: int = 1) -> Floats:
    """Return an image with the right, extra and missed pixels of a label painted over it.

    Void pixels of the truth are greyed.
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


@dataclass
class _AxesDisplay:
    """A display that is drawn into a pair of axes."""

    ax_: Axes = field(init=False, repr=False)
    figure_: Figure | SubFigure = field(init=False, repr=False)

    def _into(self, ax: Axes | None, size: tuple[float, float]) -> Axes:
        """Return the axes to draw into, by default those of a new figure."""
        self.ax_ = new_axes(size) if ax is None else ax
        self.figure_ = self.ax_.figure
        return self.ax_


@dataclass
class MasksDisplay:
    """Images next to their true masks and the predictions of one or more models.

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

    images: list[Floats]
    truths: list[AnyArray]
    predictions: dict[str, list[AnyArray]]
    axes_: AnyArray = field(init=False, repr=False)
    figure_: Figure | SubFigure = field(init=False, repr=False)

    @classmethod
    def from_predictions(
        cls,
        images: Sequence[npt.ArrayLike],
        truths: Sequence[npt.ArrayLike],
        predictions: Sequence[npt.ArrayLike] | Mapping[str, Sequence[npt.ArrayLike]],
    ) -> MasksDisplay:
        """Return the display of the masks of one model, or of several by name."""
        models = predictions if isinstance(predictions, Mapping) else {"prediction": predictions}
        lengths = {len(images), len(truths), *(len(masks) for masks in models.values())}
        if len(lengths) != 1 or 0 in lengths:
            raise InputError(
                f"masks: images, truths and predictions are lists of lengths {sorted(lengths)}, "
                "but they must be equally long, and not empty. Give one mask for each image."
            )
        return cls(
            [rgb(np.asarray(image)) for image in images],
            [np.asarray(mask) for mask in truths],
            {name: [np.asarray(mask) for mask in masks] for name, masks in models.items()},
        )

    def plot(self, figure: Any = None) -> MasksDisplay:
        """Draw a row for each image into a figure (or a part of one), or into a new figure."""
        columns = 2 + len(self.predictions)
        figure = figure or _new_figure(2.6 * columns, 2.1 * len(self.images) + 0.6)
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
                bare(ax, picture=True)
                if row == 0:
                    ax.set_title(title, fontsize="medium")
        from matplotlib.patches import Patch

        words = {
            "hit": "right",
            "extra": "extra (predicted, not true)",
            "missed": "missed (true, not predicted)",
        }
        patches = [Patch(color=np.array(COLORS[kind]) / 255, label=words[kind]) for kind in COLORS]
        figure.legend(handles=patches, loc="outside lower center", ncols=3, frameon=False,
                      fontsize="small")  # fmt: skip
        return self


def _verdict(truth: AnyArray, predicted: AnyArray) -> str:
    """Return the IoU of a mask and the error of its area, in a few words."""
    table = confusion(truth, predicted)
    true, found = table.area()
    area = f", area {(found - true) / true:+.1%}" if true else ""
    return f"IoU {table.iou():.2f}{area}"


@dataclass
class AreaDisplay(_AxesDisplay):
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

    def plot(self, ax: Axes | None = None, title: str = "areas of all images") -> AreaDisplay:
        """Draw the points into axes, or into a new figure."""
        ax = self._into(ax, (3.5, 3.5))
        true = np.asarray(self.true_area, np.float64)
        values = np.concatenate([true, *(np.ravel(v) for v in self.predicted.values())])
        low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
        margin = (0.08 * (high - low) or 1.0) if values.size else 0.0
        low, top = max(0.0, low - margin), high + margin
        ax.plot([low, top], [low, top], color="0.6", lw=1, zorder=0)
        for color, mark, (name, areas) in zip(LINES[1::-1], "os", self.predicted.items()):
            ax.scatter(true, areas, s=18, color=color, marker=mark, alpha=0.75, lw=0, label=name)
        ax.set(title=title, xlabel="true area (pixels)", ylabel="predicted area (pixels)")
        ax.set(xlim=(low, top), ylim=(low, top), aspect="equal")
        ax.legend(loc="lower right", frameon=False, fontsize="small", handletextpad=0.1)
        bare(ax)
        return self


@dataclass
class _BeliefsDisplay(_AxesDisplay):
    """A diagram in the unit square with one curve for each model."""

    beliefs: Mapping[str, Beliefs]

    def _curves(
        self, ax: Axes | None, legend: str, **words: str
    ) -> Iterator[tuple[str, str, Beliefs]]:
        """Set up the axes, yield the colour, name and counts of each model, add the legend."""
        ax = self._into(ax, (3.8, 3.8))
        ax.plot([0, 1], [0, 1], color="0.6", lw=1, zorder=0)
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal", **words)
        yield from ((color, *item) for color, item in zip(LINES, self.beliefs.items()))
        ax.legend(loc=legend, frameon=False, fontsize="small")
        bare(ax)


class ReliabilityDisplay(_BeliefsDisplay):
    """True shares against probabilities: on the diagonal, both are equal.

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

    def plot(self, ax: Axes | None = None, title: str = "reliability") -> ReliabilityDisplay:
        """Draw a line for each model into axes, or into a new figure."""
        words = {"xlabel": "probability of the object", "ylabel": "true share of the object"}
        for color, name, found in self._curves(ax, "upper left", title=title, **words):
            pixels, believed, true = found.bins
            kept = pixels > RARE * pixels.sum()
            n = pixels[kept]
            label = f"{name}: error {found.calibration_error():.2%}"
            x, y = believed[kept] / n, true[kept] / n
            self.ax_.plot(x, y, color=color, lw=1.2, label=label)
            # Large dots carry many pixels, on a logarithmic scale: most pixels are nearly sure.
            size = 6 + 30 * (1 + np.log10(n / pixels.sum()) / -np.log10(RARE)).clip(0, 1)
            self.ax_.scatter(x, y, s=size, color=color, lw=0)
        return self


class RocDisplay(_BeliefsDisplay):
    """True-positive against false-positive rate, at every threshold.

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

    def plot(self, ax: Axes | None = None, title: str = "ROC") -> RocDisplay:
        """Draw a curve for each model into axes, or into a new figure."""
        words = {"xlabel": "part of the rest taken too", "ylabel": "part of the object found"}
        for color, name, found in self._curves(ax, "lower right", title=title, **words):
            label = f"{name}: area {found.auc():.4f}"
            self.ax_.plot(*found.roc(), color=color, lw=1.5, label=label)
        return self


@dataclass
class ProbabilityDisplay:
    """Images next to the probability of a label and its entropy.

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

    images: Sequence[AnyArray]
    probabilities: Sequence[npt.NDArray[np.floating]]
    label: int = 1
    axes_: AnyArray = field(init=False, repr=False)
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
        self.figure_ = figure = figure or _new_figure(9.2, 2.3 * n + 0.5)
        self.axes_ = figure.subplots(n, 3, squeeze=False)
        for axes, image, q in zip(self.axes_, self.images, map(np.asarray, self.probabilities)):
            doubt, top = entropy(q), float(np.log2(q.shape[-1]))
            axes[0].imshow(rgb(np.asarray(image)), interpolation="nearest")
            maps = ((q[..., self.label], "viridis", 1.0), (doubt, "magma", top))
            for ax, (values, colors, high) in zip(axes[1:], maps):
                drawn = ax.imshow(values, cmap=colors, vmin=0, vmax=high, interpolation="nearest")
                figure.colorbar(drawn, ax=ax, shrink=0.85, pad=0.02).outline.set_visible(False)
            axes[2].set_xlabel(f"{doubt.mean():.3f} bits a pixel", fontsize="small")
            for ax in axes:
                bare(ax, picture=True)
        for ax, title in zip(self.axes_[0], ("image", "probability", "entropy (bits)")):
            ax.set_title(title, fontsize="medium")
        return self


@dataclass
class ShapesDisplay:
    """The shapes that a model has learned, in rows of small pictures.

    Parameters
    ----------
    rows : dict from a title to (k, h, w) arrays
        "filters" is signed: red favours the object, blue the background. Others are
        probabilities of the object, from black to white.
    boxes : sequence of ((row, column), (rows, columns))
        The patches, corner and size, that are framed in the row "patches".

    Attributes
    ----------
    axes_ : dict from a title to the axes of its row
    figure_ : Figure

    Examples
    --------
    >>> import numpy as np
    >>> from cutlearn.report.displays import ShapesDisplay
    >>> from cutlearn.shape.generative import fit_shapes
    >>> masks = np.tril(np.ones((4, 8, 8)))
    >>> shown = ShapesDisplay.from_model(fit_shapes(masks, (8,), (10,)), masks).plot()
    >>> list(shown.axes_)
    ['filters', 'samples', 'mask', 'given', 'completed', 'seen through']
    """

    rows: dict[str, Tiles]
    boxes: Sequence[tuple[tuple[int, int], tuple[int, int]]] = ()
    axes_: dict[str, Any] = field(init=False, repr=False)
    figure_: Figure | SubFigure = field(init=False, repr=False)

    @classmethod
    def from_model(
        cls,
        model: Shapes | BoltzmannSegmenter,
        masks: npt.ArrayLike | None = None,
        known: npt.ArrayLike | None = None,
        random_state: int = 0,
    ) -> ShapesDisplay:
        """Return the strongest filters of a model, its samples, and masks that it completes.

        Parameters
        ----------
        model : Shapes, or a fitted BoltzmannSegmenter
        masks : (k, rows, columns) of 0 and 1, optional
            At the model's size; at most 12 are shown.
        known : (rows, columns) of bool, optional
            The part of the masks that is given, the upper two thirds if left out.
        random_state : int
        """
        shapes = model if isinstance(model, Shapes) else model.shapes()
        patches = shapes.patches
        strong = np.argsort(-np.abs(shapes.W).sum(axis=0), kind="stable")[: 2 * COLUMNS]
        rows: dict[str, Tiles] = {"filters": shapes.W[:, strong].T.reshape(-1, *patches.size)}
        samples = shapes.sample(2 * COLUMNS, SWEEPS, random_state)
        boxes = [(corner, patches.size) for corner in patches.corners]
        if len(boxes) > 1:
            rows["patches"] = np.repeat(samples.mean(axis=0)[None], len(boxes), axis=0)
        rows["samples"] = samples
        if masks is not None:
            some = np.asarray(masks, np.float32)[:COLUMNS]
            given = np.arange(patches.shape[0])[:, None] < 2 * patches.shape[0] // 3
            held = np.broadcast_to(given if known is None else np.asarray(known), patches.shape)
            rows["mask"] = some
            rows["given"] = np.where(held, some, np.float32(0.5))
            rows["completed"] = shapes.complete(some, held, random_state=random_state)
            rows["seen through"] = shapes.reconstruct(some)
        return cls(rows, boxes)

    def plot(self, figure: Any = None) -> ShapesDisplay:
        """Draw every row into a figure (or a part of one), or into a new figure."""
        heights = [_strip(tiles, 0)[0].shape[0] / tiles.shape[2] for tiles in self.rows.values()]
        if figure is None:
            from matplotlib.figure import Figure

            width = WIDTH * COLUMNS * (1 + GAP) / (1 - TITLES)
            height = WIDTH * (sum(heights) + BETWEEN * (len(heights) + 1))
            figure = Figure(figsize=(width, height))
        self.figure_ = figure
        # Set by hand: titles beside axes of equal aspect are cut off by constrained layouts.
        edge = BETWEEN / (sum(heights) + BETWEEN * (len(heights) + 1))
        places = {"left": TITLES, "right": 0.995, "bottom": edge, "top": 1 - edge}
        places["hspace"] = BETWEEN * len(heights) / sum(heights)
        lines = figure.subplots(
            len(heights), 1, squeeze=False, height_ratios=heights, gridspec_kw=places
        )[:, 0]
        self.axes_ = dict(zip(self.rows, lines))
        for (title, tiles), ax in zip(self.rows.items(), lines):
            self._row(ax, title, tiles)
        return self

    def _row(self, ax: Any, title: str, tiles: Tiles) -> None:
        from matplotlib.patches import Rectangle

        top = float(np.abs(tiles).max()) or 1.0
        signed = title == "filters"
        low, high, colors = (-top, top, "RdBu_r") if signed else (0.0, 1.0, "gray")
        strip, corners = _strip(tiles, np.nan)
        width = COLUMNS * (tiles.shape[2] + _gap(tiles)) - _gap(tiles)
        ax.imshow(strip, cmap=colors, vmin=low, vmax=high, interpolation="nearest")
        if title == "patches":
            for (top_, left), ((row, column), size) in zip(corners, self.boxes):
                place = (left + column - 0.5, top_ + row - 0.5)
                ax.add_patch(
                    Rectangle(place, size[1], size[0], fill=False, color="#e66e00", lw=1.2)
                )
        ax.set(xlim=(-0.5, width - 0.5))
        bare(ax, picture=True)
        ax.set_ylabel(title, rotation=0, ha="right", va="center", fontsize="small")


def _gap(tiles: Tiles) -> int:
    return max(1, round(GAP * float(tiles.shape[2])))


def _strip(tiles: Tiles, blank: float) -> tuple[Tiles, list[tuple[int, int]]]:
    """Return pictures side by side in as many lines as needed, and their upper left corners."""
    count, h, w = tiles.shape
    gap = _gap(tiles)
    columns = min(count, COLUMNS)
    lines = -(-count // COLUMNS)
    made = np.full((lines * (h + gap) - gap, columns * (w + gap) - gap), blank, np.float64)
    corners = [(k // COLUMNS * (h + gap), k % COLUMNS * (w + gap)) for k in range(count)]
    for (top, left), tile in zip(corners, tiles):
        made[top : top + h, left : left + w] = tile
    return made, corners


@dataclass
class TrainingDisplay(_AxesDisplay):
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

    steps: Indices
    objective: Floats
    lower_bound: Floats | None
    relative_gap: Floats
    tol: float

    @classmethod
    def from_steps(cls, steps: Sequence[StepLike], bounded: bool = True) -> TrainingDisplay:
        """Return the curve of the steps of a run.

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
        ax = self._into(ax, (4.5, 3.0))
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
        margin = max(high - low, 1e-3 * abs(high), 1e-12)
        bottom = max(min(0.0, float(below[-1])), low - 2 * margin)
        ax.set_ylim(bottom, min(float(self.objective.max()), high + 2 * margin) + 0.2 * margin)
        ax.locator_params(axis="x", integer=True)
        ax.legend(loc="best", frameon=False, fontsize="small", title=note, title_fontsize="small")
        bare(ax)
        return self


def __getattr__(name: str) -> Any:
    if name == "TrajectoryDisplay":
        return import_moved("cutlearn.displays", name, "cutlearn_papers.trajectory")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
