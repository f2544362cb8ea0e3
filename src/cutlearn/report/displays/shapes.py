"""Pictures of learned shapes: filters, where their patches lie, samples, completed masks.

In: a model of shapes, or a fitted BoltzmannSegmenter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cutlearn.shape.generative import Shapes

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

    from cutlearn.model.boltzmann import BoltzmannSegmenter

Tiles = npt.NDArray[np.floating[Any]]
COLUMNS = 12
# Of a tile: inches of its width, and the part of it that is left between tiles.
WIDTH, GAP = 0.75, 0.06
# Of a figure's width, what titles take; of a tile's, what is left between rows.
TITLES, BETWEEN = 0.11, 0.2
SWEEPS = 2000


@dataclass
class ShapesDisplay:
    """What a model of shapes knows, in rows of small pictures.

    Parameters
    ----------
    rows : dict from a title to (k, h, w) arrays
        "filters" is signed: red asks for the object, blue for the background. Others are
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
        """Ask a model for its strongest filters and for samples, and to complete masks.

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
        top = float(np.abs(tiles).max()) or 1.0
        signed = title == "filters"
        low, high, colors = (-top, top, "RdBu_r") if signed else (0.0, 1.0, "gray")
        strip, corners = _strip(tiles, np.nan)
        ax.imshow(strip, cmap=colors, vmin=low, vmax=high, interpolation="nearest")
        if title == "patches":
            for (top_, left), ((row, column), size) in zip(corners, self.boxes):
                _frame(ax, (top_ + row, left + column), size)
        ax.set(xticks=[], yticks=[], xlim=(-0.5, _width(tiles) - 0.5))
        ax.spines[:].set_visible(False)
        ax.set_ylabel(title, rotation=0, ha="right", va="center", fontsize="small")


def _gap(tiles: Tiles) -> int:
    return max(1, round(GAP * float(tiles.shape[2])))


def _width(tiles: Tiles) -> int:
    """Pixels of a full row."""
    return COLUMNS * (int(tiles.shape[2]) + _gap(tiles)) - _gap(tiles)


def _strip(tiles: Tiles, blank: float) -> tuple[Tiles, list[tuple[int, int]]]:
    """Pictures side by side, as many lines as they need; and their upper left corners."""
    count, h, w = tiles.shape
    gap = _gap(tiles)
    columns = min(count, COLUMNS)
    lines = -(-count // COLUMNS)
    made = np.full((lines * (h + gap) - gap, columns * (w + gap) - gap), blank, np.float64)
    corners = [(k // COLUMNS * (h + gap), k % COLUMNS * (w + gap)) for k in range(count)]
    for (top, left), tile in zip(corners, tiles):
        made[top : top + h, left : left + w] = tile
    return made, corners


def _frame(ax: Any, corner: tuple[int, int], size: tuple[int, int]) -> None:
    from matplotlib.patches import Rectangle

    place = (corner[1] - 0.5, corner[0] - 0.5)
    ax.add_patch(Rectangle(place, size[1], size[0], fill=False, color="#e66e00", lw=1.2))
